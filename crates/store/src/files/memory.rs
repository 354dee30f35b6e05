//! Files in memory that can compute what a power loss would leave of them.
//!
//! A file's synced bytes are a prefix, since the store only appends; a folder remembers which file each
//! name meant when it was last synced.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use random::Random;

use super::{File, Files, Held};
use crate::guard::{lock, wait};
use crate::{Error, Result};

/// A disk writes this much atomically (bytes).
const SECTOR_BYTES: usize = 512;

#[derive(Default)]
pub struct Memory {
    names: Mutex<Names>,
    locks: Arc<Locks>,
}

#[derive(Default)]
struct Names {
    now: BTreeMap<String, Arc<MemoryFile>>,
    /// As the folders were last synced.
    durable: BTreeMap<String, Arc<MemoryFile>>,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the files the next boot finds after a power loss now: all that was synced, and of the rest, as the seed
    /// says, nothing, a prefix, or all of it with some sectors never written.
    pub fn crash(&self, seed: u64) -> Memory {
        let mut random = Random::new(seed);
        let names = lock(&self.names);
        let mut left = BTreeMap::new();
        let all: HashSet<&String> = names.now.keys().chain(names.durable.keys()).collect();
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort();
        for name in all {
            let (now, durable) = (names.now.get(name), names.durable.get(name));
            let same = now.zip(durable).is_some_and(|(now, durable)| Arc::ptr_eq(now, durable));
            let kept = if same || random.below(2) == 0 { now } else { durable };
            if let Some(file) = kept {
                left.insert(name.clone(), Arc::new(file.after_crash(&mut random)));
            }
        }
        Memory { names: Mutex::new(Names { durable: left.clone(), now: left }), locks: Arc::default() }
    }

    /// Changes stored bytes in place, as a failing disk would; `change` sees the whole file.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let file = lock(&self.names).now.get(name).cloned().expect("the file to damage is there");
        change(&mut lock(&file.content).bytes);
    }

    /// Returns a copy that shares nothing with this one.
    pub fn copy(&self) -> Memory {
        let names = lock(&self.names);
        let now: BTreeMap<_, _> = names.now.iter().map(|(name, file)| (name.clone(), Arc::new(file.copy()))).collect();
        Memory { names: Mutex::new(Names { durable: now.clone(), now }), locks: Arc::default() }
    }
}

impl Files for Memory {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let mut names = lock(&self.names);
        if names.now.contains_key(name) {
            return Err(Error::Io { path: name.to_owned(), source: ErrorKind::AlreadyExists.into() });
        }
        let file = Arc::new(MemoryFile::new(name));
        names.now.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        match lock(&self.names).now.get(name) {
            Some(file) => Ok(file.clone()),
            None => Err(Error::NotFound { what: name.to_owned() }),
        }
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(lock(&self.names).now.contains_key(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let below = format!("{folder}/");
        Ok(lock(&self.names).now.keys().filter(|name| name.starts_with(&below)).cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<()> {
        lock(&self.names).now.remove(name);
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = Arc::new(MemoryFile::new(name));
        file.write_at(0, &[bytes])?;
        file.sync()?;
        lock(&self.names).now.insert(name.to_owned(), file);
        self.sync_folder(name)
    }

    fn sync_folder(&self, name: &str) -> Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inside = |other: &String| other.rsplit_once('/').map_or("", |(folder, _)| folder) == folder;
        let mut names = lock(&self.names);
        let Names { now, durable } = &mut *names;
        durable.retain(|other, _| !inside(other));
        durable
            .extend(now.iter().filter(|(other, _)| inside(other)).map(|(other, file)| (other.clone(), file.clone())));
        Ok(())
    }

    fn lock(&self, name: &str, _: Duration) -> Result<Held> {
        let mut held = lock(&self.locks.held);
        while held.contains(name) {
            held = wait(&self.locks.freed, held);
        }
        held.insert(name.to_owned());
        Ok(Box::new(HeldLock { locks: self.locks.clone(), name: name.to_owned() }))
    }

    fn try_lock(&self, name: &str) -> Result<Option<Held>> {
        if !lock(&self.locks.held).insert(name.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(HeldLock { locks: self.locks.clone(), name: name.to_owned() })))
    }
}

struct MemoryFile {
    name: String,
    content: Mutex<Content>,
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    synced_bytes: usize,
}

impl MemoryFile {
    fn new(name: &str) -> Self {
        MemoryFile { name: name.to_owned(), content: Mutex::default() }
    }

    fn copy(&self) -> Self {
        let mut content = lock(&self.content).clone();
        content.synced_bytes = content.bytes.len();
        MemoryFile { name: self.name.clone(), content: Mutex::new(content) }
    }

    fn after_crash(&self, random: &mut Random) -> MemoryFile {
        let left = self.copy();
        let synced_bytes = lock(&self.content).synced_bytes;
        let mut content = lock(&left.content);
        let unsynced_bytes = content.bytes.len() - synced_bytes;
        match random.below(4) {
            0 => content.bytes.truncate(synced_bytes),
            1 => content.bytes.truncate(synced_bytes + random.index(unsynced_bytes + 1)),
            2 => {
                for sector in content.bytes[synced_bytes..].chunks_mut(SECTOR_BYTES) {
                    if random.below(4) == 0 {
                        sector.fill(0);
                    }
                }
            }
            _ => {}
        }
        content.synced_bytes = content.bytes.len();
        drop(content);
        left
    }
}

impl File for MemoryFile {
    fn path(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let content = lock(&self.content);
        let end = offset.saturating_add(to.len() as u64);
        if end > content.bytes.len() as u64 {
            let why = "the file ends before what should be here does".to_owned();
            return Err(Error::Corrupt { path: self.name.clone(), offset, why });
        }
        to.copy_from_slice(&content.bytes[offset as usize..end as usize]);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[&[u8]]) -> Result<()> {
        let mut content = lock(&self.content);
        let mut at = offset as usize;
        content.synced_bytes = content.synced_bytes.min(at);
        for piece in pieces {
            let end = at + piece.len();
            if content.bytes.len() < end {
                content.bytes.resize(end, 0);
            }
            content.bytes[at..end].copy_from_slice(piece);
            at = end;
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(lock(&self.content).bytes.len() as u64)
    }

    fn sync(&self) -> Result<()> {
        let mut content = lock(&self.content);
        content.synced_bytes = content.bytes.len();
        Ok(())
    }
}

#[derive(Default)]
struct Locks {
    held: Mutex<HashSet<String>>,
    freed: Condvar,
}

struct HeldLock {
    locks: Arc<Locks>,
    name: String,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        lock(&self.locks.held).remove(&self.name);
        self.locks.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_every_crash_and_some_of_the_rest_does_not() {
        let files = Memory::new();
        let file = files.create("a/file").unwrap();
        file.write_at(0, &[&[7; 1000]]).unwrap();
        file.sync().unwrap();
        files.sync_folder("a/file").unwrap();
        file.write_at(1000, &[&[8; 5000]]).unwrap();
        files.create("a/nameless").unwrap();
        let mut lengths = HashSet::new();
        let mut named = HashSet::new();
        for seed in 0..64 {
            let after = files.crash(seed);
            let found = after.open("a/file").unwrap();
            assert_eq!(found.read(0, 1000).unwrap(), [7; 1000], "seed {seed}");
            lengths.insert(found.length().unwrap());
            named.insert(after.exists("a/nameless").unwrap());
        }
        assert!(lengths.contains(&1000) && lengths.contains(&6000) && lengths.len() > 4, "{lengths:?}");
        assert_eq!(named.len(), 2);
    }
}

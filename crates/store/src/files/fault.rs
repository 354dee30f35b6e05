//! Files that fail on demand: one call in the life of a store goes wrong, or that one and all after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use random::Random;

use super::{File, Files, Held};
use crate::{Error, Result};

/// The fault at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call does nothing and fails.
    Fail,
    /// A write leaves a prefix of itself (its length from the seed) and fails; other calls just fail.
    Tear { seed: u64 },
    /// As [`Fault::Fail`], saying that the disk is full.
    Full,
}

/// Wraps files and counts the calls that touch the disk, from 1.
pub struct Faulty {
    inner: Arc<dyn Files>,
    plan: Arc<Plan>,
}

struct Plan {
    fault: Fault,
    at: AtomicU64,
    /// The fault lasts: all later calls fail too.
    lasting: bool,
    calls: AtomicU64,
}

impl Faulty {
    /// Makes call number `at` alone fail; 0 is never.
    pub fn once(inner: Arc<dyn Files>, at: u64, fault: Fault) -> Self {
        Faulty { inner, plan: Arc::new(Plan { fault, at: at.into(), lasting: false, calls: AtomicU64::new(0) }) }
    }

    /// Makes call number `at` fail, and every one after it.
    pub fn from(inner: Arc<dyn Files>, at: u64, fault: Fault) -> Self {
        Faulty { inner, plan: Arc::new(Plan { fault, at: at.into(), lasting: true, calls: AtomicU64::new(0) }) }
    }

    /// Makes the next call fail.
    pub fn fail_next(&self) {
        self.plan.at.store(self.calls() + 1, Ordering::SeqCst);
    }

    /// Returns the number of calls until now.
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::SeqCst)
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner: file, plan: self.plan.clone() })
    }
}

impl Plan {
    /// Returns the fault of this call, if any.
    fn next(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match self.at.load(Ordering::SeqCst) {
            0 => None,
            at if call == at => Some(self.fault),
            at if call > at && self.lasting => Some(Fault::Fail),
            _ => None,
        }
    }

    fn pass(&self, path: &str) -> Result<()> {
        self.next().map_or(Ok(()), |fault| Err(error(fault, path)))
    }
}

fn error(fault: Fault, path: &str) -> Error {
    let path = path.to_owned();
    match fault {
        Fault::Full => Error::Full { path },
        _ => Error::Io { path, source: std::io::Error::other("a fault was injected here") },
    }
}

impl Files for Faulty {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.plan.pass(name)?;
        Ok(self.wrap(self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.plan.pass(name)?;
        Ok(self.wrap(self.inner.open(name)?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.plan.pass(name)?;
        self.inner.exists(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.plan.pass(folder)?;
        self.inner.list(folder)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.plan.pass(name)?;
        self.inner.remove(name)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.plan.pass(name)?;
        self.inner.replace(name, bytes)
    }

    fn sync_folder(&self, name: &str) -> Result<()> {
        self.plan.pass(name)?;
        self.inner.sync_folder(name)
    }

    fn hold_folder(&self, folder: &str) {
        self.inner.hold_folder(folder);
    }

    fn displaced(&self, open: Option<(&str, &dyn File)>) -> Result<Option<String>> {
        self.inner.displaced(open)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Held> {
        self.plan.pass(name)?;
        self.inner.lock(name, timeout)
    }

    fn try_lock(&self, name: &str) -> Result<Option<Held>> {
        self.plan.pass(name)?;
        self.inner.try_lock(name)
    }
}

struct FaultyFile {
    inner: Arc<dyn File>,
    plan: Arc<Plan>,
}

impl File for FaultyFile {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.plan.pass(self.path())?;
        self.inner.read_at(offset, to)
    }

    fn write_at(&self, offset: u64, pieces: &[&[u8]]) -> Result<()> {
        let Some(fault) = self.plan.next() else { return self.inner.write_at(offset, pieces) };
        if let Fault::Tear { seed } = fault {
            let whole = pieces.concat();
            let kept = Random::new(seed).index(whole.len());
            self.inner.write_at(offset, &[&whole[..kept]])?;
        }
        Err(error(fault, self.path()))
    }

    fn length(&self) -> Result<u64> {
        self.plan.pass(self.path())?;
        self.inner.length()
    }

    fn sync(&self) -> Result<()> {
        self.plan.pass(self.path())?;
        self.inner.sync()
    }

    fn identity(&self) -> Result<Option<(u64, u64)>> {
        self.inner.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn the_chosen_call_tears_and_the_next_one_works() {
        let memory = Arc::new(Memory::new());
        let files = Faulty::once(memory.clone(), 2, Fault::Tear { seed: 5 });
        let file = files.create("f").unwrap();
        assert!(file.write_at(0, &[&[1; 100]]).is_err());
        let torn_bytes = memory.open("f").unwrap().length().unwrap();
        assert!(torn_bytes < 100);
        file.write_at(0, &[&[1; 100]]).unwrap();
        assert_eq!(files.calls(), 3);
    }
}

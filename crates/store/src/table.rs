//! The fingerprint table: fingerprint → address, as a hint.
//!
//! Sorted runs on disk that never change, a filter and fences for each in memory (about 1.2 bytes an entry), and a list
//! of the runs that every process re-reads. Losing any of it costs duplicates, never data, so nothing here is synced
//! but merged runs and the list that names them. Unreadable runs are left out.

mod fences;
mod list;
mod merge;
mod run;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use format::{Fingerprint, SegmentAddress, StoreId, TABLE_PREFIX_BYTES, TableEntry};

use crate::Result;
use crate::files::{File, Files};
use crate::guard::lock;
pub use list::FOLDER as TABLE_FOLDER;
use list::{RunList, RunRecord};
use run::Run;

/// Most entries in a run when the table is rebuilt; merging makes longer ones (96 MB).
const REBUILT_RUN_ENTRIES: usize = 4 << 20;

pub struct Table {
    files: Arc<dyn Files>,
    store: StoreId,
    list: RunList,
    /// Runs of other processes are seen after at most this long.
    reread_after: Duration,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    runs: Arc<Vec<Arc<Run>>>,
    /// Runs that could not be read: not tried again.
    unreadable: HashSet<RunRecord>,
    read_at: Option<Instant>,
}

impl Table {
    /// Opens a table. An empty or missing folder is an empty table.
    pub fn new(files: Arc<dyn Files>, store: StoreId, reread_after: Duration) -> Self {
        let loaded = Loaded { runs: Arc::default(), unreadable: HashSet::new(), read_at: None };
        Table { list: RunList::new(files.clone()), files, store, reread_after, loaded: Mutex::new(loaded) }
    }

    /// Returns the runs as known now; look-ups of one batch use one answer.
    pub fn runs(&self) -> Runs {
        let mut loaded = lock(&self.loaded);
        if loaded.read_at.is_none_or(|then| then.elapsed() >= self.reread_after) {
            self.reread(&mut loaded);
        }
        Runs(loaded.runs.clone())
    }

    /// Makes entries findable, here at once and for other processes when they re-read the list.
    pub fn publish(&self, mut entries: Vec<TableEntry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        sort(&mut entries);
        let _held = self.list.lock()?;
        let record = self.write_run(self.list.next_number()?, entries.into_iter())?;
        self.list.append(&record)?;
        self.reread(&mut lock(&self.loaded));
        Ok(())
    }

    /// Merges once, if enough runs of one size exist and no other process is merging. Returns whether it did.
    pub fn merge(&self) -> Result<bool> {
        let Some(_lease) = self.list.try_lease()? else { return Ok(false) };
        self.reread(&mut lock(&self.loaded));
        let runs = lock(&self.loaded).runs.clone();
        let chosen = merge::choose(&runs);
        if chosen.is_empty() {
            return Ok(false);
        }
        let merged = self.write_durable_run(merge::merged(&chosen))?;
        let replaced: Vec<RunRecord> = chosen.iter().map(|run| run.record).collect();
        self.exchange(&replaced, &[merged])?;
        Ok(true)
    }

    /// Replaces all entries by these, and removes runs that cannot be read. Entries that others publish meanwhile stay.
    pub fn rebuild(&self, entries: impl Iterator<Item = Result<TableEntry>>) -> Result<()> {
        let _lease = self.list.lease()?;
        let before = self.list.read()?;
        let mut rebuilt = Vec::new();
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let mut some = entries.by_ref().take(REBUILT_RUN_ENTRIES).collect::<Result<Vec<_>>>()?;
            sort(&mut some);
            rebuilt.push(self.write_durable_run(some.into_iter())?);
        }
        self.exchange(&before, &rebuilt)?;
        self.remove_strays()
    }

    /// Returns the memory that the runs' filters and fences take (bytes).
    pub fn memory_bytes(&self) -> usize {
        lock(&self.loaded).runs.iter().map(|run| run.memory_bytes()).sum()
    }

    /// Returns the number of entries in all runs, duplicates included.
    pub fn entries(&self) -> u64 {
        self.runs().0.iter().map(|run| run.record.entries).sum()
    }

    /// Writes a run that will be listed for others. Its number is reserved under the lock, by its file; the rest is
    /// written without it, under the lease alone.
    fn write_durable_run(&self, entries: impl Iterator<Item = TableEntry>) -> Result<RunRecord> {
        let (number, file) = {
            let _held = self.list.lock()?;
            let number = self.list.next_number()?;
            (number, self.files.create(&RunRecord::file_name_of(number))?)
        };
        self.fill_run(number, &*file, entries).and_then(|record| file.sync().map(|()| record))
    }

    /// Writes a run. Needs the list's lock.
    fn write_run(&self, number: u64, entries: impl Iterator<Item = TableEntry>) -> Result<RunRecord> {
        let file = self.files.create(&RunRecord::file_name_of(number))?;
        self.fill_run(number, &*file, entries)
    }

    fn fill_run(&self, number: u64, file: &dyn File, entries: impl Iterator<Item = TableEntry>) -> Result<RunRecord> {
        let written = run::write(file, self.store, number, entries);
        if written.is_err() {
            // Best effort: an unlisted file is harmless, and gone with the next rebuild.
            let _ = self.files.remove(&RunRecord::file_name_of(number));
        }
        written
    }

    fn exchange(&self, old: &[RunRecord], new: &[RunRecord]) -> Result<()> {
        let _held = self.list.lock()?;
        self.list.exchange(old, new)?;
        self.reread(&mut lock(&self.loaded));
        // Processes that have the old runs open can go on reading them.
        old.iter().try_for_each(|record| self.files.remove(&record.file_name()))
    }

    /// Removes runs that are in no list: left by a crash, or by a list that was lost.
    fn remove_strays(&self) -> Result<()> {
        let _held = self.list.lock()?;
        let listed: HashSet<String> = self.list.read()?.iter().map(RunRecord::file_name).collect();
        let stray = |name: &String| list::is_run(name) && !listed.contains(name);
        self.files.list(list::FOLDER)?.iter().filter(|name| stray(name)).try_for_each(|name| self.files.remove(name))
    }

    /// Reads the list again; an unreadable list changes nothing.
    fn reread(&self, loaded: &mut Loaded) {
        loaded.read_at = Some(Instant::now());
        let Ok(records) = self.list.read() else { return };
        let mut runs = Vec::with_capacity(records.len());
        for record in records {
            if let Some(known) = loaded.runs.iter().find(|run| run.record == record) {
                runs.push(known.clone());
            } else if !loaded.unreadable.contains(&record) {
                match Run::open(&*self.files, self.store, record) {
                    Ok(run) => runs.push(Arc::new(run)),
                    // Removed since the list was read, or damaged.
                    Err(_) => drop(loaded.unreadable.insert(record)),
                }
            }
        }
        loaded.runs = Arc::new(runs);
    }
}

/// The runs at one moment.
pub struct Runs(Arc<Vec<Arc<Run>>>);

impl Runs {
    /// Returns where a segment with this fingerprint may lie, newest entries first; the container decides.
    pub fn candidates(&self, fingerprint: &Fingerprint) -> Vec<SegmentAddress> {
        let prefix: &[u8; TABLE_PREFIX_BYTES] = fingerprint.0.first_chunk().expect("16 of 32 bytes");
        let mut addresses = Vec::new();
        for run in self.0.iter().rev() {
            run.find(prefix, &mut addresses);
        }
        addresses
    }
}

fn sort(entries: &mut Vec<TableEntry>) {
    entries.sort_unstable();
    entries.dedup();
}

#[cfg(test)]
mod tests;

//! The list of runs: records of a fixed size, appended by publishers, replaced as a whole by mergers.
//!
//! A record with a wrong checksum (torn by a crash) is skipped. Changes are made under a lock that is held briefly;
//! merging and rebuilding are made under a lease of their own, so that publishing need not wait.

use std::sync::Arc;
use std::time::Duration;

use format::{Reader, Writer, checksum};

use crate::Result;
use crate::files::{Files, Held};

pub const FOLDER: &str = "table";
const NAME: &str = "table/runs";
const LOCK: &str = "table/runs.lock";
const LEASE: &str = "table/merge.lock";
/// Held by others than writers that change the list, or by one that was stopped, the lock must not stop all: what is not
/// published is stored again where it comes again.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// Merging the longest runs takes minutes.
const LEASE_LIMIT: Duration = Duration::from_secs(600);
const RUN_ENDING: &str = ".run";
pub const RECORD_BYTES: usize = 32;

/// Identifies a run: numbers may repeat after the folder was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunRecord {
    pub number: u64,
    pub entries: u64,
    /// Checksum of the run's fences and filters.
    pub checksum: u64,
}

impl RunRecord {
    pub fn file_name(&self) -> String {
        Self::file_name_of(self.number)
    }

    pub fn file_name_of(number: u64) -> String {
        format!("{FOLDER}/{number:016x}{RUN_ENDING}")
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut to = Writer::new();
        let mut bytes = to.u64(self.number).u64(self.entries).u64(self.checksum).finish();
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes.try_into().expect("four numbers of eight bytes")
    }

    fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let (body, sum) = bytes.split_at(RECORD_BYTES - 8);
        let mut from = Reader::new("run list", body);
        let record = RunRecord { number: from.u64().ok()?, entries: from.u64().ok()?, checksum: from.u64().ok()? };
        (checksum(body).to_le_bytes() == *sum).then_some(record)
    }
}

pub fn is_run(name: &str) -> bool {
    name.ends_with(RUN_ENDING)
}

pub struct RunList {
    files: Arc<dyn Files>,
}

impl RunList {
    pub fn new(files: Arc<dyn Files>) -> Self {
        RunList { files }
    }

    /// Takes the lock, to be held while the list is changed, and only then.
    pub fn lock(&self) -> Result<Held> {
        self.files.lock(LOCK, LOCK_LIMIT)
    }

    /// Takes the lease, to be held while runs are merged; none when another process merges.
    pub fn try_lease(&self) -> Result<Option<Held>> {
        self.files.try_lock(LEASE)
    }

    pub fn lease(&self) -> Result<Held> {
        self.files.lock(LEASE, LEASE_LIMIT)
    }

    /// Returns the records, oldest first; a missing list is an empty one.
    pub fn read(&self) -> Result<Vec<RunRecord>> {
        if !self.files.exists(NAME)? {
            return Ok(Vec::new());
        }
        let file = self.files.open(NAME)?;
        let bytes = file.read(0, file.length()? as usize)?;
        Ok(bytes.as_chunks::<RECORD_BYTES>().0.iter().filter_map(RunRecord::decode).collect())
    }

    /// Returns a number that no run has, listed or stray. Needs the lock.
    pub fn next_number(&self) -> Result<u64> {
        let number = |name: &String| {
            let digits = name.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(RUN_ENDING)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let lying = self.files.list(FOLDER)?.iter().filter_map(number).max();
        let listed = self.read()?.iter().map(|record| record.number).max();
        Ok(lying.max(listed).map_or(1, |highest| highest.wrapping_add(1)))
    }

    /// Appends a record. Needs the lock. Not synced: a lost record costs duplicates. A torn one before it is
    /// overwritten.
    pub fn append(&self, record: &RunRecord) -> Result<()> {
        let file = if self.files.exists(NAME)? { self.files.open(NAME)? } else { self.files.create(NAME)? };
        let end = file.length()? / RECORD_BYTES as u64 * RECORD_BYTES as u64;
        file.write_at(end, &[&record.encode()])
    }

    /// Removes `old` and puts `new` before the rest. Needs the lock.
    pub fn exchange(&self, old: &[RunRecord], new: &[RunRecord]) -> Result<()> {
        let kept = self.read()?.into_iter().filter(|record| !old.contains(record));
        let bytes: Vec<u8> = new.iter().copied().chain(kept).flat_map(|record| record.encode()).collect();
        self.files.replace(NAME, &bytes)
    }
}

//! The segment store over [`Files`]: one open container that all threads append to, containers on disk, the table as a
//! hint.
//!
//! Locks, in the order they may be taken: `turn` (the right to write parts), `sealing` or `opening`, then `writing`
//! (data being written), then `claims`. Only the first three may be held while the disk or the catalog works. After a
//! failed write or sync nothing more is accepted: memory may have the only copy of some segments. A write for want of
//! room is no such failure: it ends its container only (`full_disk.rs`).
//!
//! The shared state of all threads ([`Shared`]) has its steps in a file each, in the order of a segment's life: `lookup.rs`,
//! `writing.rs`, `durability.rs`, `reading.rs`, `damage.rs`, `rewriting.rs`. They lock in the order above.

mod background_merge;
mod claims;
mod containers;
mod damage;
mod durability;
mod full_disk;
mod inspection;
mod lookup;
mod reading;
mod rewriting;
mod writing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use format::{
    Block, ContainerId, Fingerprint, FingerprintKind, LostSegment, Run, SegmentAddress, SegmentEntry, Settings, StoreId,
};

pub use containers::UNCLOSED_END;
pub use inspection::{ReadableParts, Report};

use crate::container::FOLDER;
use crate::files::Files;
use crate::guard::lock;
use crate::table::Table;
use crate::{Answer, ClaimOwner, Error, Registrar, Result, SegmentStore, StoredBlock};
use background_merge::BackgroundMerge;
use claims::Claims;
use containers::Containers;
use damage::Damage;
use durability::Rounds;
use writing::WriteState;

/// How long other processes' changes may go unseen, and this one's unpublished.
const PACE: Duration = Duration::from_secs(1);

/// How a store behaves; none of it is stored.
#[derive(Clone, Debug)]
pub struct Options {
    /// A container is closed when it would grow beyond this (bytes stored).
    pub container_bytes: u64,
    /// A part is written when it has this much data (bytes stored).
    pub part_bytes: usize,
    /// Memory for indexes of containers on disk (bytes).
    pub index_cache_bytes: usize,
    /// Container files kept open.
    pub open_files: usize,
    /// An open container of at least a part is closed when nothing was put for this long, so that it can be collected.
    /// Only with `background`.
    pub idle_timeout: Duration,
    /// A thread seals containers, publishes table runs every second and merges them. Without it these are done within
    /// `make_durable` and `close`, and no answer is cached for a second: for tests and short commands.
    pub background: bool,
    /// Merges runs of the table. Off for readers that may not write.
    pub merges_table: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            container_bytes: 64 << 20,
            part_bytes: 4 << 20,
            index_cache_bytes: 64 << 20,
            open_files: 128,
            idle_timeout: Duration::from_secs(30),
            background: true,
            merges_table: true,
        }
    }
}

/// Counts of a store's work since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub segments_put: u64,
    /// Encoded bytes that were put.
    pub stored_bytes: u64,
    /// Number of `Have` answers.
    pub duplicates_found: u64,
    /// Segments put although this process was already storing them.
    pub duplicates_stored: u64,
    /// Bytes of containers that the disk has taken for a sync; grows while one runs.
    pub synced_bytes: u64,
}

/// A store in containers of this machine; share it between threads.
pub struct LocalStore {
    shared: Arc<Shared>,
    background_merge: Option<BackgroundMerge>,
}

struct Shared {
    store: StoreId,
    fingerprint: FingerprintKind,
    options: Options,
    files: Arc<dyn Files>,
    registrar: Arc<dyn Registrar>,
    containers: Containers,
    table: Table,
    writing: Mutex<WriteState>,
    /// A part was written: there is room for another.
    written: Condvar,
    turn: Mutex<()>,
    sealing: Mutex<()>,
    opening: Mutex<()>,
    rounds: Mutex<Rounds>,
    round_over: Condvar,
    claims: Mutex<Claims>,
    /// A claim was resolved or given up.
    resolved: Condvar,
    damage: Damage,
    /// Containers that a full disk has ended, and how many segments each kept.
    truncated: Mutex<HashMap<ContainerId, u32>>,
    failure: OnceLock<String>,
    /// Why the containers are not where their names lead, once that was noticed.
    displaced: OnceLock<String>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    segments_put: AtomicU64,
    stored_bytes: AtomicU64,
    duplicates_found: AtomicU64,
    duplicates_stored: AtomicU64,
    synced_bytes: AtomicU64,
}

impl LocalStore {
    /// Opens a store. `containers` is the store's folder (files below `containers/`), `state` the one for rebuildable
    /// files (below `table/`); they may be the same.
    pub fn open(
        containers: Arc<dyn Files>,
        state: Arc<dyn Files>,
        settings: &Settings,
        registrar: Arc<dyn Registrar>,
        options: Options,
    ) -> Result<Self> {
        let pace = if options.background { PACE } else { Duration::ZERO };
        let reading = Containers::new(
            containers.clone(),
            settings.id,
            registrar.clone(),
            pace,
            options.index_cache_bytes,
            options.open_files,
        );
        let background = options.background;
        containers.hold_folder(FOLDER);
        let shared = Arc::new(Shared {
            store: settings.id,
            fingerprint: settings.fingerprint,
            options,
            files: containers,
            registrar,
            containers: reading,
            table: Table::new(state, settings.id, pace),
            writing: Mutex::default(),
            written: Condvar::new(),
            turn: Mutex::default(),
            sealing: Mutex::default(),
            opening: Mutex::default(),
            rounds: Mutex::default(),
            round_over: Condvar::new(),
            claims: Mutex::default(),
            resolved: Condvar::new(),
            damage: Damage::default(),
            truncated: Mutex::default(),
            failure: OnceLock::new(),
            displaced: OnceLock::new(),
            counts: Counts::default(),
        });
        let background_merge = if background { Some(BackgroundMerge::start(shared.clone())?) } else { None };
        Ok(LocalStore { shared, background_merge })
    }

    /// Returns why the store accepts no more data, if an earlier write or sync failed: only opening it again helps.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Returns why containers written here are not where others would look for them, if that was noticed: opening the
    /// store again does not help.
    pub fn displaced(&self) -> Option<&str> {
        self.shared.displaced.get().map(String::as_str)
    }

    /// Makes everything durable and seals the open container; a later `put` begins another one.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }

    /// Does the periodic background work: seals, publishes, merges.
    pub fn maintain(&self) -> Result<()> {
        self.shared.maintain()
    }

    /// Drops all cached state of a container: it was condemned, moved, or its file replaced.
    pub fn forget_container(&self, container: ContainerId) {
        self.shared.containers.forget(container);
        lock(&self.shared.claims).forget(container);
    }

    /// Returns of each segment the lowest address that may be referred to, among those that the table knows; none where it
    /// knows none. The catalog may refuse what was answered, as with [`SegmentStore::missing`].
    pub fn lowest_addresses(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Option<SegmentAddress>>> {
        self.shared.lowest_addresses(fingerprints)
    }

    /// Invalidates cached answers of the catalog: a session that began meanwhile holds back no file that was left
    /// earlier.
    pub fn forget_catalog_answers(&self) {
        self.shared.containers.forget_referable();
    }

    /// Returns the memory of the table's filters and fences (bytes).
    pub fn table_memory_bytes(&self) -> usize {
        // Runs are loaded with the first look-up, of which there may have been none.
        self.shared.table.runs();
        self.shared.table.memory_bytes()
    }

    /// Returns the number of entries in the table's runs.
    pub fn table_entries(&self) -> u64 {
        self.shared.table.entries()
    }

    /// Records segments that a reader has found damaged.
    pub fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) {
        self.shared.record(lost);
    }

    /// Uses durable copies in place of lost segments, whose fingerprints the copies have.
    pub fn heal(&self, found: &[(LostSegment, SegmentAddress)]) {
        self.shared.record_healed(found);
    }

    /// Whether a full disk has ended the container before this segment was in its file.
    pub fn has_dropped(&self, address: SegmentAddress) -> bool {
        self.shared.has_dropped(address)
    }

    /// Returns a number that grows whenever this process has recorded segments as lost.
    pub fn losses_recorded(&self) -> u64 {
        self.shared.damage.recorded.load(Ordering::Relaxed)
    }

    pub fn counters(&self) -> Counters {
        let counts = &self.shared.counts;
        Counters {
            segments_put: counts.segments_put.load(Ordering::Relaxed),
            stored_bytes: counts.stored_bytes.load(Ordering::Relaxed),
            duplicates_found: counts.duplicates_found.load(Ordering::Relaxed),
            duplicates_stored: counts.duplicates_stored.load(Ordering::Relaxed),
            synced_bytes: counts.synced_bytes.load(Ordering::Relaxed),
        }
    }
}

impl SegmentStore for LocalStore {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.shared.missing(claim_owner, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.shared.await_claims(claim_owner, fingerprints)
    }

    fn put(&self, _claim_owner: ClaimOwner, block: &Block) -> Result<Run> {
        let run = self.shared.put(block)?;
        if let Some(background_merge) = &self.background_merge {
            background_merge.wake_if_needed(&self.shared);
        }
        Ok(run)
    }

    fn release(&self, claim_owner: ClaimOwner) {
        lock(&self.shared.claims).release(claim_owner);
        self.shared.resolved.notify_all();
    }

    fn get(&self, run: Run) -> Result<Vec<StoredBlock>> {
        self.shared.get(run)
    }

    fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        self.shared.entries(run)
    }

    fn make_durable(&self) -> Result<()> {
        let found = self.shared.damage.take_found();
        self.shared.make_durable()?;
        self.shared.record_healed(&found);
        Ok(())
    }
}

impl Shared {
    /// Refuses work after a failure.
    fn alive(&self) -> Result<()> {
        match self.failure.get() {
            Some(why) => {
                let why = format!(
                    "no more data is taken since a write or sync failed ({why}); what was confirmed before that is kept; see \
                     to the disk and begin again"
                );
                Err(Error::Failed { why })
            }
            None => Ok(()),
        }
    }

    /// Fails the store: it accepts no more data, and all waiters wake; returns the error it was given.
    fn fail_store(&self, error: Error) -> Error {
        let _ = self.failure.set(error.to_string());
        // Under each lock, so that no thread is between checking and beginning to wait.
        drop(lock(&self.claims));
        self.resolved.notify_all();
        drop(lock(&self.writing));
        self.written.notify_all();
        error
    }
}

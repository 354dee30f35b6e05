//! The segments of a near store, and those of the far one through it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use format::{
    Block, BlockKind, ChunkerKind, ContainerId, Fingerprint, MAX_SEGMENT_BYTES, Run, SegmentAddress, SegmentEntry,
    Settings,
};
use store::{Answer, ClaimOwner, Error, Lru, Result, SegmentStore, StoredBlock, get_one_by_one};

use super::cached_blocks::CachedBlocks;
use super::forwarder::Forwarder;
use super::in_flight::{FetchGuard, InFlight};
use super::is_near;
use super::read_ahead::ReadAhead;

/// Each fetches a run ahead over a connection of its own.
const AHEAD_THREADS: usize = 8;
/// Of such a run: the blocks at its ends come with the runs beside it, too.
const AHEAD_BYTES: u32 = 4 << 20;
/// Runs that wait to be fetched ahead, at most: 256 MiB of content.
const MAX_AHEAD_RUNS: usize = 64;
/// Fewer come when they are asked for.
const MIN_AHEAD_SEGMENTS: u32 = 32;
/// The list of a run as short as this comes with its blocks, which are wanted next (bytes).
const SHORT_RUN_BYTES: u32 = 512 << 10;
/// Memory for lists of longer ones (bytes).
const LISTS_BYTES: usize = 16 << 20;

pub(super) struct NearStore {
    near: Arc<dyn SegmentStore>,
    far: Arc<dyn SegmentStore>,
    cached: Arc<CachedBlocks>,
    /// Set before the first block is put.
    forwarder: OnceLock<Arc<Forwarder>>,
    in_flight: InFlight,
    lists: Mutex<Lru<Run, Arc<Vec<SegmentEntry>>>>,
    ahead: Mutex<Ahead>,
    more: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Mean length of a segment (bytes); at most that of the longest where files are not cut.
    segment_bytes: u32,
    fetched_bytes: AtomicU64,
    cached_bytes: AtomicU64,
}

struct Ahead {
    policy: ReadAhead,
    waiting: VecDeque<Run>,
    is_stopped: bool,
}

impl NearStore {
    /// Starts the threads that fetch ahead.
    pub fn start(
        near: Arc<dyn SegmentStore>,
        far: Arc<dyn SegmentStore>,
        cached: Arc<CachedBlocks>,
        settings: &Settings,
    ) -> std::io::Result<Arc<Self>> {
        let segment_bytes =
            if settings.chunker == ChunkerKind::File { MAX_SEGMENT_BYTES } else { settings.segment_bytes };
        let store = Arc::new(NearStore {
            near,
            far,
            cached,
            forwarder: OnceLock::new(),
            in_flight: InFlight::default(),
            lists: Mutex::new(Lru::new(LISTS_BYTES)),
            ahead: Mutex::new(Ahead {
                policy: ReadAhead::new(AHEAD_BYTES / segment_bytes),
                waiting: VecDeque::new(),
                is_stopped: false,
            }),
            more: Condvar::new(),
            threads: Mutex::default(),
            segment_bytes,
            fetched_bytes: AtomicU64::new(0),
            cached_bytes: AtomicU64::new(0),
        });
        for number in 0..AHEAD_THREADS {
            let shared = store.clone();
            let thread = Builder::new().name(format!("fetch-{number}")).spawn(move || shared.fetch_ahead())?;
            store.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(store)
    }

    /// Has blocks of content sent on that are put from now on.
    pub fn send_on(&self, forwarder: Arc<Forwarder>) {
        let _ = self.forwarder.set(forwarder);
    }

    /// Whether far blocks that come are kept from now on.
    pub fn keep_blocks(&self, has_room: bool) {
        self.cached.keep_blocks(has_room);
    }

    /// Returns the encoded bytes of far blocks that came, and that were here already.
    pub fn figures(&self) -> (u64, u64) {
        (self.fetched_bytes.load(Ordering::Relaxed), self.cached_bytes.load(Ordering::Relaxed))
    }

    pub fn stop(&self) {
        self.ahead().is_stopped = true;
        self.more.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Returns the far blocks that hold the run's segments, from here or from there.
    fn far_blocks(&self, run: Run) -> Result<Vec<StoredBlock>> {
        let (mut found, mut rest) = (Vec::<StoredBlock>::new(), run);
        while rest.count > 0 {
            for placed in self.next_blocks(rest)? {
                rest = behind(&placed, rest);
                if found.last().is_none_or(|last| last.labels != placed.labels) {
                    found.push(placed);
                }
            }
        }
        Ok(found)
    }

    /// Counts the part of a block that was asked for: a reader may ask for its segments one by one.
    fn count_cached(&self, placed: &StoredBlock, run: Run) {
        let asked = u64::from(run.count - behind(placed, run).count);
        let segments = placed.block.segments.len().max(1) as u64;
        self.cached_bytes.fetch_add(placed.block.payload.len() as u64 * asked / segments, Ordering::Relaxed);
    }

    /// Returns a block or more, the first of which has the run's first segment.
    fn next_blocks(&self, run: Run) -> Result<Vec<StoredBlock>> {
        let first = SegmentAddress::new(run.container, run.first);
        loop {
            if let Some(placed) = self.cached.get(first) {
                self.count_cached(&placed, run);
                return Ok(vec![placed]);
            }
            // Where the first segment came just now, it is found above.
            let parts = self.cached.missing_parts(run);
            let Some(missing) = parts.first().copied().filter(|part| part.first == run.first) else { continue };
            let turn = self.in_flight.begin(missing);
            if turn.is_none() && self.in_flight.wait(missing) {
                continue;
            }
            let fetched = self.far.get(missing)?;
            if !fetched.first().is_some_and(|placed| placed.addresses().any(|address| address == first)) {
                return Err(Error::NotFound { what: format!("segment {first}") });
            }
            fetched.iter().for_each(|placed| self.keep(placed));
            return Ok(fetched);
        }
    }

    fn keep(&self, placed: &StoredBlock) {
        self.fetched_bytes.fetch_add(placed.block.payload.len() as u64, Ordering::Relaxed);
        self.cached.keep(placed);
    }

    /// Fetches what is not here of the runs, and that nobody fetches, one part behind another over one connection.
    fn fetch_each(&self, runs: &[Run]) -> Result<()> {
        let missing = runs.iter().flat_map(|run| self.cached.missing_parts(*run));
        let turns: Vec<_> = missing.flat_map(|part| self.in_flight.begin_parts(part)).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let parts: Vec<_> = turns.iter().map(FetchGuard::run).collect();
        self.far.get_each(&parts, &mut |blocks| {
            blocks.iter().for_each(|placed| self.keep(placed));
            true
        })
    }

    fn plan_ahead(&self, run: Run) {
        let mut ahead = self.ahead();
        let Some(next) = ahead.policy.requested(run).filter(|_| !self.cached.is_full()) else { return };
        let segments = (AHEAD_BYTES / self.segment_bytes).max(1);
        for first in (0..next.count).step_by(segments as usize) {
            if ahead.waiting.len() >= MAX_AHEAD_RUNS {
                break;
            }
            let count = segments.min(next.count - first);
            ahead.waiting.push_back(Run { first: next.first + first, count, ..next });
        }
        self.more.notify_all();
    }

    fn fetch_ahead(&self) {
        while let Some(run) = self.take_ahead() {
            match self.fetch_each(&[run]) {
                Ok(()) => {}
                Err(Error::NotFound { .. }) => self.fetch_to_the_end(run),
                // Whoever reads meets the error.
                Err(_) => self.ahead().waiting.clear(),
            }
        }
    }

    /// Fetches the beginning of a run within which its container ends, but for the last segments.
    fn fetch_to_the_end(&self, run: Run) {
        let (mut first, mut count) = (run.first, run.count / 2);
        while count >= MIN_AHEAD_SEGMENTS {
            match self.fetch_each(&[Run { first, count, ..run }]) {
                Ok(()) => first += count,
                Err(Error::NotFound { .. }) => self.ahead().policy.ended(run.container, first + count),
                Err(_) => return,
            }
            count /= 2;
        }
    }

    fn take_ahead(&self) -> Option<Run> {
        let idle = |ahead: &mut Ahead| ahead.waiting.is_empty() && !ahead.is_stopped;
        let mut ahead = self.more.wait_while(self.ahead(), idle).unwrap_or_else(PoisonError::into_inner);
        if ahead.is_stopped { None } else { ahead.waiting.pop_front() }
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn far_entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        if run.count <= SHORT_RUN_BYTES / self.segment_bytes {
            return entries_of(&self.far_blocks(run)?, run);
        }
        let lists = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists().get(run) {
            return Ok(known.to_vec());
        }
        let entries = self.far.entries(run)?;
        lists().insert(run, Arc::new(entries.clone()), std::mem::size_of_val(&entries[..]));
        Ok(entries)
    }
}

/// Returns what is left of a run behind the segments that the block has of its beginning.
fn behind(placed: &StoredBlock, run: Run) -> Run {
    let end = run.first + run.count;
    let mut next = run.first;
    for label in placed.labels.iter().filter(|label| label.container == run.container) {
        if label.first <= next && next - label.first < label.count {
            next = (label.first + label.count).min(end);
        }
    }
    Run { first: next, count: end - next, ..run }
}

/// Returns the run's entries from the blocks that hold it.
fn entries_of(blocks: &[StoredBlock], run: Run) -> Result<Vec<SegmentEntry>> {
    let mut wanted = run.addresses().peekable();
    let mut entries = Vec::with_capacity(run.count as usize);
    for placed in blocks {
        for (address, segment) in placed.addresses().zip(&placed.block.segments) {
            if wanted.next_if_eq(&address).is_some() {
                entries.push(*segment);
            }
        }
    }
    match wanted.next() {
        Some(missing) => Err(Error::NotFound { what: format!("segment {missing}") }),
        None => Ok(entries),
    }
}

impl SegmentStore for NearStore {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.near.missing(claim_owner, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.near.await_claims(claim_owner, fingerprints)
    }

    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> Result<Run> {
        let run = self.near.put(claim_owner, block)?;
        if let Some(forwarder) = self.forwarder.get().filter(|_| block.header.kind == BlockKind::Data) {
            forwarder.push(run);
        }
        Ok(run)
    }

    fn round_trip(&self) -> Duration {
        self.far.round_trip()
    }

    fn is_remote(&self, container: ContainerId) -> bool {
        // With room, blocks are in the near containers, which this machine's page cache holds.
        !is_near(container) && self.cached.is_full() && self.far.is_remote(container)
    }

    fn release(&self, claim_owner: ClaimOwner) {
        self.near.release(claim_owner);
    }

    fn get(&self, run: Run) -> Result<Vec<StoredBlock>> {
        if is_near(run.container) {
            return self.near.get(run);
        }
        self.plan_ahead(run);
        self.far_blocks(run)
    }

    fn get_each(&self, runs: &[Run], take: &mut dyn FnMut(Vec<StoredBlock>) -> bool) -> Result<()> {
        let far: Vec<_> = runs.iter().filter(|run| !is_near(run.container)).copied().collect();
        // What fails is met again below.
        let _ = self.fetch_each(&far);
        get_one_by_one(self, runs, take)
    }

    fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        if is_near(run.container) { self.near.entries(run) } else { self.far_entries(run) }
    }

    fn make_durable(&self) -> Result<()> {
        self.near.make_durable()
    }
}

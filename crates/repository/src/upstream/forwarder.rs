//! What clients have put into the near store goes on to the far one, behind: a commit finds it there. A failure here loses
//! nothing: what was not sent is sent by the commit that needs it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use format::{Block, ContainerId, Label, Run, SegmentAddress};
use policy::pipelining::Pipelining;
use store::{Answer, ClaimOwner, SegmentStore, StoredBlock};

use super::cached_blocks::CachedBlocks;
use super::sent_segments::SentSegments;
use crate::dedup::NewSegment;
use crate::{Error, Repository, Result};

/// Blocks asked about and sent at once by a thread: some MiB.
const BLOCKS_AT_ONCE: usize = 16;
/// Blocks that may wait (each a few words of memory); more are left to their commits.
const MAX_WAITING: usize = 1 << 20;
/// After a failure, before the next attempt of the thread.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Length of a batch where the far store is not far (bytes).
const NEAR_BATCH_BYTES: usize = 1 << 20;

pub(super) struct Forwarder {
    near: Arc<dyn SegmentStore>,
    far: Arc<Repository>,
    cached: Arc<CachedBlocks>,
    sent: Arc<SentSegments>,
    queue: Mutex<Queue>,
    more: Condvar,
    done: Condvar,
    sent_bytes: AtomicU64,
    /// Counts batches that are done with.
    progress: AtomicU64,
    /// Why the far store takes no more.
    failure: OnceLock<String>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    /// Blocks by their numbers, in which they came.
    waiting: VecDeque<(u64, Run)>,
    /// How many blocks of each near container wait or are under way.
    left: HashMap<ContainerId, usize>,
    under_way: usize,
    next: u64,
    /// The far store could not be reached the last time.
    is_away: bool,
    is_stopped: bool,
}

impl Queue {
    fn is_done_with(&self, containers: &BTreeSet<ContainerId>) -> bool {
        self.is_stopped || self.is_away || containers.iter().all(|container| !self.left.contains_key(container))
    }

    fn done(&mut self, taken: &[(u64, Run)]) {
        for (_, run) in taken {
            if let Entry::Occupied(mut left) = self.left.entry(run.container) {
                *left.get_mut() -= 1;
                if *left.get() == 0 {
                    left.remove();
                }
            }
        }
    }

    fn put_back(&mut self, taken: Vec<(u64, Run)>) {
        taken.into_iter().rev().for_each(|block| self.waiting.push_front(block));
    }
}

impl Forwarder {
    /// Threads claim at the far store by `first_owner` and the numbers that follow.
    pub fn start(
        near: Arc<dyn SegmentStore>,
        far: Arc<Repository>,
        cached: Arc<CachedBlocks>,
        sent: Arc<SentSegments>,
        first_owner: u64,
    ) -> std::io::Result<Arc<Self>> {
        let threads = Pipelining::over(far.round_trip(), NEAR_BATCH_BYTES, 1).batches as u64;
        let (queue, more, done) = (Mutex::default(), Condvar::new(), Condvar::new());
        let (sent_bytes, progress, handles) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        let failure = OnceLock::new();
        let forwarder = Arc::new(Forwarder {
            near,
            far,
            cached,
            sent,
            queue,
            more,
            done,
            sent_bytes,
            progress,
            failure,
            threads: handles,
        });
        for number in 0..threads {
            let (shared, owner) = (forwarder.clone(), ClaimOwner(first_owner + number));
            let thread = Builder::new().name(format!("forward-{number}")).spawn(move || shared.work(owner))?;
            forwarder.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(forwarder)
    }

    /// Has a block sent that was put as this run.
    pub fn push(&self, run: Run) {
        let mut queue = self.queue();
        if queue.waiting.len() < MAX_WAITING && !queue.is_stopped {
            let number = queue.next;
            queue.next += 1;
            queue.waiting.push_back((number, run));
            *queue.left.entry(run.container).or_default() += 1;
            // One of those that wait may pause after a failure.
            self.more.notify_all();
        }
    }

    /// Waits until the blocks of these containers are sent, as long as the far store is there.
    pub fn flush(&self, containers: &BTreeSet<ContainerId>) {
        drop(self.done.wait_while(self.queue(), |queue| !queue.is_done_with(containers)));
    }

    /// Returns a number that grows as blocks are sent.
    pub fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    pub fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many blocks wait, and the bytes sent.
    pub fn figures(&self) -> (u64, u64) {
        let queue = self.queue();
        ((queue.waiting.len() + queue.under_way) as u64, self.sent_bytes.load(Ordering::Relaxed))
    }

    /// Takes note of an error of the far store: after some it takes nothing more from this process.
    pub fn note_failure(&self, error: &Error) {
        if let Error::Store(store::Error::Failed { why }) = error {
            let _ = self.failure.set(why.clone());
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    pub fn stop(&self) {
        self.queue().is_stopped = true;
        self.more.notify_all();
        self.done.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn work(&self, claim_owner: ClaimOwner) {
        while let Some(taken) = self.take() {
            let runs: Vec<_> = taken.iter().map(|(_, run)| *run).collect();
            let sent = self.send(claim_owner, &runs);
            if let Err(error) = &sent {
                self.note_failure(error);
                self.far.store().release(claim_owner);
            }
            self.finish(taken, sent);
        }
    }

    /// What could not be sent since the far store is away waits for it; what failed otherwise is left to its commit.
    fn finish(&self, taken: Vec<(u64, Run)>, sent: Result<()>) {
        let mut queue = self.queue();
        queue.under_way -= taken.len();
        queue.is_away = matches!(sent, Err(Error::Store(store::Error::Unavailable { .. })));
        match queue.is_away {
            true => queue.put_back(taken),
            false => queue.done(&taken),
        }
        self.advance();
        self.done.notify_all();
        if sent.is_err() && !queue.is_stopped {
            drop(self.more.wait_timeout_while(queue, RETRY_INTERVAL, |queue| !queue.is_stopped));
        }
    }

    /// Waits for blocks; none once it has stopped.
    fn take(&self) -> Option<Vec<(u64, Run)>> {
        let waited = self.more.wait_while(self.queue(), |queue| queue.waiting.is_empty() && !queue.is_stopped);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.is_stopped {
            return None;
        }
        let count = queue.waiting.len().min(BLOCKS_AT_ONCE);
        let taken: Vec<_> = queue.waiting.drain(..count).collect();
        queue.under_way += taken.len();
        Some(taken)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends of some blocks what the far store lacks: whole as they are, or those of their segments.
    fn send(&self, claim_owner: ClaimOwner, runs: &[Run]) -> Result<()> {
        let mut blocks = Vec::new();
        for run in runs {
            match self.near.get(*run) {
                // Collected meanwhile: who put it has gone.
                Err(error) if error.is_damage() => {}
                found => blocks.extend(found?),
            }
        }
        let fingerprints: Vec<_> =
            blocks.iter().flat_map(|placed| placed.block.segments.iter().map(|segment| segment.fingerprint)).collect();
        let mut answers = &self.far.store().missing(claim_owner, &fingerprints)?[..];
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        for placed in blocks {
            let (own, rest) = answers.split_at(placed.block.segments.len());
            answers = rest;
            self.note_those_there(&placed, own);
            match own.iter().filter(|answer| **answer == Answer::Send).count() {
                0 => {}
                count if count == own.len() => whole.push(placed),
                _ => parts.push((placed, own.to_vec())),
            }
        }
        self.send_whole(claim_owner, &whole)?;
        parts.iter().try_for_each(|(placed, answers)| self.send_part(claim_owner, placed, answers))
    }

    fn note_those_there(&self, placed: &StoredBlock, answers: &[Answer]) {
        let there = placed.addresses().zip(answers).filter_map(|(near, answer)| match answer {
            Answer::Have(far) => Some((near, *far)),
            Answer::Send | Answer::Claimed => None,
        });
        self.sent.note(there);
    }

    fn send_whole(&self, claim_owner: ClaimOwner, blocks: &[StoredBlock]) -> Result<()> {
        let each = |placed: &StoredBlock| placed.block.clone();
        let runs = self.far.store().put_all(claim_owner, &mut blocks.iter().map(each))?;
        for (placed, far) in blocks.iter().zip(runs) {
            self.sent.note(placed.addresses().zip(far.addresses()));
            if let Some(near) = whole_run(placed) {
                let label = Label { container: far.container, first: far.first, count: far.count };
                self.cached.note(near, vec![label]);
            }
            self.count(&placed.block);
        }
        Ok(())
    }

    fn send_part(&self, claim_owner: ClaimOwner, placed: &StoredBlock, answers: &[Answer]) -> Result<()> {
        let raw = segment::decode_verified(&placed.block, self.far.settings.fingerprint)?;
        let asked = segment::segments(&placed.block, &raw).zip(placed.addresses()).zip(answers);
        let asked = asked.filter(|(_, answer)| **answer == Answer::Send).map(|(segment, _)| segment);
        let (segments, places): (Vec<_>, Vec<SegmentAddress>) = asked.unzip();
        let new = segments.iter().map(|segment| NewSegment { fingerprint: segment.0, bytes: segment.1 });
        let blocks: Vec<_> = self.far.blocks(self.far.data_blocks(), new).collect();
        let runs = self.far.store().put_all(claim_owner, &mut blocks.iter().cloned())?;
        self.sent.note(places.into_iter().zip(runs.iter().flat_map(|run| run.addresses())));
        blocks.iter().for_each(|block| self.count(block));
        Ok(())
    }

    fn count(&self, block: &Block) {
        self.sent_bytes.fetch_add(block.payload.len() as u64, Ordering::Relaxed);
    }
}

/// Returns the block's segments as one run, if they are one.
fn whole_run(placed: &StoredBlock) -> Option<Run> {
    match placed.labels[..] {
        [Label { container, first, count }] => Some(Run { container, first, count }),
        _ => None,
    }
}

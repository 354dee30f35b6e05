//! Batches of segments on their way into the store: by the thread that gathered them, by one beside it, so that a single
//! large file keeps two cores busy, or by several, so that a link on which answers take long is never idle.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use format::{BlockKind, Fingerprint, SegmentAddress};
use store::ClaimOwner;

use crate::dedup::NewSegment;
use crate::{Repository, Result};

/// Claim owners of packers are below 2 to this power.
const OWN_BITS: u32 = 32;
const ENDS_LAST: &str = "the thread ends after its packer";

/// Segments that lie behind each other in `bytes`.
#[derive(Default)]
pub(crate) struct Batch {
    segments: Vec<(Fingerprint, Range<usize>)>,
    bytes: Vec<u8>,
}

/// A stored segment: its address, fingerprint and length in bytes.
pub(crate) type StoredSegment = (SegmentAddress, Fingerprint, u32);

/// Threads that store one packer's batches, each one at a time. They end with their packer.
pub struct BatchThreads {
    threads: Vec<BatchThread>,
    /// The one whose batch was sent first.
    oldest: usize,
    busy: usize,
    batch_bytes: usize,
}

struct BatchThread {
    batches: SyncSender<Batch>,
    stored: Receiver<(Batch, Result<Vec<StoredSegment>>)>,
    /// The buffers of the batch before.
    spare: Batch,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn push(&mut self, fingerprint: Fingerprint, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.segments.push((fingerprint, start..self.bytes.len()));
    }

    pub fn clear(&mut self) {
        self.segments.clear();
        self.bytes.clear();
    }

    pub fn store(&self, repository: &Repository, claim_owner: ClaimOwner) -> Result<Vec<StoredSegment>> {
        let segment = |(fingerprint, range): &(Fingerprint, Range<usize>)| NewSegment {
            fingerprint: *fingerprint,
            bytes: &self.bytes[range.clone()],
        };
        let segments: Vec<_> = self.segments.iter().map(segment).collect();
        let addresses = repository.dedup(claim_owner, BlockKind::Data, &segments)?.addresses;
        let stored = segments.iter().zip(addresses);
        Ok(stored.map(|(segment, address)| (address, segment.fingerprint, segment.bytes.len() as u32)).collect())
    }
}

impl BatchThreads {
    /// Several threads claim by numbers of their own, which follow from the packer's `claim_owner`, since they and the
    /// packer store at once. A single one claims as its packer.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        repository: &'scope Repository,
        claim_owner: ClaimOwner,
        batches: usize,
        batch_bytes: usize,
    ) -> Self {
        let owner =
            |number: u64| if batches > 1 { ClaimOwner(claim_owner.0 + (number << OWN_BITS)) } else { claim_owner };
        let start = |number| BatchThread::start(scope, repository, owner(number));
        let threads = (1..=batches.max(1) as u64).map(start).collect();
        BatchThreads { threads, oldest: 0, busy: 0, batch_bytes }
    }

    /// Length that a batch is to have.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Whether batches go to threads to be under way at once, rather than to use a second core.
    pub(crate) fn are_many(&self) -> bool {
        self.threads.len() > 1
    }

    pub(crate) fn are_busy(&self) -> bool {
        self.busy == self.threads.len()
    }

    /// Takes the batch and leaves an empty one; some thread must be idle.
    pub(crate) fn send(&mut self, batch: &mut Batch) {
        let next = (self.oldest + self.busy) % self.threads.len();
        self.threads[next].send(batch);
        self.busy += 1;
    }

    /// Waits for the batch sent first; returns its segments as they are stored, if there is one.
    pub(crate) fn take_back(&mut self) -> Option<Result<Vec<StoredSegment>>> {
        self.busy = self.busy.checked_sub(1)?;
        let oldest = self.oldest;
        self.oldest = (oldest + 1) % self.threads.len();
        Some(self.threads[oldest].take_back())
    }
}

impl BatchThread {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        repository: &'scope Repository,
        claim_owner: ClaimOwner,
    ) -> Self {
        let (batches, coming) = sync_channel::<Batch>(1);
        let (done, stored) = sync_channel(1);
        scope.spawn(move || {
            for batch in coming {
                let result = batch.store(repository, claim_owner);
                if done.send((batch, result)).is_err() {
                    break;
                }
            }
            repository.store.release(claim_owner);
        });
        BatchThread { batches, stored, spare: Batch::default() }
    }

    /// The batch before must have been taken back.
    fn send(&mut self, batch: &mut Batch) {
        let batch = std::mem::replace(batch, std::mem::take(&mut self.spare));
        self.batches.send(batch).expect(ENDS_LAST);
    }

    fn take_back(&mut self) -> Result<Vec<StoredSegment>> {
        let (mut batch, stored) = self.stored.recv().expect(ENDS_LAST);
        batch.clear();
        self.spare = batch;
        stored
    }
}

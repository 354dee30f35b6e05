//! Batches of segments on their way into the store: by the thread that gathered them, by one beside it, so that a single
//! large file keeps two cores busy, or by several, so that a link on which answers take long is never idle.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use format::{Fingerprint, SegmentAddress};
use store::ClaimOwner;

use crate::dedup::{NewSegment, StoreOptions};
use crate::{Repository, Result};

/// Claim owners of packers are below 2 to this power.
const OWN_BITS: u32 = 32;
/// Batches a thread on average that may be sent after one which is not stored yet: their segments' addresses are kept.
const MAX_AHEAD: usize = 4;
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
    /// Threads without a batch, by their numbers.
    idle: Vec<usize>,
    stored: Receiver<Stored>,
    /// By batch, those that are stored before one that was sent earlier.
    early: BTreeMap<u64, BatchResult>,
    sent_batches: u64,
    taken_batches: u64,
    batch_bytes: usize,
}

struct BatchThread {
    batches: SyncSender<(u64, Batch, StoreOptions)>,
    /// The buffers of the batch before.
    spare: Batch,
}

type BatchResult = std::thread::Result<Result<Vec<StoredSegment>>>;

/// A batch that its thread is done with; an error of the thread is its panic.
struct Stored {
    thread: usize,
    number: u64,
    batch: Batch,
    result: BatchResult,
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

    pub fn store(
        &self,
        repository: &Repository,
        claim_owner: ClaimOwner,
        options: StoreOptions,
    ) -> Result<Vec<StoredSegment>> {
        let segment = |(fingerprint, range): &(Fingerprint, Range<usize>)| NewSegment {
            fingerprint: *fingerprint,
            bytes: &self.bytes[range.clone()],
        };
        let segments: Vec<_> = self.segments.iter().map(segment).collect();
        let addresses = repository.store_segments(claim_owner, &segments, options)?;
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
        let batches = batches.max(1);
        let (done, stored) = sync_channel(batches);
        let start = |at| BatchThread::start(scope, repository, owner(at as u64 + 1), at, done.clone());
        BatchThreads {
            threads: (0..batches).map(start).collect(),
            idle: (0..batches).collect(),
            stored,
            early: BTreeMap::new(),
            sent_batches: 0,
            taken_batches: 0,
            batch_bytes,
        }
    }

    /// Length that a batch is to have.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Whether batches go to threads to be under way at once, rather than to use a second core.
    pub(crate) fn are_many(&self) -> bool {
        self.threads.len() > 1
    }

    /// Returns whether no further batch can be sent now. Threads that are done wait for nobody, up to a number of batches
    /// that came after one which is not stored yet.
    pub(crate) fn are_busy(&self) -> bool {
        let most = (self.threads.len() * MAX_AHEAD) as u64;
        self.idle.is_empty() || self.sent_batches - self.taken_batches >= most
    }

    /// Takes the batch and leaves an empty one; some thread must be idle.
    pub(crate) fn send(&mut self, batch: &mut Batch, options: StoreOptions) {
        let thread = &mut self.threads[self.idle.pop().expect("a thread is idle")];
        let batch = std::mem::replace(batch, std::mem::take(&mut thread.spare));
        thread.batches.send((self.sent_batches, batch, options)).expect(ENDS_LAST);
        self.sent_batches += 1;
    }

    /// Waits until some thread is done with its batch.
    pub(crate) fn await_any(&mut self) {
        let Stored { thread, number, mut batch, result } = self.stored.recv().expect(ENDS_LAST);
        batch.clear();
        self.threads[thread].spare = batch;
        self.idle.push(thread);
        self.early.insert(number, result);
    }

    /// Returns the segments of the batch after the one taken last, if it is stored.
    pub(crate) fn take_stored(&mut self) -> Option<Result<Vec<StoredSegment>>> {
        let result = self.early.remove(&self.taken_batches)?;
        self.taken_batches += 1;
        Some(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// As `take_stored`, but waits for that batch; none if all that were sent are taken.
    pub(crate) fn take_back(&mut self) -> Option<Result<Vec<StoredSegment>>> {
        while self.taken_batches < self.sent_batches {
            if let Some(stored) = self.take_stored() {
                return Some(stored);
            }
            self.await_any();
        }
        None
    }
}

impl BatchThread {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        repository: &'scope Repository,
        claim_owner: ClaimOwner,
        thread: usize,
        done: SyncSender<Stored>,
    ) -> Self {
        let (batches, coming) = sync_channel::<(u64, Batch, StoreOptions)>(1);
        scope.spawn(move || {
            for (number, batch, options) in coming {
                // A panic goes on in the packer, which would wait for this thread for ever.
                let result = catch_unwind(AssertUnwindSafe(|| batch.store(repository, claim_owner, options)));
                if done.send(Stored { thread, number, batch, result }).is_err() {
                    break;
                }
            }
            repository.store.release(claim_owner);
        });
        BatchThread { batches, spare: Batch::default() }
    }
}

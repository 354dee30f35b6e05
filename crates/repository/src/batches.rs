//! Batches of segments on their way into the store: by the thread that gathered them, or by one beside it, so that a
//! single large file keeps two cores busy.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use format::{BlockKind, Fingerprint, SegmentAddress};
use store::ClaimOwner;

use crate::dedup::NewSegment;
use crate::{Repository, Result};

const ENDS_LAST: &str = "the thread ends after its packer";

/// Segments that lie behind each other in `bytes`.
#[derive(Default)]
pub(crate) struct Batch {
    segments: Vec<(Fingerprint, Range<usize>)>,
    bytes: Vec<u8>,
}

/// A stored segment: its address, fingerprint and length in bytes.
pub(crate) type StoredSegment = (SegmentAddress, Fingerprint, u32);

/// A thread that stores one packer's batches, one at a time. It ends with its packer.
pub struct BatchThread {
    batches: SyncSender<Batch>,
    stored: Receiver<(Batch, Result<Vec<StoredSegment>>)>,
    /// A batch is on its way.
    is_busy: bool,
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

impl BatchThread {
    /// `claim_owner` is the packer's.
    pub fn start<'scope>(
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
                    return;
                }
            }
        });
        BatchThread { batches, stored, is_busy: false, spare: Batch::default() }
    }

    /// Takes the batch and leaves an empty one. The batch before must have been taken back.
    pub(crate) fn send(&mut self, batch: &mut Batch) {
        let batch = std::mem::replace(batch, std::mem::take(&mut self.spare));
        self.batches.send(batch).expect(ENDS_LAST);
        self.is_busy = true;
    }

    /// Waits for the batch sent last; returns its segments as they are stored, if there is one.
    pub(crate) fn take_back(&mut self) -> Option<Result<Vec<StoredSegment>>> {
        if !std::mem::take(&mut self.is_busy) {
            return None;
        }
        let (mut batch, stored) = self.stored.recv().expect(ENDS_LAST);
        batch.clear();
        self.spare = batch;
        Some(stored)
    }
}

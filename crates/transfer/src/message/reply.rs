//! The replies of a node. Kinds have the highest bit set.

use catalog::{Checkpoint, Committed, FileEntry, PathSession, Session, Version};
use format::{Run, SegmentEntry, SessionId, StorePath};
use store::Answer;

use super::{Failure, Field, StoredBlockHeader, messages};

/// Statistics of a store, for `thalweg stats` (bytes and counts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StoreStatistics {
    pub logical_bytes: u64,
    pub unique_bytes: u64,
    pub stored_bytes: u64,
    pub segments: u64,
    pub unique_segments: u64,
    pub containers: u64,
    pub files: u64,
    pub table_memory_bytes: u64,
}

impl Field for StoreStatistics {
    const MIN_BYTES: usize = 64;

    fn write(&self, to: &mut format::Writer) {
        to.u64(self.logical_bytes).u64(self.unique_bytes).u64(self.stored_bytes).u64(self.segments);
        to.u64(self.unique_segments).u64(self.containers).u64(self.files).u64(self.table_memory_bytes);
    }

    fn read(from: &mut format::Reader) -> format::Result<Self> {
        Ok(StoreStatistics {
            logical_bytes: from.u64()?,
            unique_bytes: from.u64()?,
            stored_bytes: from.u64()?,
            segments: from.u64()?,
            unique_segments: from.u64()?,
            containers: from.u64()?,
            files: from.u64()?,
            table_memory_bytes: from.u64()?,
        })
    }
}

messages! {
    /// A reply, or, with request number 0, an unsolicited message of the node.
    Reply checked by super::limits::check_reply {
        0x8000 Done {},
        0x8001 Failed { failure: Failure },
        /// `settings` is the text of `store.toml`; `incarnation` is the node process's random number.
        0x8002 Welcome { settings: String, incarnation: u64 },
        /// All of the payload has arrived; `workers` is how many threads of the node reduce.
        0x8003 Measured { workers: u32 },
        /// Unsolicited, before `Welcome`: this node serves only clients that prove its secret over this nonce.
        0x8004 Challenge { nonce: [u8; 32] },
        /// The node's own tag over both nonces: it has the secret too.
        0x8005 Proved { proof: [u8; 32] },
        /// Unsolicited, every few seconds: the node process lives, however long it holds this client back. `progress`
        /// changes whenever the node has done some of the work that clients wait for.
        0x8006 Alive { progress: u64 },

        0x8010 Answers { answers: Vec<Answer> },
        0x8011 Stored { run: Run },
        /// Payload: the blocks' payloads, one after the other.
        0x8012 Blocks { blocks: Vec<StoredBlockHeader> },
        0x8013 Entries { entries: Vec<SegmentEntry> },

        0x8020 Session { session: Session },
        0x8021 Committed { committed: Committed },
        0x8022 Entry { entry: Option<FileEntry> },
        /// One page, of as many entries as the node likes to send; `more`: there may be others behind it. A page with
        /// `more` has entries, so that a client that asks for what follows them gets on.
        0x8023 List { entries: Vec<(StorePath, FileEntry)>, more: bool },
        0x8024 Versions { versions: Vec<Version>, more: bool },
        0x8025 PathSessions { sessions: Vec<PathSession>, more: bool },
        0x8026 Checkpoints { checkpoints: Vec<Checkpoint>, more: bool },
        0x8027 Statistics { statistics: StoreStatistics },
        /// Payload: the model file's bytes; none where the store has no model of its own.
        0x8028 Model {},

        /// `segment_bytes` is the length of the session's fixed segments; `size` the head's.
        0x8040 Opened { session: PathSession, size: u64, segment_bytes: u32 },
        0x8041 Attached { size: u64, epoch: u64 },
        /// The node has received it; `stamp` orders it among all that arrived at this stripe set.
        0x8042 Received { sequence: u64, stamp: u64 },
        /// Indices into the offer's segments that must be supplied.
        0x8043 Missing { sequence: u64, stamp: u64, wanted: Vec<u32> },
        /// Payload: the requested bytes, zeros beyond what the stripe set knows; `size` is the file's as the stripe set
        /// knows it.
        0x8044 Bytes { size: u64 },
        0x8045 Size { size: u64 },
        0x8046 Version { number: u64 },
        /// Unsolicited: all of this stream's writes to the stripe set up to `sequence` are durable, except those in
        /// `held`, which touch segments that are not whole.
        0x8047 Durable { session: SessionId, stripe_set: u32, sequence: u64, held: Vec<u64> },
        /// Unsolicited: the stripe set has failed; it accepts and syncs nothing any more.
        0x8049 StripeSetFailed { session: SessionId, stripe_set: u32, failure: Failure },
        /// The node does not know the segments of an `OfferDigest`: send an `OfferFingerprints`, with this stamp.
        0x8048 NeedFingerprints { sequence: u64, stamp: u64 },
        /// How many streams of other processes use the stripe set.
        0x804a Others { streams: u32 },
        0x804b JobFailures { failures: Vec<(StorePath, String)> },
        /// Where the pointer stood before the move (etypes).
        0x804c Pointer { position: u64 },
    }
}

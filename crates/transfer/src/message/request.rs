//! The requests of a client.

use catalog::Purpose;
use format::{BlockHeader, Change, ContainerId, Fingerprint, HandleKey, Mode, Run, SegmentEntry, SessionId, StorePath};

use super::{Extent, messages};

messages! {
    /// A request; the payload, where one travels, is named.
    Request checked by super::limits::check_request {
        // The connection.

        /// The first message. `client` is the process's random number, the same on all its streams and across
        /// reconnections; `stream` distinguishes its connections. Bandwidth is shared between `application`s; empty:
        /// unnamed.
        1 Hello { client: u64, stream: u32, job: String, application: String },
        /// Measures the link. Payload: bytes to be thrown away.
        2 Measure {},
        /// The client's answer to `Challenge`: its own nonce, and the tag over both that only the secret makes. Answered
        /// by `Proved`.
        3 Prove { nonce: [u8; 32], proof: [u8; 32] },

        // The segment store ([`store::SegmentStore`]). `owner` is one of the client's claim owners, whatever connection
        // its requests come over.

        10 FindMissing { owner: u64, fingerprints: Vec<Fingerprint> },
        11 AwaitClaims { owner: u64, fingerprints: Vec<Fingerprint> },
        /// Payload: the block's.
        12 PutBlock { owner: u64, header: BlockHeader, segments: Vec<SegmentEntry> },
        13 Release { owner: u64 },
        14 Get { run: Run },
        15 Entries { run: Run },
        16 MakeDurable {},

        // Names and versions ([`catalog::Names`]).

        20 Begin { purpose: Purpose, lease_ms: u64 },
        21 Renew { session: SessionId, lease_ms: u64, refresh: bool },
        22 End { session: SessionId },
        /// The node also writes the journal before it answers.
        23 Commit {
            session: SessionId,
            references: Vec<ContainerId>,
            epoch: u64,
            changes: Vec<Change>,
            checkpoints: Vec<(SessionId, u32, u64)>,
        },
        24 Entry { path: StorePath },
        25 List { directory: StorePath, recursive: bool, after: Option<StorePath>, limit: u32 },
        /// Lists come in pages: each request asks for what follows `after`, and 0 begins.
        26 Versions { path: StorePath, after: u64 },
        27 PathSessions { after: SessionId },
        /// `after`: stripe set and number.
        28 Checkpoints { session: SessionId, after: (u32, u64) },
        29 Discard { session: SessionId },
        30 Statistics {},
        /// Makes the checkpoints of a session the head of its path.
        31 Recover { session: SessionId },
        /// For the store's own model of the choice of codecs.
        32 Model {},

        // Sessions of paths.

        /// Joins or begins the path's live session; `flags` as in `thalweg.h`. Adds a handle, taken off by `Leave`
        /// or by the client's death. `key` is the handle's: random bytes that the client makes, and shares only with the
        /// processes that use the file with it.
        40 OpenPath {
            path: StorePath,
            flags: u32,
            job: String,
            nodes: Vec<String>,
            stripe_bytes: u64,
            key: HandleKey,
        },
        /// Attaches this connection to the stripe set; a node that does not own it takes it and loads its checkpoints.
        /// The other messages of the session are for connections that have attached.
        41 Attach { session: SessionId, stripe_set: u32, key: HandleKey },
        /// Payload: the extents' bytes, one after the other. `sequence` counts 1, 2, … per connection's
        /// (client, stream, session, stripe set); `stamp` is 0, or on sending again what `Received` said. `mode`: how the
        /// node encodes what it stores of the session from now on; none: as the store's settings say.
        42 Write {
            session: SessionId,
            stripe_set: u32,
            sequence: u64,
            stamp: u64,
            epoch: u64,
            mode: Option<Mode>,
            extents: Vec<Extent>,
        },
        /// Reduced at the client: the whole segments that the extents are made of, by fingerprint only. Answered by
        /// `Missing`, or by `Received` when none is missing.
        43 OfferFingerprints {
            session: SessionId,
            stripe_set: u32,
            sequence: u64,
            stamp: u64,
            epoch: u64,
            extents: Vec<Extent>,
            fingerprints: Vec<Fingerprint>,
        },
        /// The segments that `Missing` listed, as blocks whose payloads stand one after the other in the payload.
        /// Answered by `Received`, or by `Missing` again when another client's claim was not kept.
        44 SendBlocks { session: SessionId, stripe_set: u32, sequence: u64, blocks: Vec<(BlockHeader, Vec<SegmentEntry>)> },
        /// Answered by `Bytes`.
        45 Read { session: SessionId, stripe_set: u32, extents: Vec<Extent> },
        46 Size { session: SessionId, stripe_set: u32 },
        47 SetSize { session: SessionId, stripe_set: u32, size: u64 },
        /// Makes everything received a durable checkpoint, and begins the given epoch. Epochs only count syncs: resent
        /// writes are recognised by sequence and stamp.
        48 Checkpoint { session: SessionId, stripe_set: u32, epoch: u64 },
        /// The client's window is full: sync what can be.
        49 FlushHint { session: SessionId, stripe_set: u32 },
        /// All stripe sets but the home node's have checkpointed: make the session's writes a version. Nothing follows with
        /// the key's handle but its end.
        50 CommitPath { session: SessionId, key: HandleKey },
        51 Detach { session: SessionId, stripe_set: u32 },
        /// Takes off the key's handle; once.
        52 Leave { session: SessionId, key: HandleKey },
        /// Answered when the lock is held. It is freed with the connection.
        53 Lock { session: SessionId },
        54 Unlock { session: SessionId },
        55 Delete { path: StorePath },
        /// An `OfferFingerprints` with its fingerprints as a digest only, over (fingerprint, length) of each segment.
        /// Answered as an `OfferFingerprints`, or by `NeedFingerprints` when the node does not know the fingerprints.
        56 OfferDigest {
            session: SessionId,
            stripe_set: u32,
            sequence: u64,
            stamp: u64,
            epoch: u64,
            extents: Vec<Extent>,
            names: [u8; 32],
        },
        /// Sent by the last process of a ticket before it leaves: answered by `Others` when no other process uses the
        /// stripe set, or when those that do have had nothing to flush for a while.
        57 AwaitOthers { session: SessionId, stripe_set: u32, processes: u32 },
        /// Reports that this process's writes under the path are in no version, and why: a program may ignore the
        /// results of open and close. Kept for `JobFailures` until the job stores or deletes the path.
        58 ReportFailure { path: StorePath, why: String },
        /// Lists the failures that a job reported to this node.
        59 JobFailures { job: String },
        /// Moves the shared file pointer that belongs to the key's handle by `by` etypes; answered by `Pointer`. Kept by the owner
        /// of stripe set 0. `number` counts the client's moves of this pointer, of which it has one under way at a time.
        /// A `generation` above the pointer's begins anew at `initial`: all processes of the handle have set it.
        60 MovePointer { session: SessionId, key: HandleKey, number: u64, generation: u64, initial: u64, by: u64 },
    }
}

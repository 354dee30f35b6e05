//! Limits on the content of messages. Checked when a message is decoded, so that nothing behind it meets a number that
//! overflows a sum, requests unbounded memory, or addresses an impossible place.

use catalog::{Checkpoint, FileEntry, PathSession, Version};
use format::{
    BlockHeader, BlockKind, Change, HandleKey, MAX_FILE_BYTES, Result, Root, Run, SegmentAddress, VersionRecord,
    corrupt,
};
use store::Answer;

use super::{Extent, Reply, Request, StoredBlockHeader};

/// Sequences, stamps and epochs count up from 1, one at a time.
pub const MAX_COUNT: u64 = 1 << 62;
/// Nodes that share a file.
pub const MAX_NODES: usize = 1024;
/// A node's address, a job, an application (bytes).
pub const MAX_NAME_BYTES: usize = 1024;
/// Clients renew their leases every few seconds.
pub const MAX_LEASE_MS: u64 = 600_000;
/// As `THALWEG_STRIPE_BYTES`.
pub const MAX_STRIPE_BYTES: u64 = 1 << 40;
/// Fingerprints asked about at once: those of 8 GiB in segments of 8 KiB.
pub const MAX_FINGERPRINTS: usize = 1 << 20;
/// Extents in one message, of which each may take a segment's memory; clients send half as many at most.
pub const MAX_EXTENTS: usize = 8192;
/// Changes in one Commit. Those of `put --atomic` reach the longest body first.
pub const MAX_CHANGES: usize = 1 << 19;
/// Entries in one listing, whatever was requested: a longer one is put together from several requests.
pub const MAX_LISTED: usize = 4096;
/// Failures that a node keeps per job.
pub const MAX_JOB_FAILURES: usize = 64;
const MESSAGE: &str = "message";

pub(super) fn check_request(request: &Request) -> Result<()> {
    use Request::*;
    match request {
        Hello { job, application, .. } => name("job", job).and(name("application", application)),
        FindMissing { fingerprints, .. } | AwaitClaims { fingerprints, .. } => {
            at_most("fingerprints", fingerprints.len() as u64, MAX_FINGERPRINTS as u64)
        }
        PutBlock { header, .. } => block(header, &[BlockKind::Data, BlockKind::Page]),
        Get { run } | Entries { run } => addresses(run),
        Begin { lease_ms, .. } | Renew { lease_ms, .. } => at_most("lease_ms", *lease_ms, MAX_LEASE_MS),
        Commit { epoch, changes, .. } => self::epoch(*epoch).and(changes.iter().try_for_each(change)),
        OpenPath { job, nodes, stripe_bytes, key, .. } => {
            name("job", job).and(shared_by(nodes, *stripe_bytes)).and(chosen(key))
        }
        Attach { stripe_set: number, .. } | Size { stripe_set: number, .. } => stripe_set(*number),
        FlushHint { stripe_set: number, .. }
        | Detach { stripe_set: number, .. }
        | AwaitOthers { stripe_set: number, .. } => stripe_set(*number),
        SetSize { stripe_set: number, size, .. } => stripe_set(*number).and(at_most("size", *size, MAX_FILE_BYTES)),
        Checkpoint { stripe_set: number, epoch, .. } => stripe_set(*number).and(self::epoch(*epoch)),
        Read { stripe_set: number, extents, .. } => stripe_set(*number).and(ranges(extents)),
        Write { stripe_set: number, sequence, stamp, epoch, extents, .. }
        | OfferDigest { stripe_set: number, sequence, stamp, epoch, extents, .. } => {
            piece(*number, *sequence, *stamp)?;
            self::epoch(*epoch).and(ranges(extents))
        }
        OfferFingerprints { stripe_set: number, sequence, stamp, epoch, extents, fingerprints, .. } => {
            piece(*number, *sequence, *stamp)?;
            self::epoch(*epoch).and(ranges(extents))?;
            at_most("fingerprints", fingerprints.len() as u64, MAX_FINGERPRINTS as u64)
        }
        SendBlocks { stripe_set: number, sequence, blocks, .. } => {
            piece(*number, *sequence, 0)?;
            blocks.iter().try_for_each(|(header, _)| block(header, &[BlockKind::Data]))
        }
        Measure {} | Model {} | Prove { .. } | Release { .. } | MakeDurable {} | End { .. } | Entry { .. } => Ok(()),
        List { .. } | Versions { .. } | PathSessions { .. } | Checkpoints { .. } | Discard { .. } | Statistics {} => {
            Ok(())
        }
        MovePointer { number, generation, initial, by, .. } => {
            at_most("number of a move", *number, MAX_COUNT)?;
            at_most("generation", *generation, MAX_COUNT)?;
            at_most("position", *initial, MAX_FILE_BYTES).and(at_most("move", *by, MAX_FILE_BYTES))
        }
        ReportFailure { why, .. } => name("why", why),
        JobFailures { job } => name("job", job),
        Recover { .. } | CommitPath { .. } | Leave { .. } | Lock { .. } | Unlock { .. } | Delete { .. } => Ok(()),
    }
}

pub(super) fn check_reply(reply: &Reply) -> Result<()> {
    use Reply::*;
    match reply {
        Answers { answers } => answers.iter().try_for_each(|answer| match answer {
            Answer::Have(address) => check_address(address),
            Answer::Send | Answer::Claimed => Ok(()),
        }),
        Stored { run } => addresses(run),
        Blocks { blocks } => blocks.iter().try_for_each(placed),
        Session { session } => epoch(session.epoch),
        Entry { entry } => entry.iter().try_for_each(file_entry),
        List { entries, .. } => entries.iter().try_for_each(|(_, entry)| file_entry(entry)),
        Versions { versions, .. } => versions.iter().try_for_each(version),
        PathSessions { sessions, .. } => sessions.iter().try_for_each(path_session),
        Checkpoints { checkpoints, .. } => checkpoints.iter().try_for_each(checkpoint),
        Opened { session, size, segment_bytes } => {
            path_session(session)?;
            at_most("size", *size, MAX_FILE_BYTES)?;
            at_most("segment_bytes", u64::from(*segment_bytes), u64::from(format::MAX_SEGMENT_BYTES))
        }
        Attached { size, epoch } => at_most("size", *size, MAX_FILE_BYTES).and(self::epoch(*epoch)),
        Received { sequence, stamp } | Missing { sequence, stamp, .. } | NeedFingerprints { sequence, stamp } => {
            piece(0, *sequence, *stamp)
        }
        Pointer { position } => at_most("position", *position, MAX_FILE_BYTES),
        Bytes { size } | Size { size } => at_most("size", *size, MAX_FILE_BYTES),
        Welcome { settings, .. } => {
            at_most("length of settings", settings.len() as u64, format::MAX_SETTINGS_BYTES as u64)
        }
        StripeSetFailed { stripe_set: number, .. } => stripe_set(*number),
        JobFailures { failures } => {
            at_most("number of failures", failures.len() as u64, MAX_JOB_FAILURES as u64)?;
            failures.iter().try_for_each(|(_, why)| name("why", why))
        }
        Durable { stripe_set: number, sequence, .. } => {
            stripe_set(*number).and(at_most("sequence", *sequence, MAX_COUNT))
        }
        Alive { .. } | Done {} | Failed { .. } | Measured { .. } | Challenge { .. } | Proved { .. } => Ok(()),
        Entries { .. } | Committed { .. } | Statistics { .. } | Model {} | Version { .. } | Others { .. } => Ok(()),
    }
}

fn at_most(what: &str, found: u64, limit: u64) -> Result<()> {
    if found > limit {
        return corrupt(MESSAGE, format!("{what} is {found}, and {limit} is the most"));
    }
    Ok(())
}

fn name(what: &str, text: &str) -> Result<()> {
    at_most(&format!("length of {what}"), text.len() as u64, MAX_NAME_BYTES as u64)
}

fn stripe_set(number: u32) -> Result<()> {
    at_most("stripe set", u64::from(number), MAX_NODES as u64 - 1)
}

fn chosen(key: &HandleKey) -> Result<()> {
    if key.is_empty() {
        return corrupt(MESSAGE, "the handle's key is all zeros; clients choose 16 random bytes");
    }
    Ok(())
}

fn epoch(epoch: u64) -> Result<()> {
    at_most("epoch", epoch, MAX_COUNT)
}

fn piece(number: u32, sequence: u64, stamp: u64) -> Result<()> {
    stripe_set(number)?;
    if sequence == 0 {
        return corrupt(MESSAGE, "sequence is 0, and 1 is the first");
    }
    at_most("sequence", sequence, MAX_COUNT).and(at_most("stamp", stamp, MAX_COUNT))
}

fn ranges(extents: &[Extent]) -> Result<()> {
    at_most("number of extents", extents.len() as u64, MAX_EXTENTS as u64)?;
    for Extent { offset, bytes } in extents {
        at_most("end of an extent", offset.saturating_add(*bytes), MAX_FILE_BYTES)?;
    }
    Ok(())
}

fn shared_by(nodes: &[String], stripe_bytes: u64) -> Result<()> {
    at_most("number of nodes", nodes.len() as u64, MAX_NODES as u64)?;
    nodes.iter().try_for_each(|node| name("address", node))?;
    at_most("stripe_bytes", stripe_bytes, MAX_STRIPE_BYTES)
}

fn block(header: &BlockHeader, kinds: &[BlockKind]) -> Result<()> {
    if !kinds.contains(&header.kind) {
        return corrupt(MESSAGE, format!("a block of kind {} does not belong here", header.kind as u8));
    }
    at_most("raw_bytes", u64::from(header.raw_bytes), u64::from(format::MAX_SEGMENT_BYTES))
}

fn check_address(address: &SegmentAddress) -> Result<()> {
    if !address.is_possible() {
        return corrupt(MESSAGE, format!("{address} is beyond the numbers that containers and segments have"));
    }
    Ok(())
}

fn addresses(run: &Run) -> Result<()> {
    if !run.is_possible() {
        let (container, first) = (run.container, run.first);
        let why = format!("{} segments from {container}:{first} on are beyond the numbers there are", run.count);
        return corrupt(MESSAGE, why);
    }
    Ok(())
}

fn placed(placed: &StoredBlockHeader) -> Result<()> {
    let kinds = [BlockKind::Data, BlockKind::Page, BlockKind::Journal];
    block(&placed.header, &kinds)?;
    let run = |label: &format::Label| Run { container: label.container, first: label.first, count: label.count };
    placed.labels.iter().try_for_each(|label| addresses(&run(label)))
}

fn record(record: &VersionRecord) -> Result<()> {
    at_most("size", record.size, MAX_FILE_BYTES)?;
    match &record.root {
        Root::Stored { address, .. } => check_address(address),
        Root::Inline(_) => Ok(()),
    }
}

fn change(change: &Change) -> Result<()> {
    match change {
        Change::Write { version, .. } => record(version),
        _ => Ok(()),
    }
}

fn version(version: &Version) -> Result<()> {
    record(&version.record)
}

fn file_entry(entry: &FileEntry) -> Result<()> {
    entry.head.iter().try_for_each(version)
}

fn path_session(session: &PathSession) -> Result<()> {
    shared_by(&session.nodes, session.stripe_bytes).and(name("job", &session.job))
}

fn checkpoint(checkpoint: &Checkpoint) -> Result<()> {
    stripe_set(checkpoint.stripe_set)?;
    record(&VersionRecord { root: checkpoint.root.clone(), size: checkpoint.size, content: None })
}

#[cfg(test)]
mod tests {
    use format::{CodecId, ContainerId, ElementId, Fingerprint, SessionId, StorePath};

    use super::*;

    const SESSION: SessionId = SessionId(3);

    fn write(sequence: u64, stamp: u64, offset: u64, bytes: u64) -> Request {
        let extents = vec![Extent { offset, bytes }];
        Request::Write { session: SESSION, stripe_set: 0, sequence, stamp, epoch: 0, mode: None, extents }
    }

    fn put(kind: BlockKind) -> Request {
        let (key_id, group, record_length, phase, segments) = (0, 0, 0, 0, 0);
        let (raw_bytes, stored_bytes, offset, checksum) = (0, 0, 0, 0);
        let (codec, cipher, level, filters) = (CodecId::None, 0, 0, [0; 4]);
        let header = BlockHeader {
            kind,
            codec,
            cipher,
            level,
            filters,
            key_id,
            group,
            record_length,
            phase,
            element: ElementId::U8,
            segments,
            raw_bytes,
            stored_bytes,
            offset,
            checksum,
        };
        Request::PutBlock { owner: 1, header, segments: Vec::new() }
    }

    fn commit(size: u64, ordinal: u32) -> Request {
        let root = Root::Stored { address: SegmentAddress::new(ContainerId(1), ordinal), digest: [0; 32] };
        let version = VersionRecord { root, size, content: None };
        let path = StorePath::new(b"a").unwrap();
        let changes = vec![Change::Write { path, attributes: Default::default(), version, base: None }];
        Request::Commit { session: SESSION, references: Vec::new(), epoch: 0, changes, checkpoints: Vec::new() }
    }

    /// Returns a request for one byte of each of `count` segments.
    fn scattered(count: usize) -> Request {
        let extents = (0..count as u64).map(|number| Extent { offset: number * 8192, bytes: 1 }).collect();
        Request::Write { session: SESSION, stripe_set: 0, sequence: 1, stamp: 0, epoch: 0, mode: None, extents }
    }

    fn removals(count: usize) -> Request {
        let removal = Change::Remove { path: StorePath::new(b"a").unwrap(), recursive: false };
        let changes = vec![removal; count];
        Request::Commit { session: SESSION, references: Vec::new(), epoch: 0, changes, checkpoints: Vec::new() }
    }

    fn open(nodes: usize, stripe_bytes: u64) -> Request {
        let path = StorePath::new(b"a").unwrap();
        let nodes = vec!["a:1".into(); nodes];
        Request::OpenPath { path, flags: 0, job: String::new(), nodes, stripe_bytes, key: HandleKey([1; 16]) }
    }

    fn is_taken(request: &Request) -> bool {
        Request::decode(request.kind(), &request.encode()).is_ok()
    }

    #[test]
    fn requests_at_their_limits_are_taken_and_those_beyond_are_refused() {
        let run =
            |container, first, count| Request::Get { run: Run { container: ContainerId(container), first, count } };
        let missing = |count| Request::FindMissing { owner: 1, fingerprints: vec![Fingerprint([1; 32]); count] };
        let begin = |lease_ms| Request::Begin { purpose: catalog::Purpose::Write, lease_ms };
        let size = |size| Request::SetSize { session: SESSION, stripe_set: 0, size };
        let checkpoint = |epoch| Request::Checkpoint { session: SESSION, stripe_set: 0, epoch };
        let attach = |stripe_set| Request::Attach { session: SESSION, stripe_set, key: HandleKey([1; 16]) };
        let read =
            |offset, bytes| Request::Read { session: SESSION, stripe_set: 0, extents: vec![Extent { offset, bytes }] };
        let hello =
            |length| Request::Hello { client: 1, stream: 1, job: "j".repeat(length), application: String::new() };
        let of_epoch = |epoch| Request::Write {
            session: SESSION,
            stripe_set: 0,
            sequence: 1,
            stamp: 0,
            epoch,
            mode: None,
            extents: vec![Extent { offset: 0, bytes: 8 }],
        };
        let commit_in = |epoch| {
            let (references, changes, checkpoints) = (Vec::new(), Vec::new(), Vec::new());
            Request::Commit { session: SESSION, references, epoch, changes, checkpoints }
        };
        let move_of = |number, initial, by| Request::MovePointer {
            session: SESSION,
            key: HandleKey([1; 16]),
            number,
            generation: 0,
            initial,
            by,
        };
        let cases = [
            (move_of(MAX_COUNT, MAX_FILE_BYTES, 0), move_of(MAX_COUNT, MAX_FILE_BYTES + 1, 0)),
            (move_of(1, 0, MAX_FILE_BYTES), move_of(1, 0, u64::MAX)),
            (move_of(1, 0, 0), move_of(u64::MAX, 0, 0)),
            (scattered(MAX_EXTENTS), scattered(MAX_EXTENTS + 1)),
            (removals(MAX_CHANGES), removals(MAX_CHANGES + 1)),
            (write(1, 0, 0, 8), write(0, 0, 0, 8)),
            (write(MAX_COUNT, MAX_COUNT, 0, 8), write(1, MAX_COUNT + 1, 0, 8)),
            (write(MAX_COUNT, 0, 0, 8), write(u64::MAX, 0, 0, 8)),
            (of_epoch(MAX_COUNT), of_epoch(u64::MAX)),
            (commit_in(MAX_COUNT), commit_in(MAX_COUNT + 1)),
            (write(1, 0, MAX_FILE_BYTES - 8, 8), write(1, 0, MAX_FILE_BYTES - 8, 9)),
            (read(0, MAX_FILE_BYTES), read(u64::MAX - 8, 16)),
            (size(MAX_FILE_BYTES), size(MAX_FILE_BYTES + 1)),
            (checkpoint(MAX_COUNT), checkpoint(u64::MAX)),
            (attach(MAX_NODES as u32 - 1), attach(MAX_NODES as u32)),
            (put(BlockKind::Data), put(BlockKind::Journal)),
            (commit(8, (1 << 24) - 1), commit(8, u32::MAX)),
            (commit(MAX_FILE_BYTES, 0), commit(u64::MAX, 0)),
            (open(MAX_NODES, MAX_STRIPE_BYTES), open(MAX_NODES + 1, 8192)),
            (open(1, 8192), open(1, u64::MAX)),
            (begin(MAX_LEASE_MS), begin(u64::MAX)),
            (run((1 << 40) - 1, 0, 1 << 24), run(1, 1, 1 << 24)),
            (run(1, 0, 0), run(1 << 40, 0, 1)),
            (missing(MAX_FINGERPRINTS), missing(MAX_FINGERPRINTS + 1)),
            (hello(MAX_NAME_BYTES), hello(MAX_NAME_BYTES + 1)),
        ];
        for (good, bad) in cases {
            assert!(is_taken(&good), "{good:?}");
            assert!(!is_taken(&bad), "{bad:?}");
        }
    }

    #[test]
    fn replies_beyond_their_limits_are_refused() {
        let session = |stripe_bytes| PathSession {
            id: SESSION,
            path: StorePath::new(b"a").unwrap(),
            nodes: vec!["a:1".into()],
            stripe_bytes,
            job: String::new(),
            opened_ns: 0,
            handles: 1,
            interrupted: false,
        };
        let far = SegmentAddress::new(ContainerId(1), u32::MAX);
        let replies = [
            Reply::Attached { size: 0, epoch: u64::MAX },
            Reply::Received { sequence: 1, stamp: u64::MAX },
            Reply::Bytes { size: u64::MAX },
            Reply::Size { size: u64::MAX },
            Reply::Pointer { position: MAX_FILE_BYTES + 1 },
            Reply::Answers { answers: vec![Answer::Have(far)] },
            Reply::Stored { run: Run::single(far) },
            Reply::Opened { session: session(u64::MAX), size: 0, segment_bytes: 8192 },
            Reply::Opened { session: session(8192), size: 0, segment_bytes: u32::MAX },
        ];
        for reply in replies {
            assert!(Reply::decode(reply.kind(), &reply.encode()).is_err(), "{reply:?}");
        }
    }
}

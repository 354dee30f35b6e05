//! Random values of every field and message, from one seed.

use catalog::{Checkpoint, FileEntry, PathSession, Purpose, Refusal, Version};
use format::{
    Attributes, BlockHeader, BlockKind, Change, CodecId, ContainerId, ElementId, Entry, EntryKind, FileId, FileKind,
    FileTime, FileTimes, Fingerprint, HandleKey, Label, Mode, Page, Root, Run, SegmentAddress, SegmentEntry, SessionId,
    StorePath, VersionId, VersionRecord,
};
use store::Answer;
use transfer::message::{
    Extent, Failure, FailureKind, MAX_LEASE_MS, MAX_NODES, Reply, Request, StoreStatistics, StoredBlockHeader, Subject,
};

/// Xorshift, and not the generator of crate `random`: the golden frames in testdata hold values that were drawn from it.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.u64() >> 11) % limit
    }

    pub fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    pub fn bool(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.u64() as u8).collect()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.u64() as u8)
    }

    fn text(&mut self) -> String {
        (0..self.below(12)).map(|_| ['a', 'Ω', '7', '/', ' ', '"'][self.below(6) as usize]).collect()
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| item(self)).collect()
    }

    fn option<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Option<T> {
        self.bool().then(|| item(self))
    }

    fn path(&mut self) -> StorePath {
        let name = |random: &mut Self| (1 + random.below(250) as u8).to_string().into_bytes();
        let mut path = self.list(name).join(&b'/');
        path.push(0xff);
        StorePath::new(&path).expect("digits and slashes make a path")
    }

    fn session(&mut self) -> SessionId {
        SessionId(self.u64())
    }

    fn container(&mut self) -> ContainerId {
        ContainerId(self.u64() >> 24)
    }

    fn ordinal(&mut self) -> u32 {
        self.u32() >> 8
    }

    /// Returns a sequence, a stamp, an epoch; also a file's size.
    fn count(&mut self) -> u64 {
        (self.u64() >> 2).max(1)
    }

    fn stripe_set(&mut self) -> u32 {
        self.below(MAX_NODES as u64) as u32
    }

    fn fingerprint(&mut self) -> Fingerprint {
        Fingerprint(self.array())
    }

    fn segment(&mut self) -> SegmentEntry {
        SegmentEntry { fingerprint: self.fingerprint(), bytes: self.below(format::MAX_SEGMENT_BYTES as u64 + 1) as u32 }
    }

    fn address(&mut self) -> SegmentAddress {
        SegmentAddress::new(self.container(), self.ordinal())
    }

    fn run(&mut self) -> Run {
        Run { container: self.container(), first: self.ordinal() >> 1, count: self.ordinal() >> 1 }
    }

    fn block(&mut self) -> BlockHeader {
        BlockHeader {
            kind: BlockKind::Data,
            codec: CodecId::ALL[self.below(3) as usize],
            cipher: self.u64() as u8,
            level: self.u64() as i8,
            filters: self.array(),
            key_id: self.u32(),
            group: self.u32(),
            record_length: self.u32(),
            phase: self.u32(),
            element: ElementId::U8,
            segments: self.u32(),
            raw_bytes: self.u32() >> 6,
            stored_bytes: self.u32(),
            offset: self.u64(),
            checksum: self.u64(),
        }
    }

    fn label(&mut self) -> Label {
        Label { container: self.container(), first: self.ordinal() >> 1, count: self.ordinal() >> 1 }
    }

    fn placed(&mut self) -> StoredBlockHeader {
        StoredBlockHeader { labels: self.list(Self::label), header: self.block(), segments: self.list(Self::segment) }
    }

    fn extent(&mut self) -> Extent {
        Extent { offset: self.u64() >> 3, bytes: self.u64() >> 3 }
    }

    fn page(&mut self) -> Page {
        let entry = |random: &mut Self| Entry { length: random.below(1 << 40), kind: EntryKind::Zero };
        Page { level: 0, entries: self.list(entry) }
    }

    fn root(&mut self) -> Root {
        match self.bool() {
            true => Root::Inline(self.page().encode()),
            false => Root::Stored { address: self.address(), digest: self.array() },
        }
    }

    fn time(&mut self) -> FileTime {
        FileTime { seconds: self.u64() as i64, nanoseconds: self.below(1_000_000_000) as u32 }
    }

    fn attributes(&mut self) -> Attributes {
        Attributes {
            kind: [FileKind::Regular, FileKind::Directory, FileKind::Symlink][self.below(3) as usize],
            mode: self.u32(),
            uid: self.u32(),
            gid: self.u32(),
            times: FileTimes { modified: self.time(), changed: self.time() },
            inode: self.u64(),
            target: self.bytes(9),
            extended: self.list(|random| (random.bytes(5), random.bytes(9))),
        }
    }

    fn record(&mut self) -> VersionRecord {
        VersionRecord { root: self.root(), size: self.count(), content: self.option(Self::array) }
    }

    fn version(&mut self) -> Version {
        let (number, committed_ns, record) = (self.u64(), self.u64() as i64, self.record());
        Version { number, committed_ns, record, attributes: self.option(Self::attributes).map(Box::new) }
    }

    fn entry(&mut self) -> FileEntry {
        FileEntry {
            file: FileId(self.u64()),
            attributes: self.attributes(),
            head: self.option(Self::version),
            links: self.u64(),
        }
    }

    fn version_id(&mut self) -> VersionId {
        VersionId { file: FileId(self.u64()), number: self.u64() }
    }

    fn change(&mut self) -> Change {
        let path = self.path();
        match self.below(7) {
            0 => Change::Write {
                path,
                attributes: self.attributes(),
                version: self.record(),
                base: self.option(|random| random.option(Self::version_id)),
            },
            1 => Change::Make { path, attributes: self.attributes() },
            2 => Change::Link { path, target: self.path() },
            3 => Change::Remove { path, recursive: self.bool() },
            4 => Change::Rename { from: path, to: self.path() },
            5 => Change::Attributes { path, attributes: self.attributes() },
            _ => Change::Forget { path, file: FileId(self.u64()), versions: self.list(Self::u64) },
        }
    }

    fn answer(&mut self) -> Answer {
        match self.below(3) {
            0 => Answer::Send,
            1 => Answer::Claimed,
            _ => Answer::Have(self.address()),
        }
    }

    fn path_session(&mut self) -> PathSession {
        PathSession {
            id: self.session(),
            path: self.path(),
            nodes: self.list(Self::text),
            stripe_bytes: self.u64() >> 24,
            job: self.text(),
            opened_ns: self.u64() as i64,
            handles: self.u32(),
            interrupted: self.bool(),
        }
    }

    fn checkpoint(&mut self) -> Checkpoint {
        Checkpoint {
            session: self.session(),
            stripe_set: self.stripe_set(),
            owner: self.u64(),
            number: self.u64(),
            epoch: self.count(),
            root: self.root(),
            size: self.count(),
            resized: self.bool(),
            frontier: self.list(|random| (random.u64(), random.u32(), random.u64())),
            stamps: self.list(|random| (random.u64(), random.u64(), random.u64())),
        }
    }

    fn failure(&mut self) -> Failure {
        use FailureKind::*;
        let kinds = [
            NotFound,
            Exists,
            Refused,
            Unavailable,
            Full,
            Corrupt,
            Io,
            NotLive,
            HeadMoved,
            LeaseLost,
            StripeSetLost,
            TooNew,
        ];
        Failure {
            kind: kinds[self.below(kinds.len() as u64) as usize],
            text: self.text(),
            path: self.option(Self::path),
            containers: self.list(Self::container),
            head: self.option(Self::version_id),
            refusal: self.option(|random| Refusal::ALL[random.below(Refusal::ALL.len() as u64) as usize]),
            subject: self.option(|random| {
                Box::new(Subject { name: random.text(), offset: random.u64(), damage: random.text() })
            }),
        }
    }

    fn statistics(&mut self) -> StoreStatistics {
        StoreStatistics {
            logical_bytes: self.u64(),
            unique_bytes: self.u64(),
            stored_bytes: self.u64(),
            segments: self.u64(),
            unique_segments: self.u64(),
            containers: self.u64(),
            files: self.u64(),
            table_memory_bytes: self.u64(),
        }
    }

    /// Returns one request of each kind.
    pub fn requests(&mut self) -> Vec<Request> {
        use Request::*;
        vec![
            Hello { client: self.u64(), stream: self.u32(), job: self.text(), application: self.text() },
            Measure {},
            Prove { nonce: self.array(), proof: self.array() },
            FindMissing { owner: self.u64(), fingerprints: self.list(Self::fingerprint) },
            AwaitClaims { owner: self.u64(), fingerprints: self.list(Self::fingerprint) },
            PutBlock { owner: self.u64(), header: self.block(), segments: self.list(Self::segment) },
            Release { owner: self.u64() },
            Get { run: self.run() },
            Entries { run: self.run() },
            MakeDurable {},
            Begin {
                purpose: [Purpose::Read, Purpose::Write, Purpose::Path][self.below(3) as usize],
                lease_ms: self.below(MAX_LEASE_MS),
            },
            Renew { session: self.session(), lease_ms: self.below(MAX_LEASE_MS), refresh: self.bool() },
            End { session: self.session() },
            Commit {
                session: self.session(),
                references: self.list(Self::container),
                epoch: self.count(),
                changes: self.list(Self::change),
                checkpoints: self.list(|random| (random.session(), random.u32(), random.u64())),
            },
            Entry { path: self.path() },
            List { directory: self.path(), recursive: self.bool(), after: self.option(Self::path), limit: self.u32() },
            Versions { path: self.path(), after: self.u64() },
            PathSessions { after: self.session() },
            Checkpoints { session: self.session(), after: (self.u32(), self.u64()) },
            Discard { session: self.session() },
            Statistics {},
            Model {},
            Recover { session: self.session() },
            OpenPath {
                path: self.path(),
                flags: self.u32(),
                job: self.text(),
                nodes: self.list(Self::text),
                stripe_bytes: self.u64() >> 24,
                key: HandleKey(self.array()),
            },
            Attach { session: self.session(), stripe_set: self.stripe_set(), key: HandleKey(self.array()) },
            Write {
                session: self.session(),
                stripe_set: self.stripe_set(),
                sequence: self.count(),
                stamp: self.count(),
                epoch: self.count(),
                mode: Mode::from_byte(self.below(5) as u8),
                extents: self.list(Self::extent),
            },
            OfferFingerprints {
                session: self.session(),
                stripe_set: self.stripe_set(),
                sequence: self.count(),
                stamp: self.count(),
                epoch: self.count(),
                extents: self.list(Self::extent),
                fingerprints: self.list(Self::fingerprint),
            },
            SendBlocks {
                session: self.session(),
                stripe_set: self.stripe_set(),
                sequence: self.count(),
                blocks: self.list(|random| (random.block(), random.list(Self::segment))),
            },
            Read { session: self.session(), stripe_set: self.stripe_set(), extents: self.list(Self::extent) },
            Size { session: self.session(), stripe_set: self.stripe_set() },
            SetSize { session: self.session(), stripe_set: self.stripe_set(), size: self.count() },
            Checkpoint { session: self.session(), stripe_set: self.stripe_set(), epoch: self.count() },
            FlushHint { session: self.session(), stripe_set: self.stripe_set() },
            CommitPath { session: self.session(), key: HandleKey(self.array()) },
            Detach { session: self.session(), stripe_set: self.stripe_set() },
            AwaitOthers { session: self.session(), stripe_set: self.stripe_set(), processes: self.below(9) as u32 },
            Leave { session: self.session(), key: HandleKey(self.array()) },
            Lock { session: self.session() },
            Unlock { session: self.session() },
            Delete { path: self.path() },
            ReportFailure { path: self.path(), why: self.text() },
            JobFailures { job: self.text() },
            MovePointer {
                session: self.session(),
                key: HandleKey(self.array()),
                number: self.count(),
                generation: self.count(),
                initial: self.count(),
                by: self.count(),
            },
            OfferDigest {
                session: self.session(),
                stripe_set: self.stripe_set(),
                sequence: self.count(),
                stamp: self.count(),
                epoch: self.count(),
                extents: self.list(Self::extent),
                names: self.array(),
            },
        ]
    }

    /// Returns one reply of each kind.
    pub fn replies(&mut self) -> Vec<Reply> {
        use Reply::*;
        vec![
            Done {},
            Failed { failure: self.failure() },
            Welcome { settings: self.text(), incarnation: self.u64() },
            Answers { answers: self.list(Self::answer) },
            Stored { run: self.run() },
            Blocks { blocks: self.list(Self::placed) },
            Entries { entries: self.list(Self::segment) },
            Session { session: catalog::Session { id: self.session(), epoch: self.count() } },
            Committed {
                committed: catalog::Committed {
                    sequence: self.count(),
                    numbers: self.list(|random| (FileId(random.u64()), random.u64())),
                },
            },
            Entry { entry: self.option(Self::entry) },
            List { entries: self.list(|random| (random.path(), random.entry())), more: self.bool() },
            Versions { versions: self.list(Self::version), more: self.bool() },
            PathSessions { sessions: self.list(Self::path_session), more: self.bool() },
            Checkpoints { checkpoints: self.list(Self::checkpoint), more: self.bool() },
            Statistics { statistics: self.statistics() },
            Model {},
            Opened { session: self.path_session(), size: self.count(), segment_bytes: self.u32() >> 6 },
            Attached { size: self.count(), epoch: self.count() },
            Received { sequence: self.count(), stamp: self.count() },
            Missing { sequence: self.count(), stamp: self.count(), wanted: self.list(Self::u32) },
            Bytes { size: self.count() },
            Size { size: self.count() },
            Version { number: self.u64() },
            Durable {
                session: self.session(),
                stripe_set: self.stripe_set(),
                sequence: self.count(),
                held: vec![self.u64()],
            },
            Measured { workers: self.u32() },
            Others { streams: self.u32() },
            JobFailures { failures: self.list(|random| (random.path(), random.text())) },
            Pointer { position: self.count() },
            Challenge { nonce: self.array() },
            Proved { proof: self.array() },
            NeedFingerprints { sequence: self.count(), stamp: self.count() },
            Alive { progress: self.u64() },
            StripeSetFailed { session: self.session(), stripe_set: self.stripe_set(), failure: self.failure() },
        ]
    }
}

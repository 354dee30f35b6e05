//! A live node, and clients that send what no honest client sends: random requests in plausible order, with numbers
//! that decoders and sums trip over, and bodies with flipped bits. The node must live, serve honest clients, stay within
//! its memory and threads, and leave a store that verifies and rebuilds.
//!
//! `THALWEG_FUZZ_SECONDS` makes it longer (`make soak`); `THALWEG_TEST_SEED` has a run again.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog::Purpose;
use format::{
    Attributes, Block, BlockKind, Change, ContainerId, Entry, EntryKind, FileId, Fingerprint, HandleKey, Mode, Page,
    Root, Run, SegmentAddress, SessionId, StorePath, VersionRecord, page_digest,
};
use random::Random;
use segment::{BlockBuilder, fingerprint, names_digest};
use transfer::Connection;
use transfer::message::{Extent, Reply, Request};

use super::runner::{Store, command, run};

const ATTACKERS: u64 = 6;
const DEFAULT_SECONDS: u64 = 5;
/// The node's staging, and everything else it may hold.
const STAGING_MIB: u64 = 64;
const MAX_NODE_BYTES: u64 = 1 << 30;
const MAX_NODE_THREADS: u64 = 400;
/// Answers waited for before more is sent.
const UNANSWERED: u64 = 64;

fn seconds() -> u64 {
    std::env::var("THALWEG_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_SECONDS)
}

/// A node whose messages are kept.
struct Node {
    process: Child,
    address: String,
    messages: std::path::PathBuf,
}

impl Node {
    fn start(store: &Store) -> Self {
        let messages = store.path("messages");
        let staging = STAGING_MIB.to_string();
        let directory = store.directory();
        let arguments = [
            "node".as_ref(),
            directory.as_os_str(),
            "--listen".as_ref(),
            "127.0.0.1:0".as_ref(),
            "--staging-mib".as_ref(),
            staging.as_ref(),
        ];
        let mut command = command(&arguments);
        command.stdout(Stdio::piped()).stderr(File::create(&messages).unwrap());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("a node says where it listens").to_owned();
        Node { process, address, messages }
    }

    /// A line of `/proc/PID/status`, as a number.
    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or("0");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn stop(mut self) {
        let pid = self.process.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let ended = self.process.wait().unwrap();
        let messages = std::fs::read_to_string(&self.messages).unwrap_or_default();
        assert!(ended.success(), "the node ended with {ended}: {messages}");
        assert!(!messages.contains("panicked"), "{messages}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Numbers that decoders and sums trip over, and small ones.
fn number(random: &mut Random) -> u64 {
    const EDGES: [u64; 22] = [
        0,
        1,
        2,
        7,
        4096,
        8191,
        8192,
        8193,
        1 << 16,
        (1 << 24) - 1,
        1 << 24,
        u32::MAX as u64 - 1,
        u32::MAX as u64,
        1 << 32,
        1 << 40,
        (1 << 62) - 1,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 8192,
        u64::MAX - 1,
        u64::MAX,
    ];
    match random.below(4) {
        0 => random.below(64),
        1 => random.next(),
        _ => EDGES[random.below(EDGES.len() as u64) as usize],
    }
}

/// An attacker's knowledge of the node.
struct Attacker {
    random: Random,
    /// Leases and sessions of paths.
    sessions: Vec<SessionId>,
    runs: Vec<Run>,
    roots: Vec<Root>,
    sequence: u64,
}

impl Attacker {
    fn pick<T: Clone>(&mut self, known: &[T]) -> Option<T> {
        let at = self.random.below(known.len().max(1) as u64) as usize;
        known.get(at).cloned()
    }

    /// One of a few, so that it is often right.
    fn key(&mut self) -> HandleKey {
        HandleKey([1 + self.random.below(2) as u8; HandleKey::BYTES])
    }

    fn session(&mut self) -> SessionId {
        let known = self.sessions.clone();
        match self.random.below(8) {
            0 => SessionId(number(&mut self.random)),
            1 => SessionId(self.random.below(64)),
            _ => self.pick(&known).unwrap_or(SessionId(1)),
        }
    }

    fn stripe_set(&mut self) -> u32 {
        if self.random.below(8) == 0 { number(&mut self.random) as u32 } else { 0 }
    }

    fn path(&mut self) -> StorePath {
        let name = format!("attacked/{}", self.random.below(6));
        match self.random.below(12) {
            0 => StorePath::root(),
            1 => StorePath::new(b"attacked").unwrap(),
            2 => StorePath::new(&[b'x'; 4096]).unwrap(),
            _ => StorePath::new(name.as_bytes()).unwrap(),
        }
    }

    fn extent(&mut self) -> Extent {
        match self.random.below(3) {
            0 => Extent { offset: number(&mut self.random), bytes: number(&mut self.random) },
            1 => Extent { offset: self.random.below(1 << 20), bytes: self.random.below(20_000) },
            _ => Extent { offset: 8192 * self.random.below(256), bytes: 8192 * self.random.below(8) },
        }
    }

    fn extents(&mut self) -> Vec<Extent> {
        (0..self.random.below(4)).map(|_| self.extent()).collect()
    }

    fn fingerprint(&mut self) -> Fingerprint {
        match self.random.below(9) {
            0 => Fingerprint([0; 32]),
            _ => fingerprint(format::FingerprintKind::Blake3, &self.random.below(99).to_le_bytes()),
        }
    }

    fn fingerprints(&mut self) -> Vec<Fingerprint> {
        (0..self.random.below(20)).map(|_| self.fingerprint()).collect()
    }

    fn run(&mut self) -> Run {
        let known = self.runs.clone();
        let run = self.pick(&known).unwrap_or(Run { container: ContainerId(1), first: 0, count: 1 });
        let mut wild = || number(&mut self.random);
        let (container, first, count) = (wild(), wild() as u32, wild() as u32);
        match self.random.below(6) {
            0 => Run { container: ContainerId(container), ..run },
            1 => Run { first, ..run },
            2 => Run { count, ..run },
            3 => Run { container: ContainerId(container), first, count },
            _ => run,
        }
    }

    fn block(&mut self) -> Block {
        let kind =
            [BlockKind::Data, BlockKind::Data, BlockKind::Page, BlockKind::Journal][self.random.below(4) as usize];
        let mut builder = BlockBuilder::new(kind, 0);
        for _ in 0..1 + self.random.below(4) {
            let bytes = match (kind, self.random.below(2)) {
                (BlockKind::Page, 0) => self.page().encode(),
                _ => {
                    let count = self.random.below(9000) as usize;
                    self.random.bytes(count)
                }
            };
            builder.push(fingerprint(format::FingerprintKind::Blake3, &bytes), &bytes);
        }
        let mut block = builder.finish(format::Settings::new(Default::default()).codec);
        if self.random.below(3) == 0 {
            self.spoil(&mut block);
        }
        block
    }

    fn spoil(&mut self, block: &mut Block) {
        let wild = number(&mut self.random);
        match self.random.below(8) {
            0 => block.header.raw_bytes = wild as u32,
            1 => block.header.stored_bytes = wild as u32,
            2 => block.header.segments = wild as u32,
            3 => block.header.offset = wild,
            4 => block.header.cipher = wild as u8,
            5 => block.segments.clear(),
            6 => block.payload.truncate(wild as usize % (block.payload.len() + 1)),
            _ => block.header.checksum ^= 1,
        }
    }

    fn page(&mut self) -> Page {
        let level = if self.random.below(2) == 0 { 0 } else { number(&mut self.random) as u8 };
        let entries = (0..self.random.below(5)).map(|_| {
            let length =
                if self.random.below(2) == 0 { self.random.below(9000) } else { number(&mut self.random) >> 4 };
            let (run, digest) = (self.run(), [self.random.below(256) as u8; 32]);
            let kind = match (level, self.random.below(4)) {
                (0, 0) => EntryKind::Zero,
                (0, 1) => EntryKind::Hole,
                (0, _) => EntryKind::Data { run, skip: number(&mut self.random) as u32, digest },
                _ => EntryKind::Page { address: SegmentAddress::new(run.container, run.first), digest },
            };
            Entry { length, kind }
        });
        Page { level, entries: entries.collect() }
    }

    fn root(&mut self) -> Root {
        let known = self.roots.clone();
        match self.random.below(4) {
            0 => self.pick(&known).unwrap_or(Root::Inline(Vec::new())),
            1 => Root::Inline(self.page().encode()),
            2 => {
                let count = self.random.below(200) as usize;
                Root::Inline(self.random.bytes(count))
            }
            _ => {
                let run = self.run();
                Root::Stored { address: SegmentAddress::new(run.container, run.first), digest: page_digest(b"none") }
            }
        }
    }

    fn change(&mut self) -> Change {
        let path = self.path();
        let attributes = Attributes { mode: number(&mut self.random) as u32, ..Attributes::default() };
        match self.random.below(12) {
            0 => Change::Remove { path, recursive: self.random.below(2) == 0 },
            1 => Change::Rename { from: path, to: self.path() },
            2 => Change::Link { path, target: self.path() },
            3 => Change::Forget {
                path,
                file: FileId(number(&mut self.random)),
                versions: vec![number(&mut self.random)],
            },
            4 => Change::Make { path, attributes },
            5 => Change::Attributes { path, attributes },
            _ => {
                let version = VersionRecord { root: self.root(), size: number(&mut self.random), content: None };
                Change::Write { path, attributes, version, base: None }
            }
        }
    }

    fn sequence(&mut self) -> (u64, u64) {
        self.sequence += 1;
        let sequence = if self.random.below(6) == 0 { number(&mut self.random) } else { self.sequence };
        let stamp = if self.random.below(4) == 0 { number(&mut self.random) } else { 0 };
        (sequence, stamp)
    }

    /// A request and its payload. Every kind that a node answers comes up.
    fn request(&mut self) -> (Request, Vec<u8>) {
        use Request::*;
        let (session, stripe_set, extents) = (self.session(), self.stripe_set(), self.extents());
        let (sequence, stamp) = self.sequence();
        let wild = number(&mut self.random);
        let request = match self.random.below(50) {
            0 => FindMissing { owner: wild, fingerprints: self.fingerprints() },
            1 => AwaitClaims { owner: wild, fingerprints: self.fingerprints() },
            2..=5 => {
                let Block { header, segments, payload } = self.block();
                return (PutBlock { owner: wild, header, segments }, payload);
            }
            6 => Release { owner: wild },
            7 => Get { run: self.run() },
            8 => Entries { run: self.run() },
            9 => MakeDurable {},
            10 => Begin { purpose: [Purpose::Read, Purpose::Write, Purpose::Path][wild as usize % 3], lease_ms: wild },
            11 => Renew { session, lease_ms: wild, refresh: true },
            12 => End { session },
            13..=18 => {
                let changes = (0..1 + self.random.below(3)).map(|_| self.change()).collect();
                let references = vec![self.run().container];
                let checkpoints =
                    if self.random.below(4) == 0 { vec![(session, stripe_set, wild)] } else { Vec::new() };
                Commit { session, references, epoch: wild, changes, checkpoints }
            }
            19 => Entry { path: self.path() },
            20 => List { directory: self.path(), recursive: true, after: None, limit: wild as u32 },
            21 => Versions { path: self.path(), after: wild },
            22 => PathSessions { after: session },
            23 => Checkpoints { session, after: (stripe_set, wild) },
            24 => Discard { session },
            25 => Statistics {},
            26 => Recover { session },
            27 => {
                let nodes = vec!["127.0.0.1:1".into(); self.random.below(3) as usize];
                let (path, key) = (self.path(), self.key());
                OpenPath { path, flags: wild as u32, job: String::new(), nodes, stripe_bytes: wild, key }
            }
            28 | 44..=49 => Attach { session, stripe_set, key: self.key() },
            29..=31 => {
                let total = Extent::total_bytes(&extents).min(1 << 16) as usize;
                let payload = self.random.bytes(total);
                let mode = Mode::from_byte(wild as u8);
                return (Write { session, stripe_set, sequence, stamp, epoch: wild, mode, extents }, payload);
            }
            32 => {
                let fingerprints = self.fingerprints();
                OfferFingerprints { session, stripe_set, sequence, stamp, epoch: wild, extents, fingerprints }
            }
            33 => {
                let Block { header, segments, payload } = self.block();
                return (SendBlocks { session, stripe_set, sequence, blocks: vec![(header, segments)] }, payload);
            }
            34 => OfferDigest { session, stripe_set, sequence, stamp, epoch: wild, extents, names: names_digest(&[]) },
            35 => Read { session, stripe_set, extents },
            36 => Size { session, stripe_set },
            37 => SetSize { session, stripe_set, size: wild },
            38 => Checkpoint { session, stripe_set, epoch: wild },
            39 => FlushHint { session, stripe_set },
            40 => {
                if self.random.below(2) == 0 {
                    CommitPath { session, key: self.key() }
                } else {
                    AwaitOthers { session, stripe_set, processes: 1 }
                }
            }
            41 => {
                if self.random.below(2) == 0 {
                    Detach { session, stripe_set }
                } else {
                    Leave { session, key: self.key() }
                }
            }
            42 => match self.random.below(3) {
                0 => Lock { session },
                1 => Unlock { session },
                _ => {
                    let (number, key) = (sequence, self.key());
                    MovePointer { session, key, number, generation: stamp, initial: wild, by: wild }
                }
            },
            _ => match self.random.below(4) {
                0 => Delete { path: self.path() },
                1 => ReportFailure { path: self.path(), why: "x".repeat(wild as usize % 2048) },
                2 => JobFailures { job: String::new() },
                _ => Measure {},
            },
        };
        (request, Vec::new())
    }

    fn learn(&mut self, reply: Reply) {
        match reply {
            Reply::Session { session } => self.sessions.push(session.id),
            Reply::Opened { session, .. } => self.sessions.push(session.id),
            Reply::Stored { run } => self.runs.push(run),
            Reply::Versions { versions, .. } => {
                self.roots.extend(versions.into_iter().map(|version| version.record.root))
            }
            _ => {}
        }
        // The newest are the likeliest to be alive still.
        let surplus = |length: usize| length.saturating_sub(64);
        self.sessions.drain(..surplus(self.sessions.len()));
        self.runs.drain(..surplus(self.runs.len()));
        self.roots.drain(..surplus(self.roots.len()));
    }

    /// Sends until the time is over or the node hangs up; returns how many frames it sent.
    fn attack(&mut self, address: &str, client: u64, until: Instant) -> u64 {
        let Ok(connection) = Connection::open(address) else { return 0 };
        let answered = Arc::new(AtomicU64::new(0));
        let (sender, learnt) = std::sync::mpsc::channel();
        let is_over = AtomicBool::new(false);
        let mut sent = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sender = sender;
                while let Ok(Some(frame)) = connection.receive() {
                    answered.fetch_add(u64::from(frame.header.request != 0), Ordering::SeqCst);
                    if let Ok(reply) = Reply::decode(frame.header.kind, &frame.body) {
                        let _ = sender.send(reply);
                    }
                }
                is_over.store(true, Ordering::SeqCst);
            });
            while Instant::now() < until && !is_over.load(Ordering::SeqCst) {
                learnt.try_iter().for_each(|reply| self.learn(reply));
                let (request, payload) = match sent {
                    0 => (Request::Hello { client, stream: 0, job: String::new(), application: String::new() }, vec![]),
                    1 => (Request::Begin { purpose: Purpose::Write, lease_ms: 30_000 }, vec![]),
                    2 => {
                        let (path, nodes) = (self.path(), vec![address.to_owned()]);
                        let (job, stripe_bytes, key) = (String::new(), 1 << 20, self.key());
                        (Request::OpenPath { path, flags: 6, job, nodes, stripe_bytes, key }, vec![])
                    }
                    3 => (Request::Versions { path: StorePath::new(b"kept").unwrap(), after: 0 }, vec![]),
                    _ => self.request(),
                };
                let mut body = request.encode();
                if sent > 3 && self.random.below(10) == 0 && !body.is_empty() {
                    let at = self.random.below(body.len() as u64) as usize;
                    body[at] ^= 1 << self.random.below(8);
                }
                sent += 1;
                if connection.send(request.kind(), sent, &body, &[&payload]).is_err() {
                    break;
                }
                let waited = Instant::now();
                let pause = || sent.saturating_sub(answered.load(Ordering::SeqCst)) > UNANSWERED || sent < 5;
                while pause() && !is_over.load(Ordering::SeqCst) && waited.elapsed() < Duration::from_millis(20) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            connection.shut();
        });
        sent
    }
}

fn is_well(store: &Store, what: &str, arguments: &[&str]) {
    let ended = store.try_verb(arguments[0], &arguments[1..]);
    assert_eq!(ended.code, Some(0), "{what}: {}{}", ended.text(), ended.stderr);
}

#[test]
fn a_live_node_survives_hostile_clients_and_leaves_a_sound_store() {
    let mut random = Random::fresh();
    let store = Store::new();
    let kept: Vec<u8> = random.bytes(3_000_000);
    std::fs::write(store.path("kept"), &kept).unwrap();
    store.put(&store.path("kept"), "kept");
    let node = Node::start(&store);
    let until = Instant::now() + Duration::from_secs(seconds());
    let (mut sent, mut peak_bytes, mut peak_threads) = (0, 0, 0);
    std::thread::scope(|scope| {
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|attacker| {
                let (seed, address) = (random.next(), node.address.clone());
                scope.spawn(move || {
                    let mut sent = 0;
                    let (random, client) = (Random::new(seed), 1 + attacker % 3);
                    let mut attacker = Attacker { random, sessions: vec![], runs: vec![], roots: vec![], sequence: 0 };
                    while Instant::now() < until {
                        sent += attacker.attack(&address, client, until);
                    }
                    sent
                })
            })
            .collect();
        while Instant::now() < until {
            (peak_bytes, peak_threads) =
                (peak_bytes.max(node.status("VmRSS") << 10), peak_threads.max(node.status("Threads")));
            std::thread::sleep(Duration::from_millis(20));
        }
        sent = attackers.into_iter().map(|attacker| attacker.join().unwrap()).sum::<u64>();
    });
    println!("{sent} frames, at most {} MiB and {peak_threads} threads", peak_bytes >> 20);
    assert!(peak_bytes < MAX_NODE_BYTES && peak_threads < MAX_NODE_THREADS);
    let messages = std::fs::read_to_string(&node.messages).unwrap();
    assert!(!messages.contains("panicked"), "{messages}");

    // An honest client is served.
    let honest = random.bytes(1_000_000);
    std::fs::write(store.path("honest"), &honest).unwrap();
    let address = format!("thalweg://{}::honest", node.address);
    run(&["put".as_ref(), store.path("honest").as_os_str(), address.as_ref()]).expect(0);
    assert!(run(&["get", &address, "-"]).expect(0).stdout == honest);
    node.stop();

    is_well(&store, "verify", &["verify", "--data"]);
    is_well(&store, "stats", &["stats"]);
    is_well(&store, "collect", &["collect"]);
    let listed = |store: &Store| -> BTreeSet<String> {
        store
            .at("ls", "", &["--recursive"])
            .text()
            .lines()
            .map(|line| line.trim_end_matches(" (interrupted)").trim_end_matches(" (live)").to_owned())
            .collect()
    };
    let before = listed(&store);
    is_well(&store, "rebuild", &["verify", "--rebuild-catalog"]);
    is_well(&store, "verify of the rebuilt", &["verify", "--data"]);
    // Sessions are not in the journal, and interrupted ones are gone with the old catalog.
    let after = listed(&store);
    let back: Vec<_> = after.difference(&before).collect();
    assert!(back.is_empty() && after.contains("kept"), "the rebuilt catalog has {back:?}, and of {before:?} {after:?}");
    assert!(store.read("honest") == honest);
}

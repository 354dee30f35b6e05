//! A node whose clients do not read, claim segments of others, ask for too much or come in crowds, and whose catalog is
//! busy: others do not wait, and the node stays up.

use std::time::{Duration, Instant};

use catalog::PathSession;
use format::{HandleKey, SessionId, StorePath};
use transfer::Connection;
use transfer::message::{Extent, FailureKind, Reply, Request};

use super::node::Node;
use super::runner::{Store, run};

/// Of the only handle of each session here.
const KEY: HandleKey = HandleKey([7; HandleKey::BYTES]);
const CREATE: u32 = 4;
const SEGMENT_BYTES: usize = 8192;
/// The longest delay that another client, or another process, may cause.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// Steps whose worst says what the machine itself costs just now.
const STEPS: u64 = 30;
/// Of which one without delay is enough.
const TRIALS: usize = 3;

/// A client that says what the test wants.
pub(super) struct Client {
    connection: Connection,
    last_number: u64,
    last_sequence: u64,
}

impl Client {
    pub(super) fn new(node: &Node, client: u64) -> Self {
        let connection = Connection::open(&node.address).unwrap();
        let mut client_here = Client { connection, last_number: 0, last_sequence: 0 };
        let hello = Request::Hello { client, stream: 0, job: String::new(), application: String::new() };
        let welcome = client_here.obtain(hello);
        assert!(matches!(welcome, Reply::Welcome { .. }), "{welcome:?}");
        client_here
    }

    pub(super) fn send(&mut self, request: &Request, payload: &[u8]) -> u64 {
        self.last_number += 1;
        self.connection.send(request.kind(), self.last_number, &request.encode(), &[payload]).unwrap();
        self.last_number
    }

    /// The answer to a request; unasked messages of the node are passed over.
    pub(super) fn answer(&mut self, number: u64) -> Reply {
        loop {
            let frame = self.connection.receive().unwrap().expect("the node answers");
            if frame.header.request == number {
                return Reply::decode(frame.header.kind, &frame.body).unwrap();
            }
            assert_eq!(frame.header.request, 0);
        }
    }

    pub(super) fn obtain(&mut self, request: Request) -> Reply {
        let number = self.send(&request, &[]);
        self.answer(number)
    }

    fn refusal(&mut self, request: Request) -> FailureKind {
        match self.obtain(request) {
            Reply::Failed { failure } => failure.kind,
            other => panic!("it was answered {other:?}"),
        }
    }

    pub(super) fn open(&mut self, node: &Node, path: &str) -> PathSession {
        self.open_with(node, path, KEY)
    }

    pub(super) fn open_with(&mut self, node: &Node, path: &str, key: HandleKey) -> PathSession {
        let request = Request::OpenPath {
            path: StorePath::new(path.as_bytes()).unwrap(),
            flags: CREATE | 3,
            job: String::new(),
            nodes: vec![node.address.clone()],
            stripe_bytes: 4 << 20,
            key,
        };
        let Reply::Opened { session, .. } = self.obtain(request) else { panic!("it was not opened") };
        self.attach_with(session.id, key);
        session
    }

    pub(super) fn attach(&mut self, session: SessionId) {
        self.attach_with(session, KEY);
    }

    fn attach_with(&mut self, session: SessionId, key: HandleKey) {
        let attached = self.obtain(Request::Attach { session, stripe_set: 0, key });
        assert!(matches!(attached, Reply::Attached { .. }), "{attached:?}");
    }

    pub(super) fn leave(&mut self, session: SessionId) {
        assert_eq!(self.obtain(Request::Leave { session, key: KEY }), Reply::Done {});
    }

    pub(super) fn write(&mut self, session: SessionId, bytes: usize) {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        let extents = vec![Extent { offset: sequence * bytes as u64, bytes: bytes as u64 }];
        let request = Request::Write { session, stripe_set: 0, sequence, stamp: 0, epoch: 0, mode: None, extents };
        let payload: Vec<u8> = (0..bytes).map(|at| (at as u64 * 7 + sequence) as u8).collect();
        let number = self.send(&request, &payload);
        let received = self.answer(number);
        assert!(matches!(received, Reply::Received { .. }), "{received:?}");
    }

    /// Waits for the node's word that the last write is durable.
    pub(super) fn wait_durable(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let frame = self.connection.receive().unwrap().expect("the node lives");
            match Reply::decode(frame.header.kind, &frame.body).unwrap() {
                Reply::Durable { sequence, .. } if sequence >= self.last_sequence => return,
                _ => {}
            }
        }
        panic!("the node did not say that {} is durable", self.last_sequence);
    }

    /// Another connection of the same stream used it.
    pub(super) fn skip_sequence(&mut self) {
        self.last_sequence += 1;
    }

    fn read(&mut self, session: SessionId) {
        let extents = vec![Extent { offset: SEGMENT_BYTES as u64, bytes: 100 }];
        let read = self.obtain(Request::Read { session, stripe_set: 0, extents });
        assert!(matches!(read, Reply::Bytes { .. }), "{read:?}");
    }

    pub(super) fn checkpoint(&mut self, session: SessionId, epoch: u64) {
        assert_eq!(self.obtain(Request::Checkpoint { session, stripe_set: 0, epoch }), Reply::Done {});
    }
}

/// The longest of many.
fn worst(mut step: impl FnMut(u64)) -> Duration {
    let timed = |number| {
        let begun = Instant::now();
        step(number);
        begun.elapsed()
    };
    (1..=STEPS).map(timed).max().unwrap()
}

/// Steps must take no longer while they are disturbed than the machine makes them take anyway. A machine that stands
/// still for a moment spoils one trial; a lock held across a wait spoils every one.
#[track_caller]
fn assert_no_later(mut trial: impl FnMut() -> Trial) {
    let trials: Vec<Trial> = (0..TRIALS).map_while(|_| trial().delayed()).collect();
    assert!(trials.len() < TRIALS, "each time it was disturbed: {trials:?}");
}

/// The longest step before and while it is disturbed.
#[derive(Debug)]
struct Trial {
    undisturbed: Duration,
    disturbed: Duration,
}

impl Trial {
    fn delayed(self) -> Option<Self> {
        (self.disturbed >= self.undisturbed * 2 + MAX_DELAY).then_some(self)
    }
}

/// Sends requests whose answers fill all buffers, and reads none of them.
fn stop_reading(client: &mut Client, session: SessionId) {
    (0..8).for_each(|_| client.write(session, 1 << 20));
    // On disk, so that what others sync is their own.
    client.checkpoint(session, 1);
    let extents = vec![Extent { offset: 1 << 20, bytes: 8 << 20 }];
    for _ in 0..8 {
        client.send(&Request::Read { session, stripe_set: 0, extents: extents.clone() }, &[]);
    }
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    assert_no_later(beside_a_client_that_does_not_read);
}

fn beside_a_client_that_does_not_read() -> Trial {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut deaf, mut other) = (Client::new(&node, 1), Client::new(&node, 2));
    let session = deaf.open(&node, "shared").id;
    other.attach(session);
    let mut step = |number: u64| {
        other.write(session, SEGMENT_BYTES);
        other.checkpoint(session, number);
        other.read(session);
        // Another file, and another client of this one.
        let mut new = Client::new(&node, 100 + number);
        new.attach(session);
        new.open(&node, &format!("other-{number}"));
    };
    let undisturbed = worst(&mut step);
    stop_reading(&mut deaf, session);
    Trial { undisturbed, disturbed: worst(&mut step) }
}

/// Beyond half of the memory for answers.
const DEAF: u64 = 8;

#[test]
fn clients_that_do_not_read_and_go_all_at_once_delay_no_other() {
    assert_no_later(beside_clients_that_go_at_once);
}

fn beside_clients_that_go_at_once() -> Trial {
    let store = Store::new();
    let node = Node::of(&store);
    let mut other = Client::new(&node, 1);
    let session = other.open(&node, "shared").id;
    let mut step = |number: u64| {
        other.write(session, SEGMENT_BYTES);
        other.checkpoint(session, number);
        other.read(session);
        let committed = other.obtain(Request::CommitPath { session, key: KEY });
        assert!(matches!(committed, Reply::Version { .. }), "{committed:?}");
    };
    let undisturbed = worst(&mut step);
    let mut deaf: Vec<Client> = (0..DEAF).map(|number| Client::new(&node, 10 + number)).collect();
    for (number, deaf) in deaf.iter_mut().enumerate() {
        let session = deaf.open(&node, &format!("deaf-{number}")).id;
        assert_eq!(deaf.obtain(Request::SetSize { session, stripe_set: 0, size: 1 << 30 }), Reply::Done {});
        let extents = vec![Extent { offset: 0, bytes: u64::from(format::MAX_PAYLOAD_BYTES) }];
        for _ in 0..4 {
            deaf.send(&Request::Read { session, stripe_set: 0, extents: extents.clone() }, &[]);
        }
    }
    // All memory for answers is taken, and none of them was given up yet.
    std::thread::sleep(Duration::from_millis(500));
    let mut deaf = Some(deaf);
    let disturbed = worst(|number| {
        if number == 3 {
            deaf = None;
        }
        step(STEPS + number);
    });
    Trial { undisturbed, disturbed }
}

#[test]
fn a_busy_catalog_delays_no_write_and_no_read() {
    assert_no_later(beside_a_busy_catalog);
}

fn beside_a_busy_catalog() -> Trial {
    let store = Store::new();
    let node = Node::of(&store);
    let mut writer = Client::new(&node, 1);
    let session = writer.open(&node, "file").id;
    // One segment is enough to have a container open.
    writer.write(session, SEGMENT_BYTES);
    writer.checkpoint(session, 1);
    let mut newcomer = Client::new(&node, 3);
    let open = Request::OpenPath {
        path: StorePath::new(b"another").unwrap(),
        flags: CREATE | 3,
        job: String::new(),
        nodes: vec![node.address.clone()],
        stripe_bytes: 4 << 20,
        key: KEY,
    };
    let Reply::Opened { session: another, .. } = newcomer.obtain(open) else { panic!("it was not opened") };
    let mut step = |number: u64| {
        writer.write(session, SEGMENT_BYTES);
        writer.read(session);
        let mut reader = Client::new(&node, 100 + number);
        reader.attach(session);
        reader.read(session);
    };
    let undisturbed = worst(&mut step);
    let catalog = rusqlite::Connection::open(store.directory().join("catalog.sqlite")).unwrap();
    catalog.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Taking a stripe set waits for the catalog: no other request does.
    let waiting = newcomer.send(&Request::Attach { session: another.id, stripe_set: 0, key: KEY }, &[]);
    std::thread::sleep(Duration::from_millis(300));
    let disturbed = worst(&mut step);
    catalog.execute_batch("ROLLBACK").unwrap();
    let attached = newcomer.answer(waiting);
    assert!(matches!(attached, Reply::Attached { .. }), "{attached:?}");
    Trial { undisturbed, disturbed }
}

#[test]
fn a_client_can_neither_end_nor_renew_nor_commit_under_what_is_not_its_own() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut hostile, mut honest) = (Client::new(&node, 1), Client::new(&node, 2));
    let written = honest.open(&node, "file").id;
    let begin = Request::Begin { purpose: catalog::Purpose::Write, lease_ms: 30_000 };
    let Reply::Session { session: own } = honest.obtain(begin) else { panic!("no session") };
    for session in (1..=own.id.0).map(SessionId) {
        assert_eq!(hostile.refusal(Request::End { session }), FailureKind::Refused, "{session}");
        assert_eq!(
            hostile.refusal(Request::Renew { session, lease_ms: 1, refresh: true }),
            FailureKind::Refused,
            "{session}"
        );
        let (references, changes, checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        let commit = Request::Commit { session, references, epoch: 0, changes, checkpoints };
        assert_eq!(hostile.refusal(commit), FailureKind::Refused, "{session}");
        assert_eq!(hostile.refusal(Request::Discard { session }), FailureKind::Refused, "{session}");
        assert_eq!(hostile.refusal(Request::Recover { session }), FailureKind::Refused, "{session}");
    }
    honest.write(written, SEGMENT_BYTES);
    honest.checkpoint(written, 1);
    assert!(matches!(honest.obtain(Request::CommitPath { session: written, key: KEY }), Reply::Version { number: 1 }));
    assert!(matches!(
        honest.obtain(Request::Renew { session: own.id, lease_ms: 30_000, refresh: false }),
        Reply::Session { .. }
    ));
    // Ending one's own, twice.
    assert_eq!(honest.obtain(Request::End { session: own.id }), Reply::Done {});
    assert_eq!(honest.obtain(Request::End { session: own.id }), Reply::Done {});
}

#[test]
fn thousands_of_checkpoints_take_a_bounded_number_of_threads() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::new(&node, 1);
    let session = client.open(&node, "file").id;
    let before = node.threads();
    let asked: Vec<u64> = (1..=5000)
        .map(|epoch| {
            if epoch % 100 == 0 {
                client.last_sequence += 1;
            }
            client.send(&Request::Checkpoint { session, stripe_set: 0, epoch }, &[])
        })
        .collect();
    let most = node.threads();
    assert!(most <= before + 8, "{most} threads, {before} before");
    let mut answered = std::collections::HashSet::new();
    while answered.len() < asked.len() {
        let frame = client.connection.receive().unwrap().unwrap();
        if frame.header.request != 0 {
            answered.insert(frame.header.request);
        }
    }
}

#[test]
fn a_crowd_of_connections_is_refused_and_writers_go_on() {
    let store = Store::new();
    let node = Node::with_open_files(&store, 256);
    let mut writer = Client::new(&node, 1);
    let session = writer.open(&node, "file").id;
    let crowd: Vec<Connection> = (0..300).filter_map(|_| Connection::open(&node.address).ok()).collect();
    std::thread::sleep(Duration::from_millis(200));
    for epoch in 1..20 {
        writer.write(session, 1 << 20);
        writer.checkpoint(session, epoch);
    }
    assert!(matches!(writer.obtain(Request::CommitPath { session, key: KEY }), Reply::Version { number: 1 }));
    // Those of the crowd without a hello give way to others after a second.
    let seen = run(&["ls".to_owned(), format!("thalweg://{}::", node.address)]);
    assert!(seen.code == Some(0) || seen.stderr.contains("takes no more now"), "{}", seen.stderr);
    drop(crowd);
    let deadline = Instant::now() + Duration::from_secs(20);
    while run(&["ls".to_owned(), format!("thalweg://{}::", node.address)]).code != Some(0) {
        assert!(Instant::now() < deadline, "the crowd is gone, and no client is let in");
    }
}

#[test]
fn a_cut_that_was_answered_outlives_its_node() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::new(&node, 1);
    let session = client.open(&node, "out").id;
    client.write(session, SEGMENT_BYTES);
    client.checkpoint(session, 1);
    for size in [100, 5 * SEGMENT_BYTES as u64, 200] {
        let cut = client.obtain(Request::SetSize { session, stripe_set: 0, size });
        assert_eq!(cut, Reply::Done {});
    }
    drop((client, node));
    let node = Node::of(&store);
    let mut client = Client::new(&node, 2);
    let attached = client.obtain(Request::Attach { session, stripe_set: 0, key: KEY });
    assert!(matches!(attached, Reply::Attached { size: 200, .. }), "{attached:?}");
}

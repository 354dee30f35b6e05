//! Digests that several connections offer to one node, as clients that reduce do.

use std::cell::Cell;
use std::time::{Duration, Instant};

use format::{Block, BlockKind, FingerprintKind, HandleKey, SegmentEntry, SessionId, StorePath};
use segment::{BlockBuilder, fingerprint, names_digest};
use transfer::Connection;
use transfer::message::{Extent, FailureKind, Reply, Request};

use super::node::Node;
use super::runner::Store;

const SEGMENT_BYTES: u64 = 8192;
const SEGMENTS: u64 = 10;
const STRIPE_SET: u32 = 0;

fn content() -> Vec<u8> {
    (0..SEGMENTS).flat_map(|number| vec![1 + number as u8; SEGMENT_BYTES as usize]).collect()
}

fn entries() -> Vec<SegmentEntry> {
    let name = |segment: &[u8]| fingerprint(FingerprintKind::Blake3, segment);
    let entry = |segment: &[u8]| SegmentEntry { fingerprint: name(segment), bytes: SEGMENT_BYTES as u32 };
    content().chunks(SEGMENT_BYTES as usize).map(entry).collect()
}

fn block() -> Block {
    let mut builder = BlockBuilder::new(BlockKind::Data, 0);
    let content = content();
    for (entry, segment) in entries().iter().zip(content.chunks(SEGMENT_BYTES as usize)) {
        builder.push(entry.fingerprint, segment);
    }
    builder.finish(format::Settings::new(Default::default()).codec)
}

/// A client with one connection, attached to the stripe set; writes its own part of the file, once.
struct Client {
    connection: Connection,
    session: SessionId,
    numbers: Cell<u64>,
    extents: Vec<Extent>,
}

impl Client {
    fn new(node: &Node, client: u64) -> Self {
        let connection = Connection::open(&node.address).unwrap();
        let extents = vec![Extent { offset: client * SEGMENTS * SEGMENT_BYTES, bytes: SEGMENTS * SEGMENT_BYTES }];
        let mut new = Client { connection, session: SessionId(0), numbers: Cell::new(0), extents };
        new.ask(Request::Hello { client, stream: 0, job: String::new(), application: String::new() });
        assert!(matches!(new.answer(), Reply::Welcome { .. }));
        let (path, nodes) = (StorePath::new(b"equal").unwrap(), vec![node.address.clone()]);
        let key = HandleKey([client as u8; HandleKey::BYTES]);
        new.ask(Request::OpenPath { path, flags: 6, job: String::new(), nodes, stripe_bytes: 4 << 20, key });
        let Reply::Opened { session, .. } = new.answer() else { panic!("a path opens") };
        new.session = session.id;
        new.ask(Request::Attach { session: new.session, stripe_set: STRIPE_SET, key });
        assert!(matches!(new.answer(), Reply::Attached { .. }));
        new
    }

    fn ask(&self, request: Request) {
        self.ask_with(request, &[]);
    }

    fn ask_with(&self, request: Request, payload: &[u8]) {
        self.numbers.set(self.numbers.get() + 1);
        self.connection.send(request.kind(), self.numbers.get(), &request.encode(), &[payload]).unwrap();
    }

    /// The next answer; unasked messages of the node are passed over.
    fn answer(&self) -> Reply {
        loop {
            let frame = self.connection.receive().unwrap().expect("the node answers");
            if frame.header.request != 0 {
                return Reply::decode(frame.header.kind, &frame.body).unwrap();
            }
        }
    }

    fn offer_digest(&self) {
        self.offer_digest_at(self.extents.clone());
    }

    fn offer_digest_at(&self, extents: Vec<Extent>) {
        let (session, names) = (self.session, names_digest(&entries()));
        self.ask(Request::OfferDigest {
            session,
            stripe_set: STRIPE_SET,
            sequence: 1,
            stamp: 0,
            epoch: 1,
            extents,
            names,
        });
    }

    fn needs_fingerprints(&self) -> u64 {
        let Reply::NeedFingerprints { sequence: 1, stamp } = self.answer() else { panic!("names are to be spelt out") };
        stamp
    }

    /// The node has the offered digest and answers later requests: the digest waits.
    fn waits(&self) {
        self.ask(Request::Size { session: self.session, stripe_set: STRIPE_SET });
        assert!(matches!(self.answer(), Reply::Size { .. }));
    }

    fn offer(&self, stamp: u64) {
        let fingerprints = entries().iter().map(|entry| entry.fingerprint).collect();
        let (session, extents) = (self.session, self.extents.clone());
        self.ask(Request::OfferFingerprints {
            session,
            stripe_set: STRIPE_SET,
            sequence: 1,
            stamp,
            epoch: 1,
            extents,
            fingerprints,
        });
    }

    fn is_to_supply_all(&self) {
        let Reply::Missing { wanted, .. } = self.answer() else { panic!("the store has nothing yet") };
        assert_eq!(wanted, (0..SEGMENTS as u32).collect::<Vec<_>>());
    }

    fn send_blocks(&self) {
        let Block { header, segments, payload } = block();
        let blocks = vec![(header, segments)];
        self.ask_with(
            Request::SendBlocks { session: self.session, stripe_set: STRIPE_SET, sequence: 1, blocks },
            &payload,
        );
        self.has_all();
    }

    fn has_all(&self) {
        assert!(matches!(self.answer(), Reply::Received { sequence: 1, .. }));
        self.ask(Request::Read { session: self.session, stripe_set: STRIPE_SET, extents: self.extents.clone() });
        let answer = loop {
            let frame = self.connection.receive().unwrap().unwrap();
            if frame.header.request != 0 {
                break frame;
            }
        };
        assert!(answer.payload == content());
    }
}

fn clients(node: &Node, count: u64) -> Vec<Client> {
    (1..=count).map(|client| Client::new(node, client)).collect()
}

#[test]
fn a_list_that_one_connection_sends_serves_all_that_wait() {
    let store = Store::new();
    let node = Node::of(&store);
    let clients = clients(&node, 3);
    clients[0].offer_digest();
    let stamp = clients[0].needs_fingerprints();
    for client in &clients[1..] {
        client.offer_digest();
        client.waits();
    }
    clients[0].offer(stamp);
    clients[0].is_to_supply_all();
    clients[0].send_blocks();
    clients[1..].iter().for_each(Client::has_all);
    let late = Client::new(&node, 4);
    late.offer_digest();
    late.has_all();
}

#[test]
fn when_the_asked_connection_ends_the_next_is_asked_and_answers() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut clients = clients(&node, 3);
    clients[0].offer_digest();
    clients[0].needs_fingerprints();
    for client in &clients[1..] {
        client.offer_digest();
        client.waits();
    }
    clients.remove(0);
    let stamp = clients[0].needs_fingerprints();
    clients[0].offer(stamp);
    clients[0].is_to_supply_all();
    // The names are known now; the last, which waits for the content, is to supply it instead.
    clients.remove(0);
    clients[0].is_to_supply_all();
    clients[0].send_blocks();
}

#[test]
fn waits_for_fingerprints_that_do_not_come_end() {
    let store = Store::new();
    let node = Node::of(&store);
    let clients = clients(&node, 2);
    let begun = Instant::now();
    clients[0].offer_digest();
    clients[0].needs_fingerprints();
    clients[1].offer_digest();
    let stamp = clients[1].needs_fingerprints();
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    clients[1].offer(stamp);
    clients[1].is_to_supply_all();
}

#[test]
fn digest_offers_of_what_no_frame_could_carry_are_refused() {
    let store = Store::new();
    let node = Node::of(&store);
    let clients = clients(&node, 2);
    clients[0].offer(0);
    clients[0].is_to_supply_all();
    // The node has remembered the list: it does so after its reply.
    clients[0].waits();
    for (offset, bytes) in [
        (0, 1 << 61),
        (0, 1 << 62),
        ((1 << 62) - SEGMENT_BYTES, SEGMENT_BYTES),
        (1, SEGMENTS * SEGMENT_BYTES),
        (0, (SEGMENTS + 1) * SEGMENT_BYTES),
    ] {
        clients[1].offer_digest_at(vec![Extent { offset, bytes }]);
        match clients[1].answer() {
            Reply::Failed { failure } => {
                assert!(matches!(failure.kind, FailureKind::Refused | FailureKind::Io), "{failure:?}")
            }
            other => panic!("{bytes} bytes at {offset} were answered {other:?}"),
        }
    }
    clients[1].waits();
}

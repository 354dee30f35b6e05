//! A client with a node's secret knows the sessions of others by their numbers, and can do nothing to them without the
//! key of a handle.

use format::{Fingerprint, HandleKey, SessionId};
use transfer::message::{Extent, FailureKind, Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

const SEGMENT_BYTES: u64 = 8192;
const OWN: HandleKey = HandleKey(*b"the owner's key.");
const OTHER: HandleKey = HandleKey(*b"a key of another");

/// All that can be asked about a session, but to list what it has checkpointed.
fn requests(session: SessionId, key: HandleKey) -> Vec<Request> {
    let (stripe_set, sequence, stamp, epoch) = (0, 1, 0, 0);
    let extents = vec![Extent { offset: 0, bytes: SEGMENT_BYTES }];
    vec![
        Request::Attach { session, stripe_set, key },
        Request::Write { session, stripe_set, sequence, stamp, epoch, mode: None, extents: Vec::new() },
        Request::OfferFingerprints {
            session,
            stripe_set,
            sequence,
            stamp,
            epoch,
            extents: extents.clone(),
            fingerprints: vec![Fingerprint([0; 32])],
        },
        Request::OfferDigest { session, stripe_set, sequence, stamp, epoch, extents: extents.clone(), names: [1; 32] },
        Request::SendBlocks { session, stripe_set, sequence, blocks: Vec::new() },
        Request::Read { session, stripe_set, extents },
        Request::Size { session, stripe_set },
        Request::SetSize { session, stripe_set, size: 0 },
        Request::Checkpoint { session, stripe_set, epoch: 9 },
        Request::FlushHint { session, stripe_set },
        Request::CommitPath { session, key },
        Request::Lock { session },
        Request::MovePointer { session, key, number: 1, generation: 0, initial: 0, by: 1 },
        Request::Leave { session, key },
        Request::Discard { session },
        Request::Recover { session },
        Request::End { session },
        Request::Renew { session, lease_ms: 1, refresh: true },
    ]
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed { failure } if failure.kind == FailureKind::Refused)
}

fn size(client: &mut Client, session: SessionId) -> u64 {
    match client.ask(Request::Size { session, stripe_set: 0 }) {
        Reply::Size { size } => size,
        other => panic!("the owner was answered {other:?}"),
    }
}

fn attach(client: &mut Client, session: SessionId, key: HandleKey) {
    let attached = client.ask(Request::Attach { session, stripe_set: 0, key });
    assert!(matches!(attached, Reply::Attached { .. }), "{attached:?}");
}

#[test]
fn a_session_is_left_alone_by_all_that_have_no_key_of_it() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut owner = Client::greet(&node.address, 1);
    let session = owner.open("theirs", &node.address, OWN);
    attach(&mut owner, session, OWN);
    assert_eq!(owner.ask(Request::SetSize { session, stripe_set: 0, size: 5 }), Reply::Done {});
    let before = owner.sessions();
    // Also one that calls itself as the owner does: its number is in its Hello, and no secret.
    for client in [2, 1] {
        let mut stranger = Client::greet(&node.address, client);
        let other = stranger.open("own", &node.address, OTHER);
        attach(&mut stranger, other, OTHER);
        for request in requests(session, OTHER) {
            let answer = stranger.ask(request.clone());
            assert!(is_refused(&answer), "{request:?} was answered {answer:?}");
        }
        // Nothing of it is this connection's.
        stranger.ask(Request::Unlock { session });
        stranger.ask(Request::Detach { session, stripe_set: 0 });
        assert_eq!(stranger.ask(Request::Leave { session: other, key: OTHER }), Reply::Done {});
    }
    assert_eq!(owner.sessions().iter().find(|found| found.id == session), before.first());
    assert_eq!(size(&mut owner, session), 5);
    assert_eq!(owner.ask(Request::Leave { session, key: OWN }), Reply::Done {}, "its owner leaves it");
}

#[test]
fn a_client_removes_its_own_handle_of_a_session_and_no_other() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut owner = Client::greet(&node.address, 1);
    let session = owner.open("shared", &node.address, OWN);
    attach(&mut owner, session, OWN);
    let mut joined = Client::greet(&node.address, 2);
    assert_eq!(joined.open("shared", &node.address, OTHER), session);
    for _ in 0..3 {
        assert_eq!(joined.ask(Request::Leave { session, key: OTHER }), Reply::Done {}, "leaving again changes nothing");
    }
    let found = owner.sessions();
    assert_eq!(found.iter().map(|session| (session.handles, session.interrupted)).collect::<Vec<_>>(), [(1, false)]);
    assert_eq!(size(&mut owner, session), 0);
}

#[test]
fn what_a_session_checkpointed_is_listed_without_the_numbers_of_its_clients() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut owner = Client::greet(&node.address, 1 << 40);
    let session = owner.open("written", &node.address, OWN);
    attach(&mut owner, session, OWN);
    let extents = vec![Extent { offset: 0, bytes: SEGMENT_BYTES }];
    let write = Request::Write { session, stripe_set: 0, sequence: 1, stamp: 0, epoch: 0, mode: None, extents };
    let received = owner.ask_with(write, &[7; SEGMENT_BYTES as usize]);
    assert!(matches!(received, Reply::Received { .. }), "{received:?}");
    assert_eq!(owner.ask(Request::Checkpoint { session, stripe_set: 0, epoch: 1 }), Reply::Done {});
    let mut stranger = Client::greet(&node.address, 2);
    let list = Request::Checkpoints { session, after: (0, 0) };
    let Reply::Checkpoints { checkpoints, .. } = stranger.ask(list) else { panic!("no list") };
    assert!(!checkpoints.is_empty() && checkpoints.iter().all(|checkpoint| checkpoint.frontier.is_empty()));
}

#[test]
fn keys_of_handles_hold_after_their_node_was_started_again() {
    let store = Store::new();
    let node = Node::of(&store);
    let session = Client::greet(&node.address, 1).open("kept", &node.address, OWN);
    drop(node);
    let node = Node::of(&store);
    let mut stranger = Client::greet(&node.address, 2);
    for request in requests(session, OTHER) {
        let answer = stranger.ask(request.clone());
        assert!(is_refused(&answer), "{request:?} was answered {answer:?}");
    }
    let mut owner = Client::greet(&node.address, 1);
    attach(&mut owner, session, OWN);
    assert_eq!(owner.ask(Request::Leave { session, key: OWN }), Reply::Done {});
    assert!(owner.sessions().is_empty());
}

#[test]
fn an_unknown_key_opens_nothing() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::greet(&node.address, 1);
    let empty = HandleKey([0; HandleKey::BYTES]);
    let path = format::StorePath::new(b"open").unwrap();
    let (job, nodes, stripe_bytes) = (String::new(), vec![node.address.clone()], 1 << 20);
    let refused = client.goodbye(Request::OpenPath { path, flags: 6, job, nodes, stripe_bytes, key: empty });
    assert!(refused.contains("all zeros"), "{refused}");
}

#[test]
fn the_catalog_says_nothing_about_the_numbers_by_which_clients_end_their_sessions() {
    const NUMBER: u64 = 0x1234_5678_9abc_def0;
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::greet(&node.address, NUMBER);
    let begin = Request::Begin { purpose: catalog::Purpose::Write, lease_ms: 30_000 };
    let Reply::Session { session } = client.ask(begin) else { panic!("no session") };
    let catalog = rusqlite::Connection::open(store.directory().join("catalog.sqlite")).unwrap();
    let text = "SELECT purpose FROM sessions WHERE id = ?1";
    let purpose: i64 = catalog.query_row(text, [session.id.0 as i64], |row| row.get(0)).unwrap();
    assert!(purpose < 0 && purpose as u64 & (u64::MAX >> 1) != NUMBER, "{purpose:x}");
    let mut reader = Client::greet(&node.address, purpose as u64);
    assert!(is_refused(&reader.ask(Request::End { session: session.id })));
    assert_eq!(client.ask(Request::End { session: session.id }), Reply::Done {});
}

//! Files that a job's processes reported as not stored: the node lists them until they are stored, or deleted.

use std::time::{Duration, Instant};

use format::{HandleKey, SessionId, StorePath};
use transfer::message::{Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

const KEY: HandleKey = HandleKey([7; HandleKey::BYTES]);

fn path(name: &str) -> StorePath {
    StorePath::new(name.as_bytes()).unwrap()
}

/// Returns the names that the job reported, as any process sees them.
fn reported(address: &str, job: &str) -> Vec<String> {
    match Client::greet(address, 99).ask(Request::JobFailures { job: job.into() }) {
        Reply::JobFailures { failures } => failures.iter().map(|(path, _)| path.to_string()).collect(),
        other => panic!("asking for failures was answered {other:?}"),
    }
}

#[test]
fn a_failed_file_is_reported_until_its_job_has_stored_or_deleted_it() {
    let store = Store::new();
    let node = Node::of(&store);
    // Its job is "job".
    let mut client = Client::greet(&node.address, 1);
    for name in ["stored", "deleted", "lost"] {
        let report = Request::ReportFailure { path: path(name), why: "the disk is full".into() };
        assert_eq!(client.ask(report), Reply::Done {});
    }
    assert_eq!(reported(&node.address, "job"), ["stored", "deleted", "lost"]);
    assert_eq!(reported(&node.address, "another"), [""; 0]);
    let session = client.open("stored", &node.address, KEY);
    assert!(matches!(client.ask(Request::Attach { session, stripe_set: 0, key: KEY }), Reply::Attached { .. }));
    assert!(matches!(client.ask(Request::CommitPath { session, key: KEY }), Reply::Version { .. }));
    client.ask(Request::Delete { path: path("deleted") });
    assert_eq!(reported(&node.address, "job"), ["lost"]);
}

/// Returns the paths of the sessions that the node knows.
fn sessions(address: &str) -> Vec<String> {
    match Client::greet(address, 98).ask(Request::PathSessions { after: SessionId(0) }) {
        Reply::PathSessions { sessions, .. } => sessions.iter().map(|session| session.path.to_string()).collect(),
        other => panic!("asking for sessions was answered {other:?}"),
    }
}

#[test]
fn a_process_that_ended_when_it_had_closed_a_file_has_not_left_it_open() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::greet(&node.address, 1);
    let keys = [KEY, HandleKey([8; HandleKey::BYTES])];
    let [session, _] = [("closed", keys[0]), ("open", keys[1])].map(|(name, key)| {
        let session = client.open(name, &node.address, key);
        assert!(matches!(client.ask(Request::Attach { session, stripe_set: 0, key }), Reply::Attached { .. }));
        session
    });
    assert!(matches!(client.ask(Request::CommitPath { session, key: KEY }), Reply::Version { .. }));
    reported(&node.address, "job");
    assert_eq!(sessions(&node.address), ["closed", "open"], "the process lives");
    drop(client);
    let begun = Instant::now();
    while sessions(&node.address) != ["open"] {
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", sessions(&node.address));
        reported(&node.address, "job");
    }
}

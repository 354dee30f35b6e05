//! A node that is asked to stop while it restarts ends all the same, and releases its address.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use format::{SessionId, StorePath};
use repository::Access;
use transfer::message::Request;

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

/// A node that does nothing stops at once, on a machine that does nothing else.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long before a node has noticed that it lost its lease.
const STEP: Duration = Duration::from_millis(8);

/// Ends the node's lease, as a collection does when the node stood still for too long.
fn end_lease(store: &Store) {
    let repository = repository::open(&store.directory(), Access::Write).unwrap();
    let own = repository.lease().session();
    let others = (1..own.0).map(SessionId);
    others.for_each(|session| repository.catalog().end(session).unwrap());
    repository.close().unwrap();
}

/// Has the node notice that it has no lease. The failure is withheld, since the new image answers.
fn notice(node: &Node) {
    Client::greet(&node.address, 1).request(Request::Delete { path: StorePath::new(b"kept").unwrap() });
}

fn assert_gone(node: &mut Node, since: Instant, when: &str) {
    assert!(node.has_ended_by(since + STOP_TIMEOUT), "asked to stop {when} it did not end");
    assert!(TcpStream::connect(&node.address).is_err(), "asked to stop {when} it left its address taken");
}

#[test]
fn a_node_that_is_asked_to_stop_while_it_restarts_ends() {
    let store = Store::new();
    std::fs::write(store.path("kept"), "content").unwrap();
    for step in 0..24 {
        store.put(&store.path("kept"), "kept");
        let mut node = Node::of(&store);
        end_lease(&store);
        notice(&node);
        std::thread::sleep(STEP * step);
        node.ask_to_stop();
        assert_gone(&mut node, Instant::now(), &format!("{:?} later", STEP * step));
    }
    store.verb("verify", &["--data"]);
}

#[test]
fn a_node_whose_store_cannot_be_opened_again_ends_when_it_is_asked_to_stop() {
    let store = Store::new();
    std::fs::write(store.path("kept"), "content").unwrap();
    store.put(&store.path("kept"), "kept");
    let mut node = Node::of(&store);
    let (settings, aside) = (store.directory().join("store.toml"), store.directory().join("aside"));
    end_lease(&store);
    std::fs::rename(&settings, &aside).unwrap();
    notice(&node);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while !node.has_restarted() {
        assert!(Instant::now() < deadline, "it did not begin anew");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    node.ask_to_stop();
    assert_gone(&mut node, Instant::now(), "while it tries to open its store");
    std::fs::rename(&aside, &settings).unwrap();
    store.verb("verify", &["--data"]);
}

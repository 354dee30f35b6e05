//! Shared file pointers at a live node: one a handle, moved once for each request, gone with the handle.

use format::{HandleKey, SessionId};
use transfer::message::{Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

const KEY: HandleKey = HandleKey(*b"the first handle");
const OTHER: HandleKey = HandleKey(*b"the other handle");

fn attached(node: &Node, client: u64, key: HandleKey) -> (Client, SessionId) {
    let mut client = Client::greet(&node.address, client);
    let session = client.open("shared", &node.address, key);
    attach(&mut client, session, key);
    (client, session)
}

fn attach(client: &mut Client, session: SessionId, key: HandleKey) {
    let answer = client.ask(Request::Attach { session, stripe_set: 0, key });
    assert!(matches!(answer, Reply::Attached { .. }), "{answer:?}");
}

/// Moves by 5 etypes; returns where the pointer stood.
fn moved(client: &mut Client, session: SessionId, key: HandleKey, number: u64, generation: u64) -> Result<u64, String> {
    match client.ask(Request::MovePointer { session, key, number, generation, initial: 100, by: 5 }) {
        Reply::Pointer { position } => Ok(position),
        Reply::Failed { failure } => Err(failure.text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_processes_of_a_handle_share_its_pointer_and_another_handle_has_its_own() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut first, session) = attached(&node, 1, KEY);
    let mut second = Client::greet(&node.address, 2);
    attach(&mut second, session, KEY);
    let (mut other, same) = attached(&node, 3, OTHER);
    assert_eq!(same, session);
    assert_eq!(moved(&mut first, session, KEY, 1, 0), Ok(100));
    assert_eq!(moved(&mut second, session, KEY, 1, 0), Ok(105));
    assert_eq!(moved(&mut other, session, OTHER, 1, 0), Ok(100));
    assert_eq!(moved(&mut first, session, KEY, 2, 0), Ok(110));
    assert_eq!(moved(&mut second, session, KEY, 2, 1), Ok(100), "all set it anew");
    assert!(moved(&mut first, session, KEY, 3, 0).unwrap_err().contains("after a later one"));
}

#[test]
fn a_move_that_comes_again_over_another_connection_moves_nothing_twice() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut before, session) = attached(&node, 1, KEY);
    assert_eq!(moved(&mut before, session, KEY, 1, 0), Ok(100));
    let mut after = Client::greet(&node.address, 1);
    attach(&mut after, session, KEY);
    drop(before);
    assert_eq!(moved(&mut after, session, KEY, 1, 0), Ok(100));
    assert_eq!(moved(&mut after, session, KEY, 2, 0), Ok(105));
}

#[test]
fn a_pointer_ends_with_its_handle() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut user, session) = attached(&node, 1, KEY);
    let (mut other, _) = attached(&node, 2, OTHER);
    assert_eq!(moved(&mut user, session, KEY, 1, 0), Ok(100));
    assert_eq!(moved(&mut other, session, OTHER, 1, 0), Ok(100));
    assert_eq!(user.ask(Request::Leave { session, key: KEY }), Reply::Done {});
    assert_eq!(moved(&mut other, session, KEY, 7, 0), Ok(100), "nothing is known of it any more");
    assert_eq!(moved(&mut other, session, OTHER, 2, 0), Ok(105));
}

//! The last process of a job waits until the others are done with the file, broken connections or not.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use format::{HandleKey, SessionId};
use transfer::message::{Reply, Request};

use super::faltering::Client;
use super::node::Node;
use super::runner::Store;

/// Others that have nothing to make durable are waited for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Without waiting for others; the idle timeout would end the wait too, and later.
const SOON: Duration = Duration::from_secs(9);

/// Asks in another thread.
fn await_others(client: Client, session: SessionId) -> Receiver<Reply> {
    await_others_of(2, client, session)
}

fn await_others_of(processes: u32, mut client: Client, session: SessionId) -> Receiver<Reply> {
    let (answer, answers) = channel();
    std::thread::spawn(move || {
        let _ = answer.send(client.obtain(Request::AwaitOthers { session, stripe_set: 0, processes }));
    });
    answers
}

fn two_clients(node: &Node) -> (Client, Client, SessionId) {
    let (mut last, mut other) = (Client::new(node, 1), Client::new(node, 2));
    let session = last.open(node, "shared").id;
    other.attach(session);
    (last, other, session)
}

#[test]
fn the_last_process_waits_until_the_others_are_done_with_the_file() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, mut other, session) = two_clients(&node);
    let answers = await_others(last, session);
    assert!(answers.recv_timeout(Duration::from_millis(300)).is_err(), "it was answered while another used the file");
    assert_eq!(other.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    assert_eq!(answers.recv_timeout(SOON), Ok(Reply::Others { streams: 0 }));
}

#[test]
fn a_process_whose_connection_broke_is_waited_for_until_it_came_back_and_was_done() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, other, session) = two_clients(&node);
    drop(other);
    let answers = await_others(last, session);
    assert!(answers.recv_timeout(Duration::from_millis(300)).is_err(), "it was answered while another was on its way");
    let mut again = Client::new(&node, 2);
    again.attach(session);
    assert_eq!(again.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    assert_eq!(answers.recv_timeout(SOON), Ok(Reply::Others { streams: 0 }));
}

#[test]
fn a_process_that_has_not_come_to_a_new_node_yet_is_waited_for() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, mut other, session) = two_clients(&node);
    assert_eq!(other.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    // It attached to a node that was killed, and this node has not seen it.
    let mut third = Client::new(&node, 3);
    let answers = await_others_of(3, last, session);
    assert!(answers.recv_timeout(Duration::from_secs(1)).is_err(), "it was answered before all had come");
    third.attach(session);
    third.write(session, 100);
    third.checkpoint(session, 1);
    assert_eq!(third.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    assert_eq!(answers.recv_timeout(SOON), Ok(Reply::Others { streams: 0 }));
}

#[test]
fn processes_that_were_done_before_a_new_node_began_are_not_waited_for_for_ever() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, mut other, session) = two_clients(&node);
    assert_eq!(other.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    let begun = Instant::now();
    let answer = await_others_of(3, last, session).recv_timeout(IDLE_TIMEOUT * 6);
    assert_eq!(answer, Ok(Reply::Others { streams: 0 }));
    assert!(begun.elapsed() >= IDLE_TIMEOUT);
}

#[test]
fn processes_that_closed_the_file_and_opened_it_again_are_not_waited_for() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, mut other, session) = two_clients(&node);
    assert_eq!(other.obtain(Request::Detach { session, stripe_set: 0 }), Reply::Done {});
    assert_eq!(other.open_with(&node, "shared", HandleKey([9; HandleKey::BYTES])).id, session);
    let answers = await_others(last, session);
    assert_eq!(answers.recv_timeout(SOON), Ok(Reply::Others { streams: 0 }));
}

#[test]
fn processes_that_stay_idle_are_not_waited_for_for_ever() {
    let store = Store::new();
    let node = Node::of(&store);
    let (last, _other, session) = two_clients(&node);
    let begun = Instant::now();
    let answer = await_others(last, session).recv_timeout(IDLE_TIMEOUT * 6);
    assert_eq!(answer, Ok(Reply::Others { streams: 1 }));
    assert!(begun.elapsed() >= IDLE_TIMEOUT);
}

#[test]
fn a_file_that_its_last_process_left_without_closing_it_does_not_fail_the_end_of_its_node() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut last, mut other, session) = two_clients(&node);
    other.write(session, 100);
    last.leave(session);
    node.terminate();
}

//! A node whose connections are all taken.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use transfer::message::{Reply, Request};

use super::bounds;
use super::faltering::Client;
use super::node::Node;
use super::runner::{Store, run};

/// Half of the files that the node may open.
const CONNECTIONS: u64 = 32;

#[test]
fn commands_try_again_until_a_connection_is_free() {
    let store = Store::new();
    std::fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "file");
    let node = Node::with_open_files(&store, CONNECTIONS * 2);
    let clients: Vec<Client> = (1..=CONNECTIONS).map(|number| Client::new(&node, number)).collect();
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(clients);
    });
    let cat = run(&["cat", &format!("thalweg://{}::file", node.address)]).expect(0);
    assert_eq!(cat.text(), "content");
    leaving.join().unwrap();
}

#[test]
fn a_node_that_stays_crowded_is_quoted() {
    let store = Store::new();
    let node = Node::with_open_files(&store, CONNECTIONS * 2);
    let _clients: Vec<Client> = (1..=CONNECTIONS).map(|number| Client::new(&node, number)).collect();
    let refused = run(&["ls", &format!("thalweg://{}::", node.address)]).expect(1);
    assert!(refused.stderr.contains("the node serves 32 connections"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("is it a thalweg node?"), "{}", refused.stderr);
}

const CROWD: u64 = 500;

#[test]
fn connections_that_say_nothing_hold_no_thread_and_are_served_when_they_do() {
    let store = Store::new();
    let node = Node::with(&store, &[]);
    let alone = node.threads();
    let strangers: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&node.address).unwrap()).collect();
    let mut crowd: Vec<_> = (1..=CROWD).map(|number| bounds::Client::greet(&node.address, number)).collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    // Those for new connections among them.
    while node.threads() > alone + 8 {
        assert!(Instant::now() < deadline, "{} threads beside {alone}", node.threads());
        std::thread::sleep(Duration::from_millis(50));
    }
    for _ in 0..2 {
        crowd.iter_mut().for_each(|client| client.request(Request::Release { owner: 1 }));
        crowd.iter_mut().for_each(|client| assert_eq!(client.answer(), Reply::Done {}));
    }
    drop((strangers, crowd));
    node.terminate();
}

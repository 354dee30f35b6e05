//! A node whose connections are all taken.

use std::time::Duration;

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

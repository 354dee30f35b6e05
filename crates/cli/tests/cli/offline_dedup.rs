//! `put --dedup off`, and `thalweg dedup` after it.

use random::Random;

use super::node::Node;
use super::runner::{Store, run};

fn put_without_look_ups(store: &Store, from: &str, to: &str) {
    let (from, to) = (store.path(from), store.address(to));
    run(&["put".as_ref(), "--dedup".as_ref(), "off".as_ref(), from.as_os_str(), &to]).expect(0);
}

#[test]
fn a_put_without_look_ups_stores_again_what_is_there_and_reads_the_same() {
    let store = Store::new();
    let plain = Random::new(1).bytes(2_000_000);
    std::fs::write(store.path("source"), &plain).unwrap();
    put_without_look_ups(&store, "source", "a");
    let once = store.container_bytes();
    put_without_look_ups(&store, "source", "b");
    let twice = store.container_bytes();
    assert!(twice > 2 * once - 100_000, "{once}, then {twice}");
    store.put(&store.path("source"), "c");
    assert!(store.container_bytes() < twice + 100_000, "a put with look-ups finds them");
    ["a", "b", "c"].iter().for_each(|name| assert!(store.read(name) == plain));
    assert_eq!(store.json("verify")["damages"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_put_without_look_ups_goes_through_a_node_too() {
    let store = Store::new();
    let plain = Random::new(2).bytes(2_000_000);
    std::fs::write(store.path("source"), &plain).unwrap();
    let node = Node::of(&store);
    for name in ["a", "b"] {
        let to = format!("thalweg://{}::{name}", node.address);
        run(&["put", "--dedup", "off", store.path("source").to_str().unwrap(), &to]).expect(0);
    }
    node.terminate();
    assert!(store.container_bytes() > 3_900_000, "{}", store.container_bytes());
    ["a", "b"].iter().for_each(|name| assert!(store.read(name) == plain));
}

//! `--limit-upload` and `--limit-download`: what a command may use of the network.

use std::fs;
use std::time::{Duration, Instant};

use random::Random;

use super::node::Node;
use super::runner::{Store, run};

/// How long a command takes at least that moves so many bytes at so many a second, but for the first burst.
fn least(bytes: u64, bytes_per_s: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64 - 0.2)
}

#[test]
fn a_limited_put_and_get_take_their_time_and_move_every_byte() {
    const BYTES: u64 = 1 << 20;
    let store = Store::new();
    let node = Node::of(&store);
    let (source, copy) = (store.path("source"), store.path("copy"));
    fs::write(&source, Random::new(31).bytes(BYTES as usize)).unwrap();
    let place = format!("thalweg://{}::f", node.address);
    let begun = Instant::now();
    run(&["put", "--limit-upload", "512K", source.to_str().unwrap(), &place]).expect(0);
    assert!(begun.elapsed() > least(BYTES, 512 << 10), "put took {:?}", begun.elapsed());
    let begun = Instant::now();
    run(&["get", "--limit-download", "512K", &place, copy.to_str().unwrap()]).expect(0);
    assert!(begun.elapsed() > least(BYTES, 512 << 10), "get took {:?}", begun.elapsed());
    assert!(fs::read(&source).unwrap() == fs::read(&copy).unwrap());
}

#[test]
fn limits_are_for_nodes_and_have_units() {
    let store = Store::new();
    let source = store.path("source");
    fs::write(&source, "x").unwrap();
    let (source, place) = (source.to_str().unwrap().to_owned(), format!("{}::f", store.path("store").display()));
    let local = run(&["put", "--limit-upload", "1M", &source, &place]).expect(2);
    assert!(local.stderr.contains("thalweg://HOST:PORT"), "{}", local.stderr);
    let unit = run(&["get", "--limit-download", "100", &place, &source]).expect(2);
    assert!(unit.stderr.contains("is no rate"), "{}", unit.stderr);
}

//! Welcome clients that ask for long answers and do not read them, and strangers that take all places.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use format::{HandleKey, MAX_PAYLOAD_BYTES};
use transfer::message::{Extent, Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::{Store, run};
use random::Random;

const KEY: HandleKey = HandleKey([7; HandleKey::BYTES]);
const DEAF: u64 = 12;
/// Answers of all connections, and everything else.
const MAX_NODE_BYTES: u64 = (256 + 200) << 20;

/// A client that uses a file of a gigabyte without content.
fn attached(node: &Node, client: u64) -> (Client, Request) {
    let mut attached = Client::greet(&node.address, client);
    let session = attached.open("hole", &node.address, KEY);
    assert!(matches!(attached.ask(Request::Attach { session, stripe_set: 0, key: KEY }), Reply::Attached { .. }));
    assert_eq!(attached.ask(Request::SetSize { session, stripe_set: 0, size: 1 << 30 }), Reply::Done {});
    let extents = vec![Extent { offset: 0, bytes: u64::from(MAX_PAYLOAD_BYTES) }];
    (attached, Request::Read { session, stripe_set: 0, extents })
}

#[test]
fn unread_answers_stay_within_the_bound_while_an_honest_reader_goes_on() {
    let store = Store::new();
    let node = Node::of(&store);
    let deaf: Vec<Client> = (0..DEAF)
        .map(|number| {
            let (mut client, read) = attached(&node, 100 + number);
            client.request(read);
            client
        })
        .collect();
    let (mut honest, read) = attached(&node, 1);
    // Each of those before it holds the memory for some seconds.
    assert!(matches!(honest.ask(read), Reply::Bytes { size } if size == 1 << 30));
    let held_bytes = node.peak_bytes();
    assert!(held_bytes < MAX_NODE_BYTES, "the node held {} MiB", held_bytes >> 20);
    drop(deaf);
}

#[test]
fn connections_without_a_hello_keep_no_client_out() {
    let store = Store::new();
    let node = Node::with_open_files(&store, 256 + 40);
    let address = format!("thalweg://{}::", node.address);
    let strangers: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&node.address).unwrap()).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    while run(&["ls", &address]).code != Some(0) {
        assert!(Instant::now() < deadline, "strangers that say nothing keep a client out");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(strangers);
}

/// Readers of ranges that lie far apart, of more than their answers may take together.
const READERS: u64 = 40;
const RANGES: u64 = 1024;
const RANGE_BYTES: u64 = 64 << 10;
const CONTENT_BYTES: u64 = 96 << 20;

#[test]
fn what_many_readers_of_many_ranges_hold_together_is_bounded() {
    let store = Store::new();
    std::fs::write(store.path("content"), Random::new(5).bytes(CONTENT_BYTES as usize)).unwrap();
    store.put(&store.path("content"), "content");
    let node = Node::with(&store, &["--staging-mib", "64"]);
    let read = |number: u64| {
        let mut client = Client::greet(&node.address, 100 + number);
        let session = client.open("content", &node.address, KEY);
        assert!(matches!(client.ask(Request::Attach { session, stripe_set: 0, key: KEY }), Reply::Attached { .. }));
        let range = |at: u64| Extent {
            offset: (number + at * 37) * 12_000 % (CONTENT_BYTES - RANGE_BYTES),
            bytes: RANGE_BYTES,
        };
        let extents = (0..RANGES).map(range).collect();
        std::thread::spawn(move || client.ask(Request::Read { session, stripe_set: 0, extents }))
    };
    let readers: Vec<_> = (0..READERS).map(read).collect();
    for reader in readers {
        assert!(matches!(reader.join().unwrap(), Reply::Bytes { size } if size == CONTENT_BYTES));
    }
    let held_bytes = node.peak_bytes();
    assert!(held_bytes < MAX_NODE_BYTES, "the node held {} MiB", held_bytes >> 20);
}

//! How fast the wire is on loopback: `cargo test --release -p thalweg-transfer --test wire -- --ignored --nocapture speed`.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use store::{ClaimOwner, SegmentStore};
use transfer::{Connection, Remote, RemoteStore};

use crate::fake::{Fake, block};

const BLOCKS: u64 = 8192;

fn report(what: &str, bytes: u64, started: Instant) {
    println!("{what}: {:.0} MB/s", bytes as f64 / 1e6 / started.elapsed().as_secs_f64());
}

#[test]
#[ignore = "a measurement"]
fn speed_of_put() {
    let server = Arc::new(Fake { incarnation: 1, forgetful: true, ..Fake::default() }).serve();
    let store = RemoteStore::new(Remote::connect(&server.local_address().to_string(), 1, "job", "").unwrap());
    let block = block(1, 32, 8192);
    let bytes = BLOCKS * block.payload.len() as u64;
    let started = Instant::now();
    (0..BLOCKS).for_each(|_| assert!(store.put(ClaimOwner(1), &block).is_ok()));
    report("put, 1 thread, 256 KiB blocks", bytes, started);
    let started = Instant::now();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (store, block) = (&store, &block);
            scope.spawn(move || (0..BLOCKS / 4).for_each(|_| assert!(store.put(ClaimOwner(thread), block).is_ok())));
        }
    });
    report("put, 4 threads, 256 KiB blocks", bytes, started);
}

#[test]
#[ignore = "a measurement"]
fn speed_of_raw_frames() {
    for payload_bytes in [4 << 10, 64 << 10, 256 << 10, 4 << 20] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = Connection::open(&listener.local_addr().unwrap().to_string()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let far = Connection::accepted(stream, peer).unwrap();
        let payload = vec![3; payload_bytes];
        let frames = (1 << 30) / payload_bytes as u64;
        let started = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| (0..frames).for_each(|number| near.send(1, number, b"body", &[&payload]).unwrap()));
            (0..frames).for_each(|_| assert_eq!(far.receive().unwrap().unwrap().payload.len(), payload_bytes));
        });
        report(&format!("raw frames of {} KiB, one way", payload_bytes >> 10), 1 << 30, started);
    }
}

#[test]
#[ignore = "a measurement"]
fn speed_of_get() {
    let server = Fake::new(1).serve();
    let store = RemoteStore::new(Remote::connect(&server.local_address().to_string(), 1, "job", "").unwrap());
    let run = store.put(ClaimOwner(1), &block(1, 32, 8192)).unwrap();
    let started = Instant::now();
    (0..BLOCKS).for_each(|_| drop(store.get(run).unwrap()));
    report("get, 1 thread, 256 KiB blocks", BLOCKS * (256 << 10), started);
}

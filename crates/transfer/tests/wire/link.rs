//! The link before the first frame: a near node's rate is measured, a far one's assumed, which saves round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use transfer::message::{Failure, FailureKind, Reply, Request};
use transfer::{ClientSender, Credentials, Handler, Hello, Link, Replier, Server, Service};

use crate::fake::Fake;

/// Answers Measure after a while, and counts how often it was asked.
#[derive(Clone)]
struct Node {
    delay: Duration,
    asked: Arc<AtomicUsize>,
}

impl Service for Node {
    fn connect(&self, _: Hello, _: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        Ok((Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 }, Box::new(self.clone())))
    }
}

impl Handler for Node {
    fn handle(&mut self, request: Request, _: Vec<u8>, replier: Replier) {
        thread::sleep(self.delay);
        self.asked.fetch_add(1, Ordering::SeqCst);
        match request {
            Request::Measure {} => replier.reply(Reply::Measured { workers: 3 }),
            _ => replier.fail(Failure::new(FailureKind::NotFound, "nothing is here")),
        }
    }

    fn closed(&mut self) {}
}

/// Measures the link to a node that takes `delay` for each answer; returns what was measured and how often it was asked.
fn measured(delay: Duration) -> (Link, usize) {
    let node = Node { delay, asked: Arc::default() };
    let server = Server::bind("127.0.0.1:0", Arc::new(node.clone())).unwrap();
    server.spawn();
    let link = Link::measure(&server.local_address().to_string(), &Credentials::default()).unwrap();
    (link, node.asked.load(Ordering::SeqCst))
}

#[test]
fn a_far_link_is_assumed_after_one_exchange() {
    assert_eq!(measured(Duration::from_millis(30)), (Link { bytes_per_s: 60e6, workers: 3 }, 1));
}

#[test]
fn a_near_link_is_measured() {
    let (link, asked) = measured(Duration::ZERO);
    assert!(asked > 1 && link.bytes_per_s != 60e6 && link.workers == 3, "{link:?} after {asked}");
}

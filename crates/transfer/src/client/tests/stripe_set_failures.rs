//! A stripe set fails after it has received everything: callers that wait for what only it could do get an error.

use std::sync::mpsc;

use super::*;
use crate::message::Failure;

/// Returns the outcome of something that must not wait for ever.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    outcome.recv_timeout(Duration::from_secs(60)).expect("it ends, in success or failure")
}

fn disk_is_full() -> Failure {
    Failure::new(FailureKind::Full, "/store: the disk is full")
}

/// Returns a file of which the node has received all and will sync nothing.
fn received(nodes: &[Arc<Node>]) -> (Client, File) {
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    let client = Client::new(settings(nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &vec![7; 3 << 20])]).unwrap();
    file.flush().unwrap();
    (client, file)
}

#[test]
fn closing_ends_with_the_failure_of_a_stripe_set_that_failed_before() {
    let (_world, nodes) = nodes(1);
    let (client, file) = received(&nodes);
    nodes[0].fail_stripe_sets(&disk_is_full());
    let error = soon(move || file.detach(1)).unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full), "{error}");
    wait_until_nothing_is_kept(&client);
}

#[test]
fn closing_ends_with_the_failure_of_a_stripe_set_that_fails_meanwhile() {
    let (_world, nodes) = nodes(1);
    let (client, file) = received(&nodes);
    let node = nodes[0].clone();
    let failing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        node.fail_stripe_sets(&disk_is_full());
    });
    let error = soon(move || file.detach(1)).unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full), "{error}");
    failing.join().unwrap();
    wait_until_nothing_is_kept(&client);
}

#[test]
fn a_stripe_set_that_answers_a_flush_hint_with_its_failure_fails_the_file() {
    let (_world, nodes) = nodes(1);
    let (_client, file) = received(&nodes);
    nodes[0].does.fail_hints.store(true, Ordering::SeqCst);
    let error = soon(move || file.detach(1)).unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full), "{error}");
}

#[test]
fn a_writer_that_waits_for_room_ends_with_the_failure_of_its_stripe_set() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    let client = Client::new(Settings { window_bytes: 4 << 20, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    let node = nodes[0].clone();
    let failing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        node.fail_stripe_sets(&disk_is_full());
    });
    let error = soon(move || file.write(&[source(0, &vec![7; 12 << 20])])).unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full), "{error}");
    failing.join().unwrap();
}

//! The client against fake nodes: everything written survives, whatever breaks in between.

mod closing;
mod failed_files;
mod fake_behaviour;
mod fake_node;
mod fake_stripe_set;
mod histories;
mod reading_ahead;
mod reducing;
mod shared_pointers;
mod silence;
mod strangers;
mod stripe_set_failures;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake_node::{Node, SEGMENT_BYTES, World};
use policy::reduction::{Adaptive, End};

use super::*;
use crate::message::FailureKind;

const STRIPE_BYTES: u64 = 64 << 10;
/// Asked for: a busy machine would seem far.
const STREAMS: u32 = 2;

fn nodes(count: usize) -> (Arc<World>, Vec<Arc<Node>>) {
    let world = Arc::default();
    let nodes = (0..count).map(|_| Node::start(&world)).collect();
    (world, nodes)
}

fn settings(nodes: &[Arc<Node>]) -> Settings {
    Settings {
        nodes: nodes.iter().map(|node| node.address.clone()).collect(),
        streams: Some(STREAMS),
        stripe_bytes: STRIPE_BYTES,
        timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

fn open(client: &Client, flags: u32) -> File {
    let ticket = client.open(b"/run/out.dat", flags | CREATE).unwrap();
    let ticket = Ticket::decode(&ticket.encode()).unwrap();
    client.attach(&ticket, flags).unwrap()
}

fn source(offset: u64, bytes: &[u8]) -> Piece {
    // SAFETY: only read from, and the tests keep the bytes until the operation is done.
    unsafe { Piece::new(offset, bytes.as_ptr().cast_mut(), bytes.len() as u64) }
}

fn target(offset: u64, bytes: &mut [u8]) -> Piece {
    // SAFETY: the tests read the bytes again only when the operation is done.
    unsafe { Piece::new(offset, bytes.as_mut_ptr(), bytes.len() as u64) }
}

fn read(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0xee; bytes];
    let got = file.read(&[target(offset, &mut memory)]).unwrap();
    memory.truncate(got as usize);
    memory
}

/// Measures up to three times: a machine stalls for some seconds once, a fault shows every time.
fn assert_within(limit: Duration, mut measure: impl FnMut() -> Duration) {
    let mut times = Vec::new();
    while times.len() < 3 {
        times.push(measure());
        if times.last() < Some(&limit) {
            return;
        }
    }
    panic!("{times:?} instead of {limit:?}");
}

/// Waits until it holds, for a minute at most.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An I/O thread may hold the last durable frame for a moment longer.
fn wait_until_nothing_is_kept(client: &Client) {
    let window = client.process().unwrap().window.clone();
    eventually("nothing is kept", || window.used_bytes() == 0);
}

#[test]
fn an_answer_that_leaves_out_bytes_of_the_file_is_an_error_and_no_zeros() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, READ | WRITE);
    let bytes = vec![7; 1000];
    file.write(&[source(0, &bytes)]).unwrap();
    assert_eq!(read(&file, 0, 2000), bytes);
    nodes[0].does.cut_reads.store(true, Ordering::SeqCst);
    let mut memory = vec![0xee; 1000];
    let error = file.read(&[target(0, &mut memory)]).unwrap_err();
    assert!(error.to_string().contains("500 bytes"), "{error}");
}

#[test]
fn one_read_of_what_others_wrote_uses_several_streams() {
    let (_world, nodes) = nodes(2);
    let settings = Settings { streams: Some(4), stripe_bytes: 4 << 20, ..settings(&nodes) };
    let bytes = random::Random::new(9).bytes(4 << 20);
    let writer = Client::new(settings.clone(), None);
    let written = open(&writer, WRITE);
    written.write(&[source(0, &bytes)]).unwrap();
    written.commit().unwrap();
    written.detach(1).unwrap();
    let reader = Client::new(settings, None);
    assert!(read(&open(&reader, READ), 0, bytes.len()) == bytes);
    let streams = nodes.iter().map(|node| node.does.read_over.lock().unwrap().len()).collect::<Vec<_>>();
    assert_eq!(streams.iter().sum::<usize>(), 4, "streams that one stripe was read over: {streams:?}");
}

#[test]
fn reads_see_own_writes_holes_are_zero_and_the_file_ends() {
    let (_world, nodes) = nodes(3);
    nodes.iter().for_each(|node| node.does.delay.store(true, Ordering::SeqCst));
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, READ | WRITE);
    let bytes: Vec<u8> = (0..400_000u32).map(|at| (at / 7) as u8).collect();
    file.write(&[source(100_000, &bytes[..300_000]), source(450_000, &bytes[300_000..])]).unwrap();
    let mut expected = vec![0; 550_000];
    expected[100_000..400_000].copy_from_slice(&bytes[..300_000]);
    expected[450_000..].copy_from_slice(&bytes[300_000..]);
    assert!(read(&file, 0, 700_000) == expected);
    assert_eq!(file.size().unwrap(), 550_000);
    assert_eq!(read(&file, 600_000, 10), []);
    file.set_size(120_000).unwrap();
    assert!(read(&file, 110_000, 20_000) == expected[110_000..120_000]);
    file.commit().unwrap();
    file.detach(1).unwrap();
    client.finalize().unwrap();
    assert_eq!(nodes.iter().map(|node| node.does.leaves.load(Ordering::SeqCst)).sum::<u64>(), 1);
    assert_eq!(nodes.iter().map(|node| node.does.detaches.load(Ordering::SeqCst)).sum::<u64>(), 6);
}

#[test]
fn what_lies_far_behind_the_end_does_not_travel() {
    let (_world, nodes) = nodes(2);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, READ | WRITE);
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    file.write(&[source(0, &bytes)]).unwrap();
    assert!(read(&file, 0, 256 << 20) == bytes);
    assert!(read(&file, 100_000, 64 << 20) == bytes[100_000..]);
    assert_eq!(read(&file, 1 << 40, 256 << 20), []);
    let travelled = || nodes.iter().map(|node| node.does.read_bytes.load(Ordering::SeqCst)).sum::<u64>();
    assert!(travelled() < 1 << 20, "{}", travelled());
    // One node knows of no byte behind the hole.
    file.write(&[source(64 * STRIPE_BYTES, &bytes[..10])]).unwrap();
    let mut expected = [&bytes[..], &vec![0; 64 * STRIPE_BYTES as usize - bytes.len()]].concat();
    expected.extend(&bytes[..10]);
    assert!(read(&file, 0, 16 << 20) == expected);
}

#[test]
fn what_follows_a_full_frame_in_one_write_goes_out_too() {
    let (_, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, 1 | 2 | 4);
    // The first bytes open a frame that the second write fills and leaves behind.
    let bytes: Vec<u8> = (0..(1 << 20) + 9096u32).map(|i| (i % 253) as u8).collect();
    file.write(&[source(0, &bytes[..4096])]).unwrap();
    file.write(&[source(4096, &bytes[4096..])]).unwrap();
    file.flush().unwrap();
    assert_eq!(file.size().unwrap(), bytes.len() as u64);
    assert_eq!(read(&file, 0, bytes.len()), bytes);
}

#[test]
fn a_full_window_blocks_and_sends_hints_until_something_is_durable() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    let client = Client::new(Settings { window_bytes: 4 << 20, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    let bytes = vec![7; 12 << 20];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| file.write(&[source(0, &bytes)]).unwrap());
        eventually("the node is pressed", || nodes[0].does.hints.load(Ordering::SeqCst) > 0);
        assert!(!writing.is_finished(), "12 MiB do not fit a window of 4");
        assert!(nodes[0].does.written_bytes.load(Ordering::SeqCst) <= 4 << 20);
        nodes[0].does.never_durable.store(false, Ordering::SeqCst);
        writing.join().unwrap();
    });
    file.flush().unwrap();
    file.detach(1).unwrap();
    assert_eq!(nodes[0].does.written_bytes.load(Ordering::SeqCst), 12 << 20);
}

#[test]
fn only_what_was_not_durable_is_sent_again_to_a_new_node() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &vec![1; 2 << 20])]).unwrap();
    file.checkpoint().unwrap();
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    file.write(&[source(2 << 20, &vec![2; 1 << 20])]).unwrap();
    let sent_bytes = || nodes[0].does.written_bytes.load(Ordering::SeqCst);
    eventually("3 MiB arrive", || sent_bytes() == 3 << 20);
    nodes[0].crash();
    nodes[0].does.never_durable.store(false, Ordering::SeqCst);
    nodes[0].revive();
    file.checkpoint().unwrap();
    assert_eq!(sent_bytes(), 4 << 20, "2 MiB are durable, and 1 MiB came twice");
}

#[test]
fn started_writes_wait_for_room_and_keep_their_order() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    let client = Client::new(Settings { window_bytes: 4 << 20, ..settings(&nodes) }, None);
    let file = open(&client, READ | WRITE);
    let (first, second, third) = (vec![1; 6 << 20], vec![2; 1 << 20], vec![3; 1000]);
    let mut seen = vec![0; 6 << 20];
    let before = file.start_write(&[source(0, &first)]).unwrap();
    let after = file.start_write(&[source(0, &second)]).unwrap();
    let read = file.start_read(&[target(0, &mut seen)]).unwrap();
    assert!(!before.is_done() && !after.is_done() && !read.is_done());
    std::thread::sleep(Duration::from_millis(50));
    assert!(!before.is_done());
    nodes[0].does.never_durable.store(false, Ordering::SeqCst);
    file.write(&[source(500, &third)]).unwrap();
    assert!(before.is_done() && after.is_done());
    assert_eq!((before.wait().unwrap(), after.wait().unwrap(), read.wait().unwrap()), (6 << 20, 1 << 20, 6 << 20));
    assert!(seen[..1 << 20].iter().all(|byte| *byte == 2) && seen[1 << 20..].iter().all(|byte| *byte == 1));
    drop(seen);
    assert_eq!(super::tests::read(&file, 499, 3), [2, 3, 3]);
    file.detach(1).unwrap();
}

#[test]
fn a_node_gone_for_good_is_an_error_within_the_timeout_and_stays_one() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(Settings { timeout: Duration::from_secs(4), ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.flush().unwrap();
    nodes[0].crash();
    let begun = Instant::now();
    file.write(&[source(1000, &[1; 1000])]).unwrap();
    let error = file.flush().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(&nodes[0].address), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    nodes[0].revive();
    assert!(file.write(&[source(0, &[1; 10])]).is_err(), "what was given up is not forgotten");
    assert!(file.detach(1).is_err());
    nodes[0].crash();
    assert!(client.open(b"/other", WRITE | CREATE).is_err());
}

#[test]
fn stripe_sets_move_to_another_node_with_everything_that_is_kept() {
    let (_world, nodes) = nodes(2);
    let client = Client::new(Settings { timeout: Duration::from_secs(10), ..settings(&nodes) }, None);
    let file = open(&client, READ | WRITE);
    let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
    file.write(&[source(0, &bytes[..500_000])]).unwrap();
    nodes[1].make_durable();
    file.write(&[source(500_000, &bytes[500_000..])]).unwrap();
    nodes[1].crash();
    assert!(read(&file, 0, bytes.len()) == bytes);
    file.commit().unwrap();
    file.detach(1).unwrap();
}

#[test]
fn a_commit_that_fails_in_the_background_is_reported_by_finalize() {
    let (_world, nodes) = nodes(2);
    nodes.iter().for_each(|node| node.does.fail_commits.store(true, Ordering::SeqCst));
    let client = Client::new(Settings { acknowledge: Acknowledge::Received, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    let error = client.finalize().unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full));
    assert!(error.to_string().contains("/run/out.dat"), "{error}");
    client.finalize().unwrap();
}

#[test]
fn frames_of_a_checkpoint_leave_the_window() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &vec![1; 3 << 20])]).unwrap();
    let epoch = file.checkpoint().unwrap();
    assert_eq!(epoch, 2);
    file.set_epoch(epoch).unwrap();
    wait_until_nothing_is_kept(&client);
    assert_eq!(file.checkpoint().unwrap(), 3);
    file.detach(1).unwrap();
}

#[test]
fn a_file_closed_and_opened_again_is_no_stranger_to_its_node() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    for round in 1..4u8 {
        let (file, other) = (open(&client, READ | WRITE), open(&client, READ | WRITE));
        file.write(&[source(0, &[round; 100])]).unwrap();
        other.write(&[source(100, &[round; 100])]).unwrap();
        assert_eq!(read(&other, 0, 200), [round; 200]);
        file.detach(1).unwrap();
        assert_eq!(read(&other, 0, 200), [round; 200]);
        other.detach(1).unwrap();
    }
}

#[test]
fn the_lock_excludes_other_processes() {
    let (_world, nodes) = nodes(1);
    let clients = [Client::new(settings(&nodes), None), Client::new(settings(&nodes), None)];
    let files: Vec<File> = clients.iter().map(|client| open(client, READ | WRITE)).collect();
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                for _ in 0..50 {
                    file.lock().unwrap();
                    let count = read(file, 0, 1).first().copied().unwrap_or(0);
                    file.write(&[source(0, &[count + 1])]).unwrap();
                    file.unlock().unwrap();
                }
            });
        }
    });
    assert_eq!(read(&files[0], 0, 1), [100]);
    files.into_iter().for_each(|file| file.detach(0).unwrap());
}

#[test]
fn an_unknown_name_and_wrong_flags_are_different_errors() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let error = client.delete(b"/nothing").unwrap_err();
    assert!(matches!(&error, OpenError::Transfer(error) if error.failure() == Some(FailureKind::NotFound)), "{error}");
    let file = open(&client, READ);
    assert!(matches!(file.write(&[source(0, b"x")]), Err(Error::Refused(..))));
    assert!(matches!(client.open(b"/a", 0), Err(OpenError::Transfer(Error::Refused(..)))));
    file.detach(1).unwrap();
}

/// Run with `--ignored --nocapture`; prints MB/s and CPU seconds of the whole process, node included.
#[test]
#[ignore = "a measurement"]
fn measure_one_gibibyte_to_a_node_that_discards() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.discard.store(true, Ordering::SeqCst);
    let client = Client::new(Settings { stripe_bytes: 4 << 20, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    let bytes = vec![5; 64 << 20];
    let begun = Instant::now();
    for round in 0..16u64 {
        file.write(&[source(round * (64 << 20), &bytes)]).unwrap();
    }
    file.flush().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{:.0} MB/s", (1u64 << 30) as f64 / 1e6 / seconds);
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (name, rest) = stat.split_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        println!("{}) user {} system {} (1/100 s)", name, fields[11], fields[12]);
    }
}

#[test]
fn every_stream_is_connected_before_the_file_is_opened() {
    let (_world, nodes) = nodes(2);
    let client = Client::new(settings(&nodes), None);
    client.connect(b"/run/out.dat", 1);
    let streams = u64::from(STREAMS);
    let greetings = |node: &Arc<Node>| node.does.greetings.load(Ordering::SeqCst);
    eventually("every stream is connected", || nodes.iter().all(|node| greetings(node) >= streams));
    let file = open(&client, WRITE);
    file.write(&[source(0, &[7; 100])]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    assert!(
        nodes.iter().all(|node| greetings(node) == streams),
        "{:?}",
        nodes.iter().map(greetings).collect::<Vec<_>>()
    );
}

#[test]
fn connecting_says_nothing_of_names_and_nodes_that_cannot_be_used() {
    let client = Client::new(Settings { nodes: vec!["no address".into()], ..Settings::default() }, None);
    client.connect(b"/run/out.dat", 1);
    client.connect(b"nobody:/run/out.dat", 1);
    assert!(client.open(b"/run/out.dat", READ).is_err());
}

#[test]
fn what_a_file_is_attached_for_waits_for_the_measured_policy() {
    let (_world, nodes) = nodes(1);
    let policy = PolicySource::Measured(Arc::new(|| {
        std::thread::sleep(Duration::from_millis(300));
        Adaptive::fixed(End::Client)
    }));
    let client = Client::new(settings(&nodes), Some(reducing::plain(policy)));
    let begun = Instant::now();
    let file = open(&client, WRITE);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    file.write(&[source(0, &reducing::distinct(100, 0))]).unwrap();
    file.flush().unwrap();
    assert!(nodes[0].does.digest_offers.load(Ordering::SeqCst) > 0, "reduced at the node");
    file.detach(1).unwrap();
}

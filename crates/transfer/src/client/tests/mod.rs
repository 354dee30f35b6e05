//! The client against fake nodes: what was written is there, whatever breaks in between.

mod fake_node;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake_node::{Node, SEGMENT_BYTES, World};

use super::*;
use crate::message::FailureKind;

const STRIPE_BYTES: u64 = 64 << 10;

/// Small deterministic random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn nodes(count: usize) -> (Arc<World>, Vec<Arc<Node>>) {
    let world = Arc::default();
    let nodes = (0..count).map(|_| Node::start(&world)).collect();
    (world, nodes)
}

fn settings(nodes: &[Arc<Node>]) -> Settings {
    Settings {
        nodes: nodes.iter().map(|node| node.address.clone()).collect(),
        stripe_bytes: STRIPE_BYTES,
        patience: Duration::from_secs(10),
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
    // SAFETY: the tests look at the bytes again only when the operation is done.
    unsafe { Piece::new(offset, bytes.as_mut_ptr(), bytes.len() as u64) }
}

fn read(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0xee; bytes];
    let got = file.read(&[target(offset, &mut memory)]).unwrap();
    memory.truncate(got as usize);
    memory
}

/// An I/O thread may hold the last of what is durable for a moment longer.
fn wait_until_nothing_is_kept(client: &Client) {
    let window = client.process().unwrap().window.clone();
    let deadline = Instant::now() + Duration::from_secs(10);
    while window.used_bytes() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(window.used_bytes(), 0);
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
    file.detach(true).unwrap();
    client.finalize().unwrap();
    assert_eq!(nodes.iter().map(|node| node.does.leaves.load(Ordering::SeqCst)).sum::<u64>(), 1);
    assert_eq!(nodes.iter().map(|node| node.does.detaches.load(Ordering::SeqCst)).sum::<u64>(), 6);
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

/// Several clients write their own blocks at random, again and again, while connections break and nodes die.
fn random_history(seed: u64, node_count: usize, crashes: bool) {
    println!("seed {seed}");
    const CLIENTS: u64 = 3;
    const BLOCK_BYTES: u64 = 3000;
    const BLOCKS: u64 = 400;
    let (_world, nodes) = nodes(node_count);
    nodes.iter().for_each(|node| node.does.split.store(seed.is_multiple_of(2), Ordering::SeqCst));
    let settings = Settings { patience: Duration::from_secs(5), ..settings(&nodes) };
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut expected = vec![0; (BLOCKS * BLOCK_BYTES) as usize];
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|writer| {
                let settings = settings.clone();
                scope.spawn(move || {
                    let client = Client::new(settings, None);
                    let file = open(&client, if writer == 0 { READ | WRITE } else { WRITE });
                    let mut random = Random(seed * 1000 + writer + 1);
                    let mut mine = vec![0; (BLOCKS * BLOCK_BYTES) as usize];
                    for round in 0..600 {
                        let block = random.below(BLOCKS / CLIENTS) * CLIENTS + writer;
                        let within = random.below(BLOCK_BYTES);
                        let bytes = vec![round as u8 | 1; 1 + random.below(BLOCK_BYTES - within) as usize];
                        let offset = block * BLOCK_BYTES + within;
                        mine[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                        match random.below(4) {
                            0 => drop(file.start_write(&[source(offset, &bytes)]).unwrap().wait().unwrap()),
                            _ => file.write(&[source(offset, &bytes)]).unwrap(),
                        }
                        if writer == 0 && round % 60 == 0 {
                            let seen = read(&file, offset, bytes.len());
                            assert!(seen == bytes, "seed {seed}: round {round} does not see its own write");
                        }
                        if round % 50 == 0 {
                            file.flush().unwrap();
                        }
                        std::thread::sleep(Duration::from_micros(random.below(1500)));
                    }
                    file.flush().unwrap();
                    (client, file, mine)
                })
            })
            .collect();
        let trouble = scope.spawn(|| {
            let mut random = Random(seed + 77);
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20 + random.below(120)));
                let node = &nodes[random.below(nodes.len() as u64) as usize];
                match random.below(if crashes { 4 } else { 2 }) {
                    0 | 2 => node.break_connections(),
                    1 => node.make_durable(),
                    _ => {
                        node.crash();
                        std::thread::sleep(Duration::from_millis(random.below(60)));
                        node.revive();
                    }
                }
            }
        });
        let mut ended: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::SeqCst);
        trouble.join().unwrap();
        for (writer, (_, file, mine)) in ended.iter().enumerate() {
            file.flush().unwrap();
            for block in (writer..BLOCKS as usize).step_by(CLIENTS as usize) {
                let range = block * BLOCK_BYTES as usize..(block + 1) * BLOCK_BYTES as usize;
                expected[range.clone()].copy_from_slice(&mine[range]);
            }
        }
        let all = read(&ended[0].1, 0, expected.len());
        let wrong = (0..expected.len()).find(|at| all.get(*at).copied().unwrap_or(0) != expected[*at]);
        assert_eq!(wrong, None, "seed {seed}: a byte is not what was written last");
        let mut at_nodes = Vec::new();
        nodes.iter().for_each(|node| node.bytes(node_count as u64, STRIPE_BYTES, &mut at_nodes));
        assert!(at_nodes[..all.len()] == all, "seed {seed}");
        let needless: u64 = nodes.iter().map(|node| node.does.needless.load(Ordering::SeqCst)).sum();
        assert_eq!(needless, 0, "seed {seed}: frames said to be durable came again");
        for (client, file, _) in ended.drain(..) {
            file.detach(false).unwrap();
            drop(client);
        }
    });
}

#[test]
fn writes_survive_broken_connections() {
    (1..=3).for_each(|seed| random_history(seed, 1 + seed as usize % 2, false));
}

#[test]
fn writes_survive_nodes_that_forget_what_was_not_durable() {
    (11..=13).for_each(|seed| random_history(seed, 1 + seed as usize % 2, true));
}

#[test]
fn a_full_window_blocks_and_presses_until_something_is_durable() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    let client = Client::new(Settings { window_bytes: 4 << 20, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    let bytes = vec![7; 12 << 20];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| file.write(&[source(0, &bytes)]).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!writing.is_finished(), "12 MiB do not fit a window of 4");
        assert!(nodes[0].does.written_bytes.load(Ordering::SeqCst) <= 4 << 20);
        assert!(nodes[0].does.presses.load(Ordering::SeqCst) > 0);
        nodes[0].does.never_durable.store(false, Ordering::SeqCst);
        writing.join().unwrap();
    });
    file.flush().unwrap();
    file.detach(true).unwrap();
    assert_eq!(nodes[0].does.written_bytes.load(Ordering::SeqCst), 12 << 20);
    assert_eq!(nodes[0].does.needless.load(Ordering::SeqCst), 0);
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
    file.detach(true).unwrap();
}

#[test]
fn a_node_gone_for_good_is_an_error_within_patience_and_stays_one() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(Settings { patience: Duration::from_millis(600), ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.flush().unwrap();
    nodes[0].crash();
    let begun = Instant::now();
    file.write(&[source(1000, &[1; 1000])]).unwrap();
    let error = file.flush().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(&nodes[0].address), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    nodes[0].revive();
    assert!(file.write(&[source(0, &[1; 10])]).is_err(), "what was given up is not forgotten");
    assert!(file.detach(true).is_err());
    nodes[0].crash();
    assert!(client.open(b"/other", WRITE | CREATE).is_err());
}

#[test]
fn seats_move_to_another_node_with_everything_that_is_kept() {
    let (_world, nodes) = nodes(2);
    let client = Client::new(Settings { patience: Duration::from_secs(3), ..settings(&nodes) }, None);
    let file = open(&client, READ | WRITE);
    let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
    file.write(&[source(0, &bytes[..500_000])]).unwrap();
    nodes[1].make_durable();
    file.write(&[source(500_000, &bytes[500_000..])]).unwrap();
    nodes[1].crash();
    assert!(read(&file, 0, bytes.len()) == bytes);
    file.commit().unwrap();
    file.detach(true).unwrap();
}

#[test]
fn a_commit_that_fails_in_the_background_is_reported_by_finalize() {
    let (_world, nodes) = nodes(2);
    nodes.iter().for_each(|node| node.does.fail_commits.store(true, Ordering::SeqCst));
    let client = Client::new(Settings { acknowledge: Acknowledge::Received, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.commit().unwrap();
    file.detach(true).unwrap();
    let error = client.finalize().unwrap_err();
    assert_eq!(error.failure(), Some(FailureKind::Full));
    assert!(error.to_string().contains("/run/out.dat"), "{error}");
    client.finalize().unwrap();
}

/// Names segments by two checksums and does not compress.
struct PlainReducer;

impl Reducer for PlainReducer {
    fn fingerprint(&self, _: &format::Settings, segment: &[u8]) -> format::Fingerprint {
        let mut name = ZEROS;
        if segment.iter().any(|byte| *byte != 0) {
            name.0[..8].copy_from_slice(&format::checksum(segment).to_le_bytes());
            name.0[31] = 1;
        }
        name
    }

    fn digest(&self, entries: &[format::SegmentEntry]) -> [u8; 32] {
        let bytes: Vec<u8> =
            entries.iter().flat_map(|entry| [&entry.fingerprint.0[..], &entry.bytes.to_le_bytes()].concat()).collect();
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&format::checksum(&bytes).to_le_bytes());
        digest
    }

    fn encode(&self, _: &format::Settings, segments: &[(format::Fingerprint, &[u8])]) -> Vec<format::Block> {
        let block = |(fingerprint, bytes): &(format::Fingerprint, &[u8])| format::Block {
            header: format::BlockHeader {
                kind: format::BlockKind::Data,
                codec: format::CodecId::None,
                cipher: 0,
                level: 0,
                filters: [0; 4],
                key_id: 0,
                group: 0,
                record_length: 0,
                phase: 0,
                segments: 1,
                raw_bytes: bytes.len() as u32,
                stored_bytes: bytes.len() as u32,
                offset: 0,
                checksum: format::checksum(bytes),
            },
            segments: vec![format::SegmentEntry { fingerprint: *fingerprint, bytes: bytes.len() as u32 }],
            payload: bytes.to_vec(),
        };
        segments.iter().map(block).collect()
    }
}

#[test]
fn reduced_here_equal_segments_travel_once_and_zeros_not_at_all() {
    let (_world, nodes) = nodes(1);
    let settings = Settings { reduction: Reduction::Client, ..settings(&nodes) };
    let client = Client::new(settings, Some(Arc::new(PlainReducer)));
    let file = open(&client, READ | WRITE);
    let mut bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 8192) as u8 | 1).collect();
    bytes[400_000..600_000].fill(0);
    file.write(&[source(100, &bytes)]).unwrap();
    nodes[0].break_connections();
    file.write(&[source(2 << 20, &bytes)]).unwrap();
    nodes[0].break_connections();
    file.write(&[source(4 << 20, &bytes)]).unwrap();
    for offset in [100, 2 << 20, 4 << 20] {
        assert!(read(&file, offset, bytes.len()) == bytes);
    }
    let sent = nodes[0].does.written_bytes.load(Ordering::SeqCst);
    assert!(sent < 5 << 19, "{sent} bytes travelled for three times a mebibyte of which a fifth is zeros");
    file.detach(true).unwrap();
}

fn reducing(nodes: &[Arc<Node>]) -> Client {
    let settings = Settings { reduction: Reduction::Client, stripe_bytes: 4 << 20, ..settings(nodes) };
    Client::new(settings, Some(Arc::new(PlainReducer)))
}

/// Segments that all differ, and differ from those of other numbers.
fn distinct(segments: u64, number: u64) -> Vec<u8> {
    (0..segments).flat_map(|at| [1 + number as u8, at as u8].repeat(SEGMENT_BYTES as usize / 2)).collect()
}

#[test]
fn names_are_spelt_out_once_to_a_node_and_again_when_it_has_forgotten() {
    let (_world, nodes) = nodes(1);
    let clients = [reducing(&nodes), reducing(&nodes)];
    let files: Vec<File> = clients.iter().map(|client| open(client, READ | WRITE)).collect();
    let (many, few) = (distinct(100, 0), distinct(7, 1));
    let spelt_out = |file: usize, offset: u64, bytes: &[u8]| {
        let before = nodes[0].does.offered_names.load(Ordering::SeqCst);
        files[file].write(&[source(offset, bytes)]).unwrap();
        nodes[0].does.offered_names.load(Ordering::SeqCst) - before
    };
    assert_eq!(spelt_out(0, 0, &many), 100);
    assert_eq!(spelt_out(1, 1 << 20, &many), 0);
    assert_eq!(spelt_out(0, 2 << 20, &many), 0);
    assert_eq!((spelt_out(0, 3 << 20, &few), spelt_out(1, 4 << 20, &few)), (7, 7), "few are offered at once");
    nodes[0].make_durable();
    clients.iter().for_each(wait_until_nothing_is_kept);
    nodes[0].crash();
    nodes[0].revive();
    assert_eq!(spelt_out(1, 5 << 20, &many), 100);
    assert_eq!(spelt_out(0, 6 << 20, &many), 0);
    for offset in [0, 1 << 20, 2 << 20, 5 << 20, 6 << 20] {
        assert!(read(&files[0], offset, many.len()) == many, "at {offset}");
    }
}

/// Clients write slots with one of a few contents each where only they write, while connections break and nodes die.
fn history_of_equal_slots(seed: u64, node_count: usize) {
    println!("seed {seed}");
    const CLIENTS: u64 = 3;
    const SEGMENTS: u64 = 10;
    const SLOTS: u64 = 8;
    let slot_bytes = SEGMENTS * SEGMENT_BYTES as u64;
    let (_world, nodes) = nodes(node_count);
    let settings = Settings {
        reduction: Reduction::Client,
        stripe_bytes: 2 * slot_bytes,
        patience: Duration::from_secs(5),
        ..settings(&nodes)
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|writer| {
                let (settings, nodes) = (settings.clone(), &nodes);
                scope.spawn(move || {
                    let client = Client::new(settings, Some(Arc::new(PlainReducer)));
                    let file = open(&client, if writer == 0 { READ | WRITE } else { WRITE });
                    let mut random = Random(seed * 1000 + writer + 1);
                    let mut mine = [None; SLOTS as usize];
                    for round in 0..150 {
                        let (slot, content) = (random.below(SLOTS), random.below(4));
                        mine[slot as usize] = Some(content);
                        let bytes = distinct(SEGMENTS, content);
                        file.write(&[source((slot * CLIENTS + writer) * slot_bytes, &bytes)]).unwrap();
                        if random.below(5) == 0 {
                            file.flush().unwrap();
                        }
                        if round == 0 {
                            nodes.iter().for_each(|node| node.break_connections());
                        }
                        std::thread::sleep(Duration::from_micros(random.below(3000)));
                    }
                    file.flush().unwrap();
                    (client, file, mine)
                })
            })
            .collect();
        let trouble = scope.spawn(|| {
            let mut random = Random(seed + 77);
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10 + random.below(50)));
                let node = &nodes[random.below(nodes.len() as u64) as usize];
                match random.below(4) {
                    0 | 1 => node.break_connections(),
                    2 => node.make_durable(),
                    _ => {
                        node.crash();
                        std::thread::sleep(Duration::from_millis(random.below(60)));
                        node.revive();
                    }
                }
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::SeqCst);
        trouble.join().unwrap();
        ended.iter().for_each(|(_, file, _)| file.flush().unwrap());
        for (writer, (_, _, mine)) in ended.iter().enumerate() {
            for (slot, content) in mine.iter().enumerate().filter_map(|(slot, content)| Some((slot, (*content)?))) {
                let offset = (slot as u64 * CLIENTS + writer as u64) * slot_bytes;
                let seen = read(&ended[0].1, offset, slot_bytes as usize);
                assert!(seen == distinct(SEGMENTS, content), "seed {seed}: slot {slot} of client {writer}");
            }
        }
        ended.into_iter().for_each(|(_, file, _)| file.detach(false).unwrap());
    });
}

#[test]
fn recalled_names_survive_broken_connections_and_nodes_that_forget() {
    (1..=4).for_each(|seed| history_of_equal_slots(seed, 1 + seed as usize % 2));
}

#[test]
fn settled_frames_leave_the_window() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &vec![1; 3 << 20])]).unwrap();
    let epoch = file.settle().unwrap();
    assert_eq!(epoch, 2);
    file.set_epoch(epoch).unwrap();
    wait_until_nothing_is_kept(&client);
    assert_eq!(file.settle().unwrap(), 3);
    file.detach(true).unwrap();
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
        file.detach(true).unwrap();
        assert_eq!(read(&other, 0, 200), [round; 200]);
        other.detach(true).unwrap();
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
    files.into_iter().for_each(|file| file.detach(false).unwrap());
}

#[test]
fn an_unknown_name_and_wrong_flags_are_told_apart() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(settings(&nodes), None);
    let error = client.delete(b"/nothing").unwrap_err();
    assert!(matches!(&error, OpenError::Transfer(error) if error.failure() == Some(FailureKind::NotFound)), "{error}");
    let file = open(&client, READ);
    assert!(matches!(file.write(&[source(0, b"x")]), Err(Error::Refused(_))));
    assert!(matches!(client.open(b"/a", 0), Err(OpenError::Transfer(Error::Refused(_)))));
    file.detach(true).unwrap();
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

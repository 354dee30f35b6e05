//! Histories from a seed: clients write at random while connections break and nodes die, and every byte survives.

use std::sync::atomic::AtomicBool;

use random::Random;

use super::reducing::{distinct, reducing};
use super::*;

const CLIENTS: u64 = 3;
/// As by default: a part of it is the time for which a new node process waits for the frames that clients keep.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The faults while clients write.
struct Disturbance {
    /// Between two events at least this long, and seven times as long at most (ms).
    pause_ms: u64,
    /// Whether nodes die, with all that is not durable.
    crashes: bool,
}

impl Disturbance {
    /// Has [`CLIENTS`] write at once amid it; returns each one's result, when the faults are over and all is flushed.
    fn amid<T: Send>(
        &self,
        nodes: &[Arc<Node>],
        seed: u64,
        write: impl Fn(u64, &mut Random) -> (Client, File, T) + Sync,
    ) -> Vec<(Client, File, T)> {
        let done = AtomicBool::new(false);
        let written: Vec<_> = std::thread::scope(|scope| {
            let write = &write;
            let start = |writer| scope.spawn(move || write(writer, &mut Random::new(seed * 1000 + writer + 1)));
            let writers: Vec<_> = (0..CLIENTS).map(start).collect();
            let trouble = scope.spawn(|| self.make(nodes, seed + 77, &done));
            // The faults end before a writer's panic propagates, which would wait for ever.
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            done.store(true, Ordering::SeqCst);
            trouble.join().unwrap();
            written.into_iter().map(|written| written.unwrap()).collect()
        });
        written.iter().for_each(|(_, file, _)| file.flush().unwrap());
        written
    }

    fn make(&self, nodes: &[Arc<Node>], seed: u64, done: &AtomicBool) {
        let mut random = Random::new(seed);
        while !done.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(self.pause_ms + random.below(6 * self.pause_ms)));
            let node = &nodes[random.below(nodes.len() as u64) as usize];
            match random.below(if self.crashes { 4 } else { 2 }) {
                0 | 2 => node.break_connections(),
                1 => node.make_durable(),
                _ => {
                    node.crash();
                    std::thread::sleep(Duration::from_millis(random.below(60)));
                    node.revive();
                }
            }
        }
    }
}

/// Returns the open flags: the first client reads what it wrote too.
fn flags(writer: u64) -> u32 {
    if writer == 0 { READ | WRITE } else { WRITE }
}

const BLOCK_BYTES: u64 = 3000;
const BLOCKS: u64 = 400;

/// Clients write parts of their own blocks, again and again.
fn history_of_blocks(seed: u64, node_count: usize, crashes: bool) {
    println!("seed {seed}");
    let (_world, nodes) = nodes(node_count);
    nodes.iter().for_each(|node| node.does.split.store(seed.is_multiple_of(2), Ordering::SeqCst));
    let settings = Settings { timeout: TIMEOUT, ..settings(&nodes) };
    let written = Disturbance { pause_ms: 20, crashes }.amid(&nodes, seed, |writer, random| {
        let client = Client::new(settings.clone(), None);
        let file = open(&client, flags(writer));
        let mine = write_blocks(&file, writer, random);
        (client, file, mine)
    });
    let mut expected = vec![0; (BLOCKS * BLOCK_BYTES) as usize];
    for (writer, (_, _, mine)) in written.iter().enumerate() {
        for block in (writer..BLOCKS as usize).step_by(CLIENTS as usize) {
            let range = block * BLOCK_BYTES as usize..(block + 1) * BLOCK_BYTES as usize;
            expected[range.clone()].copy_from_slice(&mine[range]);
        }
    }
    let all = read(&written[0].1, 0, expected.len());
    let wrong = (0..expected.len()).find(|at| all.get(*at).copied().unwrap_or(0) != expected[*at]);
    assert_eq!(wrong, None, "seed {seed}: a byte is not what was written last");
    let mut at_nodes = Vec::new();
    nodes.iter().for_each(|node| node.bytes(node_count as u64, STRIPE_BYTES, &mut at_nodes));
    assert!(at_nodes[..all.len()] == all, "seed {seed}");
    written.into_iter().for_each(|(_, file, _)| file.detach(0).unwrap());
}

/// Returns the file as this writer alone would have it.
fn write_blocks(file: &File, writer: u64, random: &mut Random) -> Vec<u8> {
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
            assert!(read(file, offset, bytes.len()) == bytes, "round {round} does not see its own write");
        }
        if round % 50 == 0 {
            file.flush().unwrap();
        }
        std::thread::sleep(Duration::from_micros(random.below(1500)));
    }
    file.flush().unwrap();
    mine
}

#[test]
fn writes_survive_broken_connections() {
    (1..=3).for_each(|seed| history_of_blocks(seed, 1 + seed as usize % 2, false));
}

#[test]
fn writes_survive_nodes_that_forget_what_was_not_durable() {
    (11..=13).for_each(|seed| history_of_blocks(seed, 1 + seed as usize % 2, true));
}

const SLOTS: u64 = 8;
const SLOT_SEGMENTS: u64 = 10;
const SLOT_BYTES: u64 = SLOT_SEGMENTS * SEGMENT_BYTES as u64;

/// Clients write slots with one of a few contents each where only they write.
fn history_of_equal_slots(seed: u64, node_count: usize) {
    println!("seed {seed}");
    let (_world, nodes) = nodes(node_count);
    let settings = Settings { stripe_bytes: 2 * SLOT_BYTES, timeout: TIMEOUT, ..settings(&nodes) };
    let written = Disturbance { pause_ms: 10, crashes: true }.amid(&nodes, seed, |writer, random| {
        let client = reducing(settings.clone());
        let file = open(&client, flags(writer));
        let mine = write_slots(&nodes, &file, writer, random);
        (client, file, mine)
    });
    for (writer, (_, _, mine)) in written.iter().enumerate() {
        for (slot, content) in mine.iter().enumerate().filter_map(|(slot, content)| Some((slot, (*content)?))) {
            let offset = (slot as u64 * CLIENTS + writer as u64) * SLOT_BYTES;
            let seen = read(&written[0].1, offset, SLOT_BYTES as usize);
            assert!(seen == distinct(SLOT_SEGMENTS, content), "seed {seed}: slot {slot} of client {writer}");
        }
    }
    written.into_iter().for_each(|(_, file, _)| file.detach(0).unwrap());
}

/// Returns the content of each slot of this writer's.
fn write_slots(nodes: &[Arc<Node>], file: &File, writer: u64, random: &mut Random) -> [Option<u64>; SLOTS as usize] {
    let mut mine = [None; SLOTS as usize];
    for round in 0..150 {
        let (slot, content) = (random.below(SLOTS), random.below(4));
        mine[slot as usize] = Some(content);
        let bytes = distinct(SLOT_SEGMENTS, content);
        file.write(&[source((slot * CLIENTS + writer) * SLOT_BYTES, &bytes)]).unwrap();
        if random.below(5) == 0 {
            file.flush().unwrap();
        }
        if round == 0 {
            nodes.iter().for_each(|node| node.break_connections());
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    }
    file.flush().unwrap();
    mine
}

#[test]
fn digest_offers_survive_broken_connections_and_nodes_that_forget() {
    (1..=4).for_each(|seed| history_of_equal_slots(seed, 1 + seed as usize % 2));
}

//! The suite every [`SegmentStore`] passes. Call [`suite`] from a test of the engine.
//!
//! It makes blocks by hand, not compressed: a store never reads what they hold.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use format::{
    Block, BlockHeader, BlockKind, CodecId, ContainerId, ElementId, Fingerprint, Run, SegmentAddress, SegmentEntry,
    checksum,
};
use random::Random;

use crate::{Answer, ClaimOwner, Error, SegmentStore, StoredBlock};

const ALICE: ClaimOwner = ClaimOwner(1);
const BOB: ClaimOwner = ClaimOwner(2);

/// Long enough to catch a thread that should wait and does not.
const MOMENT: Duration = Duration::from_millis(50);

/// Runs all of it, each test on a new, empty store.
pub fn suite(make: impl Fn() -> Box<dyn SegmentStore>) {
    blocks_come_back_as_they_were_put(&*make());
    a_run_within_blocks_brings_the_blocks_it_touches(&*make());
    runs_come_one_after_another_as_long_as_more_is_wanted(&*make());
    blocks_without_bytes_are_blocks(&*make());
    entries_tell_fingerprints_and_lengths(&*make());
    what_is_stored_is_had_and_what_is_not_is_to_be_sent(&*make());
    equal_fingerprints_in_one_batch_are_sent_once(&*make());
    a_claim_is_seen_by_others_until_it_is_put(&*make());
    who_waits_gets_what_the_other_put(&*make());
    who_waits_for_one_that_gave_up_sends_itself(&*make());
    durable_segments_are_still_there(&*make());
    unknown_addresses_are_not_found(&*make());
    many_threads_put_and_get(&*make());
}

/// Returns a fingerprint for a number; different numbers, different fingerprints.
pub fn fingerprint(number: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let mixed = (number ^ (at as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&(mixed ^ mixed >> 29).to_le_bytes());
    }
    bytes[24..].copy_from_slice(&number.to_le_bytes());
    Fingerprint(bytes)
}

/// Returns the bytes of segment `number` in these tests.
pub fn content(number: u64, bytes: usize) -> Vec<u8> {
    Random::new(number).bytes(bytes)
}

/// Returns a block of segments, given as number and length.
pub fn block(segments: &[(u64, usize)]) -> Block {
    let payload: Vec<u8> = segments.iter().flat_map(|&(number, bytes)| content(number, bytes)).collect();
    let entry = |&(number, bytes)| SegmentEntry { fingerprint: fingerprint(number), bytes: bytes as u32 };
    let header = BlockHeader {
        kind: BlockKind::Data,
        codec: CodecId::None,
        cipher: 0,
        level: 0,
        filters: [0; 4],
        key_id: 0,
        group: 0,
        record_length: 0,
        phase: 0,
        element: ElementId::U8,
        segments: segments.len() as u32,
        raw_bytes: payload.len() as u32,
        stored_bytes: payload.len() as u32,
        offset: 0,
        checksum: checksum(&payload),
    };
    Block { header, segments: segments.iter().map(entry).collect(), payload }
}

/// Returns the stored bytes of one segment of a block that is not compressed; panics when the address is not in it.
pub fn segment_in(placed: &StoredBlock, address: SegmentAddress) -> (SegmentEntry, Vec<u8>) {
    let mut offset = 0;
    for (entry, found) in placed.block.segments.iter().zip(placed.addresses()) {
        let end = offset + entry.bytes as usize;
        if found == address {
            return (*entry, placed.block.payload[offset..end].to_vec());
        }
        offset = end;
    }
    panic!("{address} is not in the block");
}

fn blocks_come_back_as_they_were_put(store: &dyn SegmentStore) {
    let blocks = [block(&[(1, 10), (2, 0), (3, 500)]), block(&[(4, 1)])];
    for block in &blocks {
        let run = store.put(ALICE, block).unwrap();
        let found = store.get(run).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].block, *block);
        assert!(found[0].addresses().eq(run.addresses()));
        found[0].block.check().unwrap();
    }
}

fn a_run_within_blocks_brings_the_blocks_it_touches(store: &dyn SegmentStore) {
    let blocks: Vec<Block> = (0..5).map(|at| block(&[(3 * at, 7), (3 * at + 1, 8), (3 * at + 2, 9)])).collect();
    let runs: Vec<Run> = blocks.iter().map(|block| store.put(ALICE, block).unwrap()).collect();
    let Some(together) = runs.windows(3).find(|three| {
        three.windows(2).all(|two| two[0].container == two[1].container && two[0].first + 3 == two[1].first)
    }) else {
        return;
    };
    let run = Run { container: together[0].container, first: together[0].first + 2, count: 5 };
    let found = store.get(run).unwrap();
    let held: Vec<SegmentAddress> = found.iter().flat_map(|placed| placed.addresses()).collect();
    assert_eq!(found.len(), 3);
    assert!(run.addresses().all(|address| held.iter().filter(|held| **held == address).count() == 1));
}

fn runs_come_one_after_another_as_long_as_more_is_wanted(store: &dyn SegmentStore) {
    let blocks: Vec<Block> = (0..6).map(|number| block(&[(number, 300)])).collect();
    let runs: Vec<Run> = blocks.iter().map(|block| store.put(ALICE, block).unwrap()).collect();
    let taken = |runs: &[Run], most: usize| {
        let mut taken = Vec::new();
        let ended = store.get_each(runs, &mut |found| {
            taken.extend(found.into_iter().map(|placed| placed.block));
            taken.len() < most
        });
        (taken, ended)
    };
    for most in [1, 2, 6, 7] {
        let (found, ended) = taken(&runs, most);
        assert!(ended.is_ok() && found == blocks[..most.min(6)], "{ended:?}");
    }
    let nowhere = Run { container: ContainerId(9_999), first: 0, count: 1 };
    let (found, ended) = taken(&[runs[3], runs[1], nowhere, runs[2]], 6);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(found, [3, 1, 2].map(|number: usize| blocks[number].clone()));
}

fn blocks_without_bytes_are_blocks(store: &dyn SegmentStore) {
    let first = store.put(ALICE, &block(&[(1, 0)])).unwrap();
    let second = store.put(ALICE, &block(&[(2, 9)])).unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(first).unwrap()[0].block, block(&[(1, 0)]));
        if first.container == second.container && second.first == first.first + 1 {
            let found = store.get(Run { count: 2, ..first }).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!(found[1].block, block(&[(2, 9)]));
        }
        store.make_durable().unwrap();
    }
}

fn entries_tell_fingerprints_and_lengths(store: &dyn SegmentStore) {
    let block = block(&[(1, 10), (2, 20), (3, 30)]);
    let run = store.put(ALICE, &block).unwrap();
    assert_eq!(store.entries(run).unwrap(), block.segments);
    let some = Run { first: run.first + 1, count: 1, ..run };
    assert_eq!(store.entries(some).unwrap(), block.segments[1..2]);
    store.make_durable().unwrap();
    assert_eq!(store.entries(run).unwrap(), block.segments);
    assert!(store.entries(Run { count: 0, ..run }).unwrap().is_empty());
}

fn what_is_stored_is_had_and_what_is_not_is_to_be_sent(store: &dyn SegmentStore) {
    let asked = [fingerprint(1), fingerprint(2)];
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Send, Answer::Send]);
    let run = store.put(ALICE, &block(&[(1, 10)])).unwrap();
    let had = Answer::Have(SegmentAddress::new(run.container, run.first));
    assert_eq!(store.missing(BOB, &asked).unwrap(), [had, Answer::Claimed]);
    store.make_durable().unwrap();
    assert_eq!(store.missing(BOB, &asked[..1]).unwrap(), [had]);
}

fn equal_fingerprints_in_one_batch_are_sent_once(store: &dyn SegmentStore) {
    let asked = [fingerprint(7), fingerprint(8), fingerprint(7)];
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Send, Answer::Send, Answer::Claimed]);
    let run = store.put(ALICE, &block(&[(7, 5), (8, 5)])).unwrap();
    let addresses: Vec<Answer> =
        [0, 1, 0].map(|at| Answer::Have(SegmentAddress::new(run.container, run.first + at))).to_vec();
    assert_eq!(store.await_claims(ALICE, &asked).unwrap(), addresses);
}

fn a_claim_is_seen_by_others_until_it_is_put(store: &dyn SegmentStore) {
    let asked = [fingerprint(1)];
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Send]);
    assert_eq!(store.missing(BOB, &asked).unwrap(), [Answer::Claimed]);
    let own = store.await_claims(ALICE, &asked).unwrap();
    assert_eq!(own, [Answer::Claimed], "no owner waits for itself");
    let run = store.put(ALICE, &block(&[(1, 10)])).unwrap();
    let had = Answer::Have(SegmentAddress::new(run.container, run.first));
    assert_eq!(store.missing(BOB, &asked).unwrap(), [had]);
}

fn who_waits_gets_what_the_other_put(store: &dyn SegmentStore) {
    let asked = [fingerprint(1), fingerprint(2)];
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Send, Answer::Send]);
    thread::scope(|threads| {
        let (done, answered) = mpsc::channel();
        threads.spawn(move || done.send(store.await_claims(BOB, &asked)).unwrap());
        assert!(answered.recv_timeout(MOMENT).is_err(), "Bob must wait for both");
        store.put(ALICE, &block(&[(1, 10)])).unwrap();
        assert!(answered.recv_timeout(MOMENT).is_err(), "Bob must wait for the second");
        let run = store.put(ALICE, &block(&[(2, 10)])).unwrap();
        let answers = answered.recv().unwrap().unwrap();
        assert!(matches!(answers[0], Answer::Have(_)));
        assert_eq!(answers[1], Answer::Have(SegmentAddress::new(run.container, run.first)));
    });
}

fn who_waits_for_one_that_gave_up_sends_itself(store: &dyn SegmentStore) {
    let asked = [fingerprint(1)];
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Send]);
    thread::scope(|threads| {
        let (done, answered) = mpsc::channel();
        threads.spawn(move || done.send(store.await_claims(BOB, &asked)).unwrap());
        assert!(answered.recv_timeout(MOMENT).is_err());
        store.release(ALICE);
        assert_eq!(answered.recv().unwrap().unwrap(), [Answer::Send]);
    });
    assert_eq!(store.missing(ALICE, &asked).unwrap(), [Answer::Claimed], "it is Bob's now");
}

fn durable_segments_are_still_there(store: &dyn SegmentStore) {
    let first = store.put(ALICE, &block(&[(1, 10), (2, 3000)])).unwrap();
    store.make_durable().unwrap();
    let second = store.put(ALICE, &block(&[(3, 10)])).unwrap();
    store.make_durable().unwrap();
    store.make_durable().unwrap();
    for (run, numbers) in [(first, vec![(1, 10), (2, 3000)]), (second, vec![(3, 10)])] {
        assert_eq!(store.get(run).unwrap()[0].block, block(&numbers));
    }
}

fn unknown_addresses_are_not_found(store: &dyn SegmentStore) {
    let nowhere = Run { container: ContainerId(0x77_7777), first: 0, count: 1 };
    assert!(matches!(store.get(nowhere), Err(Error::NotFound { .. })));
    assert!(matches!(store.entries(nowhere), Err(Error::NotFound { .. })));
    let run = store.put(ALICE, &block(&[(1, 10)])).unwrap();
    for run in
        [Run { first: run.first + 1, ..run }, Run { count: 2, ..run }, Run { count: u32::MAX - run.first, ..run }]
    {
        assert!(matches!(store.get(run), Err(Error::NotFound { .. })));
        store.make_durable().unwrap();
        assert!(matches!(store.entries(run), Err(Error::NotFound { .. })));
    }
}

fn many_threads_put_and_get(store: &dyn SegmentStore) {
    const THREADS: u64 = 4;
    const BLOCKS: u64 = 100;
    thread::scope(|threads| {
        for worker in 0..THREADS {
            threads.spawn(move || {
                let claim_owner = ClaimOwner(10 + worker);
                for round in 0..BLOCKS {
                    // Every other segment is one all threads have.
                    let numbers = [worker * BLOCKS + round + 1000, round];
                    let asked = numbers.map(fingerprint);
                    let answers = store.missing(claim_owner, &asked).unwrap();
                    for (number, answer) in numbers.iter().zip(&answers) {
                        if *answer == Answer::Send {
                            store.put(claim_owner, &block(&[(*number, 700)])).unwrap();
                        }
                    }
                    for (number, answer) in numbers.iter().zip(store.await_claims(claim_owner, &asked).unwrap()) {
                        let Answer::Have(address) = answer else { panic!("{number} was put or awaited: {answer:?}") };
                        let found = store.get(Run::single(address)).unwrap();
                        assert_eq!(segment_in(&found[0], address).1, content(*number, 700));
                    }
                    if round % 20 == 19 {
                        store.make_durable().unwrap();
                    }
                }
            });
        }
    });
    let shared: Vec<Fingerprint> = (0..BLOCKS).map(fingerprint).collect();
    let answers = store.missing(ALICE, &shared).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Have(_))));
}

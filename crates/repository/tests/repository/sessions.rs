//! Sessions of paths: pieces in, checkpoints, versions out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use format::{Attributes, Change};
use random::Random;
use repository::{
    Budget, CommitEntry, DurableUpTo, FileWriter, Repository, Source, StripeOwner, WriteMode, WriteOrigin, publish,
};

use crate::fixture::{CLAIM_OWNER, KEY, SEGMENT_BYTES, STRIPE_BYTES, World, content, owner, path, with_seeds};

fn arrival(sequence: u64) -> WriteOrigin {
    WriteOrigin { source: Source { client: 1, stream: 0 }, sequence, stamp: 0 }
}

#[test]
fn what_is_written_is_read_before_and_after_the_commit() {
    let world = World::new();
    let node = world.process();
    let session = world.join("run/out", 1);
    let owner = owner(&node, session.id, 0, 1);
    let bytes: Vec<u8> = (0..5000u32).map(|i| (i % 251) as u8).collect();
    owner.write(arrival(1), &[(100, 5000)], bytes.clone()).unwrap();
    let mut read = vec![1; 5200];
    assert_eq!(owner.read(0, &mut read).unwrap(), 5100);
    assert_eq!((&read[..100], &read[100..5100], &read[5100..]), (&[0; 100][..], &bytes[..], &[0; 100][..]));
    let durable = DurableUpTo { source: arrival(1).source, sequence: 1, held: vec![] };
    assert_eq!(owner.checkpoint(CLAIM_OWNER, true, None).unwrap(), [durable]);
    let mut again = vec![1; 5200];
    owner.read(0, &mut again).unwrap();
    assert_eq!(again, read);
    let published = publish(&node, CLAIM_OWNER, session.id, 5).unwrap().unwrap();
    let made = node.catalog().entry(&path("run")).unwrap().unwrap().attributes;
    assert_eq!(made.times.modified, format::FileTime::from_ns(5), "a directory has the time of its making");
    assert_eq!((published.version, published.size), (1, 5100));
    assert_eq!(content(&node, "run/out"), read[..5100]);
}

#[test]
fn interleaved_pieces_of_many_become_one_segment_each() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1);
    let owner = owner(&node, session.id, 0, 1);
    let mut random = Random::new(3);
    let segments = 16;
    let all: Vec<u8> = (0..segments * SEGMENT_BYTES).map(|_| random.next() as u8).collect();
    for rank in 0..4u64 {
        let pieces: Vec<(u64, u64)> = (0..all.len() as u64).step_by(160).map(|at| (at + rank * 40, 40)).collect();
        let pieces: Vec<_> = pieces.into_iter().filter(|(at, _)| *at < all.len() as u64).collect();
        let pieces: Vec<_> = pieces.iter().map(|(at, bytes)| (*at, (*bytes).min(all.len() as u64 - at))).collect();
        let payload = pieces.iter().flat_map(|(at, bytes)| all[*at as usize..(at + bytes) as usize].to_vec()).collect();
        let source = Source { client: rank, stream: 0 };
        owner.write(WriteOrigin { source, sequence: 1, stamp: 0 }, &pieces, payload).unwrap();
    }
    owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    publish(&node, CLAIM_OWNER, session.id, 5).unwrap();
    assert_eq!(content(&node, "out"), all);
    let figures = repository::store_statistics(&node).unwrap();
    assert_eq!((figures.segments, figures.unique_segments), (segments as u64, segments as u64));
}

#[test]
fn a_second_session_changes_only_what_it_writes() {
    let world = World::new();
    let node = world.process();
    for round in 0..3u8 {
        let session = world.join("out", 1);
        let owner = owner(&node, session.id, 0, 1);
        let at = round as u64 * 700;
        owner.write(arrival(1), &[(at, 1500)], vec![round + 1; 1500]).unwrap();
        owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
        publish(&node, CLAIM_OWNER, session.id, 5).unwrap();
        node.local_catalog().unwrap().leave(session.id, &KEY).unwrap();
    }
    let bytes = content(&node, "out");
    let expected: Vec<u8> = (0..2900)
        .map(|i| {
            if i < 700 {
                1
            } else if i < 1400 {
                2
            } else {
                3
            }
        })
        .collect();
    assert_eq!(bytes, expected);
    assert_eq!(node.catalog().versions(&crate::fixture::path("out")).unwrap().len(), 3);
}

/// Every other segment of a file, so that its manifest is too long to stand in the catalog.
const SCATTERED: u64 = 400;

fn write_scattered(world: &World, node: &Arc<Repository>, first: u64, byte: u8) -> catalog::PathSession {
    let session = world.join("out", 1);
    let owner = owner(node, session.id, 0, 1);
    for piece in 0..SCATTERED {
        let (at, count) = ((first + piece * 2) * SEGMENT_BYTES as u64, SEGMENT_BYTES as u64);
        owner.write(arrival(piece + 1), &[(at, count)], vec![byte; count as usize]).unwrap();
    }
    owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    session
}

#[test]
fn a_commit_is_never_laid_over_a_file_that_had_the_name_before() {
    let world = World::new();
    let node = world.process();
    let first = write_scattered(&world, &node, 0, 1);
    assert_eq!(publish(&node, CLAIM_OWNER, first.id, 5).unwrap().unwrap().version, 1);
    node.local_catalog().unwrap().leave(first.id, &KEY).unwrap();
    let second = write_scattered(&world, &node, 1, 2);
    // While the second is laid over version 1, another file gets the name that has a version 1 too.
    let (other, happened) = (node.clone(), Arc::new(AtomicBool::new(false)));
    let once = happened.clone();
    let committer = world.process_that(Box::new(move || {
        if !once.swap(true, Ordering::SeqCst) {
            put(&other, "beside", &[9; 5000]);
            let rename = Change::Rename { from: path("beside"), to: path("out") };
            other.commit(CLAIM_OWNER, vec![rename], Default::default(), Vec::new()).unwrap();
        }
    }));
    assert_eq!(publish(&committer, CLAIM_OWNER, second.id, 6).unwrap().unwrap().version, 2);
    assert!(happened.load(Ordering::SeqCst), "nothing came in between");
    let mut expected = vec![0; 2 * SCATTERED as usize * SEGMENT_BYTES as usize];
    expected[..5000].fill(9);
    expected.chunks_mut(SEGMENT_BYTES as usize).skip(1).step_by(2).for_each(|segment| segment.fill(2));
    let found = content(&node, "out");
    let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(
        (found.len(), differs),
        (expected.len(), None),
        "what the new file holds, and the session's pieces over it"
    );
}

fn put(node: &Arc<Repository>, text: &str, bytes: &[u8]) {
    let mut writer = FileWriter::new(node.clone(), CLAIM_OWNER);
    writer.write(bytes).unwrap();
    let (attributes, mode) = (Attributes::default(), WriteMode::Replace);
    let draft = writer.finish().unwrap();
    node.name(CLAIM_OWNER, &[CommitEntry { path: path(text), attributes, mode, draft }]).unwrap();
}

#[test]
fn a_commit_over_a_shorter_head_ends_where_writes_end() {
    let world = World::new();
    let node = world.process();
    put(&node, "out", &[1; 3000]);
    let session = world.join("out", 2);
    let owners = [owner(&node, session.id, 0, 1), owner(&node, session.id, 1, 2)];
    owners[0].write(arrival(1), &[(100, 400)], vec![2; 400]).unwrap();
    owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
    put(&node, "out", &[3; 50]);
    owners[0].write(arrival(2), &[(500, 100)], vec![4; 100]).unwrap();
    owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
    assert_eq!(publish(&node, CLAIM_OWNER, session.id, 5).unwrap().unwrap().size, 600);
    let expected = [vec![3; 50], vec![0; 50], vec![2; 400], vec![4; 100]].concat();
    assert_eq!(content(&node, "out"), expected);
}

#[test]
fn a_session_whose_name_is_removed_is_read_and_written_on_and_commits_nothing() {
    let world = World::new();
    let node = world.process();
    put(&node, "out", &[1; 3000]);
    let session = world.join("out", 1);
    let owner = owner(&node, session.id, 0, 1);
    let remove = Change::Remove { path: path("out"), recursive: false };
    node.commit(CLAIM_OWNER, vec![remove], Default::default(), Vec::new()).unwrap();
    owner.write(arrival(1), &[(3000, 10)], vec![2; 10]).unwrap();
    owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    let mut read = vec![0; 3010];
    assert_eq!(owner.read(0, &mut read).unwrap(), 3010);
    assert_eq!(read, [vec![1; 3000], vec![2; 10]].concat());
    assert_eq!(publish(&node, CLAIM_OWNER, session.id, 5).unwrap(), None);
    assert_eq!(node.catalog().entry(&path("out")).unwrap(), None);
    let budget = Arc::new(Budget::new(1 << 30));
    let taken = StripeOwner::take(node.clone(), budget, session.id, 0, 2, SEGMENT_BYTES);
    assert!(taken.is_err_and(|error| error.to_string().contains("was removed")));
    node.local_catalog().unwrap().leave(session.id, &KEY).unwrap();
    assert!(
        node.catalog().path_sessions().unwrap().is_empty()
            && node.catalog().checkpoints(session.id).unwrap().is_empty()
    );
}

#[test]
fn a_file_cut_short_and_grown_again_shows_zeros_not_what_was_there() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 2);
    let owners = [owner(&node, session.id, 0, 1), owner(&node, session.id, 1, 2)];
    let span = STRIPE_BYTES as usize;
    owners[0].write(arrival(1), &[(0, STRIPE_BYTES)], vec![1; span]).unwrap();
    owners[1].write(arrival(1), &[(STRIPE_BYTES, STRIPE_BYTES)], vec![2; span]).unwrap();
    for owner in &owners {
        owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
        owner.set_size(500).unwrap();
    }
    owners[1].write(arrival(2), &[(STRIPE_BYTES + 10, 5)], vec![3; 5]).unwrap();
    owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
    publish(&node, CLAIM_OWNER, session.id, 5).unwrap();
    let mut expected = vec![0; span + 15];
    expected[..500].fill(1);
    expected[span + 10..].fill(3);
    assert_eq!(content(&node, "out"), expected);
}

#[test]
fn random_writes_through_many_nodes_equal_a_plain_file() {
    with_seeds(60, |seed| {
        let mut random = Random::new(seed);
        let world = World::new();
        let nodes: Vec<_> = (0..3).map(|_| world.process()).collect();
        let session = world.join("out", nodes.len());
        let owners: Vec<_> = (0..3).map(|i| owner(&nodes[i], session.id, i as u32, i as u64)).collect();
        let mut plain: Vec<u8> = Vec::new();
        let mut sequences = [0u64; 3];
        for _ in 0..random.below(60) + 5 {
            let offset = random.below(20 * SEGMENT_BYTES as u64);
            let count = random.below(6 * SEGMENT_BYTES as u64) as usize + 1;
            let bytes = random.mixed_bytes(count);
            if plain.len() < offset as usize + count {
                plain.resize(offset as usize + count, 0);
            }
            plain[offset as usize..offset as usize + count].copy_from_slice(&bytes);
            write_striped(&owners, &mut sequences, offset, &bytes);
            match random.below(8) {
                0 => drop(owners[random.below(3) as usize].reduce(CLAIM_OWNER).unwrap()),
                1 => {
                    drop(owners[random.below(3) as usize].checkpoint(CLAIM_OWNER, random.below(2) == 0, None).unwrap())
                }
                2 => {
                    let size = random.below(plain.len() as u64 + 2000);
                    plain.resize(size as usize, 0);
                    owners.iter().for_each(|owner| owner.set_size(size).unwrap());
                }
                3 => {
                    let size = owners.iter().map(|owner| owner.size().unwrap()).max().unwrap();
                    assert_eq!(size, plain.len() as u64);
                    let from = random.below(plain.len() as u64);
                    let count = random.below(plain.len() as u64 - from) as usize;
                    assert_eq!(read_striped(&owners, from, count), plain[from as usize..from as usize + count]);
                }
                4 => {
                    owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
                    publish(&nodes[0], CLAIM_OWNER, session.id, 5).unwrap();
                    assert_eq!(content(&nodes[1], "out"), plain);
                }
                _ => {}
            }
        }
        owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
        publish(&nodes[0], CLAIM_OWNER, session.id, 5).unwrap();
        assert_eq!(content(&nodes[2], "out"), plain);
        let verified = repository::verify(&nodes[0], true, &mut |_| {}).unwrap();
        assert_eq!(verified.damages, []);
    });
}

fn stripes(offset: u64, count: usize) -> Vec<(usize, u64, u64)> {
    let (mut at, end) = (offset, offset + count as u64);
    let mut parts = Vec::new();
    while at < end {
        let stripe = at / STRIPE_BYTES;
        let next = ((stripe + 1) * STRIPE_BYTES).min(end);
        parts.push(((stripe % 3) as usize, at, next - at));
        at = next;
    }
    parts
}

fn write_striped(owners: &[repository::StripeOwner], sequences: &mut [u64; 3], offset: u64, bytes: &[u8]) {
    for (owner, at, count) in stripes(offset, bytes.len()) {
        sequences[owner] += 1;
        let from = (at - offset) as usize;
        let payload = bytes[from..from + count as usize].to_vec();
        owners[owner].write(arrival(sequences[owner]), &[(at, count)], payload).unwrap();
    }
}

fn read_striped(owners: &[repository::StripeOwner], offset: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![9; count];
    for (owner, at, part) in stripes(offset, count) {
        let from = (at - offset) as usize;
        owners[owner].read(at, &mut bytes[from..from + part as usize]).unwrap();
    }
    bytes
}

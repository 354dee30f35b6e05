//! One stripe set under impossible input, failures, and content that comes late.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Checkpoint, LocalCatalog};
use format::{Entry, EntryKind, Page, Root, SegmentEntry};
use random::Random;
use repository::{Budget, Source, StripeOwner, WriteOrigin, publish};

use crate::fixture::{CLAIM_OWNER, SEGMENT_BYTES, STRIPE_BYTES, World, content, owner};

const SEGMENT: u64 = SEGMENT_BYTES as u64;
const OTHER: Source = Source { client: 2, stream: 0 };

fn arrival(sequence: u64) -> WriteOrigin {
    WriteOrigin { source: Source { client: 1, stream: 0 }, sequence, stamp: 0 }
}

fn again(sequence: u64, stamp: u64) -> WriteOrigin {
    WriteOrigin { stamp, ..arrival(sequence) }
}

fn all_of(owner: &StripeOwner, bytes: usize) -> Vec<u8> {
    let mut read = vec![0xee; bytes];
    owner.read(0, &mut read).unwrap();
    read
}

/// The segment as an offer names it, with its place in the node's store.
fn stored(
    owner: &StripeOwner,
    node: &repository::Repository,
    bytes: &[u8],
) -> (SegmentEntry, Option<format::SegmentAddress>) {
    let fingerprint = segment::fingerprint(node.settings.fingerprint, bytes);
    let entry = SegmentEntry { fingerprint, bytes: bytes.len() as u32 };
    // Written elsewhere in the file, so that the store has it.
    let far = WriteOrigin { source: Source { client: 99, stream: 0 }, sequence: fingerprint.0[0] as u64 + 1, stamp: 0 };
    owner.write(far, &[(64 * SEGMENT, bytes.len() as u64)], bytes.to_vec()).unwrap();
    while owner.reduce(CLAIM_OWNER).unwrap() {}
    let answer = node.store().missing(CLAIM_OWNER, &[fingerprint]).unwrap()[0];
    let store::Answer::Have(address) = answer else { panic!("{answer:?}") };
    (entry, Some(address))
}

#[test]
fn reads_that_end_near_the_end_of_numbers_are_answered() {
    let world = World::new();
    let node = world.process();
    let owner = owner(&node, world.join("out", 1).id, 0, 1);
    owner.write(arrival(1), &[(0, 5)], b"hello".to_vec()).unwrap();
    for offset in [u64::MAX, u64::MAX - 1, u64::MAX - 10, u64::MAX - SEGMENT, 1 << 63, 1 << 62, (1 << 62) - 4] {
        let mut into = vec![7; 64];
        assert_eq!(owner.read(offset, &mut into).unwrap(), 5, "{offset}");
        assert_eq!(into, [0; 64]);
    }
    assert_eq!(all_of(&owner, 5), b"hello");
}

#[test]
fn stamps_and_sequences_that_were_never_given_are_refused() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let owner = owner(&node, session, 0, 1);
    let given = owner.write(arrival(1), &[(0, 4)], vec![1; 4]).unwrap();
    for stamp in [u64::MAX, given + 1, given + (1 << 40), 1 << 63, 1, (1 << 40) - 1, 1 << 40] {
        let sent = WriteOrigin { source: OTHER, sequence: 1, stamp };
        assert!(owner.write(sent, &[(0, 4)], vec![2; 4]).is_err(), "{stamp:#x}");
        assert!(owner.offered(sent, &[0]).is_err(), "{stamp:#x}");
    }
    for sequence in [0, u64::MAX, 1 << 62] {
        assert!(owner.write(arrival(sequence), &[(0, 4)], vec![2; 4]).is_err(), "{sequence}");
        assert!(owner.offered(arrival(sequence), &[0]).is_err(), "{sequence}");
    }
    assert!(owner.offered(arrival(2), &[SEGMENT / 2]).is_err());
    assert!(owner.offered(arrival(2), &[u64::MAX - SEGMENT + 1]).is_err());
    assert!(owner.write(arrival(2), &[(u64::MAX - 2, 4)], vec![2; 4]).is_err());
    assert!(owner.set_size(u64::MAX).is_err());
    owner.write(arrival(2), &[(4, 4)], vec![3; 4]).unwrap();
    let durable = owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    assert_eq!((durable.len(), durable[0].sequence), (1, 2));
    assert_eq!(all_of(&owner, 8), [1, 1, 1, 1, 3, 3, 3, 3]);
}

#[test]
fn extents_of_other_nodes_stripes_are_refused() {
    let world = World::new();
    let node = world.process();
    let owner = owner(&node, world.join("out", 2).id, 1, 1);
    let bytes = |count: u64| vec![1; count as usize];
    assert!(owner.write(arrival(1), &[(0, 4)], bytes(4)).is_err());
    assert!(owner.write(arrival(1), &[(2 * STRIPE_BYTES - 2, 4)], bytes(4)).is_err());
    assert!(owner.offered(arrival(1), &[2 * STRIPE_BYTES]).is_err());
    owner.write(arrival(1), &[(STRIPE_BYTES, STRIPE_BYTES)], bytes(STRIPE_BYTES)).unwrap();
}

#[test]
fn a_petabyte_cut_off_costs_one_interval_in_owner_checkpoint_and_version() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 2);
    let owners: Vec<StripeOwner> = (0..2).map(|i| owner(&node, session.id, i, i as u64)).collect();
    owners[1].write(arrival(1), &[(STRIPE_BYTES, 8)], vec![5; 8]).unwrap();
    let begun = Instant::now();
    for owner in &owners {
        owner.set_size(1 << 50).unwrap();
        owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
        owner.set_size(STRIPE_BYTES + 4).unwrap();
        owner.set_size(1 << 50).unwrap();
    }
    owners[0].write(arrival(1), &[(2 * STRIPE_BYTES, 4)], vec![6; 4]).unwrap();
    owners.iter().for_each(|owner| drop(owner.checkpoint(CLAIM_OWNER, true, None).unwrap()));
    let published = publish(&node, CLAIM_OWNER, session.id, 5).unwrap().unwrap();
    assert_eq!(published.size, 1 << 50);
    let head = node.catalog().entry(&published.path).unwrap().unwrap().head.unwrap().record;
    let mut bytes = vec![9; 3 * STRIPE_BYTES as usize];
    node.reader(&head.root, head.size).read_at(0, &mut bytes).unwrap();
    let mut expected = vec![0; 3 * STRIPE_BYTES as usize];
    expected[STRIPE_BYTES as usize..][..4].fill(5);
    expected[2 * STRIPE_BYTES as usize..][..4].fill(6);
    assert!(bytes == expected);
    // Taken again, it reads the same.
    let late = world.process();
    let taken = owner(&late, session.id, 1, 9);
    let mut read = vec![9; 8];
    taken.read(STRIPE_BYTES, &mut read).unwrap();
    assert_eq!(read, [5, 5, 5, 5, 0, 0, 0, 0]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn blocks_cover_what_came_before_their_offer_and_nothing_later() {
    let world = World::new();
    let node = world.process();
    let owner = owner(&node, world.join("out", 1).id, 0, 1);
    let new = Random::new(5).bytes(SEGMENT as usize);
    let (entry, address) = stored(&owner, &node, &new);
    owner.write(arrival(1), &[(0, SEGMENT)], vec![1; SEGMENT as usize]).unwrap();
    let (stamp, known) = owner.offered(arrival(2), &[0]).unwrap();
    assert!(!known);
    owner.write(arrival(3), &[(10, 5)], vec![3; 5]).unwrap();
    let epoch = node.lease().epoch();
    owner.supplied(arrival(2), stamp, epoch, &[(0, entry, address)]).unwrap();
    let mut expected = new.clone();
    expected[10..15].fill(3);
    assert!(all_of(&owner, SEGMENT as usize) == expected);
    let durable = owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    assert!(durable.iter().any(|durable| durable.source.client == 1 && durable.sequence == 3));
    assert!(all_of(&owner, SEGMENT as usize) == expected);
}

#[test]
fn an_offer_sent_again_after_a_crash_does_not_cover_what_was_checkpointed_after_it() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let first = owner(&node, session, 0, 1);
    let (entry, address) = stored(&first, &node, &Random::new(5).bytes(SEGMENT as usize));
    let (stamp, _) = first.offered(arrival(1), &[0]).unwrap();
    let later = WriteOrigin { source: OTHER, sequence: 1, stamp: 0 };
    first.write(later, &[(0, SEGMENT)], vec![2; SEGMENT as usize]).unwrap();
    let durable = first.checkpoint(CLAIM_OWNER, true, None).unwrap();
    assert!(durable.iter().any(|durable| durable.source == OTHER && durable.sequence == 1));
    drop(first);
    let second = owner(&node, session, 0, 2);
    let (stamp, _) = second.offered(again(1, stamp), &[0]).unwrap();
    second.supplied(again(1, stamp), stamp, node.lease().epoch(), &[(0, entry, address)]).unwrap();
    assert!(all_of(&second, SEGMENT as usize) == vec![2; SEGMENT as usize]);
}

#[test]
fn blocks_of_something_never_offered_are_refused() {
    let world = World::new();
    let node = world.process();
    let owner = owner(&node, world.join("out", 1).id, 0, 1);
    let (entry, address) = stored(&owner, &node, &Random::new(5).bytes(SEGMENT as usize));
    let epoch = node.lease().epoch();
    assert!(owner.supplied(arrival(1), 1 << 41, epoch, &[(0, entry, address)]).is_err());
    let (stamp, _) = owner.offered(arrival(1), &[0]).unwrap();
    let short = SegmentEntry { bytes: 5, ..entry };
    assert!(owner.supplied(arrival(1), stamp, epoch, &[(0, short, address)]).is_err());
    assert!(owner.supplied(arrival(1), stamp, epoch, &[(u64::MAX - 5, entry, address)]).is_err());
    owner.supplied(arrival(1), stamp, epoch, &[(0, entry, address)]).unwrap();
}

#[test]
fn what_a_cut_leaves_of_a_segment_is_durable_when_its_sender_hears_so() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let first = owner(&node, session, 0, 1);
    first.write(arrival(1), &[(0, SEGMENT)], vec![4; SEGMENT as usize]).unwrap();
    first.set_size(100).unwrap();
    let durable = first.checkpoint(CLAIM_OWNER, false, None).unwrap();
    let is_durable = durable.iter().any(|durable| durable.sequence >= 1 && !durable.held.contains(&1));
    drop(first);
    let second = owner(&node, session, 0, 2);
    assert!(!is_durable || all_of(&second, 100) == [4; 100]);
}

#[test]
fn small_pieces_far_apart_give_their_memory_back_under_pressure() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let limit = 64 * SEGMENT;
    let budget = Arc::new(Budget::new(limit));
    let owner = StripeOwner::take(node.clone(), budget.clone(), session, 0, 1, SEGMENT_BYTES).unwrap();
    for i in 0..200u64 {
        owner.write(arrival(i + 1), &[(i * 3 * SEGMENT, 8)], vec![i as u8; 8]).unwrap();
    }
    assert!(!budget.wait_for_room(Duration::ZERO));
    owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    owner.reduce(CLAIM_OWNER).unwrap();
    assert!(budget.wait_for_room(Duration::ZERO), "{} bytes of {limit} are used", budget.used_bytes());
    let read = all_of(&owner, 600 * SEGMENT as usize);
    assert!((0..200).all(|i| read[i * 3 * SEGMENT as usize..][..8] == [i as u8; 8]));
    owner.write(arrival(201), &[(8, SEGMENT - 8)], vec![1; SEGMENT as usize - 8]).unwrap();
    owner.checkpoint(CLAIM_OWNER, true, None).unwrap();
    publish(&node, CLAIM_OWNER, session, 5).unwrap();
    let bytes = content(&node, "out");
    assert_eq!((&bytes[..8], &bytes[8..16]), (&[0; 8][..], &[1; 8][..]));
    drop(owner);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_stripe_owner_that_failed_answers_every_call_with_its_error_and_frees_its_memory() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let budget = Arc::new(Budget::new(1 << 30));
    let owner = StripeOwner::take(node.clone(), budget.clone(), session, 0, 1, SEGMENT_BYTES).unwrap();
    owner.write(arrival(1), &[(0, 2000)], vec![1; 2000]).unwrap();
    world.catalog.take_stripe_set(session, 0, 2).unwrap();
    let lost = |error: repository::Error| error.to_string();
    let why = lost(owner.checkpoint(CLAIM_OWNER, true, None).unwrap_err());
    assert!(owner.failure().is_some_and(|failure| failure == why));
    assert_eq!(lost(owner.write(arrival(2), &[(0, 1)], vec![1]).unwrap_err()), why);
    assert_eq!(lost(owner.read(0, &mut [0; 8]).unwrap_err()), why);
    assert_eq!(lost(owner.offered(arrival(2), &[0]).unwrap_err()), why);
    assert_eq!(lost(owner.set_size(3).unwrap_err()), why);
    assert_eq!(lost(owner.size().unwrap_err()), why);
    assert_eq!(lost(owner.durable_up_to(arrival(1).source).unwrap_err()), why);
    assert_eq!(lost(owner.checkpoint(CLAIM_OWNER, false, None).unwrap_err()), why);
    assert_eq!((budget.used_bytes(), owner.has_uncheckpointed(), owner.uncheckpointed_bytes()), (0, false, 0));
}

#[test]
fn a_stripe_owner_whose_stamps_would_outgrow_the_protocol_is_refused() {
    const LAST: u64 = (1 << 22) - 1;
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let take = |incarnation| {
        StripeOwner::take(node.clone(), Arc::new(Budget::new(1 << 30)), session, 0, incarnation, SEGMENT_BYTES)
    };
    drop(take(1).unwrap());
    let root = Root::Inline(Page { level: 0, entries: vec![Entry { length: 10, kind: EntryKind::Hole }] }.encode());
    let mut checkpoint = Checkpoint {
        session,
        stripe_set: 0,
        owner: 1,
        number: LAST - 2,
        epoch: 0,
        root,
        size: 10,
        resized: false,
        frontier: Vec::new(),
        stamps: Vec::new(),
    };
    let record = |checkpoint: &Checkpoint| world.catalog.checkpoint(node.lease().session(), checkpoint, &[], u64::MAX);
    record(&checkpoint).unwrap();
    let last = take(2).unwrap();
    let stamp = last.write(arrival(1), &[(0, 4)], vec![1; 4]).unwrap();
    assert!((LAST << 40..1 << 62).contains(&stamp), "{stamp:#x}");
    (checkpoint.owner, checkpoint.number) = (2, LAST);
    record(&checkpoint).unwrap();
    let refused = take(3).map(drop).unwrap_err().to_string();
    assert!(refused.contains("too often") && refused.contains("commit the session"), "{refused}");
}

//! What one seat does with input that cannot be, with failures, and with content that comes late.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Catalog, Checkpoint};
use format::{Entry, EntryKind, Page, Root, SegmentEntry};
use repository::{Arrival, Budget, Seat, Source, publish};

use crate::fixture::{CLAIMANT, Random, SEGMENT_BYTES, STRIPE_BYTES, World, content, seat};

const SEGMENT: u64 = SEGMENT_BYTES as u64;
const OTHER: Source = Source { client: 2, stream: 0 };

fn arrival(sequence: u64) -> Arrival {
    Arrival { source: Source { client: 1, stream: 0 }, sequence, stamp: 0 }
}

fn again(sequence: u64, stamp: u64) -> Arrival {
    Arrival { stamp, ..arrival(sequence) }
}

fn all_of(seat: &Seat, bytes: usize) -> Vec<u8> {
    let mut read = vec![0xee; bytes];
    seat.read(0, &mut read).unwrap();
    read
}

/// The segment as an offer names it, with its place in the node's store.
fn stored(seat: &Seat, node: &repository::Repository, bytes: &[u8]) -> (SegmentEntry, Option<format::Place>) {
    let fingerprint = segment::fingerprint(node.settings.fingerprint, bytes);
    let entry = SegmentEntry { fingerprint, bytes: bytes.len() as u32 };
    // Written elsewhere in the file, so that the store has it.
    let far = Arrival { source: Source { client: 99, stream: 0 }, sequence: fingerprint.0[0] as u64 + 1, stamp: 0 };
    seat.write(far, &[(64 * SEGMENT, bytes.len() as u64)], bytes.to_vec()).unwrap();
    while seat.reduce(CLAIMANT).unwrap() {}
    let answer = node.store().lacking(CLAIMANT, &[fingerprint]).unwrap()[0];
    let store::Answer::Have(place) = answer else { panic!("{answer:?}") };
    (entry, Some(place))
}

#[test]
fn reads_that_end_near_the_end_of_numbers_are_answered() {
    let world = World::new();
    let node = world.process();
    let seat = seat(&node, world.join("out", 1).id, 0, 1);
    seat.write(arrival(1), &[(0, 5)], b"hello".to_vec()).unwrap();
    for offset in [u64::MAX, u64::MAX - 1, u64::MAX - 10, u64::MAX - SEGMENT, 1 << 63, 1 << 62, (1 << 62) - 4] {
        let mut into = vec![7; 64];
        assert_eq!(seat.read(offset, &mut into).unwrap(), 5, "{offset}");
        assert_eq!(into, [0; 64]);
    }
    assert_eq!(all_of(&seat, 5), b"hello");
}

#[test]
fn stamps_and_sequences_that_were_never_given_are_refused_and_harm_nobody() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let seat = seat(&node, session, 0, 1);
    let given = seat.write(arrival(1), &[(0, 4)], vec![1; 4]).unwrap();
    for stamp in [u64::MAX, given + 1, given + (1 << 40), 1 << 63, 1, (1 << 40) - 1, 1 << 40] {
        let sent = Arrival { source: OTHER, sequence: 1, stamp };
        assert!(seat.write(sent, &[(0, 4)], vec![2; 4]).is_err(), "{stamp:#x}");
        assert!(seat.offered(sent, &[0]).is_err(), "{stamp:#x}");
    }
    for sequence in [0, u64::MAX, 1 << 62] {
        assert!(seat.write(arrival(sequence), &[(0, 4)], vec![2; 4]).is_err(), "{sequence}");
        assert!(seat.offered(arrival(sequence), &[0]).is_err(), "{sequence}");
    }
    assert!(seat.offered(arrival(2), &[SEGMENT / 2]).is_err());
    assert!(seat.offered(arrival(2), &[u64::MAX - SEGMENT + 1]).is_err());
    assert!(seat.write(arrival(2), &[(u64::MAX - 2, 4)], vec![2; 4]).is_err());
    assert!(seat.set_size(u64::MAX).is_err());
    seat.write(arrival(2), &[(4, 4)], vec![3; 4]).unwrap();
    let durable = seat.settle(CLAIMANT, true, None).unwrap();
    assert_eq!((durable.len(), durable[0].sequence), (1, 2));
    assert_eq!(all_of(&seat, 8), [1, 1, 1, 1, 3, 3, 3, 3]);
}

#[test]
fn extents_of_other_nodes_stripes_are_refused() {
    let world = World::new();
    let node = world.process();
    let seat = seat(&node, world.join("out", 2).id, 1, 1);
    let bytes = |count: u64| vec![1; count as usize];
    assert!(seat.write(arrival(1), &[(0, 4)], bytes(4)).is_err());
    assert!(seat.write(arrival(1), &[(2 * STRIPE_BYTES - 2, 4)], bytes(4)).is_err());
    assert!(seat.offered(arrival(1), &[2 * STRIPE_BYTES]).is_err());
    seat.write(arrival(1), &[(STRIPE_BYTES, STRIPE_BYTES)], bytes(STRIPE_BYTES)).unwrap();
}

#[test]
fn a_petabyte_cut_off_costs_one_interval_in_seat_checkpoint_and_version() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 2);
    let seats: Vec<Seat> = (0..2).map(|i| seat(&node, session.id, i, i as u64)).collect();
    seats[1].write(arrival(1), &[(STRIPE_BYTES, 8)], vec![5; 8]).unwrap();
    let begun = Instant::now();
    for seat in &seats {
        seat.set_size(1 << 50).unwrap();
        seat.settle(CLAIMANT, true, None).unwrap();
        seat.set_size(STRIPE_BYTES + 4).unwrap();
        seat.set_size(1 << 50).unwrap();
    }
    seats[0].write(arrival(1), &[(2 * STRIPE_BYTES, 4)], vec![6; 4]).unwrap();
    seats.iter().for_each(|seat| drop(seat.settle(CLAIMANT, true, None).unwrap()));
    let published = publish(&node, CLAIMANT, session.id, 5).unwrap();
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
    let taken = seat(&late, session.id, 1, 9);
    let mut read = vec![9; 8];
    taken.read(STRIPE_BYTES, &mut read).unwrap();
    assert_eq!(read, [5, 5, 5, 5, 0, 0, 0, 0]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_supply_covers_what_came_before_its_offer_and_nothing_later() {
    let world = World::new();
    let node = world.process();
    let seat = seat(&node, world.join("out", 1).id, 0, 1);
    let new = Random(5).bytes_of(SEGMENT as usize);
    let (entry, place) = stored(&seat, &node, &new);
    seat.write(arrival(1), &[(0, SEGMENT)], vec![1; SEGMENT as usize]).unwrap();
    let (stamp, known) = seat.offered(arrival(2), &[0]).unwrap();
    assert!(!known);
    seat.write(arrival(3), &[(10, 5)], vec![3; 5]).unwrap();
    let epoch = node.lease().epoch();
    seat.supplied(arrival(2), stamp, epoch, &[(0, entry, place)]).unwrap();
    let mut expected = new.clone();
    expected[10..15].fill(3);
    assert!(all_of(&seat, SEGMENT as usize) == expected);
    let durable = seat.settle(CLAIMANT, true, None).unwrap();
    assert!(durable.iter().any(|durable| durable.source.client == 1 && durable.sequence == 3));
    assert!(all_of(&seat, SEGMENT as usize) == expected);
}

#[test]
fn an_offer_sent_again_after_a_crash_does_not_cover_what_was_checkpointed_after_it() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let first = seat(&node, session, 0, 1);
    let (entry, place) = stored(&first, &node, &Random(5).bytes_of(SEGMENT as usize));
    let (stamp, _) = first.offered(arrival(1), &[0]).unwrap();
    let later = Arrival { source: OTHER, sequence: 1, stamp: 0 };
    first.write(later, &[(0, SEGMENT)], vec![2; SEGMENT as usize]).unwrap();
    let durable = first.settle(CLAIMANT, true, None).unwrap();
    assert!(durable.iter().any(|durable| durable.source == OTHER && durable.sequence == 1));
    drop(first);
    let second = seat(&node, session, 0, 2);
    let (stamp, _) = second.offered(again(1, stamp), &[0]).unwrap();
    second.supplied(again(1, stamp), stamp, node.lease().epoch(), &[(0, entry, place)]).unwrap();
    assert!(all_of(&second, SEGMENT as usize) == vec![2; SEGMENT as usize]);
}

#[test]
fn a_supply_of_something_never_offered_is_refused() {
    let world = World::new();
    let node = world.process();
    let seat = seat(&node, world.join("out", 1).id, 0, 1);
    let (entry, place) = stored(&seat, &node, &Random(5).bytes_of(SEGMENT as usize));
    let epoch = node.lease().epoch();
    assert!(seat.supplied(arrival(1), 1 << 41, epoch, &[(0, entry, place)]).is_err());
    let (stamp, _) = seat.offered(arrival(1), &[0]).unwrap();
    let short = SegmentEntry { bytes: 5, ..entry };
    assert!(seat.supplied(arrival(1), stamp, epoch, &[(0, short, place)]).is_err());
    assert!(seat.supplied(arrival(1), stamp, epoch, &[(u64::MAX - 5, entry, place)]).is_err());
    seat.supplied(arrival(1), stamp, epoch, &[(0, entry, place)]).unwrap();
}

#[test]
fn what_a_cut_leaves_of_a_segment_is_durable_when_its_sender_hears_so() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let first = seat(&node, session, 0, 1);
    first.write(arrival(1), &[(0, SEGMENT)], vec![4; SEGMENT as usize]).unwrap();
    first.set_size(100).unwrap();
    let durable = first.settle(CLAIMANT, false, None).unwrap();
    let is_durable = durable.iter().any(|durable| durable.sequence >= 1 && !durable.held.contains(&1));
    drop(first);
    let second = seat(&node, session, 0, 2);
    assert!(!is_durable || all_of(&second, 100) == [4; 100]);
}

#[test]
fn small_pieces_far_apart_give_their_memory_back_under_pressure() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let limit = 64 * SEGMENT;
    let budget = Arc::new(Budget::new(limit));
    let seat = Seat::take(node.clone(), budget.clone(), session, 0, 1, SEGMENT_BYTES).unwrap();
    for i in 0..200u64 {
        seat.write(arrival(i + 1), &[(i * 3 * SEGMENT, 8)], vec![i as u8; 8]).unwrap();
    }
    assert!(!budget.wait_for_room(Duration::ZERO));
    seat.settle(CLAIMANT, true, None).unwrap();
    seat.reduce(CLAIMANT).unwrap();
    assert!(budget.wait_for_room(Duration::ZERO), "{} bytes of {limit} are used", budget.used_bytes());
    let read = all_of(&seat, 600 * SEGMENT as usize);
    assert!((0..200).all(|i| read[i * 3 * SEGMENT as usize..][..8] == [i as u8; 8]));
    seat.write(arrival(201), &[(8, SEGMENT - 8)], vec![1; SEGMENT as usize - 8]).unwrap();
    seat.settle(CLAIMANT, true, None).unwrap();
    publish(&node, CLAIMANT, session, 5).unwrap();
    let bytes = content(&node, "out");
    assert_eq!((&bytes[..8], &bytes[8..16]), (&[0; 8][..], &[1; 8][..]));
    drop(seat);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_seat_that_failed_answers_every_call_with_its_error_and_frees_its_memory() {
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let budget = Arc::new(Budget::new(1 << 30));
    let seat = Seat::take(node.clone(), budget.clone(), session, 0, 1, SEGMENT_BYTES).unwrap();
    seat.write(arrival(1), &[(0, 2000)], vec![1; 2000]).unwrap();
    world.catalog.take_seat(session, 0, 2).unwrap();
    let lost = |error: repository::Error| error.to_string();
    let why = lost(seat.settle(CLAIMANT, true, None).unwrap_err());
    assert!(seat.failure().is_some_and(|failure| failure == why));
    assert_eq!(lost(seat.write(arrival(2), &[(0, 1)], vec![1]).unwrap_err()), why);
    assert_eq!(lost(seat.read(0, &mut [0; 8]).unwrap_err()), why);
    assert_eq!(lost(seat.offered(arrival(2), &[0]).unwrap_err()), why);
    assert_eq!(lost(seat.set_size(3).unwrap_err()), why);
    assert_eq!(lost(seat.size().unwrap_err()), why);
    assert_eq!(lost(seat.durable_up_to(arrival(1).source).unwrap_err()), why);
    assert_eq!(lost(seat.settle(CLAIMANT, false, None).unwrap_err()), why);
    assert_eq!((budget.used_bytes(), seat.has_unsettled(), seat.unsettled_bytes()), (0, false, 0));
}

#[test]
fn a_seat_whose_stamps_would_outgrow_the_protocol_is_refused() {
    const LAST: u64 = (1 << 22) - 1;
    let world = World::new();
    let node = world.process();
    let session = world.join("out", 1).id;
    let take = |holder| Seat::take(node.clone(), Arc::new(Budget::new(1 << 30)), session, 0, holder, SEGMENT_BYTES);
    drop(take(1).unwrap());
    let root = Root::Inline(Page { level: 0, entries: vec![Entry { length: 10, kind: EntryKind::Hole }] }.encode());
    let mut checkpoint = Checkpoint {
        session,
        seat: 0,
        holder: 1,
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
    (checkpoint.holder, checkpoint.number) = (2, LAST);
    record(&checkpoint).unwrap();
    let refused = take(3).map(drop).unwrap_err().to_string();
    assert!(refused.contains("too often") && refused.contains("commit the session"), "{refused}");
}

//! Promises of path sessions, seats and checkpoints.

use super::*;
use format::HandleKey;

use crate::{Checkpoint, ContainerState, Error, Join, PathSession};

promises!(
    overlapping_joins_share_one_session,
    a_session_keeps_what_it_was_opened_with,
    joining_again_with_a_key_adds_no_second_handle,
    a_key_takes_off_its_own_handle_once,
    keys_are_known_as_long_as_their_session,
    the_last_to_leave_ends_a_session_without_checkpoints,
    the_last_to_leave_interrupts_a_session_with_checkpoints,
    a_session_whose_lease_ran_out_is_interrupted,
    a_new_session_begins_beside_an_interrupted_one,
    a_session_set_aside_cannot_be_renewed,
    joining_extends_the_lease_and_never_shortens_it,
    only_the_holder_of_a_seat_checkpoints,
    checkpoint_numbers_count_on_over_holders_and_settling,
    each_taking_of_a_seat_returns_a_higher_number,
    checkpoints_come_in_order_of_seat_and_number,
    a_commit_settles_checkpoints,
    a_refused_commit_settles_nothing,
    checkpoints_refer_only_to_live_containers,
    checkpoints_need_both_leases,
    discarding_drops_everything,
);

fn key(number: u8) -> HandleKey {
    HandleKey([number; HandleKey::BYTES])
}

fn join_at(stand: &Stand, text: &str) -> PathSession {
    join_with(stand, text, 1)
}

fn join_with(stand: &Stand, text: &str, number: u8) -> PathSession {
    let join = Join {
        path: path(text),
        nodes: vec!["a:1".into(), "b:2".into()],
        stripe_bytes: 4 << 20,
        job: "job".into(),
        key: key(number),
        lease_ms: LEASE_MS,
    };
    stand.catalog.join(&join).unwrap()
}

fn checkpoint(session: SessionId, seat: u32, number: u64) -> Checkpoint {
    Checkpoint {
        session,
        seat,
        holder: 7,
        number,
        epoch: 3,
        root: root(1, number as u32),
        size: u64::MAX,
        resized: number.is_multiple_of(2),
        frontier: vec![(u64::MAX, 1, 2), (3, u32::MAX, number)],
        stamps: vec![(4, 5, 6)],
    }
}

/// A session with one checkpoint of seat 0.
fn checkpointed(stand: &Stand, text: &str) -> SessionId {
    let session = join_at(stand, text).id;
    let number = stand.catalog.take_seat(session, 0, 7).unwrap();
    stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, number), &[], u64::MAX).unwrap();
    session
}

fn is_interrupted(stand: &Stand, session: SessionId) -> bool {
    stand.catalog.path_session(session).unwrap().unwrap().interrupted
}

fn overlapping_joins_share_one_session(stand: &Stand) {
    let first = join_at(stand, "a");
    let second = join_with(stand, "a", 2);
    let other = join_at(stand, "b");
    assert_eq!((first.handles, second.handles), (1, 2));
    assert!(first.id == second.id && other.id != first.id);
    assert_eq!(stand.catalog.live_session(&path("a")).unwrap(), Some(second.clone()));
    assert_eq!(stand.catalog.live_session(&path("c")).unwrap(), None);
    assert_eq!(stand.catalog.path_sessions().unwrap(), [second.clone(), other.clone()]);
    let after = |after, limit| stand.catalog.path_sessions_after(after, limit).unwrap();
    assert!(after(SessionId(0), 1).iter().eq([&second]));
    assert!(after(second.id, 9).iter().eq([&other]));
    assert!(after(other.id, 9).is_empty());
}

fn a_session_keeps_what_it_was_opened_with(stand: &Stand) {
    let first = join_at(stand, "a");
    assert_eq!((first.stripe_bytes, first.job.as_str(), first.opened_ns), (4 << 20, "job", 1_000_000_000));
    assert_eq!(first.nodes, ["a:1", "b:2"]);
    let (job, key) = ("other".into(), key(2));
    let join = Join { path: path("a"), nodes: vec![], stripe_bytes: 1, job, key, lease_ms: LEASE_MS };
    assert_eq!(stand.catalog.join(&join).unwrap(), PathSession { handles: 2, ..first });
}

fn joining_again_with_a_key_adds_no_second_handle(stand: &Stand) {
    let first = join_at(stand, "a");
    assert_eq!(join_at(stand, "a"), first);
    assert_eq!(stand.catalog.leave(first.id, &key(1)).unwrap(), 0);
    assert_eq!(stand.catalog.path_session(first.id).unwrap(), None);
}

fn a_key_takes_off_its_own_handle_once(stand: &Stand) {
    let session = join_at(stand, "a").id;
    join_with(stand, "a", 2);
    for (number, left) in [(3, 2), (2, 1), (2, 1), (3, 1)] {
        assert_eq!(stand.catalog.leave(session, &key(number)).unwrap(), left);
        assert_eq!(stand.catalog.path_session(session).unwrap().unwrap().handles, left);
    }
    assert_eq!(join_with(stand, "a", 2).handles, 1, "a handle that was taken off does not come back");
    assert_eq!(stand.catalog.leave(session, &key(1)).unwrap(), 0);
}

fn keys_are_known_as_long_as_their_session(stand: &Stand) {
    let session = checkpointed(stand, "a");
    join_with(stand, "a", 2);
    let known = |number| stand.catalog.has_handle(session, &key(number)).unwrap();
    assert_eq!([known(1), known(2), known(3)], [Some(true), Some(true), Some(false)]);
    stand.catalog.leave(session, &key(2)).unwrap();
    assert_eq!(known(2), Some(true), "who got it was let in");
    stand.catalog.leave_all(session).unwrap();
    assert!(is_interrupted(stand, session) && known(1) == Some(true));
    stand.catalog.discard(session).unwrap();
    assert_eq!([known(1), known(3)], [None, None]);
    let other = join_at(stand, "b").id;
    assert_eq!(stand.catalog.has_handle(other, &key(2)).unwrap(), Some(false), "it is another session's");
}

fn the_last_to_leave_ends_a_session_without_checkpoints(stand: &Stand) {
    let session = join_at(stand, "a").id;
    join_with(stand, "a", 2);
    let container = stand.catalog.open_container(session).unwrap();
    assert_eq!(stand.catalog.leave(session, &key(1)).unwrap(), 1);
    assert_eq!(stand.catalog.leave(session, &key(2)).unwrap(), 0);
    assert_eq!(stand.catalog.path_session(session).unwrap(), None);
    assert_eq!(stand.catalog.container(container).unwrap().unwrap().state, ContainerState::Live);
    assert_refused!(stand.catalog.leave(session, &key(1)), Error::LeaseLost { .. });
}

fn the_last_to_leave_interrupts_a_session_with_checkpoints(stand: &Stand) {
    let session = checkpointed(stand, "a");
    assert_eq!(stand.catalog.leave(session, &key(1)).unwrap(), 0);
    assert!(is_interrupted(stand, session));
    assert_eq!(stand.catalog.checkpoints(session).unwrap().len(), 1);
    assert_eq!(stand.catalog.live_session(&path("a")).unwrap(), None);
}

fn a_session_whose_lease_ran_out_is_interrupted(stand: &Stand) {
    let (kept, empty) = (checkpointed(stand, "a"), join_at(stand, "b").id);
    stand.pass_ms(LEASE_MS as i64);
    assert!(is_interrupted(stand, kept) && is_interrupted(stand, empty));
    stand.catalog.renew(empty, 10, false).unwrap();
    assert!(!is_interrupted(stand, empty));
    stand.pass_ms(10);
    stand.catalog.snapshot().unwrap();
    assert!(is_interrupted(stand, kept), "what was checkpointed can be recovered");
    assert_eq!(stand.catalog.path_session(empty).unwrap(), None);
}

fn a_new_session_begins_beside_an_interrupted_one(stand: &Stand) {
    let old = checkpointed(stand, "a");
    stand.pass_ms(LEASE_MS as i64);
    let new = join_at(stand, "a");
    assert!(new.id != old && new.handles == 1);
    let found = stand.catalog.path_sessions().unwrap();
    let facts: Vec<_> = found.iter().map(|session| (session.id, session.interrupted)).collect();
    assert_eq!(facts, [(old, true), (new.id, false)]);
    assert_eq!(stand.catalog.live_session(&path("a")).unwrap().unwrap().id, new.id);
}

fn a_session_set_aside_cannot_be_renewed(stand: &Stand) {
    let old = checkpointed(stand, "a");
    stand.pass_ms(LEASE_MS as i64);
    join_at(stand, "a");
    assert_refused!(stand.catalog.renew(old, LEASE_MS, false), Error::LeaseLost { .. });
    assert_refused!(stand.catalog.take_seat(old, 0, 8), Error::LeaseLost { .. });
}

fn joining_extends_the_lease_and_never_shortens_it(stand: &Stand) {
    let session = join_at(stand, "a").id;
    stand.pass_ms(LEASE_MS as i64 - 1);
    join_at(stand, "a");
    let (job, key) = (String::new(), key(2));
    let short = Join { path: path("a"), nodes: vec![], stripe_bytes: 1, job, key, lease_ms: 1 };
    stand.catalog.join(&short).unwrap();
    stand.pass_ms(LEASE_MS as i64 - 1);
    assert!(!is_interrupted(stand, session));
}

fn only_the_holder_of_a_seat_checkpoints(stand: &Stand) {
    let session = join_at(stand, "a").id;
    let attempt = |number| stand.catalog.checkpoint(stand.writer, &checkpoint(session, 1, number), &[], u64::MAX);
    assert_refused!(attempt(1), Error::SeatLost { seat: 1, .. });
    stand.catalog.take_seat(session, 1, 7).unwrap();
    attempt(1).unwrap();
    let next = stand.catalog.take_seat(session, 1, u64::MAX).unwrap();
    assert_refused!(attempt(next), Error::SeatLost { .. });
    let back = stand.catalog.take_seat(session, 1, 7).unwrap();
    attempt(back).unwrap();
    assert_refused!(attempt(back), Error::Refused { .. });
    assert_refused!(attempt(u64::MAX), Error::Refused { .. });
}

fn checkpoint_numbers_count_on_over_holders_and_settling(stand: &Stand) {
    let session = checkpointed(stand, "a");
    let settles = vec![(session, 0, 1)];
    let commit = Commit { session: stand.writer, references: vec![], epoch: u64::MAX, changes: vec![], settles };
    stand.catalog.commit(&commit).unwrap();
    assert!(stand.catalog.take_seat(session, 0, 8).unwrap() > 1);
    let other = stand.catalog.take_seat(session, 1, 8).unwrap();
    stand
        .catalog
        .checkpoint(stand.writer, &Checkpoint { holder: 8, ..checkpoint(session, 1, other) }, &[], u64::MAX)
        .unwrap();
}

fn each_taking_of_a_seat_returns_a_higher_number(stand: &Stand) {
    let session = join_at(stand, "a").id;
    let take = || stand.catalog.take_seat(session, 0, 7).unwrap();
    let (first, second) = (take(), take());
    assert!(second > first);
    let attempt = |number| stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, number), &[], u64::MAX);
    assert_refused!(attempt(first), Error::Refused { .. });
    attempt(second).unwrap();
    attempt(second + 9).unwrap();
    let third = take();
    assert!(third > second + 9);
    attempt(third).unwrap();
}

fn checkpoints_come_in_order_of_seat_and_number(stand: &Stand) {
    let session = join_at(stand, "a").id;
    for seat in [0, 2] {
        stand.catalog.take_seat(session, seat, 7).unwrap();
    }
    for (seat, number) in [(2, 1), (0, 1), (2, 2), (0, 5)] {
        stand.catalog.checkpoint(stand.writer, &checkpoint(session, seat, number), &[], u64::MAX).unwrap();
    }
    let expected = [(0, 1), (0, 5), (2, 1), (2, 2)].map(|(seat, number)| checkpoint(session, seat, number));
    assert_eq!(stand.catalog.checkpoints(session).unwrap(), expected);
    for (at, after) in [(0, 0), (0, 1), (0, 5), (2, 1), (2, 2)].into_iter().enumerate() {
        let rest = stand.catalog.checkpoints_after(session, after, usize::MAX).unwrap();
        assert_eq!(rest, expected[at..]);
        let one = stand.catalog.checkpoints_after(session, after, 1).unwrap();
        assert_eq!(one.first(), expected.get(at));
    }
}

fn a_commit_settles_checkpoints(stand: &Stand) {
    let session = checkpointed(stand, "a");
    for number in [2, 3] {
        stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, number), &[], u64::MAX).unwrap();
    }
    let settles = vec![(session, 0, 2), (session, 9, 9), (SessionId(99), 0, 1)];
    let commit =
        Commit { session: stand.writer, references: vec![], epoch: u64::MAX, changes: vec![written("a", 1)], settles };
    stand.catalog.commit(&commit).unwrap();
    assert_eq!(stand.catalog.checkpoints(session).unwrap(), [checkpoint(session, 0, 3)]);
}

fn a_refused_commit_settles_nothing(stand: &Stand) {
    let session = checkpointed(stand, "a");
    let (changes, settles) = (vec![removed("missing", false)], vec![(session, 0, 1)]);
    let commit = Commit { session: stand.writer, references: vec![], epoch: u64::MAX, changes, settles };
    assert_refused!(stand.catalog.commit(&commit), Error::NotFound { .. });
    assert_eq!(stand.catalog.checkpoints(session).unwrap().len(), 1);
}

fn checkpoints_refer_only_to_live_containers(stand: &Stand) {
    let session = checkpointed(stand, "a");
    let (lost, live) = (stand.sealed_container(), stand.sealed_container());
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.catalog.condemn(snapshot, &[lost]).unwrap();
    let refused = stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, 2), &[live, lost], u64::MAX);
    assert_refused!(refused, Error::NotLive { containers } if containers == [lost]);
    stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, 2), &[live], u64::MAX).unwrap();
}

fn checkpoints_need_both_leases(stand: &Stand) {
    let session = checkpointed(stand, "a");
    let stranger = stand.catalog.checkpoint(SessionId(99), &checkpoint(session, 0, 2), &[], u64::MAX);
    assert_refused!(stranger, Error::LeaseLost { session: SessionId(99) });
    stand.pass_ms(LEASE_MS as i64);
    let late = stand.catalog.checkpoint(stand.writer, &checkpoint(session, 0, 2), &[], u64::MAX);
    assert_refused!(late, Error::LeaseLost { session: lost } if lost == session);
}

fn discarding_drops_everything(stand: &Stand) {
    let (old, live) = (checkpointed(stand, "a"), checkpointed(stand, "b"));
    stand.catalog.leave(old, &key(1)).unwrap();
    for session in [old, live] {
        stand.catalog.discard(session).unwrap();
        assert!(stand.catalog.checkpoints(session).unwrap().is_empty());
        assert_refused!(stand.catalog.renew(session, LEASE_MS, false), Error::LeaseLost { .. });
    }
    assert!(stand.catalog.path_sessions().unwrap().is_empty());
    assert!(stand.catalog.roots(0, 9).unwrap().is_empty());
    stand.catalog.discard(old).unwrap();
}

//! Checks of path sessions, stripe sets and checkpoints.

use super::*;
use format::HandleKey;

use crate::{Checkpoint, ContainerState, Error, Join, PathSession};

checks!(
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
    only_the_owner_of_a_stripe_set_checkpoints,
    checkpoint_numbers_count_on_over_owners_and_commits,
    each_taking_of_a_stripe_set_returns_a_higher_number,
    checkpoints_come_in_order_of_stripe_set_and_number,
    a_commit_drops_the_checkpoints_it_holds,
    a_refused_commit_drops_no_checkpoint,
    checkpoints_refer_only_to_live_containers,
    checkpoints_need_both_leases,
    discarding_drops_everything,
);

fn key(number: u8) -> HandleKey {
    HandleKey([number; HandleKey::BYTES])
}

pub(super) fn join_at(fixture: &Fixture, text: &str) -> PathSession {
    join_with(fixture, text, 1)
}

fn join_with(fixture: &Fixture, text: &str, number: u8) -> PathSession {
    let join = Join {
        path: path(text),
        nodes: vec!["a:1".into(), "b:2".into()],
        stripe_bytes: 4 << 20,
        job: "job".into(),
        key: key(number),
        lease_ms: LEASE_MS,
    };
    fixture.catalog.join(&join).unwrap()
}

fn checkpoint(session: SessionId, stripe_set: u32, number: u64) -> Checkpoint {
    Checkpoint {
        session,
        stripe_set,
        owner: 7,
        number,
        epoch: 3,
        root: root(1, number as u32),
        size: u64::MAX,
        resized: number.is_multiple_of(2),
        frontier: vec![(u64::MAX, 1, 2), (3, u32::MAX, number)],
        stamps: vec![(4, 5, 6)],
    }
}

/// Returns a session with one checkpoint of stripe set 0.
fn checkpointed(fixture: &Fixture, text: &str) -> SessionId {
    let session = join_at(fixture, text).id;
    let number = fixture.catalog.take_stripe_set(session, 0, 7).unwrap();
    fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, number), &[], u64::MAX).unwrap();
    session
}

fn is_interrupted(fixture: &Fixture, session: SessionId) -> bool {
    fixture.catalog.path_session(session).unwrap().unwrap().interrupted
}

fn overlapping_joins_share_one_session(fixture: &Fixture) {
    let first = join_at(fixture, "a");
    let second = join_with(fixture, "a", 2);
    let other = join_at(fixture, "b");
    assert_eq!((first.handles, second.handles), (1, 2));
    assert!(first.id == second.id && other.id != first.id);
    assert_eq!(fixture.catalog.live_session(&path("a")).unwrap(), Some(second.clone()));
    assert_eq!(fixture.catalog.live_session(&path("c")).unwrap(), None);
    assert_eq!(fixture.catalog.path_sessions().unwrap(), [second.clone(), other.clone()]);
    let after = |after, limit| fixture.catalog.path_sessions_after(after, limit).unwrap();
    assert!(after(SessionId(0), 1).iter().eq([&second]));
    assert!(after(second.id, 9).iter().eq([&other]));
    assert!(after(other.id, 9).is_empty());
}

fn a_session_keeps_what_it_was_opened_with(fixture: &Fixture) {
    let first = join_at(fixture, "a");
    assert_eq!((first.stripe_bytes, first.job.as_str(), first.opened_ns), (4 << 20, "job", 1_000_000_000));
    assert_eq!(first.nodes, ["a:1", "b:2"]);
    let (job, key) = ("other".into(), key(2));
    let join = Join { path: path("a"), nodes: vec![], stripe_bytes: 1, job, key, lease_ms: LEASE_MS };
    assert_eq!(fixture.catalog.join(&join).unwrap(), PathSession { handles: 2, ..first });
}

fn joining_again_with_a_key_adds_no_second_handle(fixture: &Fixture) {
    let first = join_at(fixture, "a");
    assert_eq!(join_at(fixture, "a"), first);
    assert_eq!(fixture.catalog.leave(first.id, &key(1)).unwrap(), 0);
    assert_eq!(fixture.catalog.path_session(first.id).unwrap(), None);
}

fn a_key_takes_off_its_own_handle_once(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    join_with(fixture, "a", 2);
    for (number, left) in [(3, 2), (2, 1), (2, 1), (3, 1)] {
        assert_eq!(fixture.catalog.leave(session, &key(number)).unwrap(), left);
        assert_eq!(fixture.catalog.path_session(session).unwrap().unwrap().handles, left);
    }
    assert_eq!(join_with(fixture, "a", 2).handles, 1, "a handle that was taken off does not come back");
    assert_eq!(fixture.catalog.leave(session, &key(1)).unwrap(), 0);
}

fn keys_are_known_as_long_as_their_session(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    join_with(fixture, "a", 2);
    let known = |number| fixture.catalog.has_handle(session, &key(number)).unwrap();
    assert_eq!([known(1), known(2), known(3)], [Some(true), Some(true), Some(false)]);
    fixture.catalog.leave(session, &key(2)).unwrap();
    assert_eq!(known(2), Some(true), "who got it was let in");
    fixture.catalog.leave_all(session).unwrap();
    assert!(is_interrupted(fixture, session) && known(1) == Some(true));
    fixture.catalog.discard(session).unwrap();
    assert_eq!([known(1), known(3)], [None, None]);
    let other = join_at(fixture, "b").id;
    assert_eq!(fixture.catalog.has_handle(other, &key(2)).unwrap(), Some(false), "it is another session's");
}

fn the_last_to_leave_ends_a_session_without_checkpoints(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    join_with(fixture, "a", 2);
    let container = fixture.catalog.open_container(session).unwrap();
    assert_eq!(fixture.catalog.leave(session, &key(1)).unwrap(), 1);
    assert_eq!(fixture.catalog.leave(session, &key(2)).unwrap(), 0);
    assert_eq!(fixture.catalog.path_session(session).unwrap(), None);
    assert_eq!(fixture.catalog.container(container).unwrap().unwrap().state, ContainerState::Live);
    assert_refused!(fixture.catalog.leave(session, &key(1)), Error::LeaseLost { .. });
}

fn the_last_to_leave_interrupts_a_session_with_checkpoints(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    assert_eq!(fixture.catalog.leave(session, &key(1)).unwrap(), 0);
    assert!(is_interrupted(fixture, session));
    assert_eq!(fixture.catalog.checkpoints(session).unwrap().len(), 1);
    assert_eq!(fixture.catalog.live_session(&path("a")).unwrap(), None);
}

fn a_session_whose_lease_ran_out_is_interrupted(fixture: &Fixture) {
    let (kept, empty) = (checkpointed(fixture, "a"), join_at(fixture, "b").id);
    fixture.pass_ms(LEASE_MS as i64);
    assert!(is_interrupted(fixture, kept) && is_interrupted(fixture, empty));
    fixture.catalog.renew(empty, 10, false).unwrap();
    assert!(!is_interrupted(fixture, empty));
    fixture.pass_ms(10);
    fixture.catalog.snapshot().unwrap();
    assert!(is_interrupted(fixture, kept), "what was checkpointed can be recovered");
    assert_eq!(fixture.catalog.path_session(empty).unwrap(), None);
}

fn a_new_session_begins_beside_an_interrupted_one(fixture: &Fixture) {
    let old = checkpointed(fixture, "a");
    fixture.pass_ms(LEASE_MS as i64);
    let new = join_at(fixture, "a");
    assert!(new.id != old && new.handles == 1);
    let found = fixture.catalog.path_sessions().unwrap();
    let facts: Vec<_> = found.iter().map(|session| (session.id, session.interrupted)).collect();
    assert_eq!(facts, [(old, true), (new.id, false)]);
    assert_eq!(fixture.catalog.live_session(&path("a")).unwrap().unwrap().id, new.id);
}

fn a_session_set_aside_cannot_be_renewed(fixture: &Fixture) {
    let old = checkpointed(fixture, "a");
    fixture.pass_ms(LEASE_MS as i64);
    join_at(fixture, "a");
    assert_refused!(fixture.catalog.renew(old, LEASE_MS, false), Error::LeaseLost { .. });
    assert_refused!(fixture.catalog.take_stripe_set(old, 0, 8), Error::LeaseLost { .. });
}

fn joining_extends_the_lease_and_never_shortens_it(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    fixture.pass_ms(LEASE_MS as i64 - 1);
    join_at(fixture, "a");
    let (job, key) = (String::new(), key(2));
    let short = Join { path: path("a"), nodes: vec![], stripe_bytes: 1, job, key, lease_ms: 1 };
    fixture.catalog.join(&short).unwrap();
    fixture.pass_ms(LEASE_MS as i64 - 1);
    assert!(!is_interrupted(fixture, session));
}

fn only_the_owner_of_a_stripe_set_checkpoints(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    let attempt = |number| fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 1, number), &[], u64::MAX);
    assert_refused!(attempt(1), Error::StripeSetLost { stripe_set: 1, .. });
    fixture.catalog.take_stripe_set(session, 1, 7).unwrap();
    attempt(1).unwrap();
    let next = fixture.catalog.take_stripe_set(session, 1, u64::MAX).unwrap();
    assert_refused!(attempt(next), Error::StripeSetLost { .. });
    let back = fixture.catalog.take_stripe_set(session, 1, 7).unwrap();
    attempt(back).unwrap();
    assert_refused!(attempt(back), Error::Refused { .. });
    assert_refused!(attempt(u64::MAX), Error::Refused { .. });
}

fn checkpoint_numbers_count_on_over_owners_and_commits(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    let checkpoints = vec![(session, 0, 1)];
    let commit = Commit { session: fixture.writer, references: vec![], epoch: u64::MAX, changes: vec![], checkpoints };
    fixture.catalog.commit(&commit).unwrap();
    assert!(fixture.catalog.take_stripe_set(session, 0, 8).unwrap() > 1);
    let other = fixture.catalog.take_stripe_set(session, 1, 8).unwrap();
    fixture
        .catalog
        .checkpoint(fixture.writer, &Checkpoint { owner: 8, ..checkpoint(session, 1, other) }, &[], u64::MAX)
        .unwrap();
}

fn each_taking_of_a_stripe_set_returns_a_higher_number(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    let take = || fixture.catalog.take_stripe_set(session, 0, 7).unwrap();
    let (first, second) = (take(), take());
    assert!(second > first);
    let attempt = |number| fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, number), &[], u64::MAX);
    assert_refused!(attempt(first), Error::Refused { .. });
    attempt(second).unwrap();
    attempt(second + 9).unwrap();
    let third = take();
    assert!(third > second + 9);
    attempt(third).unwrap();
}

fn checkpoints_come_in_order_of_stripe_set_and_number(fixture: &Fixture) {
    let session = join_at(fixture, "a").id;
    for stripe_set in [0, 2] {
        fixture.catalog.take_stripe_set(session, stripe_set, 7).unwrap();
    }
    for (stripe_set, number) in [(2, 1), (0, 1), (2, 2), (0, 5)] {
        fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, stripe_set, number), &[], u64::MAX).unwrap();
    }
    let expected = [(0, 1), (0, 5), (2, 1), (2, 2)].map(|(stripe_set, number)| checkpoint(session, stripe_set, number));
    assert_eq!(fixture.catalog.checkpoints(session).unwrap(), expected);
    for (at, after) in [(0, 0), (0, 1), (0, 5), (2, 1), (2, 2)].into_iter().enumerate() {
        let rest = fixture.catalog.checkpoints_after(session, after, usize::MAX).unwrap();
        assert_eq!(rest, expected[at..]);
        let one = fixture.catalog.checkpoints_after(session, after, 1).unwrap();
        assert_eq!(one.first(), expected.get(at));
    }
}

fn a_commit_drops_the_checkpoints_it_holds(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    for number in [2, 3] {
        fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, number), &[], u64::MAX).unwrap();
    }
    let checkpoints = vec![(session, 0, 2), (session, 9, 9), (SessionId(99), 0, 1)];
    let commit = Commit {
        session: fixture.writer,
        references: vec![],
        epoch: u64::MAX,
        changes: vec![written("a", 1)],
        checkpoints,
    };
    fixture.catalog.commit(&commit).unwrap();
    assert_eq!(fixture.catalog.checkpoints(session).unwrap(), [checkpoint(session, 0, 3)]);
}

fn a_refused_commit_drops_no_checkpoint(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    let (changes, checkpoints) = (vec![removed("missing", false)], vec![(session, 0, 1)]);
    let commit = Commit { session: fixture.writer, references: vec![], epoch: u64::MAX, changes, checkpoints };
    assert_refused!(fixture.catalog.commit(&commit), Error::NotFound { .. });
    assert_eq!(fixture.catalog.checkpoints(session).unwrap().len(), 1);
}

fn checkpoints_refer_only_to_live_containers(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    let (lost, live) = (fixture.sealed_container(), fixture.sealed_container());
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.catalog.condemn(snapshot, &[lost]).unwrap();
    let refused = fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, 2), &[live, lost], u64::MAX);
    assert_refused!(refused, Error::NotLive { containers } if containers == [lost]);
    fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, 2), &[live], u64::MAX).unwrap();
}

fn checkpoints_need_both_leases(fixture: &Fixture) {
    let session = checkpointed(fixture, "a");
    let stranger = fixture.catalog.checkpoint(SessionId(99), &checkpoint(session, 0, 2), &[], u64::MAX);
    assert_refused!(stranger, Error::LeaseLost { session: SessionId(99) });
    fixture.pass_ms(LEASE_MS as i64);
    let late = fixture.catalog.checkpoint(fixture.writer, &checkpoint(session, 0, 2), &[], u64::MAX);
    assert_refused!(late, Error::LeaseLost { session: lost } if lost == session);
}

fn discarding_drops_everything(fixture: &Fixture) {
    let (old, live) = (checkpointed(fixture, "a"), checkpointed(fixture, "b"));
    fixture.catalog.leave(old, &key(1)).unwrap();
    for session in [old, live] {
        fixture.catalog.discard(session).unwrap();
        assert!(fixture.catalog.checkpoints(session).unwrap().is_empty());
        assert_refused!(fixture.catalog.renew(session, LEASE_MS, false), Error::LeaseLost { .. });
    }
    assert!(fixture.catalog.path_sessions().unwrap().is_empty());
    assert!(fixture.catalog.roots(0, 9).unwrap().is_empty());
    fixture.catalog.discard(old).unwrap();
}

//! Checks of collection.

use super::*;
use crate::{Checkpoint, ContainerState, Error, Join, Snapshot};

checks!(
    roots_are_paged_versions_first,
    what_is_referred_to_since_the_snapshot_is_not_condemned,
    what_a_checkpoint_refers_to_since_the_snapshot_is_not_condemned,
    only_live_containers_are_condemned,
    condemned_files_stay_until_older_sessions_are_gone,
    sessions_that_ran_out_hold_nothing_back,
    interrupted_sessions_hold_nothing_back,
    a_relocated_number_lives_on_in_its_new_file,
    files_that_a_number_left_are_known_until_they_are_deleted,
    what_is_referred_to_since_the_snapshot_is_not_moved,
    segments_move_only_into_live_files,
    a_file_goes_when_its_last_number_leaves_it,
    files_that_bear_live_numbers_cannot_be_deleted,
    numbers_of_deleted_containers_are_not_given_again,
    what_was_lost_is_forgotten_once_its_number_has_moved_or_is_gone,
);

fn state(fixture: &Fixture, container: ContainerId) -> ContainerState {
    fixture.catalog.container(container).unwrap().unwrap().state
}

fn condemn(fixture: &Fixture, containers: &[ContainerId]) {
    let snapshot = fixture.catalog.snapshot().unwrap();
    assert_eq!(fixture.catalog.condemn(snapshot, containers).unwrap(), containers);
}

/// Renews the writer's session so that it relies on no earlier answer.
fn refresh(fixture: &Fixture) {
    fixture.catalog.renew(fixture.writer, 1000 * LEASE_MS, true).unwrap();
}

fn joined(fixture: &Fixture) -> SessionId {
    let join = Join {
        path: path("p"),
        nodes: vec![],
        stripe_bytes: 1,
        job: String::new(),
        key: format::HandleKey([1; 16]),
        lease_ms: LEASE_MS,
    };
    let session = fixture.catalog.join(&join).unwrap().id;
    fixture.catalog.take_stripe_set(session, 0, 7).unwrap();
    session
}

fn checkpoint(fixture: &Fixture, session: SessionId, number: u64, references: &[ContainerId]) {
    let root = root(99, number as u32);
    let checkpoint = Checkpoint {
        session,
        stripe_set: 0,
        owner: 7,
        number,
        epoch: 0,
        root,
        size: 1,
        resized: true,
        frontier: vec![(1, 2, 3)],
        stamps: vec![(4, 5, 6)],
    };
    fixture.catalog.checkpoint(fixture.writer, &checkpoint, references, u64::MAX).unwrap();
}

fn roots_are_paged_versions_first(fixture: &Fixture) {
    let session = joined(fixture);
    checkpoint(fixture, session, 1, &[]);
    fixture.commit((1..=3).map(|size| written("a", size)).collect()).unwrap();
    checkpoint(fixture, session, 2, &[]);
    fixture.commit(vec![written("b", 4), linked("c", "b")]).unwrap();
    let expected = [root(1, 1), root(1, 2), root(1, 3), root(1, 4), root(99, 1), root(99, 2)];
    for limit in 1..8 {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = fixture.catalog.roots(after, limit).unwrap();
            assert!(page.len() <= limit);
            let Some((last, _)) = page.last() else { break };
            after = *last;
            found.extend(page.into_iter().map(|(_, root)| root));
        }
        assert_eq!(found, expected, "{limit} a page");
    }
}

fn what_is_referred_to_since_the_snapshot_is_not_condemned(fixture: &Fixture) {
    let (before, after, never) = (fixture.sealed_container(), fixture.sealed_container(), fixture.sealed_container());
    fixture.commit_with(fixture.writer, vec![before], vec![written("a", 1)]).unwrap();
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.commit_with(fixture.writer, vec![after], vec![written("b", 1)]).unwrap();
    // Marking finds that `before` is referred to from before the snapshot.
    assert_eq!(fixture.catalog.condemn(snapshot, &[before, after, never]).unwrap(), [before, never]);
    assert_eq!(state(fixture, after), ContainerState::Live);
    let later = fixture.catalog.snapshot().unwrap();
    assert!(later.referral > snapshot.referral && later.epoch > snapshot.epoch);
    assert_eq!(fixture.catalog.condemn(later, &[after]).unwrap(), [after]);
}

fn what_a_checkpoint_refers_to_since_the_snapshot_is_not_condemned(fixture: &Fixture) {
    let (container, session) = (fixture.sealed_container(), joined(fixture));
    let snapshot = fixture.catalog.snapshot().unwrap();
    checkpoint(fixture, session, 1, &[container]);
    assert!(fixture.catalog.condemn(snapshot, &[container]).unwrap().is_empty());
}

fn only_live_containers_are_condemned(fixture: &Fixture) {
    let open = fixture.catalog.open_container(fixture.writer).unwrap();
    let live = fixture.sealed_container();
    let snapshot = fixture.catalog.snapshot().unwrap();
    let asked = [open, live, live, ContainerId(99)];
    assert_eq!(fixture.catalog.condemn(snapshot, &asked).unwrap(), [live]);
    assert_eq!((state(fixture, open), state(fixture, live)), (ContainerState::Open, ContainerState::Condemned));
    let epoch = fixture.catalog.snapshot().unwrap().epoch;
    assert!(fixture.catalog.condemn(snapshot, &asked).unwrap().is_empty());
    assert_eq!(fixture.catalog.snapshot().unwrap().epoch, epoch);
}

fn condemned_files_stay_until_older_sessions_are_gone(fixture: &Fixture) {
    let container = fixture.sealed_container();
    let reader = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    condemn(fixture, &[container]);
    let _younger = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap();
    assert!(fixture.catalog.deletable().unwrap().is_empty());
    refresh(fixture);
    assert!(fixture.catalog.deletable().unwrap().is_empty());
    fixture.catalog.end(reader).unwrap();
    assert_eq!(fixture.catalog.deletable().unwrap(), [container]);
    assert_eq!(fixture.catalog.containers().unwrap().len(), 1);
    fixture.catalog.deleted(&[container]).unwrap();
    assert!(fixture.catalog.deletable().unwrap().is_empty());
    assert!(fixture.catalog.containers().unwrap().is_empty());
    assert_eq!(state(fixture, container), ContainerState::Gone);
}

fn sessions_that_ran_out_hold_nothing_back(fixture: &Fixture) {
    let container = fixture.sealed_container();
    let reader = fixture.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    let open = fixture.catalog.open_container(reader).unwrap();
    condemn(fixture, &[container]);
    refresh(fixture);
    fixture.pass_ms(LEASE_MS as i64);
    assert_eq!(fixture.catalog.deletable().unwrap(), [container]);
    assert_refused!(fixture.catalog.renew(reader, LEASE_MS, false), Error::LeaseLost { .. });
    assert_eq!(state(fixture, open), ContainerState::Live);
}

fn interrupted_sessions_hold_nothing_back(fixture: &Fixture) {
    let container = fixture.sealed_container();
    let session = joined(fixture);
    checkpoint(fixture, session, 1, &[]);
    condemn(fixture, &[container]);
    refresh(fixture);
    assert!(fixture.catalog.deletable().unwrap().is_empty());
    fixture.pass_ms(LEASE_MS as i64);
    assert_eq!(fixture.catalog.deletable().unwrap(), [container]);
    assert!(fixture.catalog.path_session(session).unwrap().unwrap().interrupted);
    let commit = Commit {
        session: fixture.writer,
        references: vec![],
        epoch: u64::MAX,
        changes: vec![],
        checkpoints: vec![(session, 0, 1)],
    };
    fixture.catalog.commit(&commit).unwrap();
    fixture.catalog.snapshot().unwrap();
    assert_eq!(fixture.catalog.path_session(session).unwrap(), None);
}

fn snapshot_and_move(fixture: &Fixture, moves: &[(ContainerId, ContainerId)]) -> (Snapshot, Vec<ContainerId>) {
    let snapshot = fixture.catalog.snapshot().unwrap();
    (snapshot, fixture.catalog.relocate(snapshot, moves).unwrap())
}

fn a_relocated_number_lives_on_in_its_new_file(fixture: &Fixture) {
    let (first, second, file) = (fixture.sealed_container(), fixture.sealed_container(), fixture.sealed_container());
    let (_, moved) = snapshot_and_move(fixture, &[(first, file), (second, file), (file, file)]);
    assert_eq!(moved, [first, second]);
    refresh(fixture);
    assert_eq!(fixture.catalog.deletable().unwrap(), [first, second]);
    fixture.catalog.deleted(&[first, second]).unwrap();
    let found: Vec<_> = fixture.catalog.containers().unwrap().iter().map(|r| (r.id, r.state, r.physical)).collect();
    assert_eq!(found, [first, second, file].map(|id| (id, ContainerState::Live, file)));
    let statistics = fixture.catalog.statistics().unwrap();
    assert_eq!((statistics.live_containers, statistics.condemned_containers), (1, 0));
    assert_eq!(statistics.container_bytes, 100);
}

fn what_was_lost_is_forgotten_once_its_number_has_moved_or_is_gone(fixture: &Fixture) {
    let [moved, gone, left, file] = [(); 4].map(|()| fixture.sealed_container());
    let fingerprint = format::Fingerprint([7; 32]);
    let lost = [moved, gone, left].map(|container| (format::SegmentAddress::new(container, 3), fingerprint));
    fixture.catalog.lose(&lost).unwrap();
    snapshot_and_move(fixture, &[(moved, file)]);
    condemn(fixture, &[gone]);
    let containers = || fixture.catalog.lost().unwrap().iter().map(|lost| lost.address.container).collect::<Vec<_>>();
    assert_eq!(containers(), [gone, left], "its segments may still be read by older sessions");
    refresh(fixture);
    let deletable = fixture.catalog.deletable().unwrap();
    fixture.catalog.deleted(&deletable).unwrap();
    assert_eq!(containers(), [left]);
}

fn files_that_a_number_left_are_known_until_they_are_deleted(fixture: &Fixture) {
    let (number, second, third) = (fixture.sealed_container(), fixture.sealed_container(), fixture.sealed_container());
    let files = || fixture.catalog.files_of(number).unwrap();
    assert_eq!(files(), [number]);
    snapshot_and_move(fixture, &[(number, second)]);
    assert_eq!(files(), [second, number]);
    refresh(fixture);
    // A session was given a segment in the second file: it must find it there, whatever the third file contains.
    snapshot_and_move(fixture, &[(number, third), (second, third)]);
    assert_eq!(files(), [third, second, number]);
    assert_eq!(fixture.catalog.deletable().unwrap(), [number]);
    fixture.catalog.deleted(&[number]).unwrap();
    assert_eq!(files(), [third, second]);
    assert_eq!(fixture.catalog.files_of(second).unwrap(), [third, second]);
    condemn(fixture, &[number]);
    assert_eq!(files(), [third, second], "condemned, and its file still there");
    refresh(fixture);
    fixture.catalog.deleted(&fixture.catalog.deletable().unwrap()).unwrap();
    assert_eq!(files(), [third]);
    assert!(fixture.catalog.files_of(ContainerId(99)).unwrap().is_empty());
}

fn what_is_referred_to_since_the_snapshot_is_not_moved(fixture: &Fixture) {
    let (logical, file) = (fixture.sealed_container(), fixture.sealed_container());
    let open = fixture.catalog.open_container(fixture.writer).unwrap();
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.commit_with(fixture.writer, vec![logical], vec![written("a", 1)]).unwrap();
    let moves = [(logical, file), (open, file), (ContainerId(99), file)];
    assert!(fixture.catalog.relocate(snapshot, &moves).unwrap().is_empty());
    assert_eq!(fixture.catalog.container(logical).unwrap().unwrap().physical, logical);
}

fn segments_move_only_into_live_files(fixture: &Fixture) {
    let (logical, file) = (fixture.sealed_container(), fixture.sealed_container());
    condemn(fixture, &[file]);
    let snapshot = fixture.catalog.snapshot().unwrap();
    let refused = fixture.catalog.relocate(snapshot, &[(logical, file), (logical, ContainerId(99))]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [file, ContainerId(99)]);
    assert_eq!(fixture.catalog.container(logical).unwrap().unwrap().physical, logical);
}

fn a_file_goes_when_its_last_number_leaves_it(fixture: &Fixture) {
    let (first, second, file) = (fixture.sealed_container(), fixture.sealed_container(), fixture.sealed_container());
    snapshot_and_move(fixture, &[(first, file), (second, file)]);
    refresh(fixture);
    fixture.catalog.deleted(&fixture.catalog.deletable().unwrap()).unwrap();
    // Nothing refers to the file by its own number; it still bears the two others.
    condemn(fixture, &[file, first]);
    refresh(fixture);
    assert!(fixture.catalog.deletable().unwrap().is_empty());
    let third = fixture.sealed_container();
    assert_eq!(snapshot_and_move(fixture, &[(second, third)]).1, [second]);
    assert!(fixture.catalog.deletable().unwrap().is_empty(), "a session older than the move is left");
    refresh(fixture);
    assert_eq!(fixture.catalog.deletable().unwrap(), [file]);
    fixture.catalog.deleted(&[file]).unwrap();
    let states = [first, second, file, third].map(|id| state(fixture, id));
    use ContainerState::{Gone, Live};
    assert_eq!(states, [Gone, Live, Gone, Live]);
}

fn files_that_bear_live_numbers_cannot_be_deleted(fixture: &Fixture) {
    let container = fixture.sealed_container();
    fixture.catalog.deleted(&[container, ContainerId(99)]).unwrap();
    assert_eq!(state(fixture, container), ContainerState::Live);
}

fn numbers_of_deleted_containers_are_not_given_again(fixture: &Fixture) {
    let container = fixture.sealed_container();
    condemn(fixture, &[container]);
    refresh(fixture);
    fixture.catalog.deleted(&[container]).unwrap();
    assert!(fixture.catalog.open_container(fixture.writer).unwrap() > container);
    assert_refused!(fixture.commit_with(fixture.writer, vec![container], vec![]), Error::NotLive { .. });
}

//! Promises of collection.

use super::*;
use crate::{Checkpoint, ContainerState, Error, Join, Snapshot};

promises!(
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

fn state(stand: &Stand, container: ContainerId) -> ContainerState {
    stand.catalog.container(container).unwrap().unwrap().state
}

fn condemn(stand: &Stand, containers: &[ContainerId]) {
    let snapshot = stand.catalog.snapshot().unwrap();
    assert_eq!(stand.catalog.condemn(snapshot, containers).unwrap(), containers);
}

/// Lets the writer's session rely on nothing any more.
fn refresh(stand: &Stand) {
    stand.catalog.renew(stand.writer, 1000 * LEASE_MS, true).unwrap();
}

fn joined(stand: &Stand) -> SessionId {
    let join = Join {
        path: path("p"),
        nodes: vec![],
        stripe_bytes: 1,
        job: String::new(),
        key: format::HandleKey([1; 16]),
        lease_ms: LEASE_MS,
    };
    let session = stand.catalog.join(&join).unwrap().id;
    stand.catalog.take_seat(session, 0, 7).unwrap();
    session
}

fn checkpoint(stand: &Stand, session: SessionId, number: u64, references: &[ContainerId]) {
    let root = root(99, number as u32);
    let checkpoint = Checkpoint {
        session,
        seat: 0,
        holder: 7,
        number,
        epoch: 0,
        root,
        size: 1,
        resized: true,
        frontier: vec![(1, 2, 3)],
        stamps: vec![(4, 5, 6)],
    };
    stand.catalog.checkpoint(stand.writer, &checkpoint, references, u64::MAX).unwrap();
}

fn roots_are_paged_versions_first(stand: &Stand) {
    let session = joined(stand);
    checkpoint(stand, session, 1, &[]);
    stand.commit((1..=3).map(|size| written("a", size)).collect()).unwrap();
    checkpoint(stand, session, 2, &[]);
    stand.commit(vec![written("b", 4), linked("c", "b")]).unwrap();
    let expected = [root(1, 1), root(1, 2), root(1, 3), root(1, 4), root(99, 1), root(99, 2)];
    for limit in 1..8 {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = stand.catalog.roots(after, limit).unwrap();
            assert!(page.len() <= limit);
            let Some((last, _)) = page.last() else { break };
            after = *last;
            found.extend(page.into_iter().map(|(_, root)| root));
        }
        assert_eq!(found, expected, "{limit} a page");
    }
}

fn what_is_referred_to_since_the_snapshot_is_not_condemned(stand: &Stand) {
    let (before, after, never) = (stand.sealed_container(), stand.sealed_container(), stand.sealed_container());
    stand.commit_with(stand.writer, vec![before], vec![written("a", 1)]).unwrap();
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.commit_with(stand.writer, vec![after], vec![written("b", 1)]).unwrap();
    // That `before` is referred to from before the snapshot is what marking finds out.
    assert_eq!(stand.catalog.condemn(snapshot, &[before, after, never]).unwrap(), [before, never]);
    assert_eq!(state(stand, after), ContainerState::Live);
    let later = stand.catalog.snapshot().unwrap();
    assert!(later.referral > snapshot.referral && later.epoch > snapshot.epoch);
    assert_eq!(stand.catalog.condemn(later, &[after]).unwrap(), [after]);
}

fn what_a_checkpoint_refers_to_since_the_snapshot_is_not_condemned(stand: &Stand) {
    let (container, session) = (stand.sealed_container(), joined(stand));
    let snapshot = stand.catalog.snapshot().unwrap();
    checkpoint(stand, session, 1, &[container]);
    assert!(stand.catalog.condemn(snapshot, &[container]).unwrap().is_empty());
}

fn only_live_containers_are_condemned(stand: &Stand) {
    let open = stand.catalog.open_container(stand.writer).unwrap();
    let live = stand.sealed_container();
    let snapshot = stand.catalog.snapshot().unwrap();
    let asked = [open, live, live, ContainerId(99)];
    assert_eq!(stand.catalog.condemn(snapshot, &asked).unwrap(), [live]);
    assert_eq!((state(stand, open), state(stand, live)), (ContainerState::Open, ContainerState::Condemned));
    let epoch = stand.catalog.snapshot().unwrap().epoch;
    assert!(stand.catalog.condemn(snapshot, &asked).unwrap().is_empty());
    assert_eq!(stand.catalog.snapshot().unwrap().epoch, epoch);
}

fn condemned_files_stay_until_older_sessions_are_gone(stand: &Stand) {
    let container = stand.sealed_container();
    let reader = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    condemn(stand, &[container]);
    let _younger = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap();
    assert!(stand.catalog.deletable().unwrap().is_empty());
    refresh(stand);
    assert!(stand.catalog.deletable().unwrap().is_empty());
    stand.catalog.end(reader).unwrap();
    assert_eq!(stand.catalog.deletable().unwrap(), [container]);
    assert_eq!(stand.catalog.containers().unwrap().len(), 1);
    stand.catalog.deleted(&[container]).unwrap();
    assert!(stand.catalog.deletable().unwrap().is_empty());
    assert!(stand.catalog.containers().unwrap().is_empty());
    assert_eq!(state(stand, container), ContainerState::Gone);
}

fn sessions_that_ran_out_hold_nothing_back(stand: &Stand) {
    let container = stand.sealed_container();
    let reader = stand.catalog.begin(Purpose::Read, LEASE_MS).unwrap().id;
    let open = stand.catalog.open_container(reader).unwrap();
    condemn(stand, &[container]);
    refresh(stand);
    stand.pass_ms(LEASE_MS as i64);
    assert_eq!(stand.catalog.deletable().unwrap(), [container]);
    assert_refused!(stand.catalog.renew(reader, LEASE_MS, false), Error::LeaseLost { .. });
    assert_eq!(state(stand, open), ContainerState::Live);
}

fn interrupted_sessions_hold_nothing_back(stand: &Stand) {
    let container = stand.sealed_container();
    let session = joined(stand);
    checkpoint(stand, session, 1, &[]);
    condemn(stand, &[container]);
    refresh(stand);
    assert!(stand.catalog.deletable().unwrap().is_empty());
    stand.pass_ms(LEASE_MS as i64);
    assert_eq!(stand.catalog.deletable().unwrap(), [container]);
    assert!(stand.catalog.path_session(session).unwrap().unwrap().interrupted);
    let commit = Commit {
        session: stand.writer,
        references: vec![],
        epoch: u64::MAX,
        changes: vec![],
        settles: vec![(session, 0, 1)],
    };
    stand.catalog.commit(&commit).unwrap();
    stand.catalog.snapshot().unwrap();
    assert_eq!(stand.catalog.path_session(session).unwrap(), None);
}

fn snapshot_and_move(stand: &Stand, moves: &[(ContainerId, ContainerId)]) -> (Snapshot, Vec<ContainerId>) {
    let snapshot = stand.catalog.snapshot().unwrap();
    (snapshot, stand.catalog.relocate(snapshot, moves).unwrap())
}

fn a_relocated_number_lives_on_in_its_new_file(stand: &Stand) {
    let (first, second, file) = (stand.sealed_container(), stand.sealed_container(), stand.sealed_container());
    let (_, moved) = snapshot_and_move(stand, &[(first, file), (second, file), (file, file)]);
    assert_eq!(moved, [first, second]);
    refresh(stand);
    assert_eq!(stand.catalog.deletable().unwrap(), [first, second]);
    stand.catalog.deleted(&[first, second]).unwrap();
    let found: Vec<_> = stand.catalog.containers().unwrap().iter().map(|r| (r.id, r.state, r.physical)).collect();
    assert_eq!(found, [first, second, file].map(|id| (id, ContainerState::Live, file)));
    let statistics = stand.catalog.statistics().unwrap();
    assert_eq!((statistics.live_containers, statistics.condemned_containers), (1, 0));
    assert_eq!(statistics.container_bytes, 100);
}

fn what_was_lost_is_forgotten_once_its_number_has_moved_or_is_gone(stand: &Stand) {
    let [moved, gone, left, file] = [(); 4].map(|()| stand.sealed_container());
    let fingerprint = format::Fingerprint([7; 32]);
    let lost = [moved, gone, left].map(|container| (format::Place::new(container, 3), fingerprint));
    stand.catalog.lose(&lost).unwrap();
    snapshot_and_move(stand, &[(moved, file)]);
    condemn(stand, &[gone]);
    let containers = || stand.catalog.lost().unwrap().iter().map(|lost| lost.place.container).collect::<Vec<_>>();
    assert_eq!(containers(), [gone, left], "its segments may still be read by older sessions");
    refresh(stand);
    let deletable = stand.catalog.deletable().unwrap();
    stand.catalog.deleted(&deletable).unwrap();
    assert_eq!(containers(), [left]);
}

fn files_that_a_number_left_are_known_until_they_are_deleted(stand: &Stand) {
    let (number, second, third) = (stand.sealed_container(), stand.sealed_container(), stand.sealed_container());
    let files = || stand.catalog.files_of(number).unwrap();
    assert_eq!(files(), [number]);
    snapshot_and_move(stand, &[(number, second)]);
    assert_eq!(files(), [second, number]);
    refresh(stand);
    // Told of a segment in the second file: it must find it there, whatever the third has left behind.
    snapshot_and_move(stand, &[(number, third), (second, third)]);
    assert_eq!(files(), [third, second, number]);
    assert_eq!(stand.catalog.deletable().unwrap(), [number]);
    stand.catalog.deleted(&[number]).unwrap();
    assert_eq!(files(), [third, second]);
    assert_eq!(stand.catalog.files_of(second).unwrap(), [third, second]);
    condemn(stand, &[number]);
    assert_eq!(files(), [third, second], "condemned, and its file still there");
    refresh(stand);
    stand.catalog.deleted(&stand.catalog.deletable().unwrap()).unwrap();
    assert_eq!(files(), [third]);
    assert!(stand.catalog.files_of(ContainerId(99)).unwrap().is_empty());
}

fn what_is_referred_to_since_the_snapshot_is_not_moved(stand: &Stand) {
    let (logical, file) = (stand.sealed_container(), stand.sealed_container());
    let open = stand.catalog.open_container(stand.writer).unwrap();
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.commit_with(stand.writer, vec![logical], vec![written("a", 1)]).unwrap();
    let moves = [(logical, file), (open, file), (ContainerId(99), file)];
    assert!(stand.catalog.relocate(snapshot, &moves).unwrap().is_empty());
    assert_eq!(stand.catalog.container(logical).unwrap().unwrap().physical, logical);
}

fn segments_move_only_into_live_files(stand: &Stand) {
    let (logical, file) = (stand.sealed_container(), stand.sealed_container());
    condemn(stand, &[file]);
    let snapshot = stand.catalog.snapshot().unwrap();
    let refused = stand.catalog.relocate(snapshot, &[(logical, file), (logical, ContainerId(99))]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [file, ContainerId(99)]);
    assert_eq!(stand.catalog.container(logical).unwrap().unwrap().physical, logical);
}

fn a_file_goes_when_its_last_number_leaves_it(stand: &Stand) {
    let (first, second, file) = (stand.sealed_container(), stand.sealed_container(), stand.sealed_container());
    snapshot_and_move(stand, &[(first, file), (second, file)]);
    refresh(stand);
    stand.catalog.deleted(&stand.catalog.deletable().unwrap()).unwrap();
    // Nothing refers to the file by its own number; it still bears the two others.
    condemn(stand, &[file, first]);
    refresh(stand);
    assert!(stand.catalog.deletable().unwrap().is_empty());
    let third = stand.sealed_container();
    assert_eq!(snapshot_and_move(stand, &[(second, third)]).1, [second]);
    assert!(stand.catalog.deletable().unwrap().is_empty(), "a session older than the move is left");
    refresh(stand);
    assert_eq!(stand.catalog.deletable().unwrap(), [file]);
    stand.catalog.deleted(&[file]).unwrap();
    let states = [first, second, file, third].map(|id| state(stand, id));
    use ContainerState::{Gone, Live};
    assert_eq!(states, [Gone, Live, Gone, Live]);
}

fn files_that_bear_live_numbers_cannot_be_deleted(stand: &Stand) {
    let container = stand.sealed_container();
    stand.catalog.deleted(&[container, ContainerId(99)]).unwrap();
    assert_eq!(state(stand, container), ContainerState::Live);
}

fn numbers_of_deleted_containers_are_not_given_again(stand: &Stand) {
    let container = stand.sealed_container();
    condemn(stand, &[container]);
    refresh(stand);
    stand.catalog.deleted(&[container]).unwrap();
    assert!(stand.catalog.open_container(stand.writer).unwrap() > container);
    assert_refused!(stand.commit_with(stand.writer, vec![container], vec![]), Error::NotLive { .. });
}

//! Checks of container states.

use super::*;
use crate::{ContainerRecord, ContainerState, Error};

checks!(
    container_numbers_count_up_from_one,
    sealing_makes_live_and_keeps_the_figures,
    what_is_no_longer_live_cannot_be_sealed,
    addresses_in_a_truncated_container_are_refused_to_their_earlier_users,
    unknown_containers_are_not_there,
    containers_grow_until_they_are_sealed_or_their_writers_lease_is_over,
    statistics_count_files_and_containers,
);

fn container_numbers_count_up_from_one(fixture: &Fixture) {
    let numbers: Vec<_> = (0..3).map(|_| fixture.catalog.open_container(fixture.writer).unwrap().0).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let listed = fixture.catalog.containers().unwrap();
    assert_eq!(listed.iter().map(|record| record.id.0).collect::<Vec<_>>(), numbers);
}

fn sealing_makes_live_and_keeps_the_figures(fixture: &Fixture) {
    let id = fixture.catalog.open_container(fixture.writer).unwrap();
    assert_eq!(fixture.catalog.container(id).unwrap().unwrap().state, ContainerState::Open);
    fixture.catalog.seal_container(id, 500, 50).unwrap();
    let record = ContainerRecord { id, state: ContainerState::Live, physical: id, stored_bytes: 500, segments: 50 };
    assert_eq!(fixture.catalog.container(id).unwrap(), Some(record));
    assert_eq!(fixture.catalog.containers().unwrap(), [record]);
}

fn what_is_no_longer_live_cannot_be_sealed(fixture: &Fixture) {
    assert_refused!(fixture.catalog.seal_container(ContainerId(9), 1, 1), Error::NotLive { .. });
    let container = fixture.sealed_container();
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.catalog.condemn(snapshot, &[container]).unwrap();
    assert_refused!(fixture.catalog.seal_container(container, 1, 1), Error::NotLive { .. });
}

fn unknown_containers_are_not_there(fixture: &Fixture) {
    assert_eq!(fixture.catalog.container(ContainerId(1)).unwrap(), None);
}

fn containers_grow_until_they_are_sealed_or_their_writers_lease_is_over(fixture: &Fixture) {
    let brief = fixture.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let growing = || fixture.catalog.growing().unwrap();
    let (first, second) =
        (fixture.catalog.open_container(fixture.writer).unwrap(), fixture.catalog.open_container(brief).unwrap());
    assert_eq!(growing(), [first, second]);
    fixture.catalog.seal_container(first, 500, 50).unwrap();
    assert_eq!(growing(), [second]);
    fixture.pass_ms(LEASE_MS as i64 + 1);
    assert_eq!(growing(), []);
    assert_eq!(fixture.catalog.container(second).unwrap().unwrap().state, ContainerState::Open);
    fixture.catalog.renew(brief, LEASE_MS, false).unwrap();
    assert_eq!(growing(), [second]);
    fixture.catalog.end(brief).unwrap();
    assert_eq!(growing(), []);
}

fn statistics_count_files_and_containers(fixture: &Fixture) {
    assert_eq!(fixture.catalog.statistics().unwrap(), Default::default());
    fixture.commit(vec![written("d/a", 5), written("d/b", 7), made("s", FileKind::Symlink)]).unwrap();
    fixture.commit(vec![written("d/a", 6), linked("d/c", "d/a")]).unwrap();
    let (condemned, _live) = (fixture.sealed_container(), fixture.sealed_container());
    let snapshot = fixture.catalog.snapshot().unwrap();
    fixture.catalog.condemn(snapshot, &[condemned]).unwrap();
    let found = fixture.catalog.statistics().unwrap();
    assert_eq!((found.files, found.directories, found.versions, found.logical_bytes), (2, 1, 3, 18));
    // Attributes alone: the content is the one before. Content that comes again after another is stored as often as it was written.
    fixture.commit(vec![written("d/a", 6)]).unwrap();
    fixture.commit(vec![written("d/a", 5)]).unwrap();
    let found = fixture.catalog.statistics().unwrap();
    assert_eq!((found.versions, found.logical_bytes), (5, 23));
    assert_eq!((found.live_containers, found.condemned_containers), (1, 1));
    assert_eq!((found.container_bytes, found.container_segments), (200, 20));
}

fn addresses_in_a_truncated_container_are_refused_to_their_earlier_users(fixture: &Fixture) {
    let catalog = &fixture.catalog;
    let container = catalog.open_container(fixture.writer).unwrap();
    let before = catalog.renew(fixture.writer, LEASE_MS, true).unwrap().epoch;
    catalog.truncate_container(container).unwrap();
    let record = ContainerRecord {
        id: container,
        state: ContainerState::Live,
        physical: container,
        stored_bytes: 0,
        segments: 0,
    };
    assert_eq!(catalog.container(container).unwrap(), Some(record));
    assert_eq!(catalog.growing().unwrap(), []);
    let commit = |epoch| {
        let (session, references) = (fixture.writer, vec![container]);
        catalog.commit(&Commit { session, references, epoch, changes: vec![written("a", 1)], checkpoints: vec![] })
    };
    assert_refused!(commit(before), Error::NotLive { .. });
    let after = catalog.renew(fixture.writer, LEASE_MS, true).unwrap().epoch;
    assert!(after > before);
    commit(after).unwrap();
    assert_refused!(catalog.truncate_container(ContainerId(9)), Error::NotLive { .. });
}

//! Promises of container states.

use super::*;
use crate::{ContainerRecord, ContainerState, Error};

promises!(
    container_numbers_count_up_from_one,
    sealing_makes_live_and_keeps_the_figures,
    what_is_no_longer_live_cannot_be_sealed,
    unknown_containers_are_not_there,
    containers_grow_until_they_are_sealed_or_their_writers_lease_is_over,
    statistics_count_files_and_containers,
);

fn container_numbers_count_up_from_one(stand: &Stand) {
    let numbers: Vec<_> = (0..3).map(|_| stand.catalog.open_container(stand.writer).unwrap().0).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let listed = stand.catalog.containers().unwrap();
    assert_eq!(listed.iter().map(|record| record.id.0).collect::<Vec<_>>(), numbers);
}

fn sealing_makes_live_and_keeps_the_figures(stand: &Stand) {
    let id = stand.catalog.open_container(stand.writer).unwrap();
    assert_eq!(stand.catalog.container(id).unwrap().unwrap().state, ContainerState::Open);
    stand.catalog.seal_container(id, 500, 50).unwrap();
    let record = ContainerRecord { id, state: ContainerState::Live, physical: id, stored_bytes: 500, segments: 50 };
    assert_eq!(stand.catalog.container(id).unwrap(), Some(record));
    assert_eq!(stand.catalog.containers().unwrap(), [record]);
}

fn what_is_no_longer_live_cannot_be_sealed(stand: &Stand) {
    assert_refused!(stand.catalog.seal_container(ContainerId(9), 1, 1), Error::NotLive { .. });
    let container = stand.sealed_container();
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.catalog.condemn(snapshot, &[container]).unwrap();
    assert_refused!(stand.catalog.seal_container(container, 1, 1), Error::NotLive { .. });
}

fn unknown_containers_are_not_there(stand: &Stand) {
    assert_eq!(stand.catalog.container(ContainerId(1)).unwrap(), None);
}

fn containers_grow_until_they_are_sealed_or_their_writers_lease_is_over(stand: &Stand) {
    let brief = stand.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let growing = || stand.catalog.growing().unwrap();
    let (first, second) =
        (stand.catalog.open_container(stand.writer).unwrap(), stand.catalog.open_container(brief).unwrap());
    assert_eq!(growing(), [first, second]);
    stand.catalog.seal_container(first, 500, 50).unwrap();
    assert_eq!(growing(), [second]);
    stand.pass_ms(LEASE_MS as i64 + 1);
    assert_eq!(growing(), []);
    assert_eq!(stand.catalog.container(second).unwrap().unwrap().state, ContainerState::Open);
    stand.catalog.renew(brief, LEASE_MS, false).unwrap();
    assert_eq!(growing(), [second]);
    stand.catalog.end(brief).unwrap();
    assert_eq!(growing(), []);
}

fn statistics_count_files_and_containers(stand: &Stand) {
    assert_eq!(stand.catalog.statistics().unwrap(), Default::default());
    stand.commit(vec![written("d/a", 5), written("d/b", 7), made("s", FileKind::Symlink)]).unwrap();
    stand.commit(vec![written("d/a", 6), linked("d/c", "d/a")]).unwrap();
    let (condemned, _live) = (stand.sealed_container(), stand.sealed_container());
    let snapshot = stand.catalog.snapshot().unwrap();
    stand.catalog.condemn(snapshot, &[condemned]).unwrap();
    let found = stand.catalog.statistics().unwrap();
    assert_eq!((found.files, found.directories, found.versions, found.logical_bytes), (2, 1, 3, 18));
    // Attributes alone: the content is the one before. What comes again after another is stored as often as it was written.
    stand.commit(vec![written("d/a", 6)]).unwrap();
    stand.commit(vec![written("d/a", 5)]).unwrap();
    let found = stand.catalog.statistics().unwrap();
    assert_eq!((found.versions, found.logical_bytes), (5, 23));
    assert_eq!((found.live_containers, found.condemned_containers), (1, 1));
    assert_eq!((found.container_bytes, found.container_segments), (200, 20));
}

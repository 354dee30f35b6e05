//! Promises of commits: all or nothing, references, bases, versions.

use super::*;
use crate::{ContainerState, Error};

promises!(
    a_commit_is_all_or_nothing,
    references_must_be_open_or_live,
    references_are_checked_before_changes_and_after_the_lease,
    a_moved_container_is_not_referred_to_by_older_sessions,
    a_base_that_is_no_longer_the_head_is_refused,
    a_base_of_none_wants_a_new_file,
    a_base_of_a_file_that_was_made_again_is_refused,
    versions_count_from_one_and_are_dated,
    forgotten_versions_are_gone_and_their_numbers_not_given_again,
    the_newest_version_cannot_be_forgotten,
    versions_of_a_file_that_was_made_again_are_not_forgotten,
    a_name_that_came_back_is_a_new_file,
    the_numbers_of_a_commit_are_those_of_its_writes_in_order,
);

fn a_commit_is_all_or_nothing(stand: &Stand) {
    stand.write(&["d/kept", "d/other"]);
    let before = stand.catalog.list(&StorePath::root(), true, None, 99).unwrap();
    let changes = vec![
        written("d/kept", 9),
        written("new/a", 1),
        removed("d/other", false),
        linked("d/link", "d/kept"),
        renamed("d", "moved"),
        removed("missing", false),
    ];
    assert_refused!(stand.commit(changes), Error::NotFound { path } if path.to_string() == "missing");
    assert_eq!(stand.catalog.list(&StorePath::root(), true, None, 99).unwrap(), before);
    let unjournaled = stand.catalog.unjournaled(9).unwrap();
    assert_eq!(unjournaled.len(), 1);
    let next = stand.write(&["new/a"]);
    assert_eq!(next.sequence, unjournaled[0].sequence + 1);
    assert_eq!(next.numbers, [(format::FileId(3), 1)]);
}

fn references_must_be_open_or_live(stand: &Stand) {
    let open = stand.catalog.open_container(stand.writer).unwrap();
    let (live, condemned) = (stand.sealed_container(), stand.sealed_container());
    let snapshot = stand.catalog.snapshot().unwrap();
    assert_eq!(stand.catalog.condemn(snapshot, &[condemned]).unwrap(), [condemned]);
    stand.commit_with(stand.writer, vec![open, live], vec![written("a", 1)]).unwrap();
    let references = vec![live, ContainerId(77), condemned, condemned];
    let refused = stand.commit_with(stand.writer, references, vec![written("b", 1)]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [condemned, ContainerId(77)]);
    assert!(!stand.exists("b"));
}

fn references_are_checked_before_changes_and_after_the_lease(stand: &Stand) {
    let unknown = vec![ContainerId(5)];
    let impossible = vec![removed("missing", false)];
    let refused = stand.commit_with(stand.writer, unknown.clone(), impossible.clone());
    assert_refused!(refused, Error::NotLive { .. });
    assert_refused!(stand.commit_with(SessionId(99), unknown, impossible), Error::LeaseLost { .. });
}

fn a_moved_container_is_not_referred_to_by_older_sessions(stand: &Stand) {
    let (logical, physical) = (stand.sealed_container(), stand.sealed_container());
    let snapshot = stand.catalog.snapshot().unwrap();
    assert_eq!(stand.catalog.relocate(snapshot, &[(logical, physical)]).unwrap(), [logical]);
    let refused = stand.commit_with(stand.writer, vec![logical], vec![written("a", 1)]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [logical]);
    let younger = stand.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    stand.commit_with(younger, vec![logical], vec![written("a", 1)]).unwrap();
    stand.catalog.renew(stand.writer, LEASE_MS, true).unwrap();
    stand.commit_with(stand.writer, vec![logical], vec![written("a", 2)]).unwrap();
    let record = stand.catalog.container(logical).unwrap().unwrap();
    assert_eq!((record.state, record.physical), (ContainerState::Live, physical));
}

fn based(text: &str, base: Option<VersionId>) -> Change {
    let attributes = attributes(FileKind::Regular, 0o644);
    Change::Write { path: path(text), attributes, version: version(1), base: Some(base) }
}

fn a_base_that_is_no_longer_the_head_is_refused(stand: &Stand) {
    let (file, number) = stand.write(&["a"]).numbers[0];
    let first = Some(VersionId { file, number });
    stand.apply(based("a", first));
    let second = VersionId { file, number: 2 };
    assert_refused!(stand.commit(vec![based("a", first)]), Error::HeadMoved { head: Some(found), .. } if found == second);
    assert_refused!(stand.commit(vec![based("b", first)]), Error::HeadMoved { head: None, .. });
    assert_eq!(stand.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn a_base_of_none_wants_a_new_file(stand: &Stand) {
    stand.apply(based("a", None));
    assert_refused!(
        stand.commit(vec![based("a", None)]),
        Error::HeadMoved { head: Some(VersionId { number: 1, .. }), .. }
    );
}

fn a_base_of_a_file_that_was_made_again_is_refused(stand: &Stand) {
    let (file, number) = stand.write(&["a"]).numbers[0];
    stand.apply(removed("a", false));
    let (again, same_number) = stand.write(&["a"]).numbers[0];
    assert_eq!(number, same_number);
    let refused = stand.commit(vec![based("a", Some(VersionId { file, number }))]);
    assert_refused!(refused, Error::HeadMoved { head: Some(found), .. } if found == VersionId { file: again, number });
    stand.apply(based("a", Some(VersionId { file: again, number })));
    // A file of the same number by renaming is another one too.
    stand.write(&["b"]);
    stand.apply(removed("a", false));
    stand.apply(written("b", 2));
    stand.apply(renamed("b", "a"));
    let refused = stand.commit(vec![based("a", Some(VersionId { file: again, number: 2 }))]);
    assert_refused!(refused, Error::HeadMoved { .. });
}

fn versions_count_from_one_and_are_dated(stand: &Stand) {
    stand.apply(written("a", 10));
    stand.pass_ms(5);
    stand.apply(written("a", 20));
    let found = stand.catalog.versions(&path("a")).unwrap();
    let facts: Vec<_> =
        found.iter().map(|version| (version.number, version.record.size, version.committed_ns)).collect();
    assert_eq!(facts, [(1, 10, 1_000_000_000), (2, 20, 1_005_000_000)]);
    let entry = stand.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!(entry.head.as_ref(), found.last());
    assert_refused!(stand.catalog.versions(&path("b")), Error::NotFound { .. });
    assert!(stand.catalog.versions(&StorePath::root()).unwrap().is_empty());
}

fn forgotten_versions_are_gone_and_their_numbers_not_given_again(stand: &Stand) {
    stand.commit((1..=4).map(|size| written("a", size)).collect()).unwrap();
    stand.apply(Change::Forget { path: path("a"), file: stand.file("a"), versions: vec![1, 3, 77] });
    let numbers = || -> Vec<u64> { stand.catalog.versions(&path("a")).unwrap().iter().map(|v| v.number).collect() };
    assert_eq!(numbers(), [2, 4]);
    assert_eq!(stand.apply(written("a", 5)).numbers[0].1, 5);
    assert_eq!(numbers(), [2, 4, 5]);
}

fn the_newest_version_cannot_be_forgotten(stand: &Stand) {
    stand.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let refused = stand.commit(vec![Change::Forget { path: path("a"), file: stand.file("a"), versions: vec![1, 2] }]);
    assert_refused!(refused, Error::Refused { .. });
    assert_eq!(stand.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn versions_of_a_file_that_was_made_again_are_not_forgotten(stand: &Stand) {
    stand.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let file = stand.file("a");
    stand.apply(removed("a", false));
    let forget = || Change::Forget { path: path("a"), file, versions: vec![1] };
    assert_refused!(stand.commit(vec![forget()]), Error::NotFound { .. });
    stand.commit(vec![written("a", 3), written("a", 4)]).unwrap();
    assert_refused!(stand.commit(vec![forget()]), Error::Refused { .. });
    assert_eq!(stand.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn a_name_that_came_back_is_a_new_file(stand: &Stand) {
    let (first, _) = stand.write(&["a"]).numbers[0];
    stand.apply(written("a", 2));
    stand.apply(removed("a", false));
    let (second, number) = stand.write(&["a"]).numbers[0];
    assert!(second != first && number == 1);
    assert_eq!(stand.catalog.versions(&path("a")).unwrap().len(), 1);
}

fn the_numbers_of_a_commit_are_those_of_its_writes_in_order(stand: &Stand) {
    let changes = vec![written("b", 1), made("d", FileKind::Directory), written("a", 1), written("b", 2)];
    let numbers = stand.commit(changes).unwrap().numbers;
    let file = |text| stand.catalog.entry(&path(text)).unwrap().unwrap().file;
    assert_eq!(numbers, [(file("b"), 1), (file("a"), 1), (file("b"), 2)]);
}

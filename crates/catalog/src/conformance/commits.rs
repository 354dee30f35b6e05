//! Checks of commits: all or nothing, references, bases, versions.

use super::*;
use crate::{ContainerState, Error};

checks!(
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
    a_version_gets_another_manifest_and_stays_the_same_otherwise,
    a_manifest_stays_while_its_path_has_a_session,
);

fn a_commit_is_all_or_nothing(fixture: &Fixture) {
    fixture.write(&["d/kept", "d/other"]);
    let before = fixture.catalog.list(&StorePath::root(), true, None, 99).unwrap();
    let changes = vec![
        written("d/kept", 9),
        written("new/a", 1),
        removed("d/other", false),
        linked("d/link", "d/kept"),
        renamed("d", "moved"),
        removed("missing", false),
    ];
    assert_refused!(fixture.commit(changes), Error::NotFound { path } if path.to_string() == "missing");
    assert_eq!(fixture.catalog.list(&StorePath::root(), true, None, 99).unwrap(), before);
    let unjournaled = fixture.catalog.unjournaled(9).unwrap();
    assert_eq!(unjournaled.len(), 1);
    let next = fixture.write(&["new/a"]);
    assert_eq!(next.sequence, unjournaled[0].sequence + 1);
    assert_eq!(next.numbers, [(format::FileId(3), 1)]);
}

fn references_must_be_open_or_live(fixture: &Fixture) {
    let open = fixture.catalog.open_container(fixture.writer).unwrap();
    let (live, condemned) = (fixture.sealed_container(), fixture.sealed_container());
    let snapshot = fixture.catalog.snapshot().unwrap();
    assert_eq!(fixture.catalog.condemn(snapshot, &[condemned]).unwrap(), [condemned]);
    fixture.commit_with(fixture.writer, vec![open, live], vec![written("a", 1)]).unwrap();
    let references = vec![live, ContainerId(77), condemned, condemned];
    let refused = fixture.commit_with(fixture.writer, references, vec![written("b", 1)]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [condemned, ContainerId(77)]);
    assert!(!fixture.exists("b"));
}

fn references_are_checked_before_changes_and_after_the_lease(fixture: &Fixture) {
    let unknown = vec![ContainerId(5)];
    let impossible = vec![removed("missing", false)];
    let refused = fixture.commit_with(fixture.writer, unknown.clone(), impossible.clone());
    assert_refused!(refused, Error::NotLive { .. });
    assert_refused!(fixture.commit_with(SessionId(99), unknown, impossible), Error::LeaseLost { .. });
}

fn a_moved_container_is_not_referred_to_by_older_sessions(fixture: &Fixture) {
    let (logical, physical) = (fixture.sealed_container(), fixture.sealed_container());
    let snapshot = fixture.catalog.snapshot().unwrap();
    assert_eq!(fixture.catalog.relocate(snapshot, &[(logical, physical)]).unwrap(), [logical]);
    let refused = fixture.commit_with(fixture.writer, vec![logical], vec![written("a", 1)]);
    assert_refused!(refused, Error::NotLive { containers } if containers == [logical]);
    let younger = fixture.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    fixture.commit_with(younger, vec![logical], vec![written("a", 1)]).unwrap();
    fixture.catalog.renew(fixture.writer, LEASE_MS, true).unwrap();
    fixture.commit_with(fixture.writer, vec![logical], vec![written("a", 2)]).unwrap();
    let record = fixture.catalog.container(logical).unwrap().unwrap();
    assert_eq!((record.state, record.physical), (ContainerState::Live, physical));
}

fn based(text: &str, base: Option<VersionId>) -> Change {
    let attributes = attributes(FileKind::Regular, 0o644);
    Change::Write { path: path(text), attributes, version: version(1), base: Some(base) }
}

fn a_base_that_is_no_longer_the_head_is_refused(fixture: &Fixture) {
    let (file, number) = fixture.write(&["a"]).numbers[0];
    let first = Some(VersionId { file, number });
    fixture.apply(based("a", first));
    let second = VersionId { file, number: 2 };
    assert_refused!(fixture.commit(vec![based("a", first)]), Error::HeadMoved { head: Some(found), .. } if found == second);
    assert_refused!(fixture.commit(vec![based("b", first)]), Error::HeadMoved { head: None, .. });
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn a_base_of_none_wants_a_new_file(fixture: &Fixture) {
    fixture.apply(based("a", None));
    assert_refused!(
        fixture.commit(vec![based("a", None)]),
        Error::HeadMoved { head: Some(VersionId { number: 1, .. }), .. }
    );
}

fn a_base_of_a_file_that_was_made_again_is_refused(fixture: &Fixture) {
    let (file, number) = fixture.write(&["a"]).numbers[0];
    fixture.apply(removed("a", false));
    let (again, same_number) = fixture.write(&["a"]).numbers[0];
    assert_eq!(number, same_number);
    let refused = fixture.commit(vec![based("a", Some(VersionId { file, number }))]);
    assert_refused!(refused, Error::HeadMoved { head: Some(found), .. } if found == VersionId { file: again, number });
    fixture.apply(based("a", Some(VersionId { file: again, number })));
    // A file of the same number by renaming is another one too.
    fixture.write(&["b"]);
    fixture.apply(removed("a", false));
    fixture.apply(written("b", 2));
    fixture.apply(renamed("b", "a"));
    let refused = fixture.commit(vec![based("a", Some(VersionId { file: again, number: 2 }))]);
    assert_refused!(refused, Error::HeadMoved { .. });
}

fn versions_count_from_one_and_are_dated(fixture: &Fixture) {
    fixture.apply(written("a", 10));
    fixture.pass_ms(5);
    fixture.apply(written("a", 20));
    let found = fixture.catalog.versions(&path("a")).unwrap();
    let facts: Vec<_> =
        found.iter().map(|version| (version.number, version.record.size, version.committed_ns)).collect();
    assert_eq!(facts, [(1, 10, 1_000_000_000), (2, 20, 1_005_000_000)]);
    let entry = fixture.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!(entry.head.as_ref(), found.last());
    assert_refused!(fixture.catalog.versions(&path("b")), Error::NotFound { .. });
    assert!(fixture.catalog.versions(&StorePath::root()).unwrap().is_empty());
}

fn forgotten_versions_are_gone_and_their_numbers_not_given_again(fixture: &Fixture) {
    fixture.commit((1..=4).map(|size| written("a", size)).collect()).unwrap();
    fixture.apply(Change::Forget { path: path("a"), file: fixture.file("a"), versions: vec![1, 3, 77] });
    let numbers = || -> Vec<u64> { fixture.catalog.versions(&path("a")).unwrap().iter().map(|v| v.number).collect() };
    assert_eq!(numbers(), [2, 4]);
    assert_eq!(fixture.apply(written("a", 5)).numbers[0].1, 5);
    assert_eq!(numbers(), [2, 4, 5]);
}

fn the_newest_version_cannot_be_forgotten(fixture: &Fixture) {
    fixture.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let refused =
        fixture.commit(vec![Change::Forget { path: path("a"), file: fixture.file("a"), versions: vec![1, 2] }]);
    assert_refused!(refused, Error::Refused { .. });
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn versions_of_a_file_that_was_made_again_are_not_forgotten(fixture: &Fixture) {
    fixture.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let file = fixture.file("a");
    fixture.apply(removed("a", false));
    let forget = || Change::Forget { path: path("a"), file, versions: vec![1] };
    assert_refused!(fixture.commit(vec![forget()]), Error::NotFound { .. });
    fixture.commit(vec![written("a", 3), written("a", 4)]).unwrap();
    assert_refused!(fixture.commit(vec![forget()]), Error::Refused { .. });
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap().len(), 2);
}

fn a_name_that_came_back_is_a_new_file(fixture: &Fixture) {
    let (first, _) = fixture.write(&["a"]).numbers[0];
    fixture.apply(written("a", 2));
    fixture.apply(removed("a", false));
    let (second, number) = fixture.write(&["a"]).numbers[0];
    assert!(second != first && number == 1);
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap().len(), 1);
}

fn the_numbers_of_a_commit_are_those_of_its_writes_in_order(fixture: &Fixture) {
    let changes = vec![written("b", 1), made("d", FileKind::Directory), written("a", 1), written("b", 2)];
    let numbers = fixture.commit(changes).unwrap().numbers;
    let file = |text| fixture.catalog.entry(&path(text)).unwrap().unwrap().file;
    assert_eq!(numbers, [(file("b"), 1), (file("a"), 1), (file("b"), 2)]);
}

fn remapped(fixture: &Fixture, name: &str, number: u64, root: u8) -> Change {
    let version = format::VersionId { file: fixture.file(name), number };
    Change::Manifest { path: path(name), version, root: format::Root::Inline(vec![root]) }
}

fn a_version_gets_another_manifest_and_stays_the_same_otherwise(fixture: &Fixture) {
    fixture.commit(vec![written("a", 1), written("b", 5)]).unwrap();
    fixture.pass_ms(1);
    fixture.apply(written("a", 2));
    let mut expected = fixture.catalog.versions(&path("a")).unwrap();
    fixture.pass_ms(1);
    assert_eq!(fixture.commit(vec![remapped(fixture, "a", 1, 77)]).unwrap().numbers, []);
    expected[0].record.root = format::Root::Inline(vec![77]);
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap(), expected);
    let other = remapped(fixture, "b", 1, 78);
    let Change::Manifest { version, root, .. } = other else { unreachable!() };
    let wrong = Change::Manifest { path: path("a"), version, root };
    assert_refused!(fixture.commit(vec![wrong]), Error::Refused { .. });
    assert_refused!(fixture.commit(vec![remapped(fixture, "a", 9, 79)]), Error::NotFound { .. });
    assert_eq!(fixture.catalog.versions(&path("a")).unwrap(), expected);
    let copy = fixture.empty();
    copy.replay(&[], &fixture.catalog.unjournaled(99).unwrap(), &Default::default()).unwrap();
    assert_eq!(copy.versions(&path("a")).unwrap(), expected);
}

fn a_manifest_stays_while_its_path_has_a_session(fixture: &Fixture) {
    fixture.write(&["a"]);
    let session = super::path_sessions::join_at(fixture, "a");
    assert_refused!(fixture.commit(vec![remapped(fixture, "a", 1, 77)]), Error::Refused { .. });
    fixture.catalog.discard(session.id).unwrap();
    fixture.commit(vec![remapped(fixture, "a", 1, 77)]).unwrap();
}

//! Checks of the journal and its replay.

use super::*;
use crate::IssuedNumbers;
use crate::{ContainerRecord, ContainerState, Error};
use format::JournalRecord;

checks!(
    every_commit_waits_to_be_journaled,
    a_replayed_catalog_is_the_same,
    replay_gives_the_numbers_of_the_journal,
    replay_wants_an_empty_catalog,
    replayed_numbers_are_not_given_again,
    a_replayed_catalog_counts_on_above_the_last_known_transaction,
    changes_to_names_that_no_record_makes_are_reported,
    a_view_stays_as_it_was_while_others_commit,
    a_journal_with_gaps_is_replayed_as_far_as_it_goes,
    impossible_numbers_are_damage,
    records_of_another_catalog_are_unknown,
    what_is_stated_again_makes_the_same,
);

fn every_commit_waits_to_be_journaled(fixture: &Fixture) {
    let changes = vec![written("a", 1), made("d", FileKind::Directory)];
    let first = fixture.commit(changes.clone()).unwrap();
    let second = fixture.write(&["b"]);
    let found = fixture.catalog.unjournaled(9).unwrap();
    let record = JournalRecord {
        sequence: first.sequence,
        committed_ns: 1_000_000_000,
        session: fixture.writer,
        numbers: first.numbers,
        changes,
    };
    assert_eq!(found[0], record);
    assert_eq!(fixture.catalog.unjournaled(1).unwrap(), [record]);
    fixture.catalog.journaled(&[first.sequence, 99]).unwrap();
    let left = fixture.catalog.unjournaled(9).unwrap();
    assert_eq!(left.iter().map(|record| record.sequence).collect::<Vec<_>>(), [second.sequence]);
}

fn a_replayed_catalog_is_the_same(fixture: &Fixture) {
    fixture.commit(vec![written("d/a", 1), made("d/s", FileKind::Symlink), written("b", 1)]).unwrap();
    fixture.pass_ms(1);
    fixture.commit(vec![written("d/a", 2), linked("c", "d/a"), renamed("d", "e/f"), removed("b", false)]).unwrap();
    fixture.write(&["b"]);
    fixture.apply(Change::Forget { path: path("c"), file: fixture.file("c"), versions: vec![1] });
    let copy = fixture.empty();
    copy.replay(&[], &fixture.catalog.unjournaled(99).unwrap(), &Default::default()).unwrap();
    let all = |catalog: &dyn LocalCatalog| catalog.list(&StorePath::root(), true, None, 99).unwrap();
    assert_eq!(all(copy.as_ref()), all(fixture.catalog.as_ref()));
    assert_eq!(copy.versions(&path("c")).unwrap(), fixture.catalog.versions(&path("c")).unwrap());
    assert!(copy.unjournaled(9).unwrap().is_empty());
}

fn record(sequence: u64, numbers: Vec<(u64, u64)>, changes: Vec<Change>) -> JournalRecord {
    let numbers = numbers.into_iter().map(|(file, version)| (FileId(file), version)).collect();
    JournalRecord { sequence, committed_ns: 5, session: SessionId(40), numbers, changes }
}

fn replay_gives_the_numbers_of_the_journal(fixture: &Fixture) {
    let Change::Write { path: a, attributes, version, .. } = written("a", 1) else { unreachable!() };
    let based =
        Change::Write { path: a, attributes, version, base: Some(Some(VersionId { file: FileId(77), number: 12 })) };
    fixture.catalog.replay(&[], &[record(8, vec![(31, 13)], vec![based])], &Default::default()).unwrap();
    let entry = fixture.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!((entry.file, entry.links), (FileId(31), 1));
    assert_eq!(entry.head.map(|head| (head.number, head.committed_ns)), Some((13, 5)));
}

fn replay_wants_an_empty_catalog(fixture: &Fixture) {
    fixture.write(&["a"]);
    assert_refused!(fixture.catalog.replay(&[], &[], &Default::default()), Error::Refused { .. });
}

fn replayed_numbers_are_not_given_again(fixture: &Fixture) {
    let live = ContainerRecord {
        id: ContainerId(6),
        state: ContainerState::Live,
        physical: ContainerId(9),
        stored_bytes: 1,
        segments: 1,
    };
    let open = ContainerRecord { id: ContainerId(9), state: ContainerState::Open, physical: ContainerId(9), ..live };
    // The version's root lies in container 20, which was not found.
    let mut lost = written("a", 1);
    if let Change::Write { version, .. } = &mut lost {
        version.root = root(20, 0);
    }
    fixture.catalog.replay(&[live, open], &[record(8, vec![(31, 13)], vec![lost])], &Default::default()).unwrap();
    let found = fixture.catalog.containers().unwrap();
    assert_eq!(found, [live, ContainerRecord { state: ContainerState::Live, ..open }]);
    let session = fixture.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    assert_eq!(session, SessionId(41));
    assert_eq!(fixture.catalog.open_container(session).unwrap(), ContainerId(21));
    let next = fixture.commit_with(session, vec![], vec![written("b", 1), written("a", 1)]).unwrap();
    assert_eq!((next.sequence, next.numbers), (9, vec![(FileId(32), 1), (FileId(31), 14)]));
}

fn a_replayed_catalog_counts_on_above_the_last_known_transaction(fixture: &Fixture) {
    let given = IssuedNumbers { sequence: 70, container: 50, session: 60, file: 40 };
    fixture.catalog.replay(&[], &[record(8, vec![(1, 1)], vec![written("a", 1)])], &given).unwrap();
    let session = fixture.catalog.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let committed = fixture.commit_with(session, vec![], vec![written("b", 1)]).unwrap();
    assert_eq!((committed.sequence, committed.numbers), (71, vec![(FileId(41), 1)]));
    assert_eq!((session, fixture.catalog.open_container(session).unwrap()), (SessionId(61), ContainerId(51)));
}

fn changes_to_names_that_no_record_makes_are_reported(fixture: &Fixture) {
    let records = [record(3, vec![], vec![renamed("lost", "found"), removed("also lost", false)])];
    let left_out = fixture.catalog.replay(&[], &records, &Default::default()).unwrap();
    assert_eq!(left_out.iter().map(|left| left.path.clone()).collect::<Vec<_>>(), [path("lost")]);
}

fn a_view_stays_as_it_was_while_others_commit(fixture: &Fixture) {
    let first = fixture.write(&["a"]);
    let view = fixture.catalog.view().unwrap();
    fixture.write(&["a", "b"]);
    assert_eq!(view.sequence().unwrap(), first.sequence);
    assert_eq!(view.unjournaled().unwrap().len(), 1);
    let listed = view.list(None, 9).unwrap();
    assert_eq!(listed.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), [path("a")]);
    assert_eq!(view.list(Some(&path("a")), 9).unwrap(), []);
    assert_eq!(view.versions(&path("a")).unwrap().len(), 1);
}

fn a_journal_with_gaps_is_replayed_as_far_as_it_goes(fixture: &Fixture) {
    let records = [
        record(2, vec![(4, 3)], vec![removed("gone", false), written("a", 3)]),
        // In the gap, `a` was renamed to `b` and another `a` written.
        record(5, vec![(4, 4), (9, 2)], vec![written("b", 4), written("a", 2)]),
    ];
    let left_out = fixture.catalog.replay(&[], &records, &Default::default()).unwrap();
    let reported: Vec<_> = left_out.iter().map(|left| (left.sequence, left.path.clone(), left.why.as_str())).collect();
    let skipped = |sequence, text, why| (sequence, path(text), why);
    assert_eq!(
        reported,
        [
            skipped(2, "a", "the records of its versions 1 to 2 are missing"),
            skipped(5, "a", "the record of its version 1 is missing")
        ]
    );
    let file = |text| fixture.catalog.entry(&path(text)).unwrap().unwrap().file;
    assert_eq!((file("b"), file("a")), (FileId(4), FileId(9)));
    let numbers: Vec<_> = fixture.catalog.versions(&path("b")).unwrap().iter().map(|version| version.number).collect();
    assert_eq!(numbers, [3, 4]);
}

fn impossible_numbers_are_damage(fixture: &Fixture) {
    let absurd = record(2, vec![(u64::MAX, 1)], vec![written("a", 1)]);
    assert_refused!(fixture.catalog.replay(&[], &[absurd], &Default::default()), Error::Corrupt { .. });
    let unnumbered = record(2, vec![], vec![written("a", 1)]);
    assert_refused!(fixture.catalog.replay(&[], &[unnumbered], &Default::default()), Error::Corrupt { .. });
    assert!(fixture.names().is_empty());
}

fn records_of_another_catalog_are_unknown(fixture: &Fixture) {
    let identity = |record: &JournalRecord| (record.sequence, JournalRecord::checksum_of(&record.encode()));
    let first = fixture.write(&["a"]);
    let other = fixture.empty();
    other.replay(&[], &fixture.catalog.unjournaled(9).unwrap(), &Default::default()).unwrap();
    fixture.catalog.journaled(&[first.sequence]).unwrap();
    fixture.write(&["b"]);
    let own: Vec<_> = fixture.catalog.unjournaled(9).unwrap().iter().map(identity).collect();
    assert_eq!(fixture.catalog.unknown_records(&own).unwrap(), []);
    assert_eq!(other.unknown_records(&own).unwrap(), [2], "of a later transaction");
    let session = other.begin(Purpose::Write, LEASE_MS).unwrap().id;
    let changes = vec![written("c", 1)];
    let commit = Commit { session, references: vec![], epoch: u64::MAX, changes, checkpoints: vec![] };
    assert_eq!(other.commit(&commit).unwrap().sequence, 2);
    assert_eq!(other.unknown_records(&own).unwrap(), [2], "another transaction has its sequence");
    let all: Vec<_> = other.unjournaled(9).unwrap().iter().map(identity).collect();
    assert_eq!(
        (other.unknown_records(&all).unwrap(), fixture.catalog.unknown_records(&all).unwrap()),
        (vec![], vec![2])
    );
}

fn what_is_stated_again_makes_the_same(fixture: &Fixture) {
    for size in 1..=4 {
        fixture.pass_ms(1);
        fixture.commit(vec![written("d/a", size)]).unwrap();
    }
    fixture.apply(Change::Forget { path: path("d/a"), file: fixture.file("d/a"), versions: vec![1, 3] });
    fixture.commit(vec![linked("c", "d/a"), made("d/s", FileKind::Symlink), written("b", 1)]).unwrap();
    let first: Vec<_> = fixture.catalog.unjournaled(99).unwrap().iter().map(|record| record.sequence).collect();
    fixture.catalog.journaled(&first).unwrap();
    let all = |catalog: &dyn LocalCatalog| catalog.list(&StorePath::root(), true, None, 99).unwrap();
    let before = all(fixture.catalog.as_ref());
    let paths: Vec<_> = before.iter().map(|(path, _)| path.clone()).chain([path("nothing")]).collect();
    fixture.catalog.restate(fixture.writer, &paths).unwrap();
    assert_eq!(all(fixture.catalog.as_ref()), before, "nothing changes here");
    let copy = fixture.empty();
    let records = fixture.catalog.unjournaled(99).unwrap();
    assert!(records.iter().all(|record| record.sequence > first.len() as u64));
    assert_eq!(copy.replay(&[], &records, &Default::default()).unwrap(), []);
    let named = |(path, entry): (StorePath, crate::FileEntry)| (path, entry.attributes, entry.head, entry.links);
    let named = |catalog: &dyn LocalCatalog| all(catalog).into_iter().map(named).collect::<Vec<_>>();
    assert_eq!(named(copy.as_ref()), named(fixture.catalog.as_ref()));
    assert_eq!(copy.versions(&path("c")).unwrap(), fixture.catalog.versions(&path("d/a")).unwrap());
    assert_refused!(fixture.catalog.restate(SessionId(99), &paths), Error::LeaseLost { .. });
}

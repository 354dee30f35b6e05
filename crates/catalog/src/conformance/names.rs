//! Checks of names: directories, links, removing, renaming, attributes.

use super::*;
use crate::Error;
use format::{FileTime, FileTimes};

checks!(
    the_root_is_a_directory_from_the_beginning,
    the_root_takes_attributes_and_nothing_else,
    directories_above_a_written_path_are_made,
    nothing_lies_below_a_file,
    a_directory_is_not_written_onto,
    kinds_do_not_change_silently,
    making_a_directory_again_sets_its_attributes,
    a_symlink_and_a_file_replace_each_other,
    hard_links_share_file_versions_and_attributes,
    a_file_stays_until_its_last_name_goes,
    directories_are_not_linked,
    removing_needs_recursion_for_what_is_not_empty,
    removing_leaves_neighbours_alone,
    renaming_a_directory_moves_all_below_it,
    renaming_replaces_a_file,
    renaming_onto_directories_or_into_itself_is_refused,
    renaming_keeps_the_versions,
    paths_may_hold_any_bytes,
    paths_do_not_grow_too_long_by_renaming,
    attributes_come_back_whole,
    versions_keep_the_attributes_that_they_had,
);

fn refuses(fixture: &Fixture, change: Change) {
    let before = fixture.catalog.list(&StorePath::root(), true, None, 999).unwrap();
    assert_refused!(fixture.commit(vec![change]), Error::Refused { .. });
    assert_eq!(fixture.catalog.list(&StorePath::root(), true, None, 999).unwrap(), before);
}

fn the_root_is_a_directory_from_the_beginning(fixture: &Fixture) {
    let root = fixture.catalog.entry(&StorePath::root()).unwrap().unwrap();
    assert_eq!((root.attributes.kind, root.attributes.mode), (FileKind::Directory, 0o755));
    assert_eq!((root.head, root.links), (None, 1));
    assert!(fixture.names().is_empty());
}

fn the_root_takes_attributes_and_nothing_else(fixture: &Fixture) {
    fixture.write(&["a"]);
    for change in [written("", 1), removed("", true), renamed("", "b"), renamed("a", ""), linked("", "a")] {
        refuses(fixture, change);
    }
    refuses(fixture, made("", FileKind::Symlink));
    let path = StorePath::root();
    fixture.apply(Change::Attributes { path: path.clone(), attributes: attributes(FileKind::Directory, 0o711) });
    assert_eq!(fixture.catalog.entry(&path).unwrap().unwrap().attributes.mode, 0o711);
}

fn directories_above_a_written_path_are_made(fixture: &Fixture) {
    fixture.write(&["a/b/c"]);
    assert_eq!(fixture.names(), ["a", "a/b", "a/b/c"]);
    let directory = fixture.catalog.entry(&path("a/b")).unwrap().unwrap();
    assert_eq!((directory.attributes.kind, directory.attributes.mode), (FileKind::Directory, 0o755));
    fixture.apply(removed("a/b/c", false));
    assert_eq!(fixture.names(), ["a", "a/b"]);
}

fn nothing_lies_below_a_file(fixture: &Fixture) {
    fixture.commit(vec![written("a", 1), made("s", FileKind::Symlink), written("b", 1)]).unwrap();
    for above in ["a", "s"] {
        let below = format!("{above}/x");
        let deeper = format!("{above}/x/y");
        refuses(fixture, written(&below, 1));
        refuses(fixture, written(&deeper, 1));
        refuses(fixture, made(&below, FileKind::Directory));
        refuses(fixture, linked(&below, "b"));
        refuses(fixture, renamed("b", &below));
    }
}

fn a_directory_is_not_written_onto(fixture: &Fixture) {
    fixture.write(&["d/a"]);
    refuses(fixture, written("d", 1));
    refuses(fixture, made("d", FileKind::Symlink));
    refuses(fixture, linked("d", "d/a"));
    refuses(fixture, made("d/a", FileKind::Directory));
}

fn kinds_do_not_change_silently(fixture: &Fixture) {
    fixture.write(&["d/a"]);
    let directory = attributes(FileKind::Directory, 0);
    refuses(fixture, Change::Attributes { path: path("d/a"), attributes: directory.clone() });
    refuses(fixture, Change::Attributes { path: path("d"), attributes: attributes(FileKind::Regular, 0) });
    refuses(fixture, Change::Write { path: path("x"), attributes: directory, version: version(1), base: None });
    refuses(fixture, made("x", FileKind::Regular));
    let missing = Change::Attributes { path: path("x"), attributes: attributes(FileKind::Regular, 0) };
    assert_refused!(fixture.commit(vec![missing]), Error::NotFound { .. });
}

fn making_a_directory_again_sets_its_attributes(fixture: &Fixture) {
    fixture.write(&["d/a"]);
    let before = fixture.catalog.entry(&path("d")).unwrap().unwrap();
    fixture.apply(made("d", FileKind::Directory));
    let after = fixture.catalog.entry(&path("d")).unwrap().unwrap();
    assert_eq!((after.file, after.attributes.mode), (before.file, 0o700));
    assert!(fixture.exists("d/a"));
}

fn a_symlink_and_a_file_replace_each_other(fixture: &Fixture) {
    let kind = || fixture.catalog.entry(&path("a")).unwrap().unwrap().attributes.kind;
    fixture.write(&["a"]);
    fixture.apply(made("a", FileKind::Symlink));
    assert_eq!(kind(), FileKind::Symlink);
    let (_, number) = fixture.write(&["a"]).numbers[0];
    assert_eq!((kind(), number), (FileKind::Regular, 1));
    assert_eq!(fixture.catalog.statistics().unwrap().versions, 1);
}

fn hard_links_share_file_versions_and_attributes(fixture: &Fixture) {
    fixture.write(&["a"]);
    fixture.apply(linked("d/b", "a"));
    fixture.apply(linked("d/b", "a"));
    fixture.apply(written("d/b", 2));
    fixture.apply(Change::Attributes { path: path("a"), attributes: attributes(FileKind::Regular, 0o600) });
    let (a, b) = (fixture.catalog.entry(&path("a")).unwrap(), fixture.catalog.entry(&path("d/b")).unwrap());
    assert_eq!(a, b);
    let entry = a.unwrap();
    assert_eq!((entry.links, entry.attributes.mode, entry.head.unwrap().number), (2, 0o600, 2));
    assert_refused!(fixture.commit(vec![linked("c", "missing")]), Error::NotFound { path } if path.to_string() == "missing");
}

fn a_file_stays_until_its_last_name_goes(fixture: &Fixture) {
    fixture.write(&["a"]);
    fixture.commit(vec![linked("d/b", "a"), linked("d/c", "a"), removed("a", false)]).unwrap();
    assert_eq!(fixture.catalog.entry(&path("d/b")).unwrap().unwrap().links, 2);
    assert_eq!(fixture.catalog.versions(&path("d/c")).unwrap().len(), 1);
    fixture.apply(removed("d", true));
    assert_eq!(fixture.catalog.statistics().unwrap(), Default::default());
    assert!(fixture.catalog.roots(0, 9).unwrap().is_empty());
}

fn directories_are_not_linked(fixture: &Fixture) {
    fixture.write(&["d/a"]);
    refuses(fixture, linked("e", "d"));
    fixture.apply(made("s", FileKind::Symlink));
    fixture.apply(linked("t", "s"));
    assert_eq!(fixture.catalog.entry(&path("t")).unwrap().unwrap().links, 2);
}

fn removing_needs_recursion_for_what_is_not_empty(fixture: &Fixture) {
    fixture.write(&["d/e/a"]);
    refuses(fixture, removed("d", false));
    refuses(fixture, removed("d/e", false));
    assert_refused!(fixture.commit(vec![removed("x", true)]), Error::NotFound { .. });
    fixture.apply(removed("d/e", true));
    fixture.apply(removed("d", false));
    assert!(fixture.names().is_empty());
}

fn removing_leaves_neighbours_alone(fixture: &Fixture) {
    fixture.write(&["d/a", "d-/a", "d.x", "d0", "d0/.."].map(|text| text.trim_end_matches("/..")));
    fixture.apply(removed("d", true));
    assert_eq!(fixture.names(), ["d-", "d-/a", "d.x", "d0"]);
}

fn renaming_a_directory_moves_all_below_it(fixture: &Fixture) {
    fixture.write(&["d/a", "d/e/b", "d-x", "d0"]);
    let before = fixture.catalog.entry(&path("d/e/b")).unwrap();
    fixture.apply(renamed("d", "new/place"));
    assert_eq!(fixture.names(), ["d-x", "d0", "new", "new/place", "new/place/a", "new/place/e", "new/place/e/b"]);
    assert_eq!(fixture.catalog.entry(&path("new/place/e/b")).unwrap(), before);
    // Names are not cached beyond a rename.
    fixture.commit(vec![written("d/x", 1), renamed("d", "m"), written("d/y", 1)]).unwrap();
    assert!(fixture.exists("m/x") && fixture.exists("d") && fixture.exists("d/y") && !fixture.exists("d/x"));
}

fn renaming_replaces_a_file(fixture: &Fixture) {
    let numbers = fixture.write(&["a", "b"]).numbers;
    fixture.apply(renamed("a", "b"));
    assert_eq!(fixture.names(), ["b"]);
    assert_eq!(fixture.catalog.entry(&path("b")).unwrap().unwrap().file, numbers[0].0);
    assert_eq!(fixture.catalog.statistics().unwrap().versions, 1);
    // Two names of one file: the one moved is gone, the file stays.
    fixture.commit(vec![linked("c", "b"), renamed("b", "c")]).unwrap();
    assert_eq!(fixture.catalog.entry(&path("c")).unwrap().unwrap().links, 1);
    assert_eq!(fixture.names(), ["c"]);
}

fn renaming_onto_directories_or_into_itself_is_refused(fixture: &Fixture) {
    fixture.write(&["d/a", "e/b", "f"]);
    refuses(fixture, renamed("d", "e"));
    refuses(fixture, renamed("f", "e"));
    refuses(fixture, renamed("d", "f"));
    refuses(fixture, renamed("d/a", "d"));
    refuses(fixture, renamed("d", "d/x"));
    refuses(fixture, renamed("d", "d/x/y"));
    assert_refused!(fixture.commit(vec![renamed("missing", "x")]), Error::NotFound { .. });
    fixture.apply(renamed("d", "d"));
    fixture.apply(renamed("d", "dd"));
    assert!(fixture.exists("dd/a"));
}

fn renaming_keeps_the_versions(fixture: &Fixture) {
    fixture.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let versions = fixture.catalog.versions(&path("a")).unwrap();
    fixture.apply(renamed("a", "b"));
    assert_eq!(fixture.catalog.versions(&path("b")).unwrap(), versions);
    assert_eq!(fixture.apply(written("b", 3)).numbers[0].1, 3);
}

fn paths_may_hold_any_bytes(fixture: &Fixture) {
    let odd = |bytes: &[u8]| StorePath::new(bytes).unwrap();
    let names: [&[u8]; 4] = [b"\xff\xfe/\x01", b"\xc3\x28/a b", b"'\"%_\\/*", b"\xff\xff\xff\xff/\xff"];
    for name in names {
        let Change::Write { attributes, version, base, .. } = written("x", 1) else { unreachable!() };
        fixture.apply(Change::Write { path: odd(name), attributes, version, base });
        let parent = odd(name).parent().unwrap();
        fixture.apply(Change::Rename { from: parent.clone(), to: odd(b"moved") });
        let listed = fixture.catalog.list(&odd(b"moved"), false, None, 9).unwrap();
        assert_eq!(listed[0].0.name(), odd(name).name());
        fixture.apply(Change::Rename { from: odd(b"moved"), to: parent });
        assert!(fixture.catalog.entry(&odd(name)).unwrap().is_some(), "{name:?}");
    }
    assert_eq!(fixture.catalog.list(&StorePath::root(), false, None, 9).unwrap().len(), names.len());
}

fn paths_do_not_grow_too_long_by_renaming(fixture: &Fixture) {
    let name = "n".repeat(2000);
    fixture.write(&[&format!("d/{name}")]);
    refuses(fixture, renamed("d", &format!("{name}/{}", "m".repeat(100))));
    fixture.apply(renamed("d", &format!("{name}/{}", "m".repeat(94))));
    assert_eq!(fixture.names().last().unwrap().len(), 4096);
}

fn attributes_come_back_whole(fixture: &Fixture) {
    let attributes = Attributes {
        kind: FileKind::Regular,
        mode: 0o4755,
        uid: u32::MAX,
        gid: 7,
        times: FileTimes { modified: FileTime::from_ns(-1), changed: FileTime { seconds: i64::MAX, nanoseconds: 1 } },
        inode: u64::MAX,
        target: vec![],
        extended: vec![(b"user.x".to_vec(), vec![0, 255])],
    };
    let version = VersionRecord { root: Root::Inline(vec![1, 2, 3]), size: u64::MAX, content: Some([9; 32]) };
    let change = Change::Write { path: path("a"), attributes, version, base: None };
    fixture.apply(change.clone());
    let Change::Write { attributes, version, .. } = change else { unreachable!() };
    let entry = fixture.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!((entry.attributes, entry.head.unwrap().record), (attributes, version));
}

fn versions_keep_the_attributes_that_they_had(fixture: &Fixture) {
    let write = |mode: u32| {
        let Change::Write { path, version, base, .. } = written("a", mode.into()) else {
            unreachable!("it is a write")
        };
        fixture.apply(Change::Write { path, attributes: attributes(FileKind::Regular, mode), version, base });
    };
    let modes = || -> Vec<Option<u32>> {
        let versions = fixture.catalog.versions(&path("a")).unwrap();
        versions.into_iter().map(|version| version.attributes.map(|attributes| attributes.mode)).collect()
    };
    write(0o600);
    write(0o640);
    // Attributes of the newest version, which is the one that changes.
    fixture.apply(Change::Attributes { path: path("a"), attributes: attributes(FileKind::Regular, 0o644) });
    write(0o444);
    assert_eq!(modes(), [Some(0o600), Some(0o644), None]);
    let entry = fixture.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!((entry.attributes.mode, entry.head.unwrap().attributes), (0o444, None));
}

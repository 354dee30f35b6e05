//! Promises of names: directories, links, removing, renaming, attributes.

use super::*;
use crate::Error;
use format::{FileTime, FileTimes};

promises!(
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

fn refuses(stand: &Stand, change: Change) {
    let before = stand.catalog.list(&StorePath::root(), true, None, 999).unwrap();
    assert_refused!(stand.commit(vec![change]), Error::Refused { .. });
    assert_eq!(stand.catalog.list(&StorePath::root(), true, None, 999).unwrap(), before);
}

fn the_root_is_a_directory_from_the_beginning(stand: &Stand) {
    let root = stand.catalog.entry(&StorePath::root()).unwrap().unwrap();
    assert_eq!((root.attributes.kind, root.attributes.mode), (FileKind::Directory, 0o755));
    assert_eq!((root.head, root.links), (None, 1));
    assert!(stand.names().is_empty());
}

fn the_root_takes_attributes_and_nothing_else(stand: &Stand) {
    stand.write(&["a"]);
    for change in [written("", 1), removed("", true), renamed("", "b"), renamed("a", ""), linked("", "a")] {
        refuses(stand, change);
    }
    refuses(stand, made("", FileKind::Symlink));
    let path = StorePath::root();
    stand.apply(Change::Attributes { path: path.clone(), attributes: attributes(FileKind::Directory, 0o711) });
    assert_eq!(stand.catalog.entry(&path).unwrap().unwrap().attributes.mode, 0o711);
}

fn directories_above_a_written_path_are_made(stand: &Stand) {
    stand.write(&["a/b/c"]);
    assert_eq!(stand.names(), ["a", "a/b", "a/b/c"]);
    let directory = stand.catalog.entry(&path("a/b")).unwrap().unwrap();
    assert_eq!((directory.attributes.kind, directory.attributes.mode), (FileKind::Directory, 0o755));
    stand.apply(removed("a/b/c", false));
    assert_eq!(stand.names(), ["a", "a/b"]);
}

fn nothing_lies_below_a_file(stand: &Stand) {
    stand.commit(vec![written("a", 1), made("s", FileKind::Symlink), written("b", 1)]).unwrap();
    for above in ["a", "s"] {
        let below = format!("{above}/x");
        let deeper = format!("{above}/x/y");
        refuses(stand, written(&below, 1));
        refuses(stand, written(&deeper, 1));
        refuses(stand, made(&below, FileKind::Directory));
        refuses(stand, linked(&below, "b"));
        refuses(stand, renamed("b", &below));
    }
}

fn a_directory_is_not_written_onto(stand: &Stand) {
    stand.write(&["d/a"]);
    refuses(stand, written("d", 1));
    refuses(stand, made("d", FileKind::Symlink));
    refuses(stand, linked("d", "d/a"));
    refuses(stand, made("d/a", FileKind::Directory));
}

fn kinds_do_not_change_silently(stand: &Stand) {
    stand.write(&["d/a"]);
    let directory = attributes(FileKind::Directory, 0);
    refuses(stand, Change::Attributes { path: path("d/a"), attributes: directory.clone() });
    refuses(stand, Change::Attributes { path: path("d"), attributes: attributes(FileKind::Regular, 0) });
    refuses(stand, Change::Write { path: path("x"), attributes: directory, version: version(1), base: None });
    refuses(stand, made("x", FileKind::Regular));
    let missing = Change::Attributes { path: path("x"), attributes: attributes(FileKind::Regular, 0) };
    assert_refused!(stand.commit(vec![missing]), Error::NotFound { .. });
}

fn making_a_directory_again_sets_its_attributes(stand: &Stand) {
    stand.write(&["d/a"]);
    let before = stand.catalog.entry(&path("d")).unwrap().unwrap();
    stand.apply(made("d", FileKind::Directory));
    let after = stand.catalog.entry(&path("d")).unwrap().unwrap();
    assert_eq!((after.file, after.attributes.mode), (before.file, 0o700));
    assert!(stand.exists("d/a"));
}

fn a_symlink_and_a_file_replace_each_other(stand: &Stand) {
    let kind = || stand.catalog.entry(&path("a")).unwrap().unwrap().attributes.kind;
    stand.write(&["a"]);
    stand.apply(made("a", FileKind::Symlink));
    assert_eq!(kind(), FileKind::Symlink);
    let (_, number) = stand.write(&["a"]).numbers[0];
    assert_eq!((kind(), number), (FileKind::Regular, 1));
    assert_eq!(stand.catalog.statistics().unwrap().versions, 1);
}

fn hard_links_share_file_versions_and_attributes(stand: &Stand) {
    stand.write(&["a"]);
    stand.apply(linked("d/b", "a"));
    stand.apply(linked("d/b", "a"));
    stand.apply(written("d/b", 2));
    stand.apply(Change::Attributes { path: path("a"), attributes: attributes(FileKind::Regular, 0o600) });
    let (a, b) = (stand.catalog.entry(&path("a")).unwrap(), stand.catalog.entry(&path("d/b")).unwrap());
    assert_eq!(a, b);
    let entry = a.unwrap();
    assert_eq!((entry.links, entry.attributes.mode, entry.head.unwrap().number), (2, 0o600, 2));
    assert_refused!(stand.commit(vec![linked("c", "missing")]), Error::NotFound { path } if path.to_string() == "missing");
}

fn a_file_stays_until_its_last_name_goes(stand: &Stand) {
    stand.write(&["a"]);
    stand.commit(vec![linked("d/b", "a"), linked("d/c", "a"), removed("a", false)]).unwrap();
    assert_eq!(stand.catalog.entry(&path("d/b")).unwrap().unwrap().links, 2);
    assert_eq!(stand.catalog.versions(&path("d/c")).unwrap().len(), 1);
    stand.apply(removed("d", true));
    assert_eq!(stand.catalog.statistics().unwrap(), Default::default());
    assert!(stand.catalog.roots(0, 9).unwrap().is_empty());
}

fn directories_are_not_linked(stand: &Stand) {
    stand.write(&["d/a"]);
    refuses(stand, linked("e", "d"));
    stand.apply(made("s", FileKind::Symlink));
    stand.apply(linked("t", "s"));
    assert_eq!(stand.catalog.entry(&path("t")).unwrap().unwrap().links, 2);
}

fn removing_needs_recursion_for_what_is_not_empty(stand: &Stand) {
    stand.write(&["d/e/a"]);
    refuses(stand, removed("d", false));
    refuses(stand, removed("d/e", false));
    assert_refused!(stand.commit(vec![removed("x", true)]), Error::NotFound { .. });
    stand.apply(removed("d/e", true));
    stand.apply(removed("d", false));
    assert!(stand.names().is_empty());
}

fn removing_leaves_neighbours_alone(stand: &Stand) {
    stand.write(&["d/a", "d-/a", "d.x", "d0", "d0/.."].map(|text| text.trim_end_matches("/..")));
    stand.apply(removed("d", true));
    assert_eq!(stand.names(), ["d-", "d-/a", "d.x", "d0"]);
}

fn renaming_a_directory_moves_all_below_it(stand: &Stand) {
    stand.write(&["d/a", "d/e/b", "d-x", "d0"]);
    let before = stand.catalog.entry(&path("d/e/b")).unwrap();
    stand.apply(renamed("d", "new/place"));
    assert_eq!(stand.names(), ["d-x", "d0", "new", "new/place", "new/place/a", "new/place/e", "new/place/e/b"]);
    assert_eq!(stand.catalog.entry(&path("new/place/e/b")).unwrap(), before);
    // What was there is not thought to be there still.
    stand.commit(vec![written("d/x", 1), renamed("d", "m"), written("d/y", 1)]).unwrap();
    assert!(stand.exists("m/x") && stand.exists("d") && stand.exists("d/y") && !stand.exists("d/x"));
}

fn renaming_replaces_a_file(stand: &Stand) {
    let numbers = stand.write(&["a", "b"]).numbers;
    stand.apply(renamed("a", "b"));
    assert_eq!(stand.names(), ["b"]);
    assert_eq!(stand.catalog.entry(&path("b")).unwrap().unwrap().file, numbers[0].0);
    assert_eq!(stand.catalog.statistics().unwrap().versions, 1);
    // Two names of one file: the one moved is gone, the file stays.
    stand.commit(vec![linked("c", "b"), renamed("b", "c")]).unwrap();
    assert_eq!(stand.catalog.entry(&path("c")).unwrap().unwrap().links, 1);
    assert_eq!(stand.names(), ["c"]);
}

fn renaming_onto_directories_or_into_itself_is_refused(stand: &Stand) {
    stand.write(&["d/a", "e/b", "f"]);
    refuses(stand, renamed("d", "e"));
    refuses(stand, renamed("f", "e"));
    refuses(stand, renamed("d", "f"));
    refuses(stand, renamed("d/a", "d"));
    refuses(stand, renamed("d", "d/x"));
    refuses(stand, renamed("d", "d/x/y"));
    assert_refused!(stand.commit(vec![renamed("missing", "x")]), Error::NotFound { .. });
    stand.apply(renamed("d", "d"));
    stand.apply(renamed("d", "dd"));
    assert!(stand.exists("dd/a"));
}

fn renaming_keeps_the_versions(stand: &Stand) {
    stand.commit(vec![written("a", 1), written("a", 2)]).unwrap();
    let versions = stand.catalog.versions(&path("a")).unwrap();
    stand.apply(renamed("a", "b"));
    assert_eq!(stand.catalog.versions(&path("b")).unwrap(), versions);
    assert_eq!(stand.apply(written("b", 3)).numbers[0].1, 3);
}

fn paths_may_hold_any_bytes(stand: &Stand) {
    let odd = |bytes: &[u8]| StorePath::new(bytes).unwrap();
    let names: [&[u8]; 4] = [b"\xff\xfe/\x01", b"\xc3\x28/a b", b"'\"%_\\/*", b"\xff\xff\xff\xff/\xff"];
    for name in names {
        let Change::Write { attributes, version, base, .. } = written("x", 1) else { unreachable!() };
        stand.apply(Change::Write { path: odd(name), attributes, version, base });
        let parent = odd(name).parent().unwrap();
        stand.apply(Change::Rename { from: parent.clone(), to: odd(b"moved") });
        let listed = stand.catalog.list(&odd(b"moved"), false, None, 9).unwrap();
        assert_eq!(listed[0].0.name(), odd(name).name());
        stand.apply(Change::Rename { from: odd(b"moved"), to: parent });
        assert!(stand.catalog.entry(&odd(name)).unwrap().is_some(), "{name:?}");
    }
    assert_eq!(stand.catalog.list(&StorePath::root(), false, None, 9).unwrap().len(), names.len());
}

fn paths_do_not_grow_too_long_by_renaming(stand: &Stand) {
    let name = "n".repeat(2000);
    stand.write(&[&format!("d/{name}")]);
    refuses(stand, renamed("d", &format!("{name}/{}", "m".repeat(100))));
    stand.apply(renamed("d", &format!("{name}/{}", "m".repeat(94))));
    assert_eq!(stand.names().last().unwrap().len(), 4096);
}

fn attributes_come_back_whole(stand: &Stand) {
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
    stand.apply(change.clone());
    let Change::Write { attributes, version, .. } = change else { unreachable!() };
    let entry = stand.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!((entry.attributes, entry.head.unwrap().record), (attributes, version));
}

fn versions_keep_the_attributes_that_they_had(stand: &Stand) {
    let write = |mode: u32| {
        let Change::Write { path, version, base, .. } = written("a", mode.into()) else {
            unreachable!("it is a write")
        };
        stand.apply(Change::Write { path, attributes: attributes(FileKind::Regular, mode), version, base });
    };
    let modes = || -> Vec<Option<u32>> {
        let versions = stand.catalog.versions(&path("a")).unwrap();
        versions.into_iter().map(|version| version.attributes.map(|attributes| attributes.mode)).collect()
    };
    write(0o600);
    write(0o640);
    // Of the newest version, which is the one that changes.
    stand.apply(Change::Attributes { path: path("a"), attributes: attributes(FileKind::Regular, 0o644) });
    write(0o444);
    assert_eq!(modes(), [Some(0o600), Some(0o644), None]);
    let entry = stand.catalog.entry(&path("a")).unwrap().unwrap();
    assert_eq!((entry.attributes.mode, entry.head.unwrap().attributes), (0o444, None));
}

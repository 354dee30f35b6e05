//! Snapshots against plain maps: whatever happens to the names, and whenever a collection comes, a tree comes back.

use std::collections::{BTreeMap, BTreeSet};

use format::{
    Attributes, Change, FileKind, FileTime, SNAPSHOT_ATTRIBUTE, SnapshotEntry, SnapshotRecord, StorePath,
    VersionRecord, Writer,
};
use random::Random;
use repository::{
    Damage, Error, Packed, Packer, Repository, SnapshotDraft, SnapshotOrigin, TreeSnapshot, collect, verify,
};
use store::ClaimOwner;

use crate::files::put;
use crate::fixture::{CLAIM_OWNER, World, path, with_seeds};

type Tree = BTreeMap<StorePath, Vec<u8>>;

/// Returns what a put of the one source begins with.
fn origin(repository: &Repository, count: u64) -> SnapshotOrigin {
    let mut origin = SnapshotOrigin {
        taken: FileTime::from_ns(count as i64),
        host: "here".into(),
        sources: vec![(b"/source".to_vec(), path("t"))],
        tags: Vec::new(),
        missing: 0,
        unlisted: Vec::new(),
        unfinished: Vec::new(),
        own_lists: Vec::new(),
    };
    origin.unfinished = repository.unfinished_lists(&origin).unwrap();
    origin
}

fn record(repository: &Repository, names: &BTreeSet<StorePath>, count: u64) -> String {
    record_at(FileTime::from_ns(count as i64), repository, names, count)
}

/// Records what is at these names, and returns the snapshot's name.
fn record_at(taken: FileTime, repository: &Repository, names: &BTreeSet<StorePath>, count: u64) -> String {
    let mut draft = SnapshotDraft::default();
    for name in names {
        let entry = repository.catalog().entry(name).unwrap().unwrap();
        let head = entry.head.unwrap();
        let listed = draft.add_file(name, &entry.attributes, &head.record);
        draft.number(listed, (entry.file, head.number));
    }
    let origin = SnapshotOrigin { taken, ..origin(repository, count) };
    let mut numbers = count..;
    let id = || Ok::<_, Error>(format!("{:08x}", numbers.next().unwrap()));
    repository.record_snapshot(ClaimOwner(100 + count), draft, origin, id).unwrap().id
}

fn content(repository: &Repository, snapshot: &TreeSnapshot) -> Tree {
    let mut tree = Tree::new();
    snapshot
        .list(repository, &StorePath::root(), true, |listed| {
            for (path, entry) in listed {
                let Some(head) = entry.head else { continue };
                let mut bytes = vec![0xee; head.record.size as usize];
                let read = repository.reader(&head.record.root, head.record.size).read_at(0, &mut bytes)?;
                assert_eq!(read, bytes.len());
                tree.insert(path, bytes);
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    tree
}

fn remove(process: &Repository, name: &StorePath) {
    let change = Change::Remove { path: name.clone(), recursive: false };
    process.commit(CLAIM_OWNER, vec![change], BTreeSet::new(), Vec::new()).unwrap();
}

#[test]
fn trees_come_back_whatever_happens_to_their_names() {
    with_seeds(30, |seed| {
        let (mut random, world) = (Random::new(seed), World::new());
        let mut process = world.process();
        let (mut tree, mut kept) = (Tree::new(), BTreeMap::<String, Tree>::new());
        for step in 1..40 {
            match random.below(8) {
                0..=3 => {
                    let name = path(&format!("t/{}/{}", random.below(3), random.below(12)));
                    let count = [0, 1, 700, 20_000, 400_000][random.below(5) as usize];
                    let bytes = random.mixed_bytes(count);
                    put(&process, &[(&name.to_string(), &bytes)]);
                    tree.insert(name, bytes);
                }
                4 if !tree.is_empty() => {
                    let name = tree.keys().nth(random.below(tree.len() as u64) as usize).unwrap().clone();
                    remove(&process, &name);
                    tree.remove(&name);
                }
                5 => {
                    kept.insert(record(&process, &tree.keys().cloned().collect(), step), tree.clone());
                }
                6 if !kept.is_empty() => {
                    let id = kept.keys().nth(random.below(kept.len() as u64) as usize).unwrap().clone();
                    let snapshots = process.snapshots().unwrap().readable;
                    let dropped: Vec<_> = snapshots.into_iter().filter(|snapshot| snapshot.id == id).collect();
                    let changes = process.without_snapshots(&dropped).unwrap();
                    process.commit(CLAIM_OWNER, changes, BTreeSet::new(), Vec::new()).unwrap();
                    kept.remove(&id);
                }
                _ => {
                    process.close().unwrap();
                    process = world.process();
                    collect(&process).unwrap();
                }
            }
        }
        process.close().unwrap();
        let process = world.process();
        collect(&process).unwrap();
        let found: BTreeMap<String, Tree> = process
            .snapshots()
            .unwrap()
            .readable
            .iter()
            .map(|snapshot| (snapshot.id.clone(), content(&process, snapshot)))
            .collect();
        assert!(found == kept, "seed {seed}: {:?} and {:?}", found.keys(), kept.keys());
    });
}

#[test]
fn a_name_leaves_the_place_with_the_snapshot_that_has_it_no_more() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/a", b"a"), ("t/b", b"b"), ("t/d/c", b"c")]);
    let names = |names: &[&str]| names.iter().map(|name| path(name)).collect::<BTreeSet<_>>();
    record(&process, &names(&["t/a", "t/b", "t/d/c"]), 1);
    put(&process, &[("t/b", b"written by another")]);
    record(&process, &names(&["t/a"]), 2);
    assert!(is_there(&process, "t/a") && is_there(&process, "t/b"), "another wrote it since");
    assert!(!is_there(&process, "t/d/c") && !is_there(&process, "t/d"), "with the last name its directory goes");
}

#[test]
fn a_snapshot_made_while_the_clock_was_ahead_is_not_the_newest_for_ever() {
    const DAY_NS: i64 = 86_400_000_000_000;
    let world = World::new();
    let process = world.process();
    let names = |names: &[&str]| names.iter().map(|name| path(name)).collect::<BTreeSet<_>>();
    put(&process, &[("t/a", b"a")]);
    let ahead = record_at(FileTime::from_ns(DAY_NS), &process, &names(&["t/a"]), 1);
    put(&process, &[("t/b", b"b")]);
    let later = record(&process, &names(&["t/a", "t/b"]), 2);
    let newest = record(&process, &names(&["t/a"]), 3);
    let order: Vec<String> = process.snapshots().unwrap().readable.into_iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(order, [ahead, later, newest]);
    assert!(
        process.catalog().entry(&path("t/b")).unwrap().is_none(),
        "compared with the one before, not the one ahead"
    );
}

#[test]
fn a_file_that_is_no_snapshot_is_named_and_stops_no_other() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/a", b"a"), (".thalweg-snapshots/0000000a", b"no listing")]);
    let id = record(&process, &BTreeSet::from([path("t/a")]), 1);
    let found = process.snapshots().unwrap();
    assert_eq!(found.readable.iter().map(|snapshot| &snapshot.id).collect::<Vec<_>>(), [&id], "others can be read");
    let unreadable = found.unreadable[0].to_string();
    assert!(unreadable.contains("forget STORE:: --snapshot '0000000a'"), "{unreadable}");
    let change = process.without_unreadable_snapshot("0000000a").unwrap().unwrap();
    process.commit(CLAIM_OWNER, vec![change], BTreeSet::new(), Vec::new()).unwrap();
    assert!(process.snapshots().unwrap().unreadable.is_empty());
}

/// Commits these contents as a put does that breaks off before its snapshot.
fn put_unfinished(process: &Repository, files: &[(&str, &[u8])], count: u64) {
    let mut packer = Packer::new(process, CLAIM_OWNER);
    for (name, bytes) in files {
        packer.begin();
        packer.data(bytes).unwrap();
        packer.end(path(name)).unwrap();
    }
    packer.flush().unwrap();
    let (mut changes, mut references) = (Vec::new(), BTreeSet::new());
    for Packed { tag, built, content } in packer.take_finished() {
        let version = VersionRecord { root: built.root, size: built.length, content };
        changes.push(Change::Write { path: tag, attributes: Attributes::default(), version, base: None });
        references.extend(built.references);
    }
    let id = format!("{count:024x}");
    let (list, more) = process.list_unfinished(ClaimOwner(7), &origin(process, count), &id, &changes).unwrap();
    changes.push(list);
    references.extend(more);
    process.commit(CLAIM_OWNER, changes, references, Vec::new()).unwrap();
}

fn is_there(process: &Repository, name: &str) -> bool {
    process.catalog().entry(&path(name)).unwrap().is_some()
}

#[test]
fn names_of_a_put_that_broke_off_leave_the_place_when_the_source_has_them_no_more() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/kept", b"kept"), ("t/by-another", b"by another")]);
    record(&process, &BTreeSet::from([path("t/kept")]), 1);
    put_unfinished(&process, &[("t/d/gone", b"gone"), ("t/kept", b"changed"), ("t/rewritten", b"before")], 2);
    assert_eq!(process.snapshots().unwrap().readable.len(), 1, "the list is no snapshot");
    put(&process, &[("t/rewritten", b"by another, since")]);
    record(&process, &BTreeSet::from([path("t/kept")]), 3);
    assert!(!is_there(&process, "t/d/gone") && !is_there(&process, "t/d"));
    assert!(is_there(&process, "t/kept") && is_there(&process, "t/by-another") && is_there(&process, "t/rewritten"));
    assert!(is_there(&process, ".thalweg-snapshots/00000003.removed/t/d/gone"), "no snapshot has its content");
    assert!(!is_there(&process, ".thalweg-snapshots/000000000000000000000002.unfinished"));
    // A second one wrote a new version of a file that the snapshot has.
    put_unfinished(&process, &[("t/kept", b"changed again")], 4);
    record(&process, &BTreeSet::new(), 5);
    assert!(!is_there(&process, "t/kept"));
    process.close().unwrap();
    collect(&world.process()).unwrap();
}

#[test]
fn a_name_goes_although_its_file_was_written_through_another() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/a", b"content")]);
    let link = Change::Link { path: path("t/b"), target: path("t/a") };
    process.commit(CLAIM_OWNER, vec![link], BTreeSet::new(), Vec::new()).unwrap();
    record(&process, &BTreeSet::from([path("t/a"), path("t/b")]), 1);
    put(&process, &[("t/a", b"changed")]);
    record(&process, &BTreeSet::from([path("t/a")]), 2);
    assert!(is_there(&process, "t/a") && !is_there(&process, "t/b"));
    assert!(!is_there(&process, ".thalweg-snapshots/00000002.removed"), "its versions are at the other name");
}

/// Writes a snapshot's file as a client that is not ours could, with this listing and these facts.
fn forge(process: &Repository, id: &str, listing: &[SnapshotEntry], facts: SnapshotRecord) {
    let mut bytes = Writer::new();
    listing.iter().for_each(|entry| entry.write(&mut bytes));
    let mut packer = Packer::new(process, CLAIM_OWNER);
    packer.begin();
    packer.data(bytes.as_bytes()).unwrap();
    packer.end(()).unwrap();
    packer.flush().unwrap();
    let Packed { built, .. } = packer.take_finished().pop().unwrap();
    let facts = SnapshotRecord { listing_bytes: built.length, ..facts };
    let extended = vec![(SNAPSHOT_ATTRIBUTE.to_vec(), facts.encode())];
    let attributes = Attributes { extended, ..Attributes::default() };
    let version = VersionRecord { root: built.root, size: built.length, content: None };
    let path = path(&format!(".thalweg-snapshots/{id}"));
    let change = Change::Write { path, attributes, version, base: None };
    process.commit(CLAIM_OWNER, vec![change], built.references, Vec::new()).unwrap();
}

#[test]
fn forged_listings_are_refused_and_verify_names_them() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/a", b"a")]);
    let whole = record(&process, &BTreeSet::from([path("t/a")]), 1);
    let listed = |name: &str| {
        let attributes = Attributes { kind: FileKind::Directory, ..Attributes::default() };
        SnapshotEntry { path: path(name), attributes, content: None }
    };
    let facts = SnapshotRecord { sources: vec![(b"/source".to_vec(), path("t"))], names: 2, ..Default::default() };
    forge(&process, "disorder", &[listed("t/b"), listed("t/a")], facts.clone());
    forge(&process, "doubled", &[listed("t/a"), listed("t/a")], facts.clone());
    forge(&process, "longer", &[listed("t/a"), listed("t/b"), listed("t/c")], facts.clone());
    forge(&process, "shorter", &[listed("t/a")], facts.clone());
    forge(&process, "untagged", &[listed("t/a")], SnapshotRecord { tags: vec!["b".into(), "a".into()], ..facts });
    let found = process.snapshots().unwrap();
    for snapshot in &found.readable {
        let done = snapshot.list(&process, &StorePath::root(), true, |_| Ok::<_, Error>(()));
        assert_eq!(done.is_ok(), snapshot.id == whole, "{}: {done:?}", snapshot.id);
        assert!(done.err().is_none_or(|error| error.to_string().contains(&snapshot.id)), "errors name it");
    }
    assert_eq!(found.unreadable.iter().map(|snapshot| &snapshot.id[..]).collect::<Vec<_>>(), ["untagged"]);
    process.close().unwrap();
    let damages = verify(&world.process(), true, &mut |_| {}).unwrap().damages;
    let named = |id: &str| {
        let forged = path(&format!(".thalweg-snapshots/{id}"));
        damages.iter().any(|damage| matches!(damage, Damage::Version { path, .. } if *path == forged))
    };
    assert!(["disorder", "doubled", "longer", "shorter", "untagged"].into_iter().all(named), "{damages:?}");
    assert_eq!(damages.len(), 5);
}

//! Snapshots against plain maps: whatever happens to the names, and whenever a collection comes, a tree comes back.

use std::collections::{BTreeMap, BTreeSet};

use format::{Change, FileTime, StorePath};
use random::Random;
use repository::{Error, Repository, SnapshotDraft, SnapshotOrigin, TreeSnapshot, collect};
use store::ClaimOwner;

use crate::files::put;
use crate::fixture::{CLAIM_OWNER, World, path, with_seeds};

type Tree = BTreeMap<StorePath, Vec<u8>>;

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
    let origin = SnapshotOrigin {
        taken,
        host: "here".into(),
        sources: vec![(b"/source".to_vec(), path("t"))],
        tags: Vec::new(),
        missing: 0,
        unlisted: Vec::new(),
    };
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
                    let snapshots = process.snapshots().unwrap();
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
    let is_there = |name: &str| process.catalog().entry(&path(name)).unwrap().is_some();
    assert!(is_there("t/a") && is_there("t/b"), "another wrote it since");
    assert!(!is_there("t/d/c") && !is_there("t/d"), "with the last name its directory goes");
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
    let order: Vec<String> = process.snapshots().unwrap().into_iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(order, [ahead, later, newest]);
    assert!(
        process.catalog().entry(&path("t/b")).unwrap().is_none(),
        "compared with the one before, not the one ahead"
    );
}

#[test]
fn a_listing_that_others_wrote_is_an_error() {
    let world = World::new();
    let process = world.process();
    put(&process, &[("t/a", b"a"), (".thalweg-snapshots/0000000a", b"no listing")]);
    let refused = process.snapshots().unwrap_err().to_string();
    assert!(refused.contains("forget STORE:: --snapshot 0000000a"), "{refused}");
    let change = process.without_unreadable_snapshot("0000000a").unwrap().unwrap();
    process.commit(CLAIM_OWNER, vec![change], BTreeSet::new(), Vec::new()).unwrap();
    assert!(process.snapshots().unwrap().is_empty());
}

//! Lists that are longer than a frame holds come whole through a node, page by page.

use std::sync::Arc;

use catalog::{Checkpoint, Commit, Join, Names};
use format::{Attributes, Change, Entry, EntryKind, HandleKey, Page, Root, StorePath, VersionRecord};
use repository::{Access, Repository};
use transfer::{Remote, RemoteCatalog};

use super::node::Node;
use super::runner::Store;

/// More than a frame's body holds.
const LIST_BYTES: usize = 72 << 20;
const ENTRY_BYTES: usize = 40_000;
const BATCH: usize = 400;

fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

/// A manifest that is long enough to be worth a page of its own.
fn root() -> Root {
    let entries = vec![Entry { length: 1, kind: EntryKind::Zero }; ENTRY_BYTES / format::ENTRY_BYTES];
    Root::Inline(Page { level: 0, entries }.encode())
}

fn size() -> u64 {
    (ENTRY_BYTES / format::ENTRY_BYTES) as u64
}

fn written(name: &str, attributes: Attributes) -> Change {
    let version = VersionRecord { root: root(), size: size(), content: None };
    Change::Write { path: path(name), attributes, version, base: None }
}

fn commit(repository: &Repository, changes: Vec<Change>) {
    let (session, epoch) = (repository.lease().session(), repository.lease().epoch());
    for changes in changes.chunks(BATCH) {
        let changes = changes.to_vec();
        let commit = Commit { session, references: Vec::new(), epoch, changes, checkpoints: Vec::new() };
        repository.catalog().commit(&commit).unwrap();
    }
}

/// Returns a node's answer on the store that `fill` has filled.
fn through_a_node<T>(fill: impl FnOnce(&Arc<Repository>), ask: impl FnOnce(&dyn Names) -> T) -> T {
    let store = Store::new();
    let repository = Arc::new(repository::open(&store.directory(), Access::Write).unwrap());
    fill(&repository);
    repository.close().unwrap();
    drop(repository);
    let node = Node::of(&store);
    ask(&RemoteCatalog::new(Remote::connect(&node.address, 1, "", "").unwrap()))
}

#[test]
fn all_versions_of_a_file_are_listed_through_a_node() {
    let count = LIST_BYTES / ENTRY_BYTES;
    let fill = |repository: &Arc<Repository>| {
        let changes = (0..count).map(|_| written("often", Attributes::default())).collect();
        commit(repository, changes);
    };
    let versions = through_a_node(fill, |catalog| catalog.versions(&path("often")).unwrap());
    let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
    assert_eq!(numbers, (1..=count as u64).collect::<Vec<_>>());
}

#[test]
fn all_names_of_a_directory_are_listed_through_a_node_however_long_their_attributes_are() {
    let count = LIST_BYTES / ENTRY_BYTES;
    let fill = |repository: &Arc<Repository>| {
        let extended = vec![(b"user.long".to_vec(), vec![7; ENTRY_BYTES])];
        let attributes = Attributes { extended, ..Attributes::default() };
        let changes: Vec<Change> = (0..count).map(|at| written(&format!("d/{at:05}"), attributes.clone())).collect();
        commit(repository, changes);
    };
    let names = through_a_node(fill, |catalog| catalog.list(&path("d"), false, None, usize::MAX).unwrap());
    let names: Vec<StorePath> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, (0..count).map(|at| path(&format!("d/{at:05}"))).collect::<Vec<_>>());
}

#[test]
fn all_sessions_and_their_checkpoints_are_listed_through_a_node() {
    let (sessions, checkpoints) = (120, LIST_BYTES / ENTRY_BYTES);
    let fill = |repository: &Arc<Repository>| {
        let nodes = vec!["n".repeat(700); 1000];
        let catalog = repository.local_catalog().unwrap();
        let join = |at: usize| {
            let (path, nodes, key) = (path(&format!("{at:05}")), nodes.clone(), HandleKey([1; HandleKey::BYTES]));
            let join = Join { path, nodes, stripe_bytes: 1 << 20, job: "job".into(), key, lease_ms: 600_000 };
            catalog.join(&join).unwrap().id
        };
        let session = (0..sessions).map(join).collect::<Vec<_>>()[0];
        let (stripe_set, owner) = (0, 7);
        let first = catalog.take_stripe_set(session, stripe_set, owner).unwrap();
        for number in first..first + checkpoints as u64 {
            let (root, size, resized) = (root(), size(), false);
            let (frontier, stamps) = (vec![(1, 1, number)], vec![(0, 1, number)]);
            let made =
                Checkpoint { session, stripe_set, owner, number, epoch: 1, root, size, resized, frontier, stamps };
            catalog.checkpoint(repository.lease().session(), &made, &[], repository.lease().epoch()).unwrap();
        }
    };
    let (found, made) = through_a_node(fill, |catalog| {
        let sessions = catalog.path_sessions().unwrap();
        let checkpoints = catalog.checkpoints(sessions[0].id).unwrap();
        (sessions, checkpoints)
    });
    assert_eq!(found.len(), sessions);
    assert!(found.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(made.len(), checkpoints);
    assert!(made.iter().all(|checkpoint| checkpoint.root == root() && checkpoint.frontier.is_empty()));
}

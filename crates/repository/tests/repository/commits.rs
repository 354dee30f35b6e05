//! Commits of remote clients: their references are checked before they are accepted; and a store that took a bad one
//! all the same is read, verified, counted and collected without a panic, by errors that name path and version.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{Commit, LocalCatalog};
use format::{
    Attributes, Block, BlockKind, Change, ContainerId, Entry, EntryKind, FingerprintKind, Page, Root, Run,
    SegmentAddress, SegmentEntry, VersionRecord, page_digest, run_digest,
};
use repository::{Error, Repository};
use segment::{BlockBuilder, fingerprint};

use crate::fixture::{CLAIM_OWNER, World, path};

fn stored(repository: &Repository, kind: BlockKind, segments: &[&[u8]]) -> (Run, Vec<SegmentEntry>) {
    let mut builder = BlockBuilder::new(kind, 0);
    segments.iter().for_each(|bytes| builder.push(fingerprint(FingerprintKind::Blake3, bytes), bytes));
    let block: Block = builder.finish(repository.settings.codec);
    (repository.store().put(CLAIM_OWNER, &block).unwrap(), block.segments)
}

fn data(run: Run, segments: &[SegmentEntry], length: u64) -> Entry {
    let digest = run_digest(segments.iter().map(|segment| &segment.fingerprint));
    Entry { length, kind: EntryKind::Data { run, skip: 0, digest } }
}

fn leaf(entries: Vec<Entry>) -> Page {
    Page { level: 0, entries }
}

/// The page as a stored segment.
fn rooted(repository: &Repository, page: &Page) -> Root {
    let bytes = page.encode();
    let (run, _) = stored(repository, BlockKind::Page, &[&bytes]);
    Root::Stored { address: SegmentAddress::new(run.container, run.first), digest: page_digest(&bytes) }
}

fn commit(repository: &Repository, root: Root, size: u64) -> Commit {
    let version = VersionRecord { root, size, content: None };
    let change = Change::Write { path: path("f"), attributes: Attributes::default(), version, base: None };
    let (session, epoch) = (repository.lease().session(), repository.lease().epoch());
    Commit { session, references: Vec::new(), epoch, changes: vec![change], checkpoints: Vec::new() }
}

/// Roots that lead nowhere, with sizes; those beyond the numbers there are come last.
fn impossible(repository: &Repository) -> Vec<(&'static str, Root, u64)> {
    let (run, segments) = stored(repository, BlockKind::Data, &[&[1; 1000], &[2; 1000]]);
    let good = data(run, &segments, 2000);
    let stray = |container, ordinal| Root::Stored {
        address: SegmentAddress::new(ContainerId(container), ordinal),
        digest: [7; 32],
    };
    let inline = |entries| Root::Inline(leaf(entries).encode());
    let of_run = |run| data(run, &segments, 2000);
    let child = rooted(repository, &leaf(vec![good]));
    let Root::Stored { address, digest } = child else { panic!("it is stored") };
    let above = |level, length| {
        let entries = vec![Entry { length, kind: EntryKind::Page { address, digest } }];
        Root::Inline(Page { level, entries }.encode())
    };
    vec![
        ("a container that there is not", stray(999, 0), 2000),
        ("an ordinal that there is not", stray(run.container.0, 9999), 2000),
        ("a segment that is no page", stray(run.container.0, run.first), 2000),
        ("no page at all", Root::Inline(b"TWGM, but not much more".to_vec()), 2000),
        ("sizes that differ", inline(vec![good]), 1999),
        ("a size beyond its manifest", inline(vec![good]), 1 << 40),
        ("more bytes than the run has", inline(vec![data(run, &segments, 2001)]), 2001),
        ("another digest", inline(vec![data(run, &segments[..1], 2000)]), 2000),
        ("a run beyond its container", inline(vec![of_run(Run { count: 900, ..run })]), 2000),
        (
            "a run of a container that there is not",
            inline(vec![of_run(Run { container: ContainerId(77), ..run })]),
            2000,
        ),
        ("a child of the wrong level", above(2, 2000), 2000),
        ("a child of another length", above(1, 2001), 2001),
        ("a child below the highest level", above(255, 2000), 2000),
        ("an ordinal beyond all", stray(run.container.0, u32::MAX), 2000),
        ("a container beyond all", stray(u64::MAX, 0), 2000),
        ("a run that ends beyond all", inline(vec![of_run(Run { first: u32::MAX - 1, count: 1, ..run })]), 2000),
        ("a length beyond all", inline(vec![Entry { length: u64::MAX - 5, kind: EntryKind::Hole }]), u64::MAX - 5),
    ]
}

fn process() -> (World, Arc<Repository>) {
    let world = World::new();
    let process = world.process();
    (world, process)
}

#[test]
fn commits_that_refer_to_what_is_not_there_are_refused() {
    let (_world, process) = process();
    for (what, root, size) in impossible(&process) {
        let refused = process.commit_once(commit(&process, root, size));
        assert!(matches!(&refused, Err(Error::Refused { .. })), "{what}: {refused:?}");
        assert!(refused.unwrap_err().to_string().starts_with("f: "), "{what}");
    }
    let empty = leaf(vec![Entry { length: 0, kind: EntryKind::Zero }]);
    assert!(process.commit_once(commit(&process, Root::Inline(empty.encode()), 0)).is_err());
    assert!(process.catalog().entry(&path("f")).unwrap().is_none());
}

#[test]
fn a_refused_commit_has_no_segment_counted_as_lost() {
    let (world, process) = process();
    for (what, root, size) in impossible(&process) {
        assert!(process.commit_once(commit(&process, root, size)).is_err(), "{what}");
        assert_eq!(world.catalog.lost().unwrap(), [], "{what}");
    }
}

#[test]
fn a_tree_of_few_pages_that_stands_for_endless_entries_is_refused() {
    let (_world, process) = process();
    let mut page = leaf(vec![Entry { length: 1, kind: EntryKind::Zero }; 64]);
    for level in 1..=7 {
        let Root::Stored { address, digest } = rooted(&process, &page) else { panic!("it is stored") };
        let entry = Entry { length: page.length(), kind: EntryKind::Page { address, digest } };
        page = Page { level, entries: vec![entry; 64] };
    }
    let refused = process.commit_once(commit(&process, rooted(&process, &page), page.length()));
    assert!(matches!(&refused, Err(Error::Refused { why, .. }) if why.contains("entries")), "{refused:?}");
}

#[test]
fn a_commit_that_can_be_read_is_accepted_and_refers_to_all_its_containers() {
    let (_world, process) = process();
    let (run, segments) = stored(&process, BlockKind::Data, &[&[1; 1000], &[2; 1000]]);
    let entries = vec![data(run, &segments, 1500), Entry { length: 500, kind: EntryKind::Hole }];
    let root = rooted(&process, &leaf(entries));
    process.commit_once(commit(&process, root, 2000)).unwrap();
    let content = crate::fixture::content(&process, "f");
    assert!(content[..1000] == [1; 1000] && content[1000..1500] == [2; 500] && content[1500..] == [0; 500]);
}

#[test]
fn a_store_with_a_version_that_cannot_be_is_read_without_a_panic_and_the_version_is_named() {
    let (_, sample) = process();
    let kinds: BTreeSet<_> = impossible(&sample).into_iter().map(|(what, _, _)| what).collect();
    for what in kinds {
        let (_world, process) = process();
        let (_, root, size) = impossible(&process).into_iter().find(|(name, _, _)| *name == what).unwrap();
        process.store().make_durable().unwrap();
        process.catalog().commit(&commit(&process, root.clone(), size)).unwrap();

        let mut bytes = [0; 100];
        let at_its_end = size.saturating_sub(100);
        // One that is only longer than its version says can be read.
        let is_readable = what == "sizes that differ";
        assert_eq!(process.reader(&root, size).read_at(at_its_end, &mut bytes).is_ok(), is_readable, "{what}");
        let verified = repository::verify(&process, true, &mut |_| ()).unwrap();
        let named = |damage: &repository::Damage| matches!(damage, repository::Damage::Version { path: found, version: 1, .. } if *found == path("f"));
        assert_eq!(verified.damages.iter().any(named), !is_readable, "{what}: {verified:?}");
        for failed in [repository::store_statistics(&process).err(), repository::collect(&process).err()] {
            let text = failed.map(|error| error.to_string()).unwrap_or_default();
            let is_named = (text.starts_with("f: ") && text.contains("version 1")) || text.contains(": f version 1 (");
            // Statistics read the segments of all versions together: `verify` says which need them.
            let is_of_segments = text.contains("is not in the store");
            assert!(text.is_empty() || is_named || is_of_segments, "{what}: {text}");
        }
    }
}

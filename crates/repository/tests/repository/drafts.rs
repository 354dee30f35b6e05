//! Drafts: written in pieces, copied and appended, and named all at once.

use std::sync::Arc;

use catalog::Commit;
use format::{Attributes, Change};
use random::Random;
use repository::{CommitEntry, Draft, Error, FileWriter, Repository, WriteMode};
use store::ClaimOwner;
use store::files::fault::{Fault, Faulty};

use crate::fixture::{CLAIM_OWNER, World, content, path, with_seeds};

fn draft(repository: &Arc<Repository>, claim_owner: u64, bytes: &[u8]) -> Draft {
    let mut writer = FileWriter::new(repository.clone(), ClaimOwner(claim_owner));
    bytes.chunks(700).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn named(name: &str, mode: WriteMode, draft: Draft) -> CommitEntry {
    CommitEntry { path: path(name), attributes: Attributes::default(), mode, draft }
}

#[test]
fn appends_of_any_length_equal_a_plain_file() {
    with_seeds(20, |seed| {
        let (mut random, world) = (Random::new(seed), World::new());
        let process = world.process();
        let mut plain = Vec::new();
        for claim_owner in 100..110 {
            let count = [0, 1, 100, 8192, 40_000, 300_000][random.below(6) as usize];
            let bytes = random.mixed_bytes(count);
            let addition = named("f", WriteMode::Append, draft(&process, claim_owner, &bytes));
            process.name(CLAIM_OWNER, &[addition]).unwrap();
            plain.extend(bytes);
            assert_eq!(content(&process, "f"), plain);
        }
    });
}

#[test]
fn drafts_are_named_together_or_not_at_all() {
    let process = World::new().process();
    process.name(CLAIM_OWNER, &[named("a", WriteMode::Create, draft(&process, 100, b"old"))]).unwrap();
    let both = [
        named("b", WriteMode::Replace, draft(&process, 101, b"b")),
        named("a", WriteMode::Create, draft(&process, 102, b"new")),
    ];
    let refused = process.name(CLAIM_OWNER, &both).unwrap_err();
    assert!(matches!(refused, Error::Catalog(catalog::Error::HeadMoved { .. })), "{refused}");
    assert_eq!(process.catalog().entry(&path("b")).unwrap(), None);
    assert_eq!(content(&process, "a"), b"old");
}

#[test]
fn a_copy_outlives_what_it_was_made_of() {
    let world = World::new();
    let process = world.process();
    let bytes = Random::new(3).bytes(100_000);
    process.name(CLAIM_OWNER, &[named("a", WriteMode::Replace, draft(&process, 100, &bytes))]).unwrap();
    let head = process.catalog().entry(&path("a")).unwrap().unwrap().head.unwrap();
    let stored = world.catalog_bytes();
    process.name(CLAIM_OWNER, &[named("b", WriteMode::Replace, process.draft_of(&head.record).unwrap())]).unwrap();
    assert_eq!(world.catalog_bytes(), stored, "nothing is stored twice");
    let remove = format::Change::Remove { path: path("a"), recursive: false };
    process.commit(CLAIM_OWNER, vec![remove], Default::default(), Vec::new()).unwrap();
    process.close().unwrap();
    let collector = world.process();
    repository::collect(&collector).unwrap();
    assert_eq!(content(&collector, "b"), bytes);
}

/// Packs stretches of data and of holes.
fn packed(process: &Repository, stretches: &[(Vec<u8>, u64)]) -> repository::Packed<()> {
    let mut packer = repository::Packer::new(process, ClaimOwner(77));
    packer.begin();
    for (data, hole) in stretches {
        data.chunks(5000).for_each(|piece| packer.data(piece).unwrap());
        if *hole > 0 {
            packer.hole(*hole).unwrap();
        }
    }
    packer.end(()).unwrap();
    packer.flush().unwrap();
    packer.take_finished().pop().unwrap()
}

#[test]
fn a_hole_costs_nothing_by_its_length_and_gives_what_reading_zeros_gives() {
    with_seeds(20, |seed| {
        let (mut random, process) = (Random::new(seed), World::new().process());
        let mut stretches = Vec::new();
        for _ in 0..1 + random.below(4) {
            let count = [0, 1, 5000, 200_000][random.below(4) as usize];
            stretches.push((random.mixed_bytes(count), random.below(3) * random.below(300_000)));
        }
        let plain: Vec<u8> =
            stretches.iter().flat_map(|(data, hole)| [data.clone(), vec![0; *hole as usize]].concat()).collect();
        let packed = packed(&process, &stretches);
        assert_eq!(packed.content, Some(*blake3::hash(&plain).as_bytes()));
        let mut read = vec![0xee; plain.len()];
        process.reader(&packed.built.root, packed.built.length).read_at(0, &mut read).unwrap();
        assert!(packed.built.length == plain.len() as u64 && read == plain);
    });
    let (process, begun) = (World::new().process(), std::time::Instant::now());
    let stretches = [(b"before".to_vec(), 1 << 40), (b"after".to_vec(), 0)];
    let long = packed(&process, &stretches);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((long.built.length, long.content), ((1 << 40) + 11, None));
    let mut end = [0xee; 8];
    process.reader(&long.built.root, long.built.length).read_at((1 << 40) + 3, &mut end).unwrap();
    assert_eq!(&end, b"\0\0\0after");
}

/// The first writer that meets the full disk gets the error; another, whose content went the same way, must not commit it.
#[test]
fn no_commit_refers_to_what_another_writers_full_disk_has_dropped() {
    let world = World::new();
    let faulty = Arc::new(Faulty::once(world.files.clone(), 0, Fault::Full));
    let process = world.process_over(faulty.clone(), Box::new(|| ()));
    let bytes = Random::new(5).bytes(20_000);
    let kept = draft(&process, 100, &bytes[..9000]);
    process.store().make_durable().unwrap();
    let (dropped, same) = (draft(&process, 101, &bytes), draft(&process, 102, &bytes));
    faulty.fail_next();
    assert!(process.store().make_durable().unwrap_err().to_string().contains("the disk is full"));
    for (name, draft) in [("a", dropped), ("b", same)] {
        let refused = process.name(CLAIM_OWNER, &[named(name, WriteMode::Create, draft)]).unwrap_err();
        assert!(refused.is_full(), "{refused}");
    }
    process.name(CLAIM_OWNER, &[named("kept", WriteMode::Create, kept)]).unwrap();
    process.name(CLAIM_OWNER, &[named("again", WriteMode::Create, draft(&process, 103, &bytes))]).unwrap();
    process.close().unwrap();
    let later = world.process();
    assert_eq!(content(&later, "kept"), &bytes[..9000]);
    assert_eq!(content(&later, "again"), bytes);
    assert_eq!(repository::verify(&later, true, &mut |_| {}).unwrap().damages, []);
}

/// As a node does for `rm`, while its clients' content waits to be written.
#[test]
fn a_removal_goes_well_although_content_that_waits_finds_the_disk_full() {
    for way in ["commit", "request of a client", "commit of a client"] {
        let world = World::new();
        let faulty = Arc::new(Faulty::once(world.files.clone(), 0, Fault::Full));
        let process = world.process_over(faulty.clone(), Box::new(|| ()));
        process.name(CLAIM_OWNER, &[named("a", WriteMode::Create, draft(&process, 100, b"old"))]).unwrap();
        let waiting = draft(&process, 101, &Random::new(6).bytes(20_000));
        faulty.fail_next();
        let changes = vec![Change::Remove { path: path("a"), recursive: false }];
        let (session, epoch) = (process.lease().session(), process.lease().epoch());
        let commit = Commit { session, references: vec![], epoch, changes: changes.clone(), checkpoints: vec![] };
        match way {
            "commit" => process.commit(CLAIM_OWNER, changes, Default::default(), Vec::new()).unwrap(),
            "request of a client" => process.commit_once(commit).unwrap(),
            _ => world.remote(&process).commit(CLAIM_OWNER, changes, Default::default(), Vec::new()).unwrap(),
        };
        assert_eq!(process.catalog().entry(&path("a")).unwrap(), None);
        let refused = process.name(CLAIM_OWNER, &[named("b", WriteMode::Create, waiting)]).unwrap_err();
        assert!(refused.is_full(), "its writer gets the error: {refused}");
    }
}

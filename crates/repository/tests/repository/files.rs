//! Files put and read back, collected and verified, against a plain copy.

use format::Change;
use random::Random;
use repository::{Packer, Repository, collect, store_statistics, verify};
use store::ClaimOwner;
use store::files::Files;

use crate::fixture::{CLAIM_OWNER, World, commit_packed, content, path, with_seeds};

/// Stores files in one commit.
pub fn put(repository: &Repository, files: &[(&str, &[u8])]) {
    let mut packer = Packer::new(repository, ClaimOwner(99));
    for (name, bytes) in files {
        packer.begin();
        bytes.chunks(700).for_each(|chunk| packer.data(chunk).unwrap());
        packer.end(name.to_string()).unwrap();
    }
    packer.flush().unwrap();
    let packed = packer.take_finished();
    assert_eq!(packed.len(), files.len());
    commit_packed(repository, packed);
}

#[test]
fn random_files_come_back_and_their_digests_are_of_their_content() {
    with_seeds(30, |seed| {
        let mut random = Random::new(seed);
        let world = World::new();
        let process = world.process();
        let files: Vec<_> = (0..random.below(20) + 1)
            .map(|i| {
                let count = [0, 1, 100, 8192, 40_000, 300_000][random.below(6) as usize];
                (format!("f{i}"), random.mixed_bytes(count))
            })
            .collect();
        let named: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
        put(&process, &named);
        for (name, bytes) in &files {
            assert_eq!(&content(&process, name), bytes);
            let head = process.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap();
            assert_eq!(head.record.content, Some(*blake3::hash(bytes).as_bytes()));
        }
        assert_eq!(verify(&process, true, &mut |_| {}).unwrap().damages, []);
    });
}

#[test]
fn a_second_copy_costs_next_to_nothing() {
    let world = World::new();
    let process = world.process();
    let bytes: Vec<u8> = Random::new(5).bytes(2 << 20);
    put(&process, &[("one", &bytes)]);
    let before = store_statistics(&process).unwrap();
    put(&process, &[("two", &bytes)]);
    let after = store_statistics(&process).unwrap();
    assert_eq!(after.unique_bytes, before.unique_bytes);
    assert_eq!(after.logical_bytes, 2 * before.logical_bytes);
}

#[test]
fn collection_counts_the_bytes_of_writers_that_were_killed_and_none_of_files_that_are_gone() {
    let world = World::new();
    let process = world.process();
    let written = Random::new(9).bytes(1 << 20);
    let mut packer = Packer::new(&process, ClaimOwner(99));
    packer.begin();
    written.chunks(700).for_each(|chunk| packer.data(chunk).unwrap());
    packer.end("a".to_owned()).unwrap();
    packer.flush().unwrap();
    process.store().make_durable().unwrap();
    let collector = world.process();
    let collected = collect(&collector).unwrap();
    assert!(collected.open > 0 && collected.freed_bytes() == 0, "{collected:?}");
    collector.close().unwrap();
    world.run_out(&process);
    let files = world.files.list("containers").unwrap();
    let lengths = |files: &[String]| files.iter().map(|name| world.files.open(name).unwrap().length().unwrap()).sum();
    let (gone, left) = files.split_first().unwrap();
    let bytes: u64 = lengths(left);
    world.files.remove(gone).unwrap();
    let collected = collect(&world.process()).unwrap();
    assert_eq!((collected.open, collected.freed_bytes()), (0, bytes), "{collected:?}");
    assert!(bytes > 256 << 10 && collected.deleted as usize == files.len(), "{collected:?}");
}

#[test]
fn collection_frees_what_is_removed_and_keeps_what_is_not() {
    let world = World::new();
    let process = world.process();
    let mut random = Random::new(8);
    let (gone, kept) = (random.bytes(1 << 20), random.bytes(600_000));
    put(&process, &[("gone", &gone), ("kept", &kept)]);
    let remove = Change::Remove { path: path("gone"), recursive: false };
    process.commit(CLAIM_OWNER, vec![remove], Default::default(), Vec::new()).unwrap();
    process.close().unwrap();
    let before = world.catalog_bytes();
    let collector = world.process();
    let collected = collect(&collector).unwrap();
    assert!(collected.deleted > 0, "{collected:?}");
    assert_eq!(collected.freed_bytes(), before - world.catalog_bytes(), "what rewriting wrote is not free");
    assert!(world.catalog_bytes() < before - 900_000, "{} of {before} bytes are left", world.catalog_bytes());
    assert_eq!(content(&collector, "kept"), kept);
    assert_eq!(verify(&collector, true, &mut |_| {}).unwrap().damages, []);
}

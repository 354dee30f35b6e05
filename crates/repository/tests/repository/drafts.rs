//! Drafts: written in pieces, copied and appended, and named all at once.

use std::sync::Arc;

use format::Attributes;
use repository::{Draft, Error, FileWriter, Named, Placing, Repository};
use store::Claimant;

use crate::fixture::{CLAIMANT, Random, World, content, path, with_seeds};

fn draft(repository: &Arc<Repository>, claimant: u64, bytes: &[u8]) -> Draft {
    let mut writer = FileWriter::new(repository.clone(), Claimant(claimant));
    bytes.chunks(700).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn named(name: &str, placing: Placing, draft: Draft) -> Named {
    Named { path: path(name), attributes: Attributes::default(), placing, draft }
}

#[test]
fn appends_of_any_length_equal_a_plain_file() {
    with_seeds(20, |seed| {
        let (mut random, world) = (Random(seed), World::new());
        let process = world.process();
        let mut plain = Vec::new();
        for claimant in 100..110 {
            let count = [0, 1, 100, 8192, 40_000, 300_000][random.below(6) as usize];
            let bytes = random.bytes(count);
            let addition = named("f", Placing::Append, draft(&process, claimant, &bytes));
            process.name(CLAIMANT, &[addition]).unwrap();
            plain.extend(bytes);
            assert_eq!(content(&process, "f"), plain);
        }
    });
}

#[test]
fn drafts_are_named_together_or_not_at_all() {
    let process = World::new().process();
    process.name(CLAIMANT, &[named("a", Placing::Create, draft(&process, 100, b"old"))]).unwrap();
    let both = [
        named("b", Placing::Replace, draft(&process, 101, b"b")),
        named("a", Placing::Create, draft(&process, 102, b"new")),
    ];
    let refused = process.name(CLAIMANT, &both).unwrap_err();
    assert!(matches!(refused, Error::Catalog(catalog::Error::HeadMoved { .. })), "{refused}");
    assert_eq!(process.catalog().entry(&path("b")).unwrap(), None);
    assert_eq!(content(&process, "a"), b"old");
}

#[test]
fn a_copy_outlives_what_it_was_made_of() {
    let world = World::new();
    let process = world.process();
    let bytes = Random(3).bytes_of(100_000);
    process.name(CLAIMANT, &[named("a", Placing::Replace, draft(&process, 100, &bytes))]).unwrap();
    let head = process.catalog().entry(&path("a")).unwrap().unwrap().head.unwrap();
    let stored = world.catalog_bytes();
    process.name(CLAIMANT, &[named("b", Placing::Replace, process.draft_of(&head.record).unwrap())]).unwrap();
    assert_eq!(world.catalog_bytes(), stored, "nothing is stored twice");
    let remove = format::Change::Remove { path: path("a"), recursive: false };
    process.commit(CLAIMANT, vec![remove], Default::default(), Vec::new()).unwrap();
    process.close().unwrap();
    let collector = world.process();
    repository::collect(&collector).unwrap();
    assert_eq!(content(&collector, "b"), bytes);
}

//! A near store before a far one: what is written near is the far store's once it is committed, and what is read stays near.

use std::path::Path;
use std::sync::Arc;

use format::{Attributes, Settings, StoreId};
use random::Random;
use repository::{Access, CommitEntry, Draft, FileWriter, Repository, WriteMode, open, open_near, verify};
use store::ClaimOwner;

use crate::fixture::{CLAIM_OWNER, content, path, with_seeds};

const FAR: StoreId = StoreId([3; 16]);

fn far(folder: &Path) -> Arc<Repository> {
    let directory = folder.join("far");
    if !directory.exists() {
        repository::create(&directory, &Settings::new(FAR)).unwrap();
    }
    Arc::new(open(&directory, Access::Write).unwrap())
}

fn near(folder: &Path) -> Arc<Repository> {
    Arc::new(open_near(&folder.join("near"), far(folder), StoreId([4; 16])).unwrap())
}

fn draft(repository: &Arc<Repository>, claim_owner: u64, bytes: &[u8]) -> Draft {
    let mut writer = FileWriter::new(repository.clone(), ClaimOwner(claim_owner));
    bytes.chunks(70_000).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn write(repository: &Arc<Repository>, claim_owner: u64, name: &str, mode: WriteMode, bytes: &[u8]) {
    let draft = draft(repository, claim_owner, bytes);
    let entry = CommitEntry { path: path(name), attributes: Attributes::default(), mode, draft };
    repository.name(CLAIM_OWNER, &[entry]).unwrap();
}

#[test]
fn histories_through_a_near_store_leave_the_far_one_as_if_it_was_not_there() {
    with_seeds(5, |seed| {
        let (mut random, folder) = (Random::new(seed), tempfile::tempdir().unwrap());
        let mut plain = vec![Vec::new(); 3];
        let mut near_now = near(folder.path());
        for step in 0..20 {
            let file = random.below(3) as usize;
            let name = format!("f{file}");
            let count = [0, 1, 9000, 300_000, 2_000_000][random.below(5) as usize];
            let bytes = random.mixed_bytes(count);
            // Directly as well: names are the far store's.
            let writer = if random.below(4) == 0 { far(folder.path()) } else { near_now.clone() };
            let mode = if random.below(2) == 0 { WriteMode::Append } else { WriteMode::Replace };
            if mode == WriteMode::Replace {
                plain[file].clear();
            }
            plain[file].extend(bytes.iter());
            write(&writer, 100 + step, &name, mode, &bytes);
            drop(writer);
            assert_eq!(content(&near_now, &name), plain[file], "step {step}");
            match random.below(8) {
                0 => drop(near_now.upstream().unwrap().keep_within(0).unwrap()),
                1 => {
                    near_now.close().unwrap();
                    near_now = near(folder.path());
                }
                _ => {}
            }
        }
        near_now.close().unwrap();
        drop(near_now);
        // Nothing that the near store has is needed.
        std::fs::remove_dir_all(folder.path().join("near")).unwrap();
        let far = far(folder.path());
        for (file, plain) in plain.iter().enumerate().filter(|(_, plain)| !plain.is_empty()) {
            assert_eq!(content(&far, &format!("f{file}")), *plain);
        }
        assert_eq!(verify(&far, true, &mut |_| {}).unwrap().damages, []);
    });
}

#[test]
fn what_was_read_or_written_near_is_not_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Random::new(1).bytes(3_000_000), Random::new(2).bytes(3_000_000));
    write(&far(folder.path()), 100, "old", WriteMode::Replace, &old);
    let near = near(folder.path());
    assert_eq!(content(&near, "old"), old);
    let fetched_bytes = near.upstream().unwrap().figures().fetched_bytes;
    assert!(fetched_bytes >= 3_000_000, "{fetched_bytes}");
    write(&near, 101, "new", WriteMode::Replace, &new);
    assert_eq!(near.upstream().unwrap().figures().waiting_blocks, 0, "a commit waits for what is sent behind");
    // A process that has just begun keeps no decoded blocks of its own.
    for (name, bytes) in [("old", &old), ("new", &new)] {
        let head = near.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap();
        let mut read = Vec::new();
        near.reader(&head.record.root, head.record.size)
            .pieces(0..u64::MAX, |piece| {
                if let repository::Piece::Data(data) = piece {
                    read.extend_from_slice(data);
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(read, *bytes);
    }
    assert_eq!(near.upstream().unwrap().figures().fetched_bytes, fetched_bytes);
}

#[test]
fn a_near_store_is_used_by_its_node_alone_and_for_its_far_store_alone() {
    let folder = tempfile::tempdir().unwrap();
    near(folder.path()).close().unwrap();
    let refused = open(&folder.path().join("near"), Access::Write).map(drop).unwrap_err();
    assert!(refused.to_string().contains("--upstream"), "{refused}");
    let rebuilt = repository::rebuild_catalog(&folder.path().join("near"), false).unwrap_err();
    assert!(rebuilt.to_string().contains("has no names"), "{rebuilt}");
    let other = folder.path().join("other");
    repository::create(&other, &Settings::new(StoreId([9; 16]))).unwrap();
    let other = Arc::new(open(&other, Access::Write).unwrap());
    let refused = open_near(&folder.path().join("near"), other, StoreId([4; 16])).map(drop).unwrap_err();
    assert!(refused.to_string().contains("another one is served"), "{refused}");
    let refused = open_near(&folder.path().join("far"), far(folder.path()), StoreId([4; 16])).map(drop).unwrap_err();
    assert!(refused.to_string().contains("a store of its own"), "{refused}");
    let near = near(folder.path());
    let refused = open_near(&folder.path().join("third"), near, StoreId([5; 16])).map(drop).unwrap_err();
    assert!(refused.to_string().contains("itself near"), "{refused}");
}

//! A catalog made again from containers that are damaged: readable content is kept, damage is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::{Attributes, BlockKind, Change, ContainerId, FileKind, Settings, StoreId, StorePath};
use random::Random;
use repository::{Access, Damage, RebuildReport, Repository, open, read_settings, rebuild_catalog, repair, verify};
use store::files::{Directory, Permissions};
use store::{CountingRegistrar, LocalStore, Options};

use crate::files::put;
use crate::fixture::{CLAIM_OWNER, content, path};

/// A store in a directory, with the files `f0` to `f5`, each in a commit of its own, all in one container.
fn six_commits(folder: &Path) -> PathBuf {
    let directory = folder.join("store");
    repository::create(&directory, &Settings::new(StoreId([3; 16]))).unwrap();
    let repository = open(&directory, Access::Write).unwrap();
    for file in 0..6 {
        put(&repository, &[(&format!("f{file}"), &[file; 5000])]);
    }
    repository.close().unwrap();
    directory
}

/// The container's file and where its journal blocks lie in it, one a commit.
fn journal(directory: &Path) -> (PathBuf, Vec<u64>) {
    journal_of(directory, ContainerId(1))
}

fn journal_of(directory: &Path, container: ContainerId) -> (PathBuf, Vec<u64>) {
    let files = Arc::new(Directory::new(directory, Permissions::default()));
    let registrar = Arc::new(CountingRegistrar::default());
    let options = Options { background: false, ..Options::default() };
    let settings = read_settings(directory).unwrap();
    let local = LocalStore::open(files.clone(), files, &settings, registrar, options).unwrap();
    let mut offsets = Vec::new();
    local.visit_readable(container, BlockKind::Journal, &mut |offset, _| offsets.push(offset)).unwrap();
    (directory.join(store::container_file_name(container)), offsets)
}

fn flip(file: &Path, offset: u64) {
    let mut bytes = fs::read(file).unwrap();
    bytes[offset as usize] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn forget_catalog(directory: &Path) {
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let _ = fs::remove_file(directory.join(name));
    }
}

fn names(directory: &Path) -> Vec<StorePath> {
    let repository = open(directory, Access::Read).unwrap();
    let listed = repository.catalog().list(&StorePath::root(), true, None, 99).unwrap();
    listed.into_iter().map(|(path, _)| path).collect()
}

fn paths(rebuilt: &RebuildReport) -> Vec<StorePath> {
    let path = |damage: &Damage| match damage {
        Damage::Catalog { path, .. } => path.clone(),
        _ => None,
    };
    rebuilt.damages.iter().filter_map(path).collect()
}

#[test]
fn a_flipped_bit_in_a_journal_block_costs_its_records_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let (file, offsets) = journal(&directory);
    assert_eq!(offsets.len(), 6);
    flip(&file, offsets[2]);
    forget_catalog(&directory);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    assert_eq!(rebuilt.transactions, 5);
    let at = |damage: &Damage| matches!(damage, Damage::Container { container: ContainerId(1), offset, .. } if *offset == offsets[2]);
    assert!(rebuilt.damages.iter().any(at), "{:?}", rebuilt.damages);
    assert_eq!(names(&directory), ["f0", "f1", "f3", "f4", "f5"].map(path));
    let repository = open(&directory, Access::Write).unwrap();
    assert_eq!(content(&repository, "f5"), [5; 5000]);
    put(&repository, &[("f2", &[2; 5000])]);
    assert_eq!(content(&repository, "f2"), [2; 5000]);
}

#[test]
fn the_old_catalog_names_what_the_journal_has_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let (file, offsets) = journal(&directory);
    flip(&file, offsets[4]);
    let repository = open(&directory, Access::Inspect).unwrap();
    let found = verify(&repository, false, &mut |_| {}).unwrap();
    let is_named = |damage: &Damage| matches!(damage, Damage::Catalog { path: Some(lost), .. } if *lost == path("f4"));
    assert!(found.damages.iter().any(is_named), "verify names it while the catalog still has it: {:?}", found.damages);
    drop(repository);
    let refused = rebuild_catalog(&directory, false).unwrap_err().to_string();
    assert!(refused.contains("(f4)") && refused.contains("--force"), "{refused}");
    assert_eq!(names(&directory).len(), 6, "the catalog is as it was");
    assert!(!directory.join("catalog.sqlite.new").exists() && !directory.join("catalog.sqlite.old").exists());
    assert_eq!(paths(&rebuild_catalog(&directory, true).unwrap()), [path("f4")]);
    assert_eq!(names(&directory).len(), 5);
}

#[test]
fn later_records_prove_and_name_what_an_earlier_one_held() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let repository = open(&directory, Access::Write).unwrap();
    put(&repository, &[("f1", &[9; 5000])]);
    let changes = vec![Change::Rename { from: path("f3"), to: path("g") }];
    repository.commit(CLAIM_OWNER, changes, Default::default(), Vec::new()).unwrap();
    repository.close().unwrap();
    drop(repository);
    let (file, offsets) = journal(&directory);
    flip(&file, offsets[1]);
    flip(&file, offsets[3]);
    forget_catalog(&directory);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    assert_eq!(paths(&rebuilt), ["f1", "f3"].map(path), "{:?}", rebuilt.damages);
    let repository = open(&directory, Access::Read).unwrap();
    assert_eq!(content(&repository, "f1"), [9; 5000]);
    assert_eq!(repository.catalog().versions(&path("f1")).unwrap().len(), 1);
}

#[test]
fn a_container_with_a_damaged_header_keeps_its_journal() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let (file, _) = journal(&directory);
    flip(&file, 30);
    forget_catalog(&directory);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    assert_eq!((rebuilt.transactions, rebuilt.damages.len()), (6, 1), "{:?}", rebuilt.damages);
    assert_eq!(names(&directory).len(), 6);
    let repository = open(&directory, Access::Inspect).unwrap();
    assert!(!verify(&repository, false, &mut |_| {}).unwrap().damages.is_empty());
}

#[test]
fn what_no_container_keeps_yet_is_taken_over_from_the_old_catalog() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let repository = open(&directory, Access::Write).unwrap();
    // As a crash leaves it between the transaction and the journal.
    let commit = catalog::Commit {
        session: repository.lease().session(),
        references: vec![],
        epoch: u64::MAX,
        changes: vec![Change::Rename { from: path("f0"), to: path("h") }],
        checkpoints: vec![],
    };
    repository.catalog().commit(&commit).unwrap();
    drop(repository);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    assert_eq!((rebuilt.transactions, rebuilt.damages), (7, vec![]));
    let repository = open(&directory, Access::Write).unwrap();
    assert_eq!(verify(&repository, true, &mut |_| {}).unwrap().damages, [], "it waits for a container again");
    put(&repository, &[("i", b"now one keeps it")]);
    repository.close().unwrap();
    drop(repository);
    forget_catalog(&directory);
    assert_eq!(rebuild_catalog(&directory, false).unwrap().damages, []);
    assert_eq!(names(&directory), ["f1", "f2", "f3", "f4", "f5", "h", "i"].map(path));
}

#[test]
fn a_rebuild_that_fails_leaves_no_draft_of_a_catalog() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    // In the way of the old catalog, which cannot be put aside.
    fs::create_dir(directory.join("catalog.sqlite.old")).unwrap();
    fs::write(directory.join("catalog.sqlite.old/file"), b"").unwrap();
    rebuild_catalog(&directory, false).unwrap_err();
    let drafts = fs::read_dir(&directory)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("sqlite.new"));
    assert_eq!(drafts.count(), 0);
    assert_eq!(names(&directory).len(), 6);
}

#[test]
fn repair_has_a_damaged_journal_hold_again_all_that_the_catalog_has() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let repository = open(&directory, Access::Write).unwrap();
    let commit = |changes| drop(repository.commit(CLAIM_OWNER, changes, Default::default(), Vec::new()).unwrap());
    for value in [7, 8, 9] {
        put(&repository, &[("f4", &[value; 5000])]);
    }
    let file = repository.catalog().entry(&path("f4")).unwrap().unwrap().file;
    commit(vec![Change::Forget { path: path("f4"), file, versions: vec![2] }]);
    commit(vec![Change::Link { path: path("another f4"), target: path("f4") }]);
    let attributes = Attributes { kind: FileKind::Directory, mode: 0o750, ..Attributes::default() };
    commit(vec![Change::Make { path: path("folder"), attributes }]);
    put(&repository, &[("folder/file", &[11; 5000])]);
    commit(vec![Change::Rename { from: path("f0"), to: path("folder/zero") }]);
    let all = |repository: &Repository| {
        let listed = repository.catalog().list(&StorePath::root(), true, None, 99).unwrap();
        let versions = |name: &StorePath| repository.catalog().versions(name).unwrap();
        listed.iter().map(|(name, entry)| (name.clone(), entry.attributes.clone(), versions(name))).collect::<Vec<_>>()
    };
    let before = all(&repository);
    repository.close().unwrap();
    drop(repository);

    for container in [1, 2].map(ContainerId) {
        let (file, offsets) = journal_of(&directory, container);
        offsets[2..].iter().for_each(|offset| flip(&file, *offset));
    }
    rebuild_catalog(&directory, false).unwrap_err();
    let repository = open(&directory, Access::Write).unwrap();
    assert!(repair(&repository).unwrap().journaled_paths > 5);
    assert_eq!(repair(&repository).unwrap().journaled_paths, 0, "once is enough");
    assert_eq!(all(&repository), before, "the catalog is as it was");
    repository.close().unwrap();
    drop(repository);

    forget_catalog(&directory);
    rebuild_catalog(&directory, false).unwrap();
    let repository = open(&directory, Access::Write).unwrap();
    let after = all(&repository);
    let lost: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let more: Vec<_> = after.iter().filter(|entry| !before.contains(entry)).map(|(name, ..)| name.clone()).collect();
    assert_eq!(more, [], "what a lost record took away is not there again");
    put(&repository, &[("f4", &[10; 5000])]);
    assert_eq!(repository.catalog().versions(&path("f4")).unwrap().last().unwrap().number, 5);
}

/// As `six_commits`, and `f2` removed in a transaction that a container of its own keeps; returns that container's file.
fn with_a_removal(folder: &Path) -> (PathBuf, PathBuf) {
    let directory = six_commits(folder);
    let repository = open(&directory, Access::Write).unwrap();
    let removal = vec![Change::Remove { path: path("f2"), recursive: false }];
    repository.commit(CLAIM_OWNER, removal, Default::default(), Vec::new()).unwrap();
    repository.close().unwrap();
    let file = directory.join(store::container_file_name(ContainerId(2)));
    assert!(file.exists());
    (directory, file)
}

fn lost_transactions(rebuilt: &RebuildReport) -> Vec<&str> {
    let mut lost = Vec::new();
    for damage in &rebuilt.damages {
        if let Damage::Journal { why } = damage {
            lost.push(why.as_str());
        }
    }
    lost
}

#[test]
fn a_rebuild_without_a_catalog_names_transactions_whose_container_is_gone_and_gives_no_number_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, file) = with_a_removal(scratch.path());
    let repository = open(&directory, Access::Write).unwrap();
    let session = repository.lease().session();
    repository.close().unwrap();
    drop(repository);
    fs::remove_file(&file).unwrap();
    forget_catalog(&directory);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    let lost = ["transaction 7 of the journal is in no container: what was changed there is lost"];
    assert_eq!(lost_transactions(&rebuilt), lost);
    let repository = open(&directory, Access::Write).unwrap();
    assert!(repository.lease().session() > session);
    put(&repository, &[("g", &[7; 5000])]);
    repository.close().unwrap();
    assert!(!file.exists(), "its number is not given again");
    assert_eq!(repository.local_catalog().unwrap().known_records().unwrap().unwrap().last(), Some(&8));
    let entry = repository.catalog().entry(&path("g")).unwrap().unwrap();
    assert_eq!(entry.file, format::FileId(7));
}

#[test]
fn a_journal_cut_short_in_the_middle_names_the_gap() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, _) = with_a_removal(scratch.path());
    fs::remove_file(directory.join(store::container_file_name(ContainerId(1)))).unwrap();
    forget_catalog(&directory);
    let rebuilt = rebuild_catalog(&directory, false).unwrap();
    assert!(lost_transactions(&rebuilt)[0].contains("transactions 1 to 6"), "{:?}", rebuilt.damages);
}

#[test]
fn a_rebuild_brings_no_removed_name_back_unless_it_is_forced_and_repair_has_the_journal_hold_the_removal() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, file) = with_a_removal(scratch.path());
    fs::remove_file(&file).unwrap();
    let kept = ["f0", "f1", "f3", "f4", "f5"].map(path);
    let refused = rebuild_catalog(&directory, false).unwrap_err().to_string();
    assert!(refused.contains("(f2)") && refused.contains("--force") && refused.contains("repair"), "{refused}");
    assert_eq!(names(&directory), kept);

    let forced = scratch.path().join("forced");
    assert!(std::process::Command::new("cp").arg("-r").args([&directory, &forced]).status().unwrap().success());
    let rebuilt = rebuild_catalog(&forced, true).unwrap();
    assert_eq!(paths(&rebuilt), [path("f2")]);
    assert_eq!(lost_transactions(&rebuilt).len(), 1);
    assert_eq!(names(&forced).len(), 6);

    let repository = open(&directory, Access::Write).unwrap();
    let refused = repository::collect(&repository).unwrap_err().to_string();
    assert!(refused.contains("transactions 7 are in no container") && refused.contains("thalweg repair"), "{refused}");
    assert_eq!(repair(&repository).unwrap().journaled_paths, 1);
    assert_eq!(repair(&repository).unwrap().journaled_paths, 0);
    repository::collect(&repository).unwrap();
    repository.close().unwrap();
    drop(repository);
    assert_eq!(names(&directory), kept);
    assert_eq!(rebuild_catalog(&directory, false).unwrap().damages, []);
    assert_eq!(names(&directory), kept);
    forget_catalog(&directory);
    assert_eq!(rebuild_catalog(&directory, false).unwrap().damages, [], "no transaction is missing any more");
    assert_eq!(names(&directory), kept);
}

/// A store whose first container, with `a`, is gone, and whose journal has what that one held.
fn without_first_container(folder: &Path) -> (PathBuf, Vec<u8>) {
    let directory = folder.join("store");
    repository::create(&directory, &Settings::new(StoreId([3; 16]))).unwrap();
    let plain = Random::new(1).bytes(100_000);
    for (name, bytes) in [("a", &plain), ("b", &vec![7; 5000])] {
        let repository = open(&directory, Access::Write).unwrap();
        put(&repository, &[(name, bytes)]);
        repository.close().unwrap();
    }
    fs::remove_file(directory.join(store::container_file_name(ContainerId(1)))).unwrap();
    let repository = open(&directory, Access::Write).unwrap();
    assert!(!repair(&repository).unwrap().lost.is_empty());
    repository.close().unwrap();
    (directory, plain)
}

fn heals_when_put_again(directory: &Path, plain: &[u8]) -> bool {
    let repository = open(directory, Access::Write).unwrap();
    put(&repository, &[("again", plain)]);
    let lost = repair(&repository).unwrap().lost;
    repository.close().unwrap();
    lost.is_empty() && content(&repository, "a") == plain
}

#[test]
fn what_a_missing_container_held_is_healed_after_a_rebuild_beside_a_sound_catalog() {
    for rebuilds in 0..3 {
        let scratch = tempfile::tempdir().unwrap();
        let (directory, plain) = without_first_container(scratch.path());
        (0..rebuilds).for_each(|_| drop(rebuild_catalog(&directory, false).unwrap()));
        assert!(heals_when_put_again(&directory, &plain), "after {rebuilds} rebuilds");
        let repository = open(&directory, Access::Write).unwrap();
        for _ in 0..2 {
            repository::collect(&repository).unwrap();
        }
        assert_eq!(content(&repository, "a"), plain);
        repository.close().unwrap();
    }
}

#[test]
fn what_the_newest_container_held_is_healed_after_a_rebuild_without_a_catalog() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = six_commits(scratch.path());
    let plain = Random::new(2).bytes(100_000);
    // The journal's record of `a` lies in the container of another process than its content does.
    let [journaling, storing] = [0, 1].map(|_| open(&directory, Access::Write).unwrap());
    put(&journaling, &[("b", &[7; 5000])]);
    put(&storing, &[("again", &plain)]);
    storing.close().unwrap();
    // The list of the table's runs is read again once it is a second old.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    put(&journaling, &[("a", &plain)]);
    journaling.close().unwrap();
    drop((journaling, storing));
    fs::remove_file(directory.join(store::container_file_name(ContainerId(3)))).unwrap();
    forget_catalog(&directory);
    rebuild_catalog(&directory, false).unwrap();
    let repository = open(&directory, Access::Write).unwrap();
    assert_eq!(names(&directory).len(), 8, "`again` is lost with its record");
    assert!(!repair(&repository).unwrap().lost.is_empty());
    repository.close().unwrap();
    drop(repository);
    assert!(heals_when_put_again(&directory, &plain));
}

//! A store's own model for the choice of codecs, replaced while the store is open.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use format::{Model, Settings, StoreId};
use repository::{Access, MODEL_FILE, ModelChange, Repository, create, open, write_model};
use tempfile::TempDir;

static BUILT_IN: LazyLock<Vec<u8>> = LazyLock::new(segment::built_in_model);

/// A model that is sound, and another one than the built-in.
fn other_model() -> Vec<u8> {
    let mut model = Model::decode(&BUILT_IN).unwrap();
    model.trees.pop();
    model.encode().unwrap()
}

fn store() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), &Settings::new(StoreId([5; 16]))).unwrap();
    folder
}

fn model_of(repository: &Repository) -> Option<Vec<u8>> {
    repository.model().map(|model| model.to_vec())
}

#[track_caller]
fn refusal(change: ModelChange, folder: &Path, serving: &str) {
    let ModelChange::Refused(why) = change else { panic!("{change:?}") };
    assert!(why.starts_with(&folder.join(MODEL_FILE).display().to_string()), "{why}");
    assert!(why.contains(serving) && why.contains("thalweg train DATA --into"), "{why}");
}

#[test]
fn a_model_that_is_written_replaced_or_removed_while_the_store_is_open_is_noticed_once() {
    let folder = store();
    let repository = open(folder.path(), Access::Write).unwrap();
    assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, None));
    for model in [BUILT_IN.to_vec(), other_model()] {
        write_model(folder.path(), &model).unwrap();
        assert_eq!(repository.reload_model(), ModelChange::Replaced);
        assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, Some(model)));
    }
    fs::remove_file(folder.path().join(MODEL_FILE)).unwrap();
    assert_eq!(repository.reload_model(), ModelChange::Removed);
    assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, None));
}

#[test]
fn a_damaged_model_is_refused_once_and_the_one_in_use_stays() {
    let folder = store();
    let file = folder.path().join(MODEL_FILE);
    write_model(folder.path(), &BUILT_IN).unwrap();
    let repository = open(folder.path(), Access::Write).unwrap();
    let mut newer = BUILT_IN.to_vec();
    newer[8] = 99;
    for of_no_use in [&BUILT_IN[..1000], &newer[..], b""] {
        fs::write(&file, of_no_use).unwrap();
        refusal(repository.reload_model(), folder.path(), "the model read before");
        assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, Some(BUILT_IN.to_vec())));
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refusal(repository.reload_model(), folder.path(), "is no regular file");
    fs::remove_dir(&file).unwrap();
    write_model(folder.path(), &other_model()).unwrap();
    assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::Replaced, Some(other_model())));
}

#[test]
fn a_model_that_is_of_no_use_at_opening_is_named_then_and_not_again() {
    let folder = store();
    fs::write(folder.path().join(MODEL_FILE), &BUILT_IN[..1000]).unwrap();
    let repository = open(folder.path(), Access::Write).unwrap();
    refusal(ModelChange::Refused(repository.refused_model.clone().unwrap()), folder.path(), "the built-in model");
    assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, None));
    write_model(folder.path(), &BUILT_IN).unwrap();
    assert_eq!(repository.reload_model(), ModelChange::Replaced);
}

#[test]
fn a_store_that_is_opened_to_be_read_needs_no_model() {
    let folder = store();
    write_model(folder.path(), &BUILT_IN).unwrap();
    let repository = open(folder.path(), Access::Read).unwrap();
    assert_eq!((repository.reload_model(), model_of(&repository)), (ModelChange::None, None));
}

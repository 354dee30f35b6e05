//! Putting again what has changed in between: versions, attributes, links, and files that became other things.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::runner::{Store, run};
use super::snapshot::{assert_same, snapshot};

/// A source of a few files, put once and old enough for its times to be trusted.
fn begun() -> (Store, PathBuf) {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir_all(source.join("d")).unwrap();
    for name in ["a", "b", "d/c"] {
        fs::write(source.join(name), name.repeat(5000)).unwrap();
    }
    fs::hard_link(source.join("a"), source.join("a2")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    store.put(&source, "t");
    (store, source)
}

#[track_caller]
fn assert_put_is_same(store: &Store, source: &Path) {
    store.put(source, "t");
    let copy = store.path("copy");
    let _ = fs::remove_dir_all(&copy);
    store.get("t", &copy);
    assert_same(&snapshot(source), &snapshot(&copy));
}

#[test]
fn only_what_changed_is_read_again() {
    let (store, source) = begun();
    fs::write(source.join("b"), "new").unwrap();
    let done = store.put_json(&source, "t");
    assert_eq!((&done["files"], &done["read_bytes"]), (&1.into(), &3.into()), "{done}");
}

#[test]
fn a_new_mode_makes_a_version_that_takes_no_content_s_place() {
    let (store, source) = begun();
    fs::set_permissions(source.join("b"), fs::Permissions::from_mode(0o600)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let done = store.put_json(&source, "t");
    assert_eq!((&done["files"], &done["attributes"]), (&0.into(), &1.into()), "{done}");
    let seen = store.at("stat", "t/b", &["--json"]).json();
    assert_eq!((&seen["mode"], seen["versions"].as_array().unwrap().len()), (&"0600".into(), 2), "{seen}");
    assert_eq!(store.put_json(&source, "t")["attributes"], 0, "nothing has changed since");
    assert_put_is_same(&store, &source);
    assert_eq!(store.at("forget", "t/b", &["--keep", "last=1", "--json"]).json()["versions"], 0);
    fs::write(source.join("b"), "other content").unwrap();
    store.put(&source, "t");
    assert_eq!(store.at("forget", "t/b", &["--keep", "last=2", "--json"]).json()["versions"], 0);
    assert_eq!(store.at("forget", "t/b", &["--keep", "last=1", "--json"]).json()["versions"], 2);
    store.verb("verify", &["--data"]);
}

/// Nor a commit.
#[test]
fn what_is_read_again_and_is_as_it_was_is_unchanged() {
    let (store, source) = begun();
    std::thread::sleep(Duration::from_millis(50));
    let force = || {
        let address = store.address("t");
        run(&["put".as_ref(), "--force".as_ref(), "--json".as_ref(), source.as_os_str(), &address]).expect(0).json()
    };
    force();
    let again = force();
    assert_eq!(
        (&again["files"], &again["attributes"], &again["commits"]),
        (&0.into(), &0.into(), &0.into()),
        "{again}"
    );
}

/// A new hard link changes when the inode was changed, and nothing that is restored.
#[test]
fn a_file_that_was_only_touched_gets_no_version() {
    let (store, source) = begun();
    fs::hard_link(source.join("b"), store.path("beside")).unwrap();
    assert_eq!(store.put_json(&source, "t")["attributes"], 1);
    let seen = store.at("stat", "t/b", &["--json"]).json();
    assert_eq!(seen["versions"].as_array().unwrap().len(), 1, "{seen}");
}

#[test]
fn a_change_of_the_same_size_and_time_is_noticed() {
    let (store, source) = begun();
    let modified = source.join("b").metadata().unwrap().modified().unwrap();
    fs::write(source.join("b"), "B".repeat(5000)).unwrap();
    fs::File::options().write(true).open(source.join("b")).unwrap().set_modified(modified).unwrap();
    store.put(&source, "t");
    assert_eq!(store.read("t/b"), "B".repeat(5000).into_bytes());
}

#[test]
fn a_link_that_was_broken_is_broken_in_the_store() {
    let (store, source) = begun();
    fs::remove_file(source.join("a2")).unwrap();
    fs::write(source.join("a2"), "of its own").unwrap();
    assert_put_is_same(&store, &source);
    assert_eq!(store.at("stat", "t/a", &["--json"]).json()["links"], 1);
}

#[test]
fn a_link_edited_in_place_changes_under_all_its_names() {
    let (store, source) = begun();
    fs::write(source.join("a2"), "through both").unwrap();
    assert_put_is_same(&store, &source);
    assert_eq!(store.read("t/a"), b"through both");
}

#[test]
fn a_new_link_to_an_old_file_is_a_link() {
    let (store, source) = begun();
    fs::hard_link(source.join("b"), source.join("d/b2")).unwrap();
    let _ = fs::remove_file(source.join("a2"));
    assert_eq!(store.put_json(&source, "t")["links"], 1);
    assert_eq!(store.at("stat", "t/d/b2", &["--json"]).json()["links"], 2);
}

#[test]
fn files_become_directories_and_symlinks_and_back() {
    let (store, source) = begun();
    fs::remove_file(source.join("b")).unwrap();
    fs::create_dir(source.join("b")).unwrap();
    fs::write(source.join("b/inside"), "x").unwrap();
    fs::remove_dir_all(source.join("d")).unwrap();
    symlink("b", source.join("d")).unwrap();
    let replace = || run(&["put".as_ref(), "--replace".as_ref(), source.as_os_str(), &store.address("t")]).expect(0);
    replace();
    assert_put_is_same(&store, &source);
    fs::remove_dir_all(source.join("b")).unwrap();
    fs::write(source.join("b"), "a file again").unwrap();
    fs::remove_file(source.join("d")).unwrap();
    fs::write(source.join("d"), "and this").unwrap();
    replace();
    assert_put_is_same(&store, &source);
}

#[test]
fn a_file_that_keeps_changing_is_stored_and_reported() {
    let store = Store::new();
    let path = store.path("busy");
    fs::write(&path, vec![b'x'; 64 << 20]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0u64;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                use std::os::unix::fs::FileExt;
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.write_all_at(&count.to_le_bytes(), 0).unwrap();
                count += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let put = || super::runner::run(&["put".as_ref(), path.as_os_str(), &store.address("busy")]);
        // The writer may have to wait for the disk meanwhile.
        let mut runs = (0..5).map(|_| put());
        let run = runs.find(|run| run.code != Some(0));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        run
    });
    let run = run.expect("a file that changes is no unchanged one").expect(3);
    assert!(run.stderr.contains("busy: kept changing"), "{}", run.stderr);
    assert_eq!(store.read("busy").len(), 64 << 20);
}

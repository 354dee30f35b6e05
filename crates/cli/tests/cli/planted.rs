//! Links and pipes put in place of a store's files, by another user who may write to its directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use random::Random;

use super::runner::{Store, run};

const SECRET: &str = "of another user";

/// Puts something in a file's place, beside a file outside of the store.
type Make = fn(&Path, &Path);

/// Replaces a file of the store by a link to a file outside of it, which is returned.
fn link_out(store: &Store, name: &str) -> PathBuf {
    let (at, outside) = (store.directory().join(name), store.path("outside"));
    fs::write(&outside, SECRET).unwrap();
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&at);
    symlink(&outside, &at).unwrap();
    outside
}

#[test]
fn nothing_outside_a_store_is_written_through_a_link() {
    for name in ["reserve", "journal.mark", "catalog.lock", "table/runs.lock", "table/merge.lock"] {
        let store = Store::new();
        fs::write(store.path("file"), name).unwrap();
        let outside = link_out(&store, name);
        for address in ["one", "two"] {
            run(&[
                "put".as_ref(),
                "--force".as_ref(),
                store.path("file").as_os_str(),
                store.address(address).as_os_str(),
            ]);
        }
        run(&["rm".as_ref(), store.address("one").as_os_str()]);
        run(&["collect".as_ref(), store.directory().as_os_str()]);
        assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET, "{name}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_blocks_no_reader() {
    for name in ["store.toml", "catalog.sqlite"] {
        let store = Store::new();
        let at = store.directory().join(name);
        fs::remove_file(&at).unwrap();
        assert!(Command::new("mkfifo").arg(&at).status().unwrap().success());
        for verb in ["ls", "collect", "verify"] {
            let address = if verb == "ls" { store.address("") } else { store.directory().into_os_string() };
            let words = ["10".as_ref(), env!("CARGO_BIN_EXE_thalweg").as_ref(), verb.as_ref(), address.as_os_str()];
            let ended = Command::new("timeout").args(words).output().unwrap();
            let code = if (name, verb) == ("catalog.sqlite", "verify") { 3 } else { 1 };
            assert_eq!(ended.status.code(), Some(code), "{verb} with {name}: {ended:?}");
            assert!(String::from_utf8_lossy(&ended.stderr).contains("regular file"), "{ended:?}");
        }
    }
}

#[test]
fn what_is_no_file_in_a_containers_place_is_damage_like_any_other() {
    let makes: [fn(&Path); 3] = [
        |at| fs::create_dir(at).unwrap(),
        |at| symlink("/etc/passwd", at).unwrap(),
        |at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
    ];
    for make in makes {
        let store = Store::new();
        let mut random = Random::new(3);
        for name in ["a", "b"] {
            fs::write(store.path(name), random.bytes(100_000)).unwrap();
            store.put(&store.path(name), name);
        }
        let first = store.containers()[0].clone();
        fs::remove_file(&first).unwrap();
        make(&first);
        let found = store.try_verb("verify", &["--data"]).expect(3);
        assert!(found.stderr.contains("a version 1 cannot") && !found.stderr.contains("b version"), "{found:?}");
        store.try_verb("repair", &[]).expect(3);
        store.verb("collect", &[]);
        assert_eq!(store.read("b"), fs::read(store.path("b")).unwrap());
        assert_eq!(store.put_json(&store.path("a"), "a")["files"], 1, "it is read again");
        store.verb("repair", &[]);
        assert_eq!(store.json("collect")["replaced"], 1);
        store.verb("verify", &["--data"]);
        assert_eq!(store.read("a"), fs::read(store.path("a")).unwrap());
    }
}

#[test]
fn a_file_in_a_folders_place_is_named_and_stops_no_other_verb() {
    let store = Store::new();
    for name in ["a", "b", "c"] {
        fs::write(store.path(name), Random::new(u64::from(name.as_bytes()[0])).bytes(60_000)).unwrap();
    }
    store.put(&store.path("a"), "a");
    let planted = store.directory().join("containers/02");
    fs::write(&planted, "no folder").unwrap();
    let refused = run(&["put".as_ref(), store.path("b").as_os_str(), store.address("b").as_os_str()]).expect(1);
    assert!(refused.stderr.contains("containers/02: no directory stands where"), "{refused:?}");
    assert!(refused.stderr.contains("remove it"), "{refused:?}");
    store.verb("verify", &["--data"]);
    store.put(&store.path("c"), "c");
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
    assert_eq!(store.read("a"), fs::read(store.path("a")).unwrap());
    fs::remove_file(planted).unwrap();
    store.put(&store.path("b"), "b");
}

#[test]
fn a_lock_that_is_no_file_is_refused_by_readers_too() {
    let store = Store::new();
    link_out(&store, "catalog.lock");
    for verb in ["ls", "stats", "verify"] {
        let address = if verb == "ls" { store.address("") } else { store.directory().into_os_string() };
        let refused = run(&[verb.as_ref(), address.as_os_str()]).expect(1);
        assert!(refused.stderr.contains("catalog.lock"), "{refused:?}");
    }
}

/// SQLite would write into them, and as root give them to the owner of the catalog.
#[test]
fn a_log_that_has_another_name_is_not_written() {
    for suffix in ["-wal", "-shm", "-journal"] {
        let store = Store::new();
        let (outside, at) = (store.path("outside"), store.directory().join(format!("catalog.sqlite{suffix}")));
        fs::write(&outside, SECRET).unwrap();
        let _ = fs::remove_file(&at);
        fs::hard_link(&outside, &at).unwrap();
        let refused = run(&["put".as_ref(), outside.as_os_str(), &store.address("x")]).expect(1);
        assert!(refused.stderr.contains("another name"), "{refused:?}");
        assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET);
    }
}

#[test]
fn a_reserve_that_has_another_name_or_is_no_file_gives_way_to_one_that_is_the_stores_alone() {
    let makes: [Make; 3] = [
        |at, outside| fs::hard_link(outside, at).unwrap(),
        |at, outside| symlink(outside, at).unwrap(),
        |at, _| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
    ];
    for make in makes {
        let store = Store::new();
        let (outside, at) = (store.path("outside"), store.directory().join("reserve"));
        fs::write(&outside, SECRET).unwrap();
        fs::remove_file(&at).unwrap();
        make(&at, &outside);
        store.verb("collect", &[]);
        assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET);
        assert!(fs::symlink_metadata(&at).unwrap().is_file() && at.metadata().unwrap().len() > 1 << 20);
    }
}

/// Without it an older catalog would pass for the newest.
#[test]
fn a_mark_that_is_not_the_stores_own_file_is_refused() {
    let makes: [(Make, &[&str]); 4] = [
        (|at, outside| fs::hard_link(outside, at).unwrap(), &["rm", "collect"]),
        (|at, outside| symlink(outside, at).unwrap(), &["rm", "collect", "stats", "verify"]),
        (
            |at, _| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
            &["rm", "collect", "stats", "verify"],
        ),
        (|at, _| fs::create_dir(at).unwrap(), &["rm", "collect", "stats", "verify"]),
    ];
    for (make, verbs) in makes {
        let store = Store::new();
        let (outside, at) = (store.path("outside"), store.directory().join("journal.mark"));
        fs::write(&outside, SECRET).unwrap();
        store.put(&outside, "x");
        fs::remove_file(&at).unwrap();
        make(&at, &outside);
        for verb in verbs {
            let address = if *verb == "rm" { store.address("x") } else { store.directory().into_os_string() };
            let refused = run(&[verb.as_ref(), address.as_os_str()]).expect(1);
            assert!(refused.stderr.contains("journal.mark: ") && refused.stderr.contains("remove"), "{refused:?}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET);
    }
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files_of(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// A member of the group could have them delete, with the rights of another, what is behind the link.
#[test]
fn every_verb_refuses_a_link_in_the_place_of_a_folder_of_a_shared_store() {
    let (store, victim) = (Store::new(), Store::new());
    fs::write(store.path("file"), Random::new(1).bytes(60_000)).unwrap();
    for name in ["a", "b"] {
        victim.put(&store.path("file"), name);
    }
    let (shared, group) = (store.path("shared"), fs::metadata(store.path("file")).unwrap().gid().to_string());
    run(&["init".as_ref(), shared.as_os_str(), "--shared".as_ref(), group.as_ref()]).expect(0);
    let address = format!("{}::x", shared.display());
    run(&["put".as_ref(), store.path("file").as_os_str(), address.as_ref()]).expect(0);
    for folder in ["containers", "table"] {
        let before = files_of(&victim.directory().join(folder));
        fs::rename(shared.join(folder), shared.join("aside")).unwrap();
        symlink(victim.directory().join(folder), shared.join(folder)).unwrap();
        for words in
            ["ls", "stats", "verify", "verify --rebuild-catalog", "verify --rebuild-table", "repair", "collect", "rm"]
        {
            let at = if ["ls", "rm"].contains(&words) { address.as_ref() } else { shared.as_os_str() };
            let words: Vec<&OsStr> = words.split(' ').map(OsStr::new).chain([at]).collect();
            let refused = run(&words).expect(1);
            let expected = "a symbolic link stands where a directory of the store belongs; remove it";
            assert!(refused.stderr.contains(expected), "{words:?}: {refused:?}");
        }
        assert_eq!(files_of(&victim.directory().join(folder)), before);
        fs::remove_file(shared.join(folder)).unwrap();
        fs::rename(shared.join("aside"), shared.join(folder)).unwrap();
    }
    run(&["verify".as_ref(), "--data".as_ref(), shared.as_os_str()]).expect(0);
}

#[test]
fn a_container_of_another_store_is_not_deleted() {
    let (store, other) = (Store::new(), Store::new());
    for (seed, (store, name)) in [(&store, "a"), (&other, "b")].into_iter().enumerate() {
        fs::write(store.path(name), Random::new(seed as u64).bytes(60_000)).unwrap();
        store.put(&store.path(name), name);
    }
    run(&["rm".as_ref(), store.address("a").as_os_str()]).expect(0);
    let place = &store.containers()[0];
    fs::remove_file(place).unwrap();
    let bytes = fs::read(&other.containers()[0]).unwrap();
    fs::write(place, &bytes).unwrap();
    for _ in 0..2 {
        run(&["collect".as_ref(), store.directory().as_os_str()]);
    }
    assert!(fs::read(place).unwrap() == bytes);
}

#[test]
fn no_store_is_made_in_a_store() {
    let store = Store::new();
    let inside = store.directory().join("some/inner");
    let refused = run(&["init".as_ref(), inside.as_os_str()]).expect(1);
    assert!(refused.stderr.contains("lies in the store") && !inside.exists(), "{refused:?}");
}

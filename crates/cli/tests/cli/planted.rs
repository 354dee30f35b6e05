//! Links and pipes that somebody who may write to a store's directory put where its files belong.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::runner::{Store, run};

const SECRET: &str = "of another user";

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
        for place in ["one", "two"] {
            run(&["put".as_ref(), "--force".as_ref(), store.path("file").as_os_str(), store.place(place).as_os_str()]);
        }
        run(&["rm".as_ref(), store.place("one").as_os_str()]);
        run(&["collect".as_ref(), store.directory().as_os_str()]);
        assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET, "{name}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_holds_up_nobody() {
    for name in ["store.toml", "catalog.sqlite"] {
        let store = Store::new();
        let at = store.directory().join(name);
        fs::remove_file(&at).unwrap();
        assert!(Command::new("mkfifo").arg(&at).status().unwrap().success());
        for verb in ["ls", "collect", "verify"] {
            let place = if verb == "ls" { store.place("") } else { store.directory().into_os_string() };
            let words = ["10".as_ref(), env!("CARGO_BIN_EXE_thalweg").as_ref(), verb.as_ref(), place.as_os_str()];
            let ended = Command::new("timeout").args(words).output().unwrap();
            assert_eq!(ended.status.code(), Some(1), "{verb} with {name}: {ended:?}");
            assert!(String::from_utf8_lossy(&ended.stderr).contains("regular file"), "{ended:?}");
        }
    }
}

//! A small tree that changes at random between puts, some of them killed: each snapshot, and the place after each, is the tree as
//! it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use random::Random;
use serde_json::Value;

use super::runner::{Run, Store, command, run};
use super::snapshot::{Tree, assert_same, snapshot};

/// Puts of the test; each takes some 50 ms.
const PUTS: usize = 60;
/// Names are few, so that links, contents and removals meet.
const NAMES: u64 = 10;
const DIRECTORIES: [&str; 3] = ["", "a", "b"];

fn name(root: &Path, random: &mut Random) -> PathBuf {
    let directory = root.join(DIRECTORIES[random.index(DIRECTORIES.len())]);
    fs::create_dir_all(&directory).unwrap();
    directory.join(format!("f{}", random.below(NAMES)))
}

/// Writes, renews, appends, links, moves or removes a file, or removes a directory.
fn change(root: &Path, random: &mut Random) {
    let (one, other) = (name(root, random), name(root, random));
    let bytes = [0, 3, 50, 5000][random.index(4)];
    match random.below(12) {
        0..=2 => fs::write(&one, random.bytes(bytes)).unwrap(),
        3 => {
            fs::write(root.join("new"), random.bytes(bytes)).unwrap();
            fs::rename(root.join("new"), &one).unwrap();
        }
        4 if one.exists() => {
            let before = fs::read(&one).unwrap();
            fs::write(&one, [before, random.bytes(1)].concat()).unwrap();
        }
        5..=7 if one.exists() && one != other => {
            let _ = fs::remove_file(&other);
            fs::hard_link(&one, &other).unwrap();
        }
        8 if one.exists() => fs::rename(&one, &other).unwrap(),
        9 if random.below(3) == 0 => fs::remove_dir_all(root.join("a")).unwrap_or_default(),
        _ => fs::remove_file(&one).unwrap_or_default(),
    }
}

/// Puts the tree, and kills one put in three on its way; returns the snapshot's name.
fn put(store: &Store, source: &Path, random: &mut Random) -> Option<String> {
    let arguments = ["put".as_ref(), "--json".as_ref(), "--replace".as_ref(), source.as_os_str(), &store.address("t")];
    let put = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if random.below(3) == 0 {
        std::thread::sleep(Duration::from_millis(random.below(40)));
        let signal = [rustix::process::Signal::KILL, rustix::process::Signal::INT][random.index(2)];
        let pid = rustix::process::Pid::from_child(&put);
        rustix::process::kill_process(pid, signal).unwrap();
    }
    let done: Run = put.wait_with_output().unwrap().into();
    match done.code {
        Some(0) => match &done.json()["snapshot"] {
            Value::String(id) => Some(id.clone()),
            none => panic!("{none}: {done:?}"),
        },
        _ => None,
    }
}

fn expect(store: &Store, options: &[&str], tree: &Tree, seed: &str) {
    let copy = store.path("copy");
    let place = store.address("t").into_string().unwrap();
    run(&[&["get", "--quiet"], options, &[&place, copy.to_str().unwrap()]].concat()).expect(0);
    let found = snapshot(&copy);
    fs::remove_dir_all(&copy).unwrap();
    if found != *tree {
        eprintln!("{seed}, get {options:?}:");
        assert_same(tree, &found);
    }
}

#[test]
fn each_snapshot_is_the_tree_of_its_put_whatever_was_linked_removed_and_killed_before() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    let mut trees = Vec::new();
    for step in 0..PUTS {
        (0..=random.below(6)).for_each(|_| change(&source, &mut random));
        let tree = snapshot(&source);
        if let Some(id) = put(&store, &source, &mut random) {
            expect(&store, &[], &tree, &format!("put {step}"));
            trees.push((id, tree));
        }
    }
    for (id, tree) in &trees {
        expect(&store, &["--snapshot", id], tree, id);
    }
    store.verb("verify", &["--data"]);
}

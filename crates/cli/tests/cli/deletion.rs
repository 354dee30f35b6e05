//! Names taken away and moved, and the space that comes back.

use std::fs;

use random::Random;

use super::node::Node;
use super::runner::{Store, run};

fn with_files(names: &[&str]) -> Store {
    let store = Store::new();
    let mut random = Random::new(7);
    for name in names {
        fs::write(store.path("content"), random.bytes(3 << 20)).unwrap();
        store.put(&store.path("content"), name);
    }
    store
}

#[test]
fn removed_files_free_space_and_the_others_stay() {
    let store = with_files(&["a", "d/b", "d/c"]);
    let kept = store.read("a");
    let before = store.container_bytes();
    assert!(run(&["rm".as_ref(), store.address("d").as_os_str()]).expect(1).stderr.contains("is a directory; -r"));
    store.at("rm", "d", &["-r"]);
    store.verb("collect", &[]);
    assert!(before - store.container_bytes() > 5 << 20, "{before} became {}", store.container_bytes());
    assert_eq!(store.read("a"), kept);
    assert_eq!(store.at("ls", "", &[]).text(), "a\n");
    store.verb("verify", &["--data"]);
}

#[test]
fn nothing_is_removed_when_one_name_is_missing() {
    let store = with_files(&["a"]);
    run(&["rm".as_ref(), store.address("a").as_os_str(), store.address("b").as_os_str()]).expect(1);
    assert_eq!(store.at("ls", "", &[]).text(), "a\n");
}

#[test]
fn names_move_with_all_below_them() {
    let store = with_files(&["a", "d/b"]);
    let mv = |arguments: &[&str]| {
        let addresses = arguments.iter().map(|path| store.address(path));
        run(&std::iter::once("mv".into()).chain(addresses).collect::<Vec<_>>())
    };
    mv(&["a", "d/"]).expect(0);
    mv(&["d", "e"]).expect(0);
    assert_eq!(store.at("ls", "", &["-R"]).text(), "e/\ne/a\ne/b\n");
    mv(&["e/a", "e/b", "f/"]).expect(0);
    assert_eq!(store.at("ls", "", &["-R"]).text(), "e/\nf/\nf/a\nf/b\n");
    mv(&["nowhere", "x"]).expect(1);
    mv(&["e", "f", "f/a"]).expect(1);
}

#[test]
fn collect_says_that_other_processes_may_hold_what_it_deleted_open() {
    let store = with_files(&["a"]);
    assert_eq!(store.json("collect")["open_elsewhere"], false);
    let node = Node::of(&store);
    assert_eq!(store.json("collect")["open_elsewhere"], true);
    drop(node);
    store.at("rm", "a", &[]);
    assert!(!store.verb("collect", &[]).text().contains("other processes"));
}

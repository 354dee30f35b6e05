//! `put --dedup off`, and `thalweg dedup` after it.

use std::process::Stdio;
use std::time::Duration;

use random::Random;

use super::node::Node;
use super::runner::{Store, command, run};

fn put_without_look_ups(store: &Store, from: &str, to: &str) {
    let (from, to) = (store.path(from), store.address(to));
    run(&["put".as_ref(), "--dedup".as_ref(), "off".as_ref(), from.as_os_str(), &to]).expect(0);
}

#[test]
fn a_put_without_look_ups_stores_again_what_is_there_and_reads_the_same() {
    let store = Store::new();
    let plain = Random::new(1).bytes(2_000_000);
    std::fs::write(store.path("source"), &plain).unwrap();
    put_without_look_ups(&store, "source", "a");
    let once = store.container_bytes();
    put_without_look_ups(&store, "source", "b");
    let twice = store.container_bytes();
    assert!(twice > 2 * once - 100_000, "{once}, then {twice}");
    store.put(&store.path("source"), "c");
    assert!(store.container_bytes() < twice + 100_000, "a put with look-ups finds them");
    ["a", "b", "c"].iter().for_each(|name| assert!(store.read(name) == plain));
    assert_eq!(store.json("verify")["damages"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_put_without_look_ups_goes_through_a_node_too() {
    let store = Store::new();
    let plain = Random::new(2).bytes(2_000_000);
    std::fs::write(store.path("source"), &plain).unwrap();
    let node = Node::of(&store);
    for name in ["a", "b"] {
        let to = format!("thalweg://{}::{name}", node.address);
        run(&["put", "--dedup", "off", store.path("source").to_str().unwrap(), &to]).expect(0);
    }
    node.terminate();
    assert!(store.container_bytes() > 3_900_000, "{}", store.container_bytes());
    ["a", "b"].iter().for_each(|name| assert!(store.read(name) == plain));
}

#[test]
fn duplicates_that_were_put_without_look_ups_are_freed_later() {
    for by in ["segments", "files"] {
        let store = Store::new();
        let (plain, other) = (Random::new(3).bytes(2_000_000), Random::new(4).bytes(500_000));
        std::fs::create_dir(store.path("tree")).unwrap();
        for (name, bytes) in [("a", &plain), ("b", &plain), ("other", &other)] {
            std::fs::write(store.path("tree").join(name), bytes).unwrap();
        }
        // A snapshot refers to the duplicates, too.
        put_without_look_ups(&store, "tree", "t");
        put_without_look_ups(&store, "tree", "u");
        let (listed, versions) = (store.at("ls", "t", &["--json"]).json(), store.at("stat", "t/b", &["--json"]).json());
        let before = store.container_bytes();
        let done = store.verb("dedup", &["--by", by, "--json"]).json();
        let after = store.container_bytes();
        assert!(before > 9_000_000 && after < 2_700_000, "by {by}: {before} became {after}: {done}");
        assert_eq!(done["duplicate_bytes"], 3 * 2_000_000 + 500_000, "by {by}");
        assert_eq!(done["saved_bytes"].as_u64().unwrap(), before - after);
        assert_eq!(store.at("ls", "t", &["--json"]).json(), listed);
        assert_eq!(store.at("stat", "t/b", &["--json"]).json()["versions"], versions["versions"]);
        for place in ["t", "u"] {
            assert!(store.read(&format!("{place}/a")) == plain && store.read(&format!("{place}/b")) == plain);
            assert!(store.read(&format!("{place}/other")) == other);
        }
        let again = store.verb("dedup", &["--by", by]);
        assert!(again.text().contains("nothing to do"), "{}", again.text());
        let id = store.json("snapshots")[0]["id"].as_str().unwrap().to_owned();
        let restored = store.path("restored");
        store.at("get", "t", &["--snapshot", &id, restored.to_str().unwrap()]);
        assert!(std::fs::read(restored.join("b")).unwrap() == plain);
        assert_eq!(store.verb("verify", &["--data", "--json"]).json()["damages"].as_array().map(Vec::len), Some(0));
        // The journal has the new manifests.
        std::fs::remove_file(store.path("store/catalog.sqlite")).unwrap();
        store.verb("verify", &["--rebuild-catalog", "--data"]);
        assert!(store.read("t/b") == plain && store.read("u/a") == plain);
    }
}

#[test]
fn what_a_node_has_just_written_is_found_or_said_not_to_be_compared() {
    let store = Store::new();
    std::fs::write(store.path("source"), Random::new(6).bytes(400_000)).unwrap();
    let node = Node::of(&store);
    for name in ["a", "b", "c"] {
        let to = format!("thalweg://{}::{name}", node.address);
        run(&["put", "--dedup", "off", store.path("source").to_str().unwrap(), &to]).expect(0);
    }
    let report = store.verb("dedup", &["--json"]).json();
    let of = |field: &str| report[field].as_u64().unwrap();
    assert!(of("duplicate_bytes") == 800_000 || of("unlisted_segments") > 0, "{report}");
    assert!(of("unlisted_segments") < 1000, "each counts once: {report}");
    node.terminate();
    assert_eq!(store.verb("dedup", &["--json"]).json()["unlisted_segments"], 0);
}

#[test]
fn a_killed_deduplication_leaves_every_file_and_the_next_one_goes_on() {
    let store = Store::new();
    let plain: Vec<_> = (0..6).map(|seed| Random::new(10 + seed).bytes(400_000)).collect();
    for copy in ["a", "b", "c"] {
        for (number, bytes) in plain.iter().enumerate() {
            std::fs::write(store.path("source"), bytes).unwrap();
            put_without_look_ups(&store, "source", &format!("{copy}/{number}"));
        }
    }
    let check = || {
        for copy in ["a", "b", "c"] {
            let files = plain.iter().enumerate();
            files.for_each(|(number, bytes)| assert!(store.read(&format!("{copy}/{number}")) == *bytes));
        }
    };
    let directory = store.directory();
    for wait_ms in [300, 900, 1500] {
        let arguments = ["dedup", directory.to_str().unwrap(), "--limit-rate", "2M"];
        let mut child = command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        check();
    }
    store.verb("dedup", &[]);
    check();
    // The leases of the killed ones hold their files back for a while.
    assert_eq!(store.verb("dedup", &["--json"]).json()["duplicate_bytes"], 0);
    assert_eq!(store.json("verify")["damages"].as_array().map(Vec::len), Some(0));
}

#[test]
fn stores_that_cannot_be_deduplicated_are_refused_with_what_to_do() {
    let far = run(&["dedup", "thalweg://127.0.0.1:1"]).expect(2);
    assert!(far.stderr.contains("on the node's own machine"), "{}", far.stderr);
    let store = Store::new();
    store.try_verb("dedup", &["--by", "blocks"]).expect(2);
    let settings = store.directory().join("store.toml");
    let near = std::fs::read_to_string(&settings).unwrap() + &format!("upstream = \"{}\"\n", "0".repeat(32));
    std::fs::write(&settings, near).unwrap();
    let near = store.try_verb("dedup", &[]).expect(1);
    assert!(near.stderr.contains("stands near its clients"), "{}", near.stderr);
}

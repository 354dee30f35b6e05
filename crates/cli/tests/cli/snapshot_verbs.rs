//! Verbs of snapshots besides fetching them: compare, search, measure, tag, and drop by rules.

use std::fs;

use super::node::Node;
use super::runner::{Store, run};
use super::trees_in_time::{StoreAddress, names};

/// Returns the names of two snapshots: of a tree, and of it after a file went, one came and one changed.
fn two_snapshots(store: &Store, place: &StoreAddress) -> (String, String) {
    let source = store.path("source");
    fs::create_dir_all(source.join("d")).unwrap();
    for (name, content) in [("d/going", "it goes"), ("changing", "as it was"), ("staying", "always")] {
        fs::write(source.join(name), content).unwrap();
    }
    let first = place.put(&source, "t", &[]);
    fs::remove_file(source.join("d/going")).unwrap();
    fs::write(source.join("changing"), "as it is").unwrap();
    fs::write(source.join("d/new"), "newly").unwrap();
    (first, place.put(&source, "t", &["--tag", "nightly"]))
}

fn snapshots_answer_every_reading_verb(store: &Store, place: &StoreAddress) {
    let (first, second) = two_snapshots(store, place);
    let differences = |options: &[&str]| -> Vec<String> {
        let listed = place.run("diff", "t", &[options, &["--json"]].concat()).expect(0).json();
        let shown = |entry: &serde_json::Value| {
            format!("{} {}", entry["difference"].as_str().unwrap(), entry["path"].as_str().unwrap())
        };
        listed.as_array().unwrap().iter().map(shown).collect()
    };
    let changed = ["content changing", "removed d/going", "added d/new"];
    assert_eq!(differences(&["--snapshot", &first]), changed, "with what is now");
    assert_eq!(differences(&["--snapshot", &first, "--snapshot", "latest"]), changed);
    assert_eq!(differences(&["--snapshot", &second]), [""; 0]);
    let below = place.run("diff", "t/d", &["--snapshot", &first, "--json"]).expect(0).json();
    assert_eq!(below.as_array().unwrap().len(), 2);
    place.run("diff", "t", &["--snapshot", &first, "--at", "1h"]).expect(2);

    let cat = place.run("cat", "t/changing", &["--snapshot", &first]).expect(0);
    assert_eq!(cat.stdout, b"as it was");
    assert_eq!(place.run("cat", "t/changing", &[]).expect(0).stdout, b"as it is");
    let absent = place.run("cat", "t/d/new", &["--snapshot", &first]).expect(1);
    assert!(absent.stderr.contains(&format!("is not in snapshot {first}")), "{}", absent.stderr);
    let found = names(place.run("find", "t", &["--kind", "file", "--snapshot", &first, "--json"]));
    assert_eq!(found, ["t/changing", "t/d/going", "t/staying"]);
    let sums = place.run("du", "t", &["--snapshot", &first, "--json"]).expect(0).json();
    assert_eq!((&sums[0]["bytes"], &sums[1]["bytes"]), (&7.into(), &22.into()));
}

#[test]
fn snapshots_are_compared_searched_and_measured() {
    let store = Store::new();
    snapshots_answer_every_reading_verb(&store, &StoreAddress::of(&store));
}

#[test]
fn snapshots_are_compared_searched_and_measured_through_a_node() {
    let store = Store::new();
    let node = Node::of(&store);
    snapshots_answer_every_reading_verb(&store, &StoreAddress(format!("thalweg://{}", node.address)));
}

#[test]
fn tags_come_and_go() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let (first, second) = two_snapshots(&store, &place);
    let tagged = |tag: &str| -> Vec<String> {
        let listed = place.run("snapshots", "", &["--tag", tag, "--json"]).expect(0).json();
        listed.as_array().unwrap().iter().map(|snapshot| snapshot["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(tagged("nightly"), std::slice::from_ref(&second));
    place.run("tag", "t", &["--snapshot", &first, "--snapshot", "latest", "--add", "published"]).expect(0);
    place.run("tag", "", &["--snapshot", &second[..6], "--remove", "nightly", "--add", "kept"]).expect(0);
    assert_eq!(tagged("published"), [first.clone(), second.clone()]);
    assert_eq!(tagged("nightly"), [""; 0]);
    store.verb("verify", &["--rebuild-catalog"]);
    assert_eq!(tagged("kept"), [second], "the journal has the tags");
    place.run("tag", "t", &["--snapshot", &first]).expect(2);
    place.run("tag", "other", &["--snapshot", &first, "--add", "x"]).expect(1);
    place.run("tag", "t", &["--snapshot", "nonsense", "--add", "x"]).expect(1);
    place.run("tag", "t", &["--snapshot", &first, "--add", &"long".repeat(20_000)]).expect(2);
    store.verb("verify", &["--data"]);
}

#[test]
fn snapshots_go_by_rules_each_tree_by_itself() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    fs::create_dir_all(&source).unwrap();
    let mut ids = Vec::new();
    for content in ["one", "two", "three", "four"] {
        fs::write(source.join("file"), content).unwrap();
        ids.push(place.put(&source, "t", &[]));
    }
    let other = place.put(&source, "elsewhere", &[]);
    place.run("tag", "", &["--snapshot", &ids[0], "--add", "first"]).expect(0);
    let rules = ["--keep-snapshots", "last=1,tag=first"];
    let dry = place.run("forget", "", &[&rules[..], &["-n", "--json"]].concat()).expect(0).json();
    assert_eq!(dry["snapshots"], serde_json::json!([ids[1], ids[2]]));
    assert_eq!(place.ids().len(), 5, "nothing went");
    place.run("forget", "t/file", &rules).expect(0);
    assert_eq!(place.ids().len(), 5, "the snapshots are of more than the file");
    place.run("forget", "", &rules).expect(0);
    assert_eq!(place.ids(), [ids[0].clone(), ids[3].clone(), other]);
    place.run("forget", "t", &["--keep-snapshots", "fortnightly=1"]).expect(2);
    // Versions are another matter, and can be tried as well.
    let dry = run(&["forget", "-n", "--keep", "last=1", &place.at("t/file"), "--json"]).expect(0).json();
    assert_eq!(dry["versions"], 3);
    let versions = store.at("stat", "t/file", &["--json"]).json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 4);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

/// Returns the names below the place.
fn names_in(place: &StoreAddress) -> Vec<String> {
    names(place.run("ls", "t", &["--json"]))
}

#[test]
fn a_dry_run_says_which_names_would_leave_the_place() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    two_snapshots(&store, &place);
    let source = store.path("source");
    fs::remove_dir_all(source.join("d")).unwrap();
    let put = |options: &[&str]| {
        let at = place.at("t");
        run(&[&["put"], options, &[source.to_str().unwrap(), &at]].concat()).expect(0)
    };
    let dry = put(&["-n"]).text();
    assert!(dry.contains("would remove t/d\nwould remove t/d/new\n") && dry.contains("2 removed"), "{dry}");
    let dry = put(&["-n", "--json"]).json();
    assert_eq!((&dry["removed"], &dry["removed_names"][0]["path"]), (&2.into(), &"t/d".into()));
    assert!(names_in(&place).contains(&"t/d".to_owned()), "nothing went");
    let done = put(&["-v"]).text();
    assert!(done.contains("removed   t/d\nremoved   t/d/new\n"), "{done}");
    assert_eq!(names_in(&place), ["t/changing", "t/staying"]);
}

#[test]
fn a_store_that_is_its_own_source_empties_no_place() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let directory = store.directory();
    run(&["put", directory.to_str().unwrap(), &place.at("t")]).expect(1);
    assert!(place.ids().is_empty());
}

#[test]
fn a_source_is_the_same_tree_however_its_path_is_written() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    two_snapshots(&store, &place);
    let source = store.path("source");
    std::os::unix::fs::symlink(source.join("d"), store.path("elsewhere")).unwrap();
    fs::remove_file(source.join("staying")).unwrap();
    let dotted = source.join("d/../../source/.");
    place.put(&dotted, "t", &[]);
    assert!(!names_in(&place).contains(&"t/staying".to_owned()));
    // Behind a symbolic link `..` is the directory that it leads into.
    place.put(&store.path("elsewhere/.."), "t", &[]);
    let listed = place.run("snapshots", "", &["--json"]).expect(0).json();
    let last = |count: usize| &listed[listed.as_array().unwrap().len() - count]["sources"];
    assert_eq!(last(1), last(2));
    assert!(listed[0]["time"].as_str().unwrap().contains('T'), "{listed}");
    let newest = place.run("snapshots", "", &["--json", "--latest", "1"]).expect(0).json();
    assert_eq!(newest.as_array().unwrap().len(), 1);
}

#[test]
fn what_is_said_of_a_snapshot_is_checked() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let (first, _) = two_snapshots(&store, &place);
    let (source, at) = (store.path("source"), place.at("t"));
    let (source, file) = (source.to_str().unwrap(), source.join("staying"));
    for host in ["", "a\nb", &"h".repeat(256)] {
        run(&["put", "--host", host, source, &at]).expect(2);
    }
    run(&["put", "--tag", "x", file.to_str().unwrap(), &place.at("alone")]).expect(2);
    let many: Vec<String> = (0..101).flat_map(|tag| ["--tag".to_owned(), format!("t{tag}")]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    run(&[&["put"], &many[..], &[source, &at]].concat()).expect(2);
    let many: Vec<String> = (0..101).flat_map(|tag| ["--add".to_owned(), format!("t{tag}")]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = place.run("tag", "t", &[&["--snapshot", &first], &many[..]].concat()).expect(1);
    assert!(refused.stderr.contains("100 is the most"), "{}", refused.stderr);
    let absent = place.run("tag", "t", &["--snapshot", &first, "--remove", "never"]).expect(0);
    assert!(absent.stderr.contains("has no tag never"), "{}", absent.stderr);
    let empty = Store::new();
    let none = StoreAddress::of(&empty).run("ls", "", &["--snapshot", "latest"]).expect(1);
    assert!(none.stderr.contains("the store has no snapshot"), "{}", none.stderr);
}

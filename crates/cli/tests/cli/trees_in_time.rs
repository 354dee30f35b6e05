//! Snapshots of trees: recorded by a put, listed, fetched, forgotten, and kept from everything else until then.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use format::{HandleKey, StorePath};
use random::Random;
use serde_json::Value;
use transfer::message::{FailureKind, Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::{Run, Store, run};
use super::snapshot::{assert_same, snapshot};

/// A store as its directory or through its node.
pub struct StoreAddress(pub String);

impl StoreAddress {
    pub fn of(store: &Store) -> Self {
        StoreAddress(store.directory().to_str().unwrap().to_owned())
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}::{path}", self.0)
    }

    pub fn run(&self, verb: &str, path: &str, options: &[&str]) -> Run {
        let at = self.at(path);
        let mut arguments = vec![verb, &at];
        arguments.extend(options);
        run(&arguments)
    }

    /// Returns the snapshot's name.
    pub fn put(&self, source: &Path, path: &str, options: &[&str]) -> String {
        let at = self.at(path);
        let mut arguments = vec!["put", "--json"];
        arguments.extend(options);
        arguments.extend([source.to_str().unwrap(), &at]);
        run(&arguments).expect(0).json()["snapshot"].as_str().unwrap().to_owned()
    }

    fn get(&self, path: &str, to: &Path, options: &[&str]) -> Run {
        let at = self.at(path);
        let mut arguments = vec!["get"];
        arguments.extend(options);
        arguments.extend([at.as_str(), to.to_str().unwrap()]);
        run(&arguments)
    }

    pub fn ids(&self) -> Vec<String> {
        let listed = self.run("snapshots", "", &["--json"]).expect(0).json();
        let id = |snapshot: &Value| snapshot["id"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(id).collect()
    }
}

pub fn names(run: Run) -> Vec<String> {
    let listed = run.expect(0).json();
    listed.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

/// A source with files, hard links, a symlink, an empty file and one that is long.
fn source(store: &Store) -> std::path::PathBuf {
    let source = store.path("source");
    let mut random = Random::new(7);
    fs::create_dir_all(source.join("a/deep")).unwrap();
    fs::create_dir_all(source.join("b")).unwrap();
    for file in 0..80 {
        let bytes = random.below(40_000) as usize;
        fs::write(source.join(format!("a/{file}")), random.bytes(bytes)).unwrap();
    }
    fs::write(source.join("a/deep/long"), random.bytes(9 << 20)).unwrap();
    fs::write(source.join("a-empty"), "").unwrap();
    fs::write(source.join("b/zeros"), vec![0; 100_000]).unwrap();
    fs::write(source.join("b/going"), "it will go").unwrap();
    fs::hard_link(source.join("a/1"), source.join("b/same")).unwrap();
    symlink("zeros", source.join("b/link")).unwrap();
    fs::set_permissions(source.join("b"), fs::Permissions::from_mode(0o750)).unwrap();
    source
}

fn trees_come_back(store: &Store, place: &StoreAddress) {
    let source = source(store);
    let first = place.put(&source, "run/tree", &["--tag", "one"]);
    let before = snapshot(&source);
    fs::remove_file(source.join("b/going")).unwrap();
    fs::remove_file(source.join("b/link")).unwrap();
    fs::remove_dir_all(source.join("a/deep")).unwrap();
    fs::write(source.join("a/2"), "other").unwrap();
    fs::write(source.join("new"), "new").unwrap();
    let second = place.put(&source, "run/tree", &[]);
    assert_eq!(place.ids(), [first.clone(), second.clone()]);
    // The place is the newest.
    place.get("run/tree", &store.path("newest"), &[]).expect(0);
    assert_same(&snapshot(&source), &snapshot(&store.path("newest")));
    for (id, tree) in [(&first, &before), (&second, &snapshot(&source))] {
        let to = store.path(id);
        place.get("run/tree", &to, &["--snapshot", &id[..6]]).expect(0);
        assert_same(tree, &snapshot(&to));
    }
    place.get("run/tree/b", &store.path("part"), &["--snapshot", &first]).expect(0);
    assert_eq!(fs::read(store.path("part/same")).unwrap(), fs::read(source.join("a/1")).unwrap());
    place.get("run/tree", &store.path("latest"), &["--snapshot", "latest"]).expect(0);
    assert_same(&snapshot(&source), &snapshot(&store.path("latest")));
    let listed = names(place.run("ls", "run/tree/b", &["--snapshot", &first, "--json"]));
    assert_eq!(listed, ["run/tree/b/going", "run/tree/b/link", "run/tree/b/same", "run/tree/b/zeros"]);
    let listed = names(place.run("ls", "run/tree/b", &["--json"]));
    assert_eq!(listed, ["run/tree/b/same", "run/tree/b/zeros"]);
    assert_eq!(names(place.run("ls", "", &["--json"])), ["run"], "the store's own directory is not listed");
    place.get("run/tree", &store.path("none"), &["--snapshot", "nonsense"]).expect(1);
    place.get("run/other", &store.path("none"), &["--snapshot", &first]).expect(1);
}

#[test]
fn trees_come_back_as_each_put_found_them() {
    let store = Store::new();
    trees_come_back(&store, &StoreAddress::of(&store));
    store.verb("verify", &["--data"]);
}

#[test]
fn trees_come_back_through_a_node() {
    let store = Store::new();
    let node = Node::of(&store);
    trees_come_back(&store, &StoreAddress(format!("thalweg://{}", node.address)));
    drop(node);
    store.verb("verify", &["--data"]);
}

#[test]
fn a_snapshot_keeps_its_tree_until_it_is_forgotten() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = source(&store);
    let tree = snapshot(&source);
    let id = place.put(&source, "t", &[]);
    // Everything goes at the source, and from the place part by part.
    fs::remove_dir_all(source.join("a")).unwrap();
    let empty = place.put(&source, "t", &[]);
    let removed = place.run("rm", "t/b/zeros", &[]).expect(0);
    assert!(removed.stderr.contains("2 snapshots"), "{}", removed.stderr);
    store.verb("collect", &[]);
    store.verb("verify", &["--rebuild-catalog"]);
    store.verb("collect", &[]);
    assert_eq!(place.ids(), [id.clone(), empty.clone()], "the journal brings snapshots back");
    place.get("t", &store.path("copy"), &["--snapshot", &id]).expect(0);
    assert_same(&tree, &snapshot(&store.path("copy")));
    let kept = store.container_bytes();
    place.run("forget", "t", &["--snapshot", &id]).expect(0);
    store.verb("collect", &[]);
    assert!(store.container_bytes() < kept / 4, "{} of {kept} bytes", store.container_bytes());
    assert_eq!(place.ids(), [empty]);
    store.verb("verify", &["--data"]);
    // With its place the last one goes, too.
    place.run("rm", "t", &["-r"]).expect(0);
    assert!(place.ids().is_empty());
}

#[test]
fn a_snapshot_of_an_unchanged_tree_is_small_and_changes_nothing() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    for directory in 0..20 {
        fs::create_dir_all(source.join(directory.to_string())).unwrap();
        for file in 0..100 {
            fs::write(source.join(format!("{directory}/{file}")), format!("{directory} {file}")).unwrap();
        }
    }
    // Files that have just been written are read again by the put after.
    std::thread::sleep(std::time::Duration::from_millis(50));
    place.put(&source, "t", &[]);
    place.put(&source, "t", &[]);
    let before = (store.container_bytes(), store.json("stats"));
    place.put(&source, "t", &[]);
    let after = (store.container_bytes(), store.json("stats"));
    assert!(after.0 - before.0 < 8 << 10, "{} bytes", after.0 - before.0);
    for key in ["files", "logical_bytes", "unique_bytes", "segments"] {
        assert_eq!(before.1[key], after.1[key], "{key}");
    }
    assert_eq!(after.1["files"], 2000);
}

#[test]
fn a_place_loses_only_what_the_same_source_had_and_no_other_wrote_since() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let (one, two) = (store.path("one"), store.path("two"));
    for (source, name) in [(&one, "of-one"), (&one, "changed-there"), (&one, "read-only-once"), (&two, "of-two")] {
        fs::create_dir_all(source).unwrap();
        fs::write(source.join(name), name).unwrap();
    }
    place.put(&one, "t", &[]);
    place.put(&two, "t", &[]);
    run(&["put", one.join("of-one").to_str().unwrap(), &place.at("t/by-itself")]).expect(0);
    let changed = store.path("changed");
    fs::write(&changed, "by another").unwrap();
    run(&["put", changed.to_str().unwrap(), &place.at("t/changed-there")]).expect(0);
    for name in ["of-one", "changed-there"] {
        fs::remove_file(one.join(name)).unwrap();
    }
    place.put(&one, "t", &[]);
    let left = names(place.run("ls", "t", &["--json"]));
    assert_eq!(left, ["t/by-itself", "t/changed-there", "t/of-two", "t/read-only-once"]);
    // Another host's tree of the same name is another tree.
    fs::remove_file(one.join("read-only-once")).unwrap();
    place.put(&one, "t", &["--host", "elsewhere"]);
    assert!(names(place.run("ls", "t", &["--json"])).contains(&"t/read-only-once".to_owned()));
}

#[test]
fn versions_outlive_a_name_that_left_until_the_snapshots_before_are_forgotten() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("other"), "stays").unwrap();
    let mut ids = Vec::new();
    for content in ["one", "the second", "the very last"] {
        fs::write(source.join("file"), content).unwrap();
        ids.push(place.put(&source, "t", &[]));
    }
    fs::remove_file(source.join("file")).unwrap();
    let last = place.put(&source, "t", &[]);
    assert_eq!(names(place.run("ls", "t", &["--json"])), ["t/other"]);
    let kept = store.at("stat", &format!(".thalweg-snapshots/{last}.removed/t/file"), &["--json"]).json();
    assert_eq!(kept["versions"].as_array().unwrap().len(), 3);
    let versions = |store: &Store| store.json("stats")["logical_bytes"].as_u64().unwrap();
    let with_versions = versions(&store);
    assert!(with_versions >= "onethe secondthe very laststays".len() as u64, "{with_versions}");
    place.run("forget", "", &["--snapshot", &ids[0], "--snapshot", &ids[1]]).expect(0);
    assert_eq!(versions(&store), with_versions, "a snapshot before the name left is there");
    place.run("forget", "", &["--snapshot", &ids[2]]).expect(0);
    assert_eq!(versions(&store), "stays".len() as u64);
    assert_eq!(place.ids(), [last]);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn what_could_not_be_read_stays_in_the_place_and_the_snapshot_says_so() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/file"), "content").unwrap();
    place.put(&source, "t", &[]);
    // A name that became something else is left as it is, and named.
    fs::remove_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d"), "a file now").unwrap();
    let done = run(&["put", "--json", source.to_str().unwrap(), &place.at("t")]).expect(3);
    assert!(done.json()["snapshot"].is_string());
    assert_eq!(names(place.run("ls", "t", &["-R", "--json"])), ["t/d", "t/d/file"]);
    let listed = place.run("snapshots", "t", &["--json"]).expect(0).json();
    assert_eq!(listed[1]["missing"], 1);
    // Names unknown to the incomplete one leave the place by the one before it.
    fs::remove_file(source.join("d")).unwrap();
    place.put(&source, "t", &[]);
    assert!(names(place.run("ls", "t", &["-R", "--json"])).is_empty());
}

#[test]
fn files_alone_and_dry_runs_make_no_snapshot() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    let file = source.join("file");
    let put = run(&["put", "--json", file.to_str().unwrap(), &place.at("f")]).expect(0).json();
    assert!(put["snapshot"].is_null());
    let put = run(&["put", "--json", "-n", source.to_str().unwrap(), &place.at("t")]).expect(0).json();
    assert!(put["snapshot"].is_null());
    assert!(place.ids().is_empty());
}

#[test]
fn the_stores_own_directory_is_out_of_reach() {
    let store = Store::new();
    let place = StoreAddress::of(&store);
    let source = store.path("source");
    fs::create_dir_all(source.join(".thalweg-snapshots")).unwrap();
    fs::write(source.join(".thalweg-snapshots/x"), "content").unwrap();
    fs::write(source.join("file"), "content").unwrap();
    let put = run(&["put", "--json", &format!("{}/.", source.display()), &place.at("")]).expect(0).json();
    assert_eq!(put["skipped"].as_array().unwrap().len(), 1);
    assert_eq!(names(place.run("ls", "", &["-R", "--json"])), ["file"]);
    for verb in ["ls", "rm", "stat", "cat"] {
        place.run(verb, ".thalweg-snapshots/x", &[]).expect(2);
    }
}

#[test]
fn links_to_a_file_that_the_place_has_already_are_in_the_next_snapshot() {
    let store = Store::new();
    let (source, fetched) = (store.path("source"), store.path("fetched"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("h4"), "content").unwrap();
    store.put(&source, "t");
    for name in ["f0", "f2", "f3"] {
        fs::hard_link(source.join("h4"), source.join(name)).unwrap();
    }
    store.put(&source, "t");
    let place = store.address("t");
    run(&["get".as_ref(), "--snapshot=latest".as_ref(), place.as_os_str(), fetched.as_os_str()]).expect(0);
    for name in ["f0", "f2", "f3", "h4"] {
        assert_eq!(fs::read_to_string(fetched.join(name)).unwrap(), "content", "{name}");
    }
}

#[test]
fn a_slash_behind_the_source_makes_no_other_tree() {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    for name in ["going", "staying"] {
        fs::write(source.join(name), name).unwrap();
    }
    store.put(&source, "t");
    fs::remove_file(source.join("going")).unwrap();
    let mut written = source.clone().into_os_string();
    written.push("/");
    store.put(written.as_ref(), "t");
    let listed = store.at("ls", "t", &["--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn an_empty_name_is_no_snapshots() {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    store.put(&source, "t");
    let place = store.address("");
    let refused = run(&["forget".as_ref(), place.as_os_str(), "--snapshot=".as_ref()]).expect(2);
    assert!(refused.stderr.contains("name is empty"), "{}", refused.stderr);
    assert_eq!(store.json("snapshots").as_array().unwrap().len(), 1);
}

#[test]
fn a_job_writes_no_file_into_the_directory_of_snapshots() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut client = Client::greet(&node.address, 1);
    let path = StorePath::new(b".thalweg-snapshots/mpi.out").unwrap();
    let nodes = vec![node.address.clone()];
    let key = HandleKey([1; 16]);
    let refused =
        client.ask(Request::OpenPath { path, flags: 2 | 4, job: String::new(), nodes, stripe_bytes: 4 << 20, key });
    assert!(matches!(&refused, Reply::Failed { failure } if failure.kind == FailureKind::Refused), "{refused:?}");
}

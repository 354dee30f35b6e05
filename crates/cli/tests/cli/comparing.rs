//! `diff`: what two trees have different; `get --include`: parts of one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::node::Node;
use super::runner::{Run, Store, files_below, run};

fn diff(places: &[&OsStr], options: &[&str]) -> Run {
    let mut arguments: Vec<OsString> = vec!["diff".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend(places.iter().map(OsString::from));
    run(&arguments)
}

fn lines(run: &Run) -> Vec<String> {
    run.text().lines().map(str::to_owned).collect()
}

fn write(path: PathBuf, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// `a` and `b`, with one difference of each kind; names that sort between a directory and what lies in it, too.
fn two_trees() -> Store {
    let store = Store::new();
    for tree in ["a", "b"] {
        let tree = store.path(tree);
        for (name, content) in [("same", "same"), ("d/same", "s"), ("d-e", "between"), ("mode", "mode")] {
            write(tree.join(name), content);
        }
    }
    let (a, b) = (store.path("a"), store.path("b"));
    write(a.join("gone"), "gone");
    write(b.join("d/new"), "new file");
    write(a.join("longer"), "short");
    write(b.join("longer"), "no more");
    write(a.join("other"), "abc");
    write(b.join("other"), "xyz");
    write(a.join("kind"), "a file");
    fs::create_dir(b.join("kind")).unwrap();
    symlink("here", a.join("link")).unwrap();
    symlink("there", b.join("link")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in [&a, &b].into_iter().flat_map(|tree| files_below(tree)).filter(|path| path.is_file()) {
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }
    fs::set_permissions(b.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    for tree in [&a, &b] {
        // As root or not, the same mode by any umask.
        fs::set_permissions(tree.join("same"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::File::open(tree.join("d")).unwrap().set_modified(time).unwrap();
    }
    store.put(&a, "a");
    store.put(&b, "b");
    store
}

const LINES: [&str; 6] =
    ["+ d/new (8 B)", "- gone (4 B)", "T kind (6 B)", "M link", "M longer (5 B -> 7 B)", "M other (3 B -> 3 B)"];

#[test]
fn two_trees_are_compared_name_by_name() {
    let store = two_trees();
    let (a, b) = (store.address("a"), store.address("b"));
    let done = diff(&[&a, &b], &["-q"]).expect(0);
    assert_eq!(lines(&done), LINES);
    let with_metadata = lines(&diff(&[&a, &b], &["-q", "--metadata"]).expect(0));
    let expected = [&LINES[..5], &["U mode"], &LINES[5..]].concat();
    assert_eq!(with_metadata, expected);
    let summary = diff(&[&a, &b], &[]).expect(0).text();
    assert!(summary.ends_with("1 added, 1 removed, 4 changed; +18 B, -18 B\n"), "{summary}");
    let done = diff(&[&a, &b], &["--json"]).expect(0).json();
    assert_eq!(done.as_array().unwrap().len(), 6);
    assert_eq!((&done[4]["path"], &done[4]["difference"]), (&"longer".into(), &"content".into()));
    assert_eq!((&done[4]["size_before"], &done[4]["size_after"]), (&5.into(), &7.into()));
    assert!(done[0]["size_before"].is_null());
    let turned = lines(&diff(&[&b, &a], &["-q"]).expect(0));
    assert!(turned.contains(&"- d/new (8 B)".to_owned()) && turned.contains(&"+ gone (4 B)".to_owned()), "{turned:?}");
}

#[test]
fn differences_end_with_3_when_that_is_asked_for() {
    let store = two_trees();
    let (a, b) = (store.address("a"), store.address("b"));
    let done = diff(&[&a, &b], &["--exit-code"]).expect(3);
    assert!(done.stderr.contains("differ in 6 names"), "{}", done.stderr);
    let same = diff(&[&a, &a], &["--exit-code"]).expect(0);
    assert_eq!(same.text(), "no differences\n");
    diff(&[&a, &store.address("none")], &[]).expect(1);
    diff(&[&a], &[]).expect(2);
    diff(&[&a, &b], &["--at", "1h", "--at", "1h", "--at", "1h"]).expect(2);
    diff(&[&a], &["--version", "1"]).expect(2);
    diff(&[&a, OsStr::new("/elsewhere::a")], &[]).expect(2);
}

/// A hole and written zeros make two manifests of one content.
#[test]
fn equal_content_is_no_difference_however_it_is_stored() {
    let store = Store::new();
    let mut bytes = vec![0; 3 << 20];
    bytes[..4].copy_from_slice(b"data");
    write(store.path("zeros"), &bytes);
    let sparse = fs::File::create(store.path("hole")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    sparse.write_all_at(b"data", 0).unwrap();
    for name in ["zeros", "hole"] {
        store.put(&store.path(name), name);
    }
    diff(&[&store.address("zeros"), &store.address("hole")], &["--exit-code"]).expect(0);
}

#[test]
fn moments_and_versions_are_compared() {
    let store = Store::new();
    let source = store.path("source");
    write(source.join("f"), "one");
    write(source.join("same"), "same");
    store.put(&source, "t");
    let then = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let then = format!("@{then}");
    std::thread::sleep(Duration::from_millis(1100));
    write(source.join("f"), "the second");
    write(source.join("late"), "late");
    store.put(&source, "t");
    let changes = ["M f (3 B -> 10 B)", "+ late (4 B)"];
    assert_eq!(lines(&diff(&[&store.address("t")], &["-q", "--at", &then]).expect(0)), changes);
    assert_eq!(diff(&[&store.address("t")], &["--at", &then, "--at", &then]).expect(0).text(), "no differences\n");
    let versions = diff(&[&store.address("t/f")], &["-q", "--version", "1"]).expect(0);
    assert_eq!(lines(&versions), ["M f (3 B -> 10 B)"]);
    diff(&[&store.address("t/f")], &["--version", "1", "--version", "1", "--exit-code"]).expect(0);
    diff(&[&store.address("t/f")], &["--version", "7"]).expect(1);
    let node = Node::of(&store);
    let place = OsString::from(format!("thalweg://{}::t", node.address));
    assert_eq!(lines(&diff(&[&place], &["-q", "--at", &then]).expect(0)), changes);
}

fn get(store: &Store, options: &[&str], from: &str, to: &Path) -> Run {
    let mut arguments: Vec<OsString> = vec!["get".into(), "--json".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend([store.address(from), to.into()]);
    run(&arguments)
}

fn names(tree: &Path) -> Vec<String> {
    let name = |path: PathBuf| path.strip_prefix(tree).unwrap().to_string_lossy().into_owned();
    files_below(tree).into_iter().map(name).collect()
}

#[test]
fn parts_of_a_tree_are_fetched_by_pattern() {
    let store = Store::new();
    let source = store.path("source");
    for name in ["a.h5", "b.log", "d/c.h5", "d/e/f.log", "keep/x", "keep/tmp/y", "z/deep/g.h5", "empty/none.log"] {
        write(source.join(name), name);
    }
    fs::set_permissions(source.join("z/deep"), fs::Permissions::from_mode(0o750)).unwrap();
    store.put(&source, "t");
    let done = get(&store, &["--include=*.h5", "--include=/keep", "--exclude=tmp/"], "t", &store.path("one")).expect(0);
    assert_eq!(names(&store.path("one")), ["a.h5", "d/c.h5", "keep/x", "z/deep/g.h5"]);
    let done = done.json();
    assert_eq!((&done["files"], &done["excluded"], &done["directories"]), (&4.into(), &4.into(), &5.into()), "{done}");
    assert!(!store.path("one/empty").exists() && !store.path("one/d/e").exists());
    assert_eq!(fs::metadata(store.path("one/z/deep")).unwrap().permissions().mode() & 0o7777, 0o750);
    get(&store, &["--exclude=*.log"], "t", &store.path("two")).expect(0);
    assert_eq!(names(&store.path("two")), ["a.h5", "d/c.h5", "keep/tmp/y", "keep/x", "z/deep/g.h5"]);
    let done = get(&store, &["--include=*.none"], "t", &store.path("three")).expect(1);
    assert!(done.stderr.contains("no name matches") && !store.path("three").exists(), "{}", done.stderr);
    get(&store, &["--include=*.h5"], "t/a.h5", &store.path("four")).expect(2);
    get(&store, &["--include=[a"], "t", &store.path("four")).expect(2);
}

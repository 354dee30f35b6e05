//! Names that become something else: no version is dropped without a word.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::runner::{Run, Store, run};

fn put(store: &Store, options: &[&str], from: &Path, to: &str) -> Run {
    let mut arguments: Vec<OsString> = vec!["put".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend([from.as_os_str().to_owned(), store.address(to)]);
    run(&arguments)
}

fn mv(store: &Store, options: &[&str], names: &[&str]) -> Run {
    let mut arguments: Vec<OsString> = vec!["mv".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend(names.iter().map(|name| store.address(name)));
    run(&arguments)
}

fn versions(store: &Store, path: &str) -> usize {
    store.at("stat", path, &["--json"]).json()["versions"].as_array().map_or(0, Vec::len)
}

/// A source with `file`, `folder/inner` and `link`, put twice with other content.
fn begun() -> Store {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir_all(source.join("folder")).unwrap();
    symlink("file", source.join("link")).unwrap();
    for content in ["one", "the second"] {
        fs::write(source.join("file"), content).unwrap();
        fs::write(source.join("folder/inner"), content).unwrap();
        store.put(&source, "t");
    }
    store
}

#[test]
fn a_name_that_became_something_else_keeps_its_versions_unless_they_are_given_up() {
    type Make = fn(&Path);
    let becomes: [(&str, Make); 4] = [
        ("file", |path| fs::create_dir(path).unwrap()),
        ("file", |path| symlink("x", path).unwrap()),
        ("folder", |path| fs::write(path, "now a file").unwrap()),
        ("folder", |path| symlink("x", path).unwrap()),
    ];
    for (name, make) in becomes {
        let store = begun();
        let path = store.path("source").join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        make(&path);
        if path.is_dir() {
            fs::write(path.join("below"), "content").unwrap();
        }
        fs::write(store.path("source/other"), "stored all the same").unwrap();
        let done = put(&store, &[], &store.path("source"), "t").expect(3);
        assert!(done.stderr.contains(name) && done.stderr.contains("--replace"), "{name}: {}", done.stderr);
        assert_eq!(store.read("t/other"), b"stored all the same");
        let kept = if name == "file" { "t/file" } else { "t/folder/inner" };
        assert_eq!(versions(&store, kept), 2, "{name}");
        let done = put(&store, &["--replace"], &store.path("source"), "t").expect(0);
        assert!(done.stderr.contains("is dropped"), "{name}: {}", done.stderr);
        store.get("t", &store.path("copy"));
        let (here, there) =
            (path.symlink_metadata().unwrap(), store.path("copy").join(name).symlink_metadata().unwrap());
        assert_eq!(here.file_type(), there.file_type(), "{name}");
        store.verb("verify", &["--data"]);
    }
}

#[test]
fn what_has_no_versions_is_replaced() {
    let store = begun();
    let source = store.path("source");
    fs::remove_file(source.join("link")).unwrap();
    fs::write(source.join("link"), "a file now").unwrap();
    store.put(&source, "t");
    assert_eq!(store.read("t/link"), b"a file now");
}

/// Programs replace files whose names are hard links of each other, all of them together.
#[test]
fn broken_and_new_hard_links_keep_versions() {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a"), "first").unwrap();
    fs::hard_link(source.join("a"), source.join("b")).unwrap();
    store.put(&source, "t");
    for name in ["a", "b"] {
        fs::write(source.join("new"), format!("{name}, another file now")).unwrap();
        fs::rename(source.join("new"), source.join(name)).unwrap();
    }
    store.put(&source, "t");
    assert_eq!(versions(&store, "t/a") + versions(&store, "t/b"), 3, "the first version is still there");
    fs::remove_file(source.join("b")).unwrap();
    fs::hard_link(source.join("a"), source.join("b")).unwrap();
    // Old enough for its times to be trusted.
    std::thread::sleep(Duration::from_millis(50));
    let done = put(&store, &[], &source, "t").expect(3);
    assert!(done.stderr.contains("as a file of its own"), "{}", done.stderr);
    assert_eq!(store.read("t/b"), b"a, another file now");
    let done = put(&store, &["--json"], &source, "t").expect(0);
    assert!(done.stderr.is_empty() && done.json()["files"] == 0, "{done:?}");
    put(&store, &["--replace", "--force"], &source, "t").expect(0);
    assert_eq!(store.at("stat", "t/b", &["--json"]).json()["links"], 2);
    assert_eq!(store.read("t/b"), b"a, another file now");
}

#[test]
fn a_file_is_moved_over_another_only_when_that_is_asked_for() {
    let store = begun();
    fs::write(store.path("x"), "x").unwrap();
    store.put(&store.path("x"), "x");
    let refused = mv(&store, &[], &["x", "t/file"]).expect(1);
    assert!(refused.stderr.contains("2 versions") && refused.stderr.contains("--replace"), "{}", refused.stderr);
    assert_eq!((versions(&store, "t/file"), store.read("x")), (2, b"x".to_vec()));
    let done = mv(&store, &["--replace"], &["x", "t/file"]).expect(0);
    assert!(done.stderr.contains("2 versions"), "{}", done.stderr);
    assert_eq!(store.read("t/file"), b"x");
    store.put(&store.path("x"), "d/file");
    store.put(&store.path("x"), "e/");
    mv(&store, &[], &["t/file", "d/file", "e/"]).expect(2);
    assert_eq!(versions(&store, "d/file"), 1);
}

#[test]
fn two_sources_of_one_name_are_refused_before_anything_is_stored() {
    let store = Store::new();
    for name in ["a", "b"] {
        fs::create_dir_all(store.path(name).join("sub")).unwrap();
        fs::write(store.path(name).join("x"), name).unwrap();
        fs::write(store.path(name).join("sub/y"), name).unwrap();
    }
    let put = |sources: &[&str]| {
        let mut arguments: Vec<OsString> = vec!["put".into()];
        arguments.extend(sources.iter().map(|source| store.path(source).into_os_string()));
        arguments.push(store.address("d/"));
        run(&arguments)
    };
    for sources in [&["a/x", "b/x"][..], &["a/sub", "b/sub"], &["a/.", "b/."], &["a/.", "b/x"], &["b/x", "a/.", "a/x"]]
    {
        let done = put(sources).expect(2);
        assert!(done.stderr.contains("would both be"), "{sources:?}: {}", done.stderr);
        run(&["ls".as_ref(), store.address("d").as_os_str()]).expect(1);
    }
    put(&["a/x", "a/x", "a/sub", "a/."]).expect(0);
    assert_eq!(store.read("d/x"), b"a");
}

#[test]
fn a_missing_source_is_named_and_the_others_are_stored() {
    let store = Store::new();
    fs::write(store.path("a"), "a").unwrap();
    let (a, gone) = (store.path("a"), store.path("gone"));
    let done = run(&["put".as_ref(), gone.as_os_str(), a.as_os_str(), &store.address("d/")]).expect(3);
    assert!(done.stderr.contains("gone: No such file"), "{}", done.stderr);
    assert_eq!(store.read("d/a"), b"a");
    let also = store.path("also");
    let done = run(&["put".as_ref(), gone.as_os_str(), also.as_os_str(), &store.address("e/")]).expect(3);
    assert!(done.stderr.contains("gone: No such file") && done.stderr.contains("also: No such file"), "{done:?}");
    let done = run(&["put".as_ref(), gone.as_os_str(), &store.address("e")]).expect(3);
    assert!(done.stderr.contains("gone: No such file"), "{done:?}");
}

#[test]
fn excluded_names_are_passed_over() {
    let store = Store::new();
    let source = store.path("source");
    for path in ["a.o", "a.c", "d/b.o", "d/cache/x", "cache", "build/y", "d/build/z"] {
        fs::create_dir_all(source.join(path).parent().unwrap()).unwrap();
        fs::write(source.join(path), path).unwrap();
    }
    let options = ["--exclude=*.o", "--exclude", "cache/", "--exclude=/build", "--json"];
    assert_eq!(put(&store, &options, &source, "t").expect(0).json()["excluded"], 4);
    let listed = store.at("ls", "t", &["-R"]).text();
    let listed: Vec<&str> = listed.lines().collect();
    assert_eq!(listed, ["a.c", "cache", "d/", "d/build/", "d/build/z"]);
    put(&store, &["--exclude=!x"], &source, "t").expect(2);
}

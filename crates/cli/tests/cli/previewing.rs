//! `put --dry-run` and `put --verbose`: the preview, and the report.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::node::Node;
use super::runner::{Run, Store, files_below, run};

fn put(options: &[&str], source: &Path, to: &OsStr) -> Run {
    let mut arguments: Vec<OsString> = vec!["put".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend([source.into(), to.to_owned()]);
    run(&arguments)
}

/// `t` as it was put, of which since then a file changed, one went, one came, and one takes the place of a symlink.
fn changed() -> Store {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir_all(source.join("d")).unwrap();
    for (name, content) in [("same", "same"), ("old", "old"), ("d/gone", "gone")] {
        fs::write(source.join(name), content).unwrap();
    }
    symlink("same", source.join("link")).unwrap();
    // A file younger than a tick of the file system's clock is read again.
    std::thread::sleep(Duration::from_millis(50));
    store.put(&source, "t");
    fs::write(source.join("old"), "longer than before").unwrap();
    fs::remove_file(source.join("d/gone")).unwrap();
    fs::remove_file(source.join("link")).unwrap();
    fs::write(source.join("link"), "a file").unwrap();
    fs::write(source.join("new"), "new").unwrap();
    fs::hard_link(source.join("new"), source.join("twin")).unwrap();
    fs::write(source.join("a.o"), "excluded").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    store
}

const LINES: [&str; 8] = [
    "changed   t/d",
    "changed   t/link (6 B)",
    "changed   t/old (18 B)",
    "excluded  t/a.o",
    "new       t/new (3 B)",
    "new       t/twin",
    "removed   t/d/gone",
    "unchanged t/same",
];

fn lines(run: &Run) -> Vec<String> {
    let mut lines: Vec<_> = run.text().lines().map(str::to_owned).collect();
    // Directories change as names in them do; the source itself did.
    lines.retain(|line| line != "changed   t");
    // Which of two names of a file is met first is chance.
    for line in &mut lines {
        match line.as_str() {
            "new       t/new" => *line = "new       t/twin".into(),
            "new       t/twin (3 B)" => *line = "new       t/new (3 B)".into(),
            _ => {}
        }
    }
    lines.sort();
    lines
}

/// Every file of the store with its content.
fn content(store: &Store) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    files_below(&store.directory()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_dry_run_says_what_a_put_does_and_stores_nothing() {
    let store = changed();
    let (source, to) = (store.path("source"), store.address("t"));
    let before = content(&store);
    let dry = put(&["-n", "-v", "-q", "--exclude=*.o"], &source, &to).expect(0);
    assert_eq!(lines(&dry), LINES);
    let containers = |content: Vec<(std::path::PathBuf, Vec<u8>)>| {
        content.into_iter().filter(|(path, _)| !path.to_string_lossy().contains("catalog")).collect::<Vec<_>>()
    };
    assert_eq!(containers(content(&store)), containers(before));
    run(&["stat".as_ref(), store.address("t/new").as_os_str()]).expect(1);
    assert_eq!(store.read("t/old"), b"old");
    let counts = put(&["-n", "--json", "--exclude=*.o"], &source, &to).expect(0).json();
    assert_eq!((&counts["files"], &counts["read_bytes"], &counts["links"]), (&3.into(), &27.into(), &1.into()));
    assert_eq!((&counts["dry_run"], &counts["commits"]), (&true.into(), &0.into()), "{counts}");
    let summary = put(&["-n", "--exclude=*.o"], &source, &to).expect(0).text();
    assert!(summary.starts_with("would remove t/d/gone\nwould put 3 files (27 B to read)"), "{summary}");
    // The preview is what then happens.
    let real = put(&["-v", "-q", "--exclude=*.o"], &source, &to).expect(0);
    assert_eq!(lines(&real), LINES);
    assert_eq!(store.read("t/old"), b"longer than before");
}

#[test]
fn names_are_in_the_document_too() {
    let store = changed();
    let done = put(&["-v", "--json"], &store.path("source"), &store.address("t")).expect(0).json();
    let names = done["names"].as_array().unwrap();
    let of = |path: &str| names.iter().find(|name| name["path"] == path).unwrap_or_else(|| panic!("{path}: {done}"));
    assert_eq!((&of("t/old")["state"], &of("t/old")["bytes"]), (&"changed".into(), &18.into()));
    assert_eq!(of("t/same")["state"], "unchanged");
    assert_eq!(done["dry_run"], false);
}

#[test]
fn a_dry_run_names_what_could_not_be_put() {
    let store = changed();
    let source = store.path("source");
    fs::remove_file(source.join("same")).unwrap();
    fs::create_dir(source.join("same")).unwrap();
    let done = put(&["--dry-run"], &source, &store.address("t")).expect(3);
    assert!(done.stderr.contains("same: not stored: in the store it is a file with 1 version"), "{}", done.stderr);
    assert!(done.stderr.contains("1 file could not be put [TW-106]\n"), "{}", done.stderr);
    let done = put(&["--dry-run", "--replace"], &source, &store.address("t")).expect(0);
    assert!(done.stderr.contains("would take the place of a file with 1 version"), "{}", done.stderr);
    assert_eq!(store.read("t/same"), b"same");
    put(&["--dry-run"], Path::new("-"), &store.address("t/x")).expect(2);
}

/// Where this process may not mount anything, there is no test.
#[test]
fn a_dry_run_needs_no_right_to_write() {
    let store = changed();
    let script = "mount --bind $1 $1 && mount -o remount,ro,bind $1 || exit 99
                  shift; exec \"$@\"";
    let mut within = Command::new("unshare");
    within.args(["--mount", "sh", "-c", script, "sh"]).arg(store.directory()).arg(env!("CARGO_BIN_EXE_thalweg"));
    let output = within.args(["put", "-n", "--json"]).arg(store.path("source")).arg(store.address("t")).output();
    let done = Run::from(output.unwrap());
    // Without the right to mount, too, `unshare` or the script ends.
    if done.code != Some(99) && !done.stderr.contains("unshare") {
        assert_eq!(done.expect(0).json()["files"], 4);
    }
}

#[test]
fn a_dry_run_works_through_a_node() {
    let store = changed();
    let node = Node::of(&store);
    let done = put(
        &["-n", "-v", "-q", "--exclude=*.o"],
        &store.path("source"),
        &OsString::from(format!("thalweg://{}::t", node.address)),
    )
    .expect(0);
    assert_eq!(lines(&done), LINES);
    assert_eq!(store.read("t/old"), b"old");
}

/// Returns the lines of `get` with these options, sorted, with the store's `t` into `to`.
fn got(store: &Store, options: &[&str], to: &Path) -> Vec<String> {
    let mut arguments: Vec<OsString> = vec!["get".into(), "-v".into(), "-q".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend([store.address("t"), to.into()]);
    let place = format!("{}/", to.parent().unwrap().display());
    let mut lines: Vec<_> = run(&arguments).expect(0).text().lines().map(|line| line.replace(&place, "")).collect();
    lines.sort();
    // Which of two names of a file is fetched first is chance.
    lines.retain(|line| !line.contains("twin") && !line.contains("t/new"));
    lines
}

#[test]
fn a_dry_run_of_get_says_what_a_get_does_and_writes_nothing() {
    let store = changed();
    store.put(&store.path("source"), "t");
    let to = store.path("copies/t");
    fs::create_dir(store.path("copies")).unwrap();
    let lines = ["new       t", "new       t/a.o (8 B)", "new       t/d", "new       t/link (6 B)"];
    let lines = [&lines[..], &["new       t/old (18 B)", "new       t/same (4 B)"]].concat();
    assert_eq!(got(&store, &["-n"], &to), lines);
    assert!(!to.exists());
    assert_eq!(got(&store, &[], &to), lines);
    fs::remove_file(to.join("old")).unwrap();
    fs::write(to.join("same"), "other").unwrap();
    let again = ["new       t/old (18 B)", "replaced  t/a.o (8 B)", "replaced  t/link (6 B)", "replaced  t/same (4 B)"];
    let into = store.path("copies");
    let into_copies = |options: &[&str]| {
        let lines = got(&store, options, &into);
        lines.iter().map(|line| line.replace("copies/", "")).collect::<Vec<_>>()
    };
    assert_eq!(into_copies(&["-n"]), again);
    assert_eq!(fs::read(to.join("same")).unwrap(), b"other");
    assert_eq!(into_copies(&[]), again);
    assert_eq!(fs::read(to.join("same")).unwrap(), b"same");
}

#[test]
fn a_dry_run_of_get_names_what_would_stand_in_the_way_and_makes_no_directory() {
    let store = changed();
    let to = store.path("to");
    fs::create_dir_all(to.join("t/same")).unwrap();
    symlink("/etc", to.join("t/d")).unwrap();
    let get = |to: &Path| run(&["get".as_ref(), "-n".as_ref(), store.address("t").as_os_str(), to.as_os_str()]);
    let said = get(&to).expect(3).stderr;
    for what in ["t/same: Is a directory", "t/d: a symbolic link", "2 files would not be fetched"] {
        assert!(said.contains(what), "{said}");
    }
    assert!(!to.join("t/old").exists());
    get(&store.path("a/b/")).expect(0);
    assert!(!store.path("a").exists());
    run(&["get".as_ref(), "-n".as_ref(), store.address("t/old").as_os_str(), "-".as_ref()]).expect(2);
}

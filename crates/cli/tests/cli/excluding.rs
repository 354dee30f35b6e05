//! The exclusions of `put`: patterns in files, caches, other file systems.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::runner::{Run, Store, run};

const CACHE_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a test\n";

fn put(store: &Store, options: &[&OsStr], source: &Path) -> Run {
    let mut arguments: Vec<OsString> = vec!["put".into(), "--json".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend([source.into(), store.address("t")]);
    run(&arguments)
}

fn tree(store: &Store, paths: &[&str]) -> std::path::PathBuf {
    let source = store.path("source");
    for path in paths {
        fs::create_dir_all(source.join(path).parent().unwrap()).unwrap();
        fs::write(source.join(path), path).unwrap();
    }
    source
}

fn listed(store: &Store) -> Vec<String> {
    store.at("ls", "t", &["-R"]).text().lines().map(str::to_owned).collect()
}

#[test]
fn a_file_of_patterns_excludes_as_gitignore_does() {
    let store = Store::new();
    let paths = ["a.o", "keep.o", "d/keep.o", "#x", "!y", "logs/1", "logs/keep", "build/z", "d/build", "end "];
    let source = tree(&store, &paths);
    let patterns = "\u{feff}# objects\r\n*.o\n\n!/keep.o\nlogs/*\n!logs/keep\nbuild/\n\\#x\n\\!y\nend\\ \n";
    fs::write(store.path("patterns"), patterns).unwrap();
    let file = store.path("patterns");
    let done = put(&store, &["--exclude-file".as_ref(), file.as_ref()], &source).expect(0).json();
    assert_eq!(done["excluded"], 7, "{done}");
    assert_eq!(listed(&store), ["d/", "d/build", "keep.o", "logs/", "logs/keep"]);
}

/// A line takes back only exclusions of its own file, wherever the options stand.
#[test]
fn no_file_takes_back_what_another_option_excludes() {
    let store = Store::new();
    let source = tree(&store, &["a.o", "b.o", "c"]);
    fs::write(store.path("one"), "*.o\n").unwrap();
    fs::write(store.path("other"), "!*.o\n!c\n").unwrap();
    let (one, other) = (store.path("one"), store.path("other"));
    let options = ["--exclude=c", "--exclude-file"].map(OsStr::new);
    let options = [&options[..], &[one.as_ref(), "--exclude-file".as_ref(), other.as_ref()]].concat();
    assert_eq!(put(&store, &options, &source).expect(0).json()["excluded"], 3);
}

#[test]
fn a_file_that_is_no_list_of_patterns_is_refused() {
    let store = Store::new();
    let source = tree(&store, &["a"]);
    let file = store.path("patterns");
    for (content, line) in [(&b"*.o\n[a\n"[..], "line 2"), (b"\xff\n", "line 1"), (b"a\n/\n", "line 2")] {
        fs::write(&file, content).unwrap();
        let done = put(&store, &["--exclude-file".as_ref(), file.as_ref()], &source).expect(2);
        assert!(done.stderr.contains("patterns") && done.stderr.contains(line), "{}", done.stderr);
    }
    let done = put(&store, &["--exclude-file".as_ref(), store.path("none").as_ref()], &source).expect(1);
    assert!(done.stderr.contains("none: the file of patterns: No such file"), "{}", done.stderr);
    run(&["ls".as_ref(), store.address("t").as_os_str()]).expect(1);
}

#[test]
fn of_a_cache_its_tag_stays() {
    let store = Store::new();
    let source = tree(&store, &["cache/a", "cache/d/b", "cache/CACHEDIR.TAG", "no/CACHEDIR.TAG", "no/c", "link/e"]);
    fs::write(source.join("cache/CACHEDIR.TAG"), CACHE_TAG).unwrap();
    std::os::unix::fs::symlink("../cache/CACHEDIR.TAG", source.join("link/CACHEDIR.TAG")).unwrap();
    let done = put(&store, &["--exclude-caches".as_ref()], &source).expect(0).json();
    assert_eq!(done["excluded"], 2, "{done}");
    let expected =
        ["cache/", "cache/CACHEDIR.TAG", "link/", "link/CACHEDIR.TAG", "link/e", "no/", "no/CACHEDIR.TAG", "no/c"];
    assert_eq!(listed(&store), expected);
}

/// Mounts need a mount namespace of one's own: without the right to make one, the test is of the option alone.
#[test]
fn a_put_stays_on_its_file_system() {
    let store = Store::new();
    let source = tree(&store, &["a", "other/hidden", "d/file"]);
    let script =
        "mount -t tmpfs none $1/other && touch $1/other/there && mount --bind $1/other/there $1/d/file || exit 99
                  shift; exec \"$@\"";
    let mut within = Command::new("unshare");
    within.args(["--mount", "sh", "-c", script, "sh"]).arg(&source).arg(env!("CARGO_BIN_EXE_thalweg"));
    within.args(["put", "--json", "-x"]).arg(&source).arg(store.address("t"));
    let done = Run::from(within.output().unwrap());
    let done = match done.code == Some(99) || done.stderr.contains("unshare") {
        true => put(&store, &["-x", "--exclude=hidden", "--exclude=file"].map(OsStr::new), &source),
        false => done,
    };
    let done = done.expect(0).json();
    assert_eq!(done["excluded"], 2, "{done}");
    assert_eq!(listed(&store), ["a", "d/", "other/"]);
}

//! Bad input: every mistake gets one line and an exit code, never a panic.

use std::fs;

use super::runner::{Store, command, run};

#[test]
fn every_mistake_gets_one_line() {
    let store = Store::new();
    fs::write(store.path("file"), "x").unwrap();
    store.put(&store.path("file"), "file");
    store.put(&store.path("file"), "d/file");
    let (st, file) = (store.directory().display().to_string(), store.path("file").display().to_string());
    let nowhere = store.path("nowhere").display().to_string();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["ls", "@::nothing"], 1, "no such file or directory in the store"),
        (&["ls", "@::../x"], 2, "a part `..`"),
        (&["ls", "@::a//b/../c"], 2, "a part `..`"),
        (&["ls", "@"], 2, "write STORE::PATH"),
        (&["node", "thalweg://h:1"], 2, "a node serves a store's directory"),
        (&["ls", "::x"], 2, "$THALWEG_STORE is not set"),
        (&["stats"], 2, "$THALWEG_STORE is not set"),
        (&["stats", "@::x"], 2, "without a path"),
        (&["stats", "!"], 1, "no thalweg store there"),
        (&["ls", "!::"], 1, "no thalweg store there"),
        (&["ls", "%::"], 1, "no thalweg store there"),
        (&["ls", "127.0.0.1:1::"], 1, "a node at that address is thalweg://127.0.0.1:1"),
        (&["init", ""], 2, "the argument is empty, and $THALWEG_STORE"),
        (&["init", "@"], 1, "there is a store already"),
        (&["init", "%"], 1, ""),
        (&["init", "thalweg://h:1"], 2, "on the node's own machine"),
        (&["init", "!", "--segment-bytes", "5"], 2, "segment_bytes"),
        (&["init", "!", "--codec", "zip"], 2, "codec"),
        (&["init", "!", "--shared", "4294967295"], 2, "no group"),
        (&["init", "s3://bucket"], 2, "not s3://"),
        (&["verify", "thalweg://h:1"], 2, "on the node's own machine"),
        (&["collect", "thalweg://h:1"], 2, "on the node's own machine"),
        (&["ls", "thalweg://127.0.0.1:1::"], 1, "127.0.0.1:1"),
        (&["ls", "thalweg://nonsense::"], 2, "thalweg://HOST:PORT"),
        (&["put", "!", "@::x"], 3, "could not be put"),
        (&["put", "%", "@::d"], 1, "is a directory; write"),
        (&["put", "-", "@::d/"], 2, "::d/NAME"),
        (&["put", "-", "@::"], 2, "::NAME"),
        (&["put", "%", "local"], 2, "write STORE::PATH"),
        (&["put", "@::file"], 2, ""),
        (&["put", "%", "thalweg://h:1/x"], 2, "as in `thalweg://HOST:7420::run1"),
        (&["run", "--store", "@", "true"], 2, "thalweg run -- CMD"),
        (&["find", "@::", "--min-size", "1X"], 2, "512K, 10M"),
        (&["get", "@::file", "@::copy"], 2, "local path"),
        (&["get", "@::file", "gs://bucket/"], 2, "not gs://"),
        (&["get", "@::file", "thalweg://127.0.0.1:1/"], 2, "not thalweg://"),
        (&["get", "@::nothing", "!"], 1, "no such file"),
        (&["get", "@::file", "!/deep/er"], 1, "No such file"),
        (&["get", "@::d", "-"], 1, "only regular files"),
        (&["get", "@::d", "!", "--range", "0:1"], 1, "regular files"),
        (&["get", "@::file", "!", "--range", "1-2"], 2, "OFFSET:LENGTH"),
        (&["get", "@::file", "!", "--range", "1000000:2"], 1, "behind the file's end"),
        (&["get", "@::file", "!", "--version", "7"], 1, "no version 7"),
        (&["get", "@::file", "!", "--version", "0"], 2, "--version"),
        (&["forget", "@::file", "--version", "0"], 2, "--version"),
        (&["node", "@", "--listen", "nowhere"], 2, "HOST:PORT is needed"),
        (&["node", "@", "--listen", "127.0.0.1:99999"], 2, "HOST:PORT is needed"),
        (&["run", "--node", "nonsense", "--", "true"], 2, "HOST:PORT is needed"),
        (&["gate", "top", "nowhere"], 2, "HOST:PORT is needed"),
        (&["forget", "@::file"], 2, "--keep"),
        (&["simulate", "/dev/zero"], 1, "no regular file"),
        (&["simulate", "monotonic", "--figure", "x.pdf"], 2, "neither .svg nor .png"),
        (&["codecs", "!"], 1, "No such file"),
        (&["codecs", "/dev/null"], 1, "none of the files has 4 KiB"),
        (&["codecs", "%"], 1, "none of the files has 4 KiB"),
        (&["codecs", "%", "--plot", "x.jpeg"], 2, "neither .svg nor .png"),
        (&["codecs", "%", "--link", "100"], 2, "a rate of 1K or more"),
        (&["codecs", "%", "--blocks", "0"], 2, "1..=100000"),
        (&["codecs", ""], 2, "a value is required"),
        (&["get", "@::file", "!", "--unfinished"], 1, "no session"),
        (&["get", "@::file", "-", "--json"], 2, "standard output"),
        (&["rm", "@::"], 2, "::: the root of a store cannot be removed"),
        (&["rm", "-r", "@::"], 2, "::: the root of a store cannot be removed"),
        (&["mv", "@::", "@::x"], 2, "::: the root of a store cannot be moved"),
        (&["node", "@", "--workers", "18446744073709551615"], 2, "18446744073709551615"),
        (&["node", "@", "--workers", "1025"], 2, "1..=1024"),
        (&["node", "@", "--workers", "0"], 2, "1..=1024"),
        (&["node", "@", "--staging-mib", "18446744073709551615"], 2, "--staging-mib"),
        (&["node", "@", "--staging-mib", "0"], 2, "--staging-mib"),
        (&["node", "@", "--share", "a=4294967296"], 2, "NAME=WEIGHT"),
        (&["rm", "@::nothing"], 1, "no such file"),
        (&["mv", "@::nothing", "@::x"], 1, "no such file"),
        (&["mv", "@::d", "@::d/below"], 1, ""),
        (&["mv", "@::file", "!::file"], 2, "two stores"),
        (&["forget", "@::file", "--keep", "all"], 2, "last=N"),
        (&["forget", "@::nothing", "--keep", "last=1"], 1, "no such file"),
        (&["recover", "@::file"], 1, "nothing to recover"),
        (&["recover", "@::file", "--session", "xyz"], 2, "an id"),
        (&["stat", "@::nothing"], 1, "no such file"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["run", "--", "true"], 2, "set THALWEG_STORE"),
        (&["run", "--store", "", "--", "true"], 2, "$THALWEG_STORE is not set"),
        (&["run", "--store", "s3://bucket", "--", "true"], 2, "not s3://"),
        (&["node", "s3://bucket"], 2, "not s3://"),
        (&["put", "", "@::x"], 2, "a value is required"),
        (&["get", "@::file", ""], 2, "a value is required"),
        (&["init", "!", "--shared", ""], 2, "--shared"),
        (&["find", "@::", "--name", ""], 2, "--name"),
        (&["simulate", ""], 2, "a value is required"),
    ];
    for (arguments, code, needle) in cases {
        let fill = |text: &&str| match text.chars().next() {
            Some('@') => st.clone() + &text[1..],
            Some('%') => file.clone() + &text[1..],
            Some('!') => nowhere.clone() + &text[1..],
            _ => text.to_string(),
        };
        let arguments: Vec<String> = arguments.iter().map(fill).collect();
        let mistake = run(&arguments);
        let last = mistake.stderr.lines().last().unwrap_or_default().to_owned();
        assert_eq!(mistake.code, Some(*code), "{arguments:?}: {}", mistake.stderr);
        assert!(last.starts_with("thalweg: ") && last.contains(needle), "{arguments:?}: {}", mistake.stderr);
        let lines = if *code == 3 { 2 } else { 1 };
        assert!(mistake.stderr.lines().count() <= lines, "{arguments:?}: {}", mistake.stderr);
        assert!(mistake.stdout.is_empty() || *code == 3, "{arguments:?}: {}", mistake.text());
    }
}

#[test]
fn without_a_verb_all_verbs_are_listed() {
    let nothing: [&str; 0] = [];
    let shown = run(&nothing).expect(2);
    assert!(shown.stdout.is_empty() && shown.stderr.contains("\n  put  ") && shown.stderr.contains("\n  node  "));
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_name() {
    let store = Store::new();
    let settings = store.directory().join("store.toml");
    let text = fs::read_to_string(&settings).unwrap().replace("format = 0", "format = 99");
    fs::write(&settings, text).unwrap();
    for verb in ["stats", "verify", "collect", "sessions"] {
        let refused = store.try_verb(verb, &[]).expect(1);
        assert!(refused.stderr.contains("99") && refused.stderr.contains("newer"), "{}", refused.stderr);
    }
}

#[test]
fn a_line_stays_one_line_whatever_the_name() {
    let store = Store::new();
    let refused = run(&["ls".as_ref(), store.address("a\nb\x1b[31m").as_os_str()]).expect(1);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    assert!(!refused.stderr.contains('\x1b'));
}

#[test]
fn unreadable_files_are_named_and_the_rest_goes_on() {
    let store = Store::new();
    fs::write(store.path("a"), "x").unwrap();
    // Reading the first page of one's own memory fails, even for root.
    let unreadable = "/proc/self/mem";
    let there = store.path("a");
    let done = run(&["put".as_ref(), there.as_os_str(), unreadable.as_ref(), &store.address("t/")]).expect(3);
    assert!(done.stderr.contains(unreadable) && done.stderr.contains("1 file could not be put"), "{}", done.stderr);
    assert_eq!(store.at("ls", "t", &[]).text(), "a\n");
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    for verb in
        ["init", "put", "get", "ls", "stat", "rm", "mv", "verify", "collect", "forget", "sessions", "recover", "stats"]
    {
        let help = run(&[verb, "--help"]).expect(0).text();
        assert!(help.contains("Example: thalweg "), "{verb}: {help}");
    }
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let store = Store::new();
    let empty = |arguments: &[&str], variable: &str| {
        let output = command(arguments).current_dir(store.path("")).env(variable, "").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = empty(&["run", "--", "true"], "THALWEG_STORE");
    assert_eq!((code, said.contains("set THALWEG_STORE")), (Some(2), true), "{said}");
    for variable in ["SLURM_JOB_NODELIST", "PBS_NODEFILE", "THALWEG_CONFIG", "THALWEG_LOG", "THALWEG_TIMEOUT_S"] {
        let (code, said) = empty(&["run", "--store", "nowhere", "--", "true"], variable);
        assert_eq!((code, said.contains("no thalweg store there")), (Some(1), true), "{variable}: {said}");
    }
}

#[test]
fn the_default_store_comes_from_the_environment() {
    let store = Store::new();
    fs::write(store.path("file"), "x").unwrap();
    store.put(&store.path("file"), "file");
    let listed = command(&["ls", "::"]).env("THALWEG_STORE", store.directory()).output().unwrap();
    assert_eq!(listed.stdout, b"file\n");
}

#[test]
fn a_standard_error_that_is_full_ends_no_work() {
    let store = Store::new();
    fs::write(store.path("a"), "x").unwrap();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sources = [store.path("a").into_os_string(), "/proc/self/mem".into(), store.address("t/")];
    let put = command(&[&["put".into()], &sources[..]].concat()).stderr(full()).status().unwrap();
    assert_eq!(put.code(), Some(3));
    assert_eq!(store.at("ls", "t", &[]).text(), "a\n");
    let ls = command(&["ls".into(), store.address("nothing")]).stderr(full()).status().unwrap();
    assert_eq!(ls.code(), Some(1));
}

#[test]
fn a_store_whose_path_holds_two_colons_is_found() {
    let store = Store::new();
    fs::write(store.path("file"), "x").unwrap();
    store.put(&store.path("file"), "a::b");
    assert_eq!(store.read("a::b"), b"x", "the first store on the way is meant");
    let moved = store.path("with::colons");
    fs::create_dir(&moved).unwrap();
    fs::rename(store.directory(), moved.join("st")).unwrap();
    let address = |path: &str| format!("{}::{path}", moved.join("st").display());
    assert_eq!(run(&["get", &address("a::b"), "-"]).expect(0).stdout, b"x");
    run(&["verify".as_ref(), moved.join("st").as_os_str()]).expect(0);
    let refused = run(&["init".as_ref(), moved.join("new").as_os_str()]).expect(2);
    assert!(refused.stderr.contains("should not hold `::`"), "{}", refused.stderr);
}

#[test]
fn summaries_count_what_they_are_about() {
    let store = Store::new();
    fs::create_dir(store.path("d")).unwrap();
    fs::write(store.path("d/file"), "x").unwrap();
    assert!(store.put(&store.path("d"), "t").text().contains(", 1 directory; snapshot "));
    store.put(&store.path("d"), "u/v");
    assert!(store.get("t", &store.path("copy")).text().ends_with(", 1 directory\n"));
    assert_eq!(store.at("rm", "u", &["-r"]).text(), "removed 3 names and 1 snapshot of them\n");
    assert_eq!(store.at("rm", "t/file", &[]).text(), "removed 1 name\n");
}

#[test]
fn a_trace_that_is_a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = ["10".as_ref(), env!("CARGO_BIN_EXE_thalweg").as_ref(), "simulate".as_ref(), pipe.as_os_str()];
    let ended = std::process::Command::new("timeout").args(words).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
}

#[test]
fn mistyped_verbs_and_options_are_answered_with_the_one_that_was_meant() {
    for (mistyped, meant) in [
        (&["vrify", "st"][..], "did you mean verify?"),
        (&["verify", "--dta", "st"], "did you mean --data?"),
        (&["put", "--exclud", "*.o", "a", "st::a"], "did you mean --exclude?"),
        (&["run", "--ack", "durabl", "--", "true"], "did you mean durable?"),
        (&["restore", "st::a", "b"], "that is `get`"),
        (&["mount", "st", "b"], "there is none"),
        (&["forget", "--keep-last", "3", "st::"], "--keep-snapshots last=3"),
    ] {
        let refused = run(mistyped).expect(2);
        assert!(refused.stderr.contains(meant) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
    }
    assert!(!run(&["xyzzy"]).expect(2).stderr.contains("did you mean"));
}

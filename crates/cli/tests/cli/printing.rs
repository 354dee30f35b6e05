//! Output: JSON keys, odd names, pipes that close.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Stdio;

use serde_json::Value;

use super::runner::{Store, command, run};

fn with_names(names: &[&[u8]]) -> Store {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    for name in names {
        fs::write(source.join(std::ffi::OsStr::from_bytes(name)), b"content").unwrap();
    }
    store.put(&source, "t");
    store
}

#[track_caller]
fn assert_keys(document: &Value, keys: &[&str]) {
    for key in keys {
        assert!(document.get(key).is_some(), "{key} is missing: {document}");
    }
}

#[test]
fn documents_have_the_promised_keys() {
    let store = with_names(&[b"a"]);
    let stats = [
        "logical_bytes",
        "unique_bytes",
        "stored_bytes",
        "segments",
        "unique_segments",
        "containers",
        "files",
        "table_memory_bytes",
    ];
    assert_keys(&store.json("stats"), &stats);
    assert_keys(
        &store.at("stat", "t/a", &["--json"]).json(),
        &[
            "path",
            "kind",
            "mode",
            "uid",
            "gid",
            "modified",
            "modified_ns",
            "links",
            "size",
            "version",
            "versions",
            "segments",
            "unique_segments",
            "unique_bytes",
            "stored_bytes",
            "codecs",
            "deduplication_ratio",
            "compression_ratio",
            "sessions",
        ],
    );
    assert_keys(
        &store.json("verify"),
        &["containers", "segments", "stored_bytes", "versions", "data_bytes", "damages"],
    );
    assert_keys(
        &store.json("collect"),
        &["condemned", "rewritten", "deleted", "freed_bytes", "written_bytes", "waiting", "open"],
    );
    assert_eq!(store.json("sessions"), Value::Array(Vec::new()));
    assert_eq!(store.at("ls", "", &["--json"]).json()[0]["path"], "t");
    assert_eq!(store.at("rm", "t/a", &["--json"]).json()["removed"][0]["path"], "t/a");
    assert_eq!(store.at("ls", "t", &["--json"]).json(), Value::Array(Vec::new()));
}

#[test]
fn figures_add_up() {
    let store = with_names(&[b"a", b"b"]);
    let stats = store.json("stats");
    assert_eq!((&stats["files"], &stats["logical_bytes"], &stats["unique_bytes"]), (&2.into(), &14.into(), &7.into()));
    assert_eq!((&stats["segments"], &stats["unique_segments"]), (&2.into(), &1.into()));
}

#[test]
fn odd_names_are_escaped_in_text_and_exact_in_json() {
    let store = with_names(&[b"a\nb", b"\xff"]);
    assert_eq!(store.at("ls", "t", &[]).text(), "a\\x0ab\n\\xff\n");
    let listed = store.at("ls", "t", &["--json"]).json();
    assert_eq!(listed[0]["path"], "t/a\nb");
    assert_eq!(listed[0].get("path_bytes"), None);
    assert_eq!(listed[1]["path_bytes"], "742fff");
}

#[test]
fn find_prints_names_as_they_are_for_xargs() {
    let store = with_names(&[b"a\nb", b"\xff"]);
    let found = store.at("find", "t", &["--kind", "file", "-0"]).stdout;
    let names: Vec<OsString> = found
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| OsString::from_vec(name.to_vec()))
        .collect();
    assert_eq!(names.len(), 2, "{found:?}");
    for name in &names {
        run(&["rm".as_ref(), name.as_os_str()]).expect(0);
    }
    assert!(store.at("find", "t", &["--kind", "file"]).text().is_empty());
    store.try_at("find", "t", &["-0", "--json"]).expect(2);
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let store = with_names(&[b"a"]);
    fs::write(store.path("big"), vec![b'x'; 8 << 20]).unwrap();
    store.put(&store.path("big"), "big");
    let arguments = ["get".into(), store.address("big"), "-".into()];
    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn standard_input_becomes_a_file() {
    let store = Store::new();
    let content = b"through a pipe\n".repeat(100_000);
    let arguments = ["put".into(), "-".into(), store.address("piped")];
    let mut child = command(&arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(store.read("piped"), content);
}

#[test]
fn quiet_prints_results_only() {
    let store = with_names(&[b"a"]);
    let put =
        run(&["put".as_ref(), "--quiet".as_ref(), store.path("source").as_os_str(), &store.address("u")]).expect(0);
    assert!(put.stdout.is_empty() && put.stderr.is_empty());
    assert_eq!(store.at("ls", "", &["--quiet"]).text(), "t/\nu/\n");
}

//! `thalweg put --error-bound`: floats come back within the bound, take little room, and bear a note of it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::runner::{Run, Store, command, run};

/// A smooth field of 128 × 1024 values.
fn field() -> Vec<f32> {
    let value = |at: usize| {
        let (x, y) = ((at % 1024) as f64 / 1024.0, (at / 1024) as f64 / 128.0);
        300.0 + 20.0 * (3.0 * x + y).sin() + 5.0 * (7.0 * x * y).cos()
    };
    (0..128 * 1024).map(|at| value(at) as f32).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn store_and_file(values: &[f32]) -> (Store, PathBuf) {
    let store = Store::new();
    let file = store.path("field.raw");
    fs::write(&file, bytes(values)).unwrap();
    // So long ago that its times tell whether it changed.
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    fs::File::options().write(true).open(&file).unwrap().set_modified(yesterday).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    (store, file)
}

fn put(store: &Store, file: &Path, options: &[&str]) -> Run {
    let mut arguments = vec!["put".into(), file.into(), store.address("field")];
    arguments.extend(options.iter().map(Into::into));
    run(&arguments)
}

fn bounded(bound: &str) -> [&str; 4] {
    ["--type", "f32", "--error-bound", bound]
}

fn stat(store: &Store) -> Value {
    store.at("stat", "field", &["--json"]).json()
}

fn largest(before: &[f32], after: &[f32], error: impl Fn(f64, f64) -> f64) -> f64 {
    assert_eq!(before.len(), after.len());
    before.iter().zip(after).map(|(before, after)| error((*before).into(), (*after).into())).fold(0.0, f64::max)
}

#[test]
fn values_come_back_within_a_share_of_each_and_take_a_tenth_of_the_room() {
    let before = field();
    let (store, file) = store_and_file(&before);
    let put = put(&store, &file, &[&bounded("relative:1e-3")[..], &["--json", "-v"]].concat()).expect(0).json();
    let after = floats(&store.read("field"));
    let error = largest(&before, &after, |before, after| (after - before).abs() / before.abs());
    assert!(error > 1e-4 && error <= 1e-3, "{error}");
    assert_eq!(put["rounding"]["largest_error"].as_f64(), Some(error));
    assert_eq!((&put["rounding"]["files"], &put["rounding"]["type"]), (&1.into(), &"f32".into()));
    assert_eq!(put["names"][0]["largest_error"], put["rounding"]["largest_error"]);
    let stat = stat(&store);
    assert_eq!(stat["rounded"].as_str(), Some(&*format!("f32 relative:0.001, largest error {error:?}")));
    assert!(stat["stored_bytes"].as_u64().unwrap() * 10 < stat["size"].as_u64().unwrap(), "{stat}");
    let shown = store.at("stat", "field", &[]).text();
    assert!(shown.contains("  rounded  f32 relative:0.001, largest error 0.000"), "{shown}");
}

#[test]
fn a_share_of_the_range_is_of_all_values_but_the_missing_ones() {
    let mut before = field();
    (0..before.len()).step_by(1000).for_each(|at| before[at] = 9.96921e36);
    let (store, file) = store_and_file(&before);
    let options = [&bounded("range:1e-3")[..], &["--missing-value", "9.96921e36"]].concat();
    let text = put(&store, &file, &options).expect(0).text();
    assert!(text.contains("; rounded: 13") && text.contains("values altered, largest error "), "{text}");
    let after = floats(&store.read("field"));
    let error = largest(&before, &after, |before, after| (after - before).abs());
    // The field goes from about 275 to 325.
    assert!(error > 0.03 && error <= 0.05, "{error}");
    assert!((0..after.len()).step_by(1000).all(|at| after[at] == 9.96921e36));
    let note = stat(&store)["rounded"].as_str().unwrap().to_owned();
    assert!(note.starts_with("f32 range:0.001 except 9.96921e36, largest error "), "{note}");
}

#[test]
fn a_lossless_put_of_an_unchanged_file_does_not_leave_altered_values() {
    let before = field();
    let (store, file) = store_and_file(&before);
    put(&store, &file, &bounded("relative:1e-3")).expect(0);
    let again = put(&store, &file, &[&bounded("relative:1e-3")[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((again["files"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(1)));
    for other in [&bounded("relative:1e-2")[..], &["--type", "f64", "--error-bound", "relative:1e-2"]] {
        let other = put(&store, &file, &[other, &["--json"]].concat()).expect(0).json();
        assert_eq!(other["files"].as_u64(), Some(1), "{other}");
    }
    put(&store, &file, &[]).expect(0);
    assert_eq!(store.read("field"), bytes(&before));
    assert_eq!(stat(&store)["rounded"], Value::Null);
    put(&store, &file, &bounded("absolute:0.5")).expect(0);
    assert_ne!(store.read("field"), bytes(&before));
}

#[test]
fn a_file_that_is_got_bears_the_note_and_a_coarser_bound_is_added_to_it() {
    let (store, file) = store_and_file(&field());
    put(&store, &file, &bounded("relative:1e-3")).expect(0);
    let got = store.path("got.raw");
    store.get("field", &got);
    let note = |file: &Path| {
        let mut note = vec![0; 1000];
        let length = rustix::fs::getxattr(file, "user.thalweg.error_bound", &mut note[..]).ok()?;
        note.truncate(length);
        String::from_utf8(note).ok()
    };
    // Some file systems have no such attributes, and `get` said so then.
    let Some(first) = note(&got) else { return };
    assert!(first.starts_with("f32 relative:0.001, largest error "), "{first}");
    put(&store, &got, &bounded("relative:0.1")).expect(0);
    let both = stat(&store)["rounded"].as_str().unwrap().to_owned();
    assert!(both.starts_with(&first) && both.contains("; f32 relative:0.1, largest error "), "{both}");
}

#[test]
fn standard_input_is_rounded_as_it_comes() {
    let store = Store::new();
    let put_stream = |content: &[u8], bound: &str| -> Run {
        let arguments = [&["put".into(), "-".into(), store.address("field")][..], &bounded(bound).map(Into::into)];
        let mut process = command(&arguments.concat());
        let mut child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A refused stream is not read to its end.
        let _ = child.stdin.take().unwrap().write_all(content);
        child.wait_with_output().unwrap().into()
    };
    let before = field();
    put_stream(&bytes(&before), "absolute:0.25").expect(0);
    let after = floats(&store.read("field"));
    let error = largest(&before, &after, |before, after| (after - before).abs());
    assert!(error > 0.1 && error <= 0.25, "{error}");
    let odd = put_stream(&bytes(&before)[..1003], "absolute:0.25").expect(1);
    assert!(odd.stderr.contains("not whole values of f32"), "{}", odd.stderr);
    assert!(put_stream(b"", "range:0.1").expect(2).stderr.contains("standard input is read once"));
}

#[test]
fn what_is_no_file_of_whole_values_is_refused() {
    let (store, file) = store_and_file(&field()[..1000]);
    let tree = store.path("tree");
    fs::create_dir(&tree).unwrap();
    let refused = |file: &Path, options: &[&str], code: i32, why: &str| {
        let run = put(&store, file, options).expect(code);
        assert!(run.stderr.contains(why), "{}", run.stderr);
        assert!(store.try_at("stat", "field", &[]).code != Some(0));
    };
    refused(&tree, &bounded("relative:0.1"), 2, "is a directory");
    let link = store.path("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    refused(&link, &bounded("relative:0.1"), 2, "is a symbolic link");
    refused(&file, &["--error-bound", "relative:0.1"], 2, "--type <TYPE>");
    refused(&file, &["--type", "f32"], 2, "--error-bound <BOUND>");
    refused(&file, &["--missing-value", "1"], 2, "--error-bound <BOUND>");
    refused(&file, &bounded("relative:1.5"), 2, "shares are below 1");
    fs::write(&file, [0; 1003]).unwrap();
    refused(
        &file,
        &bounded("relative:0.1"),
        3,
        "1003 bytes are not whole values of f32 (4 bytes each); is --type right?",
    );
}

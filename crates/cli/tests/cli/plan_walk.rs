//! `thalweg plan` over files and folders of every kind: what is read once, what is left out, what is named.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::runner::{Store, command, run};

fn estimates(paths: &[&Path]) -> Value {
    let arguments = ["plan".as_ref(), "--json".as_ref()].into_iter().chain(paths.iter().map(|path| path.as_os_str()));
    let found = run(&arguments.collect::<Vec<_>>()).expect(0);
    found.json()["data"].clone()
}

fn saved_percent(found: &Value, cut: &str) -> f64 {
    let rows = found["deduplication"].as_array().unwrap();
    rows.iter().find(|row| row["cut"] == cut).unwrap()["saved_percent"].as_f64().unwrap()
}

#[test]
fn a_name_within_another_and_a_second_name_of_a_file_are_read_once() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let file = inner.join("file");
    fs::write(&file, random::Random::new(1).bytes(100_000)).unwrap();
    fs::hard_link(&file, folder.path().join("again")).unwrap();
    symlink(&inner, folder.path().join("way")).unwrap();
    let found = estimates(&[folder.path(), &inner, &file, &folder.path().join("way"), folder.path()]);
    assert_eq!((&found["bytes"], &found["files"], &found["folders"]), (&100_000.into(), &1.into(), &2.into()));
    assert_eq!((&found["hard_links"], &found["links"]), (&1.into(), &1.into()));
    assert_eq!(saved_percent(&found, "whole files"), 0.0);
}

#[test]
fn folders_below_folders_are_read_beyond_the_longest_path() {
    const DEPTH: usize = 1500;
    let folder = TempDir::new().unwrap();
    // A path of 15 000 bytes, which no system call takes at once.
    let script = format!(
        "cd {} && i=0; while [ $i -lt {DEPTH} ]; do mkdir folder{} && cd -P folder{} && i=$((i+1)); done && printf deep > file",
        folder.path().display(),
        "xyz",
        "xyz"
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let found = estimates(&[folder.path()]);
    assert_eq!((&found["files"], &found["folders"]), (&1.into(), &(DEPTH + 1).into()));
    assert!(Command::new("rm").arg("-rf").arg(folder.path()).status().unwrap().success());
}

#[test]
fn holes_are_zeros_that_are_not_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 43).unwrap();
    let noise = random::Random::new(2).bytes(300_000);
    for at in [0, 1 << 40, (1 << 43) - 300_000] {
        file.write_all_at(&noise, at).unwrap();
    }
    let found = estimates(&[&path]);
    assert_eq!(found["bytes"], 1u64 << 43);
    let unique_gb =
        found["deduplication"].as_array().unwrap().iter().find(|row| row["cut"] == "content 8 KiB").unwrap();
    assert!(unique_gb["unique_gb"].as_f64().unwrap() < 0.0007, "{unique_gb}");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_estimated() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("sound"), random::Random::new(3).bytes(50_000)).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o0)).unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    fs::set_permissions(folder.path().join("secret"), fs::Permissions::from_mode(0o0)).unwrap();
    let found = run(&["plan".as_ref(), folder.path().as_os_str(), "--json".as_ref(), "/dev/null".as_ref()]);
    let data = &found.json()["data"];
    assert_eq!((&data["special"], &data["links"]), (&2.into(), &1.into()), "the socket and /dev/null");
    // Root reads everything.
    let is_root = unsafe { libc::geteuid() } == 0;
    let (code, bytes, unreadable) = if is_root { (0, 50_001, 0) } else { (3, 50_000, 2) };
    assert_eq!((found.code, &data["bytes"], &data["unreadable"]), (Some(code), &bytes.into(), &unreadable.into()));
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
}

/// What a folder lists may take no memory: a tenth of the names makes no difference.
#[test]
fn memory_does_not_grow_with_the_number_of_files() {
    let folder = TempDir::new().unwrap();
    let make = |name: &str, count: usize| {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        (0..count).for_each(|number| fs::write(folder.join(format!("a-name-of-some-length-{number}")), "x").unwrap());
        folder
    };
    let most_kib = |path: &Path| {
        let words = ["plan".as_ref(), "--quiet".as_ref(), path.as_os_str()];
        let mut child = command(&words).stdout(std::process::Stdio::null()).spawn().unwrap();
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let mut status = 0;
        // SAFETY: both places are ours, and the child is not waited for otherwise but to be reaped.
        let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
        assert_eq!((ended, status), (child.id() as i32, 0));
        let _ = child.try_wait();
        usage.ru_maxrss
    };
    let [few, many] = [("few", 1000), ("many", 60_000)].map(|(name, count)| most_kib(&make(name, count)));
    assert!(many < few + 6 * 1024, "{few} KiB for few, {many} for many");
}

#[test]
fn a_store_is_made_as_the_plan_recommends() {
    let folder = TempDir::new().unwrap();
    let text = "one and the same line of a log\n".repeat(50_000);
    fs::write(folder.path().join("log"), &text).unwrap();
    fs::write(folder.path().join("noise"), random::Random::new(4).bytes(400_000)).unwrap();
    let file = TempDir::new().unwrap();
    let recommended = file.path().join("store.toml");
    let options = ["plan".as_ref(), "--json".as_ref(), "--recommended".as_ref(), recommended.as_os_str()];
    let planned = run(&[&options[..], &[folder.path().as_os_str()]].concat()).expect(0).json();
    let init = &planned["data"]["recommended"]["init"];
    let made = |options: &[&str]| {
        let place = file.path().join(format!("store{}", options.len()));
        let words = ["init", "--json", "--config", recommended.to_str().unwrap(), place.to_str().unwrap()];
        run(&[&words[..], options].concat()).expect(0).json()
    };
    let store = made(&[]);
    assert_eq!((&store["chunker"], &store["segment_bytes"]), (&init["chunker"], &init["segment_bytes"]));
    let codec = init.get("codec").or(init.get("mode")).unwrap().as_str().unwrap();
    assert!(store["codec"].as_str().unwrap().contains(codec) || codec == "balanced", "{store}: {init}");
    assert_eq!(made(&["--segment-bytes", "16384"])["segment_bytes"], 16384, "the command line says more");
    let other = if codec == "lz4" { "xz" } else { "lz4" };
    let excluding = made(&["--codec", other, "--segment-bytes", "16384"]);
    assert!(excluding["codec"].as_str().unwrap().starts_with(other), "the file's mode gives way: {excluding}");
    let reasons = fs::read_to_string(&recommended).unwrap();
    assert!(reasons.starts_with("# Recommended by") && reasons.contains("\n[init]\n"), "{reasons}");
}

#[test]
fn a_configuration_that_cannot_be_used_makes_no_store() {
    let store = Store::new();
    for (text, words) in [
        (None, "No such file"),
        (Some("[init"), "line 1"),
        (Some("[put]\nforce = true"), "has no [init]"),
        (Some("[init]\nchunkr = 'cdc'"), "no option --chunkr"),
        (Some("[init]\nchunker = 'x'"), "--chunker"),
        (Some("[init]\nsegment_bytes = 5"), "segment"),
    ] {
        let path = store.path("config");
        let _ = fs::remove_file(&path);
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let made = store.path("made");
        let found = run(&["init".as_ref(), "--config".as_ref(), path.as_os_str(), made.as_os_str()]).expect(2);
        assert!(found.stderr.contains(words) && !made.exists(), "{text:?}: {found:?}");
    }
}

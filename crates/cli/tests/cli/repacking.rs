//! `thalweg repack`: what is stored becomes shorter and reads the same, whenever the command is killed.

use std::fmt::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use random::Random;

use super::runner::{Store, command, run};

/// A table of numbers, which every codec shortens, some more than others.
fn table(seed: u64, lines: usize) -> Vec<u8> {
    let (mut random, mut text) = (Random::new(seed), String::new());
    for line in 0..lines {
        writeln!(text, "{line:8} {:6} {:6}", random.below(100_000), random.below(300_000)).unwrap();
    }
    text.into_bytes()
}

fn store_with(codec: &str, files: &[(&str, &[u8])]) -> Store {
    let store = Store::with(&["--codec", codec]);
    for (name, bytes) in files {
        std::fs::write(store.path(name), bytes).unwrap();
        store.put(&store.path(name), name);
    }
    store
}

#[test]
fn a_store_becomes_shorter_and_a_second_run_finds_nothing_to_do() {
    let (table, noise) = (table(1, 60_000), Random::new(2).bytes(1_000_000));
    let store = store_with("lz4", &[("table", &table), ("noise", &noise)]);
    let before = store.container_bytes();
    let done = store.verb("repack", &["--codec", "xz:6", "--json"]).json();
    let after = store.container_bytes();
    assert_eq!((done["before_bytes"].as_u64(), done["after_bytes"].as_u64()), (Some(before), Some(after)), "{done}");
    assert_eq!(done["saved_bytes"], before - after);
    assert!(done["rewritten"] == 1 && done["waiting"] == 0 && done["seconds"].as_f64().unwrap() > 0.0, "{done}");
    assert!(after < before - before / 10, "{before} became {after}");
    assert!(store.read("table") == table && store.read("noise") == noise);
    assert_eq!(store.json("verify")["damages"].as_array().map(Vec::len), Some(0));
    assert!(store.at("stat", "table", &[]).text().contains("xz"));
    let again = store.verb("repack", &["--codec", "xz:6"]);
    assert!(again.text().contains("nothing to do: none of 2 containers"), "{}", again.text());
    assert_eq!(store.container_bytes(), after);
    // A weaker codec shortens nothing.
    assert_eq!(store.verb("repack", &["--codec", "lz4", "--json"]).json()["rewritten"], 0);
}

#[test]
fn a_killed_run_leaves_every_file_and_the_next_one_goes_on() {
    let tables: Vec<_> = (0..4).map(|seed| table(seed, 40_000)).collect();
    let names = ["a", "b", "c", "d"];
    let files: Vec<_> = names.iter().zip(&tables).map(|(name, table)| (*name, &table[..])).collect();
    let store = store_with("lz4", &files);
    let before = store.container_bytes();
    let directory = store.directory();
    for _ in 0..3 {
        let (limit, found) = (format!("{}K", before / 2048), store.containers());
        let arguments = ["repack", directory.to_str().unwrap(), "--codec", "zstd:9", "--limit-rate", &limit];
        let mut child = command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while store.containers() == found {
            assert!(Instant::now() < deadline, "the run writes no container");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(200));
        child.kill().unwrap();
        child.wait().unwrap();
        names.iter().zip(&tables).for_each(|(name, table)| assert!(store.read(name) == *table));
    }
    let rest = store.verb("repack", &["--codec", "zstd:9", "--json"]).json();
    assert!(rest["rewritten"].as_u64() < Some(4), "the killed runs had done some: {rest}");
    assert_eq!(store.json("verify")["damages"].as_array().map(Vec::len), Some(0));
    names.iter().zip(&tables).for_each(|(name, table)| assert!(store.read(name) == *table));
}

#[test]
fn a_rate_is_kept() {
    let store = store_with("lz4", &[("table", &table(5, 40_000))]);
    let limit = format!("{}K", store.container_bytes() / 2048);
    let begun = Instant::now();
    store.verb("repack", &["--codec", "zstd:3", "--limit-rate", &limit]);
    assert!(begun.elapsed() > Duration::from_millis(1800), "{:?}", begun.elapsed());
}

#[test]
fn a_damaged_container_stays_and_is_named() {
    let store = store_with("lz4", &[("table", &table(6, 40_000)), ("other", &table(7, 40_000))]);
    let container = store.containers().remove(0);
    let mut bytes = std::fs::read(&container).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&container, &bytes).unwrap();
    let run = store.try_verb("repack", &["--codec", "xz:0"]).expect(3);
    assert!(run.stderr.contains("1 container cannot be read whole") && run.stderr.contains("verify"), "{}", run.stderr);
    assert_eq!(std::fs::read(&container).unwrap(), bytes);
    assert!(run.text().contains("re-encoded 1 of 2"), "{}", run.text());
}

#[test]
fn stores_that_cannot_be_repacked_are_refused_with_what_to_do() {
    let far = run(&["repack", "thalweg://127.0.0.1:1"]).expect(2);
    assert!(far.stderr.contains("on the node's own machine"), "{}", far.stderr);
    let store = Store::new();
    let refused = store.try_verb("repack", &["--codec", "lzma"]).expect(2);
    assert!(refused.stderr.contains("lzma") && refused.stderr.contains("zstd"), "{}", refused.stderr);
    store.try_verb("repack", &["--limit-rate", "100"]).expect(2);
    let settings = store.directory().join("store.toml");
    let near = std::fs::read_to_string(&settings).unwrap() + &format!("upstream = \"{}\"\n", "0".repeat(32));
    std::fs::write(&settings, near).unwrap();
    let near = store.try_verb("repack", &[]).expect(1);
    assert!(near.stderr.contains("stands near its clients"), "{}", near.stderr);
}

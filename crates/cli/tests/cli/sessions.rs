//! Checkpoints of an interrupted job: listed, read, recovered.

use std::sync::Arc;

use catalog::Join;
use format::{HandleKey, StorePath};
use random::Random;
use repository::{Access, Budget, Repository, Source, StripeOwner, WriteOrigin};
use store::ClaimOwner;

use super::runner::{Store, run};

/// A session of `out` that has written and checkpointed `content`, and whose writer then went away.
pub fn interrupted(store: &Store, content: &[u8]) {
    let repository = Arc::new(repository::open(&store.directory(), Access::Write).unwrap());
    let session = repository.local_catalog().unwrap().join(&join()).unwrap();
    write(&repository, session.id, content);
    repository.local_catalog().unwrap().leave(session.id, &join().key).unwrap();
    repository.close().unwrap();
}

fn join() -> Join {
    Join {
        path: StorePath::new(b"out").unwrap(),
        nodes: vec!["here".into()],
        stripe_bytes: 1 << 20,
        job: "a job".into(),
        key: HandleKey([1; 16]),
        lease_ms: 60_000,
    }
}

/// A job of which the disk took nothing but the file's size, or some pieces of its content.
fn of_a_full_disk(store: &Store, size: u64, pieces: &[(u64, &[u8])]) {
    let repository = Arc::new(repository::open(&store.directory(), Access::Write).unwrap());
    let session = repository.local_catalog().unwrap().join(&join()).unwrap();
    let stripe_set =
        StripeOwner::take(repository.clone(), Arc::new(Budget::new(64 << 20)), session.id, 0, 1, 8192).unwrap();
    for (number, (offset, content)) in pieces.iter().enumerate() {
        let source = Source { client: 1, stream: 0 };
        let arrival = WriteOrigin { source, sequence: 1 + number as u64, stamp: 0 };
        stripe_set.write(arrival, &[(*offset, content.len() as u64)], content.to_vec()).unwrap();
    }
    stripe_set.set_size(size).unwrap();
    stripe_set.checkpoint(ClaimOwner(1), true, None).unwrap();
    repository.local_catalog().unwrap().leave(session.id, &join().key).unwrap();
    repository.close().unwrap();
}

#[test]
fn what_holds_no_data_is_recovered_and_read_only_when_that_is_asked_for() {
    let store = Store::new();
    of_a_full_disk(&store, 3 << 20, &[]);
    let address = store.address("out");
    let refused = run(&["recover".as_ref(), address.as_os_str()]).expect(1);
    assert!(refused.stderr.contains("no data") && refused.stderr.contains("--discard"), "{refused:?}");
    let to = store.path("copy");
    let get = |options: &[&str]| {
        let mut words = vec!["get".as_ref(), "--unfinished".as_ref(), address.as_os_str(), to.as_os_str()];
        words.extend(options.iter().map(std::ffi::OsStr::new));
        run(&words)
    };
    let refused = get(&[]).expect(1);
    assert!(refused.stderr.contains("no data") && refused.stderr.contains("--force") && !to.exists(), "{refused:?}");
    let got = get(&["--force"]).expect(0);
    assert!(got.stderr.contains("0 B of 3.0 MiB are data"), "{got:?}");
    let recovered = store.at("recover", "out", &["--force", "--json"]);
    assert_eq!(recovered.json()["data_bytes"], 0);
    assert!(recovered.stderr.contains("0 B of 3.0 MiB are data"), "{recovered:?}");
}

#[test]
fn a_session_of_an_empty_file_makes_no_version_unasked() {
    let store = Store::new();
    of_a_full_disk(&store, 0, &[]);
    let refused = run(&["recover".as_ref(), store.address("out").as_os_str()]).expect(1);
    assert!(refused.stderr.contains("has stored no data; ") && refused.stderr.contains("--discard"), "{refused:?}");
    assert_eq!(store.at("recover", "out", &["--force", "--json"]).json()["size"], 0);
}

#[test]
fn a_session_whose_node_may_be_gone_is_recovered_when_its_lease_is_over() {
    let store = Store::new();
    let repository = Arc::new(repository::open(&store.directory(), Access::Write).unwrap());
    repository.local_catalog().unwrap().join(&Join { lease_ms: 25_000, ..join() }).unwrap();
    repository.close().unwrap();
    let refused = run(&["recover".as_ref(), store.address("out").as_os_str()]).expect(1).stderr;
    for part in ["its node, here, was last heard of at 2", "recover works in ", " s at most"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn a_collection_says_how_long_what_waits_for_sessions_waits_at_most() {
    let store = Store::new();
    std::fs::write(store.path("file"), Random::new(13).bytes(100_000)).unwrap();
    store.put(&store.path("file"), "file");
    let reader = repository::open(&store.directory(), Access::Read).unwrap();
    store.at("rm", "file", &[]);
    let collected = store.verb("collect", &[]);
    let said = collected.text() + &collected.stderr;
    assert!(said.contains("1 kept for") && said.contains("30 s after"), "{said}");
    reader.close().unwrap();
    let collected = store.verb("collect", &[]);
    assert!(!(collected.text() + &collected.stderr).contains("30 s after"));
}

#[test]
fn recovering_says_how_much_of_a_file_is_data() {
    let store = Store::new();
    let content = Random::new(12).bytes(64 << 10);
    of_a_full_disk(&store, 3 << 20, &[(1 << 20, &content)]);
    let got = run(&["get".as_ref(), "--unfinished".as_ref(), store.address("out").as_os_str(), "-".as_ref()]).expect(0);
    assert!(got.stderr.contains("64.0 KiB of 3.0 MiB are data") && got.stdout[1 << 20..][..64 << 10] == content);
    let recovered = store.at("recover", "out", &["--json"]);
    assert_eq!(recovered.json()["data_bytes"], 64 << 10);
    assert!(recovered.stderr.contains("64.0 KiB of 3.0 MiB are data"), "{recovered:?}");
}

fn write(repository: &Arc<Repository>, session: format::SessionId, content: &[u8]) {
    let stripe_set =
        StripeOwner::take(repository.clone(), Arc::new(Budget::new(64 << 20)), session, 0, 1, 8192).unwrap();
    let arrival = WriteOrigin { source: Source { client: 1, stream: 0 }, sequence: 1, stamp: 0 };
    stripe_set.write(arrival, &[(0, content.len() as u64)], content.to_vec()).unwrap();
    stripe_set.checkpoint(ClaimOwner(1), true, None).unwrap();
}

#[test]
fn an_interrupted_session_is_listed_read_and_recovered() {
    let store = Store::new();
    let content = Random::new(11).bytes(500_000);
    interrupted(&store, &content);
    let listed = store.json("sessions");
    assert_eq!((&listed[0]["path"], &listed[0]["state"]), (&"out".into(), &"interrupted".into()), "{listed}");
    assert_eq!(listed[0]["size"], 500_000);
    assert_eq!(store.at("ls", "", &[]).text(), "out (interrupted)\n");

    let refused = run(&["get".as_ref(), store.address("out").as_os_str(), "-".as_ref()]).expect(1);
    assert!(refused.stderr.contains("--unfinished"), "{}", refused.stderr);
    let read =
        run(&["get".as_ref(), "--unfinished".as_ref(), store.address("out").as_os_str(), "-".as_ref()]).expect(0);
    assert!(read.stdout == content);

    let recovered = store.at("recover", "out", &["--json"]).json();
    assert_eq!((&recovered["version"], &recovered["size"]), (&1.into(), &500_000.into()));
    assert!(store.read("out") == content);
    assert_eq!(store.json("sessions"), serde_json::json!([]));
    assert_eq!(store.at("ls", "", &[]).text(), "out\n");
}

#[test]
fn the_newest_of_several_sessions_is_recovered_unless_one_is_named() {
    let store = Store::new();
    interrupted(&store, b"older");
    interrupted(&store, b"newer");
    let listed = store.json("sessions");
    let older = listed[0]["session"].as_str().unwrap();
    store.at("recover", "out", &[]);
    assert_eq!(store.read("out"), b"newer");
    let mut over = vec!["recover".into(), store.address("out"), "--session".into(), older.into()];
    let refused = run(&over).expect(1);
    assert!(refused.stderr.contains("older data above"), "{}", refused.stderr);
    assert_eq!(store.read("out"), b"newer");
    over.push("--force".into());
    run(&over).expect(0);
    assert_eq!(store.read("out"), b"older");
}

#[test]
fn an_unwanted_session_is_dropped() {
    let store = Store::new();
    interrupted(&store, b"unwanted");
    store.at("recover", "out", &["--discard"]);
    assert_eq!(store.json("sessions"), serde_json::json!([]));
    assert_eq!(store.at("ls", "", &[]).text(), "");
}

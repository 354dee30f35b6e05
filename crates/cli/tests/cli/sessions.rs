//! What an interrupted job had checkpointed: listed, read, recovered.

use std::sync::Arc;

use catalog::Join;
use format::{HandleKey, StorePath};
use repository::{Access, Arrival, Budget, Repository, Seat, Source};
use store::Claimant;

use super::random::Random;
use super::runner::{Store, run};

/// A session of `out` that has written and settled `content`, and whose writer then went away.
fn interrupted(store: &Store, content: &[u8]) {
    let repository = Arc::new(repository::open(&store.directory(), Access::Write).unwrap());
    let join = Join {
        path: StorePath::new(b"out").unwrap(),
        nodes: vec!["here".into()],
        stripe_bytes: 1 << 20,
        job: "a job".into(),
        key: HandleKey([1; 16]),
        lease_ms: 60_000,
    };
    let session = repository.catalog().join(&join).unwrap();
    write(&repository, session.id, content);
    repository.catalog().leave(session.id, &join.key).unwrap();
    repository.close().unwrap();
}

fn write(repository: &Arc<Repository>, session: format::SessionId, content: &[u8]) {
    let seat = Seat::take(repository.clone(), Arc::new(Budget::new(64 << 20)), session, 0, 1, 8192).unwrap();
    let arrival = Arrival { source: Source { client: 1, stream: 0 }, sequence: 1, stamp: 0 };
    seat.write(arrival, &[(0, content.len() as u64)], content.to_vec()).unwrap();
    seat.settle(Claimant(1), true, None).unwrap();
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

    let refused = run(&["get".as_ref(), store.place("out").as_os_str(), "-".as_ref()]).expect(1);
    assert!(refused.stderr.contains("--unfinished"), "{}", refused.stderr);
    let read = run(&["get".as_ref(), "--unfinished".as_ref(), store.place("out").as_os_str(), "-".as_ref()]).expect(0);
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
    let mut over = vec!["recover".into(), store.place("out"), "--session".into(), older.into()];
    let refused = run(&over).expect(1);
    assert!(refused.stderr.contains("older data above"), "{}", refused.stderr);
    assert_eq!(store.read("out"), b"newer");
    over.push("--force".into());
    run(&over).expect(0);
    assert_eq!(store.read("out"), b"older");
}

#[test]
fn a_session_nobody_wants_is_dropped() {
    let store = Store::new();
    interrupted(&store, b"unwanted");
    store.at("recover", "out", &["--discard"]);
    assert_eq!(store.json("sessions"), serde_json::json!([]));
    assert_eq!(store.at("ls", "", &[]).text(), "");
}

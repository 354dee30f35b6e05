//! A catalog whose rows were changed with its guard set aside, as a program does that knows how: the journal and the
//! containers are believed before anything is deleted, and no content of a row ends a process.

use std::fs;

use random::Random;

use super::runner::{Run, Store, run};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A file in each of three containers.
fn store_of_three() -> Store {
    let store = Store::new();
    NAMES.iter().for_each(|name| drop(put(&store, name).expect(0)));
    store
}

fn put(store: &Store, name: &str) -> Run {
    let mut random = Random::new(name.bytes().map(u64::from).sum());
    fs::write(store.path(name), random.bytes(60_000)).unwrap();
    run(&["put".as_ref(), store.path(name).as_os_str(), &store.address(name)])
}

fn change(store: &Store, text: &str) {
    let catalog = rusqlite::Connection::open(store.directory().join("catalog.sqlite")).unwrap();
    let text = format!("UPDATE counters SET writing = 1; {text}; UPDATE counters SET writing = 0;");
    catalog.execute_batch(&text).unwrap();
}

/// Made again, by force if it must, the catalog has all that was put.
fn is_made_again(store: &Store, why: &str) {
    let rebuild = |more: &[&str]| store.try_verb("verify", &[&["--rebuild-catalog", "--data"], more].concat());
    let mut rebuilt = rebuild(&[]);
    if rebuilt.code == Some(1) {
        assert!(rebuilt.stderr.contains("--force"), "{why}: {rebuilt:?}");
        rebuilt = rebuild(&["--force"]);
    }
    assert!(matches!(rebuilt.code, Some(0 | 3)), "{why}: {rebuilt:?}");
    for name in NAMES {
        assert_eq!(store.read(name), fs::read(store.path(name)).unwrap(), "{why}");
    }
    put(store, "d").expect(0);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn collection_deletes_nothing_that_the_journal_or_the_containers_say_is_needed() {
    let changes = [
        "UPDATE containers SET physical = 1",
        "UPDATE containers SET state = 2",
        "UPDATE containers SET state = 2, segments = 0, stored_bytes = 0 WHERE id = 2",
        "UPDATE containers SET state = 3 WHERE id = 3",
        "DELETE FROM containers WHERE id = 2",
        "DELETE FROM versions WHERE file = 2",
        "DELETE FROM names WHERE path = CAST('b' AS BLOB)",
        "DELETE FROM files WHERE id = 2",
        "UPDATE files SET head = (SELECT id FROM versions WHERE file = 1) WHERE id = 2",
        "UPDATE versions SET root = (SELECT root FROM versions WHERE file = 1) WHERE file = 2",
        "UPDATE versions SET number = 7 WHERE file = 3",
        "UPDATE names SET file = 1 WHERE path = CAST('b' AS BLOB)",
        "DELETE FROM names WHERE path = x''",
        "DELETE FROM names",
        "DELETE FROM files WHERE id = (SELECT file FROM names WHERE path = x'')",
    ];
    for text in changes {
        let store = store_of_three();
        let before = store.containers();
        change(&store, text);
        for _ in 0..2 {
            let refused = store.try_verb("collect", &[]).expect(1);
            assert!(refused.stderr.contains("--rebuild-catalog"), "{text}: {refused:?}");
        }
        assert_eq!(store.containers(), before, "{text}");
        store.try_verb("verify", &[]).expect(3);
        is_made_again(&store, text);
    }
}

fn drop_triggers(store: &Store) {
    let catalog = rusqlite::Connection::open(store.directory().join("catalog.sqlite")).unwrap();
    let mut found = catalog.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    let names: Vec<String> = found.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    names.iter().for_each(|name| catalog.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
}

#[test]
fn a_catalog_without_its_triggers_is_refused_and_made_again() {
    let changes = ["SELECT 1", "DELETE FROM names", "DELETE FROM files WHERE id = (SELECT max(id) FROM files)"];
    for text in changes {
        let store = store_of_three();
        let before = store.containers();
        drop_triggers(&store);
        change(&store, text);
        let refusals = [store.try_verb("collect", &[]), store.try_verb("repair", &[]), put(&store, "e")];
        for refused in refusals {
            let refused = refused.expect(1);
            assert!(refused.stderr.contains("verify --rebuild-catalog"), "{text}: {refused:?}");
        }
        assert_eq!(store.containers(), before, "{text}");
        let verified = store.try_verb("verify", &[]).expect(3);
        assert!(verified.stderr.contains("triggers") && verified.stderr.contains("--rebuild-catalog"), "{verified:?}");
        is_made_again(&store, text);
    }
}

#[test]
fn verify_says_that_a_catalog_without_a_newest_version_hides_what_else_is_there() {
    let store = store_of_three();
    change(&store, "DELETE FROM versions WHERE file = 2");
    let verified = store.try_verb("verify", &[]).expect(3);
    assert!(verified.stderr.contains("was not checked"), "{verified:?}");
    assert!(!verified.stderr.contains("can be read"), "{verified:?}");
}

#[test]
fn no_number_in_the_catalog_ends_a_process_or_stays_in_the_way_of_a_rebuild() {
    let columns = ["sequence", "epoch", "session", "container", "versioned", "unversioned", "referral", "transactions"];
    for column in columns {
        for value in ["-1", "9223372036854775807", "4611686018427387904", "1099511627775"] {
            let store = store_of_three();
            change(&store, &format!("UPDATE counters SET {column} = {value}"));
            let why = format!("{column} = {value}");
            // The runner refuses what panics.
            for verb in ["collect", "verify", "repair", "stats"] {
                let done = store.try_verb(verb, &[]);
                assert!(matches!(done.code, Some(0 | 1 | 3)), "{why}: {done:?}");
            }
            for _ in 0..2 {
                assert!(matches!(put(&store, "e").code, Some(0 | 1 | 3)), "{why}");
            }
            is_made_again(&store, &why);
        }
    }
}

#[test]
fn no_number_in_a_row_ends_a_process() {
    let columns = [
        "containers SET physical",
        "containers SET stored_bytes",
        "containers SET segments",
        "containers SET left_epoch",
        "containers SET referred_sequence",
        "containers SET moved_epoch",
        "containers SET state",
        "containers SET opener",
        "versions SET number",
        "versions SET size",
        "versions SET committed_ns",
        "versions SET file",
        "files SET links",
        "files SET last_version",
        "files SET head",
        "files SET kind",
        "names SET file",
    ];
    for column in columns {
        for value in ["-1", "9223372036854775807"] {
            let store = store_of_three();
            let text = format!("UPDATE OR IGNORE {column} = {value}");
            change(&store, &text);
            for verb in ["stats", "verify", "collect", "repair"] {
                let done = store.try_verb(verb, &[]);
                assert!(matches!(done.code, Some(0 | 1 | 3)), "{text}: {verb}: {done:?}");
            }
            for done in [put(&store, "e"), store.try_verb("collect", &[])] {
                assert!(matches!(done.code, Some(0 | 1 | 3)), "{text}: {done:?}");
            }
            is_made_again(&store, &text);
        }
    }
}

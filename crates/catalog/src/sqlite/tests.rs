//! The catalog on disk: its promises, and when it is unsound.

use std::sync::Arc;

use super::*;

#[test]
fn leases_last_while_the_machine_s_time_jumps_and_end_with_the_machine() {
    let scratch = tempfile::tempdir().unwrap();
    let date = Arc::new(std::sync::atomic::AtomicI64::new(1_700_000_000_000_000_000));
    let start = Arc::new(std::sync::atomic::AtomicI64::new(7 << 41));
    let (shown, since) = (date.clone(), start.clone());
    let mut catalog = SqliteCatalog::open(&scratch.path().join("catalog"), true).unwrap();
    catalog.clocks.date = Arc::new(move || shown.load(std::sync::atomic::Ordering::SeqCst));
    catalog.clocks.lease = Arc::new(move || since.load(std::sync::atomic::Ordering::SeqCst));
    let session = catalog.begin(Purpose::Write, 30_000).unwrap().id;
    for hours in [1, -2, 24] {
        date.fetch_add(hours * 3_600_000_000_000, std::sync::atomic::Ordering::SeqCst);
        catalog.snapshot().unwrap();
        catalog.open_container(session).unwrap();
    }
    for other_start in [8, 6] {
        let session = catalog.begin(Purpose::Write, 30_000).unwrap().id;
        start.store(other_start << 41, std::sync::atomic::Ordering::SeqCst);
        assert!(matches!(catalog.open_container(session), Err(Error::LeaseLost { .. })));
        catalog.snapshot().unwrap();
        assert!(matches!(catalog.renew(session, 30_000, false), Err(Error::LeaseLost { .. })), "it was ended");
    }
}

#[test]
fn the_catalog_on_disk_keeps_every_promise() {
    let scratch = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    conformance::suite(|clock| {
        made.set(made.get() + 1);
        let path = scratch.path().join(format!("catalog-{}", made.get()));
        Arc::new(SqliteCatalog::open(&path, true).unwrap().with_clock(clock))
    });
}

fn of_store(folder: &Path, name: &str, store: u8) -> SqliteCatalog {
    let catalog = SqliteCatalog::open(&folder.join(name), true).unwrap();
    let options = &mut std::fs::OpenOptions::new();
    let mark = options.read(true).write(true).create(true).truncate(false).open(folder.join("mark")).unwrap();
    catalog.with_mark(Some(mark), StoreId([store; 16]))
}

fn make(catalog: &SqliteCatalog, path: &str) {
    let session = catalog.begin(Purpose::Write, 1000).unwrap().id;
    let attributes = format::Attributes { kind: format::FileKind::Directory, ..Default::default() };
    let changes = vec![format::Change::Make { path: StorePath::new(path.as_bytes()).unwrap(), attributes }];
    let commit = Commit { session, references: vec![], epoch: u64::MAX, changes, checkpoints: vec![] };
    catalog.commit(&commit).unwrap();
    catalog.open_container(session).unwrap();
}

#[test]
fn a_catalog_older_than_the_mark_is_unsound() {
    let scratch = tempfile::tempdir().unwrap();
    let store = StoreId([1; 16]);
    make(&of_store(scratch.path(), "new", 1), "a");
    std::fs::copy(scratch.path().join("new"), scratch.path().join("old")).unwrap();
    let (old, new) = (of_store(scratch.path(), "old", 1), of_store(scratch.path(), "new", 1));
    assert_eq!(old.unsoundness(store).unwrap(), None, "as new as the mark");
    make(&new, "b");
    assert_eq!(new.unsoundness(store).unwrap(), None);
    let why = old.unsoundness(store).unwrap().expect("it is behind");
    assert!(why.contains("ends with transaction 1, the store's journal goes on to 2"), "{why}");
}

#[test]
fn a_catalog_that_lacks_a_lease_alone_is_an_older_copy() {
    let scratch = tempfile::tempdir().unwrap();
    let store = StoreId([1; 16]);
    make(&of_store(scratch.path(), "new", 1), "a");
    std::fs::copy(scratch.path().join("new"), scratch.path().join("old")).unwrap();
    let (old, new) = (of_store(scratch.path(), "old", 1), of_store(scratch.path(), "new", 1));
    new.begin(Purpose::Read, 1000).unwrap();
    assert_eq!(new.unsoundness(store).unwrap(), None);
    assert!(old.unsoundness(store).unwrap().unwrap().contains("older copy"));
}

#[test]
fn a_catalog_of_another_store_is_unsound() {
    let scratch = tempfile::tempdir().unwrap();
    let catalog = of_store(scratch.path(), "catalog", 1);
    assert_eq!(catalog.unsoundness(StoreId([1; 16])).unwrap(), None, "nobody's yet");
    catalog.adopt(StoreId([1; 16])).unwrap();
    assert_eq!(catalog.unsoundness(StoreId([1; 16])).unwrap(), None);
    assert!(catalog.unsoundness(StoreId([2; 16])).unwrap().is_some());
}

#[test]
fn rows_that_something_else_changes_are_noticed() {
    let scratch = tempfile::tempdir().unwrap();
    let changes = [
        "DELETE FROM names WHERE path = CAST('a' AS BLOB)",
        "DELETE FROM files WHERE kind = 1",
        "DELETE FROM containers",
        "UPDATE containers SET state = 2",
        "INSERT INTO versions VALUES (7, 7, 7, 7, 7, NULL, x'00', NULL)",
        "DELETE FROM journal",
        "UPDATE counters SET sequence = 0",
        "UPDATE counters SET referral = 0",
        "UPDATE names SET file = 3 WHERE path = CAST('a' AS BLOB)",
    ];
    for (at, change) in changes.iter().enumerate() {
        let name = format!("catalog-{at}");
        let catalog = SqliteCatalog::open(&scratch.path().join(&name), true).unwrap();
        make(&catalog, "a");
        assert_eq!(catalog.unsoundness(StoreId([1; 16])).unwrap(), None);
        rusqlite::Connection::open(scratch.path().join(&name)).unwrap().execute_batch(change).unwrap();
        assert!(catalog.unsoundness(StoreId([1; 16])).unwrap().is_some(), "{change}");
    }
}

#[test]
fn a_catalog_of_format_2_gets_its_guard_and_keeps_what_it_holds() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("catalog");
    make(&SqliteCatalog::open(&path, true).unwrap(), "a");
    // As format 2 was: without the columns and triggers of guard.sql.
    let sql = rusqlite::Connection::open(&path).unwrap();
    let triggers: Vec<String> = {
        let mut found = sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        found.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect()
    };
    assert!(!triggers.is_empty());
    triggers.iter().for_each(|name| sql.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
    for column in
        ["writing", "foreign_changes", "store", "unchecked_sequence", "transactions", "transactions_before", "referral"]
    {
        sql.execute_batch(&format!("ALTER TABLE counters DROP COLUMN {column}")).unwrap();
    }
    sql.execute_batch(
        "ALTER TABLE path_sessions DROP COLUMN state; ALTER TABLE versions DROP COLUMN attributes;
        ALTER TABLE stripe_owners RENAME TO seats;
        ALTER TABLE seats RENAME COLUMN stripe_set TO seat; ALTER TABLE seats RENAME COLUMN owner TO holder;
        ALTER TABLE checkpoints RENAME COLUMN stripe_set TO seat;
        ALTER TABLE checkpoints RENAME COLUMN owner TO holder; DROP INDEX checkpoints_by_stripe_set;
        CREATE UNIQUE INDEX checkpoints_by_seat ON checkpoints (session, seat, number)",
    )
    .unwrap();
    sql.execute_batch(
        "DROP TABLE lost_segments; DROP TABLE journal_checksums; DROP TABLE path_handles; PRAGMA user_version = 2",
    )
    .unwrap();
    drop(sql);
    let catalog = SqliteCatalog::open(&path, false).unwrap();
    assert!(catalog.entry(&StorePath::new(b"a").unwrap()).unwrap().is_some());
    make(&catalog, "b");
    // The first record's checksum is unknown, so it is trusted; the second's and later ones' are known.
    assert_eq!(catalog.unknown_records(&[(1, 77), (2, 77), (3, 77)]).unwrap(), [2, 3]);
    assert_eq!(catalog.unsoundness(StoreId([1; 16])).unwrap(), None);
    rusqlite::Connection::open(&path).unwrap().execute_batch("DELETE FROM containers").unwrap();
    assert!(catalog.unsoundness(StoreId([1; 16])).unwrap().is_some());
}

//! Files that are no catalog, a newer one, a damaged one; and disks without room.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::catalog::{Checkpoint, Error, Join, LocalCatalog, Names, Purpose, SqliteCatalog};
use crate::{commit, opened, path, scratch, writer, written};
use format::{ContainerId, HandleKey, Root, SegmentAddress, SessionId, StorePath};

fn refusal(file: &Path, create: bool) -> Error {
    SqliteCatalog::open(file, create).err().expect("the file must be refused")
}

#[test]
fn a_catalog_is_made_only_when_asked() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    assert!(matches!(refusal(&file, false), Error::Io { .. }));
    assert!(!file.exists());
    drop(opened(&file));
    SqliteCatalog::open(&file, false).unwrap();
    assert!(matches!(refusal(&directory.path().join("missing/catalog"), true), Error::Io { .. }));
}

#[test]
fn a_catalog_keeps_its_content_and_its_numbers_when_opened_again() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let first = opened(&file);
    let done = commit(&first, writer(&first), vec![written("d/a", 1, None)]).unwrap();
    let container = first.open_container(writer(&first)).unwrap();
    drop(first);
    let again = opened(&file);
    assert_eq!(again.entry(&path("d/a")).unwrap().unwrap().file, done.numbers[0].0);
    let session = writer(&again);
    assert!(again.open_container(session).unwrap() > container);
    assert!(commit(&again, session, vec![]).unwrap().sequence > done.sequence);
}

#[test]
fn a_newer_catalog_is_refused() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    drop(opened(&file));
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 999).unwrap();
    assert!(matches!(refusal(&file, true), Error::TooNew { found: 999, .. }));
}

/// Restores formats 1 and 2: without the columns and triggers of guard.sql.
fn undo_guard(sql: &rusqlite::Connection) {
    let mut found = sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    let triggers: Vec<String> = found.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    assert!(!triggers.is_empty());
    triggers.iter().for_each(|name| sql.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
    sql.execute_batch("DROP TABLE journal_checksums; DROP TABLE path_handles").unwrap();
    for column in
        ["writing", "foreign_changes", "store", "unchecked_sequence", "transactions", "transactions_before", "referral"]
    {
        sql.execute_batch(&format!("ALTER TABLE counters DROP COLUMN {column}")).unwrap();
    }
}

/// Restores format 8: the first names of stripe sets and their owners.
fn undo_stripe_owners(sql: &rusqlite::Connection) {
    sql.execute_batch(
        "ALTER TABLE path_sessions DROP COLUMN state;
        ALTER TABLE stripe_owners RENAME TO seats;
        ALTER TABLE seats RENAME COLUMN stripe_set TO seat;
        ALTER TABLE seats RENAME COLUMN owner TO holder;
        ALTER TABLE checkpoints RENAME COLUMN stripe_set TO seat;
        ALTER TABLE checkpoints RENAME COLUMN owner TO holder;
        DROP INDEX checkpoints_by_stripe_set;
        CREATE UNIQUE INDEX checkpoints_by_seat ON checkpoints (session, seat, number);
        PRAGMA user_version = 8",
    )
    .unwrap();
}

/// Records a checkpoint of the session's stripe set 1, for this owner.
fn checkpoint(catalog: &dyn LocalCatalog, session: SessionId, owner: u64) {
    let number = catalog.take_stripe_set(session, 1, owner).unwrap();
    let root = Root::Stored { address: SegmentAddress::new(ContainerId(1), 2), digest: [7; 32] };
    let (frontier, stamps) = (vec![(1, 2, 3)], vec![(4, 5, 6)]);
    let made =
        Checkpoint { session, stripe_set: 1, owner, number, epoch: 0, root, size: 9, resized: false, frontier, stamps };
    catalog.checkpoint(session, &made, &[], u64::MAX).unwrap();
}

#[test]
fn a_catalog_of_format_8_keeps_its_stripe_owners_and_checkpoints() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let first = opened(&file);
    let nodes = vec!["a:1".into(), "b:2".into()];
    let key = HandleKey([7; 16]);
    let join = Join { path: path("run"), nodes, stripe_bytes: 1 << 20, job: String::new(), key, lease_ms: 60_000 };
    let session = first.join(&join).unwrap().id;
    checkpoint(&first, session, 7);
    let made = first.checkpoints(session).unwrap();
    drop(first);
    undo_stripe_owners(&rusqlite::Connection::open(&file).unwrap());
    let again = opened(&file);
    assert_eq!(again.checkpoints(session).unwrap(), made);
    checkpoint(&again, session, 8);
    let owners: Vec<u64> = again.checkpoints(session).unwrap().iter().map(|made| made.owner).collect();
    assert_eq!(owners, [7, 8]);
}

#[test]
fn a_catalog_of_format_1_is_brought_up_to_date() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    drop(opened(&file));
    let sql = rusqlite::Connection::open(&file).unwrap();
    undo_guard(&sql);
    undo_stripe_owners(&sql);
    sql.execute_batch("DROP TABLE left_files; DROP TABLE lost_segments; ALTER TABLE versions DROP COLUMN attributes; PRAGMA user_version = 1").unwrap();
    drop(sql);
    assert!(opened(&file).files_of(ContainerId(1)).unwrap().is_empty());
}

#[test]
fn a_catalog_of_format_7_keeps_its_versions_and_the_attributes_of_those_to_come() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let first = opened(&file);
    let session = writer(&first);
    (1..=2).for_each(|size| drop(commit(&first, session, vec![written("a", size, None)]).unwrap()));
    drop(first);
    let sql = rusqlite::Connection::open(&file).unwrap();
    undo_stripe_owners(&sql);
    sql.execute_batch("ALTER TABLE versions DROP COLUMN attributes; PRAGMA user_version = 7").unwrap();
    drop(sql);
    let again = opened(&file);
    commit(&again, writer(&again), vec![written("a", 3, None)]).unwrap();
    let known: Vec<bool> = again.versions(&path("a")).unwrap().iter().map(|found| found.attributes.is_some()).collect();
    assert_eq!(known, [false, true, false]);
}

#[test]
fn a_catalog_of_layouts_that_are_no_longer_read_is_too_old_and_not_damaged() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    drop(opened(&file));
    let sql = rusqlite::Connection::open(&file).unwrap();
    undo_guard(&sql);
    // Times were numbers of nanoseconds: eight bytes less for two of them.
    let older = "UPDATE files SET attributes = substr(attributes, 1, length(attributes) - 8); PRAGMA user_version = 4";
    sql.execute_batch(older).unwrap();
    drop(sql);
    let refused = refusal(&file, false);
    assert!(matches!(refused, Error::TooOld { .. }), "{refused}");
    assert!(!refused.to_string().contains("rebuild"), "that would lose everything: {refused}");
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let text = "no database, but longer than the header of one ".repeat(9);
    std::fs::write(&file, &text).unwrap();
    assert!(matches!(refusal(&file, true), Error::Corrupt { .. }));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let other = directory.path().join("other");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(refusal(&other, true), Error::Corrupt { .. }));
    std::fs::write(directory.path().join("empty"), "").unwrap();
    assert!(matches!(refusal(&directory.path().join("empty"), false), Error::Corrupt { .. }));
}

/// Every call may fail with `Corrupt`, and some must; none may panic or fail otherwise. SQLite has no checksums: a name
/// may seem to be missing.
#[test]
fn damage_is_an_error_and_never_a_panic() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let catalog = opened(&file);
    let session = writer(&catalog);
    commit(&catalog, session, (0..2000).map(|n| written(&format!("d{}/{n}", n % 7), n, None)).collect()).unwrap();
    drop(catalog);
    let whole = std::fs::read(&file).unwrap();
    let mut found = 0;
    for offset in (4096..whole.len() - 4096).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[offset..offset + 3000].iter_mut().for_each(|byte| *byte ^= 0xa5);
        std::fs::write(&file, &bytes).unwrap();
        found += probe(&file).is_err() as u32;
    }
    assert!(found > 10, "only {found} of about 60 damages were found");
}

fn probe(file: &Path) -> Result<(), Error> {
    let outcome = (|| {
        let catalog = SqliteCatalog::open(file, false)?;
        let session = catalog.begin(crate::Purpose::Write, 1000)?.id;
        for (path, _) in catalog.list(&StorePath::root(), true, None, usize::MAX)? {
            catalog.versions(&path)?;
        }
        catalog.unjournaled(9)?;
        catalog.roots(0, usize::MAX)?;
        commit(&catalog, session, vec![written("d1/1", 1, None), written("new", 1, None)]).map(drop)
    })();
    match outcome {
        Ok(()) | Err(Error::Corrupt { .. } | Error::NotFound { .. }) => outcome,
        Err(other) => panic!("damage was reported as: {other}"),
    }
}

/// A small file system of its own; none where this process may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let disk = SmallDisk(tempfile::tempdir().unwrap());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(disk.0.path());
        mount.output().ok()?.status.success().then_some(disk)
    }

    /// Makes an ext4 whose blocks are a quarter of SQLite's pages, on a file beside it.
    fn of_small_blocks() -> Option<Self> {
        let disk = SmallDisk(tempfile::tempdir().unwrap());
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(24 << 20).unwrap();
        let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let made = done(
            Command::new("/sbin/mkfs.ext4")
                .args(["-q", "-b", "1024", "-m", "0", "-O", "^has_journal"])
                .arg(image.path()),
        ) && done(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(disk.0.path()));
        made.then_some(disk)
    }

    /// Fills the disk but for this many bytes, for a user who fills disks.
    fn fill_but(&self, free_bytes: u64) {
        let mut filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while filler.write_all(&[1; 65536]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length - free_bytes).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_the_catalog_whole() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: mounting is not allowed here");
        return;
    };
    let file = disk.0.path().join("catalog");
    let catalog = opened(&file);
    let session = writer(&catalog);
    let mut committed = 0;
    let refused = loop {
        let changes = (0..100).map(|n| written(&format!("{committed}/{n}"), n, None)).collect();
        match commit(&catalog, session, changes) {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    let files = catalog.list(&StorePath::root(), true, None, usize::MAX).unwrap();
    assert_eq!(files.len(), committed * 101);
    drop(catalog);
    assert_eq!(opened(&file).statistics().unwrap().files, committed as u64 * 100);
}

#[test]
fn a_full_disk_of_small_blocks_ends_no_process() {
    let Some(disk) = SmallDisk::of_small_blocks() else {
        eprintln!("skipped: mounting is not allowed here");
        return;
    };
    let file = disk.0.path().join("catalog");
    let catalog = opened(&file);
    commit(&catalog, writer(&catalog), vec![written("name", 1, None)]).unwrap();
    drop(catalog);
    for free_kib in (0..40).chain(200..320) {
        disk.fill_but(free_kib << 10);
        let read = SqliteCatalog::open_for_reading(&file).unwrap();
        assert_eq!(read.statistics().unwrap().files, 1, "{free_kib} KiB were free");
        let begun = read.begin(Purpose::Read, 1000);
        assert!(
            matches!(begun, Ok(_) | Err(Error::Full { .. } | Error::ReadOnly { .. } | Error::Io { .. })),
            "{begun:?}"
        );
        // A new connection, where the lease may have taken the last free room.
        let view = read.view().unwrap_or_else(|error| panic!("{free_kib} KiB were free: {error}"));
        assert!(view.sequence().unwrap() > 0);
    }
}

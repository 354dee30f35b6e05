//! Makes the tables, and refuses files that are not a catalog this program knows.

use std::path::Path;

use format::Attributes;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure::Attempt;
use super::names::implicit_directory;
use super::statement::{first, run};
use crate::Error;
use crate::clock::system_clock;
use crate::counters::{Counters, ROOT};

/// The format of `schema.sql` and the files beside it, kept in `user_version`.
const SCHEMA_FORMAT: u16 = 10;
/// Added with format 2: an older catalog is upgraded when it is opened.
const SINCE_FORMAT_2: &str = "
    CREATE TABLE left_files (
        container  INTEGER NOT NULL,
        physical   INTEGER NOT NULL,
        left_epoch INTEGER NOT NULL,
        PRIMARY KEY (container, physical)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX left_files_by_file ON left_files (physical);";
/// The format that has `guard.sql`: see there.
const GUARDED_FORMAT: u16 = 3;
const GUARD: &str = include_str!("guard.sql");
/// Format 4 has segments that are known to be lost.
const SINCE_FORMAT_4: &str = "
    CREATE TABLE lost_segments (
        container      INTEGER NOT NULL,
        ordinal        INTEGER NOT NULL,
        fingerprint    BLOB NOT NULL,
        copy_container INTEGER,
        copy_ordinal   INTEGER,
        PRIMARY KEY (container, ordinal)
    ) STRICT, WITHOUT ROWID;";
/// Format 5 has the checksums of journal records.
const SINCE_FORMAT_5: &str = include_str!("journal_checksums.sql");
/// Format 6 counts transactions: see there.
const COUNTING_FORMAT: u16 = 6;
/// Format 7 has the keys of handles.
const SINCE_FORMAT_7: &str = include_str!("path_handles.sql");
/// Format 8 keeps the attributes of versions that are not the newest.
const SINCE_FORMAT_8: &str = "ALTER TABLE versions ADD COLUMN attributes BLOB;";
/// Format 9 calls stripe sets and their owners by these names.
const SINCE_FORMAT_9: &str = "
    ALTER TABLE seats RENAME TO stripe_owners;
    ALTER TABLE stripe_owners RENAME COLUMN seat TO stripe_set;
    ALTER TABLE stripe_owners RENAME COLUMN holder TO owner;
    ALTER TABLE checkpoints RENAME COLUMN seat TO stripe_set;
    ALTER TABLE checkpoints RENAME COLUMN holder TO owner;
    DROP INDEX checkpoints_by_seat;
    CREATE UNIQUE INDEX checkpoints_by_stripe_set ON checkpoints (session, stripe_set, number);";
/// Format 10 knows of names that change while their files are open.
const SINCE_FORMAT_10: &str = "ALTER TABLE path_sessions ADD COLUMN state INTEGER NOT NULL DEFAULT 0;";
/// Reading code knows the older names and missing columns of catalogs since this format.
const OLDEST_READ_AS_IT_IS: u16 = 7;
/// "TWGC": marks the file as ours among SQLite databases.
const APPLICATION_ID: i64 = 0x5457_4743;

/// Checks the file's format; an empty file is filled when `create`.
pub(super) fn prepare(connection: &Connection, path: &Path, create: bool) -> Attempt<()> {
    if is_filled(connection, path)? {
        return upgrade(connection, path);
    }
    let path_text = path.display().to_string();
    if !create {
        return Err(Error::Corrupt { path: path_text, why: "the file is empty".to_owned() }.into());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Another process may have been first.
    if !is_filled(&transaction, path)? {
        fill(&transaction)?;
    }
    Ok(transaction.commit()?)
}

/// Checks the file's format where the file cannot be written: a catalog that is a little older is read as it is.
pub(super) fn prepare_for_reading(connection: &Connection, path: &Path) -> Attempt<()> {
    if is_filled(connection, path)? && format(connection)? >= OLDEST_READ_AS_IT_IS {
        return Ok(());
    }
    prepare(connection, path, false)
}

/// Upgrades an older catalog.
fn upgrade(connection: &Connection, path: &Path) -> Attempt<()> {
    if format(connection)? == SCHEMA_FORMAT {
        return Ok(());
    }
    if has_older_layouts(connection)? {
        return Err(Error::TooOld { path: path.display().to_string() }.into());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Another process may have been first.
    let found = format(&transaction)?;
    if found < 2 {
        transaction.execute_batch(SINCE_FORMAT_2)?;
    }
    if found < GUARDED_FORMAT {
        transaction.execute_batch(GUARD)?;
    }
    if found < 4 {
        transaction.execute_batch(SINCE_FORMAT_4)?;
    }
    if found < 5 {
        transaction.execute_batch(SINCE_FORMAT_5)?;
    }
    if found < COUNTING_FORMAT {
        begin_counting(&transaction)?;
    }
    if found < 7 {
        transaction.execute_batch(SINCE_FORMAT_7)?;
    }
    if found < 8 {
        transaction.execute_batch(SINCE_FORMAT_8)?;
    }
    if found < 9 {
        transaction.execute_batch(SINCE_FORMAT_9)?;
    }
    if found < 10 {
        transaction.execute_batch(SINCE_FORMAT_10)?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA_FORMAT)?;
    Ok(transaction.commit()?)
}

/// Counting begins at this number at most, in 2225: a clock that is far ahead must leave room to count.
const LAST_BEGINNING: i64 = i64::MAX - (1 << 60);

/// Begins counting above any catalog that was made earlier.
fn begin_counting(connection: &Connection) -> Attempt<()> {
    connection.execute_batch(include_str!("transactions.sql"))?;
    run(connection, "UPDATE counters SET transactions = ?1", [system_clock()().clamp(1, LAST_BEGINNING)])?;
    Ok(())
}

/// Returns whether tables have layouts from before format 5, which changed without a number of their own. The root has
/// attributes in every catalog, and those of other layouts have another length.
fn has_older_layouts(connection: &Connection) -> Attempt<bool> {
    let text = "SELECT attributes FROM files WHERE id = ?1";
    let attributes = first(connection, text, [ROOT.0 as i64], |row| Ok(row.get::<_, Vec<u8>>(0)?))?;
    Ok(attributes.is_some_and(|attributes| Attributes::decode(&attributes).is_err()))
}

fn format(connection: &Connection) -> Attempt<u16> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Returns whether the catalog has the columns and triggers of `guard.sql`.
pub(super) fn is_guarded(connection: &Connection) -> Attempt<bool> {
    Ok(format(connection)? >= GUARDED_FORMAT)
}

/// Returns the names of the triggers of `guard.sql`.
pub(super) fn guard_triggers() -> impl Iterator<Item = &'static str> {
    let begun = |line: &'static str| line.strip_prefix("CREATE TRIGGER ");
    GUARD.lines().filter_map(begun).filter_map(|rest| rest.split(' ').next())
}

/// Returns whether the catalog has the columns of `transactions.sql`.
pub(super) fn counts_transactions(connection: &Connection) -> Attempt<bool> {
    Ok(format(connection)? >= COUNTING_FORMAT)
}

/// Returns whether versions have attributes of their own.
pub(super) fn keeps_attributes(connection: &Connection) -> Attempt<bool> {
    Ok(format(connection)? >= 8)
}

/// Returns whether columns are named `stripe_set` and `owner`.
pub(super) fn names_stripe_owners(connection: &Connection) -> Attempt<bool> {
    Ok(format(connection)? >= 9)
}

fn is_filled(connection: &Connection, path: &Path) -> Attempt<bool> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (application, format) = (pragma("application_id")?, pragma("user_version")?);
    let path = path.display().to_string();
    if tables == 0 && application == 0 {
        return Ok(false);
    }
    if application != APPLICATION_ID {
        return Err(Error::Corrupt { path, why: "it is a database of another program".to_owned() }.into());
    }
    match u16::try_from(format) {
        Ok(1..=SCHEMA_FORMAT) => Ok(true),
        Ok(found) if found > SCHEMA_FORMAT => Err(Error::TooNew { path, found }.into()),
        _ => Err(Error::Corrupt { path, why: format!("its format number is {format}") }.into()),
    }
}

fn fill(connection: &Connection) -> Attempt<()> {
    connection.execute_batch(include_str!("schema.sql"))?;
    run(connection, "INSERT INTO counters VALUES (0, 0, 0, 0, 0, 0, 0)", [])?;
    run(connection, "UPDATE counters SET unversioned = ?1", [Counters::new().unversioned as i64])?;
    let attributes = implicit_directory();
    let params = (ROOT.0 as i64, attributes.kind as u8, attributes.encode());
    run(connection, "INSERT INTO files (id, kind, links, attributes) VALUES (?1, ?2, 1, ?3)", params)?;
    run(connection, "INSERT INTO names VALUES (x'', ?1)", [ROOT.0 as i64])?;
    connection.execute_batch(GUARD)?;
    connection.execute_batch(SINCE_FORMAT_5)?;
    begin_counting(connection)?;
    connection.execute_batch(SINCE_FORMAT_7)?;
    connection.execute_batch(SINCE_FORMAT_8)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(connection.pragma_update(None, "user_version", SCHEMA_FORMAT)?)
}

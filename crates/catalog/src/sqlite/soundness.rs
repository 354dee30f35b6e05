//! Whether this catalog belongs to its store: not older than the journal, not another store's, not changed by another
//! program. All but `integrity` costs a few look-ups.

use format::{StoreId, StorePath};
use rusqlite::Connection;

use super::commits::is_in_place_of_its_own;
use super::failure::Attempt;
use super::listing::entry;
use super::mark::MarkUpdate;
use super::schema::{counts_transactions, guard_triggers, is_guarded};
use super::statement::{all, first, number, run};
use super::writing::{WriteTransaction, load_counters};

/// Most problems of the file that are reported.
const MAX_PROBLEMS: i64 = 20;

pub(super) fn adopt(writing: &mut WriteTransaction, store: StoreId) -> Attempt<()> {
    run(writing.sql, "UPDATE counters SET store = ?1", [store.0])?;
    Ok(())
}

pub(super) fn has_owner(sql: &Connection) -> Attempt<bool> {
    let owner = first(sql, "SELECT store IS NOT NULL FROM counters", [], |row| Ok(row.get::<_, bool>(0)?))?;
    Ok(owner.unwrap_or(false))
}

pub(super) fn is_of_another_store(sql: &Connection, store: StoreId) -> Attempt<bool> {
    let owner = "SELECT store FROM counters WHERE store IS NOT NULL";
    let owner = first(sql, owner, [], |row| Ok(row.get::<_, Vec<u8>>(0)?))?;
    Ok(owner.is_some_and(|owner| owner != store.0))
}

/// Returns the number of rows changed by hand, or by another program.
pub(super) fn foreign_changes(sql: &Connection) -> Attempt<u64> {
    let changes = first(sql, "SELECT foreign_changes FROM counters", [], |row| number(row, 0))?;
    Ok(changes.unwrap_or(0))
}

/// Returns whether triggers of `guard.sql` are missing: without them a change by another program goes unnoticed.
fn lacks_guard(sql: &Connection) -> Attempt<bool> {
    let text = "SELECT name FROM sqlite_schema WHERE type = 'trigger'";
    let present = all(sql, text, [], |row| Ok(row.get::<_, String>(0)?))?;
    Ok(guard_triggers().any(|name| !present.iter().any(|other| other == name)))
}

/// Returns whether something other than this program changed it, as far as the catalog itself shows.
pub(super) fn was_changed_by_others(sql: &Connection) -> Attempt<bool> {
    Ok(is_guarded(sql)? && (foreign_changes(sql)? > 0 || lacks_guard(sql)?))
}

/// Returns why its content is not what this store's catalogs wrote, if so.
fn foreign_content(sql: &Connection, store: StoreId) -> Attempt<Option<String>> {
    if !is_guarded(sql)? {
        return Ok(None);
    }
    if is_of_another_store(sql, store)? {
        return Ok(Some("it is the catalog of another store".to_owned()));
    }
    if lacks_guard(sql)? {
        let why =
            "the triggers that note changes by other programs were removed, so its rows may have been changed as well";
        return Ok(Some(why.to_owned()));
    }
    let changes = foreign_changes(sql)?;
    if changes > 0 {
        let rows = if changes == 1 { "1 of its rows was".into() } else { format!("{changes} of its rows were") };
        return Ok(Some(format!("{rows} changed by something other than thalweg")));
    }
    Ok(entry(sql, &StorePath::root())?.is_none().then(|| "it has no root directory".to_owned()))
}

/// Returns the number of the last transaction; none in a catalog of an older format.
pub(super) fn last_transaction(sql: &Connection) -> Attempt<Option<u64>> {
    match counts_transactions(sql)? {
        true => first(sql, "SELECT transactions FROM counters", [], |row| number(row, 0)),
        false => Ok(None),
    }
}

/// Returns why the catalog is unsound, if so. `marked` is the store's mark as it was before this call.
pub(super) fn unsoundness(sql: &Connection, store: StoreId, marked: &MarkUpdate) -> Attempt<Option<String>> {
    if let Some(why) = foreign_content(sql, store)? {
        return Ok(Some(why));
    }
    let counters = load_counters(sql)?;
    let (known, marked_sequence) = (counters.sequence, marked.given.sequence);
    if known < marked_sequence {
        return Ok(Some(format!(
            "it is an older copy: it ends with transaction {known}, the store's journal goes on to {marked_sequence}"
        )));
    }
    if last_transaction(sql)?.is_some_and(|last| last < marked.transaction) {
        return Ok(Some("it is an older copy: leases, containers or collections were noted in a newer one".to_owned()));
    }
    if marked.record != 0 && counts_transactions(sql)? && is_in_place_of_its_own(sql, marked_sequence, marked.record)? {
        return Ok(Some(format!(
            "it went on apart from its containers: transaction {marked_sequence} is another one than that of the store's \
             journal"
        )));
    }
    let last = first(sql, "SELECT id FROM containers ORDER BY id DESC LIMIT 1", [], |row| number(row, 0))?;
    if last.is_some_and(|last| last > counters.container) {
        return Ok(Some("it lists containers that it has not numbered".to_owned()));
    }
    Ok(None)
}

pub(super) fn integrity(sql: &Connection) -> Attempt<Vec<String>> {
    let text = format!("PRAGMA integrity_check({MAX_PROBLEMS})");
    let found = all(sql, &text, [], |row| Ok(row.get::<_, String>(0)?))?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

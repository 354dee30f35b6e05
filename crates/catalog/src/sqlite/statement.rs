//! Short ways to run a statement. Every statement is prepared once per connection and kept.

use rusqlite::{Connection, Params, Row};

use super::failure::Attempt;

/// Runs a statement without result rows; returns the number of rows it changed.
pub(super) fn run(sql: &Connection, text: &str, params: impl Params) -> Attempt<usize> {
    Ok(sql.prepare_cached(text)?.execute(params)?)
}

/// Returns the first row, if there is one.
pub(super) fn first<T>(
    sql: &Connection,
    text: &str,
    params: impl Params,
    mut read: impl FnMut(&Row) -> Attempt<T>,
) -> Attempt<Option<T>> {
    let mut statement = sql.prepare_cached(text)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(&mut read).transpose()
}

/// Returns all rows.
pub(super) fn all<T>(
    sql: &Connection,
    text: &str,
    params: impl Params,
    mut read: impl FnMut(&Row) -> Attempt<T>,
) -> Attempt<Vec<T>> {
    let mut statement = sql.prepare_cached(text)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Returns a column that holds an unsigned number, bit for bit.
pub(super) fn number(row: &Row, column: usize) -> Attempt<u64> {
    Ok(row.get::<_, i64>(column)? as u64)
}

/// Returns a column that holds a number this catalog counted up to: below `limit` unless damaged.
pub(super) fn counted(row: &Row, column: usize, limit: u64) -> Attempt<u64> {
    match number(row, column)? {
        found if found < limit => Ok(found),
        found => Err(format::Error::Corrupt { what: "counter", why: format!("{found} was never reached") }.into()),
    }
}

/// Returns a `limit` as SQLite takes it.
pub(super) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

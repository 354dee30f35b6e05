//! The catalog at one moment: a read transaction that stays open, on a connection of its own.
//!
//! While it is open the log cannot be moved into the file and grows with others' commits.

use std::path::{Path, PathBuf};

use format::{JournalRecord, StorePath};
use rusqlite::Connection;

use super::failure::Attempt;
use super::{commits, listing, writing};
use crate::{CatalogView, FileEntry, Result, Version};

pub(super) struct SqliteView {
    connection: Connection,
    path: PathBuf,
}

impl SqliteView {
    /// Makes a view; `connection` is in a transaction, which ends with it.
    pub fn new(connection: Connection, path: &Path) -> Self {
        SqliteView { connection, path: path.to_owned() }
    }

    fn read<T>(&self, body: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        body(&self.connection).map_err(|failure| failure.explain(&self.path))
    }
}

impl CatalogView for SqliteView {
    fn sequence(&self) -> Result<u64> {
        self.read(|sql| Ok(writing::load_counters(sql)?.sequence))
    }

    fn unjournaled(&self) -> Result<Vec<JournalRecord>> {
        self.read(|sql| commits::unjournaled(sql, usize::MAX))
    }

    fn list(&self, after: Option<&StorePath>, limit: usize) -> Result<Vec<(StorePath, FileEntry)>> {
        self.read(|sql| listing::list(sql, &StorePath::root(), true, after, limit))
    }

    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.read(|sql| listing::versions(sql, path, 0, usize::MAX))
    }
}

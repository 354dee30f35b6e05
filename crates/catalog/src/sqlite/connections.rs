//! One connection that writes and a few that read, on one file that other processes use as well.
//!
//! The log (WAL) lets readers continue beside a writer; writers of all processes take turns by SQLite's lock, taken at
//! the beginning (BEGIN IMMEDIATE), so that none fails half-way. `synchronous = FULL`: a transaction that returned is
//! on the disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::Clocks;
use super::beginnings;
use super::failure::{Attempt, Failure};
use super::forks;
use super::index_room;
use super::lock_timeout::{BUSY_TIMEOUT, LockTimeouts};
use super::mark::MarkUpdate;
use super::opened_files::OpenedFiles;
use super::schema;
use super::unlocked::{self, Stamp};
use super::writing::WriteTransaction;
use crate::{Error, Result};

/// How often a reader that may not make the log's index may meet a log that is just being removed, before that is an
/// error.
const MAX_LOGS_GONE: u32 = 100;
/// Connections kept for reading; more are opened when needed and closed again.
const KEPT_READERS: usize = 8;
/// More than there are different statements here.
const KEPT_STATEMENTS: usize = 128;

/// The log is moved into the file when it has this many pages of 4 KiB: a large commit should not pay for it.
const LOG_PAGES: u32 = 4096;
/// Length to which the log's file is cut after a large transaction (bytes).
const LOG_LIMIT_BYTES: i64 = 64 << 20;
/// Pages each connection remembers (KiB).
const WRITER_CACHE_KIB: i64 = 32 << 10;
const READER_CACHE_KIB: i64 = 8 << 10;

/// Only the writer moves the log into the file when it is closed, and is closed last: where file and log do not belong
/// together, or are not those that were opened, nothing is moved.
pub(super) struct Connections {
    path: PathBuf,
    readers: Mutex<Vec<Reader>>,
    /// None where the catalog was opened for reading and can only be read.
    writer: Option<Mutex<Connection>>,
    /// Of those that wait for the writers' lock.
    turn: LockTimeouts,
    /// Why file and log do not belong together: then nothing is written.
    mixture: Option<String>,
    /// The files as opened, where they can be written.
    opened_files: Option<OpenedFiles>,
}

struct Reader {
    connection: Connection,
    /// The stamp of a reader without locks: what it reads counts while the files match it.
    unlocked: Option<Stamp>,
}

impl Connections {
    pub fn open(path: &Path, create: bool) -> Result<Self> {
        let explain = |failure: Failure| failure.explain(path);
        if !create && !path.exists() {
            let why = "there is no such file".to_owned();
            return Err(Error::Io { path: path.display().to_string(), why });
        }
        check_ordinary(path)?;
        index_room::check(path)?;
        let writer = connect(path, create).map_err(explain)?;
        let lock = LockTimeouts::on(path);
        let mixture = lock.retry(|| beginnings::mixture(&writer, path)).map_err(explain)?;
        if mixture.is_some() {
            return Ok(Connections { mixture, ..Self::with_writer(path, None) });
        }
        lock.retry(|| schema::prepare(&writer, path, create)).map_err(explain)?;
        lock.retry(|| use_log(&writer, path)).map_err(explain)?;
        set_up(&writer, WRITER_CACHE_KIB).map_err(|error| explain(error.into()))?;
        move_log_at_end(&writer, true).map_err(|error| explain(error.into()))?;
        if create {
            keep_directory_entry(path)?;
        }
        let opened_files = lock.retry(|| present(&writer, path)).map_err(explain)?;
        Ok(Connections { opened_files: Some(opened_files), ..Self::with_writer(path, Some(writer)) })
    }

    /// As `open`; without a way to write, reading still works.
    pub fn open_for_reading(path: &Path) -> Result<Self> {
        match Self::open(path, false) {
            Err(Error::Full { .. } | Error::ReadOnly { .. } | Error::Io { .. }) if path.exists() => {
                let connections = Self::with_writer(path, None);
                connections.read_once(|sql| schema::prepare_for_reading(sql, path))?;
                let mixture = connections.read_once(|sql| beginnings::mixture(sql, path))?;
                Ok(Connections { mixture, ..connections })
            }
            opened => opened,
        }
    }

    fn with_writer(path: &Path, writer: Option<Connection>) -> Self {
        let (turn, readers) = (LockTimeouts::on(path), Mutex::default());
        Connections {
            path: path.to_owned(),
            readers,
            writer: writer.map(Mutex::new),
            turn,
            mixture: None,
            opened_files: None,
        }
    }

    pub fn mixture(&self) -> Option<&str> {
        self.mixture.as_deref()
    }

    /// Returns why the files are not those that were opened, if that was noticed: nothing may be relied on any more.
    pub fn displaced(&self) -> Option<String> {
        self.opened_files.as_ref()?.displaced().map(str::to_owned)
    }

    fn check_presence(&self, writer: &Connection) -> Attempt<()> {
        let Some(Err(why)) = self.opened_files.as_ref().map(OpenedFiles::check) else { return Ok(()) };
        // The log may be another catalog's by now.
        move_log_at_end(writer, false)?;
        Err(displaced(&self.path, why).into())
    }

    /// Runs one transaction that may write: all of `body` or nothing of it. Also returns how far the catalog has
    /// counted with it.
    pub fn write<T>(
        &self,
        clocks: &Clocks,
        body: impl FnOnce(&mut WriteTransaction) -> Attempt<T>,
    ) -> Result<(T, MarkUpdate)> {
        let Some(writer) = &self.writer else {
            let path = self.path.display().to_string();
            return Err(match self.mixture.clone() {
                Some(why) => Error::Io { path, why },
                None => Error::ReadOnly { path },
            });
        };
        let connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || Ok(Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?);
        let attempt = || {
            index_room::check(&self.path)?;
            let transaction = self.turn.retry(begin)?;
            self.check_presence(&connection)?;
            // The clocks are read when it is our turn: leases must not outlive the wait.
            let mut writing = WriteTransaction::new(&transaction, (clocks.date)(), (clocks.lease)())?;
            let value = body(&mut writing)?;
            let noted = writing.finish()?;
            transaction.commit()?;
            // A commit to files that no other process has any more is not a commit.
            self.check_presence(&connection)?;
            Ok((value, noted))
        };
        attempt().map_err(|failure: Failure| failure.explain(&self.path))
    }

    /// Moves the log into the file as far as readers let it, so that its room is used again.
    pub fn move_log(&self) {
        let Some(writer) = &self.writer else { return };
        let connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Pages that cannot be moved now stay in the log.
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }

    /// Runs one transaction that only reads: it sees the catalog as it was at one moment.
    pub fn read<T>(&self, body: impl Fn(&Connection) -> Attempt<T>) -> Result<T> {
        self.read_once(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
            let value = body(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// As `read`, for a body of one statement, which is a transaction by itself.
    pub fn read_once<T>(&self, body: impl Fn(&Connection) -> Attempt<T>) -> Result<T> {
        let mut logs_gone = 0;
        let attempt = || match self.try_read(&body) {
            // The last writer removed the log between two steps of ours; the next reader finds that out first.
            Err(failure) if self.writer.is_none() && failure.lacks_log() && logs_gone < MAX_LOGS_GONE => {
                logs_gone += 1;
                Err(Failure::ChangedMeanwhile)
            }
            tried => tried,
        };
        LockTimeouts::on(&self.path).retry(attempt).map_err(|failure| failure.explain(&self.path))
    }

    fn try_read<T>(&self, body: impl Fn(&Connection) -> Attempt<T>) -> Attempt<T> {
        let reader = self.take_reader()?;
        let outcome = body(&reader.connection);
        if reader.is_outdated(&self.path) {
            return Err(Failure::ChangedMeanwhile);
        }
        let value = outcome?;
        self.give_back(reader);
        Ok(value)
    }

    /// Returns a connection of its own that sees the catalog as it is at this moment, until it is dropped.
    pub fn view(&self) -> Result<Connection> {
        let attempt = || {
            let connection = self.new_reader()?.connection;
            // A transaction's view begins with its first read.
            connection.execute_batch("BEGIN; SELECT sequence FROM counters;")?;
            Ok(connection)
        };
        LockTimeouts::on(&self.path).retry(attempt).map_err(|failure| failure.explain(&self.path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn take_reader(&self) -> Attempt<Reader> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept.filter(|kept| !kept.is_outdated(&self.path)) {
            Some(kept) => Ok(kept),
            None => self.new_reader(),
        }
    }

    fn new_reader(&self) -> Attempt<Reader> {
        let reader = match self.connect_reader() {
            Err(failure) if self.writer.is_none() && !failure.is_busy() => {
                let (connection, stamp) = unlocked::connect(&self.path)?;
                Reader { connection, unlocked: Some(stamp) }
            }
            connected => Reader { connection: connected?, unlocked: None },
        };
        set_up(&reader.connection, READER_CACHE_KIB)?;
        reader.connection.pragma_update(None, "query_only", true)?;
        Ok(reader)
    }

    fn connect_reader(&self) -> Attempt<Connection> {
        if self.writer.is_none() {
            index_room::check(&self.path)?;
        }
        // Beside a writer of this process the index is there, and grows only for writers.
        let connection = connect(&self.path, false)?;
        if self.writer.is_none() {
            // The index of the log is opened by the first statement that reads.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        }
        Ok(connection)
    }

    fn give_back(&self, reader: Reader) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < KEPT_READERS {
            readers.push(reader);
        }
    }
}

impl Reader {
    fn is_outdated(&self, path: &Path) -> bool {
        self.unlocked.is_some_and(|stamp| Stamp::of(path).ok() != Some(stamp))
    }
}

fn connect(path: &Path, create: bool) -> Attempt<Connection> {
    forks::prepare();
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
    // Plans do not depend on the values bound, or a kept statement would be compiled again for each.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    move_log_at_end(&connection, false)?;
    Ok(connection)
}

/// Sets whether the connection moves the log into the file and removes it, if it is the last one of all when it is
/// closed.
fn move_log_at_end(connection: &Connection, moves: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !moves).map(drop)
}

/// Runs a first read, with which SQLite opens the log and its index; returns the files.
fn present(writer: &Connection, path: &Path) -> Attempt<OpenedFiles> {
    writer.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(OpenedFiles::of(path))
}

fn displaced(path: &Path, why: &str) -> Error {
    let why = format!(
        "{why}; nothing more is written, and nothing that was not confirmed by now counts; end what uses the store, \
         then `thalweg verify` says what is there, and what to do"
    );
    Error::Io { path: path.display().to_string(), why }
}

/// The files SQLite opens beside the catalog's file.
const COMPANIONS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Refuses links and pipes put here: SQLite would follow a link, or wait for a pipe's other end.
fn check_ordinary(path: &Path) -> Result<()> {
    for suffix in COMPANIONS {
        let file = format!("{}{suffix}", path.display());
        let Ok(found) = std::fs::symlink_metadata(&file) else { continue };
        if !found.is_file() {
            let why = "a link, or no regular file, stands where the catalog's files belong; remove it".to_owned();
            return Err(Error::Corrupt { path: file, why });
        }
        // The catalog itself has a second name for a moment of each rebuild.
        if found.nlink() > 1 && !suffix.is_empty() {
            let why = "the file has another name as well, and would be written, or given away, under that too; remove this \
                       name (`cp` and `mv` make a file of its own of it)";
            return Err(Error::Io { path: file, why: why.to_owned() });
        }
    }
    Ok(())
}

/// Turns the log on: readers and writers of several processes need it, and it needs a local file system.
fn use_log(connection: &Connection, path: &Path) -> Attempt<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    let why = "this file system cannot hold a log shared by processes; keep the catalog on a local disk".to_owned();
    Err(Error::Io { path: path.display().to_string(), why }.into())
}

fn set_up(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT_BYTES, |_| Ok(()))
}

/// Syncs the directory of a new file, without which it does not survive power loss.
fn keep_directory_entry(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::Io { path: directory.display().to_string(), why: error.to_string() })
}

//! Reading a catalog without SQLite's locks, where they cannot be had.
//!
//! The log of a catalog needs an index (`-shm`) that all its readers and writers share. A reader that may not make it
//! (read-only directory or medium, full disk) reads file and log without it. The data read counts only if both files
//! are unchanged afterwards: otherwise a writer came, and the reader starts again.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::{Attempt, Failure};
use super::forks;
use crate::Error;

/// Two changes closer than this may have the same time: the kernel's clock for files ticks every 1 to 10 ms.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// The metadata of file and log; while it stays the same, so does their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: FileStamp,
    log: Option<FileStamp>,
}

/// Without the time of attribute changes: SQLite gives the log its owner again whenever root opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileStamp {
    fn of(found: &Metadata) -> Self {
        FileStamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

impl Stamp {
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let file = FileStamp::of(&std::fs::metadata(path)?);
        match std::fs::metadata(log_of(path)) {
            Ok(found) => Ok(Stamp { file, log: Some(FileStamp::of(&found)).filter(|log| log.bytes > 0) }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Stamp { file, log: None }),
            Err(error) => Err(error),
        }
    }

    /// Returns a stamp that any later change alters.
    fn stable(path: &Path) -> std::io::Result<Self> {
        let log = std::fs::metadata(log_of(path)).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let newest = std::fs::metadata(path)?.modified()?.max(log);
        let age = SystemTime::now().duration_since(newest).unwrap_or_default();
        std::thread::sleep(CLOCK_TICK.saturating_sub(age));
        Stamp::of(path)
    }
}

pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = OsString::from(path);
    log.push("-wal");
    PathBuf::from(log)
}

/// Opens the catalog without locks, to read the state that the stamp stands for.
pub(super) fn connect(path: &Path) -> Attempt<(Connection, Stamp)> {
    forks::prepare();
    let io =
        |error: std::io::Error| Failure::from(Error::Io { path: path.display().to_string(), why: error.to_string() });
    let stamp = Stamp::stable(path).map_err(io)?;
    // The index of a log is kept in this process's memory when the file is locked for good, which here locks nothing.
    let parameters = if stamp.log.is_some() { "mode=ro&vfs=unix-none" } else { "mode=ro&immutable=1" };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(address(&path.canonicalize().map_err(io)?, parameters), flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
    Ok((connection, stamp))
}

pub(super) fn address(path: &Path, parameters: &str) -> String {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => address.push(*byte as char),
            other => drop(write!(address, "%{other:02x}")),
        }
    }
    format!("{address}?{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, Purpose, SqliteCatalog};

    fn sessions(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_catalog_is_read_without_locks_with_and_without_its_log() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a catalog? 50% of #1");
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        catalog.begin(Purpose::Read, 1000).unwrap();
        let (connection, stamp) = connect(&path).unwrap();
        assert!(stamp.log.is_some());
        assert_eq!(sessions(&connection), 1, "it is in the log only");
        drop(connection);
        drop(catalog);
        let (connection, stamp) = connect(&path).unwrap();
        assert_eq!((sessions(&connection), stamp.log), (1, None));
        assert_eq!(Stamp::of(&path).unwrap(), stamp, "reading changes nothing");
    }

    #[test]
    fn any_commit_outdates_what_was_read_without_locks() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("catalog");
        SqliteCatalog::open(&path, true).unwrap();
        for _ in 0..20 {
            let (_connection, stamp) = connect(&path).unwrap();
            // Its log was made and removed again.
            SqliteCatalog::open(&path, false).unwrap().begin(Purpose::Read, 1000).unwrap();
            assert_ne!(Stamp::of(&path).unwrap(), stamp);
        }
        let catalog = SqliteCatalog::open(&path, false).unwrap();
        catalog.begin(Purpose::Read, 1000).unwrap();
        for _ in 0..20 {
            let (_connection, stamp) = connect(&path).unwrap();
            catalog.begin(Purpose::Read, 1000).unwrap();
            assert_ne!(Stamp::of(&path).unwrap(), stamp);
        }
    }
}

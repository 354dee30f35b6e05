//! Whether the catalog's files are still those that were opened. A copy put in their place while a process uses them
//! would hide that process's commits from all others, or mix with them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::beginnings::last_in_file;

/// File, log and the log's index.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];
/// A checkpoint may be writing the pages being read.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct OpenedFiles {
    files: [PathBuf; 3],
    /// Device and inode of each file.
    opened: [Option<(u64, u64)>; 3],
    seen: Mutex<Seen>,
    /// Why they are not those that were opened, once that was noticed.
    displaced: OnceLock<String>,
}

/// The catalog's file when it was last checked.
#[derive(Default)]
struct Seen {
    /// Length and time of its last change: while they stay, so does its content.
    stamp: (u64, i64, i64),
    last_transaction: u64,
}

impl OpenedFiles {
    /// Notes the files; called when SQLite has opened all three.
    pub fn of(path: &Path) -> Self {
        let files = SUFFIXES.map(|suffix| PathBuf::from(format!("{}{suffix}", path.display())));
        let opened = files.each_ref().map(|file| identity(file));
        let stamp = stamp(&files[0]).unwrap_or_default();
        let last_transaction = last_in_file(path).unwrap_or(0);
        let seen = Mutex::new(Seen { stamp, last_transaction });
        OpenedFiles { files, opened, seen, displaced: OnceLock::new() }
    }

    pub fn displaced(&self) -> Option<&str> {
        self.displaced.get().map(String::as_str)
    }

    /// Checks whether the files are still those that were opened; a few system calls.
    pub fn check(&self) -> Result<(), &str> {
        match self.displaced().is_none().then(|| self.find_displaced()).flatten() {
            Some(why) => Err(self.displaced.get_or_init(|| why)),
            None => self.displaced().map_or(Ok(()), Err),
        }
    }

    fn find_displaced(&self) -> Option<String> {
        for (file, opened) in self.files.iter().zip(&self.opened) {
            if opened.is_some() && identity(file) != *opened {
                return Some(format!("{} was replaced or removed while the store was in use", file.display()));
            }
        }
        let stamp = stamp(&self.files[0])?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.stamp == stamp {
            return None;
        }
        let last = self.last_in_file(seen.last_transaction);
        if last < seen.last_transaction {
            return Some(format!(
                "an older copy was written over {} while the store was in use",
                self.files[0].display()
            ));
        }
        *seen = Seen { stamp, last_transaction: last };
        None
    }

    /// Returns the last transaction in the file. It never goes back, but for a page that is being written; an
    /// unreadable file gives `known`.
    fn last_in_file(&self, known: u64) -> u64 {
        let look = || last_in_file(&self.files[0]).unwrap_or(known);
        let last = look();
        if last >= known {
            return last;
        }
        std::thread::sleep(PAUSE);
        look()
    }
}

fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

fn stamp(file: &Path) -> Option<(u64, i64, i64)> {
    let of = |found: Metadata| (found.size(), found.mtime(), found.mtime_nsec());
    std::fs::metadata(file).ok().map(of)
}

//! Keeps a catalog in its place while it is used: every process that has the store open shares a lock on a file beside
//! the catalog, and a rebuild, which puts another catalog there, takes it alone.
//!
//! The lock is never waited for. A process that cannot have the file, on a store it may only read, on a full disk or on
//! a file system without locks, does without: the lock guards against a mistake, and is no reason to refuse a read.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use format::Settings;
use rustix::fs::{major, minor};
use store::files::{Permissions, open_ordinary};

use crate::engines::{Access, state_folder};
use crate::{Error, Result};

const FILE: &str = "catalog.lock";

/// Held until it is dropped or released.
pub(crate) struct CatalogLock(File);

impl CatalogLock {
    /// Shares the lock with all that use the store. An error while its catalog is being rebuilt.
    pub fn share(path: &Path, settings: &Settings, access: Access) -> Result<Option<Self>> {
        let file = lock_file(path, settings);
        let may_make = matches!(access, Access::Write | Access::Remove);
        let opened = open_ordinary(&file, OpenOptions::new().read(true)).or_else(|source| match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied if may_make => make(path, settings),
            _ => Err(source),
        });
        let opened = match opened {
            Ok(opened) => opened,
            // A link or a pipe in the file's place.
            Err(source) if source.kind() == std::io::ErrorKind::InvalidInput => {
                return Err(Error::io(file.display(), source));
            }
            Err(_) => return Ok(None),
        };
        match opened.try_lock_shared() {
            Ok(()) => Ok(Some(CatalogLock(opened))),
            Err(TryLockError::Error(_)) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let why = format!("its catalog is being rebuilt{}; try again when that has ended", by(&opened));
                Err(Error::Refused { path: path.display().to_string(), why })
            }
        }
    }

    /// Takes the lock alone. An error while another process has the store open.
    pub fn take_alone(path: &Path, settings: &Settings) -> Result<Option<Self>> {
        let file = lock_file(path, settings);
        let opened = make(path, settings).map_err(|source| Error::io(file.display(), source))?;
        match opened.try_lock() {
            Ok(()) => Ok(Some(CatalogLock(opened))),
            Err(TryLockError::Error(_)) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "the store is in use{}, so its catalog was not rebuilt; stop what uses the store and try again",
                    by(&opened)
                );
                Err(Error::Refused { path: path.display().to_string(), why })
            }
        }
    }

    pub fn release(&self) {
        // If this fails, the lock ends with the file.
        let _ = self.0.unlock();
    }
}

fn lock_file(path: &Path, settings: &Settings) -> PathBuf {
    state_folder(path, settings).join(FILE)
}

fn make(path: &Path, settings: &Settings) -> std::io::Result<File> {
    let options = &mut OpenOptions::new();
    Permissions::of(path, settings)
        .create_file(&lock_file(path, settings), options.read(true).write(true).create(true).truncate(false))
}

/// ` by process 71 (thalweg node /scratch/st)`, for all that the kernel names; empty where it names none.
fn by(file: &File) -> String {
    let owners: Vec<String> = owners(file).into_iter().map(described).collect();
    if owners.is_empty() { String::new() } else { format!(" by {}", owners.join(", ")) }
}

/// Returns the processes that took locks on the file, as far as they are visible from here.
fn owners(file: &File) -> Vec<u32> {
    let (Ok(found), Ok(locks)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else { return Vec::new() };
    let which = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
    let owner = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&which.as_str());
        words.get(4).filter(|_| is_ours)?.parse().ok()
    };
    let mut owners: Vec<u32> = locks.lines().filter_map(owner).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn described(process: u32) -> String {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => format!("process {process}"),
        false => format!("process {process} ({})", String::from_utf8_lossy(&words.join(&b' '))),
    }
}

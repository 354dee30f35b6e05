//! Keeps a catalog in its place while it is used: every process that has the store open shares a lock on a file beside
//! the catalog, and a rebuild, which puts another catalog there, takes it alone.
//!
//! The lock is never waited for. A process that cannot have the file, on a store it may only read, on a full disk or on
//! a file system without locks, does without: the lock guards against a mistake, and is no reason to refuse a read.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use format::{ErrorCode, Settings};
use store::files::{OpenMode, Permissions, by_holders, is_held_elsewhere, open_ordinary};

use crate::engines::{Access, state_folder};
use crate::{Error, Result};

const FILE: &str = "catalog.lock";

/// Held until it is dropped or released.
pub(crate) struct CatalogLock(File);

impl CatalogLock {
    /// Shares the lock with all that use the store. An error while its catalog is being rebuilt.
    pub fn share(path: &Path, settings: &Settings, access: Access) -> Result<Option<Self>> {
        let file = lock_file(path, settings);
        // A writer closes the file to others: every reader of it may lock it.
        let made = matches!(access, Access::Write | Access::Remove).then(|| make(path, settings));
        let opened = match made {
            Some(Err(source)) if source.kind() != ErrorKind::InvalidInput => None,
            made => made,
        };
        let opened = opened.unwrap_or_else(|| open_ordinary(&file, OpenOptions::new().read(true)));
        let opened = match opened {
            Ok(opened) => opened,
            // A link or a pipe in the file's place.
            Err(source) if source.kind() == ErrorKind::InvalidInput => {
                return Err(Error::io(file.display(), source));
            }
            Err(_) => return Ok(None),
        };
        match opened.try_lock_shared() {
            Ok(()) => Ok(Some(CatalogLock(opened))),
            Err(TryLockError::Error(_)) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "its catalog is locked{}, as while it is rebuilt; try again when that has ended",
                    by_holders(&opened)
                );
                Err(Error::Refused { code: ErrorCode::StoreInUse, path: path.display().to_string(), why })
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
                    by_holders(&opened)
                );
                Err(Error::Refused { code: ErrorCode::StoreInUse, path: path.display().to_string(), why })
            }
        }
    }

    /// Whether another process has the store open, as far as that can be seen from here.
    pub fn is_shared(&self) -> bool {
        is_held_elsewhere(&self.0)
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
    Permissions::of(path, settings).create_file(&lock_file(path, settings), OpenMode::Kept)
}

//! The few operations the store needs of a file system, as a trait, so that tests can pull the plug.
//!
//! Names are relative, with `/` between folders; folders appear when a file is created in them. Data is
//! durable after [`File::sync`], a new name after [`Files::sync_folder`]. Every error names the full path.

mod directory;
pub mod fault;
mod held_directory;
mod holders;
mod memory;
mod open_directory;
mod ordinary;
mod permissions;
mod write_back;

use std::any::Any;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use directory::Directory;
pub use holders::{by_holders, is_held_elsewhere};
pub use memory::Memory;
pub use ordinary::{check_sole, open_ordinary, open_sole};
pub use permissions::{OpenMode, Permissions};

use crate::Result;

/// An open file; it stays readable when its name is removed.
pub trait File: Send + Sync {
    /// Returns the path, for messages.
    fn path(&self) -> &str;

    /// Fills `to` exactly; a file that ends before is `Corrupt`.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()>;

    /// Fills the pieces from one contiguous range.
    fn read_pieces_at(&self, mut offset: u64, pieces: &mut [IoSliceMut]) -> Result<()> {
        for piece in pieces {
            self.read_at(offset, piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes the pieces behind each other, in one call of the system where it takes them at once.
    fn write_at(&self, offset: u64, pieces: &[&[u8]]) -> Result<()>;

    fn length(&self) -> Result<u64>;

    /// Makes the file's bytes survive power loss.
    fn sync(&self) -> Result<()>;

    /// Syncs as [`File::sync`] does, with no more in this range than was written since the last time, and calls
    /// `written` with the length of each part of it that the disk has taken, where that can be seen.
    fn sync_watched(&self, _unsynced: Range<u64>, _written: &dyn Fn(u64)) -> Result<()> {
        self.sync()
    }

    /// Returns device and inode, where files have such.
    fn identity(&self) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Reads `bytes` bytes from `offset`; check the length against [`File::length`] before.
    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }
}

/// A lock held against all threads and processes that use the same files; dropping it frees it.
pub type Held = Box<dyn Any + Send>;

/// A tree of files.
pub trait Files: Send + Sync {
    /// Creates a new, empty file; an existing one is an `Io` error.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens a file; `NotFound` when there is none.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    fn exists(&self, name: &str) -> Result<bool>;

    /// Returns the names of all files in and below a folder, sorted; none when there is no such folder.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes the name; no error when there is none.
    fn remove(&self, name: &str) -> Result<()>;

    /// Replaces a small file durably: after a crash the name has the old or the new content. Two callers must not do so
    /// at once: hold a lock.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Makes the file's name survive power loss, and those of the folders above it.
    fn sync_folder(&self, name: &str) -> Result<()>;

    /// Holds a folder, if it is there and none is held yet, for [`Files::displaced`].
    fn hold_folder(&self, _folder: &str) {}

    /// Returns why what is open is not where its name leads any more, if so: the held folder, or this file.
    fn displaced(&self, _open: Option<(&str, &dyn File)>) -> Result<Option<String>> {
        Ok(None)
    }

    /// Waits until the lock is free; an error that names who holds it when that lasts longer than `timeout`.
    fn lock(&self, name: &str, timeout: Duration) -> Result<Held>;

    /// Takes the lock; `None` when another holder has it.
    fn try_lock(&self, name: &str) -> Result<Option<Held>>;
}

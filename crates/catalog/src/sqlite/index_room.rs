//! Room on the disk for the index of the log.
//!
//! SQLite makes room for the index (`-shm`) by writing the last byte of each of its 4 KiB pages, and then writes the rest
//! through memory. A file system with smaller blocks (as ext4 below 512 MB) has no room for the rest yet: on a full disk
//! the kernel ends the process (SIGBUS) at the first such byte. So room is looked for before the index may grow. (The
//! index itself cannot be given it: a process that closes a file of its own of it loses all the locks that SQLite holds
//! there.)

use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, statvfs};
use rustix::io::Errno;

use crate::{Error, Result};

/// SQLite's unit of the index.
const PAGE_BYTES: u64 = 4096;
/// Room that the log of a transaction, which is written first, and the index may take (bytes).
const MIN_FREE_BYTES: u64 = 256 << 10;

/// Fails with [`Error::Full`] where the index could end the process.
pub(super) fn check(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let has_small_blocks = statvfs(directory).is_ok_and(|disk| disk.f_frsize < PAGE_BYTES);
    match has_small_blocks.then(|| allocate(directory)) {
        Some(Err(Errno::NOSPC | Errno::DQUOT)) => Err(Error::Full { path: path.display().to_string() }),
        _ => Ok(()),
    }
}

/// Allocates room for a moment in a file without a name: free space on the disk may not be free for this user.
fn allocate(directory: &Path) -> rustix::io::Result<()> {
    let file = open(directory, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    fallocate(file, FallocateFlags::empty(), 0, MIN_FREE_BYTES)
}

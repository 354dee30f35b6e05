//! Directories for commands, removed with all they hold.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, Result};

/// Those that are there.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that only this user may enter.
pub struct Scratch {
    path: PathBuf,
    /// Locked, so that others see that the process which uses it is alive.
    _lock: Option<fs::File>,
}

/// How the names begin of those in use, and of those that are left for somebody to look into.
const PREFIX: &str = "thalweg-recipe-";
const KEPT_PREFIX: &str = "thalweg-failed-";
/// A younger one may not be locked yet.
const LEAST_AGE: Duration = Duration::from_secs(60);

impl Scratch {
    /// Makes one below a directory; without one, below `$TMPDIR` or /tmp.
    pub fn new(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let below = fs::canonicalize(&below).map_err(|error| Error::io(&below, error))?;
        remove_abandoned(&below);
        let path = below.join(format!("{PREFIX}{:016x}", random(&below)?));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::io(&path, error))?;
        made().push(path.clone());
        // Without locks (some network file systems) none is ever taken for abandoned.
        let lock = lock(&path).ok();
        Ok(Scratch { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it, under another name.
    pub fn keep(self) -> Result<PathBuf> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().replace(PREFIX, KEPT_PREFIX);
        let kept = self.path.with_file_name(name);
        fs::rename(&self.path, &kept).map_err(|error| Error::io(&kept, error))?;
        Ok(kept)
    }

    /// Makes a directory in it.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|error| Error::io(&path, error))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
        made().retain(|path| *path != self.path);
    }
}

/// Removes the directories of all commands: for a process that ends at once, with no time to wait for what uses them.
pub fn remove_all() {
    made().drain(..).for_each(|path| remove(&path));
}

fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a directory with all it holds; commands may have left directories that nobody may enter.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
}

/// Removes those of this user whose processes were killed.
fn remove_abandoned(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let is_meant = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_meant && is_old_and_own(&entry) && lock(&entry.path()).is_ok() {
            remove(&entry.path());
        }
    }
}

fn is_old_and_own(entry: &fs::DirEntry) -> bool {
    entry.metadata().is_ok_and(|found| {
        let age = found.modified().ok().and_then(|modified| modified.elapsed().ok());
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        found.is_dir() && is_own && age.is_some_and(|age| age >= LEAST_AGE)
    })
}

/// Fails where another has it.
fn lock(path: &Path) -> std::io::Result<fs::File> {
    let directory = fs::File::open(path)?;
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

fn open_up(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

fn random(below: &Path) -> Result<u64> {
    let mut bytes = [0; 8];
    let read = fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Error::io(below, error))?;
    Ok(u64::from_le_bytes(bytes))
}

//! Directories for commands, removed with all they hold.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, Result};

/// The directories of this process.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that only this user may enter.
pub struct Scratch {
    path: PathBuf,
    /// A file in it, locked: other processes of this machine see that this one is alive.
    _lock: fs::File,
}

/// Begins the name of a directory in use.
const PREFIX: &str = "thalweg-recipe-";
/// Begins the name of a directory that is left for its user to look into.
const KEPT_PREFIX: &str = "thalweg-failed-";
const LOCK: &str = "lock";
/// A younger directory may not be locked yet.
const MIN_AGE: Duration = Duration::from_secs(60);

impl Scratch {
    /// Makes one below a directory; without one, below `$TMPDIR` or /tmp.
    pub fn new(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let below = fs::canonicalize(&below).map_err(|error| Error::io(&below, error))?;
        let prefix = format!("{PREFIX}{}", boot()?);
        remove_abandoned(&below, &prefix);
        let path = below.join(format!("{prefix}{:016x}", random(&below)?));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::io(&path, error))?;
        made().push(path.clone());
        let failed = |error| Error::io(&path, error);
        let lock = fs::File::create_new(path.join(LOCK)).map_err(failed)?;
        // Without locks (some network file systems) it is taken for abandoned by nobody: the test for it fails, too.
        let _ = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
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

/// Removes the directories of all commands: for a process that ends at once.
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

/// Names this machine since it was started: 16 digits. Directories of other machines on a shared file system have another one.
fn boot() -> Result<String> {
    let source = Path::new("/proc/sys/kernel/random/boot_id");
    let read = fs::read(source).map_err(|error| Error::io(source, error))?;
    Ok(blake3::hash(&read).to_hex()[..16].to_owned())
}

/// Removes the directories of this user and machine whose processes were killed.
fn remove_abandoned(below: &Path, prefix: &str) {
    let is_random = |rest: &str| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let has_our_name = name.to_str().and_then(|name| name.strip_prefix(prefix)).is_some_and(is_random);
        if has_our_name && is_old_and_own(&entry) && is_unlocked(&entry.path().join(LOCK)) {
            remove(&entry.path());
        }
    }
}

fn is_old_and_own(entry: &fs::DirEntry) -> bool {
    entry.metadata().is_ok_and(|found| {
        let age = found.modified().ok().and_then(|modified| modified.elapsed().ok());
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        found.is_dir() && is_own && age.is_some_and(|age| age >= MIN_AGE)
    })
}

/// Whether there is such a lock file, and no process has it locked.
fn is_unlocked(path: &Path) -> bool {
    let opened = fs::File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    opened.is_ok_and(|lock| rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok())
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

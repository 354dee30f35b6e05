//! Directories for commands, removed with all they hold.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A directory that only this user may enter.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one below a directory; without one, below `$TMPDIR` or /tmp.
    pub fn new(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let below = fs::canonicalize(&below).map_err(|error| Error::io(&below, error))?;
        let path = below.join(format!("thalweg-recipe-{:016x}", random(&below)?));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::io(&path, error))?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
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
    }
}

/// Removes a directory with all it holds; commands may have left directories that nobody may enter.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
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

//! A file of a user's data: a local one, or one that a store holds.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use format::{ErrorCode, VersionRecord};
use repository::Repository;

use crate::error_code::Coded;
use crate::location::Location;
use crate::shown;

#[derive(Clone)]
pub enum DataFile {
    Local(PathBuf),
    Stored(Arc<StoredFile>),
}

/// The newest version of a file when it was found.
pub struct StoredFile {
    pub repository: Arc<Repository>,
    pub location: Location,
    pub version: VersionRecord,
}

impl DataFile {
    /// Returns the path of a local file.
    pub fn local_path(&self) -> Option<&Path> {
        match self {
            DataFile::Local(path) => Some(path),
            DataFile::Stored(_) => None,
        }
    }

    /// Reads so many bytes from `offset` on, and of a store only the blocks that hold them.
    pub fn read(&self, offset: u64, bytes: usize) -> anyhow::Result<Vec<u8>> {
        let mut raw = vec![0; bytes];
        match self {
            DataFile::Local(path) => read_local(path, offset, &mut raw)?,
            DataFile::Stored(file) => {
                let reader = file.repository.version_reader(&file.version);
                reader.read_at(offset, &mut raw).with_context(|| self.to_string())?;
            }
        }
        Ok(raw)
    }
}

fn read_local(path: &Path, offset: u64, raw: &mut [u8]) -> anyhow::Result<()> {
    let read = File::open(path).and_then(|file| file.read_exact_at(raw, offset));
    let path = shown::local(path);
    read.map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            Coded::new(ErrorCode::ChangedWhileRead, format!("{path}: became shorter while it was read")).into()
        }
        kind => Coded::new(ErrorCode::of_io(kind), format!("{path}: {error}")).into(),
    })
}

impl From<PathBuf> for DataFile {
    fn from(path: PathBuf) -> Self {
        DataFile::Local(path)
    }
}

impl PartialEq for DataFile {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (DataFile::Local(one), DataFile::Local(other)) => one == other,
            (DataFile::Stored(one), DataFile::Stored(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Display for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataFile::Local(path) => f.write_str(&shown::local(path)),
            DataFile::Stored(file) => file.location.fmt(f),
        }
    }
}

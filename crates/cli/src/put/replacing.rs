//! The store's losses when a name becomes something else. A file's versions go with its last name, so a put leaves a
//! name alone if its replacement would drop versions, unless the user asked for that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::{FileEntry, Names};
use format::{FileId, FileKind, StorePath};
use repository::{Result, list};

use crate::shown;

pub struct Replacing<'a> {
    catalog: &'a dyn Names,
    /// `--replace`: versions may be dropped.
    is_allowed: bool,
    /// How many names files with several still have, as this run takes them away.
    names_left: Mutex<HashMap<FileId, u64>>,
}

/// How a name becomes what its source is.
pub enum Replacement {
    /// The name's present entry goes first; with what is dropped then, if that is anything with versions.
    Remove { dropped: Option<String> },
    /// It is the last name of its file, which gets a new version instead.
    Append,
    /// The name stays as it is: this would be dropped.
    Refused { what: String },
}

impl<'a> Replacing<'a> {
    pub fn new(catalog: &'a dyn Names, is_allowed: bool) -> Self {
        Replacing { catalog, is_allowed, names_left: Mutex::default() }
    }

    /// Decides for a name that is `known` in the store and is of kind `kind` here, or becomes a name of another file.
    pub fn judge(&self, path: &StorePath, known: &FileEntry, kind: Option<FileKind>) -> Result<Replacement> {
        let what = match known.attributes.kind {
            FileKind::Symlink => None,
            FileKind::Directory => self.content_of(path)?,
            FileKind::Regular if !self.take_last_name(known) => None,
            FileKind::Regular if kind == Some(FileKind::Regular) => return Ok(Replacement::Append),
            FileKind::Regular => Some(versions_of(self.catalog, path)?),
        };
        Ok(match what {
            Some(what) if !self.is_allowed => Replacement::Refused { what },
            dropped => Replacement::Remove { dropped },
        })
    }

    /// Whether the file has no other name in the store, those left out that this run has taken away.
    fn take_last_name(&self, known: &FileEntry) -> bool {
        let mut names_left = self.names_left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = names_left.entry(known.file).or_insert(known.links);
        match *left {
            0 | 1 => true,
            _ => {
                *left -= 1;
                false
            }
        }
    }

    fn content_of(&self, directory: &StorePath) -> Result<Option<String>> {
        let mut files = 0;
        list(self.catalog, directory, true, |listed| {
            files += listed.iter().filter(|(_, entry)| entry.head.is_some()).count() as u64;
            Ok::<_, catalog::Error>(())
        })?;
        let all = if files == 1 { "its" } else { "their" };
        Ok((files > 0).then(|| format!("a directory with {} and all {all} versions", shown::count(files, "file"))))
    }
}

/// Returns why a name is left as it is.
pub fn refused(what: &str) -> String {
    format!(
        "not stored: in the store it is {what}, which would be dropped; --replace drops them, and `thalweg mv` keeps them \
         under another name"
    )
}

/// `a file with 3 versions`.
pub fn versions_of(catalog: &dyn Names, path: &StorePath) -> Result<String> {
    let versions = catalog.versions(path)?.len() as u64;
    Ok(format!("a file with {}", shown::count(versions, "version")))
}

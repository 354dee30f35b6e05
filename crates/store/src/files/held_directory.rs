//! A directory of the store held open, to notice that its name leads elsewhere. While it is open no other directory gets its
//! inode number.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::open_directory::{Link, OpenDirectory};

pub(super) struct HeldDirectory {
    name: String,
    opened: OpenDirectory,
}

impl HeldDirectory {
    pub fn open(root: &OpenDirectory, name: &str, links: Link) -> io::Result<Self> {
        Ok(HeldDirectory { name: name.to_owned(), opened: root.walk(Path::new(name), links)? })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether its name still leads to it.
    pub fn is_in(&self, root: &OpenDirectory, links: Link) -> io::Result<bool> {
        let found = root.walk(Path::new(&self.name), links)?;
        Ok(identity(&found.metadata()?) == identity(&self.opened.metadata()?))
    }
}

/// Returns device and inode.
pub(super) fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

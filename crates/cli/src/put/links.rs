//! Hard links: the first name of a file that has several is put, the others become its links.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use format::{FileId, StorePath};
use rustix::fs::Stat;

/// Names seen first, by device and inode.
#[derive(Default)]
pub struct Links {
    first: Mutex<HashMap<(u64, u64), First>>,
}

#[derive(Clone)]
pub struct First {
    pub path: StorePath,
    /// The store's file it is and stays, if it is there already.
    pub file: Option<FileId>,
}

impl Links {
    /// Makes other names that are seen from now on links of this one.
    pub fn keep(&self, stat: &Stat, path: &StorePath, file: Option<FileId>) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.insert((stat.st_dev, stat.st_ino), First { path: path.clone(), file });
    }

    /// Returns the name under which this file was seen first; none if that is now, or it has only one name.
    pub fn seen_before(&self, stat: &Stat, path: &StorePath, file: Option<FileId>) -> Option<First> {
        if stat.st_nlink < 2 {
            return None;
        }
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first.entry((stat.st_dev, stat.st_ino)) {
            std::collections::hash_map::Entry::Occupied(known) => Some(known.get().clone()),
            std::collections::hash_map::Entry::Vacant(empty) => {
                empty.insert(First { path: path.clone(), file });
                None
            }
        }
    }
}

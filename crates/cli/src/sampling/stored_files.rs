//! The files at places in stores. What is still being written has no entry in a store, and is not found.

use std::sync::Arc;

use catalog::FileEntry;
use format::{FileKind, StorePath};
use laboratory::Blocks;
use repository::{Access, Repository};

use super::data_file::{DataFile, StoredFile};
use crate::commands::{list, sessions_of};
use crate::error_code::fail;
use crate::location::{Location, StoreAddress};
use crate::opening::open_store;

/// Stores that are read, each opened once.
#[derive(Default)]
pub struct Stores {
    opened: Vec<(StoreAddress, Arc<Repository>)>,
}

impl Stores {
    /// Adds the regular files below a place, or the one there.
    pub fn find(&mut self, location: &Location, found: &mut Blocks<DataFile>) -> anyhow::Result<()> {
        let repository = self.open(&location.store)?;
        let mut add = |path: &StorePath, entry: FileEntry| {
            let Some(head) = entry.head else { return };
            let location = Location { store: location.store.clone(), path: path.clone(), into: false };
            let bytes = head.record.size;
            let file = StoredFile { repository: repository.clone(), location, version: head.record };
            found.add_file(DataFile::Stored(Arc::new(file)), bytes);
        };
        let entry = entry(&repository, location)?;
        if entry.attributes.kind != FileKind::Directory {
            add(&location.path, entry);
            return Ok(());
        }
        list(repository.catalog(), &location.path, true, |listed| {
            listed.into_iter().for_each(|(path, entry)| add(&path, entry));
            Ok(())
        })
    }

    /// Returns the end of an error about finding nothing.
    pub fn advice(&self) -> &'static str {
        if self.opened.is_empty() { "" } else { " (of a store, files count once they are committed)" }
    }

    fn open(&mut self, address: &StoreAddress) -> anyhow::Result<Arc<Repository>> {
        if let Some((_, repository)) = self.opened.iter().find(|(opened, _)| opened == address) {
            return Ok(repository.clone());
        }
        let repository = open_store(address, Access::Read)?;
        self.opened.push((address.clone(), repository.clone()));
        Ok(repository)
    }
}

fn entry(repository: &Repository, location: &Location) -> anyhow::Result<FileEntry> {
    let catalog = repository.catalog();
    match catalog.entry(&location.path)? {
        Some(entry) => Ok(entry),
        None if sessions_of(catalog, &location.path)?.is_empty() => {
            fail!(NoSuchPath: "{location}: no such file or directory in the store")
        }
        None => fail!(NothingCommitted: "{location}: is still being written; it can be read once it is committed"),
    }
}

//! A store's containers, read without its catalog: while that is made again, or is not trusted yet.

use std::path::Path;
use std::sync::Arc;

use format::{ContainerId, Settings};
use store::{LocalStore, Options, Registrar, SealedContainer};

use crate::Result;
use crate::engines::directories;

/// Opens a store without writers and without a catalog, to read its files.
pub(crate) fn offline_store(path: &Path, settings: &Settings) -> Result<LocalStore> {
    let (files, state) = directories(path, settings)?;
    Ok(LocalStore::open(
        files,
        state,
        settings,
        Arc::new(NoCatalog),
        Options { background: false, ..Options::default() },
    )?)
}

/// Stands in while there is no catalog: everything readable counts, nothing can be written.
struct NoCatalog;

impl Registrar for NoCatalog {
    fn open(&self) -> store::Result<ContainerId> {
        Err(store::Error::Unavailable { peer: "the catalog".into(), why: "it is not in use here".into() })
    }

    fn sealed(&self, _: ContainerId, _: SealedContainer) -> store::Result<()> {
        Ok(())
    }

    fn truncated(&self, _: ContainerId) -> store::Result<()> {
        Ok(())
    }

    fn referable(&self, container: ContainerId) -> store::Result<Option<ContainerId>> {
        Ok(Some(container))
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn locate(&self, _: ContainerId) -> store::Result<Vec<ContainerId>> {
        Ok(Vec::new())
    }
}

//! From an address to an open store, near or far.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use catalog::{Catalog, Purpose};
use repository::{Access, Lease, Repository};
use transfer::{Remote, RemoteCatalog, RemoteStore};

use crate::place::StoreAddress;
use crate::random::random_bytes;

/// Opens the store; its session ends with [`Repository::close`].
pub fn open_store(store: &StoreAddress, access: Access) -> anyhow::Result<Arc<Repository>> {
    match store {
        StoreAddress::Directory(path) => Ok(Arc::new(repository::open(path, access)?)),
        StoreAddress::Node(address) => open_remote(connect(address)?, access),
    }
}

/// A node, for what only nodes answer.
pub fn connect(address: &str) -> anyhow::Result<Remote> {
    Ok(Remote::connect(address, u64::from_ne_bytes(random_bytes()?), "")?)
}

fn open_remote(remote: Remote, access: Access) -> anyhow::Result<Arc<Repository>> {
    let settings = remote.welcome().clone();
    let catalog: Arc<dyn Catalog> = Arc::new(RemoteCatalog::new(remote.clone()));
    let purpose = if access == Access::Read { Purpose::Read } else { Purpose::Write };
    let lease = Lease::begin(catalog.clone(), purpose)?;
    Ok(Arc::new(Repository::new(settings, Arc::new(RemoteStore::new(remote)), catalog, None, lease)))
}

/// The directory of a store that must be on this machine.
pub fn directory<'a>(store: &'a StoreAddress, verb: &str) -> anyhow::Result<&'a Path> {
    match store {
        StoreAddress::Directory(path) => Ok(path),
        StoreAddress::Node(_) => {
            bail!("{store}: `thalweg {verb}` runs on the node's own machine, on the store's directory")
        }
    }
}

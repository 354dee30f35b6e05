//! From an address to an open store, near or far.

use std::sync::Arc;

use catalog::{Catalog, Purpose};
use repository::{Access, Lease, Repository};
use transfer::{Remote, RemoteCatalog, RemoteStore};

use crate::{Result, StoreAddress, random_bytes};

/// Opens the store; its session ends with [`Repository::close`].
pub fn open_store(store: &StoreAddress, access: Access) -> Result<Arc<Repository>> {
    match store {
        StoreAddress::Directory(path) => Ok(Arc::new(repository::open(path, access)?)),
        StoreAddress::Node(address) => open_remote(connect(address)?, access),
    }
}

/// A node, for what only nodes answer.
pub fn connect(address: &str) -> Result<Remote> {
    let application = std::env::var("THALWEG_APPLICATION").unwrap_or_default();
    Ok(Remote::connect(address, u64::from_ne_bytes(random_bytes()?), "", &application)?)
}

fn open_remote(remote: Remote, access: Access) -> Result<Arc<Repository>> {
    let settings = remote.welcome().clone();
    let catalog: Arc<dyn Catalog> = Arc::new(RemoteCatalog::new(remote.clone()));
    let lease = match access {
        Access::Read | Access::Inspect => Lease::begin_reading(catalog.clone())?,
        Access::Write | Access::Remove => Lease::begin(catalog.clone(), Purpose::Write)?,
    };
    Ok(Arc::new(Repository::new(settings, Arc::new(RemoteStore::new(remote)), catalog, None, lease)))
}

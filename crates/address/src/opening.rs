//! From an address to an open store, near or far.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Names, Purpose};
use repository::{Access, Lease, Repository};
use transfer::{Credentials, Remote, RemoteCatalog, RemoteStore, TlsClient, random_number, read_secret};

use crate::{Error, Result, StoreAddress};

/// Opens the store; its session ends with [`Repository::close`].
pub fn open_store(store: &StoreAddress, access: Access) -> Result<Arc<Repository>> {
    match store {
        StoreAddress::Directory(path) => Ok(Arc::new(repository::open(path, access)?)),
        StoreAddress::Node(address) => open_remote(connect(address)?, access),
    }
}

/// The files of a node's secret and CA; where one is not named, the environment says.
#[derive(Clone, Debug, Default)]
pub struct CredentialFiles {
    pub secret_file: Option<PathBuf>,
    pub tls_ca: Option<PathBuf>,
}

/// As [`open_store`], with these credentials for a node; a directory needs none.
pub fn open_store_with(files: &CredentialFiles, store: &StoreAddress, access: Access) -> Result<Arc<Repository>> {
    let StoreAddress::Node(address) = store else { return open_store(store, access) };
    open_remote(connect_with(files, address)?, access)
}

/// As [`connect`], with these credentials.
pub fn connect_with(files: &CredentialFiles, address: &str) -> Result<Remote> {
    let mut credentials = Credentials::of_environment_for(address)?;
    if let Some(file) = &files.secret_file {
        credentials.secret = Some(read_secret(file)?);
    }
    if let Some(file) = &files.tls_ca {
        credentials.tls = Some(TlsClient::load(file)?);
    }
    let application = application()?;
    let client = random_number()?;
    Ok(Remote::connect_with(credentials, address, client, "", &application)?)
}

/// Returns this process's access to a store: a directory that may only be read is opened to read.
pub fn possible_access(store: &StoreAddress) -> Access {
    let is_writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    match store {
        StoreAddress::Directory(path) if path.exists() && !is_writable(path) => Access::Read,
        _ => Access::Write,
    }
}

/// A node, for what only nodes answer.
pub fn connect(address: &str) -> Result<Remote> {
    let application = application()?;
    Ok(Remote::connect(address, random_number()?, "", &application)?)
}

/// Returns the application that the environment names, empty for none.
fn application() -> Result<String> {
    transfer::name_in_variable("THALWEG_APPLICATION").map_err(|error| Error::Address(error.to_string()))
}

/// The store behind a node.
pub fn open_remote(remote: Remote, access: Access) -> Result<Arc<Repository>> {
    let settings = remote.welcome().clone();
    let catalog: Arc<dyn Names> = Arc::new(RemoteCatalog::new(remote.clone()));
    let lease = match access {
        Access::Read | Access::Inspect => Lease::begin_reading(catalog.clone())?,
        Access::Write | Access::Remove => Lease::begin(catalog.clone(), Purpose::Write)?,
    };
    let model = if access == Access::Write { remote.model()? } else { None };
    let store = Arc::new(RemoteStore::new(remote));
    Ok(Arc::new(Repository::remote(settings, store, catalog, lease).with_model(model)))
}

//! Making and opening a store in a directory: settings, containers, table and catalog in their places.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{Catalog, ContainerRecord, ContainerState, Purpose, SqliteCatalog};
use format::{ContainerId, Fingerprint, LostSegment, Place, SessionId, Settings};
use store::files::{Directory, Files, Permissions};
use store::{ContainerFacts, LocalStore, Options, Registrar};

use crate::lease::Lease;
use crate::reserve::Reserve;
use crate::{Error, Repository, Result};

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, not even a lease where that fails.
    Read,
    Write,
    /// As `Write`, to make room: on a full disk the store's reserve is used until the repository is dropped.
    Remove,
}

const SETTINGS_FILE: &str = "store.toml";
pub(crate) const CATALOG_FILE: &str = "catalog.sqlite";

/// Makes a store at `path`, a directory that is missing or empty.
pub fn create(path: &Path, settings: &Settings) -> Result<()> {
    settings.check()?;
    let io = |source| Error::io(path.display(), source);
    let permissions = Permissions::of(settings);
    if path.exists() {
        check_empty(path)?;
        permissions.take_over(path).map_err(io)?;
    }
    permissions.create_folders(path, path).map_err(io)?;
    make_catalog(path, settings)?;
    Reserve::create(path, settings);
    write_settings(path, settings).map_err(io)
}

fn check_empty(path: &Path) -> Result<()> {
    if std::fs::read_dir(path).map_err(|source| Error::io(path.display(), source))?.next().is_none() {
        return Ok(());
    }
    let why = if path.join(SETTINGS_FILE).exists() { "there is a store already" } else { "the directory is not empty" };
    Err(Error::Refused { path: path.display().to_string(), why: why.into() })
}

/// An empty catalog; SQLite gives the files beside it the same mode and owner.
fn make_catalog(path: &Path, settings: &Settings) -> Result<()> {
    let (state, permissions) = (state_folder(path, settings), Permissions::of(settings));
    permissions.create_folders(&state, &state).map_err(|source| Error::io(state.display(), source))?;
    let file = state.join(CATALOG_FILE);
    let made = permissions.create_file(&file, OpenOptions::new().write(true).create(true).truncate(false));
    made.map_err(|source| Error::io(file.display(), source))?;
    SqliteCatalog::open(&file, true)?;
    Ok(())
}

/// Written last and whole: a directory with `store.toml` is a store.
fn write_settings(path: &Path, settings: &Settings) -> std::io::Result<()> {
    let draft = path.join(".store.toml.new");
    let options = &mut OpenOptions::new();
    let mut file = Permissions::of(settings).create_file(&draft, options.write(true).create(true).truncate(true))?;
    file.write_all(settings.to_text().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path.join(SETTINGS_FILE))?;
    std::fs::File::open(path)?.sync_all()
}

/// Where catalog and table live: beside the containers, or in the folder named at `init`, by the store's id.
pub(crate) fn state_folder(path: &Path, settings: &Settings) -> PathBuf {
    match &settings.state {
        Some(folder) => Path::new(folder).join(settings.id.to_string()),
        None => path.to_owned(),
    }
}

/// The settings of the store at `path`.
pub fn read_settings(path: &Path) -> Result<Settings> {
    match std::fs::read_to_string(path.join(SETTINGS_FILE)) {
        Ok(text) => Ok(Settings::from_text(&text)?),
        Err(source) if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Err(Error::NoStore { path: path.display().to_string() })
        }
        Err(source) => Err(Error::io(path.join(SETTINGS_FILE).display(), source)),
    }
}

/// Opens the store at `path`; a session begins, and ends with the repository.
pub fn open(path: &Path, access: Access) -> Result<Repository> {
    let settings = read_settings(path)?;
    let reserve = (access == Access::Remove).then(|| Reserve::take(path, &settings));
    let catalog: Arc<dyn Catalog> = Arc::new(open_catalog(path, &settings, access)?);
    let lease = match access {
        Access::Read => Lease::begin_reading(catalog.clone())?,
        Access::Write | Access::Remove => Lease::begin(catalog.clone(), Purpose::Write)?,
    };
    let (session, epoch, is_leased) = (lease.session(), lease.epoch_cell(), lease.is_recorded());
    let registrar = Arc::new(CatalogRegistrar { catalog: catalog.clone(), session, epoch, is_leased });
    let permissions = Permissions::of(&settings);
    let files: Arc<dyn Files> = Arc::new(Directory::new(path, permissions));
    let state: Arc<dyn Files> = Arc::new(Directory::new(state_folder(path, &settings), permissions));
    let options = Options { merges_table: access != Access::Read, ..Options::default() };
    let local = Arc::new(LocalStore::open(files, state, &settings, registrar, options)?);
    Ok(Repository::new(settings, local.clone(), catalog, Some(local), lease).with_reserve(reserve))
}

fn open_catalog(path: &Path, settings: &Settings, access: Access) -> Result<SqliteCatalog> {
    let file = state_folder(path, settings).join(CATALOG_FILE);
    if !file.exists() {
        let why = "the catalog is missing; `thalweg verify --rebuild-catalog` makes it again from the containers";
        return Err(Error::Refused { path: file.display().to_string(), why: why.into() });
    }
    match access {
        Access::Read => Ok(SqliteCatalog::open_for_reading(&file)?),
        Access::Write | Access::Remove => Ok(SqliteCatalog::open(&file, false)?),
    }
}

/// Puts a damaged or missing catalog aside and makes an empty one, to be filled again.
pub(crate) fn fresh_catalog(path: &Path, settings: &Settings) -> Result<()> {
    let file = state_folder(path, settings).join(CATALOG_FILE);
    for suffix in ["", "-wal", "-shm"] {
        let old = PathBuf::from(format!("{}{suffix}", file.display()));
        let aside = PathBuf::from(format!("{}{suffix}.old", file.display()));
        match std::fs::rename(&old, &aside) {
            Ok(()) => {}
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::io(old.display(), source)),
        }
    }
    make_catalog(path, settings)
}

/// A store's way to the catalog.
struct CatalogRegistrar {
    catalog: Arc<dyn Catalog>,
    session: SessionId,
    epoch: Arc<AtomicU64>,
    /// Collection waits for this process's reads.
    is_leased: bool,
}

impl Registrar for CatalogRegistrar {
    fn open(&self) -> store::Result<ContainerId> {
        self.catalog.open_container(self.session).map_err(as_store_error)
    }

    fn sealed(&self, container: ContainerId, facts: ContainerFacts) -> store::Result<()> {
        self.catalog.seal_container(container, facts.stored_bytes, facts.segments).map_err(as_store_error)
    }

    fn referable(&self, container: ContainerId) -> store::Result<Option<ContainerId>> {
        let record = self.catalog.container(container).map_err(as_store_error)?;
        let is_referable =
            |record: &ContainerRecord| matches!(record.state, ContainerState::Open | ContainerState::Live);
        Ok(record.filter(is_referable).map(|record| record.physical))
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn locate(&self, container: ContainerId) -> store::Result<Vec<ContainerId>> {
        let record = self.catalog.container(container).map_err(as_store_error)?;
        let is_collected =
            |record: ContainerRecord| matches!(record.state, ContainerState::Condemned | ContainerState::Gone);
        if !self.is_leased && record.is_some_and(is_collected) {
            let why = "was collected while it was read: this reader could not record a lease in the catalog, so \
                       collection did not wait for it; run it again";
            return Err(store::Error::Unavailable { peer: format!("container {container}"), why: why.into() });
        }
        self.catalog.files_of(container).map_err(as_store_error)
    }

    fn lose(&self, lost: &[(Place, Fingerprint)]) -> store::Result<()> {
        self.catalog.lose(lost).map_err(as_store_error)
    }

    fn lost(&self) -> store::Result<Vec<LostSegment>> {
        self.catalog.lost().map_err(as_store_error)
    }

    fn heal(&self, healed: &[(LostSegment, Place)]) -> store::Result<()> {
        self.catalog.heal(self.session, self.epoch(), healed).map_err(as_store_error)
    }
}

fn as_store_error(error: catalog::Error) -> store::Error {
    match error {
        catalog::Error::Full { path } => store::Error::Full { path },
        other => store::Error::Unavailable { peer: "the catalog".into(), why: other.to_string() },
    }
}

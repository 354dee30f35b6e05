//! Making and opening a store in a directory: settings, containers, table and catalog in their places.
//!
//! Whether the store can be written is checked before anything is tried: SQLite's error for a read-only directory is
//! "unable to open database file". A directory whose `store.toml` is lost is not taken for one without a store.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{ContainerRecord, ContainerState, IssuedNumbers, LocalCatalog, Purpose, SqliteCatalog};
use format::{
    CONTAINER_HEADER_BYTES, ContainerHeader, ContainerId, ErrorCode, Fingerprint, LostSegment, SegmentAddress,
    SessionId, Settings, StoreId,
};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use store::files::{Directory, Files, OpenMode, Permissions, open_ordinary, open_sole};
use store::{LocalStore, Options, Registrar, SealedContainer};

use crate::catalog_lock::CatalogLock;
use crate::divergence::{newer_records, stray};
use crate::lease::Lease;
use crate::model::StoreModel;
use crate::offline::offline_store;
use crate::reserve::{self, Reserve, SharedReserve};
use crate::upstream::FIRST_NEAR_CONTAINER;
use crate::{Error, LocalEngines, Repository, Result};

/// The purpose for which a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, not even a lease where that fails.
    Read,
    Write,
    /// As `Read`, to verify it: a catalog that does not go with the store is opened all the same.
    Inspect,
    /// As `Write`, to make room: on a full disk the store's reserve is used until the repository is dropped, and not
    /// only for moments.
    Remove,
}

const SETTINGS_FILE: &str = "store.toml";
const DRAFT_FILE: &str = ".store.toml.new";
pub(crate) const CATALOG_FILE: &str = "catalog.sqlite";
/// How far the store's catalog has ever counted; beside the containers, wherever the catalog is.
const MARK_FILE: &str = "journal.mark";
/// Container numbers above the catalog's last that are looked for.
const NUMBERS_LOOKED_FOR: u64 = 8;

/// Makes a store at `path`, a directory that is missing or empty.
pub fn create(path: &Path, settings: &Settings) -> Result<()> {
    settings.check()?;
    let io = |source| Error::io(path.display(), source);
    if let Some(around) = store_around(path) {
        let why =
            format!("lies in the store {}, which would put and collect it; name a place of its own", around.display());
        return Err(Error::Refused { code: ErrorCode::FolderNotEmpty, path: path.display().to_string(), why });
    }
    let permissions = Permissions::of(path, settings);
    let was_there = path.exists();
    if was_there {
        check_empty(path)?;
        permissions.take_over(path).map_err(io)?;
    }
    let made = fill_new(path, settings, &permissions);
    if made.is_err() {
        clear_away(path, settings, was_there);
    }
    made.map_err(|error| match error.is_full() {
        true => Error::Refused { code: ErrorCode::DiskFull, path: path.display().to_string(), why: NO_ROOM.into() },
        false => error,
    })
}

const NO_ROOM: &str = "there is no room for a store, and nothing was left of it; make room on the disk and run again";

fn fill_new(path: &Path, settings: &Settings, permissions: &Permissions) -> Result<()> {
    let io = |source| Error::io(path.display(), source);
    permissions.create_root(path).map_err(io)?;
    let state = make_state_folder(path, settings)?;
    let catalog = new_catalog(path, settings, &state.join(CATALOG_FILE))?;
    if settings.upstream.is_some() {
        catalog.replay(&[], &[], &IssuedNumbers { container: FIRST_NEAR_CONTAINER - 1, ..IssuedNumbers::default() })?;
    }
    Reserve::create(path, settings);
    write_settings(path, settings).map_err(io)
}

/// Removes what a failed `create` has made, so that it can be run again.
fn clear_away(path: &Path, settings: &Settings, was_there: bool) {
    // Another `create` at the same time, which went well.
    if read_settings(path).is_ok_and(|found| found.id != settings.id) {
        return;
    }
    let state = state_folder(path, settings);
    let catalog_files = ["", "-wal", "-shm", "-journal"].map(|suffix| format!("{CATALOG_FILE}{suffix}"));
    let files = [MARK_FILE, reserve::FILE, DRAFT_FILE, SETTINGS_FILE];
    for name in catalog_files.iter().map(String::as_str).chain(files) {
        [path, &state].iter().for_each(|folder| drop(std::fs::remove_file(folder.join(name))));
    }
    // Only an empty directory goes.
    if state != path {
        let _ = std::fs::remove_dir(&state);
    }
    if !was_there {
        let _ = std::fs::remove_dir(path);
    }
}

/// Returns the store in whose directory something lies, if it does.
fn store_around(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().skip(1).find(|above| above.exists())?.canonicalize().ok()?;
    existing.ancestors().find(|above| read_settings(above).is_ok()).map(Path::to_owned)
}

fn check_empty(path: &Path) -> Result<()> {
    if std::fs::read_dir(path).map_err(|source| Error::io(path.display(), source))?.next().is_none() {
        return Ok(());
    }
    if !path.join(SETTINGS_FILE).exists()
        && let Some(error) = lost_settings(path, MISSING)
    {
        return Err(error);
    }
    let why = if path.join(SETTINGS_FILE).exists() { "there is a store already" } else { "the directory is not empty" };
    Err(Error::Refused { code: ErrorCode::FolderNotEmpty, path: path.display().to_string(), why: why.into() })
}

/// Written last and whole: a directory with `store.toml` is a store.
fn write_settings(path: &Path, settings: &Settings) -> std::io::Result<()> {
    let draft = path.join(DRAFT_FILE);
    let mut file = Permissions::of(path, settings).create_file(&draft, OpenMode::Emptied)?;
    file.write_all(settings.to_text().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path.join(SETTINGS_FILE))?;
    std::fs::File::open(path)?.sync_all()
}

/// Returns where catalog and table live: beside the containers, or in the folder named at `init`, by the store's id.
pub(crate) fn state_folder(path: &Path, settings: &Settings) -> PathBuf {
    match &settings.state {
        Some(folder) => Path::new(folder).join(settings.id.to_string()),
        None => path.to_owned(),
    }
}

/// Makes what is missing of it; the folder named at `init` is the store's as well, where it was not there.
pub(crate) fn make_state_folder(path: &Path, settings: &Settings) -> Result<PathBuf> {
    let (state, permissions) = (state_folder(path, settings), Permissions::of(path, settings));
    for folder in settings.state.as_deref().map(Path::new).into_iter().chain([state.as_path()]) {
        permissions.create_root(folder).map_err(|source| Error::io(folder.display(), source))?;
    }
    Ok(state)
}

/// The error's end for settings that are not there.
const MISSING: &str = "is missing";

/// Reads the settings of the store at `path`.
pub fn read_settings(path: &Path) -> Result<Settings> {
    let read = open_ordinary(&path.join(SETTINGS_FILE), OpenOptions::new().read(true)).and_then(|file| {
        let mut text = String::new();
        file.take(format::MAX_SETTINGS_BYTES as u64 + 1).read_to_string(&mut text).map(|_| text)
    });
    match read {
        Ok(text) => Settings::from_text(&text).map_err(|error| refused_settings(path, &error)),
        Err(source) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(lost_settings(path, MISSING).unwrap_or_else(|| Error::NoStore { path: path.display().to_string() }))
        }
        Err(source) => Err(Error::io(path.join(SETTINGS_FILE).display(), source)),
    }
}

/// Returns the error of a file that is there and is of no use.
fn refused_settings(path: &Path, error: &format::Error) -> Error {
    let advice = match error {
        // The file is whole, so one of its lines was written by hand.
        format::Error::Corrupt { what: "codec" | "chunker" | "settings", .. } => "; correct that line",
        format::Error::Corrupt { .. } => match lost_settings(path, "is cut or damaged") {
            Some(lost) => return lost,
            None => "; copy the file back from a backup",
        },
        _ => "",
    };
    let code = match error.code() {
        ErrorCode::DataDamaged => ErrorCode::SettingsLost,
        code => code,
    };
    let (path, text) = (path.join(SETTINGS_FILE).display().to_string(), error.to_string());
    let why = text.strip_prefix("store.toml: ").unwrap_or(&text);
    Error::Refused { code, path, why: format!("{why}{advice}") }
}

/// Opens the store at `path`; a session begins, and ends with the repository.
pub fn open(path: &Path, access: Access) -> Result<Repository> {
    match read_settings(path)?.upstream {
        Some(upstream) if access != Access::Inspect => Err(has_no_names(path, upstream)),
        _ => open_made(path, access),
    }
}

fn has_no_names(path: &Path, upstream: StoreId) -> Error {
    let why = format!(
        "stands near its clients for the store {upstream}, which has the names; use that one, or the node that serves this \
         one (`thalweg node {} --upstream ADDRESS`)",
        path.display()
    );
    Error::Refused { code: ErrorCode::NearStore, path: path.display().to_string(), why }
}

/// As [`open`], whether or not the store has names.
pub(crate) fn open_made(path: &Path, access: Access) -> Result<Repository> {
    let settings = read_settings(path)?;
    match open_with(path, settings.clone(), access) {
        // To read and to remove, which writers do as well, there is the reserve.
        Err(error) if access == Access::Write && error.is_full() => {
            let _reserve = Reserve::take(path, &settings);
            open_with(path, settings, access)
        }
        opened => opened,
    }
}

fn open_with(path: &Path, settings: Settings, access: Access) -> Result<Repository> {
    if matches!(access, Access::Write | Access::Remove) {
        check_writable(path, &settings)?;
    }
    let (files, state) = directories(path, &settings)?;
    let reserve = (access == Access::Remove).then(|| Reserve::take(path, &settings));
    let catalog_lock = CatalogLock::share(path, &settings, access)?;
    let catalog = open_catalog(path, &settings, access)?;
    if reserve.as_ref().is_some_and(Reserve::is_given_up) {
        // Else each verb that makes room would leave less of the reserve, while a node has the catalog open.
        catalog.move_log();
    }
    let unsound = match unsoundness(path, &settings, &catalog) {
        Err(Error::Catalog(catalog::Error::Corrupt { why, .. })) if access == Access::Inspect => Some(why),
        found => found?,
    };
    if let (Some(why), Access::Read | Access::Write | Access::Remove) = (&unsound, access) {
        return Err(does_not_fit(&catalog_file(path, &settings), why));
    }
    if matches!(access, Access::Write | Access::Remove) {
        refuse_strays(path, &settings, &catalog)?;
        catalog.adopt(settings.id)?;
    }
    let shared_reserve = (access == Access::Write).then(|| SharedReserve::new(path, &settings));
    let catalog: Arc<dyn LocalCatalog> = Arc::new(match shared_reserve.clone() {
        Some(reserve) => catalog.with_reserve(Box::new(move || Box::new(reserve.take()))),
        None => catalog,
    });
    let lease = match access {
        Access::Inspect if unsound.is_some() => Lease::unrecorded(catalog.clone()),
        Access::Read | Access::Inspect => Lease::begin_reading(catalog.clone())?,
        Access::Write | Access::Remove => Lease::begin(catalog.clone(), Purpose::Write)?,
    };
    let (session, epoch, is_leased) = (lease.session(), lease.epoch_cell(), lease.is_recorded());
    let registrar = Arc::new(CatalogRegistrar { catalog: catalog.clone(), session, epoch, is_leased });
    let options = Options { merges_table: matches!(access, Access::Write | Access::Remove), ..Options::default() };
    let local = Arc::new(LocalStore::open(files, state, &settings, registrar, options)?);
    let repository = Repository::local(settings, LocalEngines { store: local, catalog }, lease);
    let (model, refused_model) = if access == Access::Write { StoreModel::open(path) } else { Default::default() };
    Ok(Repository { unsound, model, refused_model, catalog_lock, reserve, shared_reserve, ..repository })
}

/// Returns the store's directory and that of its state. A link in the place of a folder of a store that others may write
/// to is refused, whatever the store is opened for.
pub(crate) fn directories(path: &Path, settings: &Settings) -> Result<(Arc<dyn Files>, Arc<dyn Files>)> {
    let permissions = Permissions::of(path, settings);
    let files = Directory::new(path, permissions);
    files.check_folders(&[store::CONTAINERS_FOLDER])?;
    let state = Directory::new(state_folder(path, settings), permissions);
    state.check_folders(&[store::TABLE_FOLDER])?;
    Ok((Arc::new(files), Arc::new(state)))
}

fn does_not_fit(file: &Path, why: &str) -> Error {
    let why = format!(
        "this catalog does not go with its store: {why}; nothing was changed; stop what uses the store, then \
         `thalweg verify --rebuild-catalog` makes the catalog again from the containers"
    );
    Error::Refused { code: ErrorCode::CatalogMismatch, path: file.display().to_string(), why }
}

/// Returns why nothing may be written by this catalog, if there is a reason.
pub(crate) fn unsoundness(path: &Path, settings: &Settings, catalog: &SqliteCatalog) -> Result<Option<String>> {
    if let Some(why) = catalog.unsoundness(settings.id)? {
        return Ok(Some(why));
    }
    let unknown = unknown_files(path, settings, catalog)?;
    match unknown.iter().find(|(_, stray)| stray.is_none()) {
        Some((unknown, _)) => {
            Ok(Some(format!("it does not know container {unknown}, so it is older than its containers")))
        }
        None => newer_records(path, settings, catalog),
    }
}

/// Refuses to write where the next containers would get numbers of files that were copied there.
fn refuse_strays(path: &Path, settings: &Settings, catalog: &SqliteCatalog) -> Result<()> {
    let strays = unknown_files(path, settings, catalog)?;
    let stray = strays.into_iter().find_map(|(number, stray)| Some((number, stray?)));
    stray.map_or(Ok(()), |(number, why)| {
        let path = path.join(store::container_file_name(number)).display().to_string();
        Err(Error::Refused { code: ErrorCode::CatalogMismatch, path, why: format!("{why}; nothing was changed") })
    })
}

/// Returns the files behind the last container that the catalog knows, and why some are no containers of their number.
fn unknown_files(
    path: &Path,
    settings: &Settings,
    catalog: &SqliteCatalog,
) -> Result<Vec<(ContainerId, Option<String>)>> {
    let last = catalog.last_container()?;
    let numbers = (1..=NUMBERS_LOOKED_FOR).map(|more| ContainerId(last.0 + more));
    let mut found: Vec<_> = numbers.filter(|number| path.join(store::container_file_name(*number)).exists()).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // A container is registered before it has a file: one that was made in between is known by now.
    let last = catalog.last_container()?;
    found.retain(|number| *number > last);
    let containers = offline_store(path, settings)?;
    Ok(found.into_iter().map(|number| (number, stray(&containers, number))).collect())
}

/// Makes an empty catalog of the store at `path`, in `file`; SQLite gives the files beside it the same mode and owner.
pub(crate) fn new_catalog(path: &Path, settings: &Settings, file: &Path) -> Result<SqliteCatalog> {
    let made = Permissions::of(path, settings).create_file(file, OpenMode::Kept);
    made.map_err(|source| Error::io(file.display(), source))?;
    let mark = open_mark(path, settings, Access::Write)?;
    let catalog = SqliteCatalog::open(file, true)?.with_mark(mark, settings.id).as_draft();
    catalog.adopt(settings.id)?;
    Ok(catalog)
}

/// Returns the store's mark; made by writers when it is missing, and none where that cannot be, or it may not be read.
/// Refused where something else stands in its place: without the mark an older catalog is not noticed.
fn open_mark(path: &Path, settings: &Settings, access: Access) -> Result<Option<File>> {
    let mark = path.join(MARK_FILE);
    let options = || OpenOptions::new().read(true).write(true).clone();
    let opened = match access {
        Access::Read | Access::Inspect => open_ordinary(&mark, OpenOptions::new().read(true)),
        Access::Write | Access::Remove => open_sole(&mark, &mut options()).or_else(|source| match source.kind() {
            ErrorKind::NotFound => Permissions::of(path, settings).create_file(&mark, OpenMode::Kept),
            ErrorKind::InvalidInput => Err(source),
            _ => open_ordinary(&mark, OpenOptions::new().read(true)),
        }),
    };
    match opened {
        Err(source) if source.kind() == ErrorKind::InvalidInput => Err(Error::io(mark.display(), source)),
        opened => Ok(opened.ok()),
    }
}

pub(crate) fn catalog_file(path: &Path, settings: &Settings) -> PathBuf {
    state_folder(path, settings).join(CATALOG_FILE)
}

pub(crate) fn open_catalog(path: &Path, settings: &Settings, access: Access) -> Result<SqliteCatalog> {
    let file = catalog_file(path, settings);
    if !file.exists() {
        let path = file.display().to_string();
        return Err(catalog::Error::Corrupt { path, why: "the file is missing".into() }.into());
    }
    let catalog = match access {
        Access::Read | Access::Inspect => SqliteCatalog::open_for_reading(&file)?,
        Access::Write | Access::Remove => SqliteCatalog::open(&file, false)?,
    };
    Ok(catalog.with_mark(open_mark(path, settings, access)?, settings.id))
}

/// Puts the catalog in `new_file` in the place of the damaged or missing one, which stays beside it as `*.old`.
/// Whenever this is ended, there is one or the other, if there was one.
pub(crate) fn replace_catalog(path: &Path, settings: &Settings, new_file: &Path) -> Result<()> {
    let file = catalog_file(path, settings);
    let aside = |suffix: &str| PathBuf::from(format!("{}{suffix}.old", file.display()));
    // The log first: a catalog without its log is whole, a log without its catalog is another's.
    for suffix in ["-wal", "-shm"] {
        let old = PathBuf::from(format!("{}{suffix}", file.display()));
        present(std::fs::rename(&old, aside(suffix))).map_err(|source| Error::io(old.display(), source))?;
    }
    let old = aside("");
    present(std::fs::remove_file(&old)).map_err(|source| Error::io(old.display(), source))?;
    // Where the file system knows no links, there is a moment without a catalog.
    if present(std::fs::hard_link(&file, &old)).is_err() {
        std::fs::rename(&file, &old).map_err(|source| Error::io(file.display(), source))?;
    }
    let state = state_folder(path, settings);
    std::fs::rename(new_file, &file).map_err(|source| Error::io(file.display(), source))?;
    let synced = std::fs::File::open(&state).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::io(state.display(), source))
}

/// Ignores that the file is not there.
fn present(done: std::io::Result<()>) -> std::io::Result<()> {
    match done {
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A store's way to the catalog.
struct CatalogRegistrar {
    catalog: Arc<dyn LocalCatalog>,
    session: SessionId,
    epoch: Arc<AtomicU64>,
    /// Collection waits for this process's reads.
    is_leased: bool,
}

impl Registrar for CatalogRegistrar {
    fn open(&self) -> store::Result<ContainerId> {
        self.catalog.open_container(self.session).map_err(as_store_error)
    }

    fn sealed(&self, container: ContainerId, facts: SealedContainer) -> store::Result<()> {
        self.catalog.seal_container(container, facts.stored_bytes, facts.segments).map_err(as_store_error)
    }

    fn truncated(&self, container: ContainerId) -> store::Result<()> {
        self.catalog.truncate_container(container).map_err(as_store_error)
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

    fn sealed_bytes(&self, container: ContainerId) -> store::Result<u64> {
        let record = self.catalog.container(container).map_err(as_store_error)?;
        Ok(record.filter(|record| record.segments > 0).map_or(0, |record| record.stored_bytes))
    }

    fn is_growing(&self, container: ContainerId) -> store::Result<bool> {
        let record = self.catalog.container(container).map_err(as_store_error)?;
        Ok(match record.map(|record| record.state) {
            Some(ContainerState::Open) => self.catalog.growing().map_err(as_store_error)?.contains(&container),
            _ => false,
        })
    }

    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> store::Result<()> {
        self.catalog.lose(lost).map_err(as_store_error)
    }

    fn lost(&self) -> store::Result<Vec<LostSegment>> {
        self.catalog.lost().map_err(as_store_error)
    }

    fn heal(&self, healed: &[(LostSegment, SegmentAddress)]) -> store::Result<()> {
        self.catalog.heal(self.session, self.epoch(), healed).map_err(as_store_error)
    }
}

fn as_store_error(error: catalog::Error) -> store::Error {
    match error {
        catalog::Error::Full { path } => store::Error::Full { path },
        catalog::Error::ReadOnly { path } => {
            let source = std::io::Error::new(std::io::ErrorKind::ReadOnlyFilesystem, "it can only be read here");
            store::Error::Io { path, source }
        }
        other => store::Error::Unavailable { peer: "the catalog".into(), why: other.to_string() },
    }
}

/// Returns the error that says so, where containers of a store lie in the directory. `what` became of the file.
pub(crate) fn lost_settings(path: &Path, what: &str) -> Option<Error> {
    let header = first_header(path)?;
    let why = format!(
        "store.toml {what}, without which nothing opens, and containers of a store lie here; copy it back from a \
         backup. Without one, make a new store elsewhere with the choices this one was made with (`thalweg init --help`; \
         --fingerprint {}), write id = \"{}\" into its store.toml, and copy that file here",
        header.fingerprint, header.store
    );
    Some(Error::Refused { code: ErrorCode::SettingsLost, path: path.display().to_string(), why })
}

/// Of the first container that can be read.
fn first_header(path: &Path) -> Option<ContainerHeader> {
    let folders = std::fs::read_dir(path.join(store::CONTAINERS_FOLDER)).ok()?;
    let files = folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten();
    files.into_iter().find_map(|file| {
        let mut bytes = [0; CONTAINER_HEADER_BYTES];
        let mut opened = open_ordinary(&file.path(), OpenOptions::new().read(true)).ok()?;
        opened.read_exact(&mut bytes).ok()?;
        ContainerHeader::decode(&bytes).ok()
    })
}

/// Refuses a store that this process may only read. Other errors are reported where they occur.
pub(crate) fn check_writable(path: &Path, settings: &Settings) -> Result<()> {
    let state = state_folder(path, settings);
    let folders = [path.to_owned(), path.join(store::CONTAINERS_FOLDER), state.clone()];
    let add = |known: &mut Vec<PathBuf>, address: PathBuf| {
        if !known.contains(&address) {
            known.push(address);
        }
    };
    let mut addresses = Vec::new();
    folders.into_iter().chain([catalog_file(path, settings)]).for_each(|address| add(&mut addresses, address));
    addresses.iter().try_for_each(|address| check_address(address))
}

fn check_address(address: &Path) -> Result<()> {
    let why = match rustix::fs::accessat(CWD, address, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => "is on a read-only file system",
        Err(Errno::ACCESS | Errno::PERM) => "may not be written to by this user",
        _ => return Ok(()),
    };
    let why = format!("{why}; the store can be read (ls, get, stat, verify), and nothing in it changed");
    Err(Error::Refused { code: ErrorCode::ReadOnly, path: address.display().to_string(), why })
}

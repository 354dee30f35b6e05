//! Rebuilding: the catalog from the journal that containers keep.
//!
//! Everything that can be read is kept; what cannot is named: by container and byte, and by path where later records
//! or the old catalog still tell of it.

use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, CatalogView};
use format::{ContainerId, Settings};
use store::files::{Directory, Permissions};
use store::{ContainerFacts, LocalStore, Options, Registrar};

use crate::catalog_lock::CatalogLock;
use crate::comparison::compare;
use crate::engines::{Access, catalog_file, new_catalog, open_catalog, read_settings, replace_catalog, state_folder};
use crate::scan::Scan;
use crate::verify::Damage;
use crate::{Error, Result};

/// What was found again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    pub containers: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// What could not be read, and the paths that are known to have lost something with it.
    pub damages: Vec<Damage>,
}

/// Makes the catalog of the store at `path` again. The old one is kept beside it as `catalog.sqlite.old`.
/// Refused while another process uses the store.
pub fn rebuild_catalog(path: &Path) -> Result<Rebuilt> {
    let settings = read_settings(path)?;
    let state = state_folder(path, &settings);
    let made = Permissions::of(&settings).create_folders(&state, &state);
    made.map_err(|source| Error::io(state.display(), source))?;
    let _alone = CatalogLock::take_alone(path, &settings)?;
    let mut scan = Scan::of(&offline_store(path, &settings)?, settings.fingerprint)?;
    let mut damages = std::mem::take(&mut scan.damages);
    let old = look_at_old_catalog(path, &settings, &mut scan, &mut damages);
    let records: Vec<_> = scan.records.values().cloned().collect();
    let containers: Vec<_> = scan.containers.values().copied().collect();

    let fresh = catalog_file(path, &settings).with_extension("sqlite.new");
    remove_catalog(&fresh)?;
    let catalog = new_catalog(path, &settings, &fresh)?;
    let last_sequence = catalog.marked().max(old.unwrap_or(0));
    let left_out = catalog.replay(&containers, &records, last_sequence)?;
    // Closed, so that its log is moved into the file.
    drop(catalog);
    replace_catalog(path, &settings, &fresh)?;

    damages.extend(left_out.into_iter().map(|left| Damage::Catalog { path: Some(left.path), why: left.why }));
    Ok(Rebuilt { containers: scan.readable, transactions: records.len() as u64, damages })
}

fn remove_catalog(file: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("{}{suffix}", file.display());
        match std::fs::remove_file(&name) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(name, source)),
            _ => {}
        }
    }
    Ok(())
}

/// What the catalog that is to be replaced still tells: transactions that no container keeps yet, and names whose
/// records are lost. Returns its last sequence. A catalog that cannot be read tells nothing.
fn look_at_old_catalog(path: &Path, settings: &Settings, scan: &mut Scan, damages: &mut Vec<Damage>) -> Option<u64> {
    let old = open_catalog(path, settings, Access::Inspect).ok()?;
    // An older copy tells what was so once; another store's, or one that something else changed, tells nothing.
    if old.has_foreign_content(settings.id).ok()? {
        return None;
    }
    let view = old.view().ok()?;
    let sequence = view.sequence().ok()?;
    scan.add_outbox(view.unjournaled().ok()?);
    // Damage in the old catalog ends the comparison, and what it had told by then is told.
    let _ = name_what_is_lost(&*view, sequence, scan, damages);
    Some(sequence)
}

fn name_what_is_lost(view: &dyn CatalogView, sequence: u64, scan: &Scan, damages: &mut Vec<Damage>) -> Result<()> {
    let (replayed, _) = scan.replayed(sequence)?;
    let journal = replayed.view()?;
    compare(view, &*journal, &mut |difference| {
        if difference.is_lost_in_journal {
            damages.push(Damage::Catalog { path: Some(difference.path), why: difference.why });
        }
    })
}

/// A store nobody writes to and that has no catalog: for looking at its files.
fn offline_store(path: &Path, settings: &Settings) -> Result<LocalStore> {
    let permissions = Permissions::of(settings);
    let files = Arc::new(Directory::new(path, permissions));
    let state = Arc::new(Directory::new(state_folder(path, settings), permissions));
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
        Err(store::Error::Unavailable { peer: "the catalog".into(), why: "it is being rebuilt".into() })
    }

    fn sealed(&self, _: ContainerId, _: ContainerFacts) -> store::Result<()> {
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

impl crate::Repository {
    /// Makes the fingerprint table again from the containers.
    pub fn rebuild_table(&self) -> Result<()> {
        self.local_store("verify --rebuild-table")?.rebuild_table().map_err(Error::Store)
    }
}

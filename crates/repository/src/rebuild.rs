//! Rebuilding: the catalog from the journal that containers keep.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, ContainerRecord, ContainerState, SqliteCatalog};
use format::{BlockKind, ContainerId, JournalRecord, Settings};
use store::files::{Directory, Permissions};
use store::{ContainerFacts, LocalStore, Options, Registrar};

use crate::engines::{fresh_catalog, read_settings, state_folder};
use crate::{Error, Result};

/// What was found again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    pub containers: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Containers that could not be read, or not wholly; what they held of the journal is missing.
    pub damaged: u64,
}

/// Makes the catalog of the store at `path` again. The old one is kept beside it as `catalog.sqlite.old`.
/// No other process may use the store meanwhile.
pub fn rebuild_catalog(path: &Path) -> Result<Rebuilt> {
    let settings = read_settings(path)?;
    let local = offline_store(path, &settings)?;
    let mut rebuilt = Rebuilt::default();
    let mut journal: BTreeMap<u64, JournalRecord> = BTreeMap::new();
    let mut records: BTreeMap<ContainerId, ContainerRecord> = BTreeMap::new();
    for physical in local.containers_on_disk()? {
        match read_container(&local, &settings, physical, &mut journal) {
            Ok(found) => {
                rebuilt.containers += 1;
                note(&mut records, found);
            }
            Err(_) => rebuilt.damaged += 1,
        }
    }
    let journal: Vec<_> = journal.into_values().collect();
    rebuilt.transactions = journal.len() as u64;
    fresh_catalog(path, &settings)?;
    let catalog = SqliteCatalog::open(&state_folder(path, &settings).join(crate::engines::CATALOG_FILE), false)?;
    catalog.replay(&records.into_values().collect::<Vec<_>>(), &journal)?;
    Ok(rebuilt)
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

/// The file's own record, and one for each other number its segments bear.
struct Found {
    own: ContainerRecord,
    bears: Vec<ContainerId>,
}

fn read_container(
    local: &LocalStore,
    settings: &Settings,
    physical: ContainerId,
    journal: &mut BTreeMap<u64, JournalRecord>,
) -> Result<Found> {
    let index = local.index(physical)?;
    let mut bears: Vec<_> = index.places().map(|(place, _)| place.container).collect();
    bears.dedup();
    bears.sort();
    bears.dedup();
    local.visit_blocks(physical, Some(BlockKind::Journal), &mut |placed| {
        let raw =
            segment::decode_verified(&placed.block, settings.fingerprint).map_err(|error| damaged(physical, error))?;
        for (_, bytes) in segment::segments(&placed.block, &raw) {
            let record = JournalRecord::decode(bytes)?;
            journal.insert(record.sequence, record);
        }
        Ok(())
    })?;
    let (stored_bytes, segments) = (index.end_offset(), index.segments().len() as u64);
    let own = ContainerRecord { id: physical, state: ContainerState::Live, physical, stored_bytes, segments };
    Ok(Found { own, bears })
}

fn damaged(container: ContainerId, error: segment::Error) -> store::Error {
    store::Error::Corrupt { path: format!("container {container}"), offset: 0, why: error.to_string() }
}

/// A number whose own file is still there lies in that file; otherwise in the newest that bears it.
fn note(records: &mut BTreeMap<ContainerId, ContainerRecord>, found: Found) {
    let physical = found.own.id;
    for id in found.bears.into_iter().filter(|id| *id != physical) {
        let moved = ContainerRecord { id, physical, stored_bytes: 0, segments: 0, state: ContainerState::Live };
        let record = records.entry(id).or_insert(moved);
        if record.physical != id {
            record.physical = physical;
        }
    }
    records.insert(physical, found.own);
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

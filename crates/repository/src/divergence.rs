//! Whether the journal records that containers keep are this catalog's own. An older copy of a catalog, or one that
//! went on apart from another copy, misses some of them, and the data that they refer to.
//!
//! Only containers whose end the catalog has not recorded are read. A container keeps a record after the record's
//! transaction: all records that a file held when it was sealed are known to every catalog that knows the file as
//! sealed.

use catalog::{LocalCatalog, SqliteCatalog};
use format::{BlockKind, ContainerId, ErrorCode, FingerprintKind, JournalRecord, Settings};
use std::path::Path;
use store::{LocalStore, StoredBlock};

use crate::offline::offline_store;
use crate::{Error, Repository, Result};

/// The most open containers that are read when a store is opened, and journal blocks in each: the newest.
const MAX_CONTAINERS: usize = 16;
const MAX_BLOCKS: usize = 4;

/// Returns why the catalog is not the newest one, by the last records in the containers it counts as being written.
pub(crate) fn newer_records(path: &Path, settings: &Settings, catalog: &SqliteCatalog) -> Result<Option<String>> {
    let open = catalog.open_containers(MAX_CONTAINERS)?;
    if open.is_empty() {
        return Ok(None);
    }
    let containers = offline_store(path, settings)?;
    for container in open {
        match unknown_in(catalog, &containers, settings.fingerprint, container, MAX_BLOCKS) {
            Ok(None) => {}
            // One container that cannot be read, perhaps only by this user or at this moment, is in no other's way.
            Err(Error::Store(store::Error::Io { .. } | store::Error::Format(_))) => {}
            found => return found,
        }
    }
    Ok(None)
}

/// Returns why a file is no container of the number that it bears, by its own header, where that says so.
pub(crate) fn stray(containers: &LocalStore, number: ContainerId) -> Option<String> {
    // Unreadable names are reported as such.
    let header = containers.foreign_header(number).ok()??;
    Some(format!(
        "this is container {} of store {}, copied under another number, and nothing here needs it: move it away",
        header.container, header.store
    ))
}

/// Refuses when a container file is not known to the catalog, or keeps a record that is not: to be called before anything
/// is deleted.
pub(crate) fn check_containers(repository: &Repository, local: &LocalStore) -> Result<()> {
    for container in local.containers_on_disk()? {
        let why = match repository.local_catalog()?.container(container)? {
            None if stray(local, container).is_some() => None,
            None => Some(format!("it does not know container {container}, so it is older than its containers")),
            Some(record) if record.stored_bytes > 0 => None,
            Some(_) => {
                let fingerprint = repository.settings.fingerprint;
                unknown_in(repository.local_catalog()?, local, fingerprint, container, usize::MAX)?
            }
        };
        why.map_or(Ok(()), |why| Err(refusal(&why)))?;
    }
    Ok(())
}

/// Refuses when a journal block keeps a record that the catalog does not know.
pub(crate) fn check_block(repository: &Repository, container: ContainerId, placed: &StoredBlock) -> Result<()> {
    let records = records(placed, repository.settings.fingerprint);
    match repository.local_catalog()?.unknown_records(&records)?.first() {
        Some(sequence) => Err(refusal(&unknown(*sequence, container))),
        None => Ok(()),
    }
}

pub(crate) fn refusal(why: &str) -> Error {
    let why = format!(
        "its catalog does not go with its containers: {why}; nothing was deleted; stop what uses the store, then \
         `thalweg verify --rebuild-catalog` makes the catalog again from the containers"
    );
    Error::Refused { code: ErrorCode::CatalogMismatch, path: "this store".into(), why }
}

/// The reason is looked for in the last `limit` journal blocks. The catalog is asked after the container was read: a
/// record that a writer adds meanwhile has its transaction by then.
fn unknown_in(
    catalog: &dyn LocalCatalog,
    containers: &LocalStore,
    fingerprint: FingerprintKind,
    container: ContainerId,
    limit: usize,
) -> Result<Option<String>> {
    let mut found = Vec::new();
    let visited = containers
        .visit_newest(container, BlockKind::Journal, limit, &mut |placed| found.extend(records(&placed, fingerprint)));
    match visited {
        // Verification names it; the whole records in other containers were compared.
        Err(store::Error::Corrupt { .. }) => return Ok(None),
        other => other?,
    }
    Ok(catalog.unknown_records(&found)?.first().map(|sequence| unknown(*sequence, container)))
}

fn unknown(sequence: u64, container: ContainerId) -> String {
    format!("transaction {sequence}, which container {container} keeps, is not one of its own, so it is an older copy")
}

/// Returns the sequence and checksum of each record that can be read.
fn records(placed: &StoredBlock, fingerprint: FingerprintKind) -> Vec<(u64, u64)> {
    let Ok(raw) = segment::decode_verified(&placed.block, fingerprint) else { return Vec::new() };
    let record = |bytes: &[u8]| Some((JournalRecord::decode(bytes).ok()?.sequence, JournalRecord::checksum_of(bytes)));
    segment::segments(&placed.block, &raw).filter_map(|(_, bytes)| record(bytes)).collect()
}

//! Rebuilding: the catalog from the journal that containers keep.
//!
//! Everything that can be read is kept; what cannot is named: by container and byte, and by path where later records
//! or the old catalog still tell of it.

use std::path::Path;

use catalog::{Catalog, CatalogView, LeftOut, NumbersGiven};
use format::{JournalRecord, Settings};
use store::files::Permissions;

use crate::catalog_lock::CatalogLock;
use crate::comparison::compare;
use crate::engines::{Access, catalog_file, new_catalog, open_catalog, read_settings, replace_catalog, state_folder};
use crate::offline::offline_store;
use crate::scan::Scan;
use crate::verify::Damage;
use crate::{Error, Result};

/// Paths that a refusal names.
const MAX_NAMED: usize = 5;

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
/// Refused while another process uses the store, and, unless by `force`, when the new one would lack something that the
/// old one has because the journal has lost it.
pub fn rebuild_catalog(path: &Path, force: bool) -> Result<Rebuilt> {
    let settings = read_settings(path)?;
    let state = state_folder(path, &settings);
    let made = Permissions::of(path, &settings).create_folders(&state, &state);
    made.map_err(|source| Error::io(state.display(), source))?;
    let _alone = CatalogLock::take_alone(path, &settings)?;
    let mut scan = Scan::of(&offline_store(path, &settings)?, settings.fingerprint)?;
    if let Err(error @ Error::Catalog(catalog::Error::TooOld { .. })) = open_catalog(path, &settings, Access::Inspect) {
        return Err(error);
    }
    let mut lost = Vec::new();
    let old = look_at_old_catalog(path, &settings, &mut scan, &mut lost);
    if !lost.is_empty() && !force {
        return Err(would_lose(path, &lost));
    }
    let records: Vec<_> = scan.records.values().cloned().collect();
    let fresh = catalog_file(path, &settings).with_extension("sqlite.new");
    let made = make_catalog(path, &settings, &fresh, &scan, &records, &old.unwrap_or_default());
    let left_out = made.and_then(|left_out| replace_catalog(path, &settings, &fresh).map(|()| left_out));
    if left_out.is_err() {
        // Best effort: the error that is told came first.
        let _ = remove_catalog(&fresh);
    }
    let mut damages = scan.damages;
    damages.extend(lost);
    damages.extend(left_out?.into_iter().map(|left| Damage::Catalog { path: Some(left.path), why: left.why }));
    Ok(Rebuilt { containers: scan.readable, transactions: records.len() as u64, damages })
}

/// Makes the catalog in `fresh`, closed, so that its log is moved into the file. Returns what records do not make sense
/// without others that are missing.
fn make_catalog(
    path: &Path,
    settings: &Settings,
    fresh: &Path,
    scan: &Scan,
    records: &[JournalRecord],
    given: &NumbersGiven,
) -> Result<Vec<LeftOut>> {
    remove_catalog(fresh)?;
    let containers: Vec<_> = scan.containers.values().copied().collect();
    let catalog = new_catalog(path, settings, fresh)?;
    let left_out = catalog.replay(&containers, records, &catalog.marked().max(given))?;
    catalog.know_records(&scan.passed_over)?;
    let unkept = scan.unkept.iter().filter_map(|sequence| scan.records.get(sequence));
    catalog.journal_later(&unkept.cloned().collect::<Vec<_>>())?;
    Ok(left_out)
}

fn would_lose(path: &Path, lost: &[Damage]) -> Error {
    let named = lost.iter().filter_map(|damage| match damage {
        Damage::Catalog { path: Some(path), .. } => Some(path.to_string()),
        _ => None,
    });
    let named: Vec<String> = named.take(MAX_NAMED).collect();
    let more = if lost.len() > named.len() { ", …" } else { "" };
    let why = format!(
        "the journal in the containers is damaged, and a catalog made from it would lack {} that the present one has \
         ({}{more}); nothing was changed; `thalweg repair` has the journal hold it again; `thalweg verify \
         --rebuild-catalog --force` makes one without them, and keeps the present one as catalog.sqlite.old",
        if lost.len() == 1 { "a name or version".to_owned() } else { format!("{} names or versions", lost.len()) },
        named.join(", ")
    );
    Error::Refused { path: path.display().to_string(), why }
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
/// records are lost. Returns the numbers it has given. A catalog that cannot be read tells nothing.
fn look_at_old_catalog(
    path: &Path,
    settings: &Settings,
    scan: &mut Scan,
    damages: &mut Vec<Damage>,
) -> Option<NumbersGiven> {
    let old = open_catalog(path, settings, Access::Inspect).ok()?;
    if old.is_of_another_store(settings.id).ok()? {
        return None;
    }
    let given = old.given().ok()?;
    // What an older file and a newer log give together was never so.
    if old.is_mixture() {
        return Some(given);
    }
    let Ok(view) = old.view() else { return Some(given) };
    // An older copy tells what was so once, and one that something else changed may still have names.
    if !old.was_changed_by_others().unwrap_or(true) {
        scan.add_outbox(view.unjournaled().unwrap_or_default());
    }
    // Damage in the old catalog ends the comparison, and what it had told by then is told.
    let _ = name_what_is_lost(&*view, given.sequence, scan, damages);
    Some(given)
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

impl crate::Repository {
    /// Makes the fingerprint table again from the containers.
    pub fn rebuild_table(&self) -> Result<()> {
        self.local_store("verify --rebuild-table")?.rebuild_table().map_err(Error::Store)
    }
}

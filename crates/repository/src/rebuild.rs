//! Rebuilding: the catalog from the journal that containers keep.
//!
//! Everything that can be read is kept; damage is named by container and byte, and by path where later records or the
//! old catalog still show it.

use std::collections::BTreeSet;
use std::path::Path;

use catalog::{
    CONTAINER_LIMIT, CatalogView, ContainerRecord, ContainerState, IssuedNumbers, LocalCatalog, Names, Purpose,
    SkippedRecord, SqliteCatalog,
};
use format::{ContainerId, ErrorCode, JournalRecord, LostSegment, Settings};

use crate::agreement::lost_records;
use crate::catalog_lock::CatalogLock;
use crate::comparison::compare;
use crate::engines::{
    Access, catalog_file, check_writable, make_state_folder, new_catalog, open_catalog, read_settings, replace_catalog,
};
use crate::lease::LEASE_MS;
use crate::offline::offline_store;
use crate::scan::{Scan, ranges, without_segments};
use crate::verify::Damage;
use crate::{Error, Result};

/// Paths that a refusal names.
const MAX_NAMED: usize = 5;
/// Containers without a file, below and above the last that has one.
const MAX_LOST_CONTAINERS: u64 = 1 << 20;

/// The result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    pub containers: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Unreadable parts, and the paths that are known to have lost something with them.
    pub damages: Vec<Damage>,
}

/// Makes the catalog of the store at `path` again. The old one is kept beside it as `catalog.sqlite.old`. Refused while
/// another process uses the store, and, unless by `force`, when the new one would miss records of the old one that the
/// journal has lost.
pub fn rebuild_catalog(path: &Path, force: bool) -> Result<RebuildReport> {
    let settings = read_settings(path)?;
    if settings.upstream.is_some() {
        let why = "has no names to be found again; remove it, and the node makes it again. What its sessions had synced and \
                   not committed goes with it";
        return Err(Error::Refused { code: ErrorCode::NearStore, path: path.display().to_string(), why: why.into() });
    }
    check_writable(path, &settings)?;
    make_state_folder(path, &settings)?;
    let _alone = CatalogLock::take_alone(path, &settings)?;
    let mut scan = Scan::of(&offline_store(path, &settings)?, settings.fingerprint)?;
    if let Err(error @ Error::Catalog(catalog::Error::TooOld { .. })) = open_catalog(path, &settings, Access::Inspect) {
        return Err(error);
    }
    let old = OldCatalog::look_at(path, &settings, &mut scan);
    if !old.lost.is_empty() && !force {
        return Err(would_lose(path, &old));
    }
    let records: Vec<_> = scan.records.values().cloned().collect();
    let new_file = catalog_file(path, &settings).with_extension("sqlite.new");
    let made = make_catalog(path, &settings, &new_file, &scan, &records, &old);
    let made = made.and_then(|made| replace_catalog(path, &settings, &new_file).map(|()| made));
    if made.is_err() {
        // Best effort: the error that is reported came first.
        let _ = remove_catalog(&new_file);
    }
    let mut made = made?;
    made.left_out.retain(|left| !was_restated(&scan, left));
    let mut damages = std::mem::take(&mut scan.damages);
    damages.extend(old.missing(&scan, &made));
    damages.extend(old.lost);
    damages.extend(made.left_out.into_iter().map(|left| Damage::Catalog { path: Some(left.path), why: left.why }));
    Ok(RebuildReport { containers: scan.readable, transactions: records.len() as u64, damages })
}

struct MadeCatalog {
    /// Records that make no sense without missing ones.
    left_out: Vec<SkippedRecord>,
    /// The highest numbers that were ever given.
    given: IssuedNumbers,
    /// The last record that the store's mark knows of.
    marked: Option<(u64, u64)>,
}

/// Makes the catalog in `new_file`, closed, so that its log is moved into the file.
fn make_catalog(
    path: &Path,
    settings: &Settings,
    new_file: &Path,
    scan: &Scan,
    records: &[JournalRecord],
    old: &OldCatalog,
) -> Result<MadeCatalog> {
    remove_catalog(new_file)?;
    let is_given = |record: &&ContainerRecord| record.id.0 < CONTAINER_LIMIT;
    let mut containers: Vec<_> = scan.containers.values().filter(is_given).copied().collect();
    let catalog = new_catalog(path, settings, new_file)?;
    let given = catalog.marked().max(&old.given);
    let lost = lost_containers(scan, old, given.container);
    containers.extend(lost.into_iter().map(|id| without_segments(id, id)));
    let left_out = catalog.replay(&containers, records, &given)?;
    catalog.know_records(&scan.passed_over)?;
    let marked = catalog.marked_record();
    // Or the new catalog would be taken for one that went on apart, where the mark's record is lost and another has its
    // sequence.
    catalog.know_records(marked.filter(|(sequence, _)| scan.has(*sequence)).as_slice())?;
    let unkept = scan.unkept.iter().filter_map(|sequence| scan.records.get(sequence));
    catalog.journal_later(&unkept.cloned().collect::<Vec<_>>())?;
    keep_losses(&catalog, &old.lost_segments)?;
    Ok(MadeCatalog { left_out, given: catalog.given()?, marked })
}

/// Returns the numbers that no file bears and that versions may need: those that a sound old catalog counts as live,
/// otherwise all whose end is not known from elsewhere. Whether versions still need some is known when they are read.
/// Copies of their segments can only be found for a number that the catalog knows. Collection ends the unneeded ones.
fn lost_containers(scan: &Scan, old: &OldCatalog, given: u64) -> BTreeSet<ContainerId> {
    let has_no_file = |number: &ContainerId| !scan.containers.contains_key(number) && number.0 < CONTAINER_LIMIT;
    if old.is_sound {
        return old.live_containers.iter().copied().filter(has_no_file).collect();
    }
    let last = scan.containers.keys().rfind(|number| number.0 < CONTAINER_LIMIT).map_or(0, |number| number.0);
    // The number that was given last may come from a catalog that is damaged.
    let end = given.clamp(last, last + MAX_LOST_CONTAINERS);
    (last.saturating_sub(MAX_LOST_CONTAINERS).max(1)..=end).map(ContainerId).filter(has_no_file).collect()
}

/// A segment whose container is gone could not be named any more, nor its copy be found.
fn keep_losses(catalog: &SqliteCatalog, lost: &[LostSegment]) -> Result<()> {
    let named: Vec<_> = lost.iter().map(|lost| (lost.address, lost.fingerprint)).collect();
    catalog.lose(&named)?;
    let mut healed = Vec::new();
    for (lost, copy) in lost.iter().filter_map(|lost| Some((*lost, lost.copy?))) {
        let found = catalog.container(copy.container)?;
        if found.is_some_and(|record| record.state == ContainerState::Live) {
            healed.push((lost, copy));
        }
    }
    let session = catalog.begin(Purpose::Write, LEASE_MS)?;
    let kept = catalog.heal(session.id, session.epoch, &healed);
    catalog.end(session.id)?;
    Ok(kept?)
}

/// Whether what a record could not do for want of an earlier one was stated again: `repair` does that, and then puts
/// records without changes in the place of those that are lost.
fn was_restated(scan: &Scan, left: &SkippedRecord) -> bool {
    scan.records.range(..left.sequence).any(|(_, record)| record.changes.is_empty())
}

fn would_lose(path: &Path, old: &OldCatalog) -> Error {
    let named = old.lost.iter().filter_map(|damage| match damage {
        Damage::Catalog { path: Some(path), .. } => Some(path.to_string()),
        _ => None,
    });
    let named: Vec<String> = named.take(MAX_NAMED).collect();
    let more = if old.lost.len() > named.len() { ", …" } else { "" };
    let repair = match old.is_sound {
        true => "`thalweg repair` has the journal hold it again; ",
        false => "",
    };
    let why = format!(
        "the journal in the containers is damaged, and a catalog made from it would miss {} that the present one has \
         ({}{more}); nothing was changed; {repair}`thalweg verify --rebuild-catalog --force` makes one without them, and \
         keeps the present one as catalog.sqlite.old",
        if old.lost.len() == 1 {
            "a name or version".to_owned()
        } else {
            format!("{} names or versions", old.lost.len())
        },
        named.join(", ")
    );
    Error::Refused { code: ErrorCode::CatalogMismatch, path: path.display().to_string(), why }
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

/// The readable content of the catalog that is to be replaced.
#[derive(Default)]
struct OldCatalog {
    /// Nothing else changed it, and its file and log belong together.
    is_sound: bool,
    given: IssuedNumbers,
    /// Records that it wrote and no container keeps; none where it does not say.
    lost_records: Option<Vec<u64>>,
    /// Names and versions of which the journal has lost something.
    lost: Vec<Damage>,
    /// Segments that cannot be read, and the copies that stand in for some; the journal has neither.
    lost_segments: Vec<LostSegment>,
    /// Containers that versions may refer to.
    live_containers: Vec<ContainerId>,
}

impl OldCatalog {
    /// Adds to the scan the records that no container keeps yet. A catalog that cannot be read adds none.
    fn look_at(path: &Path, settings: &Settings, scan: &mut Scan) -> Self {
        let mut old = OldCatalog::default();
        if let Ok(catalog) = open_catalog(path, settings, Access::Inspect)
            && let Ok(false) = catalog.is_of_another_store(settings.id)
        {
            // Damage ends the reading; the records read by then are kept.
            let _ = old.read(&catalog, scan);
        }
        old
    }

    fn read(&mut self, catalog: &SqliteCatalog, scan: &mut Scan) -> Result<()> {
        self.given = catalog.given()?;
        // An older file and a newer log together make a state that never was.
        if catalog.is_mixture() {
            return Ok(());
        }
        // An older copy has a state that was so once, and one that something else changed may still have names.
        self.is_sound = !catalog.was_changed_by_others()?;
        let view = catalog.view()?;
        if self.is_sound {
            scan.add_outbox(view.unjournaled()?);
            self.lost_segments = catalog.lost()?;
            let containers = catalog.containers()?;
            scan.believe(&containers);
            let live = containers.into_iter().filter(ContainerRecord::is_referable).map(|record| record.id);
            // An earlier rebuild may have left out the container of lost segments.
            self.live_containers = live.chain(self.lost_segments.iter().map(|lost| lost.address.container)).collect();
            self.lost_records = lost_records(catalog, scan, self.given.sequence)?;
        }
        // A journal that has all that this catalog wrote has lost nothing.
        match self.lost_records.as_deref() {
            Some([]) => Ok(()),
            _ => self.compare(&*view, scan),
        }
    }

    fn compare(&mut self, view: &dyn CatalogView, scan: &Scan) -> Result<()> {
        let (replayed, _) = scan.replayed(self.given.sequence)?;
        let knows_losses = self.lost_records.is_some();
        compare(view, &*replayed.view()?, &mut |difference| {
            let why = match difference.is_lost_in_journal {
                true => difference.why,
                false if knows_losses => format!("a change of it is lost: {}", difference.why),
                false => return,
            };
            self.lost.push(Damage::Catalog { path: Some(difference.path), why });
        })
    }

    /// Returns the records that are in no container: those that the old catalog wrote, gaps where it does not say, and
    /// the mark's.
    fn missing(&self, scan: &Scan, made: &MadeCatalog) -> Option<Damage> {
        let known = self.lost_records.iter().flatten().copied();
        let after = if self.lost_records.is_some() { self.given.sequence } else { 0 };
        let replaced = made.marked.filter(|record| scan.has(record.0) && !scan.keeps(*record));
        let missing = known.chain(scan.gaps(after, made.given.sequence)).chain(replaced.map(|(sequence, _)| sequence));
        let missing: Vec<u64> = missing.collect::<BTreeSet<_>>().into_iter().collect();
        let (transactions, are) = match missing.len() {
            0 => return None,
            1 => ("transaction", "is"),
            _ => ("transactions", "are"),
        };
        let ranges = ranges(&missing);
        let why =
            format!("{transactions} {ranges} of the journal {are} in no container: what was changed there is lost");
        Some(Damage::Journal { why })
    }
}

impl crate::Repository {
    /// Makes the fingerprint table again from the containers.
    pub fn rebuild_table(&self) -> Result<()> {
        self.local_store("verify --rebuild-table")?.rebuild_table().map_err(Error::Store)
    }
}

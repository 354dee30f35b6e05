//! Verification: every container against its checksums, the catalog against the journal, every kept version against
//! its segments.

use std::collections::{HashMap, HashSet};

use catalog::{ContainerRecord, ContainerState, FileEntry, Version};
use format::{
    ContainerId, EntryKind, JournalRecord, LostSegment, Page, Root, Run, SegmentAddress, StorePath, VersionRecord,
};
use store::{LocalStore, Report};

use crate::comparison::compare;
use crate::divergence::stray;
use crate::marks::LiveBitmap;
use crate::recipe;
use crate::repair::{each_version, is_damage};
use crate::scan::Scan;
use crate::snapshot::{self, SnapshotDirectory};
use crate::tree::{collect_runs, entries_in};
use crate::{Repository, Result};

/// Differences between catalog and journal that are named; more are counted.
const MAX_NAMED_DIFFERENCES: usize = 10_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A container file, and where in it.
    /// For some of the lost segments copies elsewhere stand in.
    Container { container: ContainerId, offset: u64, why: String, lost_segments: u64, healed_segments: u64 },
    /// A container the catalog counts as live has no file. For so many of its segments copies stand in.
    Missing { container: ContainerId, healed_segments: u64 },
    /// A file that bears the number of a container and is another one's; nothing needs it.
    Stray { container: ContainerId, why: String },
    /// A version that cannot be read whole; the others can.
    Version { path: StorePath, version: u64, why: String },
    /// Records of the journal that are in no container any more.
    Journal { why: String },
    /// The catalog is not what the journal in the containers makes it: at a path, or as a whole.
    Catalog { path: Option<StorePath>, why: String },
}

/// A version without its data, or with only some of it: no damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedVersion {
    pub path: StorePath,
    pub version: u64,
    pub recipe_id: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub containers: u64,
    pub segments: u64,
    pub stored_bytes: u64,
    pub versions: u64,
    /// Content decoded and checked against its names (with `data`).
    pub data_bytes: u64,
    /// Versions whose data was dropped, and the recipe that makes it again.
    pub dropped: Vec<DroppedVersion>,
    pub damages: Vec<Damage>,
}

/// Checks the store, which must be on this machine. With `data`, all content is decoded and fingerprinted again. Calls
/// `progress` with stored bytes done.
pub fn verify(repository: &Repository, data: bool, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport> {
    let local = repository.local_store("verify")?;
    let mut verified = VerifyReport::default();
    let whole = |why| Damage::Catalog { path: None, why };
    verified.damages.extend(repository.unsound.clone().map(whole));
    note_catalog_damage(&mut verified, |verified| {
        verified.damages.extend(repository.local_catalog()?.integrity()?.into_iter().map(whole));
        Ok(())
    })?;
    note_catalog_damage(&mut verified, |verified| compare_with_journal(repository, local, verified))?;
    note_catalog_damage(&mut verified, |verified| check_numbers(repository, local, verified))?;
    let mut lost = LostSegments::of_catalog(repository)?;
    note_catalog_damage(&mut verified, |verified| check_containers(repository, local, &mut lost, verified, progress))?;
    note_catalog_damage(&mut verified, |verified| check_versions(repository, data, &lost, verified, progress))?;
    Ok(verified)
}

/// Segments whose blocks are damaged, and the copies that stand in for some.
struct LostSegments {
    damaged: LiveBitmap,
    copies: HashMap<SegmentAddress, SegmentAddress>,
}

impl LostSegments {
    fn of_catalog(repository: &Repository) -> Result<Self> {
        let mut copies = HashMap::new();
        note_catalog_damage(&mut VerifyReport::default(), |_| {
            let copy = |lost: LostSegment| lost.copy.map(|copy| (lost.address, copy));
            copies = repository.local_catalog()?.lost()?.into_iter().filter_map(copy).collect();
            Ok(())
        })?;
        Ok(LostSegments { damaged: LiveBitmap::default(), copies })
    }

    /// Notes segments of this file, unless they have moved on to another since.
    fn add(&mut self, repository: &Repository, physical: ContainerId, runs: impl Iterator<Item = Run>) -> Result<()> {
        for run in runs {
            let record = repository.local_catalog()?.container(run.container)?;
            if record.is_some_and(|record| record.physical == physical) {
                self.damaged.mark(run);
            }
        }
        Ok(())
    }

    /// Returns why not all of these segments can be read.
    fn why(&self, runs: &[Run]) -> Option<String> {
        let lost = runs.iter().flat_map(|run| run.addresses()).filter(|address| self.is_lost(*address));
        let (count, first) = lost.fold((0_u64, None), |(count, first), address| (count + 1, first.or(Some(address))));
        let SegmentAddress { container, ordinal } = first?;
        let more = if count == 1 { String::new() } else { format!(" and {} more", count - 1) };
        Some(format!("the block of segment {ordinal} of container {container}{more} is damaged"))
    }

    /// Returns for how many of these segments copies stand in.
    fn healed_of(&self, runs: &[Run]) -> u64 {
        runs.iter().flat_map(|run| run.addresses()).filter(|address| self.copies.contains_key(address)).count() as u64
    }

    /// Returns the same, of the segments in a file that is not there.
    fn healed_of_file(&self, repository: &Repository, physical: ContainerId) -> Result<u64> {
        let mut by_number = HashMap::<ContainerId, u64>::new();
        self.copies.keys().for_each(|address| *by_number.entry(address.container).or_default() += 1);
        let mut healed = 0;
        for (number, count) in by_number {
            let record = repository.local_catalog()?.container(number)?;
            healed += record.filter(|record| record.physical == physical).map_or(0, |_| count);
        }
        Ok(healed)
    }

    /// A copy may have been lost in turn; none leads back, since each is newer than what it stands in for.
    fn is_lost(&self, mut address: SegmentAddress) -> bool {
        for _ in 0..=self.copies.len() {
            match self.copies.get(&address) {
                Some(copy) => address = *copy,
                None => break,
            }
        }
        self.damaged.is_marked(address.container, address.ordinal)
    }
}

/// Goes on with the next check when the catalog is too damaged for this one.
fn note_catalog_damage(verified: &mut VerifyReport, check: impl FnOnce(&mut VerifyReport) -> Result<()>) -> Result<()> {
    let why = match check(verified) {
        Err(crate::Error::Catalog(catalog::Error::Corrupt { why, .. })) => why,
        // The root cannot be removed.
        Err(crate::Error::Catalog(catalog::Error::NotFound { path })) if path.is_root() => {
            "it has no root directory".to_owned()
        }
        other => return other,
    };
    let damage = Damage::Catalog { path: None, why };
    if !verified.damages.contains(&damage) {
        verified.damages.push(damage);
    }
    Ok(())
}

fn compare_with_journal(repository: &Repository, local: &LocalStore, verified: &mut VerifyReport) -> Result<()> {
    // The view first: later journal records are not compared, unless no process may write by this catalog.
    let view = repository.local_catalog()?.view()?;
    let mut scan = Scan::of(local, repository.settings.fingerprint)?;
    scan.add_outbox(view.unjournaled()?);
    let unknown = note_unknown_records(repository, &scan, verified)?;
    let last = if repository.unsound.is_some() || unknown { u64::MAX } else { view.sequence()? };
    let (replayed, _) = scan.replayed(last)?;
    let journal = catalog::LocalCatalog::view(&replayed)?;
    let mut differences = 0_usize;
    compare(&*view, &*journal, &mut |difference| {
        differences += 1;
        if differences <= MAX_NAMED_DIFFERENCES {
            verified.damages.push(Damage::Catalog { path: Some(difference.path), why: difference.why });
        }
    })?;
    if differences > MAX_NAMED_DIFFERENCES {
        let why = format!("{} more differences from the journal", differences - MAX_NAMED_DIFFERENCES);
        verified.damages.push(Damage::Catalog { path: None, why });
    }
    Ok(())
}

/// Whether the journal holds records that the catalog, as it is now, did not write.
fn note_unknown_records(repository: &Repository, scan: &Scan, verified: &mut VerifyReport) -> Result<bool> {
    let records: Vec<_> = scan.records.values().map(|record| (record.sequence, checksum_of(record))).collect();
    let unknown = repository.local_catalog()?.unknown_records(&records)?;
    let Some(first) = unknown.first() else { return Ok(false) };
    let unknown = match unknown.len() {
        1 => format!("transaction {first} of the journal is not its own: it is"),
        count => format!("{count} transactions of the journal are not its own, the first of them {first}: it is"),
    };
    let why = format!("{unknown} an older copy, or went on apart from the newest");
    verified.damages.push(Damage::Catalog { path: None, why });
    Ok(true)
}

fn checksum_of(record: &JournalRecord) -> u64 {
    JournalRecord::checksum_of(&record.encode())
}

/// The catalog knows every container file, and counts none as collected that a version needs.
fn check_numbers(repository: &Repository, local: &LocalStore, verified: &mut VerifyReport) -> Result<()> {
    for container in local.containers_on_disk()? {
        // A number is registered before it has a file.
        let known = repository.local_catalog()?.container(container)?;
        // A rebuild of the catalog registers every number. Containers that had their footer are checked as such.
        let why = if known.is_none_or(|record| record.segments == 0) { stray(local, container) } else { None };
        verified.damages.extend(match why {
            Some(why) => Some(Damage::Stray { container, why }),
            None if known.is_none() => {
                Some(Damage::Catalog { path: None, why: format!("it does not know container {container}") })
            }
            None => None,
        });
    }
    let mut note = |why| verified.damages.push(Damage::Catalog { path: None, why });
    let Misplaced { mut collected, mut elsewhere } = Misplaced::find(repository, local)?;
    if !collected.is_empty() {
        // Containers removed and collected between the two reads are not needed any more.
        let again = Misplaced::find(repository, local)?.collected;
        collected.retain(|container| again.contains(container));
    }
    if !elsewhere.is_empty() {
        // Collection may have moved some between the two looks.
        let again = Misplaced::find(repository, local)?.elsewhere;
        elsewhere.retain(|address| again.contains(address));
    }
    let why = |container| format!("versions need container {container}, which it counts as collected");
    collected.into_iter().map(why).for_each(&mut note);
    let why = |(container, physical)| {
        format!("it has container {container} in file {physical}, which does not hold what versions need of it")
    };
    elsewhere.into_iter().map(why).for_each(&mut note);
    Ok(())
}

/// Containers that versions need and that are not where the catalog has them.
#[derive(Default)]
struct Misplaced {
    /// Those it counts as collected.
    collected: Vec<ContainerId>,
    /// Those it has in a file, named beside each, that is whole and misses a segment which is needed.
    elsewhere: Vec<(ContainerId, ContainerId)>,
}

impl Misplaced {
    /// Finds none where a manifest cannot be read: the version's error says so.
    fn find(repository: &Repository, local: &LocalStore) -> Result<Self> {
        let mut found = Misplaced::default();
        let Ok(marks) = LiveBitmap::of_catalog(repository) else { return Ok(found) };
        let lost: HashSet<SegmentAddress> =
            repository.local_catalog()?.lost()?.into_iter().map(|lost| lost.address).collect();
        for container in marks.containers() {
            let Some(record) = repository.local_catalog()?.container(container)? else { continue };
            if !record.is_referable() {
                found.collected.push(container);
                continue;
            }
            let index = match local.index(record.physical) {
                Ok(index) if index.damages().is_empty() && index.is_sealed() => index,
                Err(error) if !error.is_damage() => return Err(error.into()),
                // A damaged or missing file is reported as such.
                _ => continue,
            };
            let mut needed = marks.runs(container).into_iter().flat_map(|run| run.addresses());
            if needed.any(|address| index.segment_at(address).is_none() && !lost.contains(&address)) {
                found.elsewhere.push((container, record.physical));
            }
        }
        Ok(found)
    }
}

fn check_containers(
    repository: &Repository,
    local: &LocalStore,
    lost: &mut LostSegments,
    verified: &mut VerifyReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for record in repository.local_catalog()?.containers()? {
        let is_file = record.physical == record.id;
        if !is_file || !record.is_referable() {
            continue;
        }
        match local.check(record.id) {
            Ok(report) => {
                lost.add(repository, record.id, report.lost.values().flatten().copied())?;
                // Reading an unreadable run records it, so that it answers for nothing and `put` reads again the files
                // that need it. Its failure is reported below.
                report.lost.values().flatten().for_each(|run| drop(repository.store.get(*run)));
                verified.containers += 1;
                verified.segments += report.readable_segments;
                verified.stored_bytes += report.stored_bytes;
                progress(report.stored_bytes);
                // Its writer died before it had a footer: a torn end is no damage, segments that versions need are
                // checked below.
                let was_sealed = report.sealed || record.segments > 0;
                if was_sealed {
                    verified.damages.extend(damages_of(&record, report, lost));
                }
            }
            // Registered, never written, its writer died: nothing was lost with it.
            Err(store::Error::NotFound { .. }) if record.segments == 0 => {}
            // Collection does not wait for a reader without a lease.
            Err(store::Error::NotFound { .. }) if !is_live_in_its_file(repository, record.id)? => {}
            Err(store::Error::NotFound { .. }) => {
                let healed_segments = lost.healed_of_file(repository, record.id)?;
                verified.damages.push(Damage::Missing { container: record.id, healed_segments });
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// Returns the damage of a container that had its footer once. The catalog knows how many segments it had.
fn damages_of(record: &ContainerRecord, report: Report, lost: &LostSegments) -> Vec<Damage> {
    let Report { mut damages, readable_segments, stored_bytes, understood_bytes, sealed, lost: blocks } = report;
    let known: u64 = readable_segments + damages.iter().map(|damage| damage.lost_segments).sum::<u64>();
    let rest = record.segments.saturating_sub(known);
    let no_footer = record.segments > 0 && !sealed;
    match damages.last_mut() {
        // Nothing can be read past a damaged header.
        Some(header) if readable_segments == 0 && rest > 0 => header.lost_segments += rest,
        _ if rest > 0 => {
            let why = match stored_bytes < record.stored_bytes {
                true => format!("the file ends at byte {stored_bytes}, and had {} bytes", record.stored_bytes),
                false => "what follows cannot be read".to_owned(),
            };
            damages.push(store::Damage { offset: understood_bytes, why, lost_segments: rest });
        }
        None if no_footer => {
            let why = "its footer cannot be read; its parts can".to_owned();
            damages.push(store::Damage { offset: stored_bytes, why, lost_segments: 0 });
        }
        _ => {}
    }
    let named = |damage: store::Damage| Damage::Container {
        container: record.id,
        offset: damage.offset,
        why: damage.why,
        lost_segments: damage.lost_segments,
        healed_segments: blocks.get(&damage.offset).map_or(0, |runs| lost.healed_of(runs)),
    };
    damages.into_iter().map(named).collect()
}

/// The check of all versions.
struct VersionCheck<'a> {
    repository: &'a Repository,
    data: bool,
    lost: &'a LostSegments,
    /// The counts of whole versions: of snapshots, which share nearly all of it, only the rest is checked.
    checked: LiveBitmap,
    has_snapshots: bool,
    snapshots: SnapshotDirectory,
}

fn check_versions(
    repository: &Repository,
    data: bool,
    lost: &LostSegments,
    verified: &mut VerifyReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let has_snapshots = snapshot::exist(repository)?;
    let snapshots = repository.snapshots()?;
    let mut check = VersionCheck { repository, data, lost, checked: LiveBitmap::default(), has_snapshots, snapshots };
    each_version(repository, &mut |path, version| check.version(path, version, verified, progress))
}

impl VersionCheck<'_> {
    fn version(
        &mut self,
        path: &StorePath,
        version: &Version,
        verified: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let (repository, is_snapshot) = (self.repository, snapshot::is_snapshot(path));
        verified.versions += 1;
        let checked = match is_snapshot {
            true => self.snapshot(path, version, verified, progress),
            false => self.user_version(path, version, verified, progress),
        };
        match checked.unwrap_or_else(|error| Some(error.reason())) {
            Some(why) if is_kept(repository, path, version.number)? => {
                let path = path.clone();
                verified.damages.push(Damage::Version { path, version: version.number, why });
            }
            None if self.has_snapshots && !is_snapshot => {
                collect_runs(repository, &version.record.root, &mut |run| self.checked.mark(run))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a version that is no snapshot: what is kept of it, whether recipes make the rest again, and of a recipe its
    /// record.
    fn user_version(
        &mut self,
        path: &StorePath,
        version: &Version,
        verified: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<String>> {
        let repository = self.repository;
        let (rest, recipes) = without_dropped(repository, version)?;
        let checked = check_version(repository, &rest, self.data, self.lost, verified, progress)?;
        if checked.is_some() {
            return Ok(checked);
        }
        if recipe::is_recipe(path) {
            let is_newest = |entry: &FileEntry| entry.head.as_ref().is_some_and(|head| head.number == version.number);
            let (id, entry) = (String::from_utf8_lossy(path.name()), repository.catalog.entry(path)?);
            if let Some(Err(why)) =
                entry.filter(is_newest).map(|entry| repository.read_recipe(&id, entry)).transpose()?
            {
                return Ok(Some(format!("the recipe cannot be read: {why}")));
            }
        }
        for digest in recipes {
            if repository.recipe(&digest)?.is_none() {
                return Ok(Some(repository.dropped(&digest).reason()));
            }
            if !recipe::is_recipe(path) {
                let (path, version, recipe_id) = (path.clone(), version.number, format::recipe_id(&digest));
                verified.dropped.push(DroppedVersion { path, version, recipe_id });
            }
        }
        Ok(None)
    }

    /// Checks what no version had that was checked before, and the listing.
    fn snapshot(
        &mut self,
        path: &StorePath,
        version: &Version,
        verified: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<String>> {
        let (repository, record) = (self.repository, &version.record);
        let mut unchecked = Vec::new();
        entries_in(repository, &record.root, 0..record.size, &mut |_, entry| {
            match entry.kind {
                EntryKind::Data { run, .. } if !self.checked.holds_all(run) => unchecked.push(entry),
                _ => {}
            }
            Ok(())
        })?;
        let page = Page { level: 0, entries: unchecked };
        let (root, size) = (Root::Inline(page.encode()), page.length());
        let record = VersionRecord { root, size, content: None };
        let rest = Version { record, ..version.clone() };
        let checked = check_version(repository, &rest, self.data, self.lost, verified, progress)?;
        if checked.is_some() {
            return Ok(checked);
        }
        collect_runs(repository, &rest.record.root, &mut |run| self.checked.mark(run))?;
        Ok(self.snapshots.why_unreadable(repository, path))
    }
}

/// Returns the version with what is kept of it alone, and the digests of the recipes that make the rest.
fn without_dropped(repository: &Repository, version: &Version) -> Result<(Version, Vec<[u8; 32]>)> {
    let (mut kept, mut recipes) = (Vec::new(), Vec::new());
    if !recipe::exist(repository)? {
        return Ok((version.clone(), recipes));
    }
    let walked = entries_in(repository, &version.record.root, 0..u64::MAX, &mut |_, entry| {
        match entry.kind {
            EntryKind::Dropped { recipe, .. } if recipes.contains(&recipe) => {}
            EntryKind::Dropped { recipe, .. } => recipes.push(recipe),
            _ => kept.push(entry),
        }
        Ok(())
    });
    // Of one that cannot be walked the check says why.
    if walked.is_err() || recipes.is_empty() {
        return Ok((version.clone(), Vec::new()));
    }
    let page = Page { level: 0, entries: kept };
    let (root, size) = (Root::Inline(page.encode()), page.length());
    Ok((Version { record: VersionRecord { root, size, content: None }, ..version.clone() }, recipes))
}

/// None of a name that was removed since it was listed.
pub(crate) fn versions_of(repository: &Repository, path: &StorePath) -> Result<Vec<Version>> {
    match repository.catalog.versions(path) {
        Err(catalog::Error::NotFound { .. }) => Ok(Vec::new()),
        found => Ok(found?),
    }
}

fn is_live_in_its_file(repository: &Repository, container: ContainerId) -> Result<bool> {
    let found = repository.local_catalog()?.container(container)?;
    Ok(found.is_some_and(|record| record.physical == container && record.state == ContainerState::Live))
}

/// Whether the version was not removed since it was listed.
fn is_kept(repository: &Repository, path: &StorePath, number: u64) -> Result<bool> {
    Ok(versions_of(repository, path)?.iter().any(|version| version.number == number))
}

/// Returns why the version cannot be read whole.
fn check_version(
    repository: &Repository,
    version: &Version,
    data: bool,
    lost: &LostSegments,
    verified: &mut VerifyReport,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<String>> {
    let record = &version.record;
    if data {
        let read = repository.version_reader(record).pieces(0..record.size, |piece| {
            if let crate::Piece::Data(bytes) = piece {
                verified.data_bytes += bytes.len() as u64;
                progress(bytes.len() as u64);
            }
            Ok(())
        });
        if read.as_ref().is_err_and(is_damage) {
            repository.record_damage(record)?;
        }
        return read.map(|()| None);
    }
    let mut runs = Vec::new();
    collect_runs(repository, &record.root, &mut |run| runs.push(run))?;
    let (mut why, mut unreadable) = (lost.why(&runs), Vec::new());
    for run in runs {
        match repository.store.entries(run) {
            Err(error) if error.is_damage() => {
                why.get_or_insert_with(|| crate::Error::from(error).reason());
                unreadable.push(run);
            }
            Err(error) => return Err(error.into()),
            Ok(_) if run.addresses().any(|address| lost.is_lost(address)) => unreadable.push(run),
            Ok(_) => {}
        }
    }
    // Has it recorded.
    unreadable.into_iter().for_each(|run| drop(repository.store.get(run)));
    Ok(why)
}

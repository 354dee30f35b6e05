//! Repair: lost segments, their copies, and the affected versions.

use std::collections::HashSet;
use std::ops::Range;

use catalog::Version;
use format::{ContainerId, Entry, EntryKind, Root, Run, SegmentAddress, StorePath, VersionRecord};
use store::{ClaimOwner, LocalStore};

use crate::agreement::JournalComparison;
use crate::comparison::Difference;
use crate::divergence::{check_containers, refusal};
use crate::equal_content::heal_from_equal_content;
use crate::known_runs::{EntryEnds, KnownRun, Stretch};
use crate::list::list_everything;
use crate::mismatch::UNKNOWN;
use crate::read::SEGMENTS_AT_ONCE;
use crate::snapshot::{self, is_snapshot};
use crate::tree::{UnreadablePage, all_entries, collect_runs};
use crate::verify::versions_of;
use crate::{Error, LocalEngines, Repository, Result};

/// Lost segments looked for at a time.
const SOUGHT_AT_ONCE: usize = 1024;
/// The claim owner of searches for copies; puts nothing.
const REPAIRER: ClaimOwner = ClaimOwner(u64::MAX - 1);

/// Bytes of a version that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub path: StorePath,
    pub version: u64,
    pub range: Range<u64>,
    pub why: String,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    pub versions: u64,
    /// Lost segments for which a copy stands in, from this repair or before it.
    pub healed_segments: u64,
    /// Paths of which the journal had lost something, and has it again.
    pub journaled_paths: u64,
    pub lost: Vec<LostRange>,
}

/// Makes the journal hold all that the catalog has, reads all versions, lets copies of segments stand in for those that
/// are lost, and says what stays lost. The store must be on this machine.
pub fn repair(repository: &Repository) -> Result<RepairReport> {
    let local = repository.local_store("repair")?;
    let journaled_paths = restate_lost(repository, local)?;
    let mut repaired = read_all(repository)?;
    // A page of a manifest that is healed leads to others.
    while !repaired.lost.is_empty() {
        let before = healed_segments(repository)?;
        repaired = read_again(repository)?;
        if healed_segments(repository)? == before {
            break;
        }
    }
    Ok(RepairReport { healed_segments: healed_segments(repository)?, journaled_paths, ..repaired })
}

fn healed_segments(repository: &Repository) -> Result<u64> {
    Ok(repository.local_catalog()?.lost()?.iter().filter(|lost| lost.copy.is_some()).count() as u64)
}

/// The first reading has recorded what is lost.
fn read_again(repository: &Repository) -> Result<RepairReport> {
    let lost = repository.local_catalog()?.lost()?;
    let wanted = lost.iter().filter(|lost| lost.copy.is_none() && lost.fingerprint != UNKNOWN);
    let wanted: Vec<_> = wanted.map(|lost| lost.fingerprint).collect();
    for some in wanted.chunks(SOUGHT_AT_ONCE) {
        let sought = repository.store.missing(REPAIRER, some);
        repository.store.release(REPAIRER);
        sought?;
    }
    if lost.iter().any(|lost| lost.copy.is_none() && lost.fingerprint == UNKNOWN) {
        look_everything_up(repository)?;
    }
    repository.store.make_durable()?;
    heal_from_equal_content(repository)?;
    read_all(repository)
}

/// Looks all segments up. Of a container that is gone only the fingerprint table still has the addresses: each segment
/// that is there is looked up, and so found to be a copy of a lost one.
fn look_everything_up(repository: &Repository) -> Result<()> {
    let local = repository.local_store("repair")?;
    for container in local.containers_on_disk()? {
        let index = match local.index(container) {
            // Named by verify, or collected since it was listed.
            Err(error) if error.is_damage() => continue,
            index => index?,
        };
        let fingerprints: Vec<_> = index.segments().iter().map(|segment| segment.fingerprint).collect();
        for some in fingerprints.chunks(SOUGHT_AT_ONCE) {
            let sought = repository.store.missing(REPAIRER, some);
            repository.store.release(REPAIRER);
            sought?;
        }
    }
    Ok(())
}

fn read_all(repository: &Repository) -> Result<RepairReport> {
    let mut repaired = RepairReport::default();
    each_version(repository, &mut |path, version| {
        repaired.versions += 1;
        read_version(repository, path, version, &mut repaired.lost)
    })?;
    Ok(repaired)
}

/// Visits the versions of files, and then the snapshots that share them.
pub(crate) fn each_version(
    repository: &Repository,
    visit: &mut dyn FnMut(&StorePath, &Version) -> Result<()>,
) -> Result<()> {
    for of_snapshots in [false, true] {
        list_everything(repository.catalog(), &StorePath::root(), true, |listed| {
            let files = listed.iter().filter(|(_, entry)| entry.head.is_some());
            files.filter(|(path, _)| is_snapshot(path) == of_snapshots).try_for_each(|(path, _)| {
                versions_of(repository, path)?.iter().try_for_each(|version| visit(path, version))
            })
        })?;
        if !snapshot::exist(repository)? {
            break;
        }
    }
    Ok(())
}

fn read_version(repository: &Repository, path: &StorePath, version: &Version, lost: &mut Vec<LostRange>) -> Result<()> {
    read_content(repository, &version.record, &mut |range: Range<u64>, why: String| match lost.last_mut() {
        Some(last) if last.path == *path && last.version == version.number && last.range.end == range.start => {
            last.range.end = range.end
        }
        _ => lost.push(LostRange { path: path.clone(), version: version.number, range, why }),
    })
}

/// Reads all of a content, past what is damaged: that is recorded, and named to `lose`.
fn read_content(
    repository: &Repository,
    record: &VersionRecord,
    lose: &mut dyn FnMut(Range<u64>, String),
) -> Result<()> {
    let ends = EntryEnds::of(record);
    let walked = all_entries(repository, &record.root, &mut |offset, entry| match entry {
        Ok(entry) => {
            read_entry(repository, entry, ends, &mut |lost, why| lose(offset + lost.start..offset + lost.end, why))
        }
        Err(UnreadablePage { length, error }) if is_damage(&error) => {
            lose(offset..offset + length, error.reason());
            Ok(())
        }
        Err(UnreadablePage { error, .. }) => Err(error),
    });
    match walked {
        Err(error) if is_damage(&error) => lose(0..record.size, error.reason()),
        other => other?,
    }
    Ok(())
}

/// The ranges that it loses count from the entry's start.
fn read_entry(
    repository: &Repository,
    entry: Entry,
    ends: EntryEnds,
    lose: &mut dyn FnMut(Range<u64>, String),
) -> Result<()> {
    if matches!(entry.kind, EntryKind::Dropped { .. }) {
        return Ok(());
    }
    match repository.entry_pieces(entry, ends, 0..entry.length, &mut |_| Ok(())) {
        Err(error) if is_damage(&error) => {}
        other => return other,
    }
    let EntryKind::Data { run, skip, digest } = entry.kind else { return Ok(()) };
    // The read records what cannot be read; the entry's error is reported below.
    let _ = repository.store.get(run);
    let skip = u64::from(skip);
    let wanted = skip..skip + entry.length;
    let lose = &mut |lost: Range<u64>, why| {
        let (start, end) = (lost.start.max(wanted.start), lost.end.min(wanted.end));
        if start < end {
            lose(start - skip..end - skip, why);
        }
    };
    match repository.known_run(run, &digest, wanted.end, ends) {
        Err(error) if is_damage(&error) => lose(wanted.clone(), error.reason()),
        known => read_known(repository, run, known?, wanted.end, lose)?,
    }
    Ok(())
}

/// Reads each known segment of a run up to `end`, and loses the rest.
fn read_known(
    repository: &Repository,
    run: Run,
    known: KnownRun,
    end: u64,
    lose: &mut dyn FnMut(Range<u64>, String),
) -> Result<()> {
    let why = known.damage.as_ref().map(Error::reason);
    let mut read_up_to = 0;
    for stretch in &known.stretches {
        if let Some(why) = &why {
            lose(read_up_to..stretch.start, why.clone());
        }
        read_stretch(repository, run, stretch, lose)?;
        read_up_to = stretch.range().end;
    }
    if let Some(why) = why {
        lose(read_up_to..end, why);
    }
    Ok(())
}

/// Each segment by itself only where not all of several can be read.
fn read_stretch(
    repository: &Repository,
    run: Run,
    stretch: &Stretch,
    lose: &mut dyn FnMut(Range<u64>, String),
) -> Result<()> {
    let read = |part: Range<u64>| repository.stretch_pieces(run, stretch, part, &mut |_| Ok(()));
    let in_run = |part: Range<u64>| stretch.start + part.start..stretch.start + part.end;
    let parts: Vec<_> = stretch.segments.ranges().map(in_run).collect();
    for parts in parts.chunks(SEGMENTS_AT_ONCE) {
        match read(parts[0].start..parts[parts.len() - 1].end) {
            Err(error) if is_damage(&error) => {}
            done => {
                done?;
                continue;
            }
        }
        for part in parts {
            match read(part.clone()) {
                Err(error) if is_damage(&error) => lose(part.clone(), error.reason()),
                other => other?,
            }
        }
    }
    Ok(())
}

pub(crate) fn is_damage(error: &Error) -> bool {
    match error {
        Error::Store(error) => error.is_damage(),
        Error::Segment(_) | Error::Format(_) => true,
        _ => false,
    }
}

/// The known damage, for callers that skip files they have stored before.
pub struct KnownDamage {
    /// Segments without a copy.
    lost: HashSet<SegmentAddress>,
    healed: HashSet<SegmentAddress>,
    /// Numbers whose segments lie in a file that is not there.
    missing: HashSet<ContainerId>,
    /// Numbers whose segments lay in a file that is shorter than it was, or in an unsealed one, so that its length is
    /// not known: each run is looked for.
    doubtful: HashSet<ContainerId>,
}

impl Repository {
    /// Has all that is damaged of a content recorded: reading it otherwise ends at the first damage.
    pub fn record_damage(&self, record: &VersionRecord) -> Result<()> {
        read_content(self, record, &mut |_, _| ())
    }

    /// Grows whenever segments were found to be lost here.
    pub fn losses_recorded(&self) -> u64 {
        self.local.as_ref().map_or(0, |local| local.store.losses_recorded())
    }

    /// None when nothing is known to be damaged. Of a store over the network nothing is known
    /// here: its node has the files that are damaged look as if they had changed.
    pub fn known_damage(&self) -> Result<Option<KnownDamage>> {
        let Some(LocalEngines { store, catalog }) = &self.local else { return Ok(None) };
        let (healed, lost): (Vec<_>, Vec<_>) = catalog.lost()?.into_iter().partition(|lost| lost.copy.is_some());
        let files: HashSet<_> = store.containers_on_disk()?.into_iter().collect();
        let growing = catalog.growing()?;
        let records = catalog.containers()?;
        let live = || records.iter().filter(|record| record.is_referable() && !growing.contains(&record.id));
        let (mut doubtful_files, mut no_files, mut missing) = (HashSet::new(), HashSet::new(), HashSet::new());
        for file in live().filter(|record| files.contains(&record.id)) {
            match store.file_bytes(file.id) {
                Ok(_) if !file.was_sealed() => drop(doubtful_files.insert(file.id)),
                Ok(bytes) if bytes < file.stored_bytes => drop(doubtful_files.insert(file.id)),
                // Something else stands in its place.
                Err(store::Error::Corrupt { .. }) => drop(no_files.insert(file.id)),
                // One that went meanwhile was collected, with nothing needed in it.
                _ => {}
            }
        }
        let is_there = |file: &ContainerId| files.contains(file) && !no_files.contains(file);
        missing.extend(live().filter(|record| !is_there(&record.physical)).map(|record| record.id));
        let doubtful: HashSet<_> =
            live().filter(|record| doubtful_files.contains(&record.physical)).map(|record| record.id).collect();
        if lost.is_empty() && missing.is_empty() && doubtful.is_empty() {
            return Ok(None);
        }
        let addresses = |lost: Vec<format::LostSegment>| lost.into_iter().map(|lost| lost.address).collect();
        Ok(Some(KnownDamage { lost: addresses(lost), healed: addresses(healed), missing, doubtful }))
    }
}

fn can_be_found(repository: &Repository, run: Run) -> bool {
    repository.store.entries(run).is_ok()
}

impl KnownDamage {
    /// Whether the file cannot be read whole, as far as that is known.
    pub fn affects(&self, repository: &Repository, root: &Root) -> bool {
        let mut affected = false;
        let walked = collect_runs(repository, root, &mut |run| {
            affected |=
                self.affects_run(run) || (self.doubtful.contains(&run.container) && !can_be_found(repository, run));
        });
        affected || walked.is_err()
    }

    fn affects_run(&self, run: Run) -> bool {
        let is_missing = self.missing.contains(&run.container);
        run.addresses().any(|address| self.lost.contains(&address) || (is_missing && !self.healed.contains(&address)))
    }
}

/// Paths stated again in one transaction.
const PATHS_AT_ONCE: usize = 1024;

/// Returns at how many paths the journal lacked something that the catalog has, and has it now: a name, a version, or that
/// a name is gone. Refused when the journal has lost nothing, and the catalog was changed by something else.
pub(crate) fn restate_lost(repository: &Repository, local: &LocalStore) -> Result<u64> {
    let problems = repository.local_catalog()?.integrity()?;
    if let Some(why) = problems.into_iter().next() {
        return Err(Error::Catalog(catalog::Error::Corrupt { path: "this store".into(), why }));
    }
    check_containers(repository, local)?;
    let agreement = JournalComparison::of(repository, local)?;
    if agreement.lost_records.as_ref().is_some_and(|lost| lost.is_empty()) {
        return agreement.differences.first().map_or(Ok(0), |difference| Err(was_changed(difference)));
    }
    let lost = lost_paths(&agreement);
    let session = repository.lease.session();
    for some in lost.chunks(PATHS_AT_ONCE) {
        repository.local_catalog()?.restate(session, some)?;
    }
    // No gap is filled before all is restated: the outbox keeps their order, whatever happens in between.
    repository.local_catalog()?.fill_gaps(session, agreement.lost_records.as_deref().unwrap_or_default())?;
    repository.journal()?;
    Ok(lost.len() as u64)
}

fn was_changed(difference: &Difference) -> Error {
    refusal(&format!("the journal is whole, and {}: {}", difference.path, difference.why))
}

/// Where the catalog does not know which records are lost, nothing is stated to be gone.
fn lost_paths(agreement: &JournalComparison) -> Vec<StorePath> {
    let is_lost = |difference: &&Difference| {
        difference.is_lost_in_journal || (difference.is_lost_in_catalog && agreement.lost_records.is_some())
    };
    let mut lost: Vec<_> = agreement.differences.iter().filter(is_lost).map(|lost| lost.path.clone()).collect();
    lost.dedup();
    lost
}

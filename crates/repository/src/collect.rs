//! Collection: frees what nothing refers to, beside writers, by epochs (design, rule 3).
//!
//! Marks from a snapshot, condemns files without a mark, rewrites files with too little left in them, and
//! deletes files whose last possible reader is gone. A commit since the snapshot protects what it refers to;
//! a writer that found a duplicate in a condemned container is refused at its commit and puts it again.
//! Damaged and missing files are replaced where all that is needed of them can be read, there or in copies.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{ContainerRecord, ContainerState, Snapshot};
use format::{Block, BlockKind, ContainerId};
use store::{BlockPlan, ContainerIndex, LocalStore, StoredBlock};

use crate::agreement::JournalComparison;
use crate::divergence::{check_block, check_containers};
use crate::marks::LiveBitmap;
use crate::repair::restate_lost;
use crate::replacing::{add_label, salvage};
use crate::unneeded::check_unneeded;
use crate::{Error, Repository, Result};

/// A file is rewritten when this share of its payload is dead (percent).
const DEAD_PERCENT: u64 = 20;

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// Files no kept version needs: condemned now.
    pub condemned: u64,
    /// Files of which the living part moved.
    pub rewritten: u64,
    /// Damaged or missing files among them, in whose place whole ones are now.
    pub replaced: u64,
    /// Files deleted now, condemned in this or an earlier collection.
    pub deleted: u64,
    /// Lengths of the deleted files.
    pub deleted_bytes: u64,
    /// Lengths of the files that rewriting made.
    pub written_bytes: u64,
    /// Files that wait until older sessions end.
    pub waiting: u64,
    /// Files that writers have open, or had when they were killed: their leases are not over.
    pub open: u64,
    /// Their lengths.
    pub open_bytes: u64,
    /// Paths of which the journal had lost something, and has it again.
    pub journaled_paths: u64,
    /// Files that there was no room to rewrite, and the bytes that would free, nearly.
    pub short_of_room: u64,
    pub not_freed_bytes: u64,
}

impl CollectReport {
    /// Returns the bytes by which the container files are shorter.
    pub fn freed_bytes(&self) -> u64 {
        self.deleted_bytes.saturating_sub(self.written_bytes)
    }
}

/// A container file and the logical numbers whose segments lie in it.
pub(crate) struct ContainerFile {
    pub physical: ContainerId,
    pub logical: Vec<ContainerId>,
}

/// Collects the store, which must be on this machine.
pub fn collect(repository: &Repository) -> Result<CollectReport> {
    let mut collection = Collection::begin(repository)?;
    collection.delete()?;
    let mut rewrites = Vec::new();
    for file in live_files(repository)? {
        rewrites.extend(collection.condemn_or_choose(file)?);
    }
    collection.delete_older()?;
    // The rewrite that needs the least room frees the most of it, for the others.
    rewrites.sort_by_key(|rewrite| rewrite.living_bytes);
    for chosen in rewrites {
        collection.rewrite_or_leave(chosen)?;
    }
    collection.delete_older()?;
    // Last: on a full disk the records have room only now.
    if collection.has_lost_records {
        collection.collected.journaled_paths += restate_lost(repository, collection.local)?;
    }
    Ok(collection.collected)
}

/// A collection under way.
struct Collection<'a> {
    repository: &'a Repository,
    local: &'a LocalStore,
    snapshot: Snapshot,
    marks: LiveBitmap,
    /// Numbers of which something was found damaged once.
    lost: BTreeSet<ContainerId>,
    /// Files with a block of the journal that cannot be read: its records are in other files again before it goes.
    unreadable: BTreeSet<ContainerId>,
    /// Records of the journal were in files, or parts of them, that are gone.
    has_lost_records: bool,
    collected: CollectReport,
}

/// A file of which enough is dead, or that is damaged.
struct Rewrite {
    file: ContainerFile,
    is_damaged: bool,
    /// Bytes to be kept, before encoding.
    living_bytes: u64,
    /// Bytes that rewriting would free, nearly.
    dead_stored_bytes: u64,
}

impl<'a> Collection<'a> {
    /// Refuses where the catalog cannot be believed, or a manifest is lost.
    fn begin(repository: &'a Repository) -> Result<Self> {
        let local = repository.local_store("collect")?;
        // Our own container would be one more file that is not collected.
        local.close()?;
        check_containers(repository, local)?;
        let agreement = JournalComparison::of(repository, local)?;
        agreement.check_catalog()?;
        repository.lease.refresh_now()?;
        let snapshot = repository.local_catalog()?.snapshot()?;
        let marks = LiveBitmap::of_catalog(repository)?;
        let lost = repository.local_catalog()?.lost()?.iter().map(|lost| lost.address.container).collect();
        let has_lost_records = agreement.has_lost_records();
        let (unreadable, collected) = (agreement.unreadable, CollectReport::default());
        Ok(Collection { repository, local, snapshot, marks, lost, unreadable, has_lost_records, collected })
    }

    /// Condemns a file of which nothing is needed; returns one that is to be rewritten.
    fn condemn_or_choose(&mut self, file: ContainerFile) -> Result<Option<Rewrite>> {
        let damaged = |file| Some(Rewrite { file, is_damaged: true, living_bytes: 0, dead_stored_bytes: 0 });
        let index = match self.local.index(file.physical) {
            Ok(index) => index,
            // It was registered but never got its first byte, since its writer died, or nothing in it is needed. A file
            // that is needed and missing may come back, from a disk that was not mounted, from a copy: it stays unless
            // all of it can be read elsewhere.
            Err(store::Error::NotFound { .. }) => {
                if file.logical.iter().any(|logical| !self.marks.runs(*logical).is_empty()) {
                    return Ok(damaged(file));
                }
                self.condemn(&file)?;
                return Ok(None);
            }
            Err(store::Error::Corrupt { .. }) => return Ok(damaged(file)),
            Err(other) => return Err(other.into()),
        };
        if !index.damages().is_empty()
            || has_lost_its_end(self.repository, &index)?
            || self.unreadable.contains(&file.physical)
            || file.logical.iter().any(|logical| self.lost.contains(logical))
        {
            return Ok(damaged(file));
        }
        let (alive, all) = living_bytes(&index, &self.marks, &file.logical);
        if alive == 0 {
            self.condemn(&file)?;
            return Ok(None);
        }
        let dead = all - alive;
        let dead_stored_bytes = (u128::from(index.end_offset()) * u128::from(dead) / u128::from(all)) as u64;
        Ok((dead * 100 >= all * DEAD_PERCENT).then_some(Rewrite {
            file,
            is_damaged: false,
            living_bytes: alive,
            dead_stored_bytes,
        }))
    }

    fn condemn(&mut self, file: &ContainerFile) -> Result<()> {
        let condemned = self.repository.local_catalog()?.condemn(self.snapshot, &file.logical)?;
        self.collected.condemned += (condemned.len() == file.logical.len()) as u64;
        Ok(())
    }

    /// Where there is no room, that of files which were rewritten before is made use of; a file for which that does not do
    /// is left and counted.
    fn rewrite_or_leave(&mut self, mut chosen: Rewrite) -> Result<()> {
        loop {
            if let Some(reserve) = &self.repository.reserve {
                reserve.hold_back();
            }
            let rewritten = match chosen.is_damaged {
                true => self.replace(&chosen.file),
                false => self.rewrite(&chosen.file),
            };
            release(self.repository);
            match rewritten {
                Err(error) if error.is_full() => {
                    let deleted = self.collected.deleted;
                    self.delete_older()?;
                    if self.collected.deleted == deleted {
                        self.collected.short_of_room += 1;
                        self.collected.not_freed_bytes += chosen.dead_stored_bytes;
                        return Ok(());
                    }
                }
                Err(Error::Store(store::Error::Corrupt { .. })) if !chosen.is_damaged => chosen.is_damaged = true,
                other => return other,
            }
        }
    }

    fn rewrite(&mut self, file: &ContainerFile) -> Result<()> {
        let (repository, marks) = (self.repository, &self.marks);
        let index = self.local.index(file.physical)?;
        let plans: Vec<_> = index.blocks().iter().map(|spot| index.describe(spot)).collect();
        let mut plans = plans.into_iter();
        let mut blocks = Vec::new();
        self.local.visit_blocks(file.physical, None, &mut |placed| {
            let plan = plans.next().expect("a plan for every block");
            if plan.spot.header.kind == BlockKind::Journal {
                check_block(repository, file.physical, &placed).map_err(as_store_error)?;
            }
            let dedup = |container, at| is_alive(&plan, marks, &file.logical, container, at);
            blocks.extend(living_part(repository, placed, &dedup).map_err(as_store_error)?);
            Ok(())
        })?;
        self.move_into(file, blocks).map(drop)
    }

    /// Puts a whole file in place of a damaged or missing one. Segments that cannot be read anywhere stay as they are,
    /// for they may come back, and are verify's to report.
    fn replace(&mut self, file: &ContainerFile) -> Result<()> {
        let Some(salvaged) = salvage(self.repository, self.local, &self.marks, file.physical, &file.logical)? else {
            return Ok(());
        };
        if salvaged.may_miss_journal {
            self.collected.journaled_paths += restate_lost(self.repository, self.local)?;
        }
        if salvaged.blocks.is_empty() {
            return self.condemn(file);
        }
        let has_moved = self.move_into(file, salvaged.blocks)?;
        self.collected.replaced += has_moved as u64;
        Ok(())
    }

    /// Writes a file of these blocks, and has the numbers' segments found there from now on. Returns whether they are: not
    /// when a writer has referred to them meanwhile.
    fn move_into(&mut self, file: &ContainerFile, blocks: Vec<StoredBlock>) -> Result<bool> {
        let (physical, facts) = self.local.write_rewritten(blocks.into_iter().map(Ok))?;
        self.collected.written_bytes += facts.stored_bytes;
        release(self.repository);
        let moves: Vec<_> = file.logical.iter().map(|logical| (*logical, physical)).collect();
        let moved = self.repository.local_catalog()?.relocate(self.snapshot, &moves)?;
        self.collected.rewritten += !moved.is_empty() as u64;
        Ok(!moved.is_empty())
    }

    /// As `delete`, once whatever this process learned before is of older epochs: it must not hold its own condemnations
    /// back.
    fn delete_older(&mut self) -> Result<()> {
        self.repository.lease.refresh_now()?;
        self.delete()
    }

    /// Deletes what no session can need any more.
    fn delete(&mut self) -> Result<()> {
        let catalog = self.repository.local_catalog()?;
        let deletable = catalog.deletable()?;
        let check = |physical: &ContainerId| check_unneeded(self.repository, self.local, &self.marks, *physical);
        deletable.iter().try_for_each(check)?;
        for physical in &deletable {
            self.collected.deleted_bytes += self.local.remove_file(*physical)?;
            self.collected.deleted += 1;
        }
        catalog.deleted(&deletable)?;
        self.collected.waiting = catalog.statistics()?.condemned_containers;
        let is_open = |record: &ContainerRecord| record.state == ContainerState::Open;
        let records = catalog.containers()?;
        let open = records.iter().filter(|record| is_open(record)).map(|record| record.id);
        // One that is registered may have no file yet.
        let lengths: Vec<u64> = open.map(|open| self.local.file_bytes(open).unwrap_or(0)).collect();
        (self.collected.open, self.collected.open_bytes) = (lengths.len() as u64, lengths.iter().sum());
        Ok(())
    }
}

/// Releases the reserve, for the catalog.
fn release(repository: &Repository) {
    if let Some(reserve) = &repository.reserve {
        reserve.release();
    }
}

/// Returns the files all of whose containers are sealed, by number.
pub(crate) fn live_files(repository: &Repository) -> Result<Vec<ContainerFile>> {
    let mut files: BTreeMap<ContainerId, ContainerFile> = BTreeMap::new();
    for record in repository.local_catalog()?.containers()?.into_iter().filter(is_live) {
        let physical = record.physical;
        let file = files.entry(physical).or_insert(ContainerFile { physical, logical: Vec::new() });
        file.logical.push(record.id);
    }
    Ok(files.into_values().collect())
}

fn is_live(record: &ContainerRecord) -> bool {
    record.state == ContainerState::Live
}

/// Whether a container that had its footer has none any more.
pub(crate) fn has_lost_its_end(repository: &Repository, index: &ContainerIndex) -> Result<bool> {
    let record = repository.local_catalog()?.container(index.container())?;
    Ok(!index.is_sealed() && record.is_some_and(|record| record.segments > 0))
}

/// Returns the decoded bytes of the segments still needed, and of all.
fn living_bytes(index: &ContainerIndex, marks: &LiveBitmap, logical: &[ContainerId]) -> (u64, u64) {
    let (mut alive, mut all) = (0, 0);
    for spot in index.blocks() {
        let plan = index.describe(spot);
        for (label, at, segment) in labelled(&plan) {
            all += segment as u64;
            if is_alive(&plan, marks, logical, label, at) {
                alive += segment as u64;
            }
        }
    }
    (alive, all)
}

/// Returns the container, ordinal and length of each segment of a block.
fn labelled(plan: &BlockPlan) -> impl Iterator<Item = (ContainerId, u32, u32)> + '_ {
    let addresses =
        plan.labels.iter().flat_map(|label| (label.first..label.first + label.count).map(|at| (label.container, at)));
    addresses.zip(&plan.segments).map(|((container, at), segment)| (container, at, segment.bytes))
}

/// Journal records live for ever: the catalog can be made again from them. A copy whose number has moved on to
/// another file is dead.
fn is_alive(
    plan: &BlockPlan,
    marks: &LiveBitmap,
    logical: &[ContainerId],
    container: ContainerId,
    ordinal: u32,
) -> bool {
    let ours = logical.contains(&container);
    ours && (plan.spot.header.kind == BlockKind::Journal || marks.is_marked(container, ordinal))
}

pub(crate) fn as_store_error(error: Error) -> store::Error {
    match error {
        Error::Store(error) => error,
        other => store::Error::Unavailable { peer: "collection".into(), why: other.to_string() },
    }
}

/// Returns the block with only its living segments; as it is when all live, none when none does.
pub(crate) fn living_part(
    repository: &Repository,
    placed: StoredBlock,
    dedup: &dyn Fn(ContainerId, u32) -> bool,
) -> Result<Option<StoredBlock>> {
    let alive: Vec<bool> = placed.addresses().map(|address| dedup(address.container, address.ordinal)).collect();
    if alive.iter().all(|alive| *alive) {
        return Ok(Some(placed));
    }
    if !alive.contains(&true) {
        return Ok(None);
    }
    let raw = segment::decode_verified(&placed.block, repository.settings.fingerprint)?;
    let segments = segment::segments(&placed.block, &raw).zip(&alive).filter(|(_, alive)| **alive);
    let segments: Vec<_> = segments.map(|(segment, _)| segment).collect();
    let header = placed.block.header;
    let block: Block = segment::encode(header.kind, &segments, repository.codec(), header.record_length);
    let mut labels = Vec::new();
    let kept = placed.addresses().zip(&alive).filter(|(_, alive)| **alive);
    kept.for_each(|(address, _)| add_label(&mut labels, address));
    Ok(Some(StoredBlock { labels, block }))
}

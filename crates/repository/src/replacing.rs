//! The segments that a damaged container still has to hold, gathered from its file as far as that can be read, and for
//! the rest from the copies that stand in. Rewritten under the numbers it always had, it needs no copies any more, and
//! a rebuild of the catalog finds it.

use std::collections::BTreeSet;

use format::{BlockKind, ContainerId, Label, Run, SegmentAddress};
use segment::BlockBuilder;
use store::{LocalStore, StoredBlock};

use crate::collect::living_part;
use crate::divergence::check_block;
use crate::marks::LiveBitmap;
use crate::{Repository, Result};

/// Segments fetched at a time: each may come in a block of its own.
const FETCHED_AT_ONCE: u32 = 64;

/// The replacement of a damaged file.
pub(crate) struct Salvage {
    pub blocks: Vec<StoredBlock>,
    /// Something of the file cannot be read that may hold records of the journal.
    pub may_miss_journal: bool,
}

/// Returns all that is needed of these numbers, which lie in this file, or None when some of it can be read nowhere.
pub(crate) fn salvage(
    repository: &Repository,
    local: &LocalStore,
    marks: &LiveBitmap,
    physical: ContainerId,
    logical: &[ContainerId],
) -> Result<Option<Salvage>> {
    let mut missing: BTreeSet<SegmentAddress> = needed(marks, logical).collect();
    if is_known_to_be_lost(repository, &missing)? {
        return Ok(None);
    }
    let mut salvage = Salvage { blocks: Vec::new(), may_miss_journal: false };
    for kind in [BlockKind::Journal, BlockKind::Page, BlockKind::Data] {
        take_readable(repository, local, (physical, logical), kind, &mut missing, &mut salvage)?;
    }
    match fetch_copies(repository, &missing) {
        Ok(copies) => salvage.blocks.extend(copies),
        Err(error) if crate::repair::is_damage(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(Some(salvage))
}

fn needed(marks: &LiveBitmap, logical: &[ContainerId]) -> impl Iterator<Item = SegmentAddress> {
    let runs: Vec<Run> = logical.iter().flat_map(|logical| marks.runs(*logical)).collect();
    runs.into_iter().flat_map(|run| run.addresses())
}

/// Spares reading the file when it would be in vain.
fn is_known_to_be_lost(repository: &Repository, needed: &BTreeSet<SegmentAddress>) -> Result<bool> {
    let lost = repository.local_catalog()?.lost()?;
    Ok(lost.iter().any(|lost| lost.copy.is_none() && needed.contains(&lost.address)))
}

/// Takes the blocks of a kind that can be read, with their missing segments; of the journal all.
fn take_readable(
    repository: &Repository,
    local: &LocalStore,
    (physical, logical): (ContainerId, &[ContainerId]),
    kind: BlockKind,
    missing: &mut BTreeSet<SegmentAddress>,
    salvage: &mut Salvage,
) -> Result<()> {
    let (mut blocks, mut first_error, mut is_whole) = (Vec::new(), None, true);
    let read = local.visit_readable(physical, kind, &mut |_, read| match read.map_err(crate::Error::from) {
        Ok(placed) => match take_block(repository, (physical, logical), kind, placed, missing) {
            Ok(KeptSegments::Undecodable) => is_whole = false,
            Ok(KeptSegments::Part(taken)) => blocks.extend(taken),
            Err(error) => drop(first_error.get_or_insert(error)),
        },
        Err(error) if crate::repair::is_damage(&error) => is_whole = false,
        Err(error) => drop(first_error.get_or_insert(error)),
    });
    first_error.map_or(Ok(()), Err)?;
    let is_known = match read {
        Ok(read) => read.header_damage.is_none() && read.index.damages().is_empty(),
        Err(error) if error.is_damage() => false,
        Err(error) => return Err(error.into()),
    };
    salvage.blocks.extend(blocks);
    salvage.may_miss_journal |= !is_known || (kind == BlockKind::Journal && !is_whole);
    Ok(())
}

/// The segments to keep of a block that matches its checksum.
enum KeptSegments {
    Part(Option<StoredBlock>),
    /// It holds something else than its fingerprints say.
    Undecodable,
}

fn take_block(
    repository: &Repository,
    (physical, logical): (ContainerId, &[ContainerId]),
    kind: BlockKind,
    placed: StoredBlock,
    missing: &mut BTreeSet<SegmentAddress>,
) -> Result<KeptSegments> {
    if segment::decode_verified(&placed.block, repository.settings.fingerprint).is_err() {
        return Ok(KeptSegments::Undecodable);
    }
    if kind == BlockKind::Journal {
        check_block(repository, physical, &placed)?;
    }
    // A record whose number has moved on is in another file as well.
    let is_kept = |container| kind == BlockKind::Journal && logical.contains(&container);
    let dedup = |container, ordinal| is_kept(container) || missing.contains(&SegmentAddress::new(container, ordinal));
    let taken = living_part(repository, placed, &dedup)?;
    for address in taken.iter().flat_map(StoredBlock::addresses) {
        missing.remove(&address);
    }
    Ok(KeptSegments::Part(taken))
}

/// Blocks of these segments, which lie in no readable part of their own file.
fn fetch_copies(repository: &Repository, addresses: &BTreeSet<SegmentAddress>) -> Result<Vec<StoredBlock>> {
    let mut copies = Copies { repository, building: None, blocks: Vec::new() };
    let mut wanted = addresses.clone();
    for run in runs(addresses) {
        for placed in repository.store.get(run)? {
            let raw = segment::decode_verified(&placed.block, repository.settings.fingerprint)?;
            for (address, (fingerprint, bytes)) in placed.addresses().zip(segment::segments(&placed.block, &raw)) {
                if wanted.remove(&address) {
                    copies.push(address, placed.block.header.kind, fingerprint, bytes);
                }
            }
        }
    }
    copies.finish_block();
    match wanted.first() {
        Some(address) => Err(store::Error::NotFound { what: format!("segment {address}") }.into()),
        None => Ok(copies.blocks),
    }
}

fn runs(addresses: &BTreeSet<SegmentAddress>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for address in addresses {
        match runs.last_mut() {
            Some(run)
                if run.container == address.container
                    && run.first + run.count == address.ordinal
                    && run.count < FETCHED_AT_ONCE =>
            {
                run.count += 1;
            }
            _ => runs.push(Run::single(*address)),
        }
    }
    runs
}

/// Copies of segments, gathered into blocks of their own.
struct Copies<'a> {
    repository: &'a Repository,
    building: Option<(BlockKind, BlockBuilder, Vec<Label>)>,
    blocks: Vec<StoredBlock>,
}

impl Copies<'_> {
    fn push(&mut self, address: SegmentAddress, kind: BlockKind, fingerprint: format::Fingerprint, bytes: &[u8]) {
        let fits = |(of, block, _): &(BlockKind, BlockBuilder, _)| *of == kind && block.fits(bytes.len());
        if !self.building.as_ref().is_some_and(fits) {
            self.finish_block();
        }
        let begin = || (kind, BlockBuilder::new(kind, 0), Vec::new());
        let (_, block, labels) = self.building.get_or_insert_with(begin);
        block.push(fingerprint, bytes);
        add_label(labels, address);
    }

    fn finish_block(&mut self) {
        if let Some((_, mut block, labels)) = self.building.take() {
            self.blocks.push(StoredBlock { labels, block: block.finish(self.repository.codec()) });
        }
    }
}

/// Labels the next segment of a block.
pub(crate) fn add_label(labels: &mut Vec<Label>, address: SegmentAddress) {
    match labels.last_mut() {
        Some(last) if last.container == address.container && last.first + last.count == address.ordinal => {
            last.count += 1
        }
        _ => labels.push(Label { container: address.container, first: address.ordinal, count: 1 }),
    }
}

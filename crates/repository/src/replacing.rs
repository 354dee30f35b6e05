//! What a damaged container still has to hold, gathered from its file as far as that can be read, and for the rest from
//! the copies that stand in. Written anew under the numbers it always had, it needs no copies any more, and a rebuild
//! of the catalog finds it.

use std::collections::BTreeSet;

use format::{BlockKind, ContainerId, Label, Place, Run};
use segment::BlockBuilder;
use store::{LocalStore, PlacedBlock};

use crate::collect::living_part;
use crate::divergence::check_block;
use crate::marks::Marks;
use crate::{Repository, Result};

/// Segments fetched at a time: each may come in a block of its own.
const FETCHED_AT_ONCE: u32 = 64;

/// What replaces a damaged file.
pub(crate) struct Salvage {
    pub blocks: Vec<PlacedBlock>,
    /// Something of the file cannot be read that may hold records of the journal.
    pub may_lack_journal: bool,
}

/// All that is needed of these numbers, which lie in this file, or None when some of it can be read nowhere.
pub(crate) fn salvage(
    repository: &Repository,
    local: &LocalStore,
    marks: &Marks,
    physical: ContainerId,
    logical: &[ContainerId],
) -> Result<Option<Salvage>> {
    let mut missing: BTreeSet<Place> = needed(marks, logical).collect();
    if is_known_to_be_lost(repository, &missing)? {
        return Ok(None);
    }
    let mut salvage = Salvage { blocks: Vec::new(), may_lack_journal: false };
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

fn needed(marks: &Marks, logical: &[ContainerId]) -> impl Iterator<Item = Place> {
    let runs: Vec<Run> = logical.iter().flat_map(|logical| marks.runs(*logical)).collect();
    runs.into_iter().flat_map(|run| run.places())
}

/// Spares reading the file when it would be in vain.
fn is_known_to_be_lost(repository: &Repository, needed: &BTreeSet<Place>) -> Result<bool> {
    let lost = repository.catalog.lost()?;
    Ok(lost.iter().any(|lost| lost.copy.is_none() && needed.contains(&lost.place)))
}

/// Takes the blocks of a kind that can be read, with what is missing of their segments; of the journal all.
fn take_readable(
    repository: &Repository,
    local: &LocalStore,
    (physical, logical): (ContainerId, &[ContainerId]),
    kind: BlockKind,
    missing: &mut BTreeSet<Place>,
    salvage: &mut Salvage,
) -> Result<()> {
    let (mut blocks, mut first_error, mut is_whole) = (Vec::new(), None, true);
    let read = local.visit_readable(physical, kind, &mut |_, read| match read.map_err(crate::Error::from) {
        Ok(placed) => match take_block(repository, (physical, logical), kind, placed, missing) {
            Ok(Taken::Undecodable) => is_whole = false,
            Ok(Taken::Part(taken)) => blocks.extend(taken),
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
    salvage.may_lack_journal |= !is_known || (kind == BlockKind::Journal && !is_whole);
    Ok(())
}

/// What is kept of a block that matches its checksum.
enum Taken {
    Part(Option<PlacedBlock>),
    /// It holds something else than its fingerprints say.
    Undecodable,
}

fn take_block(
    repository: &Repository,
    (physical, logical): (ContainerId, &[ContainerId]),
    kind: BlockKind,
    placed: PlacedBlock,
    missing: &mut BTreeSet<Place>,
) -> Result<Taken> {
    if segment::decode_verified(&placed.block, repository.settings.fingerprint).is_err() {
        return Ok(Taken::Undecodable);
    }
    if kind == BlockKind::Journal {
        check_block(repository, physical, &placed)?;
    }
    // A record whose number has moved on is in another file as well.
    let is_kept = |container| kind == BlockKind::Journal && logical.contains(&container);
    let keep = |container, ordinal| is_kept(container) || missing.contains(&Place::new(container, ordinal));
    let taken = living_part(repository, placed, &keep)?;
    for place in taken.iter().flat_map(PlacedBlock::places) {
        missing.remove(&place);
    }
    Ok(Taken::Part(taken))
}

/// Blocks of these segments, which lie in no readable part of their own file.
fn fetch_copies(repository: &Repository, places: &BTreeSet<Place>) -> Result<Vec<PlacedBlock>> {
    let mut copies = Copies { repository, building: None, blocks: Vec::new() };
    let mut wanted = places.clone();
    for run in runs(places) {
        for placed in repository.store.get(run)? {
            let raw = segment::decode_verified(&placed.block, repository.settings.fingerprint)?;
            for (place, (fingerprint, bytes)) in placed.places().zip(segment::segments(&placed.block, &raw)) {
                if wanted.remove(&place) {
                    copies.push(place, placed.block.header.kind, fingerprint, bytes);
                }
            }
        }
    }
    copies.finish_block();
    match wanted.first() {
        Some(place) => Err(store::Error::NotFound { what: format!("segment {place}") }.into()),
        None => Ok(copies.blocks),
    }
}

fn runs(places: &BTreeSet<Place>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some(run)
                if run.container == place.container
                    && run.first + run.count == place.ordinal
                    && run.count < FETCHED_AT_ONCE =>
            {
                run.count += 1;
            }
            _ => runs.push(Run::single(*place)),
        }
    }
    runs
}

/// Copies of segments, gathered into blocks of their own.
struct Copies<'a> {
    repository: &'a Repository,
    building: Option<(BlockKind, BlockBuilder, Vec<Label>)>,
    blocks: Vec<PlacedBlock>,
}

impl Copies<'_> {
    fn push(&mut self, place: Place, kind: BlockKind, fingerprint: format::Fingerprint, bytes: &[u8]) {
        let fits = |(of, block, _): &(BlockKind, BlockBuilder, _)| *of == kind && block.fits(bytes.len());
        if !self.building.as_ref().is_some_and(fits) {
            self.finish_block();
        }
        let begin = || (kind, BlockBuilder::new(kind, 0), Vec::new());
        let (_, block, labels) = self.building.get_or_insert_with(begin);
        block.push(fingerprint, bytes);
        add_label(labels, place);
    }

    fn finish_block(&mut self) {
        if let Some((_, mut block, labels)) = self.building.take() {
            self.blocks.push(PlacedBlock { labels, block: block.finish(self.repository.settings.codec) });
        }
    }
}

/// Labels the next segment of a block.
pub(crate) fn add_label(labels: &mut Vec<Label>, place: Place) {
    match labels.last_mut() {
        Some(last) if last.container == place.container && last.first + last.count == place.ordinal => last.count += 1,
        _ => labels.push(Label { container: place.container, first: place.ordinal, count: 1 }),
    }
}

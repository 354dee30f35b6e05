//! Segments that could not be read: they no longer count as stored, and the same content, stored again, replaces them.
//!
//! The catalog records what is lost, so that it outlives the process and other processes see it within a second. A
//! segment that is looked up and whose address is lost or cannot be checked is remembered until its content has an
//! address again; when that is durable, it is recorded in the catalog.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use format::{Block, Fingerprint, Label, LostSegment, Run, SegmentAddress, SegmentEntry};

use super::containers::Referable;
use super::{PACE, Shared};
use crate::container::BlockPlan;
use crate::guard::lock;
use crate::{Answer, Error, Result, StoredBlock};

/// Most fingerprints that are remembered as lost and sought; beyond, the next put of the same content heals.
const MAX_SOUGHT: usize = 1 << 20;

/// The longest run that is checked segment by segment: no manifest has a longer one, and a damaged one may say
/// anything.
const MAX_RUN_SEGMENTS: u32 = 8192;

/// Stands for the fingerprint of a lost segment that is lost as well.
const UNKNOWN: Fingerprint = Fingerprint([0; 32]);

/// The segments recorded as lost.
#[derive(Default)]
pub struct Lost {
    by_address: HashMap<SegmentAddress, LostSegment>,
    /// Addresses without a copy.
    wanted: HashMap<Fingerprint, Vec<SegmentAddress>>,
}

impl Lost {
    fn new(all: Vec<LostSegment>) -> Self {
        let mut wanted = HashMap::<Fingerprint, Vec<SegmentAddress>>::new();
        for lost in all.iter().filter(|lost| lost.copy.is_none() && lost.fingerprint != UNKNOWN) {
            wanted.entry(lost.fingerprint).or_default().push(lost.address);
        }
        Lost { by_address: all.into_iter().map(|lost| (lost.address, lost)).collect(), wanted }
    }

    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    pub fn contains(&self, address: SegmentAddress) -> bool {
        self.by_address.contains_key(&address)
    }

    pub fn copy_of(&self, address: SegmentAddress) -> Option<SegmentAddress> {
        self.by_address.get(&address).and_then(|lost| lost.copy)
    }

    /// Returns the addresses of this content that have no copy, whether the fingerprint table knows them or not.
    pub fn wanted(&self, fingerprint: &Fingerprint) -> &[SegmentAddress] {
        self.wanted.get(fingerprint).map_or(&[], Vec::as_slice)
    }
}

#[derive(Default)]
pub struct Damage {
    state: Mutex<State>,
    /// How often this process has recorded losses.
    pub recorded: AtomicU64,
}

#[derive(Default)]
struct State {
    known: Option<(Instant, Arc<Lost>)>,
    /// Lost addresses whose content was asked for.
    sought: HashMap<Fingerprint, Vec<SegmentAddress>>,
    /// Copies that are not known to be durable.
    found: Vec<(LostSegment, SegmentAddress)>,
}

impl Damage {
    /// Remembers that the content of a lost address was asked for: it may be put.
    pub fn seek(&self, fingerprint: &Fingerprint, address: SegmentAddress) {
        let mut state = lock(&self.state);
        if state.sought.len() < MAX_SOUGHT {
            let addresses = state.sought.entry(*fingerprint).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    /// Notes that the content has an address.
    pub fn found<'a>(&self, found: impl Iterator<Item = (&'a Fingerprint, SegmentAddress)>) {
        let mut state = lock(&self.state);
        if state.sought.is_empty() {
            return;
        }
        for (fingerprint, copy) in found {
            for address in state.sought.remove(fingerprint).unwrap_or_default() {
                let lost = LostSegment { address, fingerprint: *fingerprint, copy: None };
                if address != copy {
                    state.found.push((lost, copy));
                }
            }
        }
    }

    pub fn take_found(&self) -> Vec<(LostSegment, SegmentAddress)> {
        std::mem::take(&mut lock(&self.state).found)
    }

    fn forget_known(&self) {
        lock(&self.state).known = None;
    }
}

impl Shared {
    /// Returns what is recorded as lost, as of a second ago.
    pub fn lost(&self) -> Result<Arc<Lost>> {
        if let Some((at, known)) = &lock(&self.damage.state).known
            && self.options.background
            && at.elapsed() < PACE
        {
            return Ok(known.clone());
        }
        let at = Instant::now();
        let lost = Arc::new(Lost::new(self.registrar.lost()?));
        lock(&self.damage.state).known = Some((at, lost.clone()));
        Ok(lost)
    }

    /// Ends the search for content lost elsewhere when an answer has its address.
    pub fn note_answers(&self, fingerprints: &[Fingerprint], answers: &[Answer]) {
        let have = |(fingerprint, answer)| match answer {
            &Answer::Have(address) => Some((fingerprint, address)),
            _ => None,
        };
        self.damage.found(fingerprints.iter().zip(answers).filter_map(have));
    }

    pub fn note_put(&self, block: &Block, run: Run) {
        self.damage.found(block.segments.iter().map(|segment| &segment.fingerprint).zip(run.addresses()));
    }

    /// Records what was found before the caller made everything durable.
    pub fn record_healed(&self, found: &[(LostSegment, SegmentAddress)]) {
        let wrong = contradicted(found);
        let is_kept =
            |(lost, copy): &&(LostSegment, SegmentAddress)| !wrong.contains(&lost.address) && !self.has_dropped(*copy);
        let kept: Vec<_> = found.iter().filter(is_kept).copied().collect();
        // A refused one (its copy was collected meanwhile) is healed when its content comes again.
        if !kept.is_empty() && self.registrar.heal(&kept).is_ok() {
            self.damage.forget_known();
        }
    }

    /// Returns the run's blocks, with copies in place of unreadable ones. Segments without a copy are recorded as lost.
    pub fn get_around_damage(&self, run: Run, error: Error) -> Result<Vec<StoredBlock>> {
        if run.count > MAX_RUN_SEGMENTS || run.first.checked_add(run.count).is_none() {
            return Err(error);
        }
        self.damage.forget_known();
        let Ok(lost) = self.lost() else { return Err(error) };
        let (mut blocks, mut losses) = (Vec::<StoredBlock>::new(), Vec::new());
        for address in run.addresses() {
            if blocks.iter().rev().take(2).any(|block| block.addresses().any(|held| held == address)) {
                continue;
            }
            match (self.get_as_stored(Run::single(address)), lost.copy_of(address)) {
                (Ok(found), _) => blocks.extend(found),
                (Err(error), Some(copy)) if error.is_damage() => blocks
                    .extend(self.get(Run::single(copy))?.into_iter().map(|block| relabelled(block, copy, address))),
                (Err(error), _) if error.is_damage() => losses.push((address, self.is_lost(address, &error))),
                (Err(error), _) => return Err(error),
            }
        }
        if losses.is_empty() {
            return Ok(blocks);
        }
        self.record_lost(losses.into_iter().filter(|(_, is_lost)| *is_lost).map(|(address, _)| address));
        Err(error)
    }

    /// Returns whether the segment is lost: not when the store no longer has the container, because nothing needs it.
    fn is_lost(&self, address: SegmentAddress, error: &Error) -> bool {
        matches!(error, Error::Corrupt { .. })
            || matches!(self.containers.referable(address.container), Ok(Referable::Missing))
    }

    /// Records the segments as lost, with all others of their blocks that cannot be read. Best effort: a reader may not
    /// be allowed to write, and the error it returns came first.
    fn record_lost(&self, addresses: impl Iterator<Item = SegmentAddress>) {
        let known = self.lost().unwrap_or_default();
        let mut named = BTreeMap::new();
        for address in addresses {
            for (mate, fingerprint) in self.block_of(address) {
                let is_told = known.contains(mate) || named.contains_key(&mate);
                if !is_told && matches!(self.get_as_stored(Run::single(mate)), Err(Error::Corrupt { .. })) {
                    named.insert(mate, fingerprint);
                }
            }
            named.entry(address).or_insert_with(|| self.fingerprint_at(address).unwrap_or(UNKNOWN));
        }
        self.record(&named.into_iter().collect::<Vec<_>>());
    }

    pub fn record(&self, lost: &[(SegmentAddress, Fingerprint)]) {
        if !lost.is_empty() && self.registrar.lose(lost).is_ok() {
            self.damage.recorded.fetch_add(1, Ordering::Relaxed);
            self.damage.forget_known();
        }
    }

    fn fingerprint_at(&self, address: SegmentAddress) -> Option<Fingerprint> {
        let entries = self.entries_as_stored(Run::single(address)).ok();
        let entry = entries.and_then(|entries| entries.first().copied());
        entry.map(|entry| entry.fingerprint).or_else(|| self.containers.unreadable_fingerprint(address))
    }

    /// Returns the segments of the block that holds this one, as far as an index knows.
    fn block_of(&self, address: SegmentAddress) -> Vec<(SegmentAddress, Fingerprint)> {
        let found = self.containers.with_run(Run::single(address), |_, index, ranges| {
            Ok(index.blocks_of(ranges).iter().map(|spot| index.describe(spot)).collect::<Vec<_>>())
        });
        let segments = |plan: BlockPlan| {
            let run = |label: Label| Run { container: label.container, first: label.first, count: label.count };
            let addresses = plan.labels.into_iter().flat_map(move |label| run(label).addresses());
            addresses.zip(plan.segments.into_iter().map(|segment| segment.fingerprint))
        };
        found.unwrap_or_default().into_iter().flat_map(segments).collect()
    }

    /// Returns fingerprints and lengths of the run, those of copies where an index cannot be read.
    pub fn entries_around_damage(&self, run: Run, error: Error) -> Result<Vec<SegmentEntry>> {
        if run.count > MAX_RUN_SEGMENTS || run.first.checked_add(run.count).is_none() {
            return Err(error);
        }
        let Some(lost) = self.lost().ok().filter(|lost| !lost.is_empty()) else { return Err(error) };
        let mut entries = Vec::with_capacity(run.count as usize);
        for address in run.addresses() {
            match (self.entries_as_stored(Run::single(address)), lost.copy_of(address)) {
                (Ok(found), _) => entries.extend(found),
                (Err(error), Some(copy)) if error.is_damage() => entries.extend(self.entries(Run::single(copy))?),
                (Err(error), _) => return Err(error),
            }
        }
        Ok(entries)
    }
}

/// Returns the addresses that two contents were found for: the table is wrong about one of them.
fn contradicted(found: &[(LostSegment, SegmentAddress)]) -> HashSet<SegmentAddress> {
    let mut fingerprints = HashMap::new();
    let mut is_other =
        |lost: &LostSegment| *fingerprints.entry(lost.address).or_insert(lost.fingerprint) != lost.fingerprint;
    found.iter().map(|(lost, _)| *lost).filter(|lost| is_other(lost)).map(|lost| lost.address).collect()
}

/// Returns the block that holds `copy`, with that segment under another number.
fn relabelled(block: StoredBlock, copy: SegmentAddress, address: SegmentAddress) -> StoredBlock {
    let labels = block.addresses().map(|held| if held == copy { address } else { held });
    let labels =
        labels.map(|address| Label { container: address.container, first: address.ordinal, count: 1 }).collect();
    StoredBlock { labels, block: block.block }
}

#[cfg(test)]
mod tests {
    use format::ContainerId;

    use super::*;

    #[test]
    fn an_address_that_two_contents_are_found_for_gets_no_copy() {
        let found = |ordinal, content: u8, copy| {
            let at = |container, ordinal| SegmentAddress::new(ContainerId(container), ordinal);
            let fingerprint = Fingerprint([content; 32]);
            (LostSegment { address: at(1, ordinal), fingerprint, copy: None }, at(2, copy))
        };
        let found = [found(0, 10, 5), found(1, 11, 6), found(0, 12, 7), found(1, 11, 8)];
        assert_eq!(contradicted(&found), HashSet::from([SegmentAddress::new(ContainerId(1), 0)]));
    }
}

//! Segments that could not be read: they answer for nothing any more, and the same content, stored again, stands in for
//! them.
//!
//! What is lost is known to the catalog, so that it outlives the process and others hear of it within a second. A
//! segment that is looked up and whose place is lost or cannot be looked at is remembered until its content has a place
//! again; when that is durable, the catalog is told.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use format::{Block, Fingerprint, Label, LostSegment, Place, Run, SegmentEntry};

use super::containers::Referable;
use super::{PACE, Shared};
use crate::container::BlockPlan;
use crate::guard::lock;
use crate::{Answer, Error, PlacedBlock, Result};

/// Fingerprints that are remembered as lost and looked for; beyond, the next put of the same content heals.
const MAX_SOUGHT: usize = 1 << 20;

/// The longest run that is looked at segment by segment: no manifest has a longer one, and a damaged one may say anything.
const MAX_RUN_SEGMENTS: u32 = 8192;

/// Of a lost segment whose fingerprint is lost as well.
const UNNAMED: Fingerprint = Fingerprint([0; 32]);

/// What is recorded as lost.
#[derive(Default)]
pub struct Lost {
    by_place: HashMap<Place, LostSegment>,
    /// Places without a copy.
    wanted: HashMap<Fingerprint, Vec<Place>>,
}

impl Lost {
    fn new(all: Vec<LostSegment>) -> Self {
        let mut wanted = HashMap::<Fingerprint, Vec<Place>>::new();
        for lost in all.iter().filter(|lost| lost.copy.is_none() && lost.fingerprint != UNNAMED) {
            wanted.entry(lost.fingerprint).or_default().push(lost.place);
        }
        Lost { by_place: all.into_iter().map(|lost| (lost.place, lost)).collect(), wanted }
    }

    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    pub fn contains(&self, place: Place) -> bool {
        self.by_place.contains_key(&place)
    }

    pub fn copy_of(&self, place: Place) -> Option<Place> {
        self.by_place.get(&place).and_then(|lost| lost.copy)
    }

    /// Places of this content that have no copy, whether the fingerprint table knows them or not.
    pub fn wanted(&self, fingerprint: &Fingerprint) -> &[Place] {
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
    /// Lost places whose content was asked for.
    sought: HashMap<Fingerprint, Vec<Place>>,
    /// Copies that are not known to be durable.
    found: Vec<(LostSegment, Place)>,
}

impl Damage {
    /// The content of a lost place was asked for: it may come.
    pub fn seek(&self, fingerprint: &Fingerprint, place: Place) {
        let mut state = lock(&self.state);
        if state.sought.len() < MAX_SOUGHT {
            let places = state.sought.entry(*fingerprint).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }

    /// The content has a place.
    pub fn found<'a>(&self, found: impl Iterator<Item = (&'a Fingerprint, Place)>) {
        let mut state = lock(&self.state);
        if state.sought.is_empty() {
            return;
        }
        for (fingerprint, copy) in found {
            for place in state.sought.remove(fingerprint).unwrap_or_default() {
                let lost = LostSegment { place, fingerprint: *fingerprint, copy: None };
                if place != copy {
                    state.found.push((lost, copy));
                }
            }
        }
    }

    pub fn take_found(&self) -> Vec<(LostSegment, Place)> {
        std::mem::take(&mut lock(&self.state).found)
    }

    fn forget_known(&self) {
        lock(&self.state).known = None;
    }
}

impl Shared {
    /// What is recorded as lost, as of a second ago.
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

    /// Answers that name a place end the search for content that was lost elsewhere.
    pub fn note_answers(&self, fingerprints: &[Fingerprint], answers: &[Answer]) {
        let have = |(fingerprint, answer)| match answer {
            &Answer::Have(place) => Some((fingerprint, place)),
            _ => None,
        };
        self.damage.found(fingerprints.iter().zip(answers).filter_map(have));
    }

    pub fn note_put(&self, block: &Block, run: Run) {
        self.damage.found(block.segments.iter().map(|segment| &segment.fingerprint).zip(run.places()));
    }

    /// Everything that was found before this call's caller made everything durable is recorded.
    pub fn record_healed(&self, found: &[(LostSegment, Place)]) {
        // What is refused (a copy was collected meanwhile) is healed when its content comes again.
        if !found.is_empty() && self.registrar.heal(found).is_ok() {
            self.damage.forget_known();
        }
    }

    /// The run's blocks, with copies in place of what cannot be read. What has no copy is recorded as lost.
    pub fn get_around_damage(&self, run: Run, error: Error) -> Result<Vec<PlacedBlock>> {
        if run.count > MAX_RUN_SEGMENTS || run.first.checked_add(run.count).is_none() {
            return Err(error);
        }
        self.damage.forget_known();
        let Ok(lost) = self.lost() else { return Err(error) };
        let (mut blocks, mut losses) = (Vec::<PlacedBlock>::new(), Vec::new());
        for place in run.places() {
            if blocks.iter().rev().take(2).any(|block| block.places().any(|held| held == place)) {
                continue;
            }
            match (self.get_as_stored(Run::single(place)), lost.copy_of(place)) {
                (Ok(found), _) => blocks.extend(found),
                (Err(error), Some(copy)) if error.is_damage() => {
                    blocks.extend(self.get(Run::single(copy))?.into_iter().map(|block| relabelled(block, copy, place)))
                }
                (Err(error), _) if error.is_damage() => losses.push((place, self.is_lost(place, &error))),
                (Err(error), _) => return Err(error),
            }
        }
        if losses.is_empty() {
            return Ok(blocks);
        }
        self.record_lost(losses.into_iter().filter(|(_, is_lost)| *is_lost).map(|(place, _)| place));
        Err(error)
    }

    /// Not when the store no longer has the container, because nothing needs it.
    fn is_lost(&self, place: Place, error: &Error) -> bool {
        matches!(error, Error::Corrupt { .. })
            || matches!(self.containers.referable(place.container), Ok(Referable::Missing))
    }

    /// With all else that cannot be read of their blocks. Best effort: a reader may not be allowed to write, and the error
    /// it returns came first.
    fn record_lost(&self, places: impl Iterator<Item = Place>) {
        let known = self.lost().unwrap_or_default();
        let mut named = BTreeMap::new();
        for place in places {
            for (mate, fingerprint) in self.block_of(place) {
                let is_told = known.contains(mate) || named.contains_key(&mate);
                if !is_told && matches!(self.get_as_stored(Run::single(mate)), Err(Error::Corrupt { .. })) {
                    named.insert(mate, fingerprint);
                }
            }
            named.entry(place).or_insert_with(|| self.fingerprint_at(place).unwrap_or(UNNAMED));
        }
        self.record(&named.into_iter().collect::<Vec<_>>());
    }

    pub fn record(&self, lost: &[(Place, Fingerprint)]) {
        if !lost.is_empty() && self.registrar.lose(lost).is_ok() {
            self.damage.recorded.fetch_add(1, Ordering::Relaxed);
            self.damage.forget_known();
        }
    }

    fn fingerprint_at(&self, place: Place) -> Option<Fingerprint> {
        let entries = self.entries_as_stored(Run::single(place)).ok();
        let entry = entries.and_then(|entries| entries.first().copied());
        entry.map(|entry| entry.fingerprint).or_else(|| self.containers.unreadable_fingerprint(place))
    }

    /// The segments of the block that holds this one, as far as an index tells.
    fn block_of(&self, place: Place) -> Vec<(Place, Fingerprint)> {
        let found = self.containers.with_run(Run::single(place), |_, index, ranges| {
            Ok(index.blocks_of(ranges).iter().map(|spot| index.describe(spot)).collect::<Vec<_>>())
        });
        let segments = |plan: BlockPlan| {
            let run = |label: Label| Run { container: label.container, first: label.first, count: label.count };
            let places = plan.labels.into_iter().flat_map(move |label| run(label).places());
            places.zip(plan.segments.into_iter().map(|segment| segment.fingerprint))
        };
        found.unwrap_or_default().into_iter().flat_map(segments).collect()
    }

    /// Fingerprints and lengths of the run, those of copies where an index cannot be read.
    pub fn entries_around_damage(&self, run: Run, error: Error) -> Result<Vec<SegmentEntry>> {
        if run.count > MAX_RUN_SEGMENTS || run.first.checked_add(run.count).is_none() {
            return Err(error);
        }
        let Some(lost) = self.lost().ok().filter(|lost| !lost.is_empty()) else { return Err(error) };
        let mut entries = Vec::with_capacity(run.count as usize);
        for place in run.places() {
            match (self.entries_as_stored(Run::single(place)), lost.copy_of(place)) {
                (Ok(found), _) => entries.extend(found),
                (Err(error), Some(copy)) if error.is_damage() => entries.extend(self.entries(Run::single(copy))?),
                (Err(error), _) => return Err(error),
            }
        }
        Ok(entries)
    }
}

/// The block that holds `copy`, with that segment under another number.
fn relabelled(block: PlacedBlock, copy: Place, place: Place) -> PlacedBlock {
    let labels = block.places().map(|held| if held == copy { place } else { held });
    let labels = labels.map(|place| Label { container: place.container, first: place.ordinal, count: 1 }).collect();
    PlacedBlock { labels, block: block.block }
}

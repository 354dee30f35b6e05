//! Segments out: decoded blocks, kept a while because the next segment wanted is mostly in the same block.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use format::{ContainerId, Fingerprint, FingerprintKind, Run, SegmentAddress, SegmentEntry};
use store::{SegmentStore, StoredBlock};

use crate::Result;

/// Decoded bytes the cache holds at most.
const CACHE_BYTES: usize = 64 << 20;

/// A block of 256 KiB has about so many segments of 8 KiB.
const SEGMENTS_OF_A_BLOCK: u32 = 32;

/// A decoded block: every segment's range in it, in order, and the fingerprint that it passed.
pub(crate) struct DecodedBlock {
    raw: Vec<u8>,
    fingerprints: Vec<Fingerprint>,
    /// Ends of the segments in `raw`.
    ends: Vec<usize>,
}

impl DecodedBlock {
    /// Takes the block's payload.
    fn new(placed: &mut StoredBlock, kind: FingerprintKind) -> Result<Self> {
        let raw = segment::take_verified(&mut placed.block, kind)?;
        let ends = placed.block.segments.iter().scan(0, |end, segment| {
            *end += segment.bytes as usize;
            Some(*end)
        });
        let fingerprints = placed.block.segments.iter().map(|segment| segment.fingerprint).collect();
        Ok(DecodedBlock { ends: ends.collect(), fingerprints, raw })
    }

    fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }
}

/// One decoded segment, sharing its block's memory.
pub(crate) struct Segment {
    block: Arc<DecodedBlock>,
    index: usize,
}

impl Segment {
    fn entry(&self) -> SegmentEntry {
        SegmentEntry { fingerprint: self.block.fingerprints[self.index], bytes: self.len() as u32 }
    }

    /// Whether it is the one that a run's entry names: a store that lies, or lies elsewhere, may have sent another.
    pub fn is(&self, entry: &SegmentEntry) -> bool {
        self.block.fingerprints[self.index] == entry.fingerprint && self.len() == entry.bytes as usize
    }
}

impl std::ops::Deref for Segment {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.raw[self.block.range(self.index)]
    }
}

/// Decoded blocks by the places in them; the oldest go first.
#[derive(Default)]
pub(crate) struct BlockCache {
    inner: Mutex<Inner>,
}

/// The container and the number of a segment.
type Place = (ContainerId, u32);

#[derive(Default)]
struct Inner {
    /// By first place of a label: how many segments, the block, and the index in it where the label begins.
    labels: BTreeMap<Place, (u32, Arc<DecodedBlock>, usize)>,
    order: VecDeque<(Vec<Place>, Arc<DecodedBlock>)>,
    bytes: usize,
}

impl BlockCache {
    /// Returns the segments of a run, decoded, each checked against its block's fingerprint.
    pub fn segments(&self, store: &dyn SegmentStore, kind: FingerprintKind, run: Run) -> Result<Vec<Segment>> {
        let mut found = Vec::with_capacity(run.count as usize);
        let mut next = run.first;
        let end = run.first + run.count;
        while next < end {
            let address = SegmentAddress::new(run.container, next);
            if let Some(segment) = self.find(address) {
                found.push(segment);
                next += 1;
                continue;
            }
            let missing = self.missing_from(run.container, next, end);
            for mut placed in store.get(missing)? {
                self.admit(&mut placed, kind, missing, &mut found, run.first)?;
            }
            next = run.first + found.len() as u32;
            if next < missing.first + missing.count {
                let what =
                    format!("segment {} (asked for with its neighbours)", SegmentAddress::new(run.container, next));
                return Err(store::Error::NotFound { what }.into());
            }
        }
        Ok(found)
    }

    /// Keeps the blocks of runs in order, as far as they are not kept, as long as they are wanted. Whoever reads meets the errors.
    pub fn fetch(&self, store: &dyn SegmentStore, kind: FingerprintKind, runs: &[Run], is_wanted: impl Fn() -> bool) {
        for with_neighbours in [false, true] {
            let mut missing: Vec<_> = runs.iter().filter_map(|run| self.missing_of(*run)).collect();
            if !with_neighbours {
                drop_neighbours(&mut missing);
            }
            if missing.is_empty() || !is_wanted() {
                return;
            }
            let _ = store.get_each(&missing, &mut |blocks| {
                blocks.into_iter().for_each(|mut placed| drop(self.keep(&mut placed, kind)));
                is_wanted()
            });
        }
    }

    /// Returns the run from its first segment on that is not kept.
    fn missing_of(&self, run: Run) -> Option<Run> {
        let inner = self.inner.lock().expect("no panic holds it");
        let kept = run.addresses().take_while(|address| inner.find(*address).is_some()).count() as u32;
        (kept < run.count).then(|| Run { first: run.first + kept, count: run.count - kept, ..run })
    }

    /// Returns fingerprint and length of each segment of the run, if all are kept.
    pub fn entries(&self, run: Run) -> Option<Vec<SegmentEntry>> {
        let inner = self.inner.lock().expect("no panic holds it");
        run.addresses().map(|address| inner.find(address).map(|segment| segment.entry())).collect()
    }

    fn find(&self, address: SegmentAddress) -> Option<Segment> {
        let inner = self.inner.lock().expect("no panic holds it");
        inner.find(address)
    }

    /// Returns the segments not cached from `first` on, up to the first that is.
    fn missing_from(&self, container: ContainerId, first: u32, end: u32) -> Run {
        let inner = self.inner.lock().expect("no panic holds it");
        let next = inner.labels.range((container, first)..(container, end)).next();
        let stop = next.map_or(end, |(key, _)| key.1).max(first + 1);
        Run { container, first, count: stop - first }
    }

    /// Caches a block and appends those of its segments that are wanted and come next: `found` begins with the segment
    /// `first`, and blocks come in the order of the run.
    fn admit(
        &self,
        placed: &mut StoredBlock,
        kind: FingerprintKind,
        wanted: Run,
        found: &mut Vec<Segment>,
        first: u32,
    ) -> Result<()> {
        let block = self.keep(placed, kind)?;
        for (index, address) in placed.addresses().enumerate() {
            let next = first + found.len() as u32;
            if address == SegmentAddress::new(wanted.container, next) && next < wanted.first + wanted.count {
                found.push(Segment { block: block.clone(), index });
            }
        }
        Ok(())
    }

    /// Decodes a block and keeps it.
    fn keep(&self, placed: &mut StoredBlock, kind: FingerprintKind) -> Result<Arc<DecodedBlock>> {
        let block = Arc::new(DecodedBlock::new(placed, kind)?);
        self.inner.lock().expect("no panic holds it").insert(placed, block.clone());
        Ok(block)
    }
}

/// Leaves out the runs that begin where the block of one before may end: it would be fetched for each of them.
fn drop_neighbours(runs: &mut Vec<Run>) {
    let mut last: Option<Run> = None;
    runs.retain(|run| {
        let is_neighbour = |last: Run| {
            let end = last.first.saturating_add(last.count).saturating_add(SEGMENTS_OF_A_BLOCK);
            last.container == run.container && (last.first..end).contains(&run.first)
        };
        let is_apart = !last.is_some_and(is_neighbour);
        if is_apart {
            last = Some(*run);
        }
        is_apart
    });
}

impl Inner {
    fn find(&self, address: SegmentAddress) -> Option<Segment> {
        let key = (address.container, address.ordinal);
        let (first, (count, block, index)) = self.labels.range(..=key).next_back()?;
        if first.0 != address.container || address.ordinal - first.1 >= *count {
            return None;
        }
        let ahead = address.ordinal - first.1;
        Some(Segment { block: block.clone(), index: index + ahead as usize })
    }

    fn insert(&mut self, placed: &StoredBlock, block: Arc<DecodedBlock>) {
        let bytes = block.raw.len();
        let mut keys = Vec::with_capacity(placed.labels.len());
        let mut index = 0;
        for label in &placed.labels {
            let key = (label.container, label.first);
            self.labels.insert(key, (label.count, block.clone(), index));
            keys.push(key);
            index += label.count as usize;
        }
        self.order.push_back((keys, block));
        self.bytes += bytes;
        while self.bytes > CACHE_BYTES {
            let Some((keys, oldest)) = self.order.pop_front() else { break };
            for key in keys {
                // The same block may have come again since.
                if self.labels.get(&key).is_some_and(|(_, block, _)| Arc::ptr_eq(block, &oldest)) {
                    self.labels.remove(&key);
                }
            }
            self.bytes -= oldest.raw.len();
        }
    }
}

//! Segments out: decoded blocks, kept a while because the next segment wanted is mostly in the same block. Behind them
//! those of a remote store are kept encoded, too.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use format::{Block, Fingerprint, FingerprintKind, Run, SegmentAddress, SegmentEntry};
use store::{SegmentStore, StoredBlock};

use crate::Result;
use crate::block_map::BlockMap;
use crate::encoded_blocks::{ENCODED_BYTES, EncodedBlocks};

/// Decoded bytes the cache holds at most.
const DECODED_BYTES: usize = 64 << 20;

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
    /// `raw` is what the block decodes to, and was compared with its fingerprints.
    fn new(block: &Block, raw: Vec<u8>) -> Self {
        let ends = block.segments.iter().scan(0, |end, segment| {
            *end += segment.bytes as usize;
            Some(*end)
        });
        let fingerprints = block.segments.iter().map(|segment| segment.fingerprint).collect();
        DecodedBlock { ends: ends.collect(), fingerprints, raw }
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

/// Blocks by the addresses of their segments, decoded, and those of remote stores encoded. No lock is held while a block is
/// decoded, or the store is asked.
pub(crate) struct BlockCache {
    decoded: Mutex<BlockMap<DecodedBlock>>,
    encoded: EncodedBlocks,
}

impl Default for BlockCache {
    fn default() -> Self {
        BlockCache::new(DECODED_BYTES, ENCODED_BYTES)
    }
}

impl BlockCache {
    fn new(decoded_bytes: usize, encoded_bytes: usize) -> Self {
        BlockCache { decoded: Mutex::new(BlockMap::new(decoded_bytes)), encoded: EncodedBlocks::new(encoded_bytes) }
    }

    /// Returns the segments of a run, decoded, each checked against its block's fingerprint.
    pub fn segments(&self, store: &dyn SegmentStore, kind: FingerprintKind, run: Run) -> Result<Vec<Segment>> {
        let mut found = Vec::with_capacity(run.count as usize);
        let mut next = run.first;
        let end = run.first + run.count;
        while next < end {
            let address = SegmentAddress::new(run.container, next);
            if let Some(segment) = self.find(address, kind) {
                found.push(segment);
                next += 1;
                continue;
            }
            let missing = self.missing_from(Run { first: next, count: end - next, ..run });
            for placed in store.get(missing)? {
                self.admit((store, placed), kind, missing, &mut found, run.first)?;
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
            let mut missing: Vec<_> = runs.iter().filter_map(|run| self.missing_of(*run, kind)).collect();
            if !with_neighbours {
                drop_neighbours(&mut missing);
            }
            if missing.is_empty() || !is_wanted() {
                return;
            }
            let _ = store.get_each(&missing, &mut |blocks| {
                blocks.into_iter().for_each(|placed| drop(self.keep(store, placed, kind)));
                is_wanted()
            });
        }
    }

    /// Returns the run from its first segment on that is not kept, once what is kept encoded before that is decoded.
    fn missing_of(&self, run: Run, kind: FingerprintKind) -> Option<Run> {
        let kept = run.addresses().take_while(|address| self.find(*address, kind).is_some()).count() as u32;
        (kept < run.count).then(|| Run { first: run.first + kept, count: run.count - kept, ..run })
    }

    /// Returns fingerprint and length of each segment of the run, if all are kept.
    pub fn entries(&self, run: Run) -> Option<Vec<SegmentEntry>> {
        let entry = |address| match self.find_decoded(address) {
            Some(segment) => Some(segment.entry()),
            None => self.encoded.entry(address),
        };
        run.addresses().map(entry).collect()
    }

    /// Returns a segment that is kept, decoded or to be decoded.
    fn find(&self, address: SegmentAddress, kind: FingerprintKind) -> Option<Segment> {
        self.find_decoded(address).or_else(|| self.decode_kept(address, kind))
    }

    fn find_decoded(&self, address: SegmentAddress) -> Option<Segment> {
        let decoded = self.decoded();
        decoded.find(address).map(|(block, index)| Segment { block: block.clone(), index })
    }

    /// Decodes the kept block that holds a segment, and checks it as if it had just come. One that does not pass any more is
    /// asked for again.
    fn decode_kept(&self, address: SegmentAddress, kind: FingerprintKind) -> Option<Segment> {
        let placed = self.encoded.get(address)?;
        let raw = segment::decode_verified(&placed.block, kind).ok()?;
        let index = placed.addresses().position(|found| found == address)?;
        let block = Arc::new(DecodedBlock::new(&placed.block, raw));
        self.decoded().insert(&placed.labels, block.clone(), block.raw.len());
        Some(Segment { block, index })
    }

    /// Returns the segments from the run's first on, which is not kept, up to the next that is.
    fn missing_from(&self, run: Run) -> Run {
        let stop = self.decoded().next_label(run).min(self.encoded.next_label(run));
        Run { count: stop - run.first, ..run }
    }

    /// Caches a block and appends those of its segments that are wanted and come next: `found` begins with the segment
    /// `first`, and blocks come in the order of the run.
    fn admit(
        &self,
        (store, placed): (&dyn SegmentStore, StoredBlock),
        kind: FingerprintKind,
        wanted: Run,
        found: &mut Vec<Segment>,
        first: u32,
    ) -> Result<()> {
        let addresses: Vec<_> = placed.addresses().collect();
        let block = self.keep(store, placed, kind)?;
        for (index, address) in addresses.into_iter().enumerate() {
            let next = first + found.len() as u32;
            if address == SegmentAddress::new(wanted.container, next) && next < wanted.first + wanted.count {
                found.push(Segment { block: block.clone(), index });
            }
        }
        Ok(())
    }

    /// Decodes a block and keeps it.
    fn keep(
        &self,
        store: &dyn SegmentStore,
        mut placed: StoredBlock,
        kind: FingerprintKind,
    ) -> Result<Arc<DecodedBlock>> {
        let raw = segment::take_verified(&mut placed.block, kind)?;
        let block = Arc::new(DecodedBlock::new(&placed.block, raw));
        self.decoded().insert(&placed.labels, block.clone(), block.raw.len());
        let is_remote = placed.labels.first().is_some_and(|label| store.is_remote(label.container));
        // An uncompressed payload was taken out.
        if is_remote && !placed.block.payload.is_empty() {
            self.encoded.keep(placed);
        }
        Ok(block)
    }

    fn decoded(&self) -> MutexGuard<'_, BlockMap<DecodedBlock>> {
        self.decoded.lock().expect("no panic holds it")
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use format::{BlockKind, CodecChoice, ContainerId, Label};
    use random::Random;
    use store::{Answer, ClaimOwner, Error, get_one_by_one};

    use super::*;

    const KIND: FingerprintKind = FingerprintKind::Blake3;
    const CONTAINER: ContainerId = ContainerId(1);
    const SEGMENTS: u32 = 32;
    const BLOCK_BYTES: usize = SEGMENTS as usize * (8 << 10);

    /// Counts the blocks that it hands out.
    struct Counting {
        blocks: Vec<Block>,
        is_remote: bool,
        given: AtomicUsize,
    }

    impl Counting {
        fn new(count: usize, content: impl Fn(usize) -> Vec<u8>, is_remote: bool) -> Self {
            let blocks = (0..count).map(|number| block(&content(number))).collect();
            Counting { blocks, is_remote, given: AtomicUsize::new(0) }
        }

        fn placed(&self, number: usize) -> StoredBlock {
            let label = Label { container: CONTAINER, first: number as u32 * SEGMENTS, count: SEGMENTS };
            StoredBlock { labels: vec![label], block: self.blocks[number].clone() }
        }

        /// Reads the whole through the cache in requests of so many segments, and checks each byte.
        fn read(&self, cache: &BlockCache, segments: u32) {
            let end = self.blocks.len() as u32 * SEGMENTS;
            let plain: Vec<_> = self.blocks.iter().flat_map(|block| segment::decode(block).unwrap()).collect();
            let mut read = Vec::new();
            for first in (0..end).step_by(segments as usize) {
                let run = Run { container: CONTAINER, first, count: segments.min(end - first) };
                cache.segments(self, KIND, run).unwrap().iter().for_each(|segment| read.extend_from_slice(segment));
            }
            assert!(read == plain);
        }

        fn given(&self) -> usize {
            self.given.load(Ordering::Relaxed)
        }
    }

    impl SegmentStore for Counting {
        fn missing(&self, _: ClaimOwner, _: &[Fingerprint]) -> store::Result<Vec<Answer>> {
            unreachable!("nothing is put")
        }

        fn await_claims(&self, _: ClaimOwner, _: &[Fingerprint]) -> store::Result<Vec<Answer>> {
            unreachable!("nothing is put")
        }

        fn put(&self, _: ClaimOwner, _: &Block) -> store::Result<Run> {
            unreachable!("nothing is put")
        }

        fn is_remote(&self, _: ContainerId) -> bool {
            self.is_remote
        }

        fn release(&self, _: ClaimOwner) {}

        fn get(&self, run: Run) -> store::Result<Vec<StoredBlock>> {
            let numbers = run.first / SEGMENTS..(run.first + run.count).div_ceil(SEGMENTS);
            if numbers.end as usize > self.blocks.len() {
                return Err(Error::NotFound { what: run.container.to_string() });
            }
            self.given.fetch_add(numbers.len(), Ordering::Relaxed);
            Ok(numbers.map(|number| self.placed(number as usize)).collect())
        }

        fn get_each(&self, runs: &[Run], take: &mut dyn FnMut(Vec<StoredBlock>) -> bool) -> store::Result<()> {
            get_one_by_one(self, runs, take)
        }

        fn entries(&self, _: Run) -> store::Result<Vec<SegmentEntry>> {
            unreachable!("only blocks are read")
        }

        fn make_durable(&self) -> store::Result<()> {
            Ok(())
        }
    }

    fn block(content: &[u8]) -> Block {
        let segments = content.chunks(8 << 10).map(|bytes| (segment::fingerprint(KIND, bytes), bytes));
        segment::encode(BlockKind::Data, &segments.collect::<Vec<_>>(), CodecChoice::Zstd(1), 0)
    }

    /// Bytes of which an eighth are random.
    fn compressible(number: usize) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let random = Random::new(number as u64 + 1).bytes(BLOCK_BYTES / 8);
        bytes.chunks_exact_mut(8).zip(random).for_each(|(eight, byte)| eight[0] = byte);
        bytes
    }

    /// A cache of four decoded blocks, and as much memory for encoded ones.
    fn small_cache() -> BlockCache {
        BlockCache::new(4 * BLOCK_BYTES, 4 * BLOCK_BYTES)
    }

    #[test]
    fn a_remote_working_set_of_three_times_the_decoded_cache_is_asked_for_once() {
        for segments in [1, 5, SEGMENTS, 3 * SEGMENTS + 1] {
            let (store, cache) = (Counting::new(12, compressible, true), small_cache());
            store.read(&cache, segments);
            store.read(&cache, segments);
            assert_eq!(store.given(), 12, "requests of {segments} segments");
            let decoded = cache.decoded().bytes();
            assert!(decoded <= 4 * BLOCK_BYTES, "{decoded} bytes decoded");
        }
    }

    #[test]
    fn what_is_kept_encoded_is_not_fetched_ahead_again_and_its_list_is_known() {
        let (store, cache) = (Counting::new(12, compressible, true), small_cache());
        store.read(&cache, SEGMENTS);
        let whole = Run { container: CONTAINER, first: 0, count: 12 * SEGMENTS };
        let entries = cache.entries(whole).expect("all blocks are kept in one of the forms");
        let listed: Vec<_> = store.blocks.iter().flat_map(|block| block.segments.clone()).collect();
        assert_eq!(entries, listed);
        cache.fetch(&store, KIND, &[Run { count: 3 * SEGMENTS, ..whole }], || true);
        store.read(&cache, SEGMENTS);
        assert_eq!(store.given(), 12);
    }

    #[test]
    fn blocks_of_this_machine_and_uncompressed_ones_are_kept_decoded_only() {
        let random = |number: usize| Random::new(number as u64 + 1).bytes(BLOCK_BYTES);
        for store in [Counting::new(12, compressible, false), Counting::new(12, random, true)] {
            let cache = small_cache();
            store.read(&cache, SEGMENTS);
            store.read(&cache, SEGMENTS);
            assert_eq!((store.given(), cache.encoded.bytes()), (24, 0));
        }
    }

    #[test]
    fn encoded_blocks_stay_within_their_bound_and_the_newest_are_kept() {
        let (store, cache) = (Counting::new(40, compressible, true), small_cache());
        store.read(&cache, SEGMENTS);
        assert!((3 * BLOCK_BYTES..=4 * BLOCK_BYTES).contains(&cache.encoded.bytes()));
        let last = Run { container: CONTAINER, first: 30 * SEGMENTS, count: 10 * SEGMENTS };
        cache.segments(&store, KIND, last).unwrap();
        assert_eq!(store.given(), 40);
    }

    #[test]
    fn a_kept_block_that_does_not_match_its_fingerprints_is_asked_for_again() {
        let (store, cache) = (Counting::new(1, compressible, true), small_cache());
        let mut altered = store.placed(0);
        altered.block.segments[3].fingerprint.0[0] ^= 1;
        cache.encoded.keep(altered);
        store.read(&cache, SEGMENTS);
        assert_eq!(store.given(), 1);
    }
}

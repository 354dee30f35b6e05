//! Blocks by the addresses of their segments, bounded in bytes: the form in which decoded and encoded blocks are cached alike.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use format::{ContainerId, Label, Run, SegmentAddress};

/// The container and the number of a segment.
type Place = (ContainerId, u32);

/// A cached block, and what it takes in memory.
struct Entry<B> {
    /// First places of its labels.
    places: Vec<Place>,
    block: Arc<B>,
    bytes: usize,
}

/// The oldest blocks go first, those [used](BlockMap::mark_used) meanwhile later.
pub(crate) struct BlockMap<B> {
    /// By first place of a label: how many segments, the block, and the index in it where the label begins.
    labels: BTreeMap<Place, (u32, Arc<B>, usize)>,
    order: VecDeque<Entry<B>>,
    /// The addresses in memory of blocks used since they came, or since they were last spared.
    used: HashSet<usize>,
    bytes: usize,
    max_bytes: usize,
}

impl<B> BlockMap<B> {
    pub fn new(max_bytes: usize) -> Self {
        BlockMap { labels: BTreeMap::new(), order: VecDeque::new(), used: HashSet::new(), bytes: 0, max_bytes }
    }

    /// Returns the block that holds a segment, and the segment's index in it.
    pub fn find(&self, address: SegmentAddress) -> Option<(&Arc<B>, usize)> {
        let key = (address.container, address.ordinal);
        let (first, (count, block, index)) = self.labels.range(..=key).next_back()?;
        if first.0 != address.container || address.ordinal - first.1 >= *count {
            return None;
        }
        Some((block, index + (address.ordinal - first.1) as usize))
    }

    /// Returns the first number behind that of the run's first segment at which a cached label begins, at most the run's end.
    pub fn next_label(&self, run: Run) -> u32 {
        let end = run.first + run.count;
        let behind =
            (run.container, run.first.saturating_add(1))..(run.container, end.max(run.first.saturating_add(1)));
        self.labels.range(behind).next().map_or(end, |(key, _)| key.1)
    }

    /// Adds a block that takes so much memory, and drops the oldest ones once all take too much.
    pub fn insert(&mut self, labels: &[Label], block: Arc<B>, bytes: usize) {
        let mut places = Vec::with_capacity(labels.len());
        let mut index = 0;
        for label in labels {
            let place = (label.container, label.first);
            self.labels.insert(place, (label.count, block.clone(), index));
            places.push(place);
            index += label.count as usize;
        }
        self.order.push_back(Entry { places, block, bytes });
        self.bytes += bytes;
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            self.drop_or_spare(oldest);
        }
    }

    /// Returns the memory that all blocks take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Spares the block once when it is the oldest.
    pub fn mark_used(&mut self, block: &Arc<B>) {
        self.used.insert(Arc::as_ptr(block).addr());
    }

    fn drop_or_spare(&mut self, oldest: Entry<B>) {
        if self.used.remove(&Arc::as_ptr(&oldest.block).addr()) {
            self.order.push_back(oldest);
            return;
        }
        for place in oldest.places {
            // The same block may have come again since.
            if self.labels.get(&place).is_some_and(|(_, block, _)| Arc::ptr_eq(block, &oldest.block)) {
                self.labels.remove(&place);
            }
        }
        self.bytes -= oldest.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(first: u32, count: u32) -> Label {
        Label { container: ContainerId(1), first, count }
    }

    fn found(map: &BlockMap<&'static str>, ordinal: u32) -> Option<(&'static str, usize)> {
        map.find(SegmentAddress::new(ContainerId(1), ordinal)).map(|(block, index)| (**block, index))
    }

    #[test]
    fn segments_are_found_by_all_labels_of_their_block() {
        let mut map = BlockMap::new(100);
        map.insert(&[label(10, 3), label(20, 2)], Arc::new("a"), 1);
        assert_eq!(
            [9, 10, 12, 13, 20, 21, 22].map(|ordinal| found(&map, ordinal).map(|(_, index)| index)),
            [None, Some(0), Some(2), None, Some(3), Some(4), None]
        );
        let next = |first, count| map.next_label(Run { container: ContainerId(1), first, count });
        assert_eq!([next(0, 5), next(0, 50), next(10, 50), next(20, 50)], [5, 10, 20, 70]);
    }

    #[test]
    fn the_oldest_go_first_and_used_ones_later() {
        let mut map = BlockMap::new(10);
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            map.insert(&[label(number as u32, 1)], Arc::new(name), 4);
        }
        assert_eq!((found(&map, 0), found(&map, 1), found(&map, 2)), (None, Some(("b", 0)), Some(("c", 0))));
        let used = map.find(SegmentAddress::new(ContainerId(1), 1)).map(|(block, _)| block.clone());
        map.mark_used(&used.unwrap());
        map.insert(&[label(3, 1)], Arc::new("d"), 4);
        assert_eq!((found(&map, 1), found(&map, 2)), (Some(("b", 0)), None), "the used one was spared");
        map.insert(&[label(4, 1)], Arc::new("e"), 4);
        map.insert(&[label(5, 1)], Arc::new("f"), 4);
        assert_eq!((found(&map, 1), map.bytes), (None, 8), "and goes when it is not used again");
    }

    #[test]
    fn a_block_that_came_again_outlives_its_older_copy() {
        let mut map = BlockMap::new(10);
        map.insert(&[label(0, 1)], Arc::new("old"), 4);
        map.insert(&[label(0, 1)], Arc::new("new"), 4);
        map.insert(&[label(1, 1)], Arc::new("b"), 4);
        assert_eq!((found(&map, 0), map.bytes), (Some(("new", 0)), 8));
    }
}

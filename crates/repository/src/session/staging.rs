//! Bytes that have come and are not yet in the store: segments in pieces, and whole ones waiting to be reduced.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::assembly::Assembly;
use super::budget::Budget;
use super::sources::Source;

/// A whole segment: a slice of the payload it came in.
#[derive(Clone)]
pub(super) struct Whole {
    payload: Arc<Vec<u8>>,
    at: usize,
    bytes: u32,
    /// The newest of its parts'.
    pub stamp: u64,
    /// When each part of it came.
    pub parts: Parts,
    generation: u64,
}

/// Ranges of a segment, in order, each with its stamp.
pub(super) type Parts = Vec<(Range<u32>, u64)>;

impl std::ops::Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.payload[self.at..self.at + self.bytes as usize]
    }
}

/// A piece as it arrived.
pub(super) struct Arrived {
    pub payload: Arc<Vec<u8>>,
    pub stamp: u64,
    pub source: Source,
    pub sequence: u64,
}

struct Partial {
    assembly: Assembly,
    generation: u64,
}

/// Fragments of segments that are not whole: where each begins, its bytes, and when they came.
pub(super) type Fragments = Vec<(u64, Vec<u8>, u64)>;

pub(super) struct Staging {
    segment_bytes: u32,
    /// Stamps below this are of pieces that came to a seat before this one and are sent again.
    first_stamp: u64,
    budget: Arc<Budget>,
    partial: BTreeMap<u64, Partial>,
    whole: BTreeMap<u64, Whole>,
    ready: VecDeque<u64>,
    /// Settles so far: what came before one is waited for by it.
    generation: u64,
    /// Whole segments not yet in the store, by generation.
    pending: BTreeMap<u64, usize>,
}

impl Staging {
    pub fn new(segment_bytes: u32, first_stamp: u64, budget: Arc<Budget>) -> Self {
        Staging {
            segment_bytes,
            first_stamp,
            budget,
            partial: BTreeMap::new(),
            whole: BTreeMap::new(),
            ready: VecDeque::new(),
            generation: 0,
            pending: BTreeMap::new(),
        }
    }

    /// Takes a piece in: `at` is where it stands in the payload, `offset` where it belongs in the file.
    pub fn take(&mut self, arrived: &Arrived, mut at: usize, mut offset: u64, mut bytes: u64) {
        while bytes > 0 {
            let index = offset / self.segment_bytes as u64;
            let within = (offset % self.segment_bytes as u64) as u32;
            let count = bytes.min((self.segment_bytes - within) as u64) as u32;
            if count == self.segment_bytes {
                self.take_whole(index, arrived, at);
            } else {
                self.take_part(index, within, arrived, at..at + count as usize);
            }
            (at, offset, bytes) = (at + count as usize, offset + count as u64, bytes - count as u64);
        }
    }

    fn take_whole(&mut self, index: u64, arrived: &Arrived, at: usize) {
        if self.newest(index) > arrived.stamp {
            // Sent again after something later had come: let the pieces sort it out.
            return self.take_part(index, 0, arrived, at..at + self.segment_bytes as usize);
        }
        self.drop_partial(index);
        let payload = arrived.payload.clone();
        let (bytes, generation, stamp) = (self.segment_bytes, self.generation, arrived.stamp);
        self.stage(index, Whole { payload, at, bytes, stamp, parts: vec![(0..bytes, stamp)], generation });
    }

    fn take_part(&mut self, index: u64, within: u32, arrived: &Arrived, range: Range<usize>) {
        let generation = self.generation;
        if let Some(whole) = self.whole.remove(&index) {
            self.unstaged(&whole);
            self.add_partial(
                index,
                Partial { assembly: Assembly::from_whole(&whole, &whole.parts), generation: whole.generation },
            );
        }
        if !self.partial.contains_key(&index) {
            self.add_partial(index, Partial { assembly: Assembly::new(self.segment_bytes), generation });
        }
        let partial = self.partial.get_mut(&index).expect("it was just made");
        partial.assembly.lay(within, &arrived.payload[range], arrived.stamp);
        partial.assembly.note_source(arrived.source, arrived.sequence, arrived.stamp);
        if partial.assembly.is_whole() {
            self.complete(index);
        }
    }

    fn complete(&mut self, index: u64) {
        let partial = self.partial.remove(&index).expect("the caller saw it");
        self.budget.give_back(self.segment_bytes as u64);
        let (stamp, parts) = (partial.assembly.newest(), partial.assembly.parts(self.first_stamp));
        let payload = Arc::new(partial.assembly.into_bytes());
        let (bytes, generation) = (self.segment_bytes, partial.generation);
        self.stage(index, Whole { payload, at: 0, bytes, stamp, parts, generation });
    }

    fn newest(&self, index: u64) -> u64 {
        let partial = self.partial.get(&index).map_or(0, |partial| partial.assembly.newest());
        self.whole.get(&index).map_or(0, |whole| whole.stamp).max(partial)
    }

    fn add_partial(&mut self, index: u64, partial: Partial) {
        self.budget.take(self.segment_bytes as u64);
        self.partial.insert(index, partial);
    }

    fn drop_partial(&mut self, index: u64) {
        if self.partial.remove(&index).is_some() {
            self.budget.give_back(self.segment_bytes as u64);
        }
    }

    fn stage(&mut self, index: u64, whole: Whole) {
        self.budget.take(whole.bytes as u64);
        *self.pending.entry(whole.generation).or_default() += 1;
        if let Some(replaced) = self.whole.insert(index, whole) {
            self.unstaged(&replaced);
        }
        self.ready.push_back(index);
    }

    fn unstaged(&mut self, whole: &Whole) {
        self.budget.give_back(whole.bytes as u64);
        let count = self.pending.get_mut(&whole.generation).expect("it was counted when it was staged");
        *count -= 1;
        if *count == 0 {
            self.pending.remove(&whole.generation);
        }
    }

    /// Up to `limit` whole segments to be reduced; they stay readable here until [`Staging::reduced`].
    pub fn next_ready(&mut self, limit: usize) -> Vec<(u64, Whole)> {
        let mut taken = Vec::with_capacity(limit);
        while taken.len() < limit {
            let Some(index) = self.ready.pop_front() else { break };
            // Gone when a later piece overwrote part of it, or queued twice: the later entry does it.
            if let Some(whole) = self.whole.get(&index) {
                taken.push((index, whole.clone()));
            }
        }
        taken
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The segment is in the store. Returns whether it still counts: not if a later write replaced it.
    pub fn reduced(&mut self, index: u64, stamp: u64) -> bool {
        let Some(whole) = self.whole.get(&index).filter(|whole| whole.stamp == stamp) else { return false };
        let whole = whole.clone();
        self.whole.remove(&index);
        self.unstaged(&whole);
        true
    }

    /// Begins a settle; returns its generation, for [`Staging::is_reduced`].
    pub fn begin_settle(&mut self) -> u64 {
        self.generation += 1;
        self.generation - 1
    }

    /// Whether everything that was whole when the settle began is in the store.
    pub fn is_reduced(&self, generation: u64) -> bool {
        self.pending.range(..=generation).next().is_none()
    }

    /// What has come of segments that are not whole, unless it is durable already. They are kept here, to be
    /// stored whole when the rest comes.
    pub fn fragments(&mut self) -> Fragments {
        let mut fragments = Vec::new();
        for (index, partial) in self.partial.iter_mut().filter(|(_, partial)| !partial.assembly.fragmented) {
            let start = index * self.segment_bytes as u64;
            for (range, stamp) in partial.assembly.parts(self.first_stamp) {
                let bytes = partial.assembly.bytes()[range.start as usize..range.end as usize].to_vec();
                fragments.push((start + range.start as u64, bytes, stamp));
            }
            partial.assembly.settled();
        }
        fragments
    }

    /// Sources and sequences of the pieces that sit, in part, in segments that are not whole.
    pub fn held(&self) -> impl Iterator<Item = (Source, u64)> + '_ {
        self.partial.values().flat_map(|partial| partial.assembly.senders())
    }

    /// Copies what is staged of the range into `into`; returns the ranges that are not.
    pub fn read(&self, range: Range<u64>, into: &mut [u8]) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let index = at / self.segment_bytes as u64;
            let start = index * self.segment_bytes as u64;
            let end = (start + self.segment_bytes as u64).min(range.end);
            let part = at..end;
            let into = &mut into[(at - range.start) as usize..(end - range.start) as usize];
            match (self.whole.get(&index), self.partial.get(&index)) {
                (Some(whole), _) => into.copy_from_slice(&whole[(at - start) as usize..(end - start) as usize]),
                (None, Some(partial)) => read_partial(&partial.assembly, start, part, into, &mut gaps),
                (None, None) => push_gap(&mut gaps, part),
            }
            at = end;
        }
        gaps
    }

    /// A whole segment is stored with content that came at `stamp`: what was staged of it before that is void.
    /// False when something newer is staged there, which must be told apart byte by byte.
    pub fn supersede(&mut self, stamp: u64, offset: u64) -> bool {
        let index = offset / self.segment_bytes as u64;
        if self.newest(index) >= stamp {
            return false;
        }
        self.drop_partial(index);
        if let Some(whole) = self.whole.remove(&index) {
            self.unstaged(&whole);
        }
        true
    }

    /// Drops what is staged from `size` on.
    pub fn cut(&mut self, size: u64) {
        let first = size / self.segment_bytes as u64;
        let keep = (size % self.segment_bytes as u64) as u32;
        let wholes: Vec<_> = self.whole.range(first..).map(|(index, _)| *index).collect();
        for index in wholes {
            let whole = self.whole.remove(&index).expect("it was just listed");
            self.unstaged(&whole);
            if index == first {
                let partial =
                    Partial { assembly: Assembly::from_whole(&whole, &whole.parts), generation: whole.generation };
                self.add_partial(index, partial);
            }
        }
        let partials: Vec<_> = self.partial.range(first..).map(|(index, _)| *index).collect();
        for index in partials {
            let partial = self.partial.remove(&index).expect("it was just listed");
            self.budget.give_back(self.segment_bytes as u64);
            if index == first && keep > 0 {
                let generation = partial.generation;
                self.add_partial(index, Partial { assembly: partial.assembly.cut(keep), generation });
            }
        }
    }

    /// Whether all that is staged is durable, as fragments.
    pub fn is_durable(&self) -> bool {
        self.whole.is_empty() && self.partial.values().all(|partial| partial.assembly.fragmented)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let bytes = (self.partial.len() + self.whole.len()) as u64 * self.segment_bytes as u64;
        self.budget.give_back(bytes);
    }
}

fn read_partial(assembly: &Assembly, start: u64, part: Range<u64>, into: &mut [u8], gaps: &mut Vec<Range<u64>>) {
    let mut at = part.start;
    for range in assembly.covered_within((part.start - start) as u32..(part.end - start) as u32) {
        let covered = start + range.start as u64..start + range.end as u64;
        push_gap(gaps, at..covered.start);
        let from = (covered.start - start) as usize..(covered.end - start) as usize;
        let to = (covered.start - part.start) as usize..(covered.end - part.start) as usize;
        into[to].copy_from_slice(&assembly.bytes()[from]);
        at = covered.end;
    }
    push_gap(gaps, at..part.end);
}

fn push_gap(gaps: &mut Vec<Range<u64>>, gap: Range<u64>) {
    match gaps.last_mut() {
        _ if gap.is_empty() => {}
        Some(last) if last.end == gap.start => last.end = gap.end,
        _ => gaps.push(gap),
    }
}

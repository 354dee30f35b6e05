//! Segments that are in the store but in no checkpoint yet, by where they stand in the file.

use std::collections::BTreeMap;
use std::ops::Range;

use format::{Entry, EntryKind, Fingerprint, Place, Run, run_digest};

/// What a stretch of the file is made of.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// `bytes` is the whole segment's length.
    Segment {
        place: Place,
        fingerprint: Fingerprint,
        bytes: u32,
        skip: u32,
    },
    Zero,
}

#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub length: u64,
    pub content: Content,
    pub stamp: u64,
}

impl Stretch {
    /// `length` bytes of it, from `from` on.
    pub fn cut(&self, from: u64, length: u64) -> Stretch {
        let content = match self.content {
            Content::Segment { place, fingerprint, bytes, skip } => {
                Content::Segment { place, fingerprint, bytes, skip: skip + from as u32 }
            }
            Content::Zero => Content::Zero,
        };
        Stretch { length, content, stamp: self.stamp }
    }

    pub fn entry(&self) -> Entry {
        let kind = match self.content {
            Content::Segment { place, fingerprint, skip, .. } => {
                EntryKind::Data { run: Run::single(place), skip, digest: run_digest([&fingerprint]) }
            }
            Content::Zero => EntryKind::Zero,
        };
        Entry { length: self.length, kind }
    }
}

/// Stretches by offset; they never overlap.
#[derive(Default)]
pub(super) struct Fresh {
    stretches: BTreeMap<u64, Stretch>,
}

impl Fresh {
    /// Lays a stretch over what was written before it; what was written later stays on top.
    pub fn lay(&mut self, offset: u64, stretch: Stretch) {
        for part in self.older_than(stretch.stamp, offset..offset + stretch.length) {
            self.clear(part.clone());
            self.stretches.insert(part.start, stretch.cut(part.start - offset, part.end - part.start));
        }
    }

    pub fn clear(&mut self, range: Range<u64>) {
        let touched: Vec<_> = self.overlapping(range.clone()).map(|(offset, _)| offset).collect();
        for offset in touched {
            let stretch = self.stretches.remove(&offset).expect("it was just found");
            let end = offset + stretch.length;
            if offset < range.start {
                self.stretches.insert(offset, stretch.cut(0, range.start - offset));
            }
            if end > range.end {
                self.stretches.insert(range.end, stretch.cut(range.end - offset, end - range.end));
            }
        }
    }

    /// The parts of the range that nothing later than `stamp` covers.
    pub fn older_than(&self, stamp: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let newer = self.overlapping(range.clone()).filter(|(_, stretch)| stretch.stamp > stamp);
        gaps_between(range, newer.map(|(offset, stretch)| offset..offset + stretch.length))
    }

    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Stretch)> + '_ {
        let before = self.stretches.range(..range.start).next_back();
        let before = before.filter(move |(offset, stretch)| *offset + stretch.length > range.start);
        let within = self.stretches.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).map(|(offset, stretch)| (*offset, *stretch))
    }

    pub fn copy(&self) -> BTreeMap<u64, Stretch> {
        self.stretches.clone()
    }

    /// Takes away a stretch that was copied before, unless something was laid over it since.
    pub fn drop_if_unchanged(&mut self, offset: u64, copied: &Stretch) {
        let same = |now: &Stretch| now.stamp == copied.stamp && now.length == copied.length;
        if self.stretches.get(&offset).is_some_and(same) {
            self.stretches.remove(&offset);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }
}

/// The same content as entries: neighbours in file and container that arrived together become one.
pub(super) fn runs_by_stamp(stretches: &BTreeMap<u64, Stretch>) -> Vec<(u64, Entry, u64)> {
    let mut runs = Vec::new();
    let mut group: Vec<(u64, Stretch)> = Vec::new();
    for (offset, stretch) in stretches {
        if !group.last().is_some_and(|(at, last)| continues(*at, last, *offset, stretch)) {
            runs.extend(joined(&group));
            group.clear();
        }
        group.push((*offset, *stretch));
    }
    runs.extend(joined(&group));
    runs
}

fn continues(at: u64, last: &Stretch, offset: u64, next: &Stretch) -> bool {
    let (Content::Segment { place, bytes, skip, .. }, Content::Segment { place: other, skip: 0, .. }) =
        (last.content, next.content)
    else {
        return false;
    };
    let to_its_end = skip as u64 + last.length == bytes as u64;
    let follows = other.container == place.container && other.ordinal == place.ordinal + 1;
    to_its_end && follows && at + last.length == offset && last.stamp == next.stamp
}

fn joined(group: &[(u64, Stretch)]) -> Option<(u64, Entry, u64)> {
    let (offset, first) = group.first()?;
    let Content::Segment { place, skip, .. } = first.content else {
        return Some((*offset, first.entry(), first.stamp));
    };
    let named = group.iter().filter_map(|(_, stretch)| match &stretch.content {
        Content::Segment { fingerprint, .. } => Some(fingerprint),
        Content::Zero => None,
    });
    let digest = run_digest(named);
    let run = Run { container: place.container, first: place.ordinal, count: group.len() as u32 };
    let length = group.iter().map(|(_, stretch)| stretch.length).sum();
    Some((*offset, Entry { length, kind: EntryKind::Data { run, skip, digest } }, first.stamp))
}

/// What of `range` is left between the given ranges, which come in order and do not overlap.
pub(super) fn gaps_between(range: Range<u64>, covered: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    for part in covered {
        if at < part.start {
            gaps.push(at..part.start.min(range.end));
        }
        at = at.max(part.end);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeros(length: u64, stamp: u64) -> Stretch {
        Stretch { length, content: Content::Zero, stamp }
    }

    #[test]
    fn later_stretches_stay_on_top() {
        let mut fresh = Fresh::default();
        fresh.lay(10, zeros(10, 5));
        fresh.lay(0, zeros(30, 3));
        let found: Vec<_> = fresh.overlapping(0..30).map(|(at, stretch)| (at, stretch.length, stretch.stamp)).collect();
        assert_eq!(found, [(0, 10, 3), (10, 10, 5), (20, 10, 3)]);
        fresh.clear(5..15);
        let found: Vec<_> = fresh.overlapping(0..30).map(|(at, stretch)| (at, stretch.length)).collect();
        assert_eq!(found, [(0, 5), (15, 5), (20, 10)]);
    }
}

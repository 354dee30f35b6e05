//! A settle, step by step: what was whole when it began is stored, then fragments of the rest if they are asked for,
//! then a checkpoint of everything stored since the last one is recorded; then the senders may forget their pieces.

use std::ops::Range;
use std::sync::Arc;

use format::Entry;

use super::content_map::{Content, Extent, Listing, StoredSegment};
use super::sources::{DurableUpTo, Frontier};
use super::storing::Work;
use super::write_session::WriteSession;

/// Segments stored in one go: a block's worth at 8 KiB.
pub(super) const SEGMENTS_AT_ONCE: usize = 32;

/// A settle under way; there is one at a time.
pub(super) struct Settle {
    fragments: bool,
    epoch: Option<u64>,
    generation: u64,
    frontier: Frontier,
    /// Some pieces sit in segments that are not whole.
    some_held_back: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Whole,
    Fragments,
    Recording,
}

/// What a settle needs done next. After each but the last, its event must follow before the next step is asked for.
pub(super) enum Step {
    /// [`WriteSession::stored`] must follow.
    Store(Vec<Work>),
    /// The rest is in the hands of others who store.
    Wait,
    /// [`WriteSession::recorded`] must follow.
    Record(Taken),
    /// The settle has ended; how far each source's pieces are durable now, where that moved.
    Done(Vec<DurableUpTo>),
}

/// A stretch of the file that is stored and in no checkpoint.
pub(super) struct Stretch {
    pub offset: u64,
    pub length: u64,
    pub stamp: u64,
    /// A segment, and how many of its bytes are skipped; else zeros.
    pub segment: Option<(Arc<StoredSegment>, u32)>,
}

/// What a checkpoint is to hold.
pub(super) struct Taken {
    pub stretches: Vec<Stretch>,
    pub size: u64,
    pub resized: bool,
    pub epoch: u64,
    pub number: u64,
    pub frontier: Vec<(u64, u32, u64)>,
    /// Pieces older than some of this may still come.
    pub needs_stamps: bool,
    /// The store was asked about the stretches since this epoch of the writer's session.
    pub relied_epoch: u64,
}

impl WriteSession {
    /// A settle begins, unless another is under way. With `fragments`, segments that are not whole are stored as they
    /// are; without, they wait for the rest. With `epoch`, that epoch begins.
    pub fn begin_settle(&mut self, fragments: bool, epoch: Option<u64>) -> bool {
        if self.settle.is_some() {
            return false;
        }
        self.unsettled_bytes = 0;
        let (generation, frontier) = (self.generation, self.sources.frontier());
        self.generation += 1;
        let (some_held_back, phase) = (false, Phase::Whole);
        self.settle = Some(Settle { fragments, epoch, generation, frontier, some_held_back, phase });
        true
    }

    /// What the settle under way needs next; `lease_epoch` is the writer's session's now.
    pub fn next_step(&mut self, lease_epoch: u64) -> Step {
        let Some(mut settle) = self.settle.take() else { return Step::Done(Vec::new()) };
        let step = self.step(&mut settle, lease_epoch);
        match step {
            Some(step) => {
                self.settle = Some(settle);
                step
            }
            None => Step::Done(self.end(settle)),
        }
    }

    fn step(&mut self, settle: &mut Settle, lease_epoch: u64) -> Option<Step> {
        if settle.phase == Phase::Whole {
            if !self.is_stored(settle.generation) {
                let works = self.take_work(SEGMENTS_AT_ONCE);
                return Some(if works.is_empty() { Step::Wait } else { Step::Store(works) });
            }
            settle.phase = Phase::Fragments;
            let works = if settle.fragments { self.take_fragments() } else { Vec::new() };
            let held = self.buffers.iter().filter(|(_, buffer)| !buffer.is_due);
            settle.some_held_back = settle.frontier.hold(held.flat_map(|(_, buffer)| buffer.senders()));
            if !works.is_empty() {
                return Some(Step::Store(works));
            }
        }
        if settle.phase == Phase::Fragments {
            settle.phase = Phase::Recording;
            return self.take_unlisted(settle, lease_epoch).map(Step::Record);
        }
        None
    }

    fn end(&mut self, settle: Settle) -> Vec<DurableUpTo> {
        self.progress += 1;
        self.epoch = self.epoch.max(settle.epoch.unwrap_or(0));
        self.sources.durable(settle.frontier)
    }

    fn take_unlisted(&mut self, settle: &Settle, lease_epoch: u64) -> Option<Taken> {
        let stretches = self.take_stretches();
        if stretches.is_empty() && !self.size_is_new {
            return None;
        }
        let number = self.next_checkpoint;
        self.next_checkpoint += 1;
        self.size_is_new = false;
        let resized = std::mem::take(&mut self.resized);
        // Where the file was cut, pieces that are not durable must not come again above the cut.
        let needs_stamps = settle.some_held_back || resized || !self.is_first() || self.sources.has_offers();
        let relied_epoch = std::mem::replace(&mut self.relied_epoch, u64::MAX).min(lease_epoch);
        let (frontier, size) = (settle.frontier.without_gaps(), self.size);
        let epoch = settle.epoch.unwrap_or(self.epoch);
        Some(Taken { stretches, size, resized, epoch, number, frontier, needs_stamps, relied_epoch })
    }

    /// Copies what is stored and in no checkpoint; readers find it here as before.
    fn take_stretches(&mut self) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        for range in joined(std::mem::take(&mut self.changed)) {
            self.map.update(range, |offset, extent| {
                if extent.listing == Listing::Pending && !extent.is_staged() {
                    extent.listing = Listing::Underway;
                    stretches.push(Stretch::of(offset, extent));
                }
            });
        }
        stretches
    }

    /// The checkpoint is recorded; it lists these entries, at these offsets.
    pub fn recorded(&mut self, entries: Vec<(u64, Entry)>) {
        self.progress += 1;
        for (offset, entry) in entries {
            let range = offset..offset + entry.length;
            let listed = Extent::recorded(entry);
            self.map.update(range.clone(), |start, extent| {
                if extent.listing == Listing::Underway {
                    extent.listing = Listing::Recorded;
                    extent.content = match &listed.content {
                        Content::Entry { entry, .. } => Content::Entry { entry: entry.clone(), from: start - offset },
                        other => other.clone(),
                    };
                }
            });
            self.join(range, None);
        }
    }

    /// Whether a checkpoint is being recorded.
    pub fn is_recording(&self) -> bool {
        self.settle.as_ref().is_some_and(|settle| settle.phase == Phase::Recording)
    }
}

impl Stretch {
    fn of(offset: u64, extent: &Extent) -> Self {
        let segment = match &extent.content {
            Content::Segment { segment, skip } => Some((segment.clone(), *skip)),
            _ => None,
        };
        Stretch { offset, length: extent.end - offset, stamp: extent.stamp, segment }
    }
}

/// The same bytes as ranges in order that do not touch.
pub(super) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

//! A checkpoint, step by step: segments whole when it began are stored, then fragments of the rest if they are asked
//! for, then a checkpoint of everything stored since the last one is recorded; then the senders may forget their
//! pieces.

use std::ops::Range;
use std::sync::Arc;

use format::Entry;

use super::content_map::{CheckpointState, Content, Extent, StoredSegment};
use super::sources::{DurableUpTo, Frontier};
use super::storing::StoreWork;
use super::write_session::WriteSession;

/// Segments stored in one go: a block's worth at 8 KiB.
pub(super) const SEGMENTS_AT_ONCE: usize = 32;

/// A checkpoint under way; there is one at a time.
pub(super) struct CheckpointRun {
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

/// The next step of a checkpoint. After each but the last, its event must follow before the next step is asked for.
pub(super) enum Step {
    /// [`WriteSession::stored`] must follow.
    Store(Vec<StoreWork>),
    /// Other threads store the rest.
    Wait,
    /// [`WriteSession::recorded`] must follow.
    Record(CheckpointContent),
    /// The checkpoint has ended; how far each source's pieces are durable now, where that moved.
    Done(Vec<DurableUpTo>),
}

/// A stretch of the file that is stored and in no checkpoint.
pub(super) struct WrittenRange {
    pub offset: u64,
    pub length: u64,
    pub stamp: u64,
    /// A segment, and how many of its bytes are skipped; else zeros.
    pub segment: Option<(Arc<StoredSegment>, u32)>,
}

/// The content of a checkpoint.
pub(super) struct CheckpointContent {
    pub stretches: Vec<WrittenRange>,
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
    /// Begins a checkpoint, unless another is under way. With `fragments`, segments that are not whole are stored as
    /// they are; without, they wait for the rest. With `epoch`, that epoch begins.
    pub fn begin_checkpoint(&mut self, fragments: bool, epoch: Option<u64>) -> bool {
        if self.checkpoint.is_some() {
            return false;
        }
        self.uncheckpointed_bytes = 0;
        let (generation, frontier) = (self.generation, self.sources.frontier());
        self.generation += 1;
        let (some_held_back, phase) = (false, Phase::Whole);
        self.checkpoint = Some(CheckpointRun { fragments, epoch, generation, frontier, some_held_back, phase });
        true
    }

    /// Returns the next step of the checkpoint under way; `lease_epoch` is the writer's session's now.
    pub fn next_step(&mut self, lease_epoch: u64) -> Step {
        let Some(mut checkpoint) = self.checkpoint.take() else { return Step::Done(Vec::new()) };
        let step = self.step(&mut checkpoint, lease_epoch);
        match step {
            Some(step) => {
                self.checkpoint = Some(checkpoint);
                step
            }
            None => Step::Done(self.end(checkpoint)),
        }
    }

    fn step(&mut self, checkpoint: &mut CheckpointRun, lease_epoch: u64) -> Option<Step> {
        if checkpoint.phase == Phase::Whole {
            if !self.is_stored(checkpoint.generation) {
                let works = self.take_work(SEGMENTS_AT_ONCE);
                return Some(if works.is_empty() { Step::Wait } else { Step::Store(works) });
            }
            checkpoint.phase = Phase::Fragments;
            let works = if checkpoint.fragments { self.take_fragments() } else { Vec::new() };
            let held = self.buffers.iter().filter(|(_, buffer)| !buffer.is_due);
            checkpoint.some_held_back = checkpoint.frontier.hold(held.flat_map(|(_, buffer)| buffer.senders()));
            if !works.is_empty() {
                return Some(Step::Store(works));
            }
        }
        if checkpoint.phase == Phase::Fragments {
            checkpoint.phase = Phase::Recording;
            return self.take_unlisted(checkpoint, lease_epoch).map(Step::Record);
        }
        None
    }

    fn end(&mut self, checkpoint: CheckpointRun) -> Vec<DurableUpTo> {
        self.progress += 1;
        self.epoch = self.epoch.max(checkpoint.epoch.unwrap_or(0));
        self.sources.durable(checkpoint.frontier)
    }

    fn take_unlisted(&mut self, checkpoint: &CheckpointRun, lease_epoch: u64) -> Option<CheckpointContent> {
        let stretches = self.take_stretches();
        if stretches.is_empty() && !self.size_is_new {
            return None;
        }
        let number = self.next_checkpoint;
        self.next_checkpoint += 1;
        self.size_is_new = false;
        let resized = std::mem::take(&mut self.resized);
        // Where the file was cut, pieces that are not durable must not come again above the cut.
        let needs_stamps = checkpoint.some_held_back || resized || !self.is_first() || self.sources.has_offers();
        let relied_epoch = std::mem::replace(&mut self.relied_epoch, u64::MAX).min(lease_epoch);
        let (frontier, size) = (checkpoint.frontier.without_gaps(), self.size);
        let epoch = checkpoint.epoch.unwrap_or(self.epoch);
        Some(CheckpointContent { stretches, size, resized, epoch, number, frontier, needs_stamps, relied_epoch })
    }

    /// Copies what is stored and in no checkpoint; readers find it here as before.
    fn take_stretches(&mut self) -> Vec<WrittenRange> {
        let mut stretches = Vec::new();
        for range in joined(std::mem::take(&mut self.changed)) {
            self.map.update(range, |offset, extent| {
                if extent.listing == CheckpointState::Pending && !extent.is_staged() {
                    extent.listing = CheckpointState::Underway;
                    stretches.push(WrittenRange::of(offset, extent));
                }
            });
        }
        stretches
    }

    /// Notes that the checkpoint is recorded; it lists these entries, at these offsets.
    pub fn recorded(&mut self, entries: Vec<(u64, Entry)>) {
        self.progress += 1;
        for (offset, entry) in entries {
            let range = offset..offset + entry.length;
            let listed = Extent::recorded(entry);
            self.map.update(range.clone(), |start, extent| {
                if extent.listing == CheckpointState::Underway {
                    extent.listing = CheckpointState::Recorded;
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
        self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.phase == Phase::Recording)
    }
}

impl WrittenRange {
    fn of(offset: u64, extent: &Extent) -> Self {
        let segment = match &extent.content {
            Content::Segment { segment, skip } => Some((segment.clone(), *skip)),
            _ => None,
        };
        WrittenRange { offset, length: extent.end - offset, stamp: extent.stamp, segment }
    }
}

/// Returns the same bytes as ranges in order that do not touch.
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

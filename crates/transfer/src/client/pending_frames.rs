//! The frames of a send queue that no node process is known to have received, and how fast they get fewer.

use std::collections::BTreeMap;

use policy::streams::StreamPace;

#[derive(Default)]
pub(super) struct PendingFrames {
    /// Their bytes, by sequence.
    frames: BTreeMap<u64, u64>,
    pace: StreamPace,
}

impl PendingFrames {
    /// Adds a frame that is to be brought to the node, `now` in seconds. One that is there already stays as it is.
    pub fn add(&mut self, sequence: u64, bytes: u64, now: f64) {
        if self.frames.insert(sequence, bytes).is_none() {
            self.pace.given(bytes, now);
        }
    }

    /// Takes out a frame that the node has received.
    pub fn received(&mut self, sequence: u64, now: f64) {
        if let Some(bytes) = self.frames.remove(&sequence) {
            self.pace.received(bytes, now);
        }
    }

    /// Takes out frames that the node reports as durable, up to `sequence`.
    pub fn durable(&mut self, sequence: u64, now: f64) {
        while let Some(first) = self.frames.first_entry().filter(|first| *first.key() <= sequence) {
            self.pace.received(first.remove(), now);
        }
    }

    /// Returns whether nothing up to `sequence` is among them.
    pub fn has_none_up_to(&self, sequence: u64) -> bool {
        self.frames.first_key_value().is_none_or(|(first, _)| *first > sequence)
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn clear(&mut self) {
        *self = PendingFrames::default();
    }

    pub fn pace(&self) -> &StreamPace {
        &self.pace
    }
}

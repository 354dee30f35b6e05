//! Whole segments into the store: the work a node does behind the programs' backs.

use format::{BlockKind, Fingerprint, Place};
use store::Claimant;

use super::layers::{Content, Stretch};
use super::seat::Seat;
use super::staging::Whole;
use crate::Result;
use crate::keep::Fresh as Segment;

/// Segments reduced in one go: a block's worth at 8 KiB.
const SEGMENTS_AT_ONCE: usize = 32;

impl Seat {
    /// Reduces some of what is whole; says whether there was anything. A failure is remembered: the seat takes
    /// nothing more, and every later call says why.
    pub fn reduce(&self, claimant: Claimant) -> Result<bool> {
        let epoch = self.repository.lease.epoch();
        let taken = self.lock().staging.next_ready(SEGMENTS_AT_ONCE);
        if taken.is_empty() {
            return Ok(false);
        }
        match self.store_whole(claimant, &taken) {
            Ok(contents) => self.note_reduced(&taken, contents, epoch),
            Err(error) => {
                self.fail(&error);
                return Err(error);
            }
        }
        Ok(true)
    }

    fn store_whole(&self, claimant: Claimant, taken: &[(u64, Whole)]) -> Result<Vec<Content>> {
        let bytes: Vec<&[u8]> = taken.iter().map(|(_, whole)| &**whole).collect();
        self.store_contents(claimant, &bytes)
    }

    /// Stores each piece as a segment, or knows it for zeros.
    pub(super) fn store_contents(&self, claimant: Claimant, pieces: &[&[u8]]) -> Result<Vec<Content>> {
        let named: Vec<_> =
            pieces.iter().map(|bytes| (!segment::is_zero(bytes)).then(|| self.repository.fingerprint(bytes))).collect();
        let fresh: Vec<_> = pieces
            .iter()
            .zip(&named)
            .filter_map(|(bytes, name)| name.map(|fingerprint| Segment { fingerprint, bytes }))
            .collect();
        let mut places = self.repository.keep(claimant, BlockKind::Data, &fresh)?.into_iter();
        let content = |(bytes, name): (&&[u8], &Option<Fingerprint>)| match name {
            Some(fingerprint) => {
                let place: Place = places.next().expect("a place for every named segment");
                Content::Segment { place, fingerprint: *fingerprint, bytes: bytes.len() as u32, skip: 0 }
            }
            None => Content::Zero,
        };
        Ok(pieces.iter().zip(&named).map(content).collect())
    }

    fn note_reduced(&self, taken: &[(u64, Whole)], contents: Vec<Content>, epoch: u64) {
        let mut state = self.lock();
        state.rely_on(epoch);
        for ((index, whole), content) in taken.iter().zip(contents) {
            if !state.staging.reduced(*index, whole.stamp) {
                continue;
            }
            let start = index * self.options.segment_bytes as u64;
            for (range, stamp) in &whole.parts {
                let (from, length) = (range.start as u64, (range.end - range.start) as u64);
                let part = Stretch { length: whole.len() as u64, content, stamp: *stamp }.cut(from, length);
                state.lay_fresh(start + from, part);
            }
        }
        self.changed.notify_all();
    }

    /// Whether there is something to reduce.
    pub fn has_work(&self) -> bool {
        self.lock().staging.has_ready()
    }
}

//! Whole segments into the store: the work a node does behind the programs' backs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::{BlockKind, Fingerprint};
use store::Claimant;

use super::content_map::StoredSegment;
use super::seat::Seat;
use super::settling::SEGMENTS_AT_ONCE;
use super::storing::Work;
use crate::Result;
use crate::keep::Fresh as Segment;

impl Seat {
    /// Reduces some of what is whole; says whether there was anything. A failure is remembered: the seat takes
    /// nothing more, and every later call says why.
    pub fn reduce(&self, claimant: Claimant) -> Result<bool> {
        let is_pressed = self.budget.is_pressed();
        let works = self.event(|session| {
            if is_pressed {
                session.evict();
            }
            Ok(session.take_work(SEGMENTS_AT_ONCE))
        })?;
        if works.is_empty() {
            return Ok(false);
        }
        self.failing(self.store_works(claimant, works))?;
        Ok(true)
    }

    pub(super) fn store_works(&self, claimant: Claimant, works: Vec<Work>) -> Result<()> {
        let epoch = self.repository.lease.epoch();
        let pieces: Vec<&[u8]> = works.iter().flat_map(|work| &work.pieces).map(|(_, bytes)| &**bytes).collect();
        let stored = self.store_pieces(claimant, &pieces)?;
        self.event(|session| {
            session.stored(works, stored, epoch);
            Ok(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// Stores each piece as a segment, but those that are zeros.
    fn store_pieces(&self, claimant: Claimant, pieces: &[&[u8]]) -> Result<Vec<Option<Arc<StoredSegment>>>> {
        let named: Vec<_> =
            pieces.iter().map(|bytes| (!segment::is_zero(bytes)).then(|| self.repository.fingerprint(bytes))).collect();
        let fresh: Vec<_> = pieces
            .iter()
            .zip(&named)
            .filter_map(|(bytes, name)| name.map(|fingerprint| Segment { fingerprint, bytes }))
            .collect();
        let kept = self.repository.keep(claimant, BlockKind::Data, &fresh)?;
        self.stored_bytes.fetch_add(kept.stored_bytes, Ordering::Relaxed);
        let mut places = kept.places.into_iter();
        let stored = |(bytes, name): (&&[u8], &Option<Fingerprint>)| {
            name.map(|fingerprint| {
                let place = places.next().expect("a place for every named segment");
                Arc::new(StoredSegment { place, fingerprint, bytes: bytes.len() as u32 })
            })
        };
        Ok(pieces.iter().zip(&named).map(stored).collect())
    }
}

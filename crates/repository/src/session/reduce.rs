//! Whole segments into the store: the work a node does behind the programs' backs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::{BlockKind, Fingerprint};
use store::ClaimOwner;

use super::checkpoint_steps::SEGMENTS_AT_ONCE;
use super::content_map::StoredSegment;
use super::storing::StoreWork;
use super::stripe_owner::StripeOwner;
use crate::Result;
use crate::dedup::NewSegment as Segment;

impl StripeOwner {
    /// Reduces some of the whole segments; says whether there was anything. A failure is remembered: the stripe set
    /// takes nothing more, and every later call says why.
    pub fn reduce(&self, claim_owner: ClaimOwner) -> Result<bool> {
        let is_short = self.budget.is_short();
        let works = self.event(|session| {
            if is_short {
                session.evict();
            }
            Ok(session.take_work(SEGMENTS_AT_ONCE))
        })?;
        if works.is_empty() {
            return Ok(false);
        }
        self.failing(self.store_works(claim_owner, works))?;
        Ok(true)
    }

    pub(super) fn store_works(&self, claim_owner: ClaimOwner, works: Vec<StoreWork>) -> Result<()> {
        let epoch = self.repository.lease.epoch();
        let pieces: Vec<&[u8]> = works.iter().flat_map(|work| &work.pieces).map(|(_, bytes)| &**bytes).collect();
        let stored = self.store_pieces(claim_owner, &pieces)?;
        self.event(|session| {
            session.stored(works, stored, epoch);
            Ok(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// Stores each piece as a segment, but those that are zeros.
    fn store_pieces(&self, claim_owner: ClaimOwner, pieces: &[&[u8]]) -> Result<Vec<Option<Arc<StoredSegment>>>> {
        let named: Vec<_> =
            pieces.iter().map(|bytes| (!segment::is_zero(bytes)).then(|| self.repository.fingerprint(bytes))).collect();
        let new_segments: Vec<_> = pieces
            .iter()
            .zip(&named)
            .filter_map(|(bytes, name)| name.map(|fingerprint| Segment { fingerprint, bytes }))
            .collect();
        let kept = self.repository.dedup(claim_owner, BlockKind::Data, &new_segments)?;
        self.stored_bytes.fetch_add(kept.stored_bytes, Ordering::Relaxed);
        let mut addresses = kept.addresses.into_iter();
        let stored = |(bytes, name): (&&[u8], &Option<Fingerprint>)| {
            name.map(|fingerprint| {
                let address = addresses.next().expect("a place for every named segment");
                Arc::new(StoredSegment { address, fingerprint, bytes: bytes.len() as u32 })
            })
        };
        Ok(pieces.iter().zip(&named).map(stored).collect())
    }
}

//! Segments that could not be read, and where they were stored again.

use format::{Fingerprint, LostSegment, Place, SessionId};

use super::State;
use crate::Result;

impl State {
    pub fn lose(&mut self, lost: &[(Place, Fingerprint)]) {
        for (place, fingerprint) in lost {
            let lost = LostSegment { place: *place, fingerprint: *fingerprint, copy: None };
            self.lost.entry((place.container, place.ordinal)).or_insert(lost);
        }
    }

    pub fn heal(&mut self, session: SessionId, epoch: u64, healed: &[(LostSegment, Place)]) -> Result<()> {
        let epoch = self.lease(session)?.epoch.min(epoch);
        let copies: Vec<_> = healed.iter().map(|(_, copy)| copy.container).collect();
        self.check_references(&copies, epoch)?;
        let referral = self.counters.next_referral();
        self.mark_referred(&copies, referral);
        for (lost, copy) in healed {
            let key = (lost.place.container, lost.place.ordinal);
            self.lost.insert(key, LostSegment { copy: Some(*copy), ..*lost });
        }
        Ok(())
    }
}

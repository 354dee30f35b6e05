//! Segments that could not be read, and where they were stored again.

use format::{Fingerprint, LostSegment, SegmentAddress, SessionId};

use super::State;
use crate::Result;

impl State {
    pub fn lose(&mut self, lost: &[(SegmentAddress, Fingerprint)]) {
        for (address, fingerprint) in lost {
            let lost = LostSegment { address: *address, fingerprint: *fingerprint, copy: None };
            self.lost.entry((address.container, address.ordinal)).or_insert(lost);
        }
    }

    pub fn heal(&mut self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()> {
        let epoch = self.lease(session)?.epoch.min(epoch);
        let copies: Vec<_> = healed.iter().map(|(_, copy)| copy.container).collect();
        self.check_references(&copies, epoch)?;
        let referral = self.counters.next_referral();
        self.mark_referred(&copies, referral);
        for (lost, copy) in healed {
            let key = (lost.address.container, lost.address.ordinal);
            self.lost.insert(key, LostSegment { copy: Some(*copy), ..*lost });
        }
        Ok(())
    }
}

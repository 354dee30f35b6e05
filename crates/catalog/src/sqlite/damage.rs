//! Segments that could not be read, and where they were stored again.

use format::{ContainerId, Fingerprint, LostSegment, SegmentAddress, SessionId};
use rusqlite::{Connection, Row};

use super::failure::Attempt;
use super::statement::{all, number, run};
use super::writing::WriteTransaction;

impl WriteTransaction<'_> {
    pub fn lose(&mut self, lost: &[(SegmentAddress, Fingerprint)]) -> Attempt<()> {
        let text = "INSERT OR IGNORE INTO lost_segments VALUES (?1, ?2, ?3, NULL, NULL)";
        for (address, fingerprint) in lost {
            run(self.sql, text, (address.container.0 as i64, address.ordinal, fingerprint.0))?;
        }
        Ok(())
    }

    pub fn heal(&mut self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Attempt<()> {
        let epoch = self.leased_epoch(session)?.min(epoch);
        let mut copies: Vec<_> = healed.iter().map(|(_, copy)| copy.container).collect();
        copies.sort();
        copies.dedup();
        let referral = self.counters.next_referral();
        self.refer(&copies, epoch, referral)?;
        let text = "INSERT OR REPLACE INTO lost_segments VALUES (?1, ?2, ?3, ?4, ?5)";
        for (lost, copy) in healed {
            let (address, by) = (lost.address, copy.container.0 as i64);
            run(self.sql, text, (address.container.0 as i64, address.ordinal, lost.fingerprint.0, by, copy.ordinal))?;
        }
        Ok(())
    }
}

pub(super) fn lost(sql: &Connection) -> Attempt<Vec<LostSegment>> {
    let text = "SELECT container, ordinal, fingerprint, copy_container, copy_ordinal FROM lost_segments
        ORDER BY container, ordinal";
    all(sql, text, [], read_lost)
}

fn read_lost(row: &Row) -> Attempt<LostSegment> {
    let copy: (Option<i64>, Option<u32>) = (row.get(3)?, row.get(4)?);
    Ok(LostSegment {
        address: SegmentAddress::new(ContainerId(number(row, 0)?), row.get(1)?),
        fingerprint: Fingerprint(row.get(2)?),
        copy: copy
            .0
            .zip(copy.1)
            .map(|(container, ordinal)| SegmentAddress::new(ContainerId(container as u64), ordinal)),
    })
}

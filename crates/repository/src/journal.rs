//! The journal of catalog changes: kept in containers, so that the catalog can be made again from them.
//!
//! A transaction leaves its record in the catalog's outbox; here it moves into a container, durably, before the commit
//! is acknowledged. The next committer moves records that a crash left in the outbox.

use format::{BlockKind, JournalRecord};
use store::ClaimOwner;

use crate::dedup::NewSegment;
use crate::{LocalEngines, Repository, Result};

/// Records moved at a time.
const BATCH: usize = 1024;
/// The claim owner that puts journal records; never asks for claims, so the number is free.
const JOURNALIST: ClaimOwner = ClaimOwner(u64::MAX);

impl Repository {
    /// Moves the outbox into containers; returns when it is durable there. Two processes may move the same
    /// record: it has the same sequence number then, and counts once.
    pub(crate) fn journal(&self) -> Result<()> {
        let Some(LocalEngines { catalog, .. }) = &self.local else {
            return Ok(()); // The node at the other end does it.
        };
        loop {
            let records = catalog.unjournaled(BATCH)?;
            if records.is_empty() {
                return Ok(());
            }
            self.put_records(&records)?;
            self.store.make_durable()?;
            let sequences: Vec<_> = records.iter().map(|record| record.sequence).collect();
            catalog.journaled(&sequences)?;
        }
    }

    fn put_records(&self, records: &[JournalRecord]) -> Result<()> {
        let encoded: Vec<_> = records.iter().map(JournalRecord::encode).collect();
        let new_segments: Vec<_> =
            encoded.iter().map(|bytes| NewSegment { fingerprint: self.fingerprint(bytes), bytes }).collect();
        self.keep_again(JOURNALIST, BlockKind::Journal, &new_segments)?;
        Ok(())
    }
}

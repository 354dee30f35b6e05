//! Segments that are whole and are not what a manifest or their own fingerprints say: a file of another store, or of a
//! catalog that went on apart, stands in the place of ours. They are recorded as lost, as what cannot be read is.

use format::{Fingerprint, Run, SegmentAddress, SegmentEntry};

use crate::blocks::Segment;
use crate::upstream::is_near;
use crate::{Error, Repository, Result};

/// The fingerprint of a segment whose real one is not known.
pub(crate) const UNKNOWN: Fingerprint = Fingerprint([0; 32]);

impl Repository {
    /// Returns the segments of a run, decoded and checked.
    pub(crate) fn segments(&self, run: Run) -> Result<Vec<Segment>> {
        let found = self.cache.segments(&*self.store, self.settings.fingerprint, run);
        if let Err(Error::Segment(_)) = &found {
            self.record_undecodable(run);
        }
        found
    }

    /// [`Repository::segments`], which must be those that `entries` name: a store's answers to two questions may not
    /// agree, and blocks vouch only for themselves.
    pub(crate) fn named_segments(&self, run: Run, entries: &[SegmentEntry]) -> Result<Vec<Segment>> {
        let found = self.segments(run)?;
        let are_named = found.len() == entries.len() && found.iter().zip(entries).all(|(found, entry)| found.is(entry));
        if !are_named {
            self.record_mismatch(run);
            return Err(not_named(run).into());
        }
        Ok(found)
    }

    fn record_undecodable(&self, run: Run) {
        let placed = self.store.get(run).unwrap_or_default();
        let is_wrong = |block: &format::Block| segment::decode_verified(block, self.settings.fingerprint).is_err();
        for placed in placed.iter().filter(|placed| is_wrong(&placed.block)) {
            let fingerprints = placed.block.segments.iter().map(|segment| segment.fingerprint);
            self.record_lost(&placed.addresses().zip(fingerprints).collect::<Vec<_>>());
        }
    }

    /// Records that the run's content is not what a manifest names.
    pub(crate) fn record_mismatch(&self, run: Run) {
        self.record_lost(&run.addresses().map(|address| (address, UNKNOWN)).collect::<Vec<_>>());
    }

    /// Records that the container is where the catalog has it, and misses segments that a manifest names.
    pub(crate) fn record_missing(&self, run: Run) {
        let Some(local) = &self.local else { return };
        let found = local.catalog.container(run.container).ok().flatten();
        if self.lease.is_recorded() && found.is_some_and(|record| record.is_referable()) {
            self.record_mismatch(run);
        }
    }

    /// Through a node nothing is recorded: it does not take a client's word for damage.
    fn record_lost(&self, lost: &[(SegmentAddress, Fingerprint)]) {
        let is_here = |lost: &&(SegmentAddress, Fingerprint)| self.upstream.is_none() || is_near(lost.0.container);
        if let Some(local) = &self.local {
            local.store.lose(&lost.iter().filter(is_here).copied().collect::<Vec<_>>());
        }
    }
}

pub(crate) fn not_named(run: Run) -> store::Error {
    let why = format!("segments {} to {} are not those the manifest names", run.first, run.first + run.count - 1);
    store::Error::Corrupt { path: format!("container {}", run.container), offset: 0, why }
}

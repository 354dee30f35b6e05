//! Whether the catalog holds all that its journal does: to be asked before anything is deleted, and before the journal is
//! made to hold what the catalog has.
//!
//! The catalog knows the sequence of each record it wrote. Where all of them are in the containers, the journal is whole,
//! and a catalog that differs was changed by something else. Where some are not, the journal has lost them.

use std::collections::BTreeSet;

use catalog::LocalCatalog;
use format::{ContainerId, ErrorCode, JournalRecord};
use store::LocalStore;

use crate::comparison::{Difference, compare};
use crate::divergence::refusal;
use crate::scan::{Scan, ranges};
use crate::{Repository, Result};

/// The catalog beside the journal, both as they were at one moment.
pub(crate) struct JournalComparison {
    pub differences: Vec<Difference>,
    /// Sequences of records that the catalog wrote and no container keeps; none when the catalog does not know them all.
    pub lost_records: Option<Vec<u64>>,
    /// Files with a block of the journal that cannot be read.
    pub unreadable: BTreeSet<ContainerId>,
}

impl JournalComparison {
    /// Refuses when the journal has a record that the catalog does not know.
    pub fn of(repository: &Repository, local: &LocalStore) -> Result<Self> {
        // The view first: later journal records are not compared.
        let view = repository.local_catalog()?.view()?;
        let mut scan = Scan::of(local, repository.settings.fingerprint)?;
        scan.add_outbox(view.unjournaled()?);
        let sum = |record: &JournalRecord| (record.sequence, JournalRecord::checksum_of(&record.encode()));
        let records: Vec<_> = scan.records.values().map(sum).chain(scan.passed_over.iter().copied()).collect();
        if let Some(sequence) = repository.local_catalog()?.unknown_records(&records)?.first() {
            let why = format!("transaction {sequence} of the journal is not one of its own, so it is an older copy");
            return Err(refusal(&why));
        }
        let sequence = view.sequence()?;
        let lost_records = lost_records(repository.local_catalog()?, &scan, sequence)?;
        let (replayed, _) = scan.replayed(sequence)?;
        let mut differences = Vec::new();
        compare(&*view, &*replayed.view()?, &mut |difference| differences.push(difference))?;
        Ok(JournalComparison { differences, lost_records, unreadable: scan.unreadable })
    }

    /// Whether a rebuild would miss something that the catalog has, and not since something else changed the catalog.
    pub fn has_lost_records(&self) -> bool {
        let is_known_whole = self.lost_records.as_ref().is_some_and(|lost| lost.is_empty());
        let has_gaps = self.lost_records.is_some() && !is_known_whole;
        has_gaps || (!is_known_whole && self.differences.iter().any(|difference| difference.is_lost_in_journal))
    }

    /// Refuses when the catalog misses a record that the journal has: a collection would delete its data.
    pub fn check_catalog(&self) -> Result<()> {
        let mut missing = self.differences.iter().filter(|difference| difference.is_lost_in_catalog);
        let Some(first) = missing.next() else { return Ok(()) };
        let more = match missing.count() {
            0 => String::new(),
            more => format!(", and {more} more differences"),
        };
        Err(match self.lost_records.as_deref() {
            Some([]) => refusal(&format!("{}: {}{more}", first.path, first.why)),
            _ => crate::Error::Refused {
                code: ErrorCode::CatalogMismatch,
                path: "this store".into(),
                why: self.undecided(first, &more),
            },
        })
    }

    fn undecided(&self, first: &Difference, more: &str) -> String {
        let lost = match self.lost_records.as_deref() {
            Some(lost) => format!("transactions {} are in no container any more", ranges(lost)),
            None => "its catalog is older than the record of what the journal holds".to_owned(),
        };
        format!(
            "its catalog and its journal differ ({}: {}{more}), and {lost}; nothing was deleted; if `thalweg ls` shows what \
             should be there, `thalweg repair` has the journal hold it; if not, `thalweg verify --rebuild-catalog --force` \
             makes the catalog from what the journal still has",
            first.path, first.why
        )
    }
}

/// Of the records up to `sequence`.
pub(crate) fn lost_records(catalog: &dyn LocalCatalog, scan: &Scan, sequence: u64) -> Result<Option<Vec<u64>>> {
    let known = catalog.known_records()?;
    Ok(known.map(|known| known.into_iter().filter(|known| *known <= sequence && !scan.has(*known)).collect()))
}

//! A damaged journal made whole from a healthy catalog: new records restate the effects of the lost ones.

use format::StorePath;
use store::LocalStore;

use crate::agreement::JournalComparison;
use crate::comparison::Difference;
use crate::divergence::{check_containers, refusal};
use crate::{Error, Repository, Result};

/// Paths stated again in one transaction.
const PATHS_AT_ONCE: usize = 1024;

/// Returns at how many paths the journal lacked something that the catalog has, and has it now: a name, a version, or that
/// a name is gone. Refused when the journal has lost nothing, and the catalog was changed by something else.
pub(crate) fn restate_lost(repository: &Repository, local: &LocalStore) -> Result<u64> {
    let problems = repository.local_catalog()?.integrity()?;
    if let Some(why) = problems.into_iter().next() {
        return Err(Error::Catalog(catalog::Error::Corrupt { path: "this store".into(), why }));
    }
    check_containers(repository, local)?;
    let agreement = JournalComparison::of(repository, local)?;
    if agreement.lost_records.as_ref().is_some_and(|lost| lost.is_empty()) {
        return agreement.differences.first().map_or(Ok(0), |difference| Err(was_changed(difference)));
    }
    let lost = lost_paths(&agreement);
    let session = repository.lease.session();
    for some in lost.chunks(PATHS_AT_ONCE) {
        repository.local_catalog()?.restate(session, some)?;
    }
    // No gap is filled before all is restated: the outbox keeps their order, whatever happens in between.
    repository.local_catalog()?.fill_gaps(session, agreement.lost_records.as_deref().unwrap_or_default())?;
    repository.journal()?;
    Ok(lost.len() as u64)
}

fn was_changed(difference: &Difference) -> Error {
    refusal(&format!("the journal is whole, and {}: {}", difference.path, difference.why))
}

/// Where the catalog does not know which records are lost, nothing is stated to be gone.
fn lost_paths(agreement: &JournalComparison) -> Vec<StorePath> {
    let is_lost = |difference: &&Difference| {
        difference.is_lost_in_journal || (difference.is_lost_in_catalog && agreement.lost_records.is_some())
    };
    let mut lost: Vec<_> = agreement.differences.iter().filter(is_lost).map(|lost| lost.path.clone()).collect();
    lost.dedup();
    lost
}

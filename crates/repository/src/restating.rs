//! A damaged journal made whole from a healthy catalog: what its lost records made is stated again by new ones.

use catalog::CatalogView;
use format::StorePath;
use store::LocalStore;

use crate::comparison::compare;
use crate::divergence::check_containers;
use crate::scan::Scan;
use crate::{Error, Repository, Result};

/// Paths stated again in one transaction.
const PATHS_AT_ONCE: usize = 1024;

/// Returns at how many paths the journal lacked something that the catalog has, and has it now. What the journal has and
/// the catalog has not stays: to state that something is gone, on the word of a damaged journal, may lose it.
pub(crate) fn restate_lost(repository: &Repository, local: &LocalStore) -> Result<u64> {
    let problems = repository.catalog.integrity()?;
    if let Some(why) = problems.into_iter().next() {
        return Err(Error::Catalog(catalog::Error::Corrupt { path: "this store".into(), why }));
    }
    check_containers(repository, local)?;
    let lost = lost_paths(repository, local, &*repository.catalog.view()?)?;
    for some in lost.chunks(PATHS_AT_ONCE) {
        repository.catalog.restate(repository.lease.session(), some)?;
        repository.journal()?;
    }
    Ok(lost.len() as u64)
}

fn lost_paths(repository: &Repository, local: &LocalStore, view: &dyn CatalogView) -> Result<Vec<StorePath>> {
    let mut scan = Scan::of(local, repository.settings.fingerprint)?;
    scan.add_outbox(view.unjournaled()?);
    let (replayed, _) = scan.replayed(view.sequence()?)?;
    let journal = catalog::Catalog::view(&replayed)?;
    let mut lost = Vec::new();
    compare(view, &*journal, &mut |difference| {
        if difference.is_lost_in_journal && lost.last() != Some(&difference.path) {
            lost.push(difference.path);
        }
    })?;
    Ok(lost)
}

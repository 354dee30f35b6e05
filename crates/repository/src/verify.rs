//! Verification: every container against its checksums, every kept version against its segments.

use catalog::ContainerState;
use format::{ContainerId, StorePath};
use store::LocalStore;

use crate::tree::collect_runs;
use crate::{Repository, Result};

/// Paths listed from the catalog at a time.
const LISTED_AT_ONCE: usize = 4096;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A container file, and where in it.
    Container { container: ContainerId, offset: u64, why: String, lost_segments: u64 },
    /// A container the catalog counts as live has no file.
    Missing { container: ContainerId },
    /// A version that cannot be read whole; the others can.
    Version { path: StorePath, version: u64, why: String },
}

/// What a verification saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub containers: u64,
    pub segments: u64,
    pub stored_bytes: u64,
    pub versions: u64,
    /// Content decoded and checked against its names (with `data`).
    pub data_bytes: u64,
    pub damages: Vec<Damage>,
}

/// Checks the store, which must be on this machine. With `data`, all content is decoded and named again.
/// `progress` hears of stored bytes done.
pub fn verify(repository: &Repository, data: bool, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
    let local = repository.local_store("verify")?;
    let mut verified = Verified::default();
    check_containers(repository, local, &mut verified, progress)?;
    check_versions(repository, data, &mut verified, progress)?;
    Ok(verified)
}

fn check_containers(
    repository: &Repository,
    local: &LocalStore,
    verified: &mut Verified,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for record in repository.catalog.containers()? {
        let is_file = record.physical == record.id;
        if !is_file || record.state != ContainerState::Live {
            continue;
        }
        match local.check(record.id) {
            Ok(report) => {
                verified.containers += 1;
                verified.segments += report.readable_segments;
                verified.stored_bytes += report.stored_bytes;
                progress(report.stored_bytes);
                // Its writer died before it had a footer: a torn end is no damage, what versions need is checked below.
                let was_sealed = report.sealed || record.segments > 0;
                let lost_segments = report.lost_segments;
                verified.damages.extend(report.damages.into_iter().filter(|_| was_sealed).map(|damage| {
                    Damage::Container { container: record.id, offset: damage.offset, why: damage.why, lost_segments }
                }));
            }
            // Registered, never written, its writer died: nothing was lost with it.
            Err(store::Error::NotFound { .. }) if record.segments == 0 => {}
            // Collection does not wait for a reader without a lease.
            Err(store::Error::NotFound { .. }) if !is_live_in_its_file(repository, record.id)? => {}
            Err(store::Error::NotFound { .. }) => verified.damages.push(Damage::Missing { container: record.id }),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

fn check_versions(
    repository: &Repository,
    data: bool,
    verified: &mut Verified,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut after = None;
    loop {
        let listed = repository.catalog.list(&StorePath::root(), true, after.as_ref(), LISTED_AT_ONCE)?;
        let Some((last, _)) = listed.last() else { return Ok(()) };
        after = Some(last.clone());
        for (path, _) in listed.iter().filter(|(_, entry)| entry.head.is_some()) {
            for version in repository.catalog.versions(path)? {
                verified.versions += 1;
                if let Err(error) = check_version(repository, &version, data, verified, progress)
                    && is_kept(repository, path, version.number)?
                {
                    let (path, why) = (path.clone(), error.to_string());
                    verified.damages.push(Damage::Version { path, version: version.number, why });
                }
            }
        }
    }
}

fn is_live_in_its_file(repository: &Repository, container: ContainerId) -> Result<bool> {
    let found = repository.catalog.container(container)?;
    Ok(found.is_some_and(|record| record.physical == container && record.state == ContainerState::Live))
}

/// Whether the version was not removed since it was listed.
fn is_kept(repository: &Repository, path: &StorePath, number: u64) -> Result<bool> {
    match repository.catalog.versions(path) {
        Ok(versions) => Ok(versions.iter().any(|version| version.number == number)),
        Err(catalog::Error::NotFound { .. }) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

fn check_version(
    repository: &Repository,
    version: &catalog::Version,
    data: bool,
    verified: &mut Verified,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let record = &version.record;
    if data {
        return repository.reader(&record.root, record.size).pieces(0..record.size, |piece| {
            if let crate::Piece::Data(bytes) = piece {
                verified.data_bytes += bytes.len() as u64;
                progress(bytes.len() as u64);
            }
            Ok(())
        });
    }
    let mut runs = Vec::new();
    collect_runs(repository, &record.root, &mut |run| runs.push(run))?;
    runs.into_iter().try_for_each(|run| repository.store.entries(run).map(drop).map_err(Into::into))
}

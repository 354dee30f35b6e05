//! Which segments are referred to: a bit each.

use std::collections::BTreeMap;

use catalog::{FileEntry, Version};
use format::{ContainerId, LostSegment, Root, Run, SegmentAddress, StorePath};

use crate::error::{LostManifest, LostManifests};
use crate::list::list_everything;
use crate::repair::is_damage;
use crate::tree::{PageSet, collect_new_runs};
use crate::{Error, Repository, Result};

/// Roots fetched from the catalog at a time.
const ROOTS_AT_ONCE: usize = 4096;

/// Bits by logical container and ordinal.
#[derive(Default)]
pub(crate) struct LiveBitmap {
    containers: BTreeMap<ContainerId, Vec<u64>>,
    /// Marks made, repetitions included.
    pub references: u64,
}

impl LiveBitmap {
    /// Marks every segment that a kept version or a checkpoint needs, manifests included.
    pub fn of_catalog(repository: &Repository) -> Result<Self> {
        let (mut marks, mut lost, mut after) = (LiveBitmap::default(), Vec::new(), 0);
        let mut walked = PageSet::new();
        loop {
            let roots = repository.local_catalog()?.roots(after, ROOTS_AT_ONCE)?;
            let Some((last, _)) = roots.last() else { break };
            after = *last;
            for (_, root) in roots {
                match collect_new_runs(repository, &root, &mut walked, &mut |run, _| marks.mark(run)) {
                    Err(error) if is_damage(&error) => lost.push((root, error)),
                    other => other?,
                }
            }
        }
        if !lost.is_empty() {
            return Err(lost_manifests(repository, lost));
        }
        marks.follow_copies(&repository.local_catalog()?.lost()?);
        Ok(marks)
    }

    /// A copy lives as long as the lost segment it stands in for is needed; copies may have been lost in turn.
    fn follow_copies(&mut self, lost: &[LostSegment]) {
        loop {
            let needed = lost.iter().filter(|lost| self.holds(lost.address)).filter_map(|lost| lost.copy);
            let unmarked: Vec<SegmentAddress> = needed.filter(|copy| !self.holds(*copy)).collect();
            if unmarked.is_empty() {
                return;
            }
            unmarked.into_iter().for_each(|copy| self.mark(Run::single(copy)));
        }
    }

    fn holds(&self, address: SegmentAddress) -> bool {
        self.is_marked(address.container, address.ordinal)
    }

    pub fn mark(&mut self, run: Run) {
        let bits = self.containers.entry(run.container).or_default();
        let words = (run.first as usize + run.count as usize).div_ceil(64);
        if bits.len() < words {
            bits.resize(words, 0);
        }
        for ordinal in run.first..run.first + run.count {
            bits[ordinal as usize / 64] |= 1 << (ordinal % 64);
        }
        self.references += run.count as u64;
    }

    pub fn is_marked(&self, container: ContainerId, ordinal: u32) -> bool {
        let word = self.containers.get(&container).and_then(|bits| bits.get(ordinal as usize / 64));
        word.is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
    }

    /// Marks what `other` has and `left_out` has not; counts no references.
    pub fn add(&mut self, other: &LiveBitmap, left_out: &LiveBitmap) {
        for (container, theirs) in &other.containers {
            let ours = self.containers.entry(*container).or_default();
            ours.resize(ours.len().max(theirs.len()), 0);
            let left_out = left_out.containers.get(container).map_or(&[][..], |bits| bits);
            for (at, bits) in theirs.iter().enumerate() {
                ours[at] |= bits & !left_out.get(at).copied().unwrap_or(0);
            }
        }
    }

    /// Returns whether all segments of the run are marked.
    pub fn holds_all(&self, run: Run) -> bool {
        run.addresses().all(|address| self.holds(address))
    }

    /// Returns every container with a mark.
    pub fn containers(&self) -> impl Iterator<Item = ContainerId> + '_ {
        self.containers.keys().copied()
    }

    /// Returns the marked segments of a container, as runs.
    pub fn runs(&self, container: ContainerId) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let bits = self.containers.get(&container).map_or(&[][..], |bits| bits);
        for ordinal in 0..bits.len() as u32 * 64 {
            if bits[ordinal as usize / 64] >> (ordinal % 64) & 1 == 0 {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.first + run.count == ordinal => run.count += 1,
                _ => runs.push(Run { container, first: ordinal, count: 1 }),
            }
        }
        runs
    }
}

/// Returns the error that names all versions with these roots.
fn lost_manifests(repository: &Repository, mut lost: Vec<(Root, Error)>) -> Error {
    let mut versions = Vec::new();
    let looked = each_version(repository, &mut |path, entry, version| {
        if let Some((_, error)) = lost.iter().find(|(root, _)| version.record.root == *root) {
            let is_newest = entry.head.as_ref().is_some_and(|head| head.number == version.number);
            let (path, version) = (path.clone(), version.number);
            versions.push(LostManifest { path, version, is_newest, why: error.reason() });
        }
    });
    match looked {
        // Of something that was removed meanwhile, or the checkpoint of a session.
        Ok(()) if versions.is_empty() => lost.swap_remove(0).1,
        Ok(()) => Error::LostManifests(LostManifests(versions)),
        Err(error) => error,
    }
}

fn each_version(repository: &Repository, visit: &mut dyn FnMut(&StorePath, &FileEntry, &Version)) -> Result<()> {
    list_everything(repository.catalog(), &StorePath::root(), true, |listed| {
        for (path, entry) in listed.iter().filter(|(_, entry)| entry.head.is_some()) {
            repository.catalog.versions(path)?.iter().for_each(|version| visit(path, entry, version));
        }
        Ok::<_, Error>(())
    })
}

/// Returns the error, with the path and the version whose manifest it is about. That is looked for only now: roots are
/// read by the thousands, and an error is rare.
pub(crate) fn named(repository: &Repository, root: &Root, error: Error) -> Error {
    let mut found = None;
    let looked = each_version(repository, &mut |path, _, version| {
        if version.record.root == *root {
            found.get_or_insert((path.clone(), version.number));
        }
    });
    match (looked, found) {
        (Ok(()), Some((path, version))) => {
            // The advice is that of the error around it.
            let why = match error {
                Error::Damaged { why, .. } => why,
                other => other.reason(),
            };
            Error::Damaged { path, offset: 0, why: format!("version {version}: {why}") }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_runs_come_back() {
        let mut marks = LiveBitmap::default();
        let container = ContainerId(3);
        marks.mark(Run { container, first: 60, count: 10 });
        marks.mark(Run { container, first: 100, count: 1 });
        marks.mark(Run { container, first: 69, count: 2 });
        let runs: Vec<_> = marks.runs(container).iter().map(|run| (run.first, run.count)).collect();
        assert_eq!(runs, [(60, 11), (100, 1)]);
        assert!(marks.is_marked(container, 100) && !marks.is_marked(container, 99));
        assert_eq!(marks.references, 13);
    }
}

//! Which segments are referred to: a bit each.

use std::collections::BTreeMap;

use format::{ContainerId, LostSegment, Place, Root, Run, StorePath};

use crate::list::list;
use crate::tree::collect_runs;
use crate::{Error, Repository, Result};

/// Roots fetched from the catalog at a time.
const ROOTS_AT_ONCE: usize = 4096;

/// Bits by logical container and ordinal.
#[derive(Default)]
pub(crate) struct Marks {
    containers: BTreeMap<ContainerId, Vec<u64>>,
    /// Marks made, repetitions included.
    pub references: u64,
}

impl Marks {
    /// Marks every segment that a kept version or a checkpoint needs, manifests included.
    pub fn of_catalog(repository: &Repository) -> Result<Self> {
        let mut marks = Marks::default();
        let mut after = 0;
        loop {
            let roots = repository.catalog.roots(after, ROOTS_AT_ONCE)?;
            let Some((last, _)) = roots.last() else { break };
            after = *last;
            for (_, root) in &roots {
                collect_runs(repository, root, &mut |run| marks.mark(run))
                    .map_err(|error| named(repository, root, error))?;
            }
        }
        marks.follow_copies(&repository.catalog.lost()?);
        Ok(marks)
    }

    /// A copy lives as long as the lost segment it stands in for is needed; copies may have been lost in turn.
    fn follow_copies(&mut self, lost: &[LostSegment]) {
        loop {
            let needed = lost.iter().filter(|lost| self.holds(lost.place)).filter_map(|lost| lost.copy);
            let unmarked: Vec<Place> = needed.filter(|copy| !self.holds(*copy)).collect();
            if unmarked.is_empty() {
                return;
            }
            unmarked.into_iter().for_each(|copy| self.mark(Run::single(copy)));
        }
    }

    fn holds(&self, place: Place) -> bool {
        self.is_marked(place.container, place.ordinal)
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

    /// Every container with a mark.
    pub fn containers(&self) -> impl Iterator<Item = ContainerId> + '_ {
        self.containers.keys().copied()
    }

    /// The marked segments of a container, as runs.
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

/// The error, with the path and the version whose manifest it is about. That is looked for only now: roots are read by
/// the thousands, and an error is rare.
pub(crate) fn named(repository: &Repository, root: &Root, error: Error) -> Error {
    let mut found = None;
    let looked = list(repository.catalog(), &StorePath::root(), true, |listed| {
        for (path, _) in listed.into_iter().filter(|(_, entry)| entry.head.is_some()) {
            let versions = repository.catalog.versions(&path)?;
            if let Some(version) = versions.into_iter().find(|version| version.record.root == *root) {
                found.get_or_insert((path, version.number));
            }
        }
        Ok::<_, Error>(())
    });
    match (looked, found) {
        (Ok(()), Some((path, version))) => {
            Error::Damaged { path, offset: 0, why: format!("version {version}: {error}") }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_runs_come_back() {
        let mut marks = Marks::default();
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

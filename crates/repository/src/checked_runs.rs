//! The segments of runs that were read lately, checked: to ask for a whole run's and hash their fingerprints for each small
//! range would cost more than reading it.

use std::mem::size_of;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use format::{Run, SegmentEntry};
use store::Lru;

use crate::{Repository, Result};

/// Memory for the lists: those of some 3 GB of content in segments of 8 KiB (bytes).
const CACHE_BYTES: usize = 16 << 20;

/// The segments of a run, as the digest in a manifest confirms them.
pub(crate) struct CheckedRun {
    entries: Vec<SegmentEntry>,
    /// Ends of the segments in the run (bytes).
    ends: Vec<u64>,
}

impl CheckedRun {
    pub fn new(entries: Vec<SegmentEntry>) -> Self {
        let ends = entries.iter().scan(0, |end, segment| {
            *end += u64::from(segment.bytes);
            Some(*end)
        });
        CheckedRun { ends: ends.collect(), entries }
    }

    /// Returns the segments that hold some of these bytes of the run, the index of the first, and where that begins; none
    /// when the run ends before.
    pub fn holding(&self, wanted: &Range<u64>) -> Option<(&[SegmentEntry], usize, u64)> {
        let first = self.ends.partition_point(|end| *end <= wanted.start);
        let starts_before_end = |at: usize| self.start(at) < wanted.end;
        let count = self.ends[first..].partition_point(|end| *end < wanted.end);
        let last = (first + count).min(self.entries.len().checked_sub(1)?);
        (first <= last && starts_before_end(first)).then(|| (&self.entries[first..=last], first, self.start(first)))
    }

    /// Returns the bytes of the run that each segment holds.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        (0..self.ends.len()).map(|at| self.start(at)..self.ends[at])
    }

    pub fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn start(&self, at: usize) -> u64 {
        if at == 0 { 0 } else { self.ends[at - 1] }
    }

    fn memory_bytes(&self) -> usize {
        self.entries.len() * (size_of::<SegmentEntry>() + size_of::<u64>())
    }
}

type Key = (Run, [u8; 32]);

/// The lists of runs that were read last, by run and digest.
pub(crate) struct CheckedRuns(Mutex<Lru<Key, Arc<CheckedRun>>>);

impl Default for CheckedRuns {
    fn default() -> Self {
        CheckedRuns(Mutex::new(Lru::new(CACHE_BYTES)))
    }
}

impl CheckedRuns {
    fn lists(&self) -> MutexGuard<'_, Lru<Key, Arc<CheckedRun>>> {
        self.0.lock().expect("no panic holds it")
    }
}

impl Repository {
    /// As [`Repository::checked_entries`], from memory where the run was read lately: for reading, which compares each
    /// segment with its entry.
    pub(crate) fn checked_run(&self, run: Run, digest: &[u8; 32]) -> Result<Arc<CheckedRun>> {
        let key = (run, *digest);
        if let Some(known) = self.checked_runs.lists().get(key) {
            return Ok(known);
        }
        let checked = Arc::new(CheckedRun::new(self.checked_entries(run, digest)?));
        self.checked_runs.lists().insert(key, checked.clone(), checked.memory_bytes());
        Ok(checked)
    }

    /// Forgets a run whose segments could not be read: the digest says nothing of their lengths.
    pub(crate) fn forget_run(&self, run: Run, digest: &[u8; 32]) {
        self.checked_runs.lists().remove((run, *digest));
    }
}

#[cfg(test)]
mod tests {
    use format::Fingerprint;

    use super::*;

    #[test]
    fn the_segments_that_hold_a_range_are_those_a_walk_finds() {
        for lengths in [vec![], vec![5], vec![3, 4, 1, 2], vec![3, 0, 4, 0]] {
            let entries = lengths.iter().map(|bytes| SegmentEntry { fingerprint: Fingerprint([1; 32]), bytes: *bytes });
            let run = CheckedRun::new(entries.collect());
            for start in 0..12 {
                for end in start + 1..13 {
                    let (mut walked, mut at) = (None, 0);
                    for (i, bytes) in lengths.iter().enumerate() {
                        if at + u64::from(*bytes) > start && at < end {
                            let (first, begins, _) = walked.unwrap_or((i, at, i));
                            walked = Some((first, begins, i));
                        }
                        at += u64::from(*bytes);
                    }
                    let found = run.holding(&(start..end));
                    let found = found.map(|(entries, first, begins)| (first, begins, first + entries.len() - 1));
                    assert_eq!(found, walked, "{start}..{end} of {lengths:?}");
                }
            }
        }
    }
}

//! The segments of runs that were read lately, checked: to ask for a whole run's and hash their fingerprints for each small
//! range would cost more than reading it.

use std::collections::HashSet;
use std::mem::size_of;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use format::{Run, SegmentEntry};
use store::Lru;

use crate::tree::are_named;
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
pub(crate) struct CheckedRuns {
    lists: Mutex<Lru<Key, Arc<CheckedRun>>>,
    /// Whose lists are under way from a far store.
    asked: Mutex<HashSet<Key>>,
    answered: Condvar,
}

impl Default for CheckedRuns {
    fn default() -> Self {
        let (asked, answered) = (Mutex::default(), Condvar::new());
        CheckedRuns { lists: Mutex::new(Lru::new(CACHE_BYTES)), asked, answered }
    }
}

impl CheckedRuns {
    fn lists(&self) -> MutexGuard<'_, Lru<Key, Arc<CheckedRun>>> {
        self.lists.lock().expect("no panic holds it")
    }

    /// Waits while another asks for the list; whoever asks next does it while the turn lives.
    fn turn(&self, key: Key) -> Turn<'_> {
        let asked = self.asked.lock().expect("no panic holds it");
        let mut asked = self.answered.wait_while(asked, |asked| asked.contains(&key)).expect("no panic holds it");
        asked.insert(key);
        Turn { runs: self, key }
    }
}

struct Turn<'a> {
    runs: &'a CheckedRuns,
    key: Key,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Ok(mut asked) = self.runs.asked.lock() {
            asked.remove(&self.key);
        }
        self.runs.answered.notify_all();
    }
}

impl Repository {
    /// As [`Repository::checked_entries`], from memory where the run was read lately: for reading, which compares each
    /// segment with its entry.
    pub(crate) fn checked_run(&self, run: Run, digest: &[u8; 32]) -> Result<Arc<CheckedRun>> {
        let key = (run, *digest);
        let known = || self.checked_runs.lists().get(key);
        if let Some(known) = known() {
            return Ok(known);
        }
        // Several threads that read ahead come to a long run at once, whose list is long.
        let _turn = self.is_far().then(|| self.checked_runs.turn(key));
        if let Some(known) = known() {
            return Ok(known);
        }
        let entries = match self.kept_entries(run, digest) {
            Some(entries) => entries,
            None => self.checked_entries(run, digest)?,
        };
        let checked = Arc::new(CheckedRun::new(entries));
        self.checked_runs.lists().insert(key, checked.clone(), checked.memory_bytes());
        Ok(checked)
    }

    /// Returns the segments that the digest confirms if a far store's blocks that hold them are kept: each block has the
    /// fingerprints of its own.
    fn kept_entries(&self, run: Run, digest: &[u8; 32]) -> Option<Vec<SegmentEntry>> {
        let kept = if self.is_far() { self.cache.entries(run) } else { None };
        kept.filter(|entries| are_named(entries, digest))
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

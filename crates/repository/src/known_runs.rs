//! Runs of which some segments are lost. The digest in a manifest is over the fingerprints of the whole run, so that it
//! says nothing once one of them is not known. The segments before and behind the lost ones are read nonetheless: the
//! catalog has the fingerprint of each that a copy stands in for, and the container's own index those of the others.
//!
//! Through a node nothing of such a run is read: a client has no other proof than the digest.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use format::{Fingerprint, Run, SegmentAddress, SegmentEntry, VersionRecord, run_digest};

use store::SegmentStore;

use crate::checked_runs::CheckedRun;
use crate::equal_content::MAX_RUN_SEGMENTS;
use crate::mismatch::UNKNOWN;
use crate::repair::is_damage;
use crate::{Error, LocalEngines, Repository, Result};

/// Where the entries of a content may end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryEnds {
    /// Where a segment ends: the content was packed in one piece.
    AtSegments,
    Anywhere,
}

impl EntryEnds {
    /// Only content that was packed has a digest of its own.
    pub fn of(version: &VersionRecord) -> Self {
        if version.content.is_some() { EntryEnds::AtSegments } else { EntryEnds::Anywhere }
    }
}

/// Consecutive segments of a run whose offset in it is known.
pub(crate) struct Stretch {
    /// The number of segments before it.
    pub first: u32,
    /// Where it begins (bytes of the run).
    pub start: u64,
    pub segments: Arc<CheckedRun>,
}

impl Stretch {
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.segments.bytes()
    }
}

/// The segments of a run that are known.
pub(crate) struct KnownRun {
    /// In the order of the run.
    pub stretches: Vec<Stretch>,
    /// Why these are not all.
    pub damage: Option<Error>,
}

impl KnownRun {
    /// Returns the stretch that holds these bytes of the run, or why none does.
    pub fn stretch_with(self, wanted: &Range<u64>) -> Result<Stretch> {
        let is_whole = self.damage.is_none();
        let holds = |stretch: &Stretch| stretch.start <= wanted.start && wanted.end <= stretch.range().end;
        let found = self.stretches.into_iter().find(|stretch| is_whole || holds(stretch));
        found.ok_or_else(|| self.damage.expect("a whole run is one stretch"))
    }
}

impl Repository {
    /// Returns the segments of a run, the first `needed` bytes of which an entry goes up to.
    pub(crate) fn known_run(&self, run: Run, digest: &[u8; 32], needed: u64, ends: EntryEnds) -> Result<KnownRun> {
        match (self.checked_run(run, digest), &self.local) {
            (Ok(segments), _) => {
                Ok(KnownRun { stretches: vec![Stretch { first: 0, start: 0, segments }], damage: None })
            }
            (Err(damage), Some(local)) if is_damage(&damage) && run.count <= MAX_RUN_SEGMENTS => {
                let stretches = PartialRun::of(local, run)?.stretches(digest, needed, ends);
                Ok(KnownRun { stretches, damage: Some(damage) })
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// The segments before the first that is lost, and behind the last.
struct PartialRun {
    head: Vec<SegmentEntry>,
    /// None where the segment's fingerprint is not known either.
    between: Vec<Option<Fingerprint>>,
    tail: VecDeque<SegmentEntry>,
}

impl PartialRun {
    fn of(local: &LocalEngines, run: Run) -> Result<Self> {
        let mut addresses = run.addresses().collect::<VecDeque<_>>();
        let (mut head, mut tail) = (Vec::new(), VecDeque::new());
        while let Some(entry) = addresses.front().map_or(Ok(None), |address| known_entry(local, *address))? {
            head.push(entry);
            addresses.pop_front();
        }
        while let Some(entry) = addresses.back().map_or(Ok(None), |address| known_entry(local, *address))? {
            tail.push_front(entry);
            addresses.pop_back();
        }
        let lost: HashMap<_, _> =
            local.catalog.lost()?.into_iter().map(|lost| (lost.address, lost.fingerprint)).collect();
        let fingerprint = |address| lost.get(&address).copied().filter(|fingerprint| *fingerprint != UNKNOWN);
        Ok(PartialRun { head, between: addresses.into_iter().map(fingerprint).collect(), tail })
    }

    /// Whether the fingerprints, where all are known, are those that the manifest names.
    fn may_have(&self, digest: &[u8; 32]) -> bool {
        let Some(between) = self.between.iter().copied().collect::<Option<Vec<_>>>() else { return true };
        let known = |entry: &SegmentEntry| entry.fingerprint;
        let (head, tail) = (self.head.iter().map(known), self.tail.iter().map(known));
        run_digest(&head.chain(between).chain(tail).collect::<Vec<_>>()) == *digest
    }

    fn stretches(self, digest: &[u8; 32], needed: u64, ends: EntryEnds) -> Vec<Stretch> {
        let bytes = |entry: &SegmentEntry| u64::from(entry.bytes);
        let behind: u64 = self.tail.iter().map(bytes).sum();
        let known = self.head.iter().map(bytes).sum::<u64>() + if ends == EntryEnds::AtSegments { behind } else { 0 };
        // An entry has a byte at least of each segment of its run.
        let fits = known + self.between.len() as u64 <= needed;
        if self.between.is_empty() || !fits || !self.may_have(digest) {
            return Vec::new();
        }
        let first_behind = (self.head.len() + self.between.len()) as u32;
        let stretch = |first, start, entries: Vec<SegmentEntry>| Stretch {
            first,
            start,
            segments: Arc::new(CheckedRun::new(entries)),
        };
        let mut stretches = vec![stretch(0, 0, self.head)];
        if ends == EntryEnds::AtSegments {
            stretches.push(stretch(first_behind, needed - behind, self.tail.into()));
        }
        stretches
    }
}

/// Returns fingerprint and length of a segment, or of the copy that stands in for it.
fn known_entry(local: &LocalEngines, address: SegmentAddress) -> Result<Option<SegmentEntry>> {
    match local.store.entries(Run::single(address)) {
        Err(error) if error.is_damage() => Ok(None),
        entries => Ok(entries?.into_iter().next()),
    }
}

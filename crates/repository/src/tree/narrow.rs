//! Cuts an entry down to part of its bytes.

use format::{Entry, EntryKind, Run, SegmentEntry, run_digest};

use crate::mismatch::not_named;
use crate::{Repository, Result};

/// Returns `length` bytes of the entry, from `from` on. A data entry keeps only the segments it still needs.
pub(crate) fn narrow(repository: &Repository, entry: Entry, from: u64, length: u64) -> Result<Entry> {
    debug_assert!(from + length <= entry.length);
    if from == 0 && length == entry.length {
        return Ok(entry);
    }
    let kind = match entry.kind {
        EntryKind::Data { run, skip, digest } => {
            let segments = repository.checked_entries(run, &digest)?;
            narrow_run(run, &segments, skip as u64 + from, length).ok_or_else(|| too_long(run))?
        }
        EntryKind::Page { .. } => unreachable!("only content entries are narrowed"),
        EntryKind::Dropped { recipe, .. } => return Err(repository.dropped(&recipe)),
        fill => fill,
    };
    Ok(Entry { length, kind })
}

fn too_long(run: Run) -> store::Error {
    let why = "a manifest asks for more bytes of a run than its segments have".to_owned();
    store::Error::Corrupt { path: format!("container {}", run.container), offset: 0, why }
}

/// None when the segments end before the bytes do.
fn narrow_run(run: Run, segments: &[SegmentEntry], start: u64, length: u64) -> Option<EntryKind> {
    let mut offset = 0;
    let mut first = None;
    let mut last = 0;
    for (i, segment) in segments.iter().enumerate() {
        let end = offset + segment.bytes as u64;
        if end > start && offset < start + length {
            first.get_or_insert_with(|| (i, (start - offset) as u32));
            last = i;
        }
        offset = end;
    }
    let (first, skip) = first.filter(|_| offset >= start + length)?;
    let digest = run_digest(segments[first..=last].iter().map(|segment| &segment.fingerprint));
    let run = Run { container: run.container, first: run.first + first as u32, count: (last - first + 1) as u32 };
    Some(EntryKind::Data { run, skip, digest })
}

impl Repository {
    /// Returns fingerprints and lengths of a run, checked against the digest the manifest holds. Others in their place,
    /// and segments that are missing, are recorded as damage.
    pub(crate) fn checked_entries(&self, run: Run, digest: &[u8; 32]) -> Result<Vec<SegmentEntry>> {
        let segments = self.store.entries(run).inspect_err(|error| {
            if matches!(error, store::Error::NotFound { .. }) {
                self.record_missing(run);
            }
        })?;
        if !are_named(&segments, digest) {
            self.record_mismatch(run);
            return Err(not_named(run).into());
        }
        Ok(segments)
    }

    /// [`Repository::checked_entries`] of a run that a client names: what it names wrongly says nothing of the store.
    pub(crate) fn claimed_entries(&self, run: Run, digest: &[u8; 32]) -> Result<Vec<SegmentEntry>> {
        let segments = self.store.entries(run)?;
        if are_named(&segments, digest) { Ok(segments) } else { Err(not_named(run).into()) }
    }
}

/// Returns whether these are the segments of the run that has the digest in a manifest.
pub(crate) fn are_named(segments: &[SegmentEntry], digest: &[u8; 32]) -> bool {
    run_digest(segments.iter().map(|segment| &segment.fingerprint)) == *digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::{ContainerId, Fingerprint};

    #[test]
    fn a_narrowed_run_keeps_just_the_segments_it_needs() {
        let segments: Vec<_> = (0..4).map(|i| SegmentEntry { fingerprint: Fingerprint([i; 32]), bytes: 100 }).collect();
        let run = Run { container: ContainerId(1), first: 10, count: 4 };
        let Some(EntryKind::Data { run, skip, digest }) = narrow_run(run, &segments, 150, 100) else { panic!() };
        assert_eq!(narrow_run(Run { count: 4, ..run }, &segments, 350, 100), None);
        assert_eq!((run.first, run.count, skip), (11, 2, 50));
        assert_eq!(digest, run_digest([&Fingerprint([1; 32]), &Fingerprint([2; 32])]));
    }
}

//! Stretches of stored segments as the entries of a manifest: neighbours in file and container become one run.

use std::sync::Arc;

use format::{Entry, EntryKind, Run, run_digest};

use super::checkpoint_steps::WrittenRange;
use super::content_map::StoredSegment;

/// A read of any of a run reads the fingerprints of all its segments: 2 MiB of the file at 8 KiB.
const MAX_RUN_SEGMENTS: usize = 256;

/// Returns the entries that list the stretches, with their offsets, in order.
pub(super) fn entries(stretches: &[WrittenRange]) -> Vec<(u64, Entry)> {
    let mut entries = Vec::new();
    let mut first = 0;
    for at in 1..=stretches.len() {
        let goes_on = at < stretches.len() && at - first < MAX_RUN_SEGMENTS;
        if !goes_on || !is_followed_by(&stretches[at - 1], &stretches[at]) {
            entries.push((stretches[first].offset, entry(&stretches[first..at])));
            first = at;
        }
    }
    entries
}

fn is_followed_by(last: &WrittenRange, next: &WrittenRange) -> bool {
    let (Some((segment, skip)), Some((other, 0))) = (&last.segment, &next.segment) else { return false };
    let to_its_end = *skip as u64 + last.length == segment.bytes as u64;
    let follows = other.address.container == segment.address.container
        && segment.address.ordinal.checked_add(1) == Some(other.address.ordinal);
    to_its_end && follows && last.offset + last.length == next.offset
}

fn entry(stretches: &[WrittenRange]) -> Entry {
    let length = stretches.iter().map(|stretch| stretch.length).sum();
    let segments: Vec<&(Arc<StoredSegment>, u32)> =
        stretches.iter().filter_map(|stretch| stretch.segment.as_ref()).collect();
    let kind = match segments.first() {
        None => EntryKind::Zero,
        Some((first, skip)) => {
            let run =
                Run { container: first.address.container, first: first.address.ordinal, count: segments.len() as u32 };
            let digest = run_digest(segments.iter().map(|(segment, _)| &segment.fingerprint));
            EntryKind::Data { run, skip: *skip, digest }
        }
    };
    Entry { length, kind }
}

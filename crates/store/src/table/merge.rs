//! Which runs to merge, and their entries as one sorted sequence.
//!
//! Runs are of the same tier when their sizes are within a factor of four. Four runs of a tier are merged,
//! with all smaller ones: every entry is written about once a tier, and there are a dozen runs or two.

use std::sync::Arc;

use format::TableEntry;

use super::run::Run;
use crate::Result;

/// Runs of a tier that are merged together.
const FAN_IN: usize = 4;

/// Runs below this many entries are all of the lowest tier (96 KiB).
const SMALLEST_ENTRIES: u64 = 4096;

fn tier(entries: u64) -> u32 {
    (entries / SMALLEST_ENTRIES).max(1).ilog(FAN_IN as u64)
}

/// Returns the runs to merge now: none, or all up to the highest tier that is full.
pub fn choose(runs: &[Arc<Run>]) -> Vec<Arc<Run>> {
    let full = |at: u32| runs.iter().filter(|run| tier(run.record.entries) == at).count() >= FAN_IN;
    let Some(highest) = runs.iter().map(|run| tier(run.record.entries)).filter(|&at| full(at)).max() else {
        return Vec::new();
    };
    runs.iter().filter(|run| tier(run.record.entries) <= highest).cloned().collect()
}

/// Returns all entries of the runs in order, equal ones once. A run that becomes unreadable ends there: its other
/// entries are lost to the table until it is rebuilt.
pub fn merged(runs: &[Arc<Run>]) -> impl Iterator<Item = TableEntry> + use<> {
    let mut sources: Vec<_> = runs.iter().map(|run| run.entries().map_while(Result::ok).peekable()).collect();
    let mut last = None;
    std::iter::from_fn(move || {
        loop {
            let smallest = (0..sources.len()).filter_map(|at| Some((*sources[at].peek()?, at))).min()?;
            sources[smallest.1].next();
            // Entries of a damaged run may be out of order; a run must not be.
            if last.is_none_or(|last| smallest.0 > last) {
                last = Some(smallest.0);
                return Some(smallest.0);
            }
        }
    })
}

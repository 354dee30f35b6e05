//! Who sends to a seat, how far they have come, and what they may forget.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// One stream of one client process: its pieces arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    pub client: u64,
    pub stream: u32,
}

#[derive(Default)]
struct Progress {
    /// Sequence and stamp of what was received and is not yet durable.
    pending: VecDeque<(u64, u64)>,
    received: u64,
    durable: u64,
    /// Offered by name, content still to come.
    offered: BTreeSet<u64>,
}

impl Progress {
    /// Everything up to here has come.
    fn frontier(&self) -> u64 {
        self.offered.first().map_or(self.received, |first| self.received.min(first - 1))
    }
}

#[derive(Default)]
pub(super) struct Sources {
    sources: HashMap<Source, Progress>,
}

impl Sources {
    /// The stamp a piece got when it arrived before; such a piece is not applied again.
    pub fn stamp_of(&self, source: Source, sequence: u64) -> Option<u64> {
        let progress = self.sources.get(&source)?;
        if sequence > progress.received || progress.offered.contains(&sequence) {
            return None;
        }
        let pending = progress.pending.iter().find(|(known, _)| *known == sequence);
        Some(pending.map_or(0, |(_, stamp)| *stamp))
    }

    pub fn received(&mut self, source: Source, sequence: u64, stamp: u64) {
        let progress = self.sources.entry(source).or_default();
        progress.received = progress.received.max(sequence);
        progress.offered.remove(&sequence);
        progress.pending.push_back((sequence, stamp));
    }

    /// The piece is named; until its content has come, nothing from it on counts as received.
    pub fn offered(&mut self, source: Source, sequence: u64) {
        self.sources.entry(source).or_default().offered.insert(sequence);
    }

    /// A checkpoint says that the source's pieces up to this one are durable.
    pub fn restored(&mut self, source: Source, sequence: u64) {
        let progress = self.sources.entry(source).or_default();
        progress.received = progress.received.max(sequence);
        progress.durable = progress.durable.max(sequence);
    }

    /// How far each source has come: what a settle that takes everything makes durable.
    pub fn frontier(&self) -> HashMap<Source, u64> {
        self.sources.iter().map(|(source, progress)| (*source, progress.frontier())).collect()
    }

    /// Everything up to these sequences is durable; returns those that moved.
    pub fn durable(&mut self, frontier: &HashMap<Source, u64>) -> Vec<(Source, u64)> {
        let mut moved = Vec::new();
        for (source, sequence) in frontier {
            let Some(progress) = self.sources.get_mut(source) else { continue };
            if *sequence > progress.durable {
                progress.durable = *sequence;
                progress.pending.retain(|(pending, _)| pending > sequence);
                moved.push((*source, *sequence));
            }
        }
        moved
    }
}

//! The senders to a stripe set, how far they have come, and what they may forget.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far a stream's pieces are durable: all up to `sequence`, but for `held`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableUpTo {
    pub source: Source,
    pub sequence: u64,
    pub held: Vec<u64>,
}

/// The pieces that a checkpoint makes durable, by source: all up to a sequence, but for pieces in segments not whole.
#[derive(Default)]
pub(super) struct Frontier {
    reached: HashMap<Source, (u64, BTreeSet<u64>)>,
}

impl Frontier {
    /// Notes that these pieces sit in segments that are not whole. Says whether there are any.
    pub fn hold(&mut self, held: impl Iterator<Item = (Source, u64)>) -> bool {
        let mut any = false;
        for (source, sequence) in held {
            any = true;
            if let Some((reached, held)) = self.reached.get_mut(&source)
                && sequence <= *reached
            {
                held.insert(sequence);
            }
        }
        any
    }

    /// Returns (client, stream, sequence) such that everything up to the sequence is durable, without exception.
    pub fn without_gaps(&self) -> Vec<(u64, u32, u64)> {
        let whole = |(reached, held): &(u64, BTreeSet<u64>)| held.first().map_or(*reached, |first| first - 1);
        self.reached.iter().map(|(source, reached)| (source.client, source.stream, whole(reached))).collect()
    }
}

/// One stream of one client process: its pieces arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    pub client: u64,
    pub stream: u32,
}

#[derive(Default)]
struct Progress {
    /// Stamps of pieces that were received and are not yet durable, by sequence.
    pending: BTreeMap<u64, u64>,
    received: u64,
    /// The last durability notice to the source.
    notified: (u64, BTreeSet<u64>),
    /// Stamps of offers awaiting content, by sequence.
    offered: BTreeMap<u64, u64>,
}

impl Progress {
    /// Returns the sequence up to which everything has come.
    fn frontier(&self) -> u64 {
        self.offered.keys().next().map_or(self.received, |first| self.received.min(first - 1))
    }
}

/// The state of a piece that arrives.
pub(super) enum PieceState {
    Never,
    /// It was offered, with this stamp; its content has not come.
    Offered(u64),
    /// It came, content and all; its stamp, or 0 when it is durable.
    Received(u64),
}

#[derive(Default)]
pub(super) struct Sources {
    sources: HashMap<Source, Progress>,
    /// Of all pieces whose content is still to come.
    offered_stamps: BTreeSet<u64>,
}

impl Sources {
    pub fn seen(&self, source: Source, sequence: u64) -> PieceState {
        let Some(progress) = self.sources.get(&source) else { return PieceState::Never };
        if let Some(stamp) = progress.offered.get(&sequence) {
            return PieceState::Offered(*stamp);
        }
        match sequence > progress.received {
            true => PieceState::Never,
            false => PieceState::Received(progress.pending.get(&sequence).copied().unwrap_or(0)),
        }
    }

    pub fn received(&mut self, source: Source, sequence: u64, stamp: u64) {
        let progress = self.sources.entry(source).or_default();
        progress.received = progress.received.max(sequence);
        if let Some(offered) = progress.offered.remove(&sequence) {
            self.offered_stamps.remove(&offered);
        }
        progress.pending.insert(sequence, stamp);
    }

    /// Notes an offered piece; until its content has come, nothing from it on counts as received.
    pub fn offered(&mut self, source: Source, sequence: u64, stamp: u64) {
        self.sources.entry(source).or_default().offered.insert(sequence, stamp);
        self.offered_stamps.insert(stamp);
    }

    /// Returns how many of the source's offers await content.
    pub fn open_offers(&self, source: Source) -> usize {
        self.sources.get(&source).map_or(0, |progress| progress.offered.len())
    }

    pub fn has_offers(&self) -> bool {
        !self.offered_stamps.is_empty()
    }

    /// Whether a piece with a stamp between these two is offered and its content has not come.
    pub fn has_offer_between(&self, low: u64, high: u64) -> bool {
        self.offered_stamps.range(low..high).next().is_some()
    }

    /// Notes that the source's pieces up to this one are durable, by a checkpoint.
    pub fn restored(&mut self, source: Source, sequence: u64) {
        let progress = self.sources.entry(source).or_default();
        progress.received = progress.received.max(sequence);
        progress.notified.0 = progress.notified.0.max(sequence);
    }

    /// Returns the last durability notice to the source.
    pub fn last_notice(&self, source: Source) -> Option<DurableUpTo> {
        let (sequence, held) = &self.sources.get(&source)?.notified;
        Some(DurableUpTo { source, sequence: *sequence, held: held.iter().copied().collect() })
    }

    /// Returns how far each source has come: the frontier of a checkpoint that takes everything.
    pub fn frontier(&self) -> Frontier {
        let reached = self.sources.iter().map(|(source, progress)| (*source, (progress.frontier(), BTreeSet::new())));
        Frontier { reached: reached.collect() }
    }

    /// Marks the frontier durable; returns the changes for each source.
    pub fn durable(&mut self, frontier: Frontier) -> Vec<DurableUpTo> {
        let mut moved = Vec::new();
        for (source, (sequence, held)) in frontier.reached {
            let Some(progress) = self.sources.get_mut(&source) else { continue };
            progress.pending.retain(|pending, _| *pending > sequence || held.contains(pending));
            if progress.notified != (sequence, held.clone()) {
                moved.push(DurableUpTo { source, sequence, held: held.iter().copied().collect() });
                progress.notified = (sequence, held);
            }
        }
        moved
    }
}

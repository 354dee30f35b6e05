//! A settle: what a seat has received becomes a durable checkpoint, and its senders may forget it.

use std::collections::BTreeMap;

use catalog::Checkpoint;
use format::ContainerId;
use store::Claimant;

use super::layers::{Content, Stretch, runs_by_stamp};
use super::seat::Seat;
use super::sources::{DurableUpTo, Frontier};
use super::staging::Fragments;
use crate::tree::{Builder, Built, rewrite};
use crate::{Error, Result};

/// What the seat has to make durable, copied out of it.
struct Taken {
    stretches: BTreeMap<u64, Stretch>,
    size: u64,
    resized: bool,
    epoch: u64,
    number: u64,
    frontier: Vec<(u64, u32, u64)>,
    /// Pieces older than some of this may still come again: those that sit in segments that are not whole, and any
    /// that came to a seat before this one.
    needs_stamps: bool,
    /// The store was asked about the stretches since this epoch of the writer's session.
    relied_epoch: u64,
}

impl Seat {
    /// Makes durable what has come. With `fragments`, segments that are not whole are stored as they are;
    /// without, they wait for the rest. With `epoch`, that epoch begins.
    /// Returns how far each source's pieces are durable now, where that moved.
    pub fn settle(&self, claimant: Claimant, fragments: bool, epoch: Option<u64>) -> Result<Vec<DurableUpTo>> {
        let _turn = self.settling.lock().expect("no panic holds it");
        let settled = self.settle_in_turn(claimant, fragments, epoch);
        if let Err(error) = &settled {
            self.fail(error);
        }
        settled
    }

    fn settle_in_turn(&self, claimant: Claimant, fragments: bool, epoch: Option<u64>) -> Result<Vec<DurableUpTo>> {
        let (frontier, some_held_back, pieces) = self.wait_until_reduced(claimant, fragments)?;
        self.store_fragments(claimant, pieces)?;
        if let Some(taken) = self.copy_fresh(epoch, &frontier, some_held_back) {
            self.checkpoint(claimant, taken)?;
        }
        let mut state = self.usable()?;
        if let Some(epoch) = epoch {
            state.epoch = state.epoch.max(epoch);
        }
        Ok(state.sources.durable(frontier))
    }

    /// Reduces until nothing that came before now is left, then, under the same lock, takes the fragments.
    fn wait_until_reduced(&self, claimant: Claimant, fragments: bool) -> Result<(Frontier, bool, Fragments)> {
        let (generation, mut frontier) = {
            let mut state = self.usable()?;
            state.unsettled_bytes = 0;
            (state.staging.begin_settle(), state.sources.frontier())
        };
        loop {
            let worked = self.reduce(claimant)?;
            let mut state = self.usable()?;
            if state.staging.is_reduced(generation) {
                let pieces = if fragments { state.staging.fragments() } else { Vec::new() };
                let some_held_back = frontier.hold(state.staging.held());
                return Ok((frontier, some_held_back, pieces));
            }
            if !worked {
                // The rest is in the hands of other workers.
                drop(self.changed.wait(state).expect("no panic holds it"));
            }
        }
    }

    fn store_fragments(&self, claimant: Claimant, fragments: Fragments) -> Result<()> {
        let epoch = self.repository.lease.epoch();
        let bytes: Vec<&[u8]> = fragments.iter().map(|(_, bytes, _)| &bytes[..]).collect();
        let contents = self.store_contents(claimant, &bytes)?;
        let mut state = self.usable()?;
        state.rely_on(epoch);
        for ((offset, bytes, stamp), content) in fragments.iter().zip(contents) {
            state.lay_fresh(*offset, Stretch { length: bytes.len() as u64, content, stamp: *stamp });
        }
        Ok(())
    }

    fn copy_fresh(&self, epoch: Option<u64>, frontier: &Frontier, some_held_back: bool) -> Option<Taken> {
        let mut state = self.lock();
        if state.fresh.is_empty() && !state.size_is_new {
            return None;
        }
        let number = state.next_checkpoint;
        state.next_checkpoint += 1;
        state.size_is_new = false;
        let resized = std::mem::take(&mut state.resized);
        let epoch = epoch.unwrap_or(state.epoch);
        let frontier = frontier.without_gaps();
        // Readers find the stretches in `fresh` until they are in `settled`: the copies leave only then.
        let (stretches, size) = (state.fresh.copy(), state.size);
        let relied = std::mem::replace(&mut state.relied_epoch, u64::MAX).min(self.repository.lease.epoch());
        let needs_stamps = some_held_back || !state.is_first;
        Some(Taken { stretches, size, resized, epoch, number, frontier, needs_stamps, relied_epoch: relied })
    }

    fn checkpoint(&self, claimant: Claimant, taken: Taken) -> Result<()> {
        let built = self.sparse_manifest(claimant, &taken)?;
        self.record(claimant, &taken, built)?;
        let mut state = self.lock();
        for (offset, entry, stamp) in runs_by_stamp(&taken.stretches) {
            state.settled.lay(&self.repository, offset, entry, stamp)?;
        }
        for (offset, stretch) in &taken.stretches {
            state.fresh.drop_if_unchanged(*offset, stretch);
        }
        Ok(())
    }

    /// The manifest of what was written, holes between.
    fn sparse_manifest(&self, claimant: Claimant, taken: &Taken) -> Result<Built> {
        let mut builder = Builder::new(&self.repository, claimant);
        let mut position = 0;
        for (offset, stretch) in &taken.stretches {
            builder.hole(offset - position)?;
            match stretch.content {
                Content::Segment { place, fingerprint, bytes, skip } => {
                    let to_its_end = skip as u64 + stretch.length == bytes as u64;
                    builder.part(place, fingerprint, skip, stretch.length as u32, to_its_end)?;
                }
                Content::Zero => builder.zeros(stretch.length)?,
            }
            position = offset + stretch.length;
        }
        builder.finish()
    }

    /// Durable first, then the catalog's record of it.
    fn record(&self, claimant: Claimant, taken: &Taken, mut built: Built) -> Result<()> {
        for _ in 0..8 {
            self.repository.store.make_durable()?;
            let checkpoint = Checkpoint {
                session: self.options.session,
                seat: self.options.seat,
                holder: self.options.holder,
                number: taken.number,
                epoch: taken.epoch,
                root: built.root.clone(),
                size: taken.size,
                resized: taken.resized,
                frontier: taken.frontier.clone(),
                stamps: if taken.needs_stamps { stamps(&taken.stretches) } else { Vec::new() },
            };
            let references: Vec<ContainerId> = built.references.iter().copied().collect();
            let writer = self.repository.lease.session();
            match self.repository.catalog.checkpoint(writer, &checkpoint, &references, taken.relied_epoch) {
                Ok(()) => return Ok(()),
                Err(catalog::Error::NotLive { containers }) => {
                    self.repository.forget(&containers);
                    built = rewrite(&self.repository, claimant, &built.root, &containers)?;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Error::Failed("collection kept removing what this checkpoint refers to".into()))
    }
}

/// When each stretch arrived, neighbours of one arrival joined.
fn stamps(stretches: &BTreeMap<u64, Stretch>) -> Vec<(u64, u64, u64)> {
    let mut stamps: Vec<(u64, u64, u64)> = Vec::new();
    for (offset, stretch) in stretches {
        match stamps.last_mut() {
            Some((at, length, stamp)) if *at + *length == *offset && *stamp == stretch.stamp => {
                *length += stretch.length
            }
            _ => stamps.push((*offset, stretch.length, stretch.stamp)),
        }
    }
    stamps
}

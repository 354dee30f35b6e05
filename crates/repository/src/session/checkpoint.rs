//! Carries out a checkpoint's steps: a stripe set's received pieces become a durable checkpoint, and their senders may
//! forget them.

use catalog::Checkpoint;
use format::{ContainerId, Entry, EntryKind};
use store::ClaimOwner;

use super::checkpoint_steps::{CheckpointContent, Step, WrittenRange};
use super::runs;
use super::sources::DurableUpTo;
use super::stripe_owner::StripeOwner;
use crate::tree::{Builder, BuiltManifest, entries_in, rewrite};
use crate::{Error, Result};

impl StripeOwner {
    /// Makes durable what has come. With `fragments`, segments that are not whole are stored as they are;
    /// without, they wait for the rest. With `epoch`, that epoch begins.
    /// Returns how far each source's pieces are durable now, where that moved.
    pub fn checkpoint(&self, claim_owner: ClaimOwner, fragments: bool, epoch: Option<u64>) -> Result<Vec<DurableUpTo>> {
        self.wait("another checkpoint of the file", |session| {
            session.begin_checkpoint(fragments, epoch).then_some(())
        })?;
        let checkpointed = self.failing(self.checkpoint_by_steps(claim_owner));
        // Wakes the threads that wait to checkpoint.
        self.changed.notify_all();
        checkpointed
    }

    fn checkpoint_by_steps(&self, claim_owner: ClaimOwner) -> Result<Vec<DurableUpTo>> {
        loop {
            let step = self.wait("others that store segments of the file", |session| {
                let step = session.next_step(self.repository.lease.epoch());
                (!matches!(step, Step::Wait)).then_some(step)
            })?;
            match step {
                Step::Store(works) => self.store_works(claim_owner, works)?,
                Step::Record(taken) => {
                    let entries = self.write_checkpoint(claim_owner, taken)?;
                    self.event(|session| {
                        session.recorded(entries);
                        Ok(())
                    })?;
                }
                Step::Done(moved) => return Ok(moved),
                Step::Wait => {}
            }
        }
    }

    /// Records a checkpoint; returns the entries it lists.
    fn write_checkpoint(&self, claim_owner: ClaimOwner, taken: CheckpointContent) -> Result<Vec<(u64, Entry)>> {
        let built = self.sparse_manifest(claim_owner, &taken.stretches)?;
        match self.record(claim_owner, &taken, built)? {
            None => Ok(runs::entries(&taken.stretches)),
            Some(moved) => self.listed(&moved),
        }
    }

    /// Returns a manifest's entries, without holes.
    fn listed(&self, built: &BuiltManifest) -> Result<Vec<(u64, Entry)>> {
        let mut entries = Vec::new();
        entries_in(&self.repository, &built.root, 0..u64::MAX, &mut |offset, entry| {
            if entry.kind != EntryKind::Hole {
                entries.push((offset, entry));
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// Makes the manifest of the writes, holes between.
    fn sparse_manifest(&self, claim_owner: ClaimOwner, stretches: &[WrittenRange]) -> Result<BuiltManifest> {
        let mut builder = Builder::new(&self.repository, claim_owner);
        let mut position = 0;
        for stretch in stretches {
            builder.hole(stretch.offset - position)?;
            match &stretch.segment {
                Some((segment, skip)) => {
                    let to_its_end = *skip as u64 + stretch.length == segment.bytes as u64;
                    builder.part(segment.address, segment.fingerprint, *skip, stretch.length as u32, to_its_end)?;
                }
                None => builder.zeros(stretch.length)?,
            }
            position = stretch.offset + stretch.length;
        }
        builder.finish()
    }

    /// Durable first, then the catalog's record of it. Returns the manifest that was recorded, when collection made
    /// it another than was built.
    fn record(
        &self,
        claim_owner: ClaimOwner,
        taken: &CheckpointContent,
        mut built: BuiltManifest,
    ) -> Result<Option<BuiltManifest>> {
        for attempt in 0..8 {
            self.repository.store.make_durable()?;
            let checkpoint = Checkpoint {
                session: self.options.session,
                stripe_set: self.options.stripe_set,
                owner: self.options.owner,
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
            match self.repository.local_catalog()?.checkpoint(writer, &checkpoint, &references, taken.relied_epoch) {
                Ok(()) => return Ok((attempt > 0).then_some(built)),
                Err(catalog::Error::NotLive { containers }) => {
                    self.repository.forget(&containers);
                    built = rewrite(&self.repository, claim_owner, &built.root, &containers)?;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Error::Failed("collection kept removing what this checkpoint refers to".into()))
    }
}

/// Returns when each stretch arrived, neighbours of one arrival joined.
fn stamps(stretches: &[WrittenRange]) -> Vec<(u64, u64, u64)> {
    let mut stamps: Vec<(u64, u64, u64)> = Vec::new();
    for WrittenRange { offset, length, stamp, .. } in stretches {
        match stamps.last_mut() {
            Some((at, before, last)) if *at + *before == *offset && last == stamp => *before += length,
            _ => stamps.push((*offset, *length, *stamp)),
        }
    }
    stamps
}

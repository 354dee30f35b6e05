//! Taking a seat: anew, or where another node (or this one, before it died) left off.

use std::sync::{Arc, Condvar, Mutex};

use format::SessionId;

use super::budget::Budget;
use super::layers::Fresh;
use super::seat::{Seat, SeatOptions, State};
use super::sources::{Source, Sources};
use super::staging::Staging;
use crate::tree::Extents;
use crate::{Error, Repository, Result};

impl Seat {
    /// Takes the seat in the catalog, from whoever had it, and loads what its checkpoints list.
    pub fn take(
        repository: Arc<Repository>,
        budget: Arc<Budget>,
        session: SessionId,
        seat: u32,
        holder: u64,
        segment_bytes: u32,
    ) -> Result<Self> {
        let found = repository.catalog.path_session(session)?;
        let Some(found) = found.filter(|found| (seat as usize) < found.nodes.len()) else {
            return Err(Error::Failed(format!("session {session} has ended, or has no seat {seat}")));
        };
        let number = repository.catalog.take_seat(session, seat, holder)?;
        let seats = found.nodes.len() as u32;
        let options = SeatOptions { session, seat, holder, segment_bytes, stripe_bytes: found.stripe_bytes, seats };
        let mut state = State::new(segment_bytes, budget, number);
        state.base_on(&repository, &found.path)?;
        state.load_checkpoints(&repository, session, seat)?;
        Ok(Seat { options, repository, state: Mutex::new(state), changed: Condvar::new(), settling: Mutex::new(()) })
    }
}

impl State {
    fn new(segment_bytes: u32, budget: Arc<Budget>, number: u64) -> Self {
        // Every taking of the seat has a higher number, so its stamps are above those given before.
        let first_stamp = number << 40;
        State {
            staging: Staging::new(segment_bytes, first_stamp, budget),
            fresh: Fresh::default(),
            settled: Extents::default(),
            sources: Sources::default(),
            head: None,
            size: 0,
            resized: false,
            size_is_new: false,
            epoch: 0,
            last_stamp: first_stamp,
            is_first: number == 1,
            next_checkpoint: number,
            unsettled_bytes: 0,
            relied_epoch: u64::MAX,
            failure: None,
        }
    }

    fn base_on(&mut self, repository: &Repository, path: &format::StorePath) -> Result<()> {
        let head = repository.catalog.entry(path)?.and_then(|entry| entry.head);
        if let Some(head) = head {
            self.size = head.record.size;
            self.head = Some((head.record.root, head.record.size));
        }
        Ok(())
    }

    fn load_checkpoints(&mut self, repository: &Repository, session: SessionId, seat: u32) -> Result<()> {
        for checkpoint in repository.catalog.checkpoints(session)? {
            self.epoch = self.epoch.max(checkpoint.epoch);
            if checkpoint.seat != seat {
                continue;
            }
            self.size = if checkpoint.resized { checkpoint.size } else { self.size.max(checkpoint.size) };
            // The oldest stamp, where nothing older can come any more.
            self.settled.lay_manifest(repository, &checkpoint.root, 0)?;
            for (offset, length, stamp) in checkpoint.stamps {
                self.settled.stamp(repository, offset..offset + length, stamp)?;
            }
            for (client, stream, sequence) in checkpoint.frontier {
                self.sources.restored(Source { client, stream }, sequence);
            }
        }
        Ok(())
    }
}

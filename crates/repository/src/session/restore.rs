//! Taking a seat: anew, or where another node (or this one, before it died) left off.

use std::sync::Arc;

use format::{EntryKind, SessionId};

use super::SeatOptions;
use super::budget::Budget;
use super::seat::Seat;
use super::write_session::WriteSession;
use crate::tree::entries_in;
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
        let mut state = WriteSession::new(options, number)?;
        let head = repository.catalog.entry(&found.path)?.and_then(|entry| entry.head);
        state.base_on(head.map(|head| (head.record.root, head.record.size)));
        load_checkpoints(&mut state, &repository, session, seat)?;
        Ok(Seat::new(state, repository, budget))
    }
}

fn load_checkpoints(state: &mut WriteSession, repository: &Repository, session: SessionId, seat: u32) -> Result<()> {
    for checkpoint in repository.catalog.checkpoints(session)? {
        state.epoch = state.epoch.max(checkpoint.epoch);
        if checkpoint.seat != seat {
            continue;
        }
        let mut entries = Vec::new();
        entries_in(repository, &checkpoint.root, 0..u64::MAX, &mut |offset, entry| {
            if entry.kind != EntryKind::Hole {
                entries.push((offset, entry));
            }
            Ok(())
        })?;
        state.restore(&checkpoint, entries);
    }
    Ok(())
}

//! Taking a stripe set: a new one, or where another node (or this one, before it died) left off.

use std::sync::Arc;

use format::{EntryKind, SessionId};

use super::StripeOwnerOptions;
use super::budget::Budget;
use super::stripe_owner::StripeOwner;
use super::write_session::WriteSession;
use crate::tree::entries_in;
use crate::{Error, Repository, Result};

impl StripeOwner {
    /// Takes the stripe set in the catalog, from its owner so far if any, and loads its checkpoints.
    pub fn take(
        repository: Arc<Repository>,
        budget: Arc<Budget>,
        session: SessionId,
        stripe_set: u32,
        owner: u64,
        segment_bytes: u32,
    ) -> Result<Self> {
        let found = repository.local_catalog()?.path_session(session)?;
        let Some(found) = found.filter(|found| (stripe_set as usize) < found.nodes.len()) else {
            return Err(Error::Failed(format!("session {session} has ended, or has no stripe set {stripe_set}")));
        };
        let number = repository.local_catalog()?.take_stripe_set(session, stripe_set, owner)?;
        let stripe_sets = found.nodes.len() as u32;
        let options = StripeOwnerOptions {
            session,
            stripe_set,
            owner,
            segment_bytes,
            stripe_bytes: found.stripe_bytes,
            stripe_sets,
        };
        let mut state = WriteSession::new(options, number)?;
        let head = repository.catalog.entry(&found.path)?.and_then(|entry| entry.head);
        state.base_on(head.map(|head| (head.record.root, head.record.size)));
        load_checkpoints(&mut state, &repository, session, stripe_set)?;
        Ok(StripeOwner::new(state, repository, budget))
    }
}

fn load_checkpoints(
    state: &mut WriteSession,
    repository: &Repository,
    session: SessionId,
    stripe_set: u32,
) -> Result<()> {
    for checkpoint in repository.catalog.checkpoints(session)? {
        state.epoch = state.epoch.max(checkpoint.epoch);
        if checkpoint.stripe_set != stripe_set {
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

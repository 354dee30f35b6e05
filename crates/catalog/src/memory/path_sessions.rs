//! Path sessions: which paths are open for writing, which node owns each stripe set, and the checkpoints.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use format::{ContainerId, HandleKey, Root, SessionId, StorePath};

use super::{CHECKPOINT_CURSOR, State};
use crate::clock::lease_end_ns;
use crate::refusal::{MAX_CHECKPOINT, Refusal, refused};
use crate::{Checkpoint, Error, Join, PathSession, Result};

pub(super) struct OpenPath {
    /// Its `interrupted` is not updated: the lease decides.
    session: PathSession,
    /// By the digest of its key: whether the handle was taken off.
    handles: BTreeMap<[u8; 32], bool>,
    stripe_sets: BTreeMap<u32, StripeSet>,
    /// By stripe set and number; each with its cursor in `roots`.
    pub checkpoints: BTreeMap<(u32, u64), (u64, Checkpoint)>,
}

#[derive(Clone, Copy)]
struct StripeSet {
    owner: u64,
    /// The last number its owner may no longer give: used by a checkpoint or by a taking.
    last_number: u64,
}

impl State {
    /// Whether the path has a session, live or interrupted.
    pub fn has_session(&self, path: &StorePath) -> bool {
        self.path_sessions.values().any(|open| open.session.path == *path)
    }

    pub fn join(&mut self, join: &Join) -> PathSession {
        self.set_aside_expired(&join.path);
        let id = match self.live_session(&join.path) {
            Some(found) => found.id,
            None => self.open_path(join),
        };
        if let Some(lease) = self.sessions.get_mut(&id) {
            lease.end_ns = lease.end_ns.max(lease_end_ns(self.now_ns, join.lease_ms));
        }
        let open = self.path_sessions.get_mut(&id).expect("found or inserted above");
        if let Entry::Vacant(new) = open.handles.entry(join.key.digest()) {
            new.insert(false);
            open.session.handles += 1;
        }
        self.path_session(id).expect("found or inserted above")
    }

    /// Retires the path's expired session, which can be renewed only until another takes its path.
    fn set_aside_expired(&mut self, path: &StorePath) {
        let of_path = self.path_sessions.iter().filter(|(_, open)| open.session.path == *path);
        let expired: Vec<_> = of_path.map(|(id, _)| *id).filter(|id| self.lease(*id).is_err()).collect();
        expired.into_iter().for_each(|id| self.retire(id));
    }

    fn open_path(&mut self, join: &Join) -> SessionId {
        let id = self.begin(join.lease_ms).id;
        let session = PathSession {
            id,
            path: join.path.clone(),
            nodes: join.nodes.clone(),
            stripe_bytes: join.stripe_bytes,
            job: join.job.clone(),
            opened_ns: self.now_ns,
            handles: 0,
            interrupted: false,
        };
        let (handles, stripe_sets, checkpoints) = Default::default();
        self.path_sessions.insert(id, OpenPath { session, handles, stripe_sets, checkpoints });
        id
    }

    pub fn path_session(&self, session: SessionId) -> Option<PathSession> {
        let open = self.path_sessions.get(&session)?;
        Some(PathSession { interrupted: self.lease(session).is_err(), ..open.session.clone() })
    }

    pub fn live_session(&self, path: &StorePath) -> Option<PathSession> {
        let of_path = self.path_sessions.iter().filter(|(_, open)| open.session.path == *path);
        of_path.filter_map(|(id, _)| self.path_session(*id)).find(|session| !session.interrupted)
    }

    pub fn has_handle(&self, session: SessionId, key: &HandleKey) -> Option<bool> {
        self.path_sessions.get(&session).map(|open| open.handles.contains_key(&key.digest()))
    }

    pub fn leave(&mut self, session: SessionId, key: &HandleKey) -> Result<u32> {
        let open = self.path_sessions.get_mut(&session).ok_or(Error::LeaseLost { session })?;
        match open.handles.get_mut(&key.digest()) {
            Some(is_left) if !*is_left => *is_left = true,
            _ => return Ok(open.session.handles),
        }
        open.session.handles -= 1;
        let handles = open.session.handles;
        if handles == 0 {
            self.retire(session);
        }
        Ok(handles)
    }

    pub fn leave_all(&mut self, session: SessionId) {
        if let Some(open) = self.path_sessions.get_mut(&session) {
            open.handles.values_mut().for_each(|is_left| *is_left = true);
            open.session.handles = 0;
            self.retire(session);
        }
    }

    pub fn take_stripe_set(&mut self, session: SessionId, stripe_set: u32, owner: u64) -> Result<u64> {
        if !self.sessions.contains_key(&session) {
            return Err(Error::LeaseLost { session });
        }
        let open = self.path_sessions.get_mut(&session).ok_or(Error::LeaseLost { session })?;
        // Taking it again uses up a number, so that no two takings return the same.
        let last_number = open.stripe_sets.get(&stripe_set).map_or(0, |former| former.last_number + 1);
        open.stripe_sets.insert(stripe_set, StripeSet { owner, last_number });
        Ok(last_number + 1)
    }

    pub fn checkpoint(
        &mut self,
        writer: SessionId,
        made: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Result<()> {
        let epoch = self.lease(writer)?.epoch.min(epoch);
        let Checkpoint { session, stripe_set, owner, number, .. } = *made;
        self.lease(session)?;
        let open = self.path_sessions.get(&session).ok_or(Error::LeaseLost { session })?;
        let held = open.stripe_sets.get(&stripe_set).filter(|held| held.owner == owner);
        let held = held.ok_or(Error::StripeSetLost { session, stripe_set })?;
        if number <= held.last_number || number > MAX_CHECKPOINT {
            return refused(&open.session.path, Refusal::CheckpointNumber);
        }
        self.check_references(references, epoch)?;

        let referral = self.counters.next_referral();
        self.mark_referred(references, referral);
        self.checkpoints += 1;
        let cursor = CHECKPOINT_CURSOR | self.checkpoints;
        let open = self.path_sessions.get_mut(&session).expect("found above");
        open.stripe_sets.insert(stripe_set, StripeSet { owner, last_number: number });
        open.checkpoints.insert((stripe_set, number), (cursor, made.clone()));
        Ok(())
    }

    pub fn checkpoints(&self, session: SessionId) -> Vec<Checkpoint> {
        let open = self.path_sessions.get(&session);
        open.iter().flat_map(|open| open.checkpoints.values()).map(|(_, checkpoint)| checkpoint.clone()).collect()
    }

    pub fn checkpoint_roots(&self) -> impl Iterator<Item = (u64, Root)> + '_ {
        let all = self.path_sessions.values().flat_map(|open| open.checkpoints.values());
        all.map(|(cursor, checkpoint)| (*cursor, checkpoint.root.clone()))
    }

    /// Drops the stripe set's checkpoints up to `number`: a commit carries them.
    pub fn drop_checkpoints(&mut self, session: SessionId, stripe_set: u32, number: u64) {
        if let Some(open) = self.path_sessions.get_mut(&session) {
            open.checkpoints
                .retain(|(of_stripe_set, of_number), _| *of_stripe_set != stripe_set || *of_number > number);
        }
    }
}

//! Leases: which sessions may commit, and which epochs are still relied upon.

use format::SessionId;

use super::State;
use super::path_sessions::OpenPath;
use crate::clock::lease_end_ns;
use crate::{ContainerState, Error, PathState, Result, Session};

#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub epoch: u64,
    pub end_ns: i64,
    /// The client of a node that it was begun for.
    pub client: Option<u64>,
}

impl State {
    pub fn begin(&mut self, lease_ms: u64) -> Session {
        self.begin_for(None, lease_ms)
    }

    pub fn begin_for(&mut self, client: Option<u64>, lease_ms: u64) -> Session {
        let id = self.counters.next_session();
        let epoch = self.counters.epoch;
        self.sessions.insert(id, Lease { epoch, end_ns: lease_end_ns(self.now_ns, lease_ms), client });
        Session { id, epoch }
    }

    pub fn renew(&mut self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        let lease = self.sessions.get_mut(&session).ok_or(Error::LeaseLost { session })?;
        lease.end_ns = lease_end_ns(self.now_ns, lease_ms);
        if refresh {
            lease.epoch = self.counters.epoch;
        }
        Ok(Session { id: session, epoch: lease.epoch })
    }

    /// Returns the session's lease, if it is held now.
    pub fn lease(&self, session: SessionId) -> Result<Lease> {
        let held = self.sessions.get(&session).filter(|lease| lease.end_ns > self.now_ns);
        held.copied().ok_or(Error::LeaseLost { session })
    }

    pub fn lease_left_ms(&self, session: SessionId) -> Option<u64> {
        self.lease(session).ok().map(|lease| (lease.end_ns - self.now_ns) as u64 / 1_000_000)
    }

    /// Ends a lease: open containers become live, a path session stays only if it has checkpoints.
    pub fn retire(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        for container in self.containers.values_mut().filter(|container| container.opener == Some(session)) {
            container.record.state = ContainerState::Live;
            container.opener = None;
        }
        // What was written under a name that was removed is of no use to anyone.
        let is_done = |open: &OpenPath| open.checkpoints.is_empty() || open.state == PathState::Removed;
        if self.path_sessions.get(&session).is_some_and(is_done) {
            self.path_sessions.remove(&session);
        }
    }

    pub fn end_expired(&mut self) {
        let now_ns = self.now_ns;
        let expired = self.sessions.iter().filter(|(_, lease)| lease.end_ns <= now_ns).map(|(session, _)| *session);
        for session in expired.collect::<Vec<_>>() {
            self.retire(session);
        }
        // Interrupted sessions that have no checkpoint left.
        let sessions = &self.sessions;
        self.path_sessions.retain(|session, open| sessions.contains_key(session) || !open.checkpoints.is_empty());
    }
}

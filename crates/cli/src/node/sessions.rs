//! The ownership of sessions: a client renews, commits under and ends only those that were begun for it, uses those of
//! paths only with the key of a handle, and discards or recovers only sessions without writers. The catalog remembers
//! this, so that it holds after a node's restart too.

use catalog::{Commit, Purpose, Session};
use format::{Change, HandleKey, SessionId};
use transfer::message::{Failure, FailureKind};

use super::failure;
use super::handler::Connection;
use crate::clock::now_ns;

impl Connection {
    pub fn begin_session(&self, purpose: Purpose, lease_ms: u64) -> Result<Session, Failure> {
        // Sessions of paths are opened, with a path.
        let purpose = if purpose == Purpose::Path { Purpose::Write } else { purpose };
        let (begun, client) = (&self.node.begun_sessions, self.source.client);
        begun.admit(client)?;
        let session = self.node.catalog()?.begin_for(owner(client), purpose, lease_ms)?;
        begun.lasts(session.id, client, lease_ms);
        Ok(session)
    }

    pub fn renew_session(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session, Failure> {
        self.check_owner(session)?;
        let renewed = self.node.repository.catalog().renew(session, lease_ms, refresh)?;
        self.node.begun_sessions.lasts(session, self.source.client, lease_ms);
        Ok(renewed)
    }

    /// Ending twice is no error.
    pub fn end_session(&self, session: SessionId) -> Result<(), Failure> {
        if self.check_owner(session)? {
            self.node.repository.catalog().end(session)?;
            self.node.begun_sessions.ended(session);
        }
        Ok(())
    }

    pub fn commit(&self, mut commit: Commit) -> Result<catalog::Committed, Failure> {
        self.check_owner(commit.session)?;
        if !commit.checkpoints.is_empty() {
            let why = "checkpoints are checkpointed by the node that commits a path's session, and by no client";
            return Err(Failure::new(FailureKind::Refused, why));
        }
        // The client's session may be younger than what this node believes of containers.
        commit.epoch = commit.epoch.min(self.node.clients.since_epoch(self.source.client));
        let written = commit.changes.iter().map(written_bytes).sum();
        let committed = self.node.repository.commit_once(commit).map_err(failure::of)?;
        self.traffic.written(written);
        Ok(committed)
    }

    pub fn discard(&self, session: SessionId) -> Result<(), Failure> {
        self.check_interrupted(session)?;
        Ok(self.node.repository.catalog().discard(session)?)
    }

    pub fn recover(&self, session: SessionId) -> Result<u64, Failure> {
        self.check_interrupted(session)?;
        let recovered = repository::recover(&self.node.repository, self.claim_owner, session, now_ns());
        Ok(recovered.map_err(failure::of)?.version)
    }

    /// Whether there is such a session; refused when it is another's.
    fn check_owner(&self, session: SessionId) -> Result<bool, Failure> {
        match self.node.catalog()?.is_begun_for(session, owner(self.source.client))? {
            Some(false) => {
                let why = format!("session {session} was not begun by this client; it is left alone");
                Err(Failure::new(FailureKind::Refused, why))
            }
            found => Ok(found.is_some()),
        }
    }

    /// Whether there is such a session; refused when the key is of none of its handles.
    pub fn check_handle(&self, session: SessionId, key: &HandleKey) -> Result<bool, Failure> {
        match self.node.catalog()?.has_handle(session, key)? {
            Some(false) => {
                let why = format!("session {session} was not opened with this key; it is left alone");
                Err(Failure::new(FailureKind::Refused, why))
            }
            found => Ok(found.is_some()),
        }
    }

    /// Refuses a connection that has not shown the key of a handle.
    pub fn check_attached(&self, session: SessionId) -> Result<(), Failure> {
        if self.has_attached(session) {
            return Ok(());
        }
        let why = format!("session {session}: this connection has not attached to it with a handle's key");
        Err(Failure::new(FailureKind::Refused, why))
    }

    /// Refuses to end leases of processes, and sessions that programs write in: only their owners may.
    fn check_interrupted(&self, session: SessionId) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::new(FailureKind::Refused, format!("session {session} {why}")));
        match self.node.catalog()?.path_session(session)? {
            None => refused("is no interrupted session of a path; `thalweg sessions` lists them"),
            Some(found) if !found.interrupted => refused("is being written now; it was not interrupted"),
            Some(_) => Ok(()),
        }
    }
}

/// Content that a client stored by itself, and names now; a snapshot names its files' content again.
fn written_bytes(change: &Change) -> u64 {
    match change {
        Change::Write { path, version, .. } if !repository::is_reserved(path) => version.size,
        _ => 0,
    }
}

/// Returns the catalog's number of a client. A client shows only its own number to renew, commit under and end its
/// sessions: readers of the catalog must not learn it there.
fn owner(client: u64) -> u64 {
    let mut number = [0; HandleKey::BYTES];
    number[..8].copy_from_slice(&client.to_le_bytes());
    let digest = HandleKey(number).digest();
    u64::from_le_bytes(std::array::from_fn(|at| digest[at]))
}

//! Leases: which sessions may commit, and which epochs are still relied upon.

use format::SessionId;
use rusqlite::Connection;

use super::failure::Attempt;
use super::path_sessions::REMOVED;
use super::statement::{all, first, number, run};
use super::writing::WriteTransaction;
use crate::clock::lease_time;
use crate::{Error, Purpose, Session};

/// Whether the lease of a row of `sessions` is held; `?1` is the time by the lease clock. The times of another start of the
/// machine differ in the bits above the milliseconds.
macro_rules! is_held {
    () => {
        "(end_ns >> 41) = (?1 >> 41) AND end_ns > ?1"
    };
}
pub(super) use is_held;

impl WriteTransaction<'_> {
    pub fn begin(&mut self, purpose: Purpose, lease_ms: u64) -> Attempt<Session> {
        self.insert_session(purpose as i64, lease_ms)
    }

    pub fn begin_for(&mut self, client: u64, lease_ms: u64) -> Attempt<Session> {
        self.insert_session(client_mark(client), lease_ms)
    }

    fn insert_session(&mut self, purpose: i64, lease_ms: u64) -> Attempt<Session> {
        let id = self.counters.next_session();
        let epoch = self.counters.epoch;
        let row = (id.0 as i64, purpose, epoch as i64, lease_time::end(self.lease_now, lease_ms));
        run(self.sql, "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4)", row)?;
        Ok(Session { id, epoch })
    }

    pub fn renew(&mut self, session: SessionId, lease_ms: u64, refresh: bool) -> Attempt<Session> {
        let text = "UPDATE sessions SET end_ns = ?2, epoch = iif(?3, ?4, epoch) WHERE id = ?1 RETURNING epoch";
        let end_ns = lease_time::end(self.lease_now, lease_ms);
        let params = (session.0 as i64, end_ns, refresh, self.counters.epoch as i64);
        let epoch = first(self.sql, text, params, |row| number(row, 0))?;
        Ok(Session { id: session, epoch: epoch.ok_or(Error::LeaseLost { session })? })
    }

    /// Returns the epoch of a session that holds a lease now.
    pub fn leased_epoch(&self, session: SessionId) -> Attempt<u64> {
        let text = concat!("SELECT epoch FROM sessions WHERE id = ?2 AND ", is_held!());
        let epoch = first(self.sql, text, (self.lease_now, session.0 as i64), |row| number(row, 0))?;
        Ok(epoch.ok_or(Error::LeaseLost { session })?)
    }

    /// Ends a lease: open containers become live, a path session stays only if it has checkpoints.
    pub fn retire(&mut self, session: SessionId) -> Attempt<()> {
        let id = [session.0 as i64];
        run(self.sql, "DELETE FROM sessions WHERE id = ?1", id)?;
        run(self.sql, "UPDATE containers SET state = 1, opener = NULL WHERE opener = ?1", id)?;
        // What was written under a name that was removed is of no use to anyone.
        let removed = "DELETE FROM checkpoints WHERE session = ?1
            AND EXISTS (SELECT 1 FROM path_sessions WHERE id = ?1 AND state = ?2)";
        run(self.sql, removed, (session.0 as i64, REMOVED))?;
        let checkpoints = "SELECT 1 FROM checkpoints WHERE session = ?1 LIMIT 1";
        if first(self.sql, checkpoints, id, |_| Ok(()))?.is_none() {
            self.drop_path_session(session)?;
        }
        Ok(())
    }

    pub fn end_expired(&mut self) -> Attempt<()> {
        let expired = concat!("SELECT id FROM sessions WHERE NOT (", is_held!(), ")");
        for session in all(self.sql, expired, [self.lease_now], |row| Ok(SessionId(number(row, 0)?)))? {
            self.retire(session)?;
        }
        // Interrupted sessions that have no checkpoint left.
        let checkpointed =
            "SELECT id FROM path_sessions AS path WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = path.id)
            AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE session = path.id)";
        for session in all(self.sql, checkpointed, [], |row| Ok(SessionId(number(row, 0)?)))? {
            self.drop_path_session(session)?;
        }
        Ok(())
    }
}

/// Returns how `purpose` marks a client's session: negative, its other bits the client's.
fn client_mark(client: u64) -> i64 {
    (client | 1 << 63) as i64
}

pub(super) fn is_begun_for(sql: &Connection, session: SessionId, client: u64) -> Attempt<Option<bool>> {
    let text = "SELECT purpose = ?2 FROM sessions WHERE id = ?1";
    first(sql, text, (session.0 as i64, client_mark(client)), |row| Ok(row.get(0)?))
}

/// Returns the epoch of the oldest session left; files left by then may go.
pub(super) fn oldest_epoch(sql: &Connection) -> Attempt<Option<u64>> {
    first(sql, "SELECT epoch FROM sessions ORDER BY epoch LIMIT 1", [], |row| number(row, 0))
}

//! Path sessions: which paths are open for writing, which node owns each stripe set, and the checkpoints.
//!
//! A path session is live while its lease in `sessions` is held; without one it is interrupted.

use std::collections::BTreeMap;

use format::{Change, ContainerId, HandleKey, Reader, Root, SessionId, StorePath, Writer};
use rusqlite::{Connection, Row};

use super::failure::Attempt;
use super::schema;
use super::sessions::is_held;
use super::statement::{all, at_most, first, number, run};
use super::writing::WriteTransaction;
use crate::clock::lease_time;
use crate::open_paths::{OpenName, altered};
use crate::refusal::{MAX_CHECKPOINT, Refusal, refused};
use crate::subtree::{bounds, successor};
use crate::{Checkpoint, Error, Join, PathSession, PathState, Purpose};

/// The columns [`read_session`] reads; `?1` is the time by the lease clock.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT p.id, path, nodes, stripe_bytes, job, opened_ns, handles, end_ns IS NULL OR NOT (",
            is_held!(),
            ")
             FROM path_sessions AS p LEFT JOIN sessions AS s ON s.id = p.id ",
            $rest
        )
    };
}

impl WriteTransaction<'_> {
    pub fn join(&mut self, join: &Join) -> Attempt<PathSession> {
        self.set_aside_expired(&join.path)?;
        let session = match live_session(self.sql, self.lease_now, &join.path)? {
            Some(found) => found.id,
            None => self.open_path(join)?,
        };
        let id = session.0 as i64;
        let extend = "UPDATE sessions SET end_ns = max(end_ns, ?2) WHERE id = ?1";
        run(self.sql, extend, (id, lease_time::end(self.lease_now, join.lease_ms)))?;
        let add = "INSERT OR IGNORE INTO path_handles (session, key) VALUES (?1, ?2)";
        if run(self.sql, add, (id, join.key.digest()))? > 0 {
            run(self.sql, "UPDATE path_sessions SET handles = handles + 1 WHERE id = ?1", [id])?;
        }
        let joined = path_session(self.sql, self.lease_now, session)?;
        Ok(joined.ok_or(Error::LeaseLost { session })?)
    }

    /// Retires the path's expired session, which can be renewed only until another takes its path.
    fn set_aside_expired(&mut self, path: &StorePath) -> Attempt<()> {
        let text = select_sessions!("WHERE path = ?2");
        for session in all(self.sql, text, (self.lease_now, path.as_bytes()), read_session)? {
            if session.interrupted {
                self.retire(session.id)?;
            }
        }
        Ok(())
    }

    fn open_path(&mut self, join: &Join) -> Attempt<SessionId> {
        let session = self.begin(Purpose::Path, join.lease_ms)?.id;
        let mut nodes = Writer::new();
        nodes.list(&join.nodes, |to, node| {
            to.text(node);
        });
        let row =
            (session.0 as i64, join.path.as_bytes(), nodes.finish(), join.stripe_bytes as i64, &join.job, self.now_ns);
        run(self.sql, "INSERT INTO path_sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0)", row)?;
        Ok(session)
    }

    /// Alters paths and states as a commit with these changes does.
    pub fn follow_changes(&mut self, changes: &[Change], own: &[SessionId]) -> Attempt<()> {
        if first(self.sql, "SELECT 1 FROM path_sessions LIMIT 1", [], |_| Ok(()))?.is_none() {
            return Ok(());
        }
        for name in altered(self.open_names(changes)?, changes, own) {
            let text = "UPDATE path_sessions SET path = ?2, state = ?3 WHERE id = ?1";
            run(self.sql, text, (name.session.0 as i64, name.path.as_bytes(), number_of(name.state)))?;
        }
        Ok(())
    }

    /// Returns the sessions of paths that the changes may concern: a job may have 65 536 files open, each closed by a commit.
    fn open_names(&self, changes: &[Change]) -> Attempt<Vec<OpenName>> {
        let mut found = BTreeMap::new();
        let mut add = |from: &[u8], before: &[u8]| {
            let text = "SELECT p.id, path, state, s.id IS NOT NULL FROM path_sessions AS p
                LEFT JOIN sessions AS s ON s.id = p.id WHERE path >= ?1 AND path < ?2";
            let names = all(self.sql, text, (from, before), read_open_name)?;
            found.extend(names.into_iter().map(|name| (name.session, name)));
            Attempt::Ok(())
        };
        for change in changes {
            add(change.path().as_bytes(), &successor(change.path()))?;
            match change {
                Change::Remove { path, .. } => add(&bounds(path).0, &bounds(path).1)?,
                Change::Rename { from, to } => {
                    add(&bounds(from).0, &bounds(from).1)?;
                    add(to.as_bytes(), &successor(to))?;
                }
                _ => {}
            }
        }
        Ok(found.into_values().collect())
    }

    /// Refuses a commit of a session whose name was removed meanwhile.
    pub fn check_path_state(&self, session: SessionId) -> Attempt<()> {
        if path_state(self.sql, session)? == Some(PathState::Removed) {
            let found = path_session(self.sql, self.lease_now, session)?.ok_or(Error::LeaseLost { session })?;
            return Err(Error::HeadMoved { path: found.path, head: None }.into());
        }
        Ok(())
    }

    pub fn leave(&mut self, session: SessionId, key: &HandleKey) -> Attempt<u32> {
        let take_off = "UPDATE path_handles SET is_left = 1 WHERE session = ?1 AND key = ?2 AND is_left = 0";
        let taken_off = run(self.sql, take_off, (session.0 as i64, key.digest()))?;
        let text = "UPDATE path_sessions SET handles = max(handles - ?2, 0) WHERE id = ?1 RETURNING handles";
        let handles = first(self.sql, text, (session.0 as i64, taken_off as i64), |row| Ok(row.get(0)?))?;
        let handles = handles.ok_or(Error::LeaseLost { session })?;
        if taken_off > 0 && handles == 0 {
            self.retire(session)?;
        }
        Ok(handles)
    }

    pub fn leave_all(&mut self, session: SessionId) -> Attempt<()> {
        let id = [session.0 as i64];
        run(self.sql, "UPDATE path_handles SET is_left = 1 WHERE session = ?1", id)?;
        match run(self.sql, "UPDATE path_sessions SET handles = 0 WHERE id = ?1", id)? {
            0 => Ok(()),
            _ => self.retire(session),
        }
    }

    pub fn discard(&mut self, session: SessionId) -> Attempt<()> {
        run(self.sql, "DELETE FROM checkpoints WHERE session = ?1", [session.0 as i64])?;
        self.retire(session)
    }

    /// Drops the session; its checkpoints are gone already.
    pub fn drop_path_session(&mut self, session: SessionId) -> Attempt<()> {
        run(self.sql, "DELETE FROM path_sessions WHERE id = ?1", [session.0 as i64])?;
        run(self.sql, "DELETE FROM stripe_owners WHERE session = ?1", [session.0 as i64])?;
        run(self.sql, "DELETE FROM path_handles WHERE session = ?1", [session.0 as i64])?;
        Ok(())
    }

    pub fn take_stripe_set(&mut self, session: SessionId, stripe_set: u32, owner: u64) -> Attempt<u64> {
        let running = "SELECT 1 FROM path_sessions JOIN sessions USING (id) WHERE id = ?1";
        first(self.sql, running, [session.0 as i64], |_| Ok(()))?.ok_or(Error::LeaseLost { session })?;
        // Taking it again uses up a number, so that no two takings return the same.
        let text = "INSERT INTO stripe_owners VALUES (?1, ?2, ?3, 0)
            ON CONFLICT DO UPDATE SET owner = ?3, last_number = last_number + 1 RETURNING last_number";
        let last = first(self.sql, text, (session.0 as i64, stripe_set, owner as i64), |row| number(row, 0))?;
        Ok(last.unwrap_or(0).saturating_add(1))
    }

    pub fn checkpoint(
        &mut self,
        writer: SessionId,
        made: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Attempt<()> {
        let epoch = self.leased_epoch(writer)?.min(epoch);
        let Checkpoint { session, stripe_set, owner, number: made_number, .. } = *made;
        self.leased_epoch(session)?;
        let found = path_session(self.sql, self.lease_now, session)?.ok_or(Error::LeaseLost { session })?;
        let held = "SELECT last_number FROM stripe_owners WHERE session = ?1 AND stripe_set = ?2 AND owner = ?3";
        let last = first(self.sql, held, (session.0 as i64, stripe_set, owner as i64), |row| number(row, 0))?;
        if made_number <= last.ok_or(Error::StripeSetLost { session, stripe_set })? || made_number > MAX_CHECKPOINT {
            return Ok(refused(&found.path, Refusal::CheckpointNumber)?);
        }
        let referral = self.counters.next_referral();
        self.refer(references, epoch, referral)?;
        let text = "UPDATE stripe_owners SET last_number = ?3 WHERE session = ?1 AND stripe_set = ?2";
        run(self.sql, text, (session.0 as i64, stripe_set, made_number as i64))?;
        self.insert_checkpoint(made)
    }

    fn insert_checkpoint(&self, made: &Checkpoint) -> Attempt<()> {
        let text = "INSERT INTO checkpoints (session, stripe_set, number, owner, epoch, size, root, resized, arrivals)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let params = (
            made.session.0 as i64,
            made.stripe_set,
            made.number as i64,
            made.owner as i64,
            made.epoch as i64,
            made.size as i64,
            made.root.encode(),
            made.resized,
            encode_arrivals(made),
        );
        run(self.sql, text, params)?;
        Ok(())
    }

    /// Drops the stripe set's checkpoints up to `number`: a commit carries them.
    pub fn drop_checkpoints(&mut self, session: SessionId, stripe_set: u32, number: u64) -> Attempt<()> {
        let text = "DELETE FROM checkpoints WHERE session = ?1 AND stripe_set = ?2 AND number <= ?3";
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        run(self.sql, text, (session.0 as i64, stripe_set, number))?;
        Ok(())
    }
}

/// Returns whether the key is a handle's. Handles are found by digests: the time this takes reveals nothing about a
/// key.
pub(super) fn has_handle(sql: &Connection, session: SessionId, key: &HandleKey) -> Attempt<Option<bool>> {
    let text = "SELECT EXISTS (SELECT 1 FROM path_handles WHERE session = ?1 AND key = ?2)
        FROM path_sessions WHERE id = ?1";
    first(sql, text, (session.0 as i64, key.digest()), |row| Ok(row.get(0)?))
}

pub(super) fn path_session(sql: &Connection, lease_now: i64, id: SessionId) -> Attempt<Option<PathSession>> {
    first(sql, select_sessions!("WHERE p.id = ?2"), (lease_now, id.0 as i64), read_session)
}

pub(super) fn path_state(sql: &Connection, id: SessionId) -> Attempt<Option<PathState>> {
    first(sql, "SELECT state FROM path_sessions WHERE id = ?1", [id.0 as i64], |row| Ok(state_of(row.get(0)?)))
}

fn read_open_name(row: &Row) -> Attempt<OpenName> {
    let path = StorePath::new(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?;
    let (session, state) = (SessionId(number(row, 0)?), state_of(row.get(2)?));
    Ok(OpenName { session, path, state, is_live: row.get(3)? })
}

/// In the column `state`; 0 is [`PathState::Current`].
const SUPERSEDED: i64 = 1;
pub(super) const REMOVED: i64 = 2;

fn number_of(state: PathState) -> i64 {
    match state {
        PathState::Current => 0,
        PathState::Superseded => SUPERSEDED,
        PathState::Removed => REMOVED,
    }
}

fn state_of(number: i64) -> PathState {
    match number {
        SUPERSEDED => PathState::Superseded,
        REMOVED => PathState::Removed,
        _ => PathState::Current,
    }
}

pub(super) fn lease_left_ms(sql: &Connection, lease_now: i64, id: SessionId) -> Attempt<Option<u64>> {
    let text = concat!("SELECT end_ns - ?1 FROM sessions WHERE id = ?2 AND ", is_held!());
    first(sql, text, (lease_now, id.0 as i64), |row| number(row, 0))
}

pub(super) fn live_session(sql: &Connection, lease_now: i64, path: &StorePath) -> Attempt<Option<PathSession>> {
    let text = concat!(select_sessions!("WHERE path = ?2 AND state = 0 AND "), is_held!());
    first(sql, text, (lease_now, path.as_bytes()), read_session)
}

pub(super) fn path_sessions(
    sql: &Connection,
    lease_now: i64,
    after: SessionId,
    limit: usize,
) -> Attempt<Vec<PathSession>> {
    let text = select_sessions!("WHERE p.id > ?2 ORDER BY p.id LIMIT ?3");
    all(sql, text, (lease_now, at_most(after.0 as usize), at_most(limit)), read_session)
}

fn read_session(row: &Row) -> Attempt<PathSession> {
    let mut nodes = Reader::new("path session", row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?);
    Ok(PathSession {
        id: SessionId(number(row, 0)?),
        path: StorePath::new(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?,
        nodes: nodes.list(4, |node| node.text())?,
        stripe_bytes: number(row, 3)?,
        job: row.get(4)?,
        opened_ns: row.get(5)?,
        handles: row.get(6)?,
        interrupted: row.get(7)?,
    })
}

macro_rules! select_checkpoints {
    ($stripe_set:literal, $owner:literal) => {
        concat!(
            "SELECT ",
            $stripe_set,
            ", number, ",
            $owner,
            ", epoch, size, root, resized, arrivals FROM checkpoints
            WHERE session = ?1 AND (",
            $stripe_set,
            ", number) > (?2, ?3) ORDER BY ",
            $stripe_set,
            ", number LIMIT ?4"
        )
    };
}

pub(super) fn checkpoints(
    sql: &Connection,
    session: SessionId,
    after: (u32, u64),
    limit: usize,
) -> Attempt<Vec<Checkpoint>> {
    let text = match schema::names_stripe_owners(sql)? {
        true => select_checkpoints!("stripe_set", "owner"),
        // A catalog opened for reading stays as it is.
        false => select_checkpoints!("seat", "holder"),
    };
    let params = (session.0 as i64, after.0, at_most(after.1 as usize), at_most(limit));
    all(sql, text, params, |row| {
        let (frontier, stamps) = decode_arrivals(row.get_ref(7)?.as_blob().map_err(rusqlite::Error::from)?)?;
        Ok(Checkpoint {
            session,
            stripe_set: row.get(0)?,
            number: number(row, 1)?,
            owner: number(row, 2)?,
            epoch: number(row, 3)?,
            size: number(row, 4)?,
            root: Root::decode(row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?)?,
            resized: row.get(6)?,
            frontier,
            stamps,
        })
    })
}

fn encode_arrivals(made: &Checkpoint) -> Vec<u8> {
    let mut to = Writer::new();
    to.list(&made.frontier, |to, (client, stream, sequence)| {
        to.u64(*client).u32(*stream).u64(*sequence);
    });
    to.list(&made.stamps, |to, (offset, length, stamp)| {
        to.u64(*offset).u64(*length).u64(*stamp);
    });
    to.finish()
}

type Arrivals = (Vec<(u64, u32, u64)>, Vec<(u64, u64, u64)>);

fn decode_arrivals(bytes: &[u8]) -> format::Result<Arrivals> {
    let mut from = Reader::new("arrivals of a checkpoint", bytes);
    let frontier = from.list(20, |from| Ok((from.u64()?, from.u32()?, from.u64()?)))?;
    let stamps = from.list(24, |from| Ok((from.u64()?, from.u64()?, from.u64()?)))?;
    from.end()?;
    Ok((frontier, stamps))
}

#[cfg(test)]
mod tests {
    use format::{HandleKey, Root, SegmentAddress, StorePath};
    use rusqlite::{Connection, OpenFlags};

    use super::checkpoints;
    use crate::sqlite::schema::prepare_for_reading;
    use crate::{Checkpoint, Join, LocalCatalog, SqliteCatalog};

    #[test]
    fn a_catalog_of_format_8_that_cannot_be_written_shows_its_checkpoints() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("catalog");
        let catalog = SqliteCatalog::open(&file, true).unwrap();
        let (path, nodes, key) = (StorePath::new(b"a").unwrap(), vec!["n:1".into()], HandleKey([1; 16]));
        let join = Join { path, nodes, stripe_bytes: 1 << 20, job: String::new(), key, lease_ms: 60_000 };
        let session = catalog.join(&join).unwrap().id;
        let number = catalog.take_stripe_set(session, 0, 7).unwrap();
        let root = Root::Stored { address: SegmentAddress::new(format::ContainerId(1), 0), digest: [7; 32] };
        let (frontier, stamps) = (vec![], vec![]);
        let (stripe_set, owner, epoch, size, resized) = (0, 7, 0, 1, false);
        let made = Checkpoint { session, stripe_set, owner, number, epoch, root, size, resized, frontier, stamps };
        catalog.checkpoint(session, &made, &[], u64::MAX).unwrap();
        drop(catalog);
        let older = "ALTER TABLE checkpoints RENAME COLUMN stripe_set TO seat;
            ALTER TABLE checkpoints RENAME COLUMN owner TO holder; PRAGMA user_version = 8";
        Connection::open(&file).unwrap().execute_batch(older).unwrap();
        let sql = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert!(prepare_for_reading(&sql, &file).is_ok());
        assert!(checkpoints(&sql, session, (0, 0), 9).is_ok_and(|found| found == [made]));
    }
}

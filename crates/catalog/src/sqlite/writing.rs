//! A transaction that writes: the connection, the counters as they stand in it, and the time it began.
//!
//! What it does stands by theme in the files beside: sessions, containers, names, and so on.

use format::StorePath;
use rusqlite::Connection;

use super::failure::{Attempt, Failure};
use super::statement::{counted, first, run};
use crate::counters::Counters;

pub(super) struct Writing<'a> {
    pub sql: &'a Connection,
    pub now_ns: i64,
    /// By the lease clock.
    pub lease_now: i64,
    pub counters: Counters,
    counters_before: Counters,
    /// A directory known to be there: the one the last change lay in.
    pub known_directory: Option<StorePath>,
}

impl<'a> Writing<'a> {
    pub fn new(sql: &'a Connection, now_ns: i64, lease_now: i64) -> Attempt<Self> {
        // The guard's triggers count what is changed without this: see guard.sql.
        run(sql, "UPDATE counters SET writing = 1", [])?;
        let counters = load_counters(sql)?;
        Ok(Writing { sql, now_ns, lease_now, counters, counters_before: counters, known_directory: None })
    }

    /// To be called before the transaction is committed. Returns the sequence if the transaction raised it.
    pub fn finish(self) -> Attempt<Option<u64>> {
        if self.counters != self.counters_before {
            store_counters(self.sql, &self.counters)?;
        }
        run(self.sql, "UPDATE counters SET writing = 0", [])?;
        let Counters { sequence, .. } = self.counters;
        Ok((sequence > self.counters_before.sequence).then_some(sequence))
    }
}

pub(super) fn load_counters(sql: &Connection) -> Attempt<Counters> {
    let text = "SELECT sequence, epoch, session, container, versioned, unversioned FROM counters";
    let counters = first(sql, text, [], |row| {
        Ok(Counters {
            sequence: counted(row, 0)?,
            epoch: counted(row, 1)?,
            session: counted(row, 2)?,
            container: counted(row, 3)?,
            versioned: counted(row, 4)?,
            unversioned: counted(row, 5)?,
        })
    })?;
    counters.ok_or(Failure::Sqlite(rusqlite::Error::QueryReturnedNoRows))
}

pub(super) fn store_counters(sql: &Connection, counters: &Counters) -> Attempt<()> {
    let text = "UPDATE counters SET
        sequence = ?1, epoch = ?2, session = ?3, container = ?4, versioned = ?5, unversioned = ?6";
    let Counters { sequence, epoch, session, container, versioned, unversioned } = *counters;
    let numbers = [sequence, epoch, session, container, versioned, unversioned].map(|number| number as i64);
    run(sql, text, numbers)?;
    Ok(())
}

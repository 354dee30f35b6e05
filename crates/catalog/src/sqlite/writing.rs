//! A transaction that writes: the connection, the counters as they stand in it, and the time it began.
//!
//! Its operations are in the files beside, by theme: sessions, containers, names, and so on.

use format::StorePath;
use rusqlite::Connection;

use super::commits::record_checksum;
use super::failure::{Attempt, Failure};
use super::mark::MarkUpdate;
use super::statement::{counted, first, run};
use crate::IssuedNumbers;
use crate::counters::Counters;
use crate::rebuild::{CONTAINER_LIMIT, LIMIT};

pub(super) struct WriteTransaction<'a> {
    pub sql: &'a Connection,
    pub now_ns: i64,
    /// The time by the lease clock.
    pub lease_now: i64,
    pub counters: Counters,
    counters_before: Counters,
    /// The number of this transaction: see transactions.sql.
    transaction: u64,
    /// A directory known to exist: the one of the last change.
    pub known_directory: Option<StorePath>,
}

impl<'a> WriteTransaction<'a> {
    pub fn new(sql: &'a Connection, now_ns: i64, lease_now: i64) -> Attempt<Self> {
        // The guard's triggers count changes made without this: see guard.sql.
        let begin =
            "UPDATE counters SET writing = 1, transactions_before = transactions, transactions = transactions + 1
            RETURNING transactions, referral";
        let begun = first(sql, begin, [], |row| Ok((counted(row, 0, 1 << 63)?, counted(row, 1, LIMIT)?)))?;
        let (transaction, referral) = begun.ok_or(Failure::Sqlite(rusqlite::Error::QueryReturnedNoRows))?;
        let counters = Counters { referral, ..load_counters(sql)? };
        let counters_before = counters;
        Ok(WriteTransaction { sql, now_ns, lease_now, counters, counters_before, transaction, known_directory: None })
    }

    /// Finishes the transaction; called before it is committed. Returns how far the catalog has counted with it.
    pub fn finish(self) -> Attempt<MarkUpdate> {
        if self.counters != self.counters_before {
            store_counters(self.sql, &self.counters)?;
        }
        run(self.sql, "UPDATE counters SET writing = 0", [])?;
        let record = record_checksum(self.sql, self.counters.sequence)?.unwrap_or(0);
        Ok(MarkUpdate { transaction: self.transaction, given: given(&self.counters), record })
    }

    /// Makes this transaction and those that follow count above `transaction`.
    pub fn count_above(&mut self, transaction: u64) -> Attempt<()> {
        if transaction >= self.transaction {
            self.transaction = transaction.saturating_add(1);
            run(self.sql, "UPDATE counters SET transactions = ?1", [self.transaction as i64])?;
        }
        Ok(())
    }
}

pub(super) fn given(counters: &Counters) -> IssuedNumbers {
    let Counters { sequence, container, session, versioned, .. } = *counters;
    IssuedNumbers { sequence, container, session, file: versioned }
}

/// Loads all counters but `referral`, which older formats do not have.
pub(super) fn load_counters(sql: &Connection) -> Attempt<Counters> {
    let text = "SELECT sequence, epoch, session, container, versioned, unversioned FROM counters";
    let counters = first(sql, text, [], |row| {
        Ok(Counters {
            sequence: counted(row, 0, LIMIT)?,
            epoch: counted(row, 1, LIMIT)?,
            session: counted(row, 2, LIMIT)?,
            container: counted(row, 3, CONTAINER_LIMIT)?,
            versioned: counted(row, 4, LIMIT)?,
            unversioned: counted(row, 5, 1 << 63)?,
            referral: 0,
        })
    })?;
    counters.ok_or(Failure::Sqlite(rusqlite::Error::QueryReturnedNoRows))
}

fn store_counters(sql: &Connection, counters: &Counters) -> Attempt<()> {
    let text = "UPDATE counters SET
        sequence = ?1, epoch = ?2, session = ?3, container = ?4, versioned = ?5, unversioned = ?6, referral = ?7";
    let Counters { sequence, epoch, session, container, versioned, unversioned, referral } = *counters;
    let numbers = [sequence, epoch, session, container, versioned, unversioned, referral].map(|number| number as i64);
    run(sql, text, numbers)?;
    Ok(())
}

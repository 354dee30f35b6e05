//! The states of containers: opened, sealed, referred to.

use format::{ContainerId, SessionId};
use rusqlite::{Connection, Row};

use super::failure::Attempt;
use super::sessions::is_held;
use super::statement::{all, at_most, first, number, run};
use super::writing::WriteTransaction;
use crate::{ContainerRecord, ContainerState, Error};

impl WriteTransaction<'_> {
    pub fn open_container(&mut self, session: SessionId) -> Attempt<ContainerId> {
        self.leased_epoch(session)?;
        let id = self.counters.next_container();
        let state = ContainerState::Open;
        let record = ContainerRecord { id, state, physical: id, stored_bytes: 0, segments: 0 };
        self.insert_container(&record, Some(session))?;
        Ok(id)
    }

    pub fn insert_container(&self, record: &ContainerRecord, opener: Option<SessionId>) -> Attempt<()> {
        let text = "INSERT INTO containers (id, state, physical, stored_bytes, segments, opener, file_gone)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let params = (
            record.id.0 as i64,
            record.state as u8,
            record.physical.0 as i64,
            record.stored_bytes as i64,
            record.segments as i64,
            opener.map(|session| session.0 as i64),
            record.state == ContainerState::Gone,
        );
        run(self.sql, text, params)?;
        Ok(())
    }

    pub fn seal_container(&mut self, id: ContainerId, stored_bytes: u64, segments: u64) -> Attempt<()> {
        let text = "UPDATE containers SET state = 1, opener = NULL, stored_bytes = ?2, segments = ?3
            WHERE id = ?1 AND state <= 1";
        match run(self.sql, text, (id.0 as i64, stored_bytes as i64, segments as i64))? {
            0 => Err(Error::NotLive { containers: vec![id] }.into()),
            _ => Ok(()),
        }
    }

    pub fn truncate_container(&mut self, id: ContainerId) -> Attempt<()> {
        let epoch = self.counters.epoch + 1;
        let text = "UPDATE containers SET state = 1, opener = NULL, moved_epoch = ?2 WHERE id = ?1 AND state <= 1";
        match run(self.sql, text, (id.0 as i64, epoch as i64))? {
            0 => Err(Error::NotLive { containers: vec![id] }.into()),
            _ => {
                self.counters.epoch = epoch;
                Ok(())
            }
        }
    }

    /// Records that the transaction with this `referral` refers to these. Each must be open or live, and not moved
    /// after `epoch`.
    pub fn refer(&mut self, references: &[ContainerId], epoch: u64, referral: u64) -> Attempt<()> {
        let text = "UPDATE containers SET referred_sequence = ?2 WHERE id = ?1 AND state <= 1 AND moved_epoch <= ?3";
        let mut containers = Vec::new();
        for id in references {
            if run(self.sql, text, (id.0 as i64, referral as i64, epoch as i64))? == 0 {
                containers.push(*id);
            }
        }
        none_or_not_live(containers)
    }
}

/// Fails when there are any.
pub(super) fn none_or_not_live(mut containers: Vec<ContainerId>) -> Attempt<()> {
    containers.sort();
    containers.dedup();
    if containers.is_empty() { Ok(()) } else { Err(Error::NotLive { containers }.into()) }
}

pub(super) fn container(sql: &Connection, id: ContainerId) -> Attempt<Option<ContainerRecord>> {
    let text = "SELECT id, state, physical, stored_bytes, segments FROM containers WHERE id = ?1";
    first(sql, text, [id.0 as i64], read_container)
}

pub(super) fn open_containers(sql: &Connection, limit: usize) -> Attempt<Vec<ContainerId>> {
    let text = "SELECT id FROM containers WHERE opener IS NOT NULL ORDER BY id DESC LIMIT ?1";
    all(sql, text, [at_most(limit)], |row| Ok(ContainerId(number(row, 0)?)))
}

pub(super) fn growing(sql: &Connection, lease_now: i64) -> Attempt<Vec<ContainerId>> {
    let text = concat!(
        "SELECT id FROM containers WHERE opener IN (SELECT id FROM sessions WHERE ",
        is_held!(),
        ") ORDER BY id"
    );
    all(sql, text, [lease_now], |row| Ok(ContainerId(number(row, 0)?)))
}

pub(super) fn files_of(sql: &Connection, id: ContainerId) -> Attempt<Vec<ContainerId>> {
    let file = |row: &Row| Ok(ContainerId(number(row, 0)?));
    let now = "SELECT physical FROM containers WHERE id = ?1 AND state < 3";
    let left = "SELECT physical FROM left_files WHERE container = ?1 ORDER BY left_epoch DESC";
    let mut files = all(sql, now, [id.0 as i64], file)?;
    files.extend(all(sql, left, [id.0 as i64], file)?);
    Ok(files)
}

pub(super) fn containers(sql: &Connection) -> Attempt<Vec<ContainerRecord>> {
    let text = "SELECT id, state, physical, stored_bytes, segments FROM containers WHERE state < 3 ORDER BY id";
    all(sql, text, [], read_container)
}

fn read_container(row: &Row) -> Attempt<ContainerRecord> {
    let state = match number(row, 1)? {
        0 => ContainerState::Open,
        1 => ContainerState::Live,
        2 => ContainerState::Condemned,
        3 => ContainerState::Gone,
        other => {
            let why = format!("state {other} is unknown");
            return Err(format::Error::Corrupt { what: "container", why }.into());
        }
    };
    Ok(ContainerRecord {
        id: ContainerId(number(row, 0)?),
        state,
        physical: ContainerId(number(row, 2)?),
        stored_bytes: number(row, 3)?,
        segments: number(row, 4)?,
    })
}

//! The transactions of collection: marks from roots, condemns and moves containers, deletes files.
//!
//! A file may hold several logical numbers. It goes when it holds no live one, and no session is left that began before
//! the last one left it.

use format::{ContainerId, Root};
use rusqlite::Connection;

use super::containers::none_or_not_live;
use super::failure::Attempt;
use super::sessions::oldest_epoch;
use super::statement::{all, at_most, first, number, run};
use super::writing::WriteTransaction;
use crate::{Snapshot, Statistics};

/// Cursors of checkpoints in `roots` have this bit: they follow those of all versions.
const CHECKPOINT_CURSOR: u64 = 1 << 63;

/// Whether a file holds a container that can be referred to.
const BEARS_LIVE: &str = "SELECT 1 FROM containers WHERE physical = ?1 AND state <= 1 LIMIT 1";

impl WriteTransaction<'_> {
    pub fn snapshot(&mut self) -> Attempt<Snapshot> {
        self.end_expired()?;
        Ok(Snapshot { referral: self.counters.referral, epoch: self.counters.epoch })
    }

    pub fn condemn(&mut self, snapshot: Snapshot, ids: &[ContainerId]) -> Attempt<Vec<ContainerId>> {
        let text = "UPDATE containers SET state = 2 WHERE id = ?1 AND state = 1 AND referred_sequence <= ?2
            RETURNING physical";
        let epoch = self.counters.epoch + 1;
        let mut condemned = Vec::new();
        for id in ids {
            let params = (id.0 as i64, snapshot.referral as i64);
            if let Some(physical) = first(self.sql, text, params, |row| number(row, 0))? {
                self.leave_file(ContainerId(physical), epoch)?;
                condemned.push(*id);
            }
        }
        self.raise_epoch(epoch, &condemned);
        Ok(condemned)
    }

    pub fn relocate(&mut self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Attempt<Vec<ContainerId>> {
        self.check_targets(moves)?;
        let file_now = "SELECT physical FROM containers
            WHERE id = ?1 AND state = 1 AND referred_sequence <= ?2 AND physical <> ?3";
        let epoch = self.counters.epoch + 1;
        let mut moved = Vec::new();
        for (logical, physical) in moves {
            let params = (logical.0 as i64, snapshot.referral as i64, physical.0 as i64);
            let Some(former) = first(self.sql, file_now, params, |row| number(row, 0))? else { continue };
            let text = "UPDATE containers SET physical = ?2, moved_epoch = ?3 WHERE id = ?1";
            run(self.sql, text, (logical.0 as i64, physical.0 as i64, epoch as i64))?;
            self.leave_file(ContainerId(former), epoch)?;
            let left = "INSERT OR REPLACE INTO left_files VALUES (?1, ?2, ?3)";
            run(self.sql, left, (logical.0 as i64, former as i64, epoch as i64))?;
            // All needed segments of the number were read, and are whole in its new file.
            run(self.sql, "DELETE FROM lost_segments WHERE container = ?1", [logical.0 as i64])?;
            moved.push(*logical);
        }
        self.raise_epoch(epoch, &moved);
        Ok(moved)
    }

    /// Checks that segments move only into files that a container of their own number still claims: others may be
    /// deleted any moment.
    fn check_targets(&self, moves: &[(ContainerId, ContainerId)]) -> Attempt<()> {
        let text = "SELECT 1 FROM containers WHERE id = ?1 AND physical = ?1 AND state <= 1";
        let mut unclaimed = Vec::new();
        for (_, physical) in moves {
            if first(self.sql, text, [physical.0 as i64], |_| Ok(()))?.is_none() {
                unclaimed.push(*physical);
            }
        }
        none_or_not_live(unclaimed)
    }

    fn leave_file(&self, physical: ContainerId, epoch: u64) -> Attempt<()> {
        let text = "UPDATE containers SET left_epoch = ?2 WHERE id = ?1";
        run(self.sql, text, (physical.0 as i64, epoch as i64))?;
        Ok(())
    }

    fn raise_epoch(&mut self, epoch: u64, changed: &[ContainerId]) {
        if !changed.is_empty() {
            self.counters.epoch = epoch;
        }
    }

    pub fn deletable(&mut self) -> Attempt<Vec<ContainerId>> {
        self.end_expired()?;
        let oldest = oldest_epoch(self.sql)?.map_or(i64::MAX, |epoch| epoch as i64);
        let text = "SELECT id FROM containers AS file WHERE file_gone = 0 AND left_epoch <= ?1 AND NOT EXISTS
            (SELECT 1 FROM containers WHERE physical = file.id AND state <= 1) ORDER BY id";
        all(self.sql, text, [oldest], |row| Ok(ContainerId(number(row, 0)?)))
    }

    pub fn deleted(&mut self, files: &[ContainerId]) -> Attempt<()> {
        for file in files {
            let id = [file.0 as i64];
            if first(self.sql, BEARS_LIVE, id, |_| Ok(()))?.is_none() {
                run(self.sql, "UPDATE containers SET file_gone = 1 WHERE id = ?1", id)?;
                let of_gone = "container IN (SELECT id FROM containers WHERE physical = ?1)";
                run(self.sql, &format!("DELETE FROM lost_segments WHERE {of_gone}"), id)?;
                run(self.sql, "UPDATE containers SET state = 3 WHERE physical = ?1", id)?;
                run(self.sql, "DELETE FROM left_files WHERE physical = ?1", id)?;
            }
        }
        Ok(())
    }
}

/// Returns roots: versions in the order they came, then checkpoints.
pub(super) fn roots(sql: &Connection, after: u64, limit: usize) -> Attempt<Vec<(u64, Root)>> {
    let versions = "SELECT id, root FROM versions WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut found = match after & CHECKPOINT_CURSOR {
        0 => page_of_roots(sql, versions, after, limit, 0)?,
        _ => Vec::new(),
    };
    if found.len() < limit {
        let checkpoints = "SELECT id, root FROM checkpoints WHERE id > ?1 ORDER BY id LIMIT ?2";
        let after = after.saturating_sub(CHECKPOINT_CURSOR);
        found.extend(page_of_roots(sql, checkpoints, after, limit - found.len(), CHECKPOINT_CURSOR)?);
    }
    Ok(found)
}

fn page_of_roots(sql: &Connection, text: &str, after: u64, limit: usize, mark: u64) -> Attempt<Vec<(u64, Root)>> {
    all(sql, text, (after as i64, at_most(limit)), |row| {
        Ok((number(row, 0)? | mark, Root::decode(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?))
    })
}

pub(super) fn statistics(sql: &Connection) -> Attempt<Statistics> {
    let with_file = "containers AS file WHERE file_gone = 0";
    let bears_live = "EXISTS (SELECT 1 FROM containers WHERE physical = file.id AND state <= 1)";
    let contents = "(SELECT size, root, lag(root) OVER (PARTITION BY file ORDER BY number) AS former FROM versions)
        WHERE former IS NOT root";
    Ok(Statistics {
        files: count(sql, "files WHERE kind = 0")?,
        // The root is always there and not counted.
        directories: count(sql, "files WHERE kind = 1")?.saturating_sub(1),
        versions: count(sql, "versions")?,
        logical_bytes: sum(sql, "size", contents)?,
        live_containers: count(sql, &format!("{with_file} AND {bears_live}"))?,
        condemned_containers: count(sql, &format!("{with_file} AND NOT {bears_live}"))?,
        container_bytes: sum(sql, "stored_bytes", with_file)?,
        container_segments: sum(sql, "segments", with_file)?,
    })
}

fn count(sql: &Connection, rows: &str) -> Attempt<u64> {
    let counted = first(sql, &format!("SELECT count(*) FROM {rows}"), [], |row| number(row, 0))?;
    Ok(counted.unwrap_or(0))
}

/// Returns the sum of a column that may hold any 64 bits: its halves are summed apart, so that no sum overflows.
fn sum(sql: &Connection, column: &str, rows: &str) -> Attempt<u64> {
    let half = |shift: u32| format!("coalesce(sum(({column} >> {shift}) & 4294967295), 0)");
    let text = format!("SELECT {}, {} FROM {rows}", half(32), half(0));
    let halves = first(sql, &text, [], |row| Ok((number(row, 0)?, number(row, 1)?)))?;
    let (high, low) = halves.unwrap_or((0, 0));
    Ok(u64::try_from((u128::from(high) << 32) + u128::from(low)).unwrap_or(u64::MAX))
}

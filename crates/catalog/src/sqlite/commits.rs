//! Commits, the journal records they leave for containers, and their replay.

use format::{Change, JournalRecord, SessionId, StorePath};
use rusqlite::Connection;

use super::failure::{Attempt, Failure};
use super::listing;
use super::statement::{all, at_most, first, number, run};
use super::writing::WriteTransaction;
use crate::refusal::{Refusal, refused};
use crate::{
    Commit, Committed, ContainerRecord, ContainerState, Error, IssuedNumbers, SkippedRecord, rebuild, restate,
};

impl WriteTransaction<'_> {
    pub fn commit(&mut self, commit: &Commit) -> Attempt<Committed> {
        let epoch = self.leased_epoch(commit.session)?.min(commit.epoch);
        let sequence = self.counters.next_sequence();
        let referral = self.counters.next_referral();
        self.refer(&commit.references, epoch, referral)?;
        let mut numbers = Vec::with_capacity(commit.changes.len());
        for change in &commit.changes {
            self.check_sessions(change)?;
            numbers.extend(self.apply(change, self.now_ns, None)?);
        }
        for (session, stripe_set, number) in &commit.checkpoints {
            self.drop_checkpoints(*session, *stripe_set, *number)?;
        }
        let record = JournalRecord {
            sequence,
            committed_ns: self.now_ns,
            session: commit.session,
            numbers,
            changes: commit.changes.clone(),
        };
        self.add_to_journal(&record)?;
        Ok(Committed { sequence, numbers: record.numbers })
    }

    /// A session's owners read the version that it began over, by the manifest that this had then.
    fn check_sessions(&self, change: &Change) -> Attempt<()> {
        let Change::Manifest { path, .. } = change else { return Ok(()) };
        let text = "SELECT 1 FROM path_sessions WHERE path = ?1 LIMIT 1";
        match first(self.sql, text, [path.as_bytes()], |_| Ok(()))? {
            Some(()) => Ok(refused(path, Refusal::HasSession)?),
            None => Ok(()),
        }
    }

    /// Records a transaction until a container has it.
    pub fn add_to_journal(&self, record: &JournalRecord) -> Attempt<()> {
        let encoded = record.encode();
        self.know_record(record.sequence, JournalRecord::checksum_of(&encoded))?;
        run(self.sql, "INSERT INTO journal VALUES (?1, ?2)", (record.sequence as i64, encoded))?;
        Ok(())
    }

    pub fn restate(&mut self, session: SessionId, paths: &[StorePath]) -> Attempt<()> {
        self.leased_epoch(session)?;
        for path in paths {
            let entry = listing::entry(self.sql, path)?;
            let versions = if entry.is_some() { listing::versions(self.sql, path, 0, usize::MAX)? } else { Vec::new() };
            let (now_ns, counters) = (self.now_ns, &mut self.counters);
            let records =
                restate::records(path, entry.as_ref(), &versions, session, now_ns, || counters.next_sequence());
            records.iter().try_for_each(|record| self.add_to_journal(record))?;
        }
        Ok(())
    }

    pub fn fill_gaps(&mut self, session: SessionId, sequences: &[u64]) -> Attempt<()> {
        self.leased_epoch(session)?;
        let now_ns = self.now_ns;
        sequences.iter().try_for_each(|gap| self.add_to_journal(&restate::empty_record(*gap, session, now_ns)))
    }

    pub fn know_record(&self, sequence: u64, checksum: u64) -> Attempt<()> {
        let text = "INSERT OR IGNORE INTO journal_checksums VALUES (?1, ?2)";
        run(self.sql, text, (sequence as i64, checksum as i64))?;
        Ok(())
    }

    pub fn journaled(&mut self, sequences: &[u64]) -> Attempt<()> {
        for sequence in sequences {
            run(self.sql, "DELETE FROM journal WHERE sequence = ?1", [*sequence as i64])?;
        }
        Ok(())
    }

    pub fn replay(
        &mut self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Attempt<Vec<SkippedRecord>> {
        if self.counters.sequence > 0 || self.counters.container > 0 {
            return Ok(refused(&StorePath::root(), Refusal::CatalogNotEmpty)?);
        }
        let path = || self.sql.path().unwrap_or_default().to_owned();
        rebuild::raise(&mut self.counters, containers, records).map_err(|why| Error::Corrupt { path: path(), why })?;
        given.raise(&mut self.counters);
        for found in containers {
            // The session that had it open is gone with the old catalog.
            let state = if found.state == ContainerState::Open { ContainerState::Live } else { found.state };
            self.insert_container(&ContainerRecord { state, ..*found }, None)?;
        }
        let know =
            |record: &JournalRecord| self.know_record(record.sequence, JournalRecord::checksum_of(&record.encode()));
        records.iter().try_for_each(know)?;
        let mut left_out = Vec::new();
        records.iter().try_for_each(|record| self.replay_record(record, &mut left_out))?;
        Ok(left_out)
    }

    /// Replays a record, leaving out changes that a gap in the journal makes impossible: the rest is still useful.
    fn replay_record(&mut self, record: &JournalRecord, left_out: &mut Vec<SkippedRecord>) -> Attempt<()> {
        let mut numbers = record.numbers.iter().copied();
        for change in &record.changes {
            let number = matches!(change, Change::Write { .. }).then(|| numbers.next()).flatten();
            let known = match number {
                Some((file, _)) => self.last_version(file)?,
                None => 0,
            };
            match self.apply(change, record.committed_ns, number) {
                Err(Failure::Answer(refusal @ (Error::NotFound { .. } | Error::Refused { .. }))) => {
                    left_out.extend(rebuild::left_out(record, change, &refusal));
                }
                Err(other) => return Err(other),
                Ok(_) => left_out.extend(rebuild::skipped_versions(record, change, number, known)),
            }
        }
        Ok(())
    }
}

pub(super) fn unjournaled(sql: &Connection, limit: usize) -> Attempt<Vec<JournalRecord>> {
    let text = "SELECT record FROM journal ORDER BY sequence LIMIT ?1";
    all(sql, text, [at_most(limit)], |row| {
        Ok(JournalRecord::decode(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?)
    })
}

pub(super) fn known_records(sql: &Connection) -> Attempt<Option<Vec<u64>>> {
    if unchecked_sequence(sql)? > 0 {
        return Ok(None);
    }
    let text = "SELECT DISTINCT sequence FROM journal_checksums ORDER BY sequence";
    Ok(Some(all(sql, text, [], |row| number(row, 0))?))
}

/// Returns the checksum of the catalog's own record of this sequence.
pub(super) fn record_checksum(sql: &Connection, sequence: u64) -> Attempt<Option<u64>> {
    let text = "SELECT checksum FROM journal_checksums WHERE sequence = ?1 LIMIT 1";
    first(sql, text, [sequence as i64], |row| number(row, 0))
}

/// Returns whether this record is in the place of one that is the catalog's own.
pub(super) fn is_in_place_of_its_own(sql: &Connection, sequence: u64, checksum: u64) -> Attempt<bool> {
    Ok(record_checksum(sql, sequence)?.is_some() && !unknown_records(sql, &[(sequence, checksum)])?.is_empty())
}

/// Returns the sequence up to which records are older than the table of checksums.
fn unchecked_sequence(sql: &Connection) -> Attempt<u64> {
    Ok(first(sql, "SELECT unchecked_sequence FROM counters", [], |row| number(row, 0))?.unwrap_or(0))
}

pub(super) fn unknown_records(sql: &Connection, records: &[(u64, u64)]) -> Attempt<Vec<u64>> {
    let mut unknown = Vec::new();
    let unchecked = unchecked_sequence(sql)?;
    let text = "SELECT 1 FROM journal_checksums WHERE sequence = ?1 AND checksum = ?2";
    for (sequence, checksum) in records.iter().filter(|(sequence, _)| *sequence > unchecked) {
        if first(sql, text, (*sequence as i64, *checksum as i64), |_| Ok(()))?.is_none() {
            unknown.push(*sequence);
        }
    }
    Ok(unknown)
}

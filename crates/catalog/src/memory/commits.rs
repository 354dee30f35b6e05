//! Commits, and their replay from a journal.

use format::{Change, JournalRecord, SessionId, StorePath};

use super::State;
use super::containers::Container;
use crate::refusal::{Refusal, refused};
use crate::{
    Commit, Committed, ContainerRecord, ContainerState, Error, IssuedNumbers, Result, SkippedRecord, rebuild, restate,
};

impl State {
    pub fn commit(&mut self, commit: &Commit) -> Result<Committed> {
        let epoch = self.lease(commit.session)?.epoch.min(commit.epoch);
        self.check_references(&commit.references, epoch)?;
        commit.changes.iter().try_for_each(|change| self.check_sessions(change))?;
        let (before, now_ns, counters) = (self.counters, self.now_ns, &mut self.counters);
        let applied = self.tree.attempt(|tree| {
            let numbers = commit.changes.iter().map(|change| tree.apply(change, now_ns, None, counters));
            numbers.collect::<Result<Vec<_>>>()
        });
        let numbers: Vec<_> = match applied {
            Ok(numbers) => numbers.into_iter().flatten().collect(),
            Err(error) => {
                self.counters = before;
                return Err(error);
            }
        };
        let sequence = self.counters.next_sequence();
        let referral = self.counters.next_referral();
        self.mark_referred(&commit.references, referral);
        commit
            .checkpoints
            .iter()
            .for_each(|(session, stripe_set, number)| self.drop_checkpoints(*session, *stripe_set, *number));
        let record = JournalRecord {
            sequence,
            committed_ns: now_ns,
            session: commit.session,
            numbers: numbers.clone(),
            changes: commit.changes.clone(),
        };
        self.add_to_journal(record);
        Ok(Committed { sequence, numbers })
    }

    /// A session's owners read the version that it began over, by the manifest that this had then.
    fn check_sessions(&self, change: &Change) -> Result<()> {
        let Change::Manifest { path, .. } = change else { return Ok(()) };
        match self.has_session(path) {
            true => refused(path, Refusal::HasSession),
            false => Ok(()),
        }
    }

    fn add_to_journal(&mut self, record: JournalRecord) {
        self.journal_checksums.insert(record.sequence, JournalRecord::checksum_of(&record.encode()));
        self.journal.insert(record.sequence, record);
    }

    pub fn restate(&mut self, session: SessionId, paths: &[StorePath]) -> Result<()> {
        self.lease(session)?;
        for path in paths {
            let entry = self.tree.entry(path);
            let versions = self.tree.versions(path).unwrap_or_default();
            let (now_ns, counters) = (self.now_ns, &mut self.counters);
            let records =
                restate::records(path, entry.as_ref(), &versions, session, now_ns, || counters.next_sequence());
            records.into_iter().for_each(|record| self.add_to_journal(record));
        }
        Ok(())
    }

    pub fn fill_gaps(&mut self, session: SessionId, sequences: &[u64]) -> Result<()> {
        self.lease(session)?;
        let now_ns = self.now_ns;
        sequences.iter().for_each(|gap| self.add_to_journal(restate::empty_record(*gap, session, now_ns)));
        Ok(())
    }

    pub fn replay(
        &mut self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Result<Vec<SkippedRecord>> {
        if self.counters.sequence > 0 || self.counters.container > 0 {
            return refused(&Default::default(), Refusal::CatalogNotEmpty);
        }
        let mut counters = self.counters;
        rebuild::raise(&mut counters, containers, records)
            .map_err(|why| Error::Corrupt { path: "memory".to_owned(), why })?;
        given.raise(&mut counters);
        self.counters = counters;
        for found in containers {
            // The session that had it open is gone with the old catalog.
            let state = if found.state == ContainerState::Open { ContainerState::Live } else { found.state };
            self.containers.insert(found.id, Container::new(ContainerRecord { state, ..*found }, None));
        }
        let checksum = |record: &JournalRecord| (record.sequence, JournalRecord::checksum_of(&record.encode()));
        self.journal_checksums.extend(records.iter().map(checksum));
        let mut left_out = Vec::new();
        records.iter().for_each(|record| self.replay_record(record, &mut left_out));
        Ok(left_out)
    }

    /// Replays a record, leaving out changes that a gap in the journal makes impossible: the rest is still useful.
    fn replay_record(&mut self, record: &JournalRecord, left_out: &mut Vec<SkippedRecord>) {
        let mut numbers = record.numbers.iter().copied();
        for change in &record.changes {
            let number = matches!(change, Change::Write { .. }).then(|| numbers.next()).flatten();
            let known = number.map_or(0, |(file, _)| self.tree.last_version(file));
            let counters = &mut self.counters;
            match self.tree.attempt(|tree| tree.apply(change, record.committed_ns, number, counters)) {
                Err(refusal) => left_out.extend(rebuild::left_out(record, change, &refusal)),
                Ok(_) => left_out.extend(rebuild::skipped_versions(record, change, number, known)),
            }
        }
    }
}

//! The catalog in memory: plain maps behind one lock, for tests and simulated histories.
//!
//! It keeps every guarantee of [`LocalCatalog`] but durability, and is deterministic: with the same clock the same calls
//! give the same answers, numbers included. The engine on disk is compared with it.

mod commits;
mod containers;
mod path_sessions;
mod sessions;
mod tree;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use format::{
    Change, ContainerId, Fingerprint, HandleKey, JournalRecord, LostSegment, Root, SegmentAddress, SessionId, StorePath,
};

use crate::clock::{Clock, system_clock};
use crate::counters::Counters;
use crate::refusal::not_found;
use crate::*;
use containers::Container;
use path_sessions::OpenPath;
use sessions::Lease;
use tree::Tree;

pub struct MemoryCatalog {
    state: Mutex<State>,
    clock: Clock,
}

/// All data of a catalog. Methods check everything before they alter anything.
struct State {
    /// When the current call began, by the catalog's clock.
    now_ns: i64,
    counters: Counters,
    sessions: BTreeMap<SessionId, Lease>,
    containers: BTreeMap<ContainerId, Container>,
    tree: Tree,
    lost: BTreeMap<(ContainerId, u32), LostSegment>,
    /// Transactions that are in no container yet, by sequence.
    journal: BTreeMap<u64, JournalRecord>,
    /// Checksum of every record this catalog wrote or was made from, by sequence.
    journal_checksums: BTreeMap<u64, u64>,
    path_sessions: BTreeMap<SessionId, OpenPath>,
    /// Checkpoints ever recorded: the last one's cursor in `roots`.
    checkpoints: u64,
}

/// The bit of a client's number that is not compared.
const CLIENT_MARK: u64 = 1 << 63;

/// Cursors of checkpoints in `roots` have this bit: they follow those of all versions.
const CHECKPOINT_CURSOR: u64 = 1 << 63;

impl MemoryCatalog {
    /// Makes an empty catalog that runs by the machine's clock.
    pub fn new() -> Self {
        let state = State {
            now_ns: 0,
            counters: Counters::new(),
            sessions: BTreeMap::new(),
            containers: BTreeMap::new(),
            lost: BTreeMap::new(),
            tree: Tree::new(),
            journal: BTreeMap::new(),
            journal_checksums: BTreeMap::new(),
            path_sessions: BTreeMap::new(),
            checkpoints: 0,
        };
        MemoryCatalog { state: Mutex::new(state), clock: system_clock() }
    }

    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now_ns = (self.clock)();
        state
    }
}

impl Default for MemoryCatalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Names for MemoryCatalog {
    fn begin(&self, _purpose: Purpose, lease_ms: u64) -> Result<Session> {
        Ok(self.state().begin(lease_ms))
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.state().renew(session, lease_ms, refresh)
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.state().retire(session);
        Ok(())
    }

    fn commit(&self, commit: &Commit) -> Result<Committed> {
        self.state().commit(commit)
    }

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>> {
        Ok(self.state().tree.entry(path))
    }

    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        self.state().tree.list(directory, recursive, after, limit)
    }

    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>> {
        let versions = self.state().tree.versions(path).ok_or_else(|| not_found(path))?;
        Ok(versions.into_iter().filter(|version| version.number > after).take(limit).collect())
    }

    fn lease_left_ms(&self, session: SessionId) -> Result<Option<u64>> {
        Ok(self.state().lease_left_ms(session))
    }

    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>> {
        let state = self.state();
        let sessions = state.path_sessions.keys().filter(|session| **session > after).take(limit);
        Ok(sessions.filter_map(|session| state.path_session(*session)).collect())
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        let mut state = self.state();
        state.path_sessions.remove(&session);
        state.retire(session);
        Ok(())
    }

    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>> {
        let found = self.state().checkpoints(session);
        Ok(found.into_iter().filter(|found| (found.stripe_set, found.number) > after).take(limit).collect())
    }
}

impl LocalCatalog for MemoryCatalog {
    fn begin_for(&self, client: u64, _purpose: Purpose, lease_ms: u64) -> Result<Session> {
        Ok(self.state().begin_for(Some(client | CLIENT_MARK), lease_ms))
    }

    fn is_begun_for(&self, session: SessionId, client: u64) -> Result<Option<bool>> {
        let state = self.state();
        Ok(state.sessions.get(&session).map(|lease| lease.client == Some(client | CLIENT_MARK)))
    }

    fn open_container(&self, session: SessionId) -> Result<ContainerId> {
        self.state().open_container(session)
    }

    fn truncate_container(&self, container: ContainerId) -> Result<()> {
        self.state().truncate_container(container)
    }

    fn seal_container(&self, container: ContainerId, stored_bytes: u64, segments: u64) -> Result<()> {
        self.state().seal_container(container, stored_bytes, segments)
    }

    fn container(&self, container: ContainerId) -> Result<Option<ContainerRecord>> {
        Ok(self.state().containers.get(&container).map(|found| found.record))
    }

    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> Result<()> {
        self.state().lose(lost);
        Ok(())
    }

    fn lost(&self) -> Result<Vec<LostSegment>> {
        Ok(self.state().lost.values().copied().collect())
    }

    fn heal(&self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()> {
        self.state().heal(session, epoch, healed)
    }

    fn files_of(&self, container: ContainerId) -> Result<Vec<ContainerId>> {
        Ok(self.state().files_of(container))
    }

    fn growing(&self) -> Result<Vec<ContainerId>> {
        let state = self.state();
        let is_growing = |opener: Option<SessionId>| opener.is_some_and(|session| state.lease(session).is_ok());
        Ok(state.containers.iter().filter(|(_, found)| is_growing(found.opener)).map(|(id, _)| *id).collect())
    }

    fn containers(&self) -> Result<Vec<ContainerRecord>> {
        let state = self.state();
        let records = state.containers.values().map(|container| container.record);
        Ok(records.filter(|record| record.state != ContainerState::Gone).collect())
    }

    fn unjournaled(&self, limit: usize) -> Result<Vec<JournalRecord>> {
        Ok(self.state().journal.values().take(limit).cloned().collect())
    }

    fn journaled(&self, sequences: &[u64]) -> Result<()> {
        let mut state = self.state();
        sequences.iter().for_each(|sequence| drop(state.journal.remove(sequence)));
        Ok(())
    }

    fn unknown_records(&self, records: &[(u64, u64)]) -> Result<Vec<u64>> {
        let state = self.state();
        let unknown = |(sequence, checksum): &&(u64, u64)| state.journal_checksums.get(sequence) != Some(checksum);
        Ok(records.iter().filter(unknown).map(|(sequence, _)| *sequence).collect())
    }

    fn known_records(&self) -> Result<Option<Vec<u64>>> {
        Ok(Some(self.state().journal_checksums.keys().copied().collect()))
    }

    fn restate(&self, session: SessionId, paths: &[StorePath]) -> Result<()> {
        self.state().restate(session, paths)
    }

    fn fill_gaps(&self, session: SessionId, sequences: &[u64]) -> Result<()> {
        self.state().fill_gaps(session, sequences)
    }

    fn integrity(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn view(&self) -> Result<Box<dyn CatalogView + '_>> {
        let state = self.state();
        let (tree, sequence) = (state.tree.clone(), state.counters.sequence);
        Ok(Box::new(MemoryView { tree, sequence, journal: state.journal.values().cloned().collect() }))
    }

    fn replay(
        &self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Result<Vec<SkippedRecord>> {
        self.state().replay(containers, records, given)
    }

    fn join(&self, join: &Join) -> Result<PathSession> {
        Ok(self.state().join(join))
    }

    fn path_session(&self, session: SessionId) -> Result<Option<PathSession>> {
        Ok(self.state().path_session(session))
    }

    fn live_session(&self, path: &StorePath) -> Result<Option<PathSession>> {
        Ok(self.state().live_session(path))
    }

    fn path_state(&self, session: SessionId) -> Result<Option<PathState>> {
        Ok(self.state().path_state(session))
    }

    fn follow_changes(&self, changes: &[Change], own: &[SessionId]) -> Result<()> {
        self.state().follow_changes(changes, own);
        Ok(())
    }

    fn has_handle(&self, session: SessionId, key: &HandleKey) -> Result<Option<bool>> {
        Ok(self.state().has_handle(session, key))
    }

    fn leave(&self, session: SessionId, key: &HandleKey) -> Result<u32> {
        self.state().leave(session, key)
    }

    fn leave_all(&self, session: SessionId) -> Result<()> {
        self.state().leave_all(session);
        Ok(())
    }

    fn take_stripe_set(&self, session: SessionId, stripe_set: u32, owner: u64) -> Result<u64> {
        self.state().take_stripe_set(session, stripe_set, owner)
    }

    fn checkpoint(
        &self,
        writer: SessionId,
        checkpoint: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Result<()> {
        self.state().checkpoint(writer, checkpoint, references, epoch)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let mut state = self.state();
        state.end_expired();
        Ok(Snapshot { referral: state.counters.referral, epoch: state.counters.epoch })
    }

    fn roots(&self, after: u64, limit: usize) -> Result<Vec<(u64, Root)>> {
        let state = self.state();
        let mut roots = state.tree.roots();
        roots.extend(state.checkpoint_roots());
        roots.retain(|(cursor, _)| *cursor > after);
        roots.sort_by_key(|(cursor, _)| *cursor);
        roots.truncate(limit);
        Ok(roots)
    }

    fn condemn(&self, snapshot: Snapshot, containers: &[ContainerId]) -> Result<Vec<ContainerId>> {
        Ok(self.state().condemn(snapshot, containers))
    }

    fn relocate(&self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>> {
        self.state().relocate(snapshot, moves)
    }

    fn deletable(&self) -> Result<Vec<ContainerId>> {
        let mut state = self.state();
        state.end_expired();
        Ok(state.deletable())
    }

    fn deleted(&self, containers: &[ContainerId]) -> Result<()> {
        self.state().deleted(containers);
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics> {
        let state = self.state();
        let mut statistics = state.tree.statistics();
        state.count_containers(&mut statistics);
        Ok(statistics)
    }
}

/// A copy of the data a view shows.
struct MemoryView {
    tree: Tree,
    sequence: u64,
    journal: Vec<JournalRecord>,
}

impl CatalogView for MemoryView {
    fn sequence(&self) -> Result<u64> {
        Ok(self.sequence)
    }

    fn unjournaled(&self) -> Result<Vec<JournalRecord>> {
        Ok(self.journal.clone())
    }

    fn list(&self, after: Option<&StorePath>, limit: usize) -> Result<Vec<(StorePath, FileEntry)>> {
        self.tree.list(&StorePath::root(), true, after, limit)
    }

    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.tree.versions(path).ok_or_else(|| not_found(path))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_catalog_in_memory_keeps_every_promise() {
        conformance::suite(|clock| Arc::new(MemoryCatalog::new().with_clock(clock)));
    }
}

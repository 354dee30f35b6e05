//! The catalog in an SQLite file, shared by all processes of one machine.
//!
//! This file says which call is which transaction; what happens in one stands by theme in the files of
//! `sqlite/`, the tables in `sqlite/schema.sql`.

mod collection;
mod commits;
mod connections;
mod containers;
mod damage;
mod failure;
mod listing;
mod names;
mod path_sessions;
mod schema;
mod sessions;
mod statement;
mod unlocked;
mod writing;

use std::path::Path;

use format::{ContainerId, Fingerprint, JournalRecord, LostSegment, Place, Root, SessionId, StorePath};

use crate::clock::{Clock, lease_time, system_clock};
use crate::*;
use connections::Connections;
use failure::Attempt;
use writing::Writing;

pub struct SqliteCatalog {
    connections: Connections,
    clocks: Clocks,
}

/// What versions are dated by, and what leases run by.
struct Clocks {
    date: Clock,
    lease: Clock,
}

impl SqliteCatalog {
    /// Opens the catalog in the file at `path`; makes it when `create` and it is not there or empty. The
    /// file must lie on a local file system.
    pub fn open(path: &Path, create: bool) -> Result<Self> {
        let clocks = Clocks { date: system_clock(), lease: lease_time::system_clock() };
        Ok(SqliteCatalog { connections: Connections::open(path, create)?, clocks })
    }

    /// Opens the catalog to read it, also where it cannot be written: by its mode, its medium, or for want of room.
    /// Calls that write fail there, with [`Error::Io`] or [`Error::Full`].
    pub fn open_for_reading(path: &Path) -> Result<Self> {
        let clocks = Clocks { date: system_clock(), lease: lease_time::system_clock() };
        Ok(SqliteCatalog { connections: Connections::open_for_reading(path)?, clocks })
    }

    /// Dates versions by this clock, and has leases run by it.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clocks = Clocks { date: clock.clone(), lease: lease_time::of_clock(clock) };
        self
    }

    fn write<T>(&self, body: impl FnOnce(&mut Writing) -> Attempt<T>) -> Result<T> {
        self.connections.write(&self.clocks, body)
    }
}

impl Catalog for SqliteCatalog {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.write(|writing| writing.begin(purpose, lease_ms))
    }

    fn begin_for(&self, client: u64, _purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.write(|writing| writing.begin_for(client, lease_ms))
    }

    fn is_begun_for(&self, session: SessionId, client: u64) -> Result<Option<bool>> {
        self.connections.read_once(|sql| sessions::is_begun_for(sql, session, client))
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.write(|writing| writing.renew(session, lease_ms, refresh))
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.write(|writing| writing.retire(session))
    }

    fn open_container(&self, session: SessionId) -> Result<ContainerId> {
        self.write(|writing| writing.open_container(session))
    }

    fn seal_container(&self, container: ContainerId, stored_bytes: u64, segments: u64) -> Result<()> {
        self.write(|writing| writing.seal_container(container, stored_bytes, segments))
    }

    fn container(&self, container: ContainerId) -> Result<Option<ContainerRecord>> {
        self.connections.read_once(|sql| containers::container(sql, container))
    }

    fn files_of(&self, container: ContainerId) -> Result<Vec<ContainerId>> {
        self.connections.read(|sql| containers::files_of(sql, container))
    }

    fn containers(&self) -> Result<Vec<ContainerRecord>> {
        self.connections.read_once(containers::containers)
    }

    fn commit(&self, commit: &Commit) -> Result<Committed> {
        self.write(|writing| writing.commit(commit))
    }

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>> {
        self.connections.read_once(|sql| listing::entry(sql, path))
    }

    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        self.connections.read(|sql| listing::list(sql, directory, recursive, after, limit))
    }

    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.connections.read(|sql| listing::versions(sql, path))
    }

    fn unjournaled(&self, limit: usize) -> Result<Vec<JournalRecord>> {
        self.connections.read_once(|sql| commits::unjournaled(sql, limit))
    }

    fn journaled(&self, sequences: &[u64]) -> Result<()> {
        self.write(|writing| writing.journaled(sequences))
    }

    fn replay(&self, containers: &[ContainerRecord], records: &[JournalRecord]) -> Result<()> {
        self.write(|writing| writing.replay(containers, records))
    }

    fn join(&self, join: &Join) -> Result<PathSession> {
        self.write(|writing| writing.join(join))
    }

    fn path_session(&self, session: SessionId) -> Result<Option<PathSession>> {
        self.connections.read_once(|sql| path_sessions::path_session(sql, (self.clocks.lease)(), session))
    }

    fn live_session(&self, path: &StorePath) -> Result<Option<PathSession>> {
        self.connections.read_once(|sql| path_sessions::live_session(sql, (self.clocks.lease)(), path))
    }

    fn path_sessions(&self) -> Result<Vec<PathSession>> {
        self.connections.read_once(|sql| path_sessions::path_sessions(sql, (self.clocks.lease)()))
    }

    fn leave(&self, session: SessionId) -> Result<u32> {
        self.write(|writing| writing.leave(session))
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        self.write(|writing| writing.discard(session))
    }

    fn take_seat(&self, session: SessionId, seat: u32, holder: u64) -> Result<u64> {
        self.write(|writing| writing.take_seat(session, seat, holder))
    }

    fn checkpoint(
        &self,
        writer: SessionId,
        checkpoint: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Result<()> {
        self.write(|writing| writing.checkpoint(writer, checkpoint, references, epoch))
    }

    fn checkpoints(&self, session: SessionId) -> Result<Vec<Checkpoint>> {
        self.connections.read_once(|sql| path_sessions::checkpoints(sql, session))
    }

    fn snapshot(&self) -> Result<Snapshot> {
        self.write(|writing| writing.snapshot())
    }

    fn roots(&self, after: u64, limit: usize) -> Result<Vec<(u64, Root)>> {
        self.connections.read(|sql| collection::roots(sql, after, limit))
    }

    fn condemn(&self, snapshot: Snapshot, containers: &[ContainerId]) -> Result<Vec<ContainerId>> {
        self.write(|writing| writing.condemn(snapshot, containers))
    }

    fn relocate(&self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>> {
        self.write(|writing| writing.relocate(snapshot, moves))
    }

    fn deletable(&self) -> Result<Vec<ContainerId>> {
        self.write(|writing| writing.deletable())
    }

    fn deleted(&self, containers: &[ContainerId]) -> Result<()> {
        self.write(|writing| writing.deleted(containers))
    }

    fn lose(&self, lost: &[(Place, Fingerprint)]) -> Result<()> {
        self.write(|writing| writing.lose(lost))
    }

    fn lost(&self) -> Result<Vec<LostSegment>> {
        self.connections.read_once(damage::lost)
    }

    fn heal(&self, session: SessionId, epoch: u64, healed: &[(LostSegment, Place)]) -> Result<()> {
        self.write(|writing| writing.heal(session, epoch, healed))
    }

    fn statistics(&self) -> Result<Statistics> {
        self.connections.read(collection::statistics)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn leases_last_while_the_machine_s_time_jumps_and_end_with_the_machine() {
        let scratch = tempfile::tempdir().unwrap();
        let date = Arc::new(std::sync::atomic::AtomicI64::new(1_700_000_000_000_000_000));
        let start = Arc::new(std::sync::atomic::AtomicI64::new(7 << 41));
        let (shown, since) = (date.clone(), start.clone());
        let mut catalog = SqliteCatalog::open(&scratch.path().join("catalog"), true).unwrap();
        catalog.clocks.date = Arc::new(move || shown.load(std::sync::atomic::Ordering::SeqCst));
        catalog.clocks.lease = Arc::new(move || since.load(std::sync::atomic::Ordering::SeqCst));
        let session = catalog.begin(Purpose::Write, 30_000).unwrap().id;
        for hours in [1, -2, 24] {
            date.fetch_add(hours * 3_600_000_000_000, std::sync::atomic::Ordering::SeqCst);
            catalog.snapshot().unwrap();
            catalog.open_container(session).unwrap();
        }
        for other_start in [8, 6] {
            let session = catalog.begin(Purpose::Write, 30_000).unwrap().id;
            start.store(other_start << 41, std::sync::atomic::Ordering::SeqCst);
            assert!(matches!(catalog.open_container(session), Err(Error::LeaseLost { .. })));
            catalog.snapshot().unwrap();
            assert!(matches!(catalog.renew(session, 30_000, false), Err(Error::LeaseLost { .. })), "it was ended");
        }
    }

    #[test]
    fn the_catalog_on_disk_keeps_every_promise() {
        let scratch = tempfile::tempdir().unwrap();
        let made = std::cell::Cell::new(0);
        conformance::suite(|clock| {
            made.set(made.get() + 1);
            let path = scratch.path().join(format!("catalog-{}", made.get()));
            Arc::new(SqliteCatalog::open(&path, true).unwrap().with_clock(clock))
        });
    }
}

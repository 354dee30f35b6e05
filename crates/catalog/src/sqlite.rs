//! The catalog in an SQLite file, shared by all processes of one machine.
//!
//! This file maps calls to transactions; the transactions' bodies are in the files of `sqlite/`, by theme, the tables
//! in `sqlite/schema.sql`.

mod beginnings;
mod collection;
mod commits;
mod connections;
mod containers;
mod damage;
mod failure;
mod forks;
mod index_room;
mod listing;
mod lock_holders;
mod lock_timeout;
mod mark;
mod names;
mod opened_files;
mod path_sessions;
mod schema;
mod sessions;
mod soundness;
mod statement;
#[cfg(test)]
mod tests;
mod unlocked;
mod view;
mod writing;

use std::any::Any;
use std::fs::File;
use std::path::Path;

use format::{
    Change, ContainerId, Fingerprint, HandleKey, JournalRecord, LostSegment, Root, SegmentAddress, SessionId, StoreId,
    StorePath,
};

use crate::clock::{Clock, lease_time, system_clock};
use crate::*;
use connections::Connections;
use failure::Attempt;
use mark::{Mark, MarkUpdate};
use view::SqliteView;
use writing::WriteTransaction;

pub struct SqliteCatalog {
    connections: Connections,
    clocks: Clocks,
    /// None for a catalog that belongs to no store, and where the mark cannot be reached.
    mark: Option<Mark>,
    /// It does not serve a store yet: its counts are not noted in the mark.
    is_draft: bool,
    give_up_reserve: Option<ReserveSource>,
}

/// Gives up room that is kept on the disk, until the value is dropped.
pub type ReserveSource = Box<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// The clock that dates versions, and the one that leases run by.
struct Clocks {
    date: Clock,
    lease: Clock,
}

impl SqliteCatalog {
    /// Opens the catalog in the file at `path`; creates it when `create` and it is missing or empty. The file must lie
    /// on a local file system.
    pub fn open(path: &Path, create: bool) -> Result<Self> {
        Ok(Self::new(Connections::open(path, create)?))
    }

    /// Opens the catalog to read it, also where it cannot be written: by its mode, its medium, or for want of room.
    /// Calls that write fail there, with [`Error::ReadOnly`] or [`Error::Full`].
    pub fn open_for_reading(path: &Path) -> Result<Self> {
        Ok(Self::new(Connections::open_for_reading(path)?))
    }

    fn new(connections: Connections) -> Self {
        let clocks = Clocks { date: system_clock(), lease: lease_time::system_clock() };
        SqliteCatalog { connections, clocks, mark: None, is_draft: false, give_up_reserve: None }
    }

    /// Dates versions by this clock, and has leases run by it.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clocks = Clocks { date: clock.clone(), lease: lease_time::of_clock(clock) };
        self
    }

    /// Notes in the file `mark` how far this catalog has counted; `store` is the store it belongs to.
    pub fn with_mark(mut self, mark: Option<File>, store: StoreId) -> Self {
        self.mark = mark.map(|file| Mark::new(file, store));
        self
    }

    /// Marks the catalog as a draft: until it is opened again it is not the store's catalog, and its counts do not make
    /// the store's catalog look like an older copy.
    pub fn as_draft(self) -> Self {
        SqliteCatalog { is_draft: true, ..self }
    }

    /// Records leases and sessions on a full disk too, in the room of a reserve: readers need them, and so does a process that
    /// makes room.
    pub fn with_reserve(self, give_up_reserve: ReserveSource) -> Self {
        SqliteCatalog { give_up_reserve: Some(give_up_reserve), ..self }
    }

    /// Moves the log into the file, as far as its readers let it, so that its blocks are used again and it grows no further.
    pub fn move_log(&self) {
        self.connections.move_log();
    }

    /// Returns the highest numbers that any catalog of the store is known to have given.
    pub fn marked(&self) -> IssuedNumbers {
        self.noted().given
    }

    /// Returns sequence and checksum of the last record that any catalog of the store is known to have written.
    pub fn marked_record(&self) -> Option<(u64, u64)> {
        let noted = self.noted();
        (noted.record != 0).then_some((noted.given.sequence, noted.record))
    }

    fn noted(&self) -> MarkUpdate {
        self.mark.as_ref().map(Mark::read).unwrap_or_default()
    }

    /// Makes a catalog that belongs to no store yet `store`'s own.
    pub fn adopt(&self, store: StoreId) -> Result<()> {
        match self.connections.read_once(soundness::has_owner)? {
            true => Ok(()),
            false => self.write(|writing| {
                // The clock that a new catalog counts from may have been set back.
                writing.count_above(self.noted().transaction)?;
                soundness::adopt(writing, store)
            }),
        }
    }

    /// Returns why this catalog must not be written to, if there is a reason: it is older than the store's mark,
    /// another store's, or was changed by another program. Costs a few look-ups, whatever its size.
    pub fn unsoundness(&self, store: StoreId) -> Result<Option<String>> {
        if let Some(why) = self.connections.mixture() {
            return Ok(Some(why.to_owned()));
        }
        // The mark first: it never runs ahead of the catalog as that is afterwards.
        let noted = self.noted();
        self.connections.read(|sql| soundness::unsoundness(sql, store, &noted))
    }

    /// Returns whether it is another store's.
    pub fn is_of_another_store(&self, store: StoreId) -> Result<bool> {
        self.connections.read(|sql| soundness::is_of_another_store(sql, store))
    }

    /// Returns whether file and log are of different times, so that they never were one catalog.
    pub fn is_mixture(&self) -> bool {
        self.connections.mixture().is_some()
    }

    /// Returns the highest numbers that this catalog has given.
    pub fn given(&self) -> Result<IssuedNumbers> {
        self.connections.read_once(|sql| Ok(writing::given(&writing::load_counters(sql)?)))
    }

    /// Returns whether something other than this program changed it.
    pub fn was_changed_by_others(&self) -> Result<bool> {
        self.connections.read(soundness::was_changed_by_others)
    }

    /// Returns the number of the last container that was registered.
    pub fn last_container(&self) -> Result<ContainerId> {
        self.connections.read_once(|sql| Ok(ContainerId(writing::load_counters(sql)?.container)))
    }

    /// Counts these records, by sequence and checksum, among its own, although it was not made from them: they are no
    /// sign of another catalog.
    pub fn know_records(&self, records: &[(u64, u64)]) -> Result<()> {
        self.write(|writing| records.iter().try_for_each(|(sequence, sum)| writing.know_record(*sequence, *sum)))
    }

    /// Queues records that it was made from for a container, as if they had just been committed.
    pub fn journal_later(&self, records: &[JournalRecord]) -> Result<()> {
        self.write(|writing| records.iter().try_for_each(|record| writing.add_to_journal(record)))
    }

    /// Returns containers that a session has open, newest first.
    pub fn open_containers(&self, limit: usize) -> Result<Vec<ContainerId>> {
        self.connections.read_once(|sql| containers::open_containers(sql, limit))
    }

    fn write<T>(&self, body: impl FnOnce(&mut WriteTransaction) -> Attempt<T>) -> Result<T> {
        let (value, noted) = self.connections.write(&self.clocks, body)?;
        if let Some(mark) = self.mark.as_ref().filter(|_| !self.is_draft) {
            mark.note(&noted);
        }
        Ok(value)
    }

    /// As `write`; on a full disk once more in the room of the reserve. The log is moved into the file then, so that it
    /// grows no further.
    fn write_with_reserve<T>(&self, body: impl Fn(&mut WriteTransaction) -> Attempt<T>) -> Result<T> {
        match (self.write(&body), &self.give_up_reserve) {
            (Err(Error::Full { .. }), Some(give_up_reserve)) => {
                let _room = give_up_reserve();
                self.connections.move_log();
                self.write(&body)
            }
            (written, _) => written,
        }
    }
}

impl Names for SqliteCatalog {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.write_with_reserve(|writing| writing.begin(purpose, lease_ms))
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.write_with_reserve(|writing| writing.renew(session, lease_ms, refresh))
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.write_with_reserve(|writing| writing.retire(session))
    }

    fn commit(&self, commit: &Commit) -> Result<Committed> {
        self.write(|writing| writing.commit(commit))
    }

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>> {
        self.connections.read_once(|sql| {
            let entry = listing::entry(sql, path)?;
            entry.iter().try_for_each(|entry| listing::with_head(path, entry))?;
            Ok(entry)
        })
    }

    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        self.connections.read(|sql| {
            let listed = listing::list(sql, directory, recursive, after, limit)?;
            listed.iter().try_for_each(|(path, entry)| listing::with_head(path, entry))?;
            Ok(listed)
        })
    }

    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>> {
        self.connections.read(|sql| listing::versions(sql, path, after, limit))
    }

    fn lease_left_ms(&self, session: SessionId) -> Result<Option<u64>> {
        self.connections.read_once(|sql| path_sessions::lease_left_ms(sql, (self.clocks.lease)(), session))
    }

    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>> {
        self.connections.read_once(|sql| path_sessions::path_sessions(sql, (self.clocks.lease)(), after, limit))
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        self.write_with_reserve(|writing| writing.discard(session))
    }

    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>> {
        self.connections.read_once(|sql| path_sessions::checkpoints(sql, session, after, limit))
    }
}

impl LocalCatalog for SqliteCatalog {
    fn begin_for(&self, client: u64, _purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.write_with_reserve(|writing| writing.begin_for(client, lease_ms))
    }

    fn is_begun_for(&self, session: SessionId, client: u64) -> Result<Option<bool>> {
        self.connections.read_once(|sql| sessions::is_begun_for(sql, session, client))
    }

    fn open_container(&self, session: SessionId) -> Result<ContainerId> {
        self.write(|writing| writing.open_container(session))
    }

    fn seal_container(&self, container: ContainerId, stored_bytes: u64, segments: u64) -> Result<()> {
        self.write_with_reserve(|writing| writing.seal_container(container, stored_bytes, segments))
    }

    fn truncate_container(&self, container: ContainerId) -> Result<()> {
        self.write_with_reserve(|writing| writing.truncate_container(container))
    }

    fn container(&self, container: ContainerId) -> Result<Option<ContainerRecord>> {
        self.connections.read_once(|sql| containers::container(sql, container))
    }

    fn files_of(&self, container: ContainerId) -> Result<Vec<ContainerId>> {
        self.connections.read(|sql| containers::files_of(sql, container))
    }

    fn growing(&self) -> Result<Vec<ContainerId>> {
        self.connections.read_once(|sql| containers::growing(sql, (self.clocks.lease)()))
    }

    fn containers(&self) -> Result<Vec<ContainerRecord>> {
        self.connections.read_once(containers::containers)
    }

    fn unjournaled(&self, limit: usize) -> Result<Vec<JournalRecord>> {
        self.connections.read_once(|sql| commits::unjournaled(sql, limit))
    }

    fn journaled(&self, sequences: &[u64]) -> Result<()> {
        self.write(|writing| writing.journaled(sequences))
    }

    fn unknown_records(&self, records: &[(u64, u64)]) -> Result<Vec<u64>> {
        self.connections.read(|sql| commits::unknown_records(sql, records))
    }

    fn known_records(&self) -> Result<Option<Vec<u64>>> {
        self.connections.read(commits::known_records)
    }

    fn restate(&self, session: SessionId, paths: &[StorePath]) -> Result<()> {
        self.write(|writing| writing.restate(session, paths))
    }

    fn fill_gaps(&self, session: SessionId, sequences: &[u64]) -> Result<()> {
        self.write(|writing| writing.fill_gaps(session, sequences))
    }

    fn integrity(&self) -> Result<Vec<String>> {
        self.connections.read(soundness::integrity)
    }

    fn view(&self) -> Result<Box<dyn CatalogView + '_>> {
        Ok(Box::new(SqliteView::new(self.connections.view()?, self.connections.path())))
    }

    fn replay(
        &self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Result<Vec<SkippedRecord>> {
        self.write(|writing| writing.replay(containers, records, given))
    }

    fn join(&self, join: &Join) -> Result<PathSession> {
        self.write_with_reserve(|writing| writing.join(join))
    }

    fn path_session(&self, session: SessionId) -> Result<Option<PathSession>> {
        self.connections.read_once(|sql| path_sessions::path_session(sql, (self.clocks.lease)(), session))
    }

    fn live_session(&self, path: &StorePath) -> Result<Option<PathSession>> {
        self.connections.read_once(|sql| path_sessions::live_session(sql, (self.clocks.lease)(), path))
    }

    fn path_state(&self, session: SessionId) -> Result<Option<PathState>> {
        self.connections.read_once(|sql| path_sessions::path_state(sql, session))
    }

    fn follow_changes(&self, changes: &[Change], own: &[SessionId]) -> Result<()> {
        self.write_with_reserve(|writing| writing.follow_changes(changes, own))
    }

    fn has_handle(&self, session: SessionId, key: &HandleKey) -> Result<Option<bool>> {
        self.connections.read_once(|sql| path_sessions::has_handle(sql, session, key))
    }

    fn leave(&self, session: SessionId, key: &HandleKey) -> Result<u32> {
        self.write_with_reserve(|writing| writing.leave(session, key))
    }

    fn leave_all(&self, session: SessionId) -> Result<()> {
        self.write_with_reserve(|writing| writing.leave_all(session))
    }

    fn take_stripe_set(&self, session: SessionId, stripe_set: u32, owner: u64) -> Result<u64> {
        self.write_with_reserve(|writing| writing.take_stripe_set(session, stripe_set, owner))
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

    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> Result<()> {
        self.write(|writing| writing.lose(lost))
    }

    fn lost(&self) -> Result<Vec<LostSegment>> {
        self.connections.read_once(damage::lost)
    }

    fn heal(&self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()> {
        self.write(|writing| writing.heal(session, epoch, healed))
    }

    fn statistics(&self) -> Result<Statistics> {
        self.connections.read(collection::statistics)
    }

    fn displaced(&self) -> Option<String> {
        self.connections.displaced()
    }
}

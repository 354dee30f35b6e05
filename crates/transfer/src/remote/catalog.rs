//! The node's catalog as a [`Catalog`], as far as clients need it.
//!
//! What only the node itself does (numbering containers, checkpoints, collection, rebuilding) is not offered here.

use catalog::{
    Catalog, CatalogView, Checkpoint, Commit, Committed, ContainerRecord, Error, FileEntry, Join, LeftOut,
    NumbersGiven, PathSession, Purpose, Result, Session, Snapshot, Statistics, Version,
};
use format::{ContainerId, Fingerprint, HandleKey, JournalRecord, LostSegment, Place, Root, SessionId, StorePath};

use super::Remote;
use super::failures::catalog_error;
use crate::message::{MAX_LISTED, Reply, Request};

const NO_SESSION: SessionId = SessionId(0);

/// Each call is one transaction, but lists of more than [`MAX_LISTED`] entries, which take several.
pub struct RemoteCatalog {
    remote: Remote,
}

/// Takes a field out of the reply that has it.
macro_rules! pick {
    ($variant:ident, $field:ident) => {
        |reply| match reply {
            Reply::$variant { $field } => Some($field),
            _ => None,
        }
    };
}

fn done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done {}).then_some(())
}

/// Refuses a page of a listing that does not lead on, or names what was not asked for: a node could have its clients
/// list for ever, or elsewhere.
fn check_page(
    page: &[(StorePath, FileEntry)],
    directory: &StorePath,
    recursive: bool,
    after: Option<&StorePath>,
    limit: usize,
) -> std::result::Result<(), String> {
    if page.len() > limit {
        return Err(format!("{} names were listed, {limit} were asked for", page.len()));
    }
    let mut last = after;
    for (path, _) in page {
        if last.is_some_and(|last| path <= last) {
            return Err(format!("{path} was listed after {}, which it does not follow", last.unwrap_or(path)));
        }
        let below = path.below(directory).filter(|below| !below.is_empty());
        if below.is_none_or(|below| !recursive && below.contains(&b'/')) {
            return Err(format!("{path} was listed in /{directory}, where it does not lie"));
        }
        last = Some(path);
    }
    Ok(())
}

impl RemoteCatalog {
    pub fn new(remote: Remote) -> Self {
        RemoteCatalog { remote }
    }

    fn ask<T>(&self, session: SessionId, request: Request, pick: impl FnOnce(Reply) -> Option<T>) -> Result<T> {
        let answer = self.remote.obtain(&request, pick);
        answer.map_err(|error| catalog_error(error, self.remote.address(), session))
    }

    fn elsewhere<T>(&self, deed: &str) -> Result<T> {
        let why = format!("{deed} is done on the node's own machine; run the command there, on the store's directory");
        Err(Error::Unavailable { peer: self.remote.address().to_owned(), why })
    }
}

impl Catalog for RemoteCatalog {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.ask(NO_SESSION, Request::Begin { purpose, lease_ms }, pick!(Session, session))
    }

    fn begin_for(&self, _client: u64, _purpose: Purpose, _lease_ms: u64) -> Result<Session> {
        self.elsewhere("beginning sessions for others")
    }

    fn is_begun_for(&self, _session: SessionId, _client: u64) -> Result<Option<bool>> {
        self.elsewhere("asking whose a session is")
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.ask(session, Request::Renew { session, lease_ms, refresh }, pick!(Session, session))
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.ask(session, Request::End { session }, done)
    }

    fn commit(&self, commit: &Commit) -> Result<Committed> {
        let Commit { session, references, epoch, changes, settles } = commit.clone();
        self.ask(session, Request::Commit { session, references, epoch, changes, settles }, pick!(Committed, committed))
    }

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>> {
        self.ask(NO_SESSION, Request::Entry { path: path.clone() }, pick!(Entry, entry))
    }

    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        let mut entries: Vec<(StorePath, FileEntry)> = Vec::new();
        while entries.len() < limit {
            let ask = MAX_LISTED.min(limit - entries.len());
            let after = entries.last().map(|(path, _)| path).or(after).cloned();
            let (directory_, cursor) = (directory.clone(), after.clone());
            let request = Request::List { directory: directory_, recursive, after: cursor, limit: ask as u32 };
            let more = self.ask(NO_SESSION, request, pick!(List, entries))?;
            if let Err(why) = check_page(&more, directory, recursive, after.as_ref(), ask) {
                let error = self.remote.misbehaved(why);
                return Err(catalog_error(error, self.remote.address(), NO_SESSION));
            }
            let last = more.len() < ask;
            entries.extend(more);
            if last {
                break;
            }
        }
        Ok(entries)
    }

    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.ask(NO_SESSION, Request::Versions { path: path.clone() }, pick!(Versions, versions))
    }

    fn path_sessions(&self) -> Result<Vec<PathSession>> {
        self.ask(NO_SESSION, Request::PathSessions {}, pick!(PathSessions, sessions))
    }

    fn checkpoints(&self, session: SessionId) -> Result<Vec<Checkpoint>> {
        self.ask(session, Request::Checkpoints { session }, pick!(Checkpoints, checkpoints))
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        self.ask(session, Request::Discard { session }, done)
    }

    fn open_container(&self, _: SessionId) -> Result<ContainerId> {
        self.elsewhere("opening containers")
    }

    fn seal_container(&self, _: ContainerId, _: u64, _: u64) -> Result<()> {
        self.elsewhere("sealing containers")
    }

    fn container(&self, _: ContainerId) -> Result<Option<ContainerRecord>> {
        self.elsewhere("looking up containers")
    }

    fn lose(&self, _: &[(Place, Fingerprint)]) -> Result<()> {
        self.elsewhere("recording damage")
    }

    fn lost(&self) -> Result<Vec<LostSegment>> {
        self.elsewhere("listing damage")
    }

    fn heal(&self, _: SessionId, _: u64, _: &[(LostSegment, Place)]) -> Result<()> {
        self.elsewhere("recording repairs")
    }

    fn files_of(&self, _: ContainerId) -> Result<Vec<ContainerId>> {
        self.elsewhere("looking up containers")
    }

    fn containers(&self) -> Result<Vec<ContainerRecord>> {
        self.elsewhere("listing containers")
    }

    fn unjournaled(&self, _: usize) -> Result<Vec<JournalRecord>> {
        self.elsewhere("keeping the journal")
    }

    fn journaled(&self, _: &[u64]) -> Result<()> {
        self.elsewhere("keeping the journal")
    }

    fn unknown_records(&self, _: &[(u64, u64)]) -> Result<Vec<u64>> {
        self.elsewhere("comparing the catalog with its journal")
    }

    fn known_records(&self) -> Result<Option<Vec<u64>>> {
        self.elsewhere("comparing the catalog with its journal")
    }

    fn fill_gaps(&self, _: SessionId, _: &[u64]) -> Result<()> {
        self.elsewhere("repairing the journal")
    }

    fn restate(&self, _: SessionId, _: &[StorePath]) -> Result<()> {
        self.elsewhere("repairing the journal")
    }

    fn integrity(&self) -> Result<Vec<String>> {
        self.elsewhere("verifying the catalog")
    }

    fn view(&self) -> Result<Box<dyn CatalogView + '_>> {
        self.elsewhere("comparing the catalog with its journal")
    }

    fn replay(&self, _: &[ContainerRecord], _: &[JournalRecord], _: &NumbersGiven) -> Result<Vec<LeftOut>> {
        self.elsewhere("rebuilding the catalog")
    }

    fn join(&self, _: &Join) -> Result<PathSession> {
        self.elsewhere("joining a path's session in the catalog")
    }

    fn path_session(&self, _: SessionId) -> Result<Option<PathSession>> {
        self.elsewhere("looking up one session")
    }

    fn live_session(&self, _: &StorePath) -> Result<Option<PathSession>> {
        self.elsewhere("looking up one session")
    }

    fn has_handle(&self, _: SessionId, _: &HandleKey) -> Result<Option<bool>> {
        self.elsewhere("asking whose a session is")
    }

    fn leave(&self, _: SessionId, _: &HandleKey) -> Result<u32> {
        self.elsewhere("leaving a path's session in the catalog")
    }

    fn leave_all(&self, _: SessionId) -> Result<()> {
        self.elsewhere("leaving a path's session in the catalog")
    }

    fn take_seat(&self, _: SessionId, _: u32, _: u64) -> Result<u64> {
        self.elsewhere("taking a seat")
    }

    fn checkpoint(&self, _: SessionId, _: &Checkpoint, _: &[ContainerId], _: u64) -> Result<()> {
        self.elsewhere("recording checkpoints")
    }

    fn snapshot(&self) -> Result<Snapshot> {
        self.elsewhere("collection")
    }

    fn roots(&self, _: u64, _: usize) -> Result<Vec<(u64, Root)>> {
        self.elsewhere("collection")
    }

    fn condemn(&self, _: Snapshot, _: &[ContainerId]) -> Result<Vec<ContainerId>> {
        self.elsewhere("collection")
    }

    fn relocate(&self, _: Snapshot, _: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>> {
        self.elsewhere("collection")
    }

    fn deletable(&self) -> Result<Vec<ContainerId>> {
        self.elsewhere("collection")
    }

    fn deleted(&self, _: &[ContainerId]) -> Result<()> {
        self.elsewhere("collection")
    }

    fn statistics(&self) -> Result<Statistics> {
        self.elsewhere("counting the catalog's containers and versions")
    }
}

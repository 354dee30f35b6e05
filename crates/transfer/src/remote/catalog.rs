//! The names in the node's store.

use std::fmt::Debug;

use catalog::{
    Checkpoint, Commit, Committed, Error, FileEntry, Names, PathSession, Purpose, Refusal, Result, Session, Version,
};
use format::{SessionId, StorePath, Writer};

use super::Remote;
use super::failures::catalog_error;
use crate::message::{Field, MAX_CHANGES, MAX_LISTED, Reply, Request};

const NO_SESSION: SessionId = SessionId(0);
/// A page is as long as requested, unless its entries are long. An honest node sends one that is neither when a very
/// long entry follows it.
const MIN_PAGE_BYTES: usize = 1 << 20;
const MAX_SHORT_PAGES: usize = 8;
/// Limit of a list requested as a whole: a node could send pages for ever. Some ten million versions or sessions.
const MAX_LIST_BYTES: usize = 1 << 30;

/// Each call is one transaction, but lists of more than [`MAX_LISTED`] entries take several.
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

/// Takes a page, and whether there is more, out of the reply that has it.
type Pick<T> = fn(Reply) -> Option<(Vec<T>, bool)>;

macro_rules! pick_page {
    ($variant:ident, $field:ident) => {
        |reply| match reply {
            Reply::$variant { $field, more } => Some(($field, more)),
            _ => None,
        }
    };
}

fn done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done {}).then_some(())
}

/// Refuses a page of a listing that does not advance, or lists what was not requested: a node could have its clients
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

fn encoded_bytes(page: &[impl Field]) -> usize {
    let mut to = Writer::new();
    page.iter().for_each(|entry| entry.write(&mut to));
    to.finish().len()
}

/// Refuses a page that does not advance beyond `after`.
fn check_order<T, K: Ord + Debug>(page: &[T], after: K, key: impl Fn(&T) -> K) -> std::result::Result<(), String> {
    let mut last = after;
    for next in page.iter().map(key) {
        if next <= last {
            return Err(format!("{next:?} was listed after {last:?}, which it does not follow"));
        }
        last = next;
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

    /// Fetches a list page by page from after `after` on, until there are `limit` entries or no more. `check` says what
    /// is wrong with a page that should follow the given entry.
    fn pages<T: Field, K: Clone>(
        &self,
        session: SessionId,
        mut after: K,
        limit: usize,
        key: impl Fn(&T) -> K,
        request: impl Fn(&K, u32) -> (Request, Pick<T>),
        check: impl Fn(&[T], &K, usize) -> std::result::Result<(), String>,
    ) -> Result<Vec<T>> {
        let (mut all, mut short_pages, mut all_bytes): (Vec<T>, usize, usize) = (Vec::new(), 0, 0);
        while all.len() < limit {
            let wanted = MAX_LISTED.min(limit - all.len());
            let (request, pick) = request(&after, wanted as u32);
            let (page, more) = self.ask(session, request, pick)?;
            let page_bytes = if more { encoded_bytes(&page) } else { 0 };
            all_bytes += page_bytes;
            short_pages += usize::from(more && page.len() < wanted && page_bytes < MIN_PAGE_BYTES);
            let checked = match () {
                () if all_bytes > MAX_LIST_BYTES => Err(format!("a list of more than {MAX_LIST_BYTES} bytes was sent")),
                () if more && page.is_empty() => Err("a page with more behind it was empty".to_owned()),
                () if short_pages > MAX_SHORT_PAGES => Err("it lists a few entries at a time".to_owned()),
                () => check(&page, &after, wanted),
            };
            checked.map_err(|why| catalog_error(self.remote.misbehaved(why), self.remote.address(), session))?;
            after = page.last().map_or(after, &key);
            all.extend(page);
            if !more {
                break;
            }
        }
        // Lists whose requests have no limit come in pages of whatever length the node likes.
        all.truncate(limit);
        Ok(all)
    }
}

impl Names for RemoteCatalog {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.ask(NO_SESSION, Request::Begin { purpose, lease_ms }, pick!(Session, session))
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.ask(session, Request::Renew { session, lease_ms, refresh }, pick!(Session, session))
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.ask(session, Request::End { session }, done)
    }

    fn makes_durable(&self) -> bool {
        true
    }

    fn commit(&self, commit: &Commit) -> Result<Committed> {
        let Commit { session, references, epoch, changes, checkpoints } = commit.clone();
        if changes.len() > MAX_CHANGES {
            let path = changes[MAX_CHANGES].path().clone();
            return Err(Error::Refused { path, why: Refusal::TooManyChanges });
        }
        let request = Request::Commit { session, references, epoch, changes, checkpoints };
        let answer = self.remote.obtain_durably(&request, pick!(Committed, committed));
        answer.map_err(|error| catalog_error(error, self.remote.address(), session))
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
        let begin = after.cloned().unwrap_or_default();
        let after = |after: &StorePath| Some(after.clone()).filter(|after| !after.is_root());
        let key = |(path, _): &(StorePath, FileEntry)| path.clone();
        let request = |last: &StorePath, limit| -> (Request, Pick<_>) {
            let (directory, after) = (directory.clone(), after(last));
            (Request::List { directory, recursive, after, limit }, pick_page!(List, entries))
        };
        self.pages(NO_SESSION, begin, limit, key, request, |page, last, limit| {
            check_page(page, directory, recursive, after(last).as_ref(), limit)
        })
    }

    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>> {
        let key = |version: &Version| version.number;
        let request = |after: &u64, _| -> (Request, Pick<_>) {
            (Request::Versions { path: path.clone(), after: *after }, pick_page!(Versions, versions))
        };
        self.pages(NO_SESSION, after, limit, key, request, |page, after, _| check_order(page, *after, key))
    }

    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>> {
        let key = |session: &PathSession| session.id;
        let request = |after: &SessionId, _| -> (Request, Pick<_>) {
            (Request::PathSessions { after: *after }, pick_page!(PathSessions, sessions))
        };
        self.pages(NO_SESSION, after, limit, key, request, |page, after, _| check_order(page, *after, key))
    }

    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>> {
        let key = |checkpoint: &Checkpoint| (checkpoint.stripe_set, checkpoint.number);
        let request = |after: &(u32, u64), _| -> (Request, Pick<_>) {
            (Request::Checkpoints { session, after: *after }, pick_page!(Checkpoints, checkpoints))
        };
        self.pages(session, after, limit, key, request, |page, after, _| check_order(page, *after, key))
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        self.ask(session, Request::Discard { session }, done)
    }
}

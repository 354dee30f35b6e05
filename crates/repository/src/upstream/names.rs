//! The names of a near store: those of the far one. Sessions are the near store's, and so is what they have checkpointed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{
    Checkpoint, Commit, Committed, Error, FileEntry, LocalCatalog, Names, PathSession, Purpose, Result, Session,
    Version,
};
use format::{Change, ContainerId, SessionId, StorePath};
use store::ClaimOwner;

use super::forwarder::Forwarder;
use super::is_near;
use super::manifest::{self, StorePair};
use super::sent_segments::SentSegments;
use crate::{LEASE_MS, Repository};

pub(super) struct UpstreamNames {
    pub near: Arc<dyn LocalCatalog>,
    /// Reads segments of both stores.
    pub reader: Repository,
    pub far: Arc<Repository>,
    pub forwarder: Arc<Forwarder>,
    pub sent: Arc<SentSegments>,
    /// The next claim owner at the far store.
    pub claim_owners: AtomicU64,
}

impl UpstreamNames {
    /// Sends what the changes name and the far store lacks, and commits them there.
    fn commit_far(&self, commit: &Commit) -> crate::Result<Committed> {
        let asker = self.asker(commit)?;
        let near = commit.references.iter().copied().filter(|container| is_near(*container)).collect();
        self.forwarder.flush(&near);
        let claim_owner = ClaimOwner(self.claim_owners.fetch_add(1, Ordering::Relaxed));
        // Before anything is asked that the commit rests on.
        let epoch = self.far.lease().epoch();
        let (mut changes, mut references) = (commit.changes.clone(), BTreeSet::new());
        let sent = changes.iter_mut().try_for_each(|change| self.send(claim_owner, change, &mut references));
        let wanted = sent.and_then(|()| Ok(self.check_asker(asker)?));
        let committed =
            wanted.and_then(|()| self.far.commit_since(epoch, claim_owner, changes, references, Vec::new()));
        self.far.store().release(claim_owner);
        committed.inspect_err(|error| self.note_failure(error))
    }

    /// Returns the session of a path whose checkpoints the commit takes, if programs write in it now.
    fn asker(&self, commit: &Commit) -> Result<Option<SessionId>> {
        let Some((session, ..)) = commit.checkpoints.first() else { return Ok(None) };
        let session = self.near.path_session(*session)?;
        Ok(session.filter(|session| !session.interrupted).map(|session| session.id))
    }

    /// Refuses what took so long that all programs have left meanwhile: they were told that it failed, and others may have
    /// committed since.
    fn check_asker(&self, asker: Option<SessionId>) -> Result<()> {
        match asker {
            Some(session) if self.near.path_session(session)?.is_none_or(|found| found.interrupted) => {
                Err(Error::LeaseLost { session })
            }
            _ => Ok(()),
        }
    }

    /// Finds out whether the far store takes anything more from this process, which a commit does not say.
    fn note_failure(&self, error: &crate::Error) {
        use catalog::Error::{LeaseLost, Unavailable};
        match error {
            crate::Error::Catalog(LeaseLost { .. }) => self.far.lease().renew_soon(),
            crate::Error::Catalog(Unavailable { .. }) => {
                if let Err(found) = self.far.store().make_durable() {
                    self.forwarder.note_failure(&found.into());
                }
            }
            other => self.forwarder.note_failure(other),
        }
    }

    fn send(
        &self,
        claim_owner: ClaimOwner,
        change: &mut Change,
        references: &mut BTreeSet<ContainerId>,
    ) -> crate::Result<()> {
        let Change::Write { version, .. } = change else { return Ok(()) };
        let stores = StorePair { near: &self.reader, far: &self.far, sent: &self.sent, forwarder: &self.forwarder };
        let (root, referred) = manifest::send(stores, claim_owner, &version.root)?;
        version.root = root;
        references.extend(referred);
        Ok(())
    }
}

impl Names for UpstreamNames {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session> {
        self.near.begin(purpose, lease_ms)
    }

    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session> {
        self.near.renew(session, lease_ms, refresh)
    }

    fn end(&self, session: SessionId) -> Result<()> {
        self.near.end(session)
    }

    /// The far store's transaction is the commit. That checkpoints go comes after it: where it fails, their session can be
    /// recovered, to the same content.
    fn commit(&self, commit: &Commit) -> Result<Committed> {
        // A client whose lease ran out commits nothing.
        self.near.renew(commit.session, LEASE_MS, false)?;
        let committed = self.commit_far(commit).map_err(as_catalog_error)?;
        let own: Vec<_> = commit.checkpoints.iter().map(|(session, ..)| *session).collect();
        self.near.follow_changes(&commit.changes, &own)?;
        if !commit.checkpoints.is_empty() {
            self.near.commit(&Commit { references: Vec::new(), changes: Vec::new(), ..commit.clone() })?;
        }
        Ok(committed)
    }

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>> {
        self.far.catalog().entry(path)
    }

    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        self.far.catalog().list(directory, recursive, after, limit)
    }

    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>> {
        self.far.catalog().versions_after(path, after, limit)
    }

    fn lease_left_ms(&self, session: SessionId) -> Result<Option<u64>> {
        self.near.lease_left_ms(session)
    }

    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>> {
        self.near.path_sessions_after(after, limit)
    }

    fn discard(&self, session: SessionId) -> Result<()> {
        self.near.discard(session)
    }

    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>> {
        self.near.checkpoints_after(session, after, limit)
    }
}

fn as_catalog_error(error: crate::Error) -> Error {
    let upstream = || "the store upstream".to_owned();
    match error {
        // Not the client's, to which this would be said.
        crate::Error::Catalog(error @ Error::LeaseLost { .. }) => {
            Error::Unavailable { peer: upstream(), why: error.to_string() }
        }
        crate::Error::Catalog(error) => error,
        crate::Error::Store(store::Error::Io { path, source }) => Error::Io { path, why: source.to_string() },
        crate::Error::Store(store::Error::Node { peer, why, code }) => Error::Node { peer, why, code },
        // Of either store; of the near one nothing but unfinished sessions is needed.
        crate::Error::Store(error) if error.is_damage() => Error::Io {
            path: upstream(),
            why: format!("{error}; where that is below a near node's own folder, stop that node and remove the folder"),
        },
        crate::Error::Store(store::Error::Full { path }) => Error::Full { path },
        crate::Error::Store(store::Error::Replaced { peer }) => Error::Replaced { peer },
        crate::Error::Store(store::Error::Unavailable { peer, why }) => Error::Unavailable { peer, why },
        other => Error::Unavailable { peer: upstream(), why: other.to_string() },
    }
}

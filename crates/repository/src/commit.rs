//! The order of a commit: containers durable → manifest durable → one catalog transaction → journal → acknowledged.
//!
//! A commit that refers to containers collected meanwhile is refused by the catalog; the segments are put
//! again from the condemned containers, whose files stay until this session ends, and it is tried again.
//!
//! The journal has all catalog changes, in containers, so that the catalog can be made again from them. A transaction
//! leaves its record in the catalog's outbox; from there it moves into a container, durably, before the commit is
//! acknowledged. The next committer moves records that a crash left in the outbox.

use std::collections::BTreeSet;

use catalog::{Commit, Committed};
use format::{
    Attributes, Change, ContainerId, FileKind, FileTime, FileTimes, JournalRecord, SegmentAddress, SessionId,
    StorePath, VersionRecord,
};
use store::ClaimOwner;

use crate::admission::admit;
use crate::dedup::{NewBlocks, NewSegment};
use crate::tree::rewrite;
use crate::{Error, LocalEngines, Repository, Result};

/// A collector would have to condemn our containers this many times in a row.
const ATTEMPTS: usize = 8;

impl Repository {
    /// Commits changes whose content was stored by this session; `references` are all containers they refer to.
    pub fn commit(
        &self,
        claim_owner: ClaimOwner,
        changes: Vec<Change>,
        references: BTreeSet<ContainerId>,
        checkpoints: Vec<(SessionId, u32, u64)>,
    ) -> Result<Committed> {
        self.commit_since(self.lease.epoch(), claim_owner, changes, references, checkpoints)
    }

    /// As `commit`, for content the store was asked about since `epoch` ([`crate::Lease::epoch`]).
    pub(crate) fn commit_since(
        &self,
        epoch: u64,
        claim_owner: ClaimOwner,
        mut changes: Vec<Change>,
        mut references: BTreeSet<ContainerId>,
        checkpoints: Vec<(SessionId, u32, u64)>,
    ) -> Result<Committed> {
        let _room = self.room_to_remove(&changes)?;
        for _ in 0..ATTEMPTS {
            if !self.catalog.makes_durable() {
                self.store.make_durable()?;
            }
            let commit = Commit {
                session: self.lease.session(),
                references: references.iter().copied().collect(),
                epoch,
                changes: changes.clone(),
                checkpoints: checkpoints.clone(),
            };
            match self.catalog.commit(&commit) {
                Ok(committed) => {
                    self.journal()?;
                    return Ok(committed);
                }
                Err(catalog::Error::NotLive { containers }) => {
                    self.forget(&containers);
                    references = self.move_out_of(claim_owner, &mut changes, &containers)?;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Error::Failed("collection kept removing what this commit refers to; run it again".into()))
    }

    /// Changes that make the directories above a path that are missing, with the time of their making. The catalog makes
    /// what is still missing by itself, without a time.
    pub fn make_above(&self, path: &StorePath, now: FileTime) -> Result<Vec<Change>> {
        let times = FileTimes { modified: now, ..FileTimes::default() };
        let attributes = Attributes { kind: FileKind::Directory, mode: 0o755, times, ..Attributes::default() };
        let (mut changes, mut above) = (Vec::new(), path.parent());
        while let Some(directory) = above.filter(|directory| !directory.is_root()) {
            if self.catalog.entry(&directory)?.is_some() {
                break;
            }
            above = directory.parent();
            changes.push(Change::Make { path: directory, attributes: attributes.clone() });
        }
        changes.reverse();
        Ok(changes)
    }

    /// Commits what a remote client built: containers durable, the transaction, the journal. Refusals are the
    /// client's to mend.
    ///
    /// The changes' references are checked before; the client's own list of references is completed.
    pub fn commit_once(&self, mut commit: Commit) -> Result<Committed> {
        let _room = self.room_to_remove(&commit.changes)?;
        let mut references = admit(self, &commit.changes)?;
        references.extend(commit.references);
        commit.references = references.into_iter().collect();
        self.store.make_durable()?;
        let committed = self.catalog.commit(&commit)?;
        self.journal()?;
        Ok(committed)
    }

    /// Another process's session, which is given this store's answers, has begun or relies on no earlier ones: it must be
    /// given none that are older than its epoch, since nothing keeps the files they name.
    pub fn session_moved_on(&self) {
        if let Some(local) = &self.local {
            local.store.forget_catalog_answers();
        }
    }

    /// Nothing found in these containers is believed any more.
    pub(crate) fn forget(&self, containers: &[ContainerId]) {
        if let Some(local) = &self.local {
            containers.iter().for_each(|container| local.store.forget_container(*container));
        }
    }

    /// Puts again whatever lies in `lost`; returns what the changes refer to then.
    fn move_out_of(
        &self,
        claim_owner: ClaimOwner,
        changes: &mut [Change],
        lost: &[ContainerId],
    ) -> Result<BTreeSet<ContainerId>> {
        let mut references = BTreeSet::new();
        for change in changes {
            if let Change::Write { version: VersionRecord { root, .. }, .. } | Change::Manifest { root, .. } = change {
                let built = rewrite(self, claim_owner, root, lost)?;
                *root = built.root;
                references.extend(built.references);
            }
        }
        Ok(references)
    }
}

/// Records moved at a time.
const BATCH: usize = 1024;
/// The claim owner that puts journal records; never asks for claims, so the number is free.
const JOURNALIST: ClaimOwner = ClaimOwner(u64::MAX);

impl Repository {
    /// Moves the outbox into containers; returns when it is durable there. Two processes may move the same
    /// record: it has the same sequence number then, and counts once.
    pub(crate) fn journal(&self) -> Result<()> {
        let Some(LocalEngines { catalog, store }) = &self.local else {
            return Ok(()); // The node at the other end does it.
        };
        loop {
            let records = catalog.unjournaled(BATCH)?;
            if records.is_empty() {
                return Ok(());
            }
            let addresses = self.put_records(&records)?;
            self.store.make_durable()?;
            // Another writer's attempt found no room for them: they stay in the outbox.
            if let Some(dropped) = addresses.into_iter().find(|address| store.has_dropped(*address)) {
                return Err(store::Error::Full { path: format!("container {}", dropped.container) }.into());
            }
            let sequences: Vec<_> = records.iter().map(|record| record.sequence).collect();
            catalog.journaled(&sequences)?;
        }
    }

    fn put_records(&self, records: &[JournalRecord]) -> Result<Vec<SegmentAddress>> {
        let encoded: Vec<_> = records.iter().map(JournalRecord::encode).collect();
        let new_segments: Vec<_> =
            encoded.iter().map(|bytes| NewSegment { fingerprint: self.fingerprint(bytes), bytes }).collect();
        self.keep_again(JOURNALIST, NewBlocks::JOURNAL, &new_segments)
    }
}

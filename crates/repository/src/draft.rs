//! Single files in, and their places under names: for callers that keep files open, copy and append.
//!
//! A [`FileWriter`] takes a file's bytes as they come. It leaves a [`Draft`]: content in the store without a name.
//! Drafts get their names in one commit, all or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::FileEntry;
use format::{Attributes, Change, CodecChoice, ContainerId, Root, StorePath, VersionRecord};
use store::ClaimOwner;

use crate::lease::EpochPin;
use crate::recipe::DroppedContent;
use crate::reserved::refuse_reserved;
use crate::tree::{collect_runs, join};
use crate::{Error, Packer, Repository, Result};

/// How often an append is laid over a head that other writers move on.
const ATTEMPTS: usize = 32;

/// The treatment of a file that has the draft's name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The draft is its new version.
    Replace,
    /// The commit is refused.
    Create,
    /// Its new version is the file with the draft behind it.
    Append,
}

/// A file being written.
pub struct FileWriter {
    // Before the repository it borrows from: fields are dropped in this order.
    packer: Packer<'static, ()>,
    hold: EpochPin,
    _repository: Arc<Repository>,
}

/// Content in the store, to be named. It is invisible until then; given up, it is garbage for collection.
pub struct Draft {
    record: VersionRecord,
    references: BTreeSet<ContainerId>,
    /// The content may be found in containers that collection would take otherwise.
    _hold: EpochPin,
}

/// Where a draft goes.
pub struct CommitEntry {
    pub path: StorePath,
    pub attributes: Attributes,
    pub mode: WriteMode,
    pub draft: Draft,
}

impl FileWriter {
    /// `claim_owner` must be this writer's alone.
    pub fn new(repository: Arc<Repository>, claim_owner: ClaimOwner) -> Self {
        let hold = repository.lease.hold();
        // SAFETY: the repository stays where it is until the last `Arc` goes; ours is dropped after the packer, and
        // the reference leaves this struct nowhere.
        let borrowed: &'static Repository = unsafe { &*Arc::as_ptr(&repository) };
        let mut packer = Packer::new(borrowed, claim_owner);
        packer.begin();
        FileWriter { packer, hold, _repository: repository }
    }

    /// Encodes the content in another way than the repository's.
    pub fn with_codec(mut self, codec: CodecChoice) -> Self {
        self.packer = self.packer.with_codec(codec);
        self
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.packer.data_digested_beside(bytes)
    }

    /// Ends the file: no more comes.
    pub fn finish(mut self) -> Result<Draft> {
        self.packer.end(())?;
        self.packer.flush()?;
        let packed = self.packer.take_finished().pop().expect("one file was begun, ended and flushed");
        let record = VersionRecord { root: packed.built.root, size: packed.built.length, content: packed.content };
        Ok(Draft { record, references: packed.built.references, _hold: self.hold })
    }
}

impl Draft {
    /// Returns the version that the draft becomes.
    pub fn version(&self) -> &VersionRecord {
        &self.record
    }
}

impl Repository {
    /// Makes a draft of a version's content, without touching the content.
    pub fn draft_of(&self, version: &VersionRecord) -> Result<Draft> {
        let hold = self.lease.hold();
        let references = self.references_of(&version.root)?;
        Ok(Draft { record: version.clone(), references, _hold: hold })
    }

    /// Gives all drafts their names, or none. Refuses those in the store's own directories.
    pub fn name(&self, claim_owner: ClaimOwner, drafts: &[CommitEntry]) -> Result<()> {
        drafts.iter().try_for_each(|entry| refuse_reserved(&entry.path))?;
        for attempt in 1.. {
            let mut references = BTreeSet::new();
            let changes: Result<Vec<_>> =
                drafts.iter().map(|entry| self.change_of(claim_owner, entry, &mut references)).collect();
            match self.commit(claim_owner, changes?, references, Vec::new()) {
                Err(Error::Catalog(catalog::Error::HeadMoved { path, head })) => {
                    let is_append = |entry: &CommitEntry| entry.mode == WriteMode::Append && entry.path == path;
                    if attempt == ATTEMPTS || !drafts.iter().any(is_append) {
                        return Err(catalog::Error::HeadMoved { path, head }.into());
                    }
                }
                done => return done.map(drop),
            }
        }
        unreachable!("the last attempt returns")
    }

    pub(crate) fn change_of(
        &self,
        claim_owner: ClaimOwner,
        entry: &CommitEntry,
        references: &mut BTreeSet<ContainerId>,
    ) -> Result<Change> {
        let CommitEntry { path, attributes, mode, draft } = entry;
        let (path, attributes) = (path.clone(), attributes.clone());
        let known = if *mode == WriteMode::Append { self.catalog.entry(&path)? } else { None };
        references.extend(&draft.references);
        let base = known.as_ref().and_then(FileEntry::head_id);
        let Some(FileEntry { attributes: kept, head: Some(head), .. }) = known else {
            let base = (*mode != WriteMode::Replace).then_some(None);
            return Ok(Change::Write { path, attributes, version: draft.record.clone(), base });
        };
        let (first, second) = (&head.record, &draft.record);
        if let Some(dropped) = DroppedContent::of(first) {
            return Err(self.dropped(&dropped.recipe));
        }
        let built = join(self, claim_owner, (&first.root, first.size), (&second.root, second.size))?;
        references.extend(built.references);
        references.extend(self.references_of(&built.root)?);
        let version = VersionRecord { root: built.root, size: built.length, content: None };
        let attributes = Attributes { times: attributes.times, ..kept };
        Ok(Change::Write { path, attributes, version, base: Some(base) })
    }

    pub(crate) fn references_of(&self, root: &Root) -> Result<BTreeSet<ContainerId>> {
        let mut references = BTreeSet::new();
        collect_runs(self, root, &mut |run| {
            references.insert(run.container);
        })?;
        Ok(references)
    }
}

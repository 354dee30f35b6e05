//! Checks a remote client's commit against the store before it becomes a version: every page is there and is what its
//! parent says, every run has the segments and the bytes that are asked of it, and the sizes agree.
//!
//! A commit that names segments wrongly is refused, and nothing is recorded as damage: the segments may be others' and
//! whole.
//!
//! A version that passes can be read, verified, counted and collected; later readers may trust its numbers.

use std::collections::{BTreeSet, HashMap};

use format::{
    Change, ContainerId, Entry, EntryKind, ErrorCode, Page, Root, Run, SegmentAddress, StorePath, VersionRecord,
};

use crate::tree::child_of;
use crate::upstream::is_near;
use crate::{Error, Repository, Result};

/// A root page that stands in the catalog is small (bytes).
const MAX_INLINE_BYTES: usize = 4096;
/// Every level multiplies by 64 at least.
const MAX_LEVEL: u8 = 16;
/// Content entries of one file, pages that are used twice counted twice: a walk of the tree visits them all.
const MAX_ENTRIES: u64 = 1 << 32;

/// Checks the changes; returns every container that they refer to.
pub(crate) fn admit(repository: &Repository, changes: &[Change]) -> Result<BTreeSet<ContainerId>> {
    let mut admission = Admission { repository, references: BTreeSet::new(), pages: HashMap::new() };
    for change in changes {
        if let Change::Write { path, version, .. } = change {
            admission.version(version).map_err(|error| refused(path, error))?;
        }
        if let Change::Manifest { path, .. } = change {
            let why = "manifests of versions are replaced on the store's own machine alone".to_owned();
            return Err(Error::Refused { code: ErrorCode::NodeRefused, path: path.to_string(), why });
        }
    }
    Ok(admission.references)
}

struct Admission<'a> {
    repository: &'a Repository,
    references: BTreeSet<ContainerId>,
    /// Pages seen, with the content entries below them.
    pages: HashMap<(SegmentAddress, [u8; 32]), u64>,
}

impl Admission<'_> {
    fn version(&mut self, version: &VersionRecord) -> Result<()> {
        match &version.root {
            Root::Inline(bytes) if bytes.len() > MAX_INLINE_BYTES => {
                return Err(mismatch(format!("a root page of {} bytes does not stand in the catalog", bytes.len())));
            }
            Root::Inline(_) => {}
            Root::Stored { address, .. } if self.is_upstream(address.container) => return Ok(()),
            Root::Stored { address, .. } => self.refer(address.container)?,
        }
        let page = self.repository.claimed_root_page(&version.root)?;
        if page.length() != version.size {
            return Err(mismatch(format!(
                "its manifest has {} bytes, and its size is {}",
                page.length(),
                version.size
            )));
        }
        if page.level > MAX_LEVEL {
            return Err(mismatch(format!("a manifest of {} levels", page.level)));
        }
        self.page(&page).map(drop)
    }

    /// Returns the content entries below the page.
    fn page(&mut self, page: &Page) -> Result<u64> {
        let mut entries = 0u64;
        for entry in &page.entries {
            if entry.length == 0 {
                return Err(mismatch("an entry of no bytes".into()));
            }
            entries = entries.saturating_add(self.entry(page, entry)?);
        }
        if entries > MAX_ENTRIES {
            return Err(mismatch(format!("more than {MAX_ENTRIES} entries")));
        }
        Ok(entries)
    }

    fn entry(&mut self, parent: &Page, entry: &Entry) -> Result<u64> {
        match &entry.kind {
            EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => Ok(1),
            EntryKind::Data { run: Run { container, .. }, .. }
            | EntryKind::Page { address: SegmentAddress { container, .. }, .. }
                if self.is_upstream(*container) =>
            {
                Ok(1)
            }
            EntryKind::Data { run, skip, digest } => {
                self.refer(run.container)?;
                let segments = self.repository.claimed_entries(*run, digest)?;
                let bytes: u64 = segments.iter().map(|segment| u64::from(segment.bytes)).sum();
                if u64::from(*skip).saturating_add(entry.length) > bytes {
                    return Err(mismatch(format!("{} bytes after {skip} of a run of {bytes}", entry.length)));
                }
                Ok(1)
            }
            EntryKind::Page { address, digest } => {
                self.refer(address.container)?;
                let child = child_of(parent, entry, *address, self.repository.claimed_page(*address, digest)?)?;
                if let Some(known) = self.pages.get(&(*address, *digest)) {
                    return Ok(*known);
                }
                let entries = self.page(&child)?;
                self.pages.insert((*address, *digest), entries);
                Ok(entries)
            }
        }
    }

    /// What lies in the far store it admits itself.
    fn is_upstream(&self, container: ContainerId) -> bool {
        self.repository.upstream.is_some() && !is_near(container)
    }

    fn refer(&mut self, container: ContainerId) -> Result<()> {
        if self.references.insert(container) && self.repository.local_catalog()?.container(container)?.is_none() {
            return Err(store::Error::NotFound { what: format!("container {container}") }.into());
        }
        Ok(())
    }
}

fn mismatch(why: String) -> Error {
    format::Error::Corrupt { what: "manifest", why }.into()
}

/// An error that the client's own bytes cause is refused; one of the node's disk or catalog stays as it is.
fn refused(path: &StorePath, error: Error) -> Error {
    use store::Error::{Corrupt, Format, NotFound};
    match error {
        Error::Format(_) | Error::Segment(_) | Error::Store(Corrupt { .. } | Format(_) | NotFound { .. }) => {
            Error::Refused {
                code: ErrorCode::DamagedMessage,
                path: path.to_string(),
                why: format!("what is to be committed cannot be read: {error}"),
            }
        }
        error => error,
    }
}

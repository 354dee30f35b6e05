//! Visits the content entries of a range, reading only the pages on the way.

use std::collections::HashSet;
use std::ops::Range;

use format::{Entry, EntryKind, Page, Root, Run, SegmentAddress, page_digest};

use crate::{Error, Repository, Result};

impl Repository {
    /// Returns the root page of a manifest.
    pub(crate) fn root_page(&self, root: &Root) -> Result<Page> {
        match root {
            Root::Inline(bytes) => possible(Page::decode(bytes)?),
            Root::Stored { address, digest } => self.page(*address, digest),
        }
    }

    /// Reads a stored page, checked against the digest its parent holds. Another one in its place is recorded as damage.
    pub(crate) fn page(&self, address: SegmentAddress, digest: &[u8; 32]) -> Result<Page> {
        self.page_of(address, digest)?.ok_or_else(|| {
            self.record_mismatch(Run::single(address));
            other_page(address).into()
        })
    }

    /// [`Repository::root_page`] of a manifest that a client made: what it names wrongly says nothing of the store.
    pub(crate) fn claimed_root_page(&self, root: &Root) -> Result<Page> {
        match root {
            Root::Inline(_) => self.root_page(root),
            Root::Stored { address, digest } => self.claimed_page(*address, digest),
        }
    }

    /// [`Repository::page`] by the name that a client gives.
    pub(crate) fn claimed_page(&self, address: SegmentAddress, digest: &[u8; 32]) -> Result<Page> {
        self.page_of(address, digest)?.ok_or_else(|| other_page(address).into())
    }

    /// Returns the page at an address; none when it is not the one with this digest.
    fn page_of(&self, address: SegmentAddress, digest: &[u8; 32]) -> Result<Option<Page>> {
        if !address.is_possible() {
            let why = "no segment can have this number".to_owned();
            return Err(store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }.into());
        }
        let segments = self.segments(Run::single(address))?;
        if page_digest(&segments[0]) != *digest {
            return Ok(None);
        }
        possible(Page::decode(&segments[0])?).map(Some)
    }
}

fn other_page(address: SegmentAddress) -> store::Error {
    let why = "the page is not the one its parent names".to_owned();
    store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }
}

/// Refuses a page that names impossible places: every walk of a manifest counts on its numbers.
fn possible(page: Page) -> Result<Page> {
    let is_possible = |entry: &Entry| match &entry.kind {
        EntryKind::Data { run, .. } => run.is_possible(),
        EntryKind::Page { address, .. } => address.is_possible(),
        EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => true,
    };
    if !page.entries.iter().all(is_possible) {
        let why = "it names segments that cannot have these numbers".into();
        return Err(format::Error::Corrupt { what: "manifest page", why }.into());
    }
    Ok(page)
}

impl Repository {
    /// Reads the page an entry of `parent` names: one level below, and as long as the entry says.
    pub(crate) fn child(
        &self,
        parent: &Page,
        entry: &Entry,
        address: SegmentAddress,
        digest: &[u8; 32],
    ) -> Result<Page> {
        child_of(parent, entry, address, self.page(address, digest)?)
    }
}

/// Refuses a page that is not what an entry of `parent` says.
pub(crate) fn child_of(parent: &Page, entry: &Entry, address: SegmentAddress, child: Page) -> Result<Page> {
    if child.level.checked_add(1) != Some(parent.level) || child.length() != entry.length {
        let why = "a page of the manifest is not what its parent says".to_owned();
        return Err(store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }.into());
    }
    Ok(child)
}

/// Calls `visit` with the offset and every content entry that overlaps `range`, in order.
pub(crate) fn entries_in(
    repository: &Repository,
    root: &Root,
    range: Range<u64>,
    visit: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    let page = repository.root_page(root)?;
    descend(repository, &page, 0, &range, &mut |offset, entry| visit(offset, entry.map_err(|lost| lost.error)?))
}

/// A page below the root that cannot be read: which entries it has is not known.
pub(crate) struct UnreadablePage {
    /// Bytes of content that it leads to.
    pub length: u64,
    pub error: Error,
}

/// As `entries_in`, for all of the content; a page below the root that cannot be read ends nothing.
pub(crate) fn all_entries(
    repository: &Repository,
    root: &Root,
    visit: &mut dyn FnMut(u64, std::result::Result<Entry, UnreadablePage>) -> Result<()>,
) -> Result<()> {
    let page = repository.root_page(root)?;
    descend(repository, &page, 0, &(0..u64::MAX), visit)
}

fn descend(
    repository: &Repository,
    page: &Page,
    mut offset: u64,
    range: &Range<u64>,
    visit: &mut dyn FnMut(u64, std::result::Result<Entry, UnreadablePage>) -> Result<()>,
) -> Result<()> {
    for entry in &page.entries {
        let end = offset + entry.length;
        if offset >= range.end {
            break;
        }
        if end > range.start {
            match &entry.kind {
                EntryKind::Page { address, digest } => match repository.child(page, entry, *address, digest) {
                    Ok(child) => descend(repository, &child, offset, range, visit)?,
                    Err(error) => visit(offset, Err(UnreadablePage { length: entry.length, error }))?,
                },
                _ => visit(offset, Ok(*entry))?,
            }
        }
        offset = end;
    }
    Ok(())
}

/// Calls `visit` with every run of segments a manifest needs, its own pages included.
pub(crate) fn collect_runs(repository: &Repository, root: &Root, visit: &mut dyn FnMut(Run)) -> Result<()> {
    let page = repository.root_page(root)?;
    if let Root::Stored { address, .. } = root {
        visit(Run::single(*address));
    }
    runs_of(repository, &page, visit)
}

fn runs_of(repository: &Repository, page: &Page, visit: &mut dyn FnMut(Run)) -> Result<()> {
    for entry in &page.entries {
        match &entry.kind {
            EntryKind::Data { run, .. } => visit(*run),
            EntryKind::Page { address, digest } => {
                let child = repository.child(page, entry, *address, digest)?;
                visit(Run::single(*address));
                runs_of(repository, &child, visit)?;
            }
            EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => {}
        }
    }
    Ok(())
}

/// Pages whose runs, with all below them, were visited.
pub(crate) type PageSet = HashSet<(SegmentAddress, [u8; 32])>;

/// As `collect_runs`, without what lies below pages that were visited before: snapshots share most of theirs. Says with
/// each run whether it is a page.
pub(crate) fn collect_new_runs(
    repository: &Repository,
    root: &Root,
    walked: &mut PageSet,
    visit: &mut dyn FnMut(Run, bool),
) -> Result<()> {
    let Root::Stored { address, digest } = root else {
        return new_runs_of(repository, &repository.root_page(root)?, walked, visit);
    };
    if walked.contains(&(*address, *digest)) {
        return Ok(());
    }
    let page = repository.root_page(root)?;
    visit(Run::single(*address), true);
    new_runs_of(repository, &page, walked, visit)?;
    walked.insert((*address, *digest));
    Ok(())
}

fn new_runs_of(
    repository: &Repository,
    page: &Page,
    walked: &mut PageSet,
    visit: &mut dyn FnMut(Run, bool),
) -> Result<()> {
    for entry in &page.entries {
        match &entry.kind {
            EntryKind::Data { run, .. } => visit(*run, false),
            EntryKind::Page { address, digest } if !walked.contains(&(*address, *digest)) => {
                let child = repository.child(page, entry, *address, digest)?;
                visit(Run::single(*address), true);
                new_runs_of(repository, &child, walked, visit)?;
                walked.insert((*address, *digest));
            }
            EntryKind::Page { .. } | EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => {}
        }
    }
    Ok(())
}

/// Whether the page's entries are pages of level 0.
pub(crate) fn is_leaf_of_pages(page: &Page) -> bool {
    page.level == 1
}

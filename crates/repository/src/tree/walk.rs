//! Visits the content entries of a range, reading only the pages on the way.

use std::collections::HashSet;
use std::ops::Range;

use format::{Entry, EntryKind, Page, Root, Run, SegmentAddress, page_digest};

use crate::{Repository, Result};

impl Repository {
    /// Returns the root page of a manifest.
    pub(crate) fn root_page(&self, root: &Root) -> Result<Page> {
        match root {
            Root::Inline(bytes) => possible(Page::decode(bytes)?),
            Root::Stored { address, digest } => self.page(*address, digest),
        }
    }

    /// Reads a stored page, checked against the digest its parent holds.
    pub(crate) fn page(&self, address: SegmentAddress, digest: &[u8; 32]) -> Result<Page> {
        if !address.is_possible() {
            let why = "no segment can have this number".to_owned();
            return Err(store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }.into());
        }
        let segments = self.segments(Run::single(address))?;
        if page_digest(&segments[0]) != *digest {
            self.record_mismatch(Run::single(address));
            let why = "the page is not the one its parent names".to_owned();
            return Err(store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }.into());
        }
        possible(Page::decode(&segments[0])?)
    }
}

/// Refuses a page that names impossible places: every walk of a manifest counts on its numbers.
fn possible(page: Page) -> Result<Page> {
    let is_possible = |entry: &Entry| match &entry.kind {
        EntryKind::Data { run, .. } => run.is_possible(),
        EntryKind::Page { address, .. } => address.is_possible(),
        EntryKind::Zero | EntryKind::Hole => true,
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
        let child = self.page(address, digest)?;
        if child.level.checked_add(1) != Some(parent.level) || child.length() != entry.length {
            let why = "a page of the manifest is not what its parent says".to_owned();
            return Err(store::Error::Corrupt { path: format!("manifest page {address}"), offset: 0, why }.into());
        }
        Ok(child)
    }
}

/// Calls `visit` with the offset and every content entry that overlaps `range`, in order.
pub(crate) fn entries_in(
    repository: &Repository,
    root: &Root,
    range: Range<u64>,
    visit: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    let page = repository.root_page(root)?;
    descend(repository, &page, 0, &range, visit)
}

fn descend(
    repository: &Repository,
    page: &Page,
    mut offset: u64,
    range: &Range<u64>,
    visit: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    for entry in &page.entries {
        let end = offset + entry.length;
        if offset >= range.end {
            break;
        }
        if end > range.start {
            match &entry.kind {
                EntryKind::Page { address, digest } => {
                    let child = repository.child(page, entry, *address, digest)?;
                    descend(repository, &child, offset, range, visit)?;
                }
                _ => visit(offset, *entry)?,
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
            EntryKind::Zero | EntryKind::Hole => {}
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
            EntryKind::Page { .. } | EntryKind::Zero | EntryKind::Hole => {}
        }
    }
    Ok(())
}

/// Whether the page's entries are pages of level 0.
pub(crate) fn is_leaf_of_pages(page: &Page) -> bool {
    page.level == 1
}

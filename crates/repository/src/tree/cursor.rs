//! A walk along a file's content, stretch by stretch, each given as a manifest of its own.

use format::{Entry, EntryKind, Page, Root};

use super::narrow;
use crate::{Repository, Result};

/// A place in a file, which moves on.
pub(crate) struct Cursor<'a> {
    repository: &'a Repository,
    /// Pages from the root down, each with the entry to go on with.
    pages: Vec<(Page, usize)>,
    /// Bytes of the present content entry that lie behind.
    behind: u64,
}

impl<'a> Cursor<'a> {
    pub fn at_start(repository: &'a Repository, root: &Root) -> Result<Self> {
        Ok(Cursor { repository, pages: vec![(repository.root_page(root)?, 0)], behind: 0 })
    }

    /// Passes over so many bytes.
    pub fn skip(&mut self, length: u64) -> Result<()> {
        self.advance(length, &mut |_, _| Ok(()), false)
    }

    /// Returns the next so many bytes as a file of their own, whose root page stands in memory alone.
    pub fn take(&mut self, length: u64) -> Result<Root> {
        let (mut pages, mut content) = (Vec::new(), Vec::new());
        let repository = self.repository;
        self.advance(
            length,
            &mut |entry, is_page| {
                match is_page {
                    true if content.is_empty() => pages.push(entry),
                    true => content_of(repository, entry, &mut content)?,
                    false => content.push(entry),
                }
                Ok(())
            },
            true,
        )?;
        if content.is_empty() && !pages.is_empty() {
            return Ok(Root::Inline(Page { level: 1, entries: pages }.encode()));
        }
        // Pages that others' content follows are taken apart.
        let mut entries = Vec::new();
        pages.into_iter().try_for_each(|page| content_of(repository, page, &mut entries))?;
        entries.extend(content);
        Ok(Root::Inline(Page { level: 0, entries }.encode()))
    }

    /// Hands over the pages of level 0 that lie in the range as a whole (with `true`), and content entries.
    fn advance(&mut self, length: u64, take: &mut dyn FnMut(Entry, bool) -> Result<()>, is_exact: bool) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let Some((page, at)) = self.pages.last_mut() else { return Err(ended(left)) };
            let Some(entry) = page.entries.get(*at).copied() else {
                self.pages.pop();
                continue;
            };
            let rest = entry.length - self.behind;
            let EntryKind::Page { address, digest } = entry.kind else {
                let count = rest.min(left);
                if is_exact {
                    take(narrow(self.repository, entry, self.behind, count)?, false)?;
                }
                left -= count;
                self.behind += count;
                if self.behind == entry.length {
                    (*at, self.behind) = (*at + 1, 0);
                }
                continue;
            };
            *at += 1;
            if rest <= left && (!is_exact || page.level == 1) {
                take(entry, true)?;
                left -= rest;
                continue;
            }
            let child = self.repository.child(page, &entry, address, &digest)?;
            self.pages.push((child, 0));
        }
        Ok(())
    }
}

fn content_of(repository: &Repository, page: Entry, content: &mut Vec<Entry>) -> Result<()> {
    if let EntryKind::Page { address, digest } = page.kind {
        content.extend(repository.page(address, &digest)?.entries);
    }
    Ok(())
}

fn ended(left: u64) -> crate::Error {
    let why = format!("it ends {left} bytes before the file does");
    format::Error::Corrupt { what: "manifest", why }.into()
}

//! A store's tree as it is, was, or stands in a snapshot.

use std::collections::VecDeque;

use anyhow::Context;
use catalog::FileEntry;
use format::{ErrorCode, StorePath};
use repository::{Repository, SnapshotEntries, TreeSnapshot};

use crate::commands::list;
use crate::error_code::Coded;
use crate::location::Location;
use crate::moment::{self, CutoffTime};
use crate::snapshots::choose;

/// Names asked of the catalog at a time.
const LISTED_AT_ONCE: usize = 4096;

/// Which state of the tree a command reads.
#[derive(clap::Args)]
pub struct ViewArguments {
    /// Files as they were then: 2026-11-21, 2026-11-21T02:10:07Z (UTC), or 12h for 12 hours ago; names are those of today
    #[arg(long, value_name = "TIME", conflicts_with = "snapshot")]
    at: Option<CutoffTime>,
    /// As the snapshot of this name has it, `latest`: the newest of the place (`thalweg snapshots` lists them)
    #[arg(long, value_name = "ID")]
    snapshot: Option<String>,
}

impl ViewArguments {
    /// Returns the tree in which the place is read.
    pub fn open<'a>(&self, repository: &'a Repository, path: &StorePath) -> anyhow::Result<TreeView<'a>> {
        TreeView::of_snapshot(repository, self.snapshot.as_deref(), path, self.at)
    }
}

pub struct TreeView<'a> {
    repository: &'a Repository,
    state: State,
}

enum State {
    Present,
    At(CutoffTime),
    Snapshot(Box<TreeSnapshot>),
}

impl<'a> TreeView<'a> {
    pub fn of_time(repository: &'a Repository, at: Option<CutoffTime>) -> Self {
        TreeView { repository, state: at.map_or(State::Present, State::At) }
    }

    /// Takes the snapshot of this name, or the newest that has any of the place; without one, the time.
    pub fn of_snapshot(
        repository: &'a Repository,
        wanted: Option<&str>,
        path: &StorePath,
        at: Option<CutoffTime>,
    ) -> anyhow::Result<Self> {
        let Some(wanted) = wanted else { return Ok(Self::of_time(repository, at)) };
        let state = State::Snapshot(Box::new(choose(repository, wanted, path)?));
        Ok(TreeView { repository, state })
    }

    /// Whether it is the tree as it is, whose listing has all there is to know.
    pub fn is_present(&self) -> bool {
        matches!(self.state, State::Present)
    }

    pub fn is_snapshot(&self) -> bool {
        matches!(self.state, State::Snapshot(_))
    }

    pub fn entry(&self, path: &StorePath) -> anyhow::Result<Option<FileEntry>> {
        let catalog = self.repository.catalog();
        Ok(match &self.state {
            State::Present => catalog.entry(path)?,
            State::At(at) => match catalog.entry(path)? {
                Some(entry) => at.entry(catalog, path, entry)?,
                None => None,
            },
            State::Snapshot(snapshot) => snapshot.entry(self.repository, path)?,
        })
    }

    /// Hands over what lies in a directory, or all below it, in byte order, a batch at a time.
    pub fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        mut take: impl FnMut(Vec<(StorePath, FileEntry)>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let catalog = self.repository.catalog();
        match &self.state {
            State::Present => list(catalog, directory, recursive, take),
            State::At(at) => list(catalog, directory, recursive, |listed| {
                let then = listed.into_iter().filter_map(|(path, entry)| {
                    let entry = at.entry(catalog, &path, entry).transpose()?;
                    Some(entry.map(|entry| (path, entry)))
                });
                take(then.collect::<Result<_, _>>()?)
            }),
            State::Snapshot(snapshot) => snapshot.list(self.repository, directory, recursive, take),
        }
    }

    /// Returns what is at the place, or says why there is nothing.
    pub fn expect(&self, location: &Location) -> anyhow::Result<FileEntry> {
        let missing = || match &self.state {
            State::Snapshot(snapshot) => {
                Coded::new(ErrorCode::NotInSnapshot, format!("{location}: is not in snapshot {}", snapshot.id))
            }
            _ => Coded::new(ErrorCode::NoSuchPath, format!("{location}: no such file or directory in the store")),
        };
        match &self.state {
            State::At(_) => {
                self.repository.catalog().entry(&location.path)?.with_context(missing)?;
                moment::expect(self.entry(&location.path)?, location)
            }
            _ => self.entry(&location.path)?.with_context(missing),
        }
    }

    /// Returns what lies below a directory, to be asked for name by name.
    pub fn below<'b>(&'b self, directory: &'b StorePath) -> anyhow::Result<Below<'b>> {
        let entries = match &self.state {
            State::Snapshot(snapshot) => Some(snapshot.entries(self.repository)?),
            _ => None,
        };
        Ok(Below { view: self, directory, entries, after: None, listed: VecDeque::new(), is_last: false })
    }
}

/// The names below a directory, in byte order.
pub struct Below<'a> {
    view: &'a TreeView<'a>,
    directory: &'a StorePath,
    /// Of a snapshot; without, the catalog is asked.
    entries: Option<SnapshotEntries<'a>>,
    after: Option<StorePath>,
    listed: VecDeque<(StorePath, FileEntry)>,
    is_last: bool,
}

impl Below<'_> {
    /// Returns the next path, from the directory on, with its entry.
    pub fn next(&mut self) -> anyhow::Result<Option<(Vec<u8>, FileEntry)>> {
        let directory = self.directory;
        let named = |(path, entry): (StorePath, FileEntry)| (path.below(directory).map(<[u8]>::to_vec), entry);
        let next = match &mut self.entries {
            Some(entries) => entries.next(|path| path.below(directory).is_some_and(|rest| !rest.is_empty()))?,
            None => self.next_listed()?,
        };
        let Some((path, entry)) = next.map(named) else { return Ok(None) };
        Ok(Some((
            path.with_context(|| {
                Coded::new(ErrorCode::DamagedMessage, format!("what was listed is not below {directory}"))
            })?,
            entry,
        )))
    }

    fn next_listed(&mut self) -> anyhow::Result<Option<(StorePath, FileEntry)>> {
        let catalog = self.view.repository.catalog();
        loop {
            while let Some((path, entry)) = self.listed.pop_front() {
                if repository::is_reserved(&path) {
                    continue;
                }
                let entry = match self.view.state {
                    State::At(at) => at.entry(catalog, &path, entry)?,
                    _ => Some(entry),
                };
                if let Some(entry) = entry {
                    return Ok(Some((path, entry)));
                }
            }
            if self.is_last {
                return Ok(None);
            }
            let listed = catalog.list(self.directory, true, self.after.as_ref(), LISTED_AT_ONCE)?;
            self.is_last = listed.len() < LISTED_AT_ONCE;
            self.after = listed.last().map(|(path, _)| path.clone());
            self.listed = listed.into();
        }
    }
}

//! A store's tree as it is, was, or stands in a snapshot.

use anyhow::{Context, bail};
use catalog::FileEntry;
use format::StorePath;
use repository::{Repository, TreeSnapshot};

use crate::commands::list;
use crate::moment::CutoffTime;
use crate::shown;

/// Names the newest snapshot of a place.
const LATEST: &str = "latest";

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
}

/// Returns the snapshot whose name begins so, if there is only one, or the newest that has any of the place.
pub fn choose(repository: &Repository, wanted: &str, path: &StorePath) -> anyhow::Result<TreeSnapshot> {
    let mut snapshots = repository.snapshots()?;
    if wanted == LATEST {
        let newest = snapshots.into_iter().rfind(|snapshot| concerns(snapshot, path));
        return newest.with_context(|| format!("no snapshot has {}", shown::path(path)));
    }
    snapshots.retain(|snapshot| snapshot.id.starts_with(wanted));
    match snapshots.len() {
        1 => Ok(snapshots.remove(0)),
        0 => bail!("there is no snapshot {wanted}; `thalweg snapshots` lists them"),
        count => bail!("{count} snapshots have names that begin with {wanted}; write more of it"),
    }
}

/// Whether the snapshot has some of what lies at the path, above or below.
pub fn concerns(snapshot: &TreeSnapshot, path: &StorePath) -> bool {
    let mut targets = snapshot.facts.sources.iter().map(|(_, target)| target);
    targets.any(|target| target.is_within(path) || path.is_within(target))
}

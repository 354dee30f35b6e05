//! The listing: makes directories as the store names them and hands out the files in between.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use anyhow::Context;
use catalog::FileEntry;
use format::{Attributes, ErrorCode, FileId, FileKind, StorePath};

use super::Selection;
use super::destination::{self, Destination, explained};
use super::file::NameState;
use super::filter::Filter;
use super::leftovers;
use super::report::{Fault, Report};
use crate::error_code::{self, Coded};
use crate::shown;
use crate::tree_view::TreeView;

/// Files handed to a worker at a time, fewer when they have many bytes: the others have work, too.
const FILES_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: u64 = 4 << 20;

/// Files of one directory, for one worker, in the order of their names: neighbours share blocks.
pub struct Unit {
    /// Below the destination.
    pub directory: PathBuf,
    pub files: Vec<(CString, FileEntry)>,
    bytes: u64,
}

impl Unit {
    fn new(directory: &Path) -> Self {
        Unit { directory: directory.to_owned(), files: Vec::new(), bytes: 0 }
    }

    fn takes_one_more_of(&self, directory: &Path) -> bool {
        self.directory == directory && self.files.len() < FILES_AT_ONCE && self.bytes < BYTES_AT_ONCE
    }

    fn add(&mut self, name: CString, entry: FileEntry) {
        self.bytes = self.bytes.saturating_add(entry.head.as_ref().map_or(0, |head| head.record.size));
        self.files.push((name, entry));
    }
}

/// The work left when all files are there; all paths are below the destination.
#[derive(Default)]
pub struct MadeDirectories {
    pub directories: Vec<(PathBuf, Attributes)>,
    /// An existing name, and the one to make.
    pub links: Vec<(PathBuf, PathBuf)>,
}

pub struct Listing<'a> {
    view: &'a TreeView<'a>,
    destination: &'a Destination,
    units: SyncSender<Unit>,
    report: &'a Report<'a>,
    filter: &'a Filter,
    /// Directories that are made when something in them is fetched.
    pending: HashMap<PathBuf, Attributes>,
    made: MadeDirectories,
    dry_run: bool,
    /// Files with several names, under the first.
    first: HashMap<FileId, PathBuf>,
    /// Directories that could not be made or entered: nothing below them is fetched.
    refused: HashSet<PathBuf>,
    open: Option<Unit>,
}

impl<'a> Listing<'a> {
    pub fn new(
        view: &'a TreeView<'a>,
        destination: &'a Destination,
        units: SyncSender<Unit>,
        report: &'a Report<'a>,
        (filter, dry_run): (&'a Filter, bool),
    ) -> Self {
        let (made, first, refused) = (MadeDirectories::default(), HashMap::new(), HashSet::new());
        let pending = HashMap::new();
        Listing { view, destination, units, report, filter, pending, made, dry_run, first, refused, open: None }
    }

    /// Returns when all is handed out.
    pub fn run(mut self, wanted: &[Selection]) -> anyhow::Result<MadeDirectories> {
        for wanted in wanted {
            if wanted.entry.attributes.kind != FileKind::Directory {
                self.remove_leftovers(wanted.to.parent().unwrap_or(Path::new("")));
            }
            if wanted.entry.attributes.kind != FileKind::Directory {
                self.name(wanted.to.clone(), wanted.entry.clone())?;
                continue;
            }
            match self.filter.include.is_empty() {
                true => self.name(wanted.to.clone(), wanted.entry.clone())?,
                false => drop(self.pending.insert(wanted.to.clone(), wanted.entry.attributes.clone())),
            }
            self.tree(wanted)?;
        }
        self.hand_out()?;
        Ok(self.made)
    }

    fn tree(&mut self, wanted: &Selection) -> anyhow::Result<()> {
        let view = self.view;
        view.list(&wanted.path, true, |entries| {
            entries.into_iter().try_for_each(|(path, entry)| self.choose(below(&path, wanted)?, &path, wanted, entry))
        })
    }

    /// A directory that is not chosen may hold what is.
    fn choose(&mut self, to: PathBuf, path: &StorePath, wanted: &Selection, entry: FileEntry) -> anyhow::Result<()> {
        let is_directory = entry.attributes.kind == FileKind::Directory;
        if self.filter.takes(path.below(&wanted.path).unwrap_or_default(), is_directory) {
            self.make_above(&to)?;
            return self.name(to, entry);
        }
        match is_directory {
            true => drop(self.pending.insert(to, entry.attributes)),
            false => self.report.count(|summary| summary.excluded += 1),
        }
        Ok(())
    }

    /// Makes those of the pending directories that `to` lies in, from above.
    fn make_above(&mut self, to: &Path) -> anyhow::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let above: Vec<_> = to.ancestors().skip(1).filter_map(|above| self.pending.remove_entry(above)).collect();
        for (path, attributes) in above.into_iter().rev() {
            let entry = FileEntry { file: FileId::default(), attributes, head: None, links: 1 };
            self.name(path, entry)?;
        }
        Ok(())
    }

    fn name(&mut self, to: PathBuf, entry: FileEntry) -> anyhow::Result<()> {
        if self.report.interruption.has_come() {
            return Ok(());
        }
        if !self.refused.is_empty() && to.ancestors().any(|above| self.refused.contains(above)) {
            return Ok(());
        }
        if entry.attributes.kind == FileKind::Directory {
            self.directory(to, entry.attributes);
            return Ok(());
        }
        if entry.links > 1 {
            if let Some(first) = self.first.get(&entry.file) {
                self.made.links.push((first.clone(), to));
                return Ok(());
            }
            self.first.insert(entry.file, to.clone());
        }
        self.file(&to, entry)
    }

    fn file(&mut self, to: &Path, entry: FileEntry) -> anyhow::Result<()> {
        let name = to.file_name().and_then(|name| CString::new(name.as_bytes()).ok());
        let name = name.with_context(|| {
            Coded::new(ErrorCode::InvalidName, format!("{}: not a name a file can have", shown::local(to)))
        })?;
        let directory = to.parent().unwrap_or(Path::new(""));
        if self.open.as_ref().is_some_and(|unit| !unit.takes_one_more_of(directory)) {
            self.hand_out()?;
        }
        self.open.get_or_insert_with(|| Unit::new(directory)).add(name, entry);
        Ok(())
    }

    fn hand_out(&mut self) -> anyhow::Result<()> {
        match self.open.take() {
            Some(unit) => self.units.send(unit).map_err(|_| anyhow::anyhow!("the workers stopped")),
            None => Ok(()),
        }
    }

    fn directory(&mut self, to: PathBuf, attributes: Attributes) {
        let made = match self.dry_run {
            true => self.destination.would_make_directory(&to),
            false => self.destination.make_directory(&to),
        };
        match made {
            Ok(made) => {
                match made {
                    destination::MadeDirectories::Before => self.remove_leftovers(&to),
                    destination::MadeDirectories::New => {
                        self.report.list(&self.destination.path(&to), NameState::New, None)
                    }
                }
                self.report.count(|summary| summary.directories += 1);
                self.made.directories.push((to, attributes));
            }
            Err(error) => {
                let why = format!("{}; nothing below it was fetched", explained(error));
                self.report.lost(&self.destination.path(&to), (why, error_code::of_errno(error)), Fault::Here);
                self.refused.insert(to);
            }
        }
    }

    fn remove_leftovers(&self, directory: &Path) {
        if self.dry_run {
            return;
        }
        if let Ok(opened) = self.destination.directory(directory) {
            leftovers::remove(&opened);
        }
    }
}

/// Returns where a listed name goes. A node that lists what was not asked for is not followed there.
fn below(path: &StorePath, wanted: &Selection) -> anyhow::Result<PathBuf> {
    let rest = path.below(&wanted.path).filter(|rest| !rest.is_empty());
    let rest = rest.with_context(|| {
        let why = format!("{path}: was listed below {}, where it does not lie", wanted.path);
        Coded::new(ErrorCode::DamagedMessage, why)
    })?;
    Ok(wanted.to.join(OsStr::from_bytes(rest)))
}

#[cfg(test)]
mod tests {
    use catalog::Version;
    use format::{Root, VersionRecord};

    use super::*;

    fn entry(size: u64) -> FileEntry {
        let record = VersionRecord { root: Root::Inline(Vec::new()), size, content: None };
        let head = Version { number: 1, committed_ns: 0, record, attributes: None };
        FileEntry { file: FileId(1), attributes: Attributes::default(), head: Some(head), links: 1 }
    }

    #[test]
    fn a_unit_of_large_files_has_few_of_them() {
        let taken = |bytes: u64| {
            let mut unit = Unit::new(Path::new("d"));
            while unit.takes_one_more_of(Path::new("d")) {
                unit.add(c"f".to_owned(), entry(bytes));
            }
            unit.files.len()
        };
        assert_eq!((taken(1 << 30), taken(1 << 20), taken(100)), (1, 4, FILES_AT_ONCE));
        assert!(!Unit::new(Path::new("d")).takes_one_more_of(Path::new("e")));
    }
}

//! The listing: makes directories as the store names them and hands out the files in between.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use catalog::{Catalog, FileEntry};
use format::{Attributes, FileId, FileKind, StorePath};

use super::Wanted;
use super::report::Report;
use crate::commands::list;

/// Files handed to a worker at a time.
const FILES_AT_ONCE: usize = 64;

/// Files of one directory, for one worker, in the order of their names: neighbours share blocks.
pub struct Unit {
    pub directory: PathBuf,
    pub files: Vec<(CString, FileEntry)>,
}

/// What is left to do when all files are there.
#[derive(Default)]
pub struct Made {
    pub directories: Vec<(PathBuf, Attributes)>,
    /// An existing name, and the one to make.
    pub links: Vec<(PathBuf, PathBuf)>,
}

pub struct Listing<'a> {
    catalog: &'a dyn Catalog,
    units: SyncSender<Unit>,
    report: &'a Report<'a>,
    made: Made,
    /// Files with several names, under the first.
    first: HashMap<FileId, PathBuf>,
    open: Option<Unit>,
}

impl<'a> Listing<'a> {
    pub fn new(catalog: &'a dyn Catalog, units: SyncSender<Unit>, report: &'a Report<'a>) -> Self {
        Listing { catalog, units, report, made: Made::default(), first: HashMap::new(), open: None }
    }

    /// Returns when all is handed out.
    pub fn run(mut self, wanted: &[Wanted]) -> anyhow::Result<Made> {
        for wanted in wanted {
            self.name(wanted.to.clone(), wanted.entry.clone())?;
            if wanted.entry.attributes.kind == FileKind::Directory {
                self.tree(wanted)?;
            }
        }
        self.hand_out()?;
        Ok(self.made)
    }

    fn tree(&mut self, wanted: &Wanted) -> anyhow::Result<()> {
        list(self.catalog, &wanted.path, true, |entries| {
            entries.into_iter().try_for_each(|(path, entry)| self.name(below(&path, wanted), entry))
        })
    }

    fn name(&mut self, to: PathBuf, entry: FileEntry) -> anyhow::Result<()> {
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
        let name = to.file_name().expect("what is fetched has a name");
        let name = CString::new(name.as_bytes()).expect("names of stores hold no NUL");
        let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let fits =
            self.open.as_ref().is_some_and(|unit| unit.directory == directory && unit.files.len() < FILES_AT_ONCE);
        if !fits {
            self.hand_out()?;
        }
        let unit = self.open.get_or_insert_with(|| Unit { directory: directory.to_owned(), files: Vec::new() });
        unit.files.push((name, entry));
        Ok(())
    }

    fn hand_out(&mut self) -> anyhow::Result<()> {
        match self.open.take() {
            Some(unit) => self.units.send(unit).map_err(|_| anyhow::anyhow!("the workers stopped")),
            None => Ok(()),
        }
    }

    /// Ours alone until its attributes are set at the end.
    fn directory(&mut self, to: PathBuf, attributes: Attributes) {
        match make_directory(&to) {
            Ok(()) => {
                self.report.count(|summary| summary.directories += 1);
                self.made.directories.push((to, attributes));
            }
            Err(error) => self.report.lost(&to, error),
        }
    }
}

fn below(path: &StorePath, wanted: &Wanted) -> PathBuf {
    let rest = path.below(&wanted.path).expect("a listing stays below its directory");
    wanted.to.join(OsStr::from_bytes(rest))
}

/// One that is there already will do, but not a link to one: that could lead anywhere.
fn make_directory(path: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.symlink_metadata()?.is_dir() => Ok(()),
        made => made,
    }
}

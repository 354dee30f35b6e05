//! The walk: lists directories, here and in the store, and hands out what lies in them.
//!
//! It stats directories only; files are the workers'. Directories are held open while their files are under
//! way, so that nothing outside the tree can be slipped in by renaming.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use catalog::{FileEntry, Names};
use format::{Change, ErrorCode, FileKind, StorePath};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::excluding::{CACHE_TAG, Exclusions, is_cache_tag};
use super::observed;
use super::outcome::{Known, Outcome, Ready};
use super::queue::Sender;
use super::replacing::{Replacement, Replacing, refused};
use super::{Options, Source};
use crate::commands::list;
use crate::error_code;
use crate::failed_name::FailedName;
use crate::signals::Interruption;

/// Names handed to a worker at a time.
const NAMES_AT_ONCE: usize = 64;
const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Enough to open entries in it by name, also without the right to list it.
const PASS_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A local directory and its twin in the store.
pub struct Directory {
    pub opened: OwnedFd,
    pub path: PathBuf,
}

/// Names of one directory, for one worker.
pub struct Unit {
    pub directory: Arc<Directory>,
    pub names: Vec<Name>,
}

impl Unit {
    /// Takes the later half of the names off; none of a single name.
    pub fn split_half(&mut self) -> Option<Unit> {
        let later = self.names.split_off(self.names.len().div_ceil(2));
        (!later.is_empty()).then(|| Unit { directory: self.directory.clone(), names: later })
    }
}

pub struct Name {
    pub name: CString,
    pub target: StorePath,
    pub file_type: FileType,
    /// The store's entry under it.
    pub known: Option<FileEntry>,
}

/// A directory still to be walked.
struct Pending {
    parent: Option<Arc<Directory>>,
    /// Below the parent, or from the working directory.
    name: CString,
    path: PathBuf,
    target: StorePath,
    known: Option<FileEntry>,
}

pub struct Walk<'a> {
    catalog: &'a dyn Names,
    units: Sender<'a>,
    outcomes: SyncSender<Vec<Outcome>>,
    avoid: &'a HashSet<(u64, u64)>,
    exclusions: &'a Exclusions,
    interruption: &'a Interruption,
    replacing: &'a Replacing<'a>,
    pending: Vec<Pending>,
    /// Of the source that is walked.
    root: StorePath,
    /// The one file system to stay on, from the source's directory on.
    device: Option<u64>,
}

/// The other end of a queue is gone: the run is over.
struct QueueClosed;

type Step = Result<(), QueueClosed>;

impl<'a> Walk<'a> {
    pub fn new(
        catalog: &'a dyn Names,
        units: Sender<'a>,
        outcomes: SyncSender<Vec<Outcome>>,
        options: &'a Options,
        replacing: &'a Replacing<'a>,
    ) -> Self {
        let Options { avoid, exclusions, interruption, .. } = options;
        let (pending, root) = (Vec::new(), StorePath::root());
        Walk { catalog, units, outcomes, avoid, exclusions, interruption, replacing, pending, root, device: None }
    }

    /// Walks all sources, or until the run is over.
    pub fn run(mut self, sources: Vec<Source>) {
        let _: Step = sources.into_iter().try_for_each(|source| {
            self.source(source)?;
            while let Some(pending) = self.pending.pop() {
                if self.interruption.has_come() {
                    return Err(QueueClosed);
                }
                self.directory(pending)?;
            }
            Ok(())
        });
    }

    fn source(&mut self, source: Source) -> Step {
        let Source { from, target } = source;
        self.root = target.clone();
        self.device = None;
        let stat = match rustix::fs::statat(CWD, &from, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return self.left(from, &target, error),
        };
        let known = match self.catalog.entry(&target) {
            Ok(known) => known,
            Err(error) => return self.send(Outcome::Failed(error.into())),
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if file_type == FileType::Directory {
            self.pending.push(Pending { parent: None, name: c_string(from.as_os_str()), path: from, target, known });
            return Ok(());
        }
        let directory = from.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let opened = match rustix::fs::open(directory, PASS_DIRECTORY, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) => return self.left(directory.to_owned(), &target, error),
        };
        let name = from.file_name().expect("what is no directory has a name");
        let names = vec![Name { name: c_string(name), target, file_type, known }];
        // Shown as it was written.
        let path = if directory == Path::new(".") { PathBuf::new() } else { directory.to_owned() };
        self.hand_out(Arc::new(Directory { opened, path }), names)
    }

    fn directory(&mut self, pending: Pending) -> Step {
        let opened = match &pending.parent {
            Some(parent) => {
                rustix::fs::openat(&parent.opened, &pending.name, OPEN_DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
            }
            None => rustix::fs::openat(CWD, &pending.name, OPEN_DIRECTORY, Mode::empty()),
        };
        match opened.and_then(|opened| Ok((rustix::fs::fstat(&opened)?, opened))) {
            Ok((stat, _)) if self.avoid.contains(&(stat.st_dev, stat.st_ino)) => {
                self.send(Outcome::Skipped { path: pending.path, what: "the store itself" })
            }
            Ok((stat, opened)) => self.opened(pending, stat, opened),
            Err(error) => self.left(pending.path, &pending.target, error),
        }
    }

    fn opened(&mut self, pending: Pending, stat: rustix::fs::Stat, opened: OwnedFd) -> Step {
        let Pending { path, target, known, .. } = pending;
        let is_known = known.as_ref().is_some_and(|known| known.attributes.kind == FileKind::Directory);
        let replaces = known.as_ref().filter(|known| known.attributes.kind != FileKind::Directory);
        if let Some(known) = replaces
            && !self.may_replace(&path, &target, known)?
        {
            return Ok(());
        }
        // Its own change comes before those of its entries.
        self.send(made(&stat, &opened, &path, &target, known.as_ref()))?;
        if self.exclusions.one_file_system && *self.device.get_or_insert(stat.st_dev) != stat.st_dev {
            return self.send(Outcome::Excluded { path: target });
        }
        let children = match is_known.then(|| self.known_children(&target)).transpose() {
            Ok(children) => children.unwrap_or_default(),
            Err(error) => return self.send(Outcome::Failed(error)),
        };
        let mut entries = match entries(&opened) {
            Ok(entries) => entries,
            Err(error) => return self.left(path, &target, error),
        };
        self.keep_tag_alone(&opened, &target, &mut entries)?;
        self.sort_out(Arc::new(Directory { opened, path }), &target, entries, children)
    }

    /// Whether a directory takes the place of something else: if not, that is printed.
    fn may_replace(&self, path: &Path, target: &StorePath, known: &FileEntry) -> Result<bool, QueueClosed> {
        match self.replacing.judge(target, known, Some(FileKind::Directory)) {
            Ok(Replacement::Remove { dropped: None } | Replacement::Append) => Ok(true),
            Ok(Replacement::Remove { dropped: Some(what) }) => {
                self.send(Outcome::Dropped { path: path.to_owned(), what }).map(|()| true)
            }
            Ok(Replacement::Refused { what }) => {
                let failed = FailedName { path: path.to_owned(), why: refused(&what), code: ErrorCode::NameTaken };
                self.send(Outcome::Left { failed, target: Some(target.clone()) }).map(|()| false)
            }
            Err(error) => self.send(Outcome::Failed(error.into())).map(|()| false),
        }
    }

    fn is_excluded(&self, directory: &Directory, name: &CString, target: &StorePath, file_type: FileType) -> bool {
        let below = target.below(&self.root).unwrap_or_default();
        self.exclusions.has_pattern_for(below, file_type == FileType::Directory)
            || (file_type != FileType::Directory && self.is_of_another_device(directory, name))
    }

    /// A file may be a mount point, too. One that cannot be asked is left to the workers.
    fn is_of_another_device(&self, directory: &Directory, name: &CString) -> bool {
        let Some(device) = self.device else { return false };
        let stat = rustix::fs::statat(&directory.opened, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_dev != device)
    }

    /// Keeps of a cache its tag alone, so that it is a cache again when fetched.
    fn keep_tag_alone(&self, opened: &OwnedFd, target: &StorePath, entries: &mut Vec<(CString, FileType)>) -> Step {
        let is_tag = |(name, _): &(CString, FileType)| name.as_bytes() == CACHE_TAG.as_bytes();
        if !self.exclusions.caches || !entries.iter().any(is_tag) || !is_cache_tag(opened, CACHE_TAG) {
            return Ok(());
        }
        let (tag, rest) = std::mem::take(entries).into_iter().partition(is_tag);
        *entries = tag;
        // A name that is too long for a store is not put otherwise, either.
        let mut paths = rest.into_iter().filter_map(|(name, _): (CString, _)| target.join(name.as_bytes()).ok());
        paths.try_for_each(|path| self.send(Outcome::Excluded { path }))
    }

    /// Files to the workers, in order; directories onto the pile, the first on top.
    fn sort_out(
        &mut self,
        directory: Arc<Directory>,
        target: &StorePath,
        entries: Vec<(CString, FileType)>,
        mut children: HashMap<Vec<u8>, FileEntry>,
    ) -> Step {
        let mut names = Vec::new();
        let before = self.pending.len();
        for (name, file_type) in entries {
            let path = || directory.path.join(OsStr::from_bytes(name.as_bytes()));
            let target = match target.join(name.as_bytes()) {
                Ok(target) => target,
                Err(error) => {
                    let failed = FailedName { path: path(), why: error.to_string(), code: error.code() };
                    self.send(Outcome::Left { failed, target: None })?;
                    continue;
                }
            };
            if repository::is_reserved(&target) {
                self.send(Outcome::Skipped { path: path(), what: "a name that stores keep for their snapshots" })?;
                continue;
            }
            if self.is_excluded(&directory, &name, &target, file_type) {
                self.send(Outcome::Excluded { path: target })?;
                continue;
            }
            let known = children.remove(name.as_bytes());
            if file_type == FileType::Directory {
                self.pending.push(Pending { parent: Some(directory.clone()), path: path(), name, target, known });
                continue;
            }
            names.push(Name { name, target, file_type, known });
            if names.len() == NAMES_AT_ONCE {
                self.hand_out(directory.clone(), std::mem::take(&mut names))?;
            }
        }
        self.pending[before..].reverse();
        if names.is_empty() { Ok(()) } else { self.hand_out(directory, names) }
    }

    fn known_children(&self, directory: &StorePath) -> anyhow::Result<HashMap<Vec<u8>, FileEntry>> {
        let mut children = HashMap::new();
        list(self.catalog, directory, false, |listed| {
            children.extend(listed.into_iter().map(|(path, entry)| (path.name().to_vec(), entry)));
            Ok(())
        })?;
        Ok(children)
    }

    fn hand_out(&self, directory: Arc<Directory>, names: Vec<Name>) -> Step {
        self.units.send(Unit { directory, names }).map_err(|_| QueueClosed)
    }

    fn send(&self, outcome: Outcome) -> Step {
        self.outcomes.send(vec![outcome]).map_err(|_| QueueClosed)
    }

    fn left(&self, path: PathBuf, target: &StorePath, error: Errno) -> Step {
        let failed = FailedName { path, why: error.to_string(), code: error_code::of_errno(error) };
        self.send(Outcome::Left { failed, target: Some(target.clone()) })
    }
}

/// Returns the change that makes a directory what it is here, if it is not so already.
fn made(
    stat: &rustix::fs::Stat,
    opened: &OwnedFd,
    path: &Path,
    target: &StorePath,
    known: Option<&FileEntry>,
) -> Outcome {
    if target.is_root() || known.is_some_and(|known| observed::is_as_put(stat, known)) {
        let known = Known::of(known.filter(|_| !target.is_root()));
        return Outcome::Unchanged { path: target.clone(), bytes: 0, read_bytes: 0, known };
    }
    let extended = match observed::extended_of(opened) {
        Ok(extended) => extended,
        Err(error) => {
            let why = format!("its extended attributes: {error}");
            let failed = FailedName { path: path.to_owned(), why, code: error_code::of_errno(error) };
            return Outcome::Left { failed, target: Some(target.clone()) };
        }
    };
    let attributes = observed::attributes(stat, FileKind::Directory, extended);
    let replaces = known.is_some_and(|known| known.attributes.kind != FileKind::Directory);
    Outcome::Change(Box::new(Ready::plain(
        Change::Make { path: target.clone(), attributes },
        replaces,
        known.is_none(),
    )))
}

/// Returns names and types of a directory's entries, sorted.
fn entries(directory: &OwnedFd) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let file_type = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        entries.push((name.to_owned(), file_type));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

fn c_string(path: &OsStr) -> CString {
    CString::new(path.as_bytes()).expect("arguments and names hold no NUL")
}

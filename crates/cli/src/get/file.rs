//! A file under way: without a name until it is whole, so that half of it is never visible and a killed `get` leaves
//! nothing behind. Where the file system cannot do that, it has a name of its own first, which `leftovers` removes.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use format::{Attributes, ErrorCode};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, Result};

use super::attributes::{self, LeftOut, Withheld};
use super::leftovers::DRAFT_PREFIX;
use super::worker::Directory;

/// The side that failed.
#[derive(Debug)]
pub enum FailureSide {
    Disk(std::io::Error),
    Store(repository::Error),
    /// The run is: this file is not there, and nothing is left of it.
    Interrupted,
}

impl From<Errno> for FailureSide {
    fn from(error: Errno) -> Self {
        FailureSide::Disk(error.into())
    }
}

impl From<repository::Error> for FailureSide {
    fn from(error: repository::Error) -> Self {
        FailureSide::Store(error)
    }
}

impl fmt::Display for FailureSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureSide::Disk(error) => error.fmt(f),
            FailureSide::Store(error) => error.fmt(f),
            FailureSide::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for FailureSide {}

impl FailureSide {
    pub fn code(&self) -> ErrorCode {
        match self {
            FailureSide::Disk(error) => ErrorCode::of_io(error.kind()),
            FailureSide::Store(error) => error.code(),
            FailureSide::Interrupted => ErrorCode::Interrupted,
        }
    }
}

pub struct Draft<'a> {
    directory: &'a Directory,
    file: OwnedFd,
    /// Where a file without a name is not to be had.
    name: Option<String>,
}

impl<'a> Draft<'a> {
    pub fn new(directory: &'a Directory) -> Result<Self> {
        let anonymous = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&directory.opened, ".", anonymous, Mode::RUSR | Mode::WUSR) {
            Ok(file) if can_be_named(&file) => Ok(Draft { directory, file, name: None }),
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::named(directory),
            Err(error) => Err(error),
        }
    }

    /// The lock says that its writer is alive.
    fn named(directory: &'a Directory) -> Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let make = |name: &str| rustix::fs::openat(&directory.opened, name, flags, Mode::RUSR | Mode::WUSR);
        let (name, file) = with_new_name(make)?;
        // A file system without locks leaves only the age to go by.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Draft { directory, file, name: Some(name) })
    }

    pub fn opened(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Gives it its attributes and its name. Returns what it has to do without.
    pub fn finish(mut self, name: &CStr, attributes: &Attributes, withheld: Withheld) -> Result<Vec<LeftOut>> {
        let missing = attributes::apply_to_file(&self.file, attributes, self.directory.inherits_acl, withheld)?;
        if self.name.is_none() {
            match link_anonymous(&self.file, &self.directory.opened, name) {
                Err(Errno::EXIST) => {}
                linked => return linked.map(|()| missing),
            }
            // A name that is taken is only replaced by a rename, for which the file needs a name first.
            let link = |name: &str| link_anonymous(&self.file, &self.directory.opened, name);
            self.name = Some(with_new_name(link)?.0);
        }
        refuse_special(&self.directory.opened, name)?;
        let draft = self.name.as_deref().expect("it was named above");
        rustix::fs::renameat(&self.directory.opened, draft, &self.directory.opened, name)?;
        self.name = None;
        Ok(missing)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Already failing; a draft that stays behind says what it is by its name.
            let _ = rustix::fs::unlinkat(&self.directory.opened, name, AtFlags::empty());
        }
    }
}

/// Makes a symbolic link under the name, replacing any entry there. Returns the attributes it misses.
pub fn symlink(
    directory: &Directory,
    name: &CStr,
    attributes: &Attributes,
    withheld: Withheld,
) -> Result<Vec<LeftOut>> {
    let make = |name: &CStr| rustix::fs::symlinkat(&attributes.target[..], &directory.opened, name);
    match make(name) {
        Err(Errno::EXIST) => {
            let symlink = |name: &str| rustix::fs::symlinkat(&attributes.target[..], &directory.opened, name);
            replace(&directory.opened, with_new_name(symlink)?.0, name)?;
        }
        made => made?,
    }
    attributes::apply_to_symlink(&directory.opened, name, attributes, withheld)
}

/// Makes `to` another name of `from`, replacing any entry there.
pub fn link(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr)) -> Result<()> {
    match rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Err(Errno::EXIST) => {
            let link = |name: &str| rustix::fs::linkat(from.0, from.1, to.0, name, AtFlags::empty());
            let (draft, ()) = with_new_name(link)?;
            replace(to.0, draft.clone(), to.1)?;
            // Renaming a name over another name of the same file does nothing, and leaves both.
            let _ = rustix::fs::unlinkat(to.0, draft, AtFlags::empty());
            Ok(())
        }
        linked => linked,
    }
}

/// The role of a name at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    New,
    Replaced,
}

impl NameState {
    pub fn name(self) -> &'static str {
        match self {
            NameState::New => "new",
            NameState::Replaced => "replaced",
        }
    }
}

/// Fails where something stands that no file takes the place of: a directory, or as `refuse_special` says.
pub fn state_of(directory: &OwnedFd, name: &CStr) -> Result<NameState> {
    match kind_there(directory, name)? {
        None => Ok(NameState::New),
        Some(FileType::RegularFile | FileType::Symlink) => Ok(NameState::Replaced),
        Some(FileType::Directory) => Err(Errno::ISDIR),
        Some(_) => Err(Errno::EXIST),
    }
}

/// A device, a pipe or a socket in a tree is not replaced by a file.
fn refuse_special(directory: &OwnedFd, name: &CStr) -> Result<()> {
    match kind_there(directory, name)? {
        None | Some(FileType::RegularFile | FileType::Symlink | FileType::Directory) => Ok(()),
        Some(_) => Err(Errno::EXIST),
    }
}

fn kind_there(directory: &OwnedFd, name: &CStr) -> Result<Option<FileType>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(FileType::from_raw_mode(found?.st_mode))),
    }
}

fn replace(directory: &OwnedFd, draft: String, name: &CStr) -> Result<()> {
    let renamed =
        refuse_special(directory, name).and_then(|()| rustix::fs::renameat(directory, &draft, directory, name));
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(directory, &draft, AtFlags::empty());
    }
    renamed
}

/// Whether it can be linked to a name: the way leads through /proc, which a chroot may miss.
fn can_be_named(file: &OwnedFd) -> bool {
    rustix::fs::access(own_path(file), rustix::fs::Access::EXISTS).is_ok()
}

fn link_anonymous(file: &OwnedFd, directory: &OwnedFd, name: impl rustix::path::Arg) -> Result<()> {
    rustix::fs::linkat(CWD, own_path(file), directory, name, AtFlags::SYMLINK_FOLLOW)
}

fn own_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Tries names until one is free.
fn with_new_name<T>(make: impl Fn(&str) -> Result<T>) -> Result<(String, T)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{DRAFT_PREFIX}{}-{number}", std::process::id());
        match make(&name) {
            Err(Errno::EXIST) => continue,
            made => return Ok((name, made?)),
        }
    }
}

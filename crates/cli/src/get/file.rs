//! A file under way: written beside its place under a name of its own, then renamed, so that nobody ever sees
//! half of it. Dropped unfinished, it is removed.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use format::Attributes;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::attributes;
use super::worker::Directory;

/// Whose fault it was.
#[derive(Debug)]
pub enum Trouble {
    Disk(std::io::Error),
    Store(repository::Error),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        Trouble::Disk(error.into())
    }
}

impl From<repository::Error> for Trouble {
    fn from(error: repository::Error) -> Self {
        Trouble::Store(error)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Disk(error) => error.fmt(f),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Trouble {}

pub struct Draft<'a> {
    directory: &'a Directory<'a>,
    name: String,
    /// None for a symlink.
    file: Option<OwnedFd>,
    renamed: bool,
}

impl<'a> Draft<'a> {
    pub fn file(directory: &'a Directory<'a>) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let make = |name: &str| rustix::fs::openat(&directory.opened, name, flags, Mode::RUSR | Mode::WUSR);
        let (name, file) = with_new_name(make)?;
        Ok(Draft { directory, name, file: Some(file), renamed: false })
    }

    pub fn symlink(directory: &'a Directory<'a>, target: &[u8]) -> Result<Self, Errno> {
        let (name, ()) = with_new_name(|name| rustix::fs::symlinkat(target, &directory.opened, name))?;
        Ok(Draft { directory, name, file: None, renamed: false })
    }

    pub fn opened(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("symlinks have no content").as_fd()
    }

    /// Gives it its attributes and its name. Returns what it has to do without.
    pub fn finish(mut self, name: &CStr, attributes: &Attributes) -> Result<Vec<String>, Errno> {
        let lacking = match &self.file {
            Some(file) => attributes::apply_to_file(file, attributes, self.directory.inherits_acl)?,
            None => attributes::apply_to_symlink(&self.directory.path.join(&self.name), attributes)?,
        };
        rustix::fs::renameat(&self.directory.opened, &self.name, &self.directory.opened, name)?;
        self.renamed = true;
        Ok(lacking)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Already failing; a draft that stays behind says what it is by its name.
            let _ = rustix::fs::unlinkat(&self.directory.opened, &self.name, AtFlags::empty());
        }
    }
}

/// Makes `to` another name of `from`, replacing what bears it.
pub fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (name, ()) = with_new_name(|name| {
        rustix::fs::linkat(rustix::fs::CWD, from, rustix::fs::CWD, directory.join(name), AtFlags::empty())
    })?;
    let draft = directory.join(name);
    let renamed = std::fs::rename(&draft, to);
    // Renaming a name over another name of the same file does nothing, and leaves both.
    let _ = std::fs::remove_file(&draft);
    renamed
}

/// Tries names until one is free.
fn with_new_name<T>(make: impl Fn(&str) -> Result<T, Errno>) -> Result<(String, T), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!(".thalweg-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match make(&name) {
            Err(Errno::EXIST) => continue,
            made => return Ok((name, made?)),
        }
    }
}

//! Where a restore writes: a directory that the user named, opened once.
//!
//! Everything below it is reached through directory descriptors, one name at a time, and never through a symbolic link.
//! So neither what a store or a node names, nor a link that lies there, can lead a restore out of its destination.

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, Result};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub struct Destination {
    /// None: a dry run has not made it.
    opened: Option<OwnedFd>,
    path: PathBuf,
}

/// Whether a directory was made or was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeDirectories {
    New,
    Before,
}

impl Destination {
    /// Opens the directory. The user's own path to it may lead through links.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Destination { opened: Some(opened), path: path.to_owned() })
    }

    /// One that is not there, for a dry run: nothing is below it.
    pub fn missing(path: &Path) -> Self {
        Destination { opened: None, path: path.to_owned() }
    }

    /// Returns the path of something below, for messages.
    pub fn path(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.path.clone() } else { self.path.join(below) }
    }

    /// Opens the directory `below`; empty: the destination itself.
    pub fn directory(&self, below: &Path) -> Result<OwnedFd> {
        let Some(base) = &self.opened else { return Err(Errno::NOENT) };
        let mut opened: Option<OwnedFd> = None;
        for component in below.components() {
            let Component::Normal(name) = component else { return Err(Errno::INVAL) };
            let parent = opened.as_ref().map_or(base.as_fd(), |opened| opened.as_fd());
            opened = Some(open_directory(parent, name)?);
        }
        match opened {
            Some(opened) => Ok(opened),
            None => rustix::fs::openat(base, ".", DIRECTORY, Mode::empty()),
        }
    }

    /// Opens the directory that holds `below`, and gives the last name.
    pub fn parent(&self, below: &Path) -> Result<(OwnedFd, CString)> {
        let Some(Component::Normal(name)) = below.components().next_back() else { return Err(Errno::INVAL) };
        let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        Ok((self.directory(below.parent().unwrap_or(Path::new("")))?, name))
    }

    /// What `make_directory` would do.
    pub fn would_make_directory(&self, below: &Path) -> Result<MadeDirectories> {
        match self.directory(below) {
            Err(Errno::NOENT) => Ok(MadeDirectories::New),
            opened => opened.map(|_| MadeDirectories::Before),
        }
    }

    /// Makes the directory `below`, ours alone until its attributes are set. One that is there already will do, but
    /// not a link to one: that could lead anywhere.
    pub fn make_directory(&self, below: &Path) -> Result<MadeDirectories> {
        if below.as_os_str().is_empty() {
            return Ok(MadeDirectories::Before);
        }
        let (parent, name) = self.parent(below)?;
        match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
            Err(Errno::EXIST) => open_directory(parent.as_fd(), &name).map(|_| MadeDirectories::Before),
            made => made.map(|()| MadeDirectories::New),
        }
    }
}

fn open_directory(parent: BorrowedFd, name: impl rustix::path::Arg) -> Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Returns why a directory cannot be used, in the user's words.
pub fn explained(error: Errno) -> impl fmt::Display {
    match error {
        // The errors of opening a link or a file as a directory, with and without O_NOFOLLOW.
        Errno::LOOP | Errno::NOTDIR => "a symbolic link or a file stands where a directory belongs".to_owned(),
        other => std::io::Error::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination() -> (tempfile::TempDir, Destination) {
        let folder = tempfile::tempdir().unwrap();
        let destination = Destination::open(folder.path()).unwrap();
        (folder, destination)
    }

    #[test]
    fn directories_are_made_and_found_again() {
        let (folder, destination) = destination();
        assert_eq!(destination.make_directory(Path::new("a")), Ok(MadeDirectories::New));
        assert_eq!(destination.make_directory(Path::new("a/b")), Ok(MadeDirectories::New));
        assert_eq!(destination.make_directory(Path::new("a/b")), Ok(MadeDirectories::Before));
        assert!(folder.path().join("a/b").is_dir());
        assert!(destination.directory(Path::new("a/b")).is_ok());
        assert!(destination.directory(Path::new("")).is_ok());
    }

    #[test]
    fn no_step_goes_through_a_link() {
        let (folder, destination) = destination();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::create_dir(elsewhere.path().join("inside")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
        for below in ["link", "link/inside"] {
            assert!(destination.directory(Path::new(below)).is_err(), "{below}");
            assert!(destination.make_directory(Path::new(below)).is_err(), "{below}");
        }
        assert!(destination.make_directory(Path::new("link/new")).is_err());
        assert!(!elsewhere.path().join("new").exists());
    }

    #[test]
    fn no_name_leads_upwards_or_to_the_root() {
        let (_folder, destination) = destination();
        destination.make_directory(Path::new("a")).unwrap();
        for below in ["..", "a/../..", "/etc", "/"] {
            assert!(destination.directory(Path::new(below)).is_err(), "{below}");
            assert!(destination.make_directory(Path::new(below)).is_err(), "{below}");
        }
    }
}

//! Directories held open, from which everything below is reached by descriptor, one name at a time: what another user puts
//! in the place of a directory between two steps leads nowhere else.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::ordinary::{explained, no_file};

/// Whether a directory may be reached through a symbolic link: in a store that no other user writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Followed,
    Refused,
}

/// An open directory. It need not be readable.
pub struct OpenDirectory(File);

impl OpenDirectory {
    /// Opens the directory at a path that the user gave, which may lead through links.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(OpenDirectory(rustix::fs::open(path, flags, Mode::empty())?.into()))
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Opens a directory below this one.
    pub fn walk(&self, below: &Path, links: Link) -> io::Result<Self> {
        let mut folder = OpenDirectory(self.0.try_clone()?);
        for name in below {
            folder = folder.enter(Path::new(name), links)?;
        }
        Ok(folder)
    }

    /// Opens a directory in this one.
    pub fn enter(&self, name: &Path, links: Link) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let flags = if links == Link::Refused { flags | OFlags::NOFOLLOW } else { flags };
        match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            // With O_DIRECTORY a link, which is not followed, is no directory.
            Err(Errno::LOOP | Errno::NOTDIR) if self.has_link(name) => Err(is_a_link()),
            opened => Ok(OpenDirectory(opened?.into())),
        }
    }

    fn has_link(&self, name: &Path) -> bool {
        let found = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
    }

    /// Makes a directory, its maker's alone, and opens it so that its mode and owner can be set; none when the name is
    /// taken.
    pub fn make(&self, name: &Path) -> io::Result<Option<File>> {
        match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(None),
            made => made?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Some(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into()))
    }

    /// Opens a regular file, never through a link at its own name, and never waiting for another end. One that is made
    /// is its maker's alone.
    pub fn open(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|error| explained(error.into()))?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
    }

    /// Returns the metadata of what has this name, of a link's target too.
    pub fn metadata_of(&self, name: &Path) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?).metadata()
    }

    /// Returns whether anything has this name.
    pub fn exists(&self, name: &Path) -> io::Result<bool> {
        match rustix::fs::statat(&self.0, name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file, or an empty directory that a user put in its place.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(error @ Errno::ISDIR) => {
                rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR).map_err(|_| error.into())
            }
            removed => Ok(removed?),
        }
    }

    /// Gives a file of this directory another name in it, in the place of what has that.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Makes the names in this directory survive power loss.
    pub fn sync(&self) -> io::Result<()> {
        File::from(self.readable()?).sync_all()
    }

    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, c".", flags, Mode::empty())?)
    }

    /// Returns the names in this directory, and whether each is a directory. Names that are not UTF-8 are none of ours.
    pub fn names(&self) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.readable()?)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                known => known,
            };
            names.push((name.to_owned(), kind == FileType::Directory));
        }
        Ok(names)
    }
}

/// Of no kind by which a file would pass for missing or damaged: nothing is known of what is behind the link.
fn is_a_link() -> io::Error {
    io::Error::other("a symbolic link stands where a directory of the store belongs; remove it")
}

//! Opening files that another user may have tampered with: a user who may write to a store's directory could put a
//! link, a pipe or a device where a file of the store belongs, and have root write elsewhere or wait for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file, never through a link at its own name, and never waiting for another end.
pub fn open_ordinary(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(explained)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

/// Says what stands in a file's place, where that kept it from being opened.
pub fn explained(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => refused("a symbolic link stands where a file of the store belongs; remove it"),
        // A pipe without a reader; a directory that was to be written.
        Some(Errno::NXIO | Errno::ISDIR) => no_file(),
        _ => error,
    }
}

/// As `open_ordinary`, to write: a file with another name (a hard link) would be written under that too.
pub fn open_sole(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_ordinary(path, options)?;
    check_sole(&file)?;
    Ok(file)
}

/// Refuses a file that has another name.
pub fn check_sole(file: &File) -> io::Result<()> {
    match file.metadata()?.nlink() {
        0 | 1 => Ok(()),
        _ => Err(refused(
            "the file has another name as well (a hard link), and would be written under that too; remove this name (`cp` \
             and `mv` make a file of its own of it)",
        )),
    }
}

pub fn no_file() -> io::Error {
    refused("what stands where a file of the store belongs is no regular file; remove it")
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_pipes_and_directories_are_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("missing"), at("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["link", "dangling", "pipe", "folder"] {
            open_ordinary(&at(name), OpenOptions::new().read(true)).map(drop).unwrap_err();
            let options = &mut OpenOptions::new();
            open_ordinary(&at(name), options.write(true).create(true).truncate(false)).map(drop).unwrap_err();
        }
        assert!(!at("missing").exists());
        open_ordinary(&at("file"), OpenOptions::new().read(true).write(true)).unwrap();
    }
}

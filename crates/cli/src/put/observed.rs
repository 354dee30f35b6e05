//! A file's state in its file system: the attributes to keep, and whether it is unchanged.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;

use catalog::FileEntry;
use format::{Attributes, FileKind, FileTime, FileTimes};
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use crate::clock::now_ns;

/// A file changed this recently (ns) may change again without its times moving on: clocks of file systems tick
/// in milliseconds. Its change time is not kept, so that it is read again next time.
const TICK_NS: i128 = 20_000_000;

pub fn kind(stat: &Stat) -> Option<FileKind> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(FileKind::Regular),
        FileType::Directory => Some(FileKind::Directory),
        FileType::Symlink => Some(FileKind::Symlink),
        _ => None,
    }
}

/// Returns the name of a kind that stores do not keep.
pub fn special(file_type: FileType) -> Option<&'static str> {
    match file_type {
        FileType::Socket => Some("a socket"),
        FileType::Fifo => Some("a named pipe"),
        FileType::CharacterDevice => Some("a character device"),
        FileType::BlockDevice => Some("a block device"),
        _ => None,
    }
}

pub fn attributes(stat: &Stat, kind: FileKind, extended: Vec<(Vec<u8>, Vec<u8>)>) -> Attributes {
    let times = times(stat);
    let is_fresh = now_ns() as i128 - times.changed.as_ns() < TICK_NS;
    let changed = if is_fresh { FileTime::default() } else { times.changed };
    Attributes {
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        times: FileTimes { changed, ..times },
        inode: stat.st_ino,
        target: Vec::new(),
        extended,
    }
}

/// Of standard input, which has none of its own.
pub fn of_stream() -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let times = FileTimes { modified: FileTime::from_ns(now_ns()), changed: FileTime::default() };
    Attributes { mode: 0o644, uid, gid, times, ..Attributes::default() }
}

fn times(stat: &Stat) -> FileTimes {
    let time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
    FileTimes {
        modified: time(stat.st_mtime, stat.st_mtime_nsec as u32),
        changed: time(stat.st_ctime, stat.st_ctime_nsec as u32),
    }
}

/// Whether a file is the one that was put: same kind, size, times and inode.
pub fn is_as_put(stat: &Stat, known: &FileEntry) -> bool {
    let then = &known.attributes;
    let same_size = match then.kind {
        FileKind::Regular => known.head.as_ref().is_some_and(|head| head.record.size == stat.st_size as u64),
        FileKind::Symlink => then.target.len() as u64 == stat.st_size as u64,
        FileKind::Directory => true,
    };
    kind(stat) == Some(then.kind) && same_size && times(stat) == then.times && stat.st_ino == then.inode
}

/// Whether a restore of two states of a file gives the same: when the inode was last changed, and its number, are not
/// restored.
pub fn look_alike(before: &Attributes, after: &Attributes) -> bool {
    let times = FileTimes { changed: after.times.changed, ..before.times };
    Attributes { times, inode: after.inode, ..before.clone() } == *after
}

/// Whether nothing happened to a file between two looks.
pub fn is_same(before: &Stat, after: &Stat) -> bool {
    before.st_size == after.st_size && times(before) == times(after) && before.st_ino == after.st_ino
}

/// Returns extended attributes, sorted by name. One call when there are none.
pub fn extended_of(file: impl AsFd) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let file = file.as_fd();
    collect(
        |buffer| rustix::fs::flistxattr(file, spare_capacity(buffer)),
        || rustix::fs::flistxattr_query(file),
        |name, buffer| rustix::fs::fgetxattr(file, name, spare_capacity(buffer)),
        |name| rustix::fs::fgetxattr_query(file, name),
    )
}

/// Those of a symlink itself.
pub fn extended_of_link(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    collect(
        |buffer| rustix::fs::llistxattr(path, spare_capacity(buffer)),
        || rustix::fs::llistxattr_query(path),
        |name, buffer| rustix::fs::lgetxattr(path, name, spare_capacity(buffer)),
        |name| rustix::fs::lgetxattr_query(path, name),
    )
}

fn collect(
    list: impl FnMut(&mut Vec<u8>) -> Result<usize>,
    list_bytes: impl FnMut() -> Result<usize>,
    mut value: impl FnMut(&CString, &mut Vec<u8>) -> Result<usize>,
    mut value_bytes: impl FnMut(&CString) -> Result<usize>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = match whole(list, list_bytes) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        names => names?,
    };
    let mut extended = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = CString::new(name).expect("names were split at their NULs");
        match whole(|buffer| value(&name, buffer), || value_bytes(&name)) {
            // Taken away since it was listed.
            Err(Errno::NODATA) => {}
            value => extended.push((name.into_bytes(), value?)),
        }
    }
    extended.sort();
    Ok(extended)
}

/// Reads with a small buffer first, and with one of the size asked for when that is too small.
fn whole(
    mut read: impl FnMut(&mut Vec<u8>) -> Result<usize>,
    mut bytes: impl FnMut() -> Result<usize>,
) -> Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(256);
    loop {
        match read(&mut buffer) {
            Ok(_) => return Ok(buffer),
            Err(Errno::RANGE) => buffer = Vec::with_capacity(bytes()?.max(1)),
            Err(error) => return Err(error),
        }
    }
}

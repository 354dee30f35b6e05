//! Reads files and all below folders, one after the other; memory does not grow with their number.
//!
//! Folders on the way are held open and their entries are taken one by one, so that neither a folder with a million names nor
//! a path that is longer than the system takes is in the way.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::ErrorCode;
use laboratory::{PIECE_BYTES, READ_BYTES, Survey};
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, SeekFrom, fstat, openat, seek, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::hard_links::HardLinks;
use crate::progress::Progress;
use crate::shown;

/// Problems that are named; others are counted.
const MAX_PROBLEMS: usize = 50;

/// Folders below one another that are held open; each takes a file descriptor and some KiB.
const MAX_DEPTH: usize = 4096;

/// In files with fewer bytes of holes these are read like data.
const MIN_HOLE_BYTES: u64 = 4 << 20;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// What was found.
#[derive(Default)]
pub struct Walked {
    pub files: u64,
    pub folders: u64,
    /// Symbolic links, which are not followed.
    pub links: u64,
    /// Further names of a file that was read under another.
    pub hard_links: u64,
    /// Pipes, devices and sockets.
    pub special: u64,
    /// Files and folders that could not be read, or not to their end.
    pub unreadable: u64,
    pub problems: Vec<String>,
}

pub struct Walk<'a> {
    walked: Walked,
    survey: &'a mut Survey,
    progress: &'a Progress,
    hard_links: HardLinks,
    buffer: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub fn new(survey: &'a mut Survey, progress: &'a Progress) -> Self {
        raise_limit_of_open_files();
        let buffer = vec![0; READ_BYTES];
        Walk { walked: Walked::default(), survey, progress, hard_links: HardLinks::default(), buffer }
    }

    pub fn finish(self) -> Walked {
        self.walked
    }

    /// Reads what a user named, which may be a symbolic link.
    pub fn read(&mut self, path: &Path) {
        let done =
            statat(CWD, path, AtFlags::empty()).map_err(io::Error::from).and_then(
                |stat| match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => self.read_tree(path),
                    FileType::RegularFile => self.read_file(open(CWD, path, OPEN)?),
                    kind => {
                        self.leave_out(kind);
                        Ok(())
                    }
                },
            );
        self.note(path, done);
    }

    fn read_tree(&mut self, path: &Path) -> io::Result<()> {
        let mut path = path.to_owned();
        let mut folders = vec![self.open_folder(CWD, path.as_os_str())?];
        while let Some(folder) = folders.last_mut() {
            let Some(entry) = folder.read() else {
                folders.pop();
                path.pop();
                continue;
            };
            let depth = folders.len();
            let folder = folders.last().expect("it was read");
            if let Some(inner) = self.read_entry(folder, entry, depth, &mut path) {
                folders.push(inner);
            }
        }
        Ok(())
    }

    /// Reads a file; of a folder returns what to go on with, and leaves its name at the end of the path.
    fn read_entry(
        &mut self,
        folder: &Dir,
        entry: Result<DirEntry, Errno>,
        depth: usize,
        path: &mut PathBuf,
    ) -> Option<Dir> {
        let name = match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => return None,
            Ok(entry) => OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
            Err(error) => {
                self.note(path, Err(error.into()));
                return None;
            }
        };
        path.push(&name);
        let inner = folder.fd().map_err(io::Error::from).and_then(|folder| self.read_name(folder, &name, depth));
        let inner = inner.unwrap_or_else(|error| {
            self.note(path, Err(error));
            None
        });
        if inner.is_none() {
            path.pop();
        }
        inner
    }

    fn read_name(&mut self, folder: BorrowedFd, name: &OsStr, depth: usize) -> io::Result<Option<Dir>> {
        match FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
            FileType::Directory if depth == MAX_DEPTH => {
                Err(io::Error::other(format!("lies {MAX_DEPTH} folders deep")))
            }
            FileType::Directory => self.open_folder(folder, name).map(Some),
            FileType::RegularFile => self.read_file(open(folder, name, OPEN | OFlags::NOFOLLOW)?).map(|()| None),
            kind => {
                self.leave_out(kind);
                Ok(None)
            }
        }
    }

    fn open_folder(&mut self, parent: impl AsFd, name: &OsStr) -> io::Result<Dir> {
        // What a user named may be a link; what lies below was looked at just now.
        let opened = Dir::new(open(parent, name, OPEN | OFlags::DIRECTORY)?)?;
        self.walked.folders += 1;
        Ok(opened)
    }

    fn leave_out(&mut self, kind: FileType) {
        self.walked.special += u64::from(kind != FileType::Symlink);
        self.walked.links += u64::from(kind == FileType::Symlink);
    }

    /// Reads no more than the file has at the beginning, as it may grow.
    fn read_file(&mut self, mut file: File) -> io::Result<()> {
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("became something else while it was opened"));
        }
        if self.hard_links.is_known(&stat) {
            self.walked.hard_links += 1;
            return Ok(());
        }
        self.walked.files += 1;
        let bytes = stat.st_size as u64;
        let may_have_holes = (stat.st_blocks as u64).saturating_mul(512) + MIN_HOLE_BYTES <= bytes;
        let done = if may_have_holes { self.read_sparse(&mut file, bytes) } else { self.read_bytes(&mut file, bytes) };
        self.survey.end_file();
        done
    }

    /// Reads data, and of each hole the first and the last bytes: whole pieces of segments.
    fn read_sparse(&mut self, file: &mut File, bytes: u64) -> io::Result<()> {
        const PIECE: u64 = PIECE_BYTES as u64;
        let mut at = 0;
        while at < bytes {
            let data = match seek(&*file, SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, bytes),
                Err(Errno::NXIO) => bytes,
                Err(error) => return Err(error.into()),
            };
            at += self.survey.skip_zeros((data - data % PIECE).saturating_sub(at));
            let hole = if data == bytes { bytes } else { seek(&*file, SeekFrom::Hole(data))? };
            let end = hole.next_multiple_of(PIECE).min(bytes);
            seek(&*file, SeekFrom::Start(at))?;
            self.read_bytes(file, end - at)?;
            at = end;
        }
        Ok(())
    }

    fn read_bytes(&mut self, file: &mut File, bytes: u64) -> io::Result<()> {
        let mut file = file.take(bytes);
        loop {
            let filled = fill(&mut file, &mut self.buffer)?;
            self.survey.add(&self.buffer[..filled]);
            self.progress.add(filled as u64);
            if filled < self.buffer.len() {
                return Ok(());
            }
        }
    }

    fn note(&mut self, path: &Path, done: io::Result<()>) {
        let Err(error) = done else { return };
        self.walked.unreadable += 1;
        if self.walked.problems.len() < MAX_PROBLEMS {
            self.walked
                .problems
                .push(ErrorCode::of_io(error.kind()).after(format_args!("{}: {error}", shown::local(path))));
        }
    }
}

fn open(parent: impl AsFd, name: impl Arg, flags: OFlags) -> io::Result<File> {
    Ok(File::from(openat(parent, name, flags, Mode::empty())?))
}

/// Lets folders lie as deep as anybody may open them; where the limit stays, deep ones cannot be read, and are named.
fn raise_limit_of_open_files() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

//! Reads files and all below folders, one after the other; memory does not grow with their number.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use laboratory::{READ_BYTES, Survey};

use crate::progress::Progress;
use crate::shown;

/// Problems that are named; others are counted.
const MAX_PROBLEMS: usize = 50;

/// What was found.
#[derive(Default)]
pub struct Walked {
    pub files: u64,
    pub folders: u64,
    /// Symbolic links, which are not followed.
    pub links: u64,
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
    buffer: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub fn new(survey: &'a mut Survey, progress: &'a Progress) -> Self {
        Walk { walked: Walked::default(), survey, progress, buffer: vec![0; READ_BYTES] }
    }

    pub fn finish(self) -> Walked {
        self.walked
    }

    /// Reads what a user named, which may be a symbolic link.
    pub fn read(&mut self, path: &Path) {
        let done = fs::metadata(path).and_then(|metadata| self.read_kind(path, metadata.file_type()));
        self.note(path, done);
    }

    fn read_kind(&mut self, path: &Path, kind: fs::FileType) -> io::Result<()> {
        if kind.is_dir() {
            return self.read_folder(path);
        }
        if kind.is_file() {
            return self.read_file(path);
        }
        self.walked.special += u64::from(!kind.is_symlink());
        self.walked.links += u64::from(kind.is_symlink());
        Ok(())
    }

    fn read_folder(&mut self, path: &Path) -> io::Result<()> {
        self.walked.folders += 1;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let path: PathBuf = entry.path();
            let done = entry.file_type().and_then(|kind| self.read_kind(&path, kind));
            self.note(&path, done);
        }
        Ok(())
    }

    /// Reads no more than the file has at the beginning, as it may grow.
    fn read_file(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        self.walked.files += 1;
        let done = self.read_bytes(file.take(bytes));
        self.survey.end_file();
        done
    }

    fn read_bytes(&mut self, mut file: impl Read) -> io::Result<()> {
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
            self.walked.problems.push(format!("{}: {error}", shown::local(path)));
        }
    }
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

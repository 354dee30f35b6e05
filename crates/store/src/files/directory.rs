//! Files in a directory of the operating system.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{File, Files, Held, Permissions, open_ordinary};
use crate::{Error, Result};

/// The most pieces one system call takes (`IOV_MAX`).
const PIECES_PER_CALL: usize = 1024;

/// A replacement file has this ending until it is whole.
const UNFINISHED: &str = ".tmp";

const NO_FOLDER: &str = "no directory stands where one of the store's belongs; remove it";

/// A folder and everything below it.
pub struct Directory {
    root: PathBuf,
    permissions: Permissions,
    /// The root as it was found or made; held open, so that no other directory gets its inode number.
    opened: OnceLock<fs::File>,
}

impl Directory {
    /// Makes the tree. The folder may be missing: it is made with the first file. All that is made gets these
    /// permissions.
    pub fn new(root: impl Into<PathBuf>, permissions: Permissions) -> Self {
        let directory = Directory { root: root.into(), permissions, opened: OnceLock::new() };
        directory.remember_root();
        directory
    }

    fn remember_root(&self) {
        if self.opened.get().is_none()
            && let Ok(root) = fs::File::open(&self.root)
        {
            let _ = self.opened.set(root);
        }
    }

    /// Fails if the root is gone: a removed store is not made again piece by piece, and nothing is written to another
    /// in its place.
    fn check_root(&self) -> io::Result<()> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        let (before, now) = (opened.metadata()?, fs::metadata(&self.root)?);
        if (before.dev(), before.ino()) != (now.dev(), now.ino()) {
            return Err(io::Error::new(ErrorKind::NotFound, "the directory was replaced while it was in use"));
        }
        Ok(())
    }

    fn address(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn open_as(&self, name: &str, options: &mut OpenOptions) -> Result<OpenFile> {
        let path = self.address(name);
        match open_ordinary(&path, options) {
            Ok(file) => Ok(OpenFile { file, path: path.display().to_string() }),
            Err(source) => Err(failure(&path.display().to_string(), source)),
        }
    }

    /// Opens a file, creating it if missing, with the permissions that all files here have.
    fn make_as(&self, name: &str, options: &mut OpenOptions) -> Result<OpenFile> {
        self.make_folder(name)?;
        let path = self.address(name);
        let shown = path.display().to_string();
        match self.permissions.create_file(&path, options) {
            Ok(file) => Ok(OpenFile { file, path: shown }),
            Err(source) => Err(failure(&shown, source)),
        }
    }

    fn lock_file(&self, name: &str) -> Result<OpenFile> {
        self.make_as(name, OpenOptions::new().read(true).write(true).create(true).truncate(false))
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let mut folder = self.address(name);
        folder.pop();
        let explain = |source: io::Error| match source.kind() {
            ErrorKind::NotADirectory => io::Error::new(ErrorKind::NotADirectory, NO_FOLDER),
            _ => source,
        };
        self.create_folders(&folder).map_err(|source| failure_to_make(&folder.display().to_string(), explain(source)))
    }

    /// Creates the root once: below an open root, directories are made by its descriptor, since it may be removed at
    /// any moment.
    fn create_folders(&self, folder: &Path) -> io::Result<()> {
        if let Some(opened) = self.opened.get() {
            self.check_root()?;
            let below = folder.strip_prefix(&self.root).expect("a folder below the root");
            return self.permissions.create_folders_in(opened, below);
        }
        self.permissions.create_folders(&self.root, folder)?;
        self.remember_root();
        Ok(())
    }

    fn list_into(&self, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(self.address(folder))? {
            let entry = entry?;
            // Names that are not UTF-8 are none of ours.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            match entry.file_type()?.is_dir() {
                true => self.list_into(&name, names)?,
                false if name.ends_with(UNFINISHED) => {}
                false => names.push(name),
            }
        }
        Ok(())
    }
}

impl Files for Directory {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.make_as(name, OpenOptions::new().read(true).write(true).create_new(true))?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        match self.open_as(name, OpenOptions::new().read(true).write(true)) {
            // A store that may only be read, by its mode or its medium.
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                Ok(Arc::new(self.open_as(name, OpenOptions::new().read(true))?))
            }
            other => Ok(Arc::new(other.map_err(no_file_is_damage)?)),
        }
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.address(name);
        match path.try_exists() {
            Err(source) if is_absent(&source) => Ok(false),
            found => found.map_err(|source| failure(&path.display().to_string(), source)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        match self.list_into(folder, &mut names) {
            Err(source) if !is_absent(&source) => {
                return Err(failure(&self.address(folder).display().to_string(), source));
            }
            _ => names.sort(),
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.address(name);
        match fs::remove_file(&path) {
            // An empty directory that a user put in the file's place.
            Err(source) if source.kind() == ErrorKind::IsADirectory && fs::remove_dir(&path).is_ok() => Ok(()),
            Err(source) if !is_absent(&source) => Err(failure(&path.display().to_string(), source)),
            _ => Ok(()),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let unfinished = format!("{name}{UNFINISHED}");
        let file = self.make_as(&unfinished, OpenOptions::new().write(true).create(true).truncate(true))?;
        file.write_at(0, &[bytes])?;
        file.sync()?;
        let path = self.address(name);
        fs::rename(self.address(&unfinished), &path).map_err(|source| failure(&path.display().to_string(), source))?;
        self.sync_folder(name)
    }

    fn sync_folder(&self, name: &str) -> Result<()> {
        let mut folder = self.address(name);
        while folder != self.root && folder.pop() {
            let synced = fs::File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(|source| failure(&folder.display().to_string(), source))?;
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Held> {
        let file = self.lock_file(name)?;
        file.file.lock().map_err(|source| failure(&file.path, source))?;
        Ok(Box::new(file))
    }

    fn try_lock(&self, name: &str) -> Result<Option<Held>> {
        let file = self.lock_file(name)?;
        match file.file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failure(&file.path, source)),
        }
    }
}

struct OpenFile {
    file: fs::File,
    path: String,
}

impl File for OpenFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(to, offset).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => ends_early(&self.path, offset),
            _ => failure(&self.path, source),
        })
    }

    fn read_pieces_at(&self, mut offset: u64, mut pieces: &mut [IoSliceMut]) -> Result<()> {
        IoSliceMut::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let some = pieces.len().min(PIECES_PER_CALL);
            match rustix::io::preadv(&self.file, &mut pieces[..some], offset) {
                Ok(0) => return Err(ends_early(&self.path, offset)),
                Ok(count) => {
                    offset += count as u64;
                    IoSliceMut::advance_slices(&mut pieces, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(code) => return Err(failure(&self.path, code.into())),
            }
        }
        Ok(())
    }

    fn write_at(&self, mut offset: u64, pieces: &[&[u8]]) -> Result<()> {
        let mut slices: Vec<IoSlice> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let some = rest.len().min(PIECES_PER_CALL);
            match rustix::io::pwritev(&self.file, &rest[..some], offset) {
                Ok(0) => return Err(failure(&self.path, ErrorKind::WriteZero.into())),
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(code) => return Err(failure(&self.path, code.into())),
            }
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        self.file.metadata().map(|data| data.len()).map_err(|source| failure(&self.path, source))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| failure(&self.path, source))
    }
}

fn ends_early(path: &str, offset: u64) -> Error {
    Error::Corrupt { path: path.to_owned(), offset, why: "the file ends before what should be here does".into() }
}

/// Reports a link, a pipe or a directory in a file's place as damage: the file's content is lost, and the disk is fine.
fn no_file_is_damage(error: Error) -> Error {
    match error {
        Error::Io { path, source } if source.kind() == ErrorKind::InvalidInput => {
            Error::Corrupt { path, offset: 0, why: source.to_string() }
        }
        Error::Io { path, source } if source.kind() == ErrorKind::IsADirectory => {
            let why = "a directory stands where a file of the store belongs; remove it".to_owned();
            Error::Corrupt { path, offset: 0, why }
        }
        other => other,
    }
}

fn failure(path: &str, source: io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { path },
        _ if is_absent(&source) => Error::NotFound { what: path },
        _ => Error::Io { path, source },
    }
}

/// Returns the error of a failed creation, which is never "not found".
fn failure_to_make(path: &str, source: io::Error) -> Error {
    match source.kind() {
        ErrorKind::NotADirectory => Error::Io { path: path.to_owned(), source },
        _ => failure(path, source),
    }
}

/// Returns whether the file is missing, or the folder it would be in.
fn is_absent(source: &io::Error) -> bool {
    matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_from_a_folder_that_was_not_there() {
        let scratch = tempfile::tempdir().unwrap();
        let files = Directory::new(scratch.path().join("deep/er"), Permissions::default());
        let file = files.create("containers/ab/one").unwrap();
        file.write_at(3, &[b"left", b"", b"right"]).unwrap();
        file.sync().unwrap();
        files.sync_folder("containers/ab/one").unwrap();
        let (mut first, mut second) = ([0; 2], [0; 7]);
        let mut pieces = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        file.read_pieces_at(3, &mut pieces).unwrap();
        assert_eq!((&first, &second), (b"le", b"ftright"));
        assert!(matches!(file.read(10, 4), Err(Error::Corrupt { offset: 10, .. })));
        assert!(files.create("containers/ab/one").is_err());
        assert_eq!(files.list("containers").unwrap(), ["containers/ab/one"]);
        files.remove("containers/ab/one").unwrap();
        assert!(matches!(files.open("containers/ab/one"), Err(Error::NotFound { .. })));
        assert_eq!(file.read(3, 4).unwrap(), b"left", "an open file outlives its name");
    }

    #[test]
    fn a_removed_folder_is_not_made_again_and_another_in_its_place_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("store");
        let files = Directory::new(&root, Permissions::default());
        drop(files.lock("table/lock").unwrap());
        std::fs::remove_dir_all(&root).unwrap();
        assert!(files.create("containers/ab/one").is_err() && files.lock("table/lock").is_err());
        assert!(!root.exists());
        std::fs::create_dir(&root).unwrap();
        assert!(files.create("containers/ab/one").is_err() && files.lock("table/lock").is_err());
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }

    /// At any moment: checking before would not do.
    #[test]
    fn a_folder_that_goes_away_at_any_moment_is_not_made_again() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, aside) = (scratch.path().join("store"), scratch.path().join("aside"));
        for _ in 0..200 {
            std::fs::create_dir(&root).unwrap();
            let files = &Directory::new(&root, Permissions::default());
            std::thread::scope(|threads| {
                for thread in 0..4 {
                    threads.spawn(move || {
                        let mut names = (0..).map(|number| format!("containers/{thread}-{number}/one"));
                        names.find(|name| files.create(name).is_err())
                    });
                }
                std::thread::sleep(std::time::Duration::from_micros(300));
                std::fs::rename(&root, &aside).unwrap();
            });
            assert!(!root.exists());
            std::fs::remove_dir_all(&aside).unwrap();
        }
    }

    #[test]
    fn the_error_of_a_full_disk_names_its_path() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let found = OpenFile { file, path: "/dev/full".into() }.write_at(0, &[b"x"]);
        assert!(matches!(&found, Err(Error::Full { path }) if path == "/dev/full"), "{found:?}");
    }

    #[test]
    fn a_lock_shuts_out_the_next_and_frees_when_dropped() {
        let scratch = tempfile::tempdir().unwrap();
        let files = Directory::new(scratch.path(), Permissions::default());
        let held = files.lock("table/lock").unwrap();
        assert!(files.try_lock("table/lock").unwrap().is_none());
        drop(held);
        assert!(files.try_lock("table/lock").unwrap().is_some());
    }
}

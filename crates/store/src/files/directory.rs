//! Files in a directory of the operating system.

use std::fs::{self, TryLockError};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::held_directory::{HeldDirectory, identity};
use super::open_directory::{Link, OpenDirectory};
use super::write_back::write_back;
use super::{File, Files, Held, OpenMode, Permissions, by_holders};
use crate::{Error, Result};

/// The most pieces one system call takes (`IOV_MAX`).
const PIECES_PER_CALL: usize = 1024;

/// How often a lock that another holds is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// A replacement file has this ending until it is whole.
const UNFINISHED: &str = ".tmp";

const NO_FOLDER: &str = "no directory stands where one of the store's belongs; remove it";

/// A folder and everything below it.
pub struct Directory {
    root: PathBuf,
    permissions: Permissions,
    /// The root as it was found or made; held open, so that no other directory gets its inode number, and all below it
    /// is reached from here.
    opened: OnceLock<OpenDirectory>,
    held: OnceLock<HeldDirectory>,
}

impl Directory {
    /// Makes the tree. The folder may be missing: it is made with the first file. All that is made gets these
    /// permissions.
    pub fn new(root: impl Into<PathBuf>, permissions: Permissions) -> Self {
        let directory = Directory { root: root.into(), permissions, opened: OnceLock::new(), held: OnceLock::new() };
        let _ = directory.root();
        directory
    }

    /// Returns the root, if it is there.
    fn root(&self) -> io::Result<&OpenDirectory> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let found = OpenDirectory::at(&self.root)?;
        self.permissions.check_root(&found)?;
        Ok(self.opened.get_or_init(|| found))
    }

    /// Fails if the root is gone: a removed store is not made again piece by piece, and nothing is written to another
    /// in its place.
    fn check_root(&self) -> io::Result<()> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        if identity(&opened.metadata()?) != identity(&fs::metadata(&self.root)?) {
            return Err(io::Error::new(ErrorKind::NotFound, "the directory was replaced while it was in use"));
        }
        Ok(())
    }

    /// Fails if one of these folders is a link where none may be.
    pub fn check_folders(&self, folders: &[&str]) -> Result<()> {
        let check =
            |folder: &&str| match self.root().and_then(|root| root.walk(Path::new(folder), self.permissions.links())) {
                Err(source) if !is_absent(&source) => Err(self.failure(folder, source)),
                _ => Ok(()),
            };
        folders.iter().try_for_each(check)
    }

    fn shown(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn failure(&self, name: &str, source: io::Error) -> Error {
        failure(&self.shown(name), source)
    }

    /// Runs `action` on the open folder of a file, and the file's name in it.
    fn in_folder<T>(&self, name: &str, action: impl FnOnce(&OpenDirectory, &Path) -> io::Result<T>) -> io::Result<T> {
        let (folder, name) = split(name);
        action(&self.root()?.walk(folder, self.permissions.links())?, name)
    }

    fn open_as(&self, name: &str, flags: OFlags) -> Result<OpenFile> {
        match self.in_folder(name, |folder, name| folder.open(name, flags)) {
            Ok(file) => Ok(OpenFile { file, path: self.shown(name) }),
            Err(source) => Err(self.failure(name, source)),
        }
    }

    /// Opens a file, creating it if missing, with the permissions that all files here have.
    fn make_as(&self, name: &str, mode: OpenMode) -> Result<OpenFile> {
        let folder = self.make_folder(name)?;
        match self.permissions.create_in(&folder, split(name).1, mode) {
            Ok(file) => Ok(OpenFile { file, path: self.shown(name) }),
            Err(source) => Err(self.failure(name, source)),
        }
    }

    fn lock_file(&self, name: &str) -> Result<OpenFile> {
        self.make_as(name, OpenMode::Kept)
    }

    fn make_folder(&self, name: &str) -> Result<OpenDirectory> {
        let (folder, _) = split(name);
        let explain = |source: io::Error| match source.kind() {
            ErrorKind::NotADirectory => io::Error::new(ErrorKind::NotADirectory, NO_FOLDER),
            _ => source,
        };
        self.create_folders(folder)
            .map_err(|source| failure_to_make(&self.root.join(folder).display().to_string(), explain(source)))
    }

    /// Creates the root once: it may be removed at any moment.
    fn create_folders(&self, folder: &Path) -> io::Result<OpenDirectory> {
        match self.opened.get() {
            Some(_) => self.check_root()?,
            None => self.permissions.create_root(&self.root)?,
        }
        self.permissions.create_folders_in(self.root()?, folder)
    }

    fn list_into(&self, folder: &str, opened: &OpenDirectory, names: &mut Vec<String>) -> io::Result<()> {
        for (name, is_folder) in opened.names()? {
            let path = format!("{folder}/{name}");
            match is_folder {
                true => self.list_into(&path, &opened.enter(Path::new(&name), Link::Refused)?, names)?,
                false if name.ends_with(UNFINISHED) => {}
                false => names.push(path),
            }
        }
        Ok(())
    }
}

/// Returns the folder a file is in, and its name there.
fn split(name: &str) -> (&Path, &Path) {
    let (folder, name) = name.rsplit_once('/').unwrap_or(("", name));
    (Path::new(folder), Path::new(name))
}

impl Files for Directory {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.make_as(name, OpenMode::New)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        match self.open_as(name, OFlags::RDWR) {
            // A store that may only be read, by its mode or its medium.
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                Ok(Arc::new(self.open_as(name, OFlags::RDONLY)?))
            }
            other => Ok(Arc::new(other.map_err(no_file_is_damage)?)),
        }
    }

    fn exists(&self, name: &str) -> Result<bool> {
        match self.in_folder(name, OpenDirectory::exists) {
            Err(source) if is_absent(&source) => Ok(false),
            found => found.map_err(|source| self.failure(name, source)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let opened = self.root().and_then(|root| root.walk(Path::new(folder), self.permissions.links()));
        match opened.and_then(|opened| self.list_into(folder, &opened, &mut names)) {
            Err(source) if !is_absent(&source) => return Err(self.failure(folder, source)),
            _ => names.sort(),
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.in_folder(name, OpenDirectory::remove) {
            Err(source) if !is_absent(&source) => Err(self.failure(name, source)),
            _ => Ok(()),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.make_folder(name)?;
        let unfinished = format!("{name}{UNFINISHED}");
        let draft = split(&unfinished).1;
        let path = self.shown(&unfinished);
        let made = self.permissions.create_in(&folder, draft, OpenMode::Emptied);
        let file = OpenFile { file: made.map_err(|source| failure(&path, source))?, path };
        file.write_at(0, &[bytes])?;
        file.sync()?;
        folder.rename(draft, split(name).1).map_err(|source| self.failure(name, source))?;
        self.sync_folder(name)
    }

    fn sync_folder(&self, name: &str) -> Result<()> {
        for folder in split(name).0.ancestors() {
            let opened = self.root().and_then(|root| root.walk(folder, self.permissions.links()));
            let synced = opened.and_then(|folder| folder.sync());
            synced.map_err(|source| failure(&self.root.join(folder).display().to_string(), source))?;
        }
        Ok(())
    }

    fn hold_folder(&self, folder: &str) {
        let opened = self.root().and_then(|root| HeldDirectory::open(root, folder, self.permissions.links()));
        if let Ok(folder) = opened {
            let _ = self.held.set(folder);
        }
    }

    fn displaced(&self, open: Option<(&str, &dyn File)>) -> Result<Option<String>> {
        let Some(held) = self.held.get() else { return Ok(None) };
        let links = self.permissions.links();
        let is_elsewhere = |found: io::Result<bool>| match found {
            Err(source) if is_absent(&source) => Ok(true),
            found => found.map(|is_same| !is_same),
        };
        let (root, folder) = (self.root.display().to_string(), self.shown(held.name()));
        let mut found = vec![(root, is_elsewhere(self.check_root().map(|()| true)))];
        found.push((folder, is_elsewhere(self.root().and_then(|root| held.is_in(root, links)))));
        if let Some((name, file)) = open {
            let opened = file.identity()?;
            let look = |folder: &OpenDirectory, name: &Path| Ok(opened == Some(identity(&folder.metadata_of(name)?)));
            found.push((file.path().to_owned(), is_elsewhere(self.in_folder(name, look))));
        }
        for (path, is_elsewhere) in found {
            if is_elsewhere.map_err(|source| failure(&path, source))? {
                return Ok(Some(format!("{path} was replaced or removed while the store was in use")));
            }
        }
        Ok(None)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Held> {
        let file = self.lock_file(name)?;
        let begun = Instant::now();
        loop {
            match file.file.try_lock() {
                Ok(()) => return Ok(Box::new(file)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < timeout => std::thread::sleep(LOCK_INTERVAL),
                Err(TryLockError::WouldBlock) => return Err(failure(&file.path, held_too_long(&file.file, timeout))),
                Err(TryLockError::Error(source)) => return Err(failure(&file.path, source)),
            }
        }
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

fn held_too_long(file: &fs::File, timeout: Duration) -> io::Error {
    let seconds = timeout.as_secs_f64();
    io::Error::new(ErrorKind::TimedOut, format!("the lock has been held{} for more than {seconds} s", by_holders(file)))
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

    fn identity(&self) -> Result<Option<(u64, u64)>> {
        let found = self.file.metadata().map_err(|source| failure(&self.path, source))?;
        Ok(Some(identity(&found)))
    }

    fn sync_watched(&self, unsynced: Range<u64>, written: &dyn Fn(u64)) -> Result<()> {
        write_back(&self.file, unsynced, written).map_err(|source| failure(&self.path, source))?;
        self.sync()
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

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
        drop(files.lock("table/lock", LIMIT).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
        assert!(files.create("containers/ab/one").is_err() && files.lock("table/lock", LIMIT).is_err());
        assert!(!root.exists());
        std::fs::create_dir(&root).unwrap();
        assert!(files.create("containers/ab/one").is_err() && files.lock("table/lock", LIMIT).is_err());
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
        let file = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let found = OpenFile { file, path: "/dev/full".into() }.write_at(0, &[b"x"]);
        assert!(matches!(&found, Err(Error::Full { path }) if path == "/dev/full"), "{found:?}");
    }

    #[test]
    fn a_lock_that_is_not_freed_is_waited_for_no_longer_than_agreed_and_its_holder_named() {
        let scratch = tempfile::tempdir().unwrap();
        let files = Directory::new(scratch.path(), Permissions::default());
        let _held = files.lock("table/lock", LIMIT).unwrap();
        let error = files.lock("table/lock", Duration::from_millis(50)).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("held by process {}", std::process::id())), "{error}");
    }

    #[test]
    fn a_lock_that_others_could_read_is_closed_to_them_when_it_is_taken() {
        let scratch = tempfile::tempdir().unwrap();
        let files = Directory::new(scratch.path(), Permissions::default());
        drop(files.lock("table/lock", LIMIT).unwrap());
        let path = scratch.path().join("table/lock");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        drop(files.lock("table/lock", LIMIT).unwrap());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_lock_shuts_out_the_next_and_frees_when_dropped() {
        let scratch = tempfile::tempdir().unwrap();
        let files = Directory::new(scratch.path(), Permissions::default());
        let held = files.lock("table/lock", LIMIT).unwrap();
        assert!(files.try_lock("table/lock").unwrap().is_none());
        drop(held);
        assert!(files.try_lock("table/lock").unwrap().is_some());
    }
}

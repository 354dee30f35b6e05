//! Access to the files and directories a store makes: its owner alone, or a group (`thalweg init --shared`).
//!
//! Stored content can be secret wherever it came from, so modes never depend on the umask. Files that root makes in
//! another user's store are given to that user, who could not use the store any more otherwise. That user can put links
//! in root's way: nothing reached through a link is given away.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use format::Settings;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::open_directory::{Link, OpenDirectory};
use super::ordinary::check_sole;

/// Bits of a mode that can be set.
const MODE_BITS: u32 = 0o7777;
/// Access lists that would grant others than owner and group access, to a directory and to what is made in it.
const ACCESS_LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// How often a file that others make and remove meanwhile is tried.
const ATTEMPTS: usize = 16;

/// The mode and owner of a file that is opened, or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file is an error.
    New,
    /// An existing file keeps its content.
    Kept,
    /// An existing file loses its content.
    Emptied,
}

/// Owner and modes of all files and directories of a store. The default is its owner's alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    shared_gid: Option<u32>,
    /// The user and group to whom root gives all files.
    owner: Option<(u32, u32)>,
    /// The store's directory belongs to a user whom this process need not trust: neither itself nor root.
    is_anothers: bool,
}

impl Permissions {
    /// Returns the permissions of the store in the directory `store`, which may be missing yet.
    pub fn of(store: &Path, settings: &Settings) -> Self {
        let other = other_owner(store);
        let owner = other.filter(|_| rustix::process::geteuid().is_root());
        Permissions { shared_gid: settings.shared_gid, owner, is_anothers: other.is_some() }
    }

    fn file_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o660 } else { 0o600 }
    }

    /// Returns the mode of folders: a shared directory passes its group on to what is made in it.
    fn folder_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o2770 } else { 0o700 }
    }

    /// Opens a file to read and write it, made where it is missing.
    pub fn create_file(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let folder = OpenDirectory::at(parent(path))?;
        self.check_root(&folder)?;
        let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        self.create_in(&folder, Path::new(name), mode)
    }

    /// As `create_file`, for a name in a directory that is held open: whatever is done is done to a file in that
    /// directory.
    pub fn create_in(&self, folder: &OpenDirectory, name: &Path, mode: OpenMode) -> io::Result<File> {
        let (file, is_made) = open_or_make(folder, name, mode)?;
        // A file that is there may be another's of ours, by a hard link.
        let is_sole = is_made || file.metadata()?.nlink() == 1;
        if is_sole && is_owned(&file)? {
            self.apply(&file, self.file_mode())?;
            if self.is_owners(&folder.metadata()?) {
                self.give(&file)?;
            }
        }
        if mode == OpenMode::Emptied {
            check_sole(&file)?;
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Refuses a directory that another has taken the place of: root makes nothing in one that is not of the store's
    /// owner.
    pub fn check_root(&self, folder: &OpenDirectory) -> io::Result<()> {
        let found = folder.metadata()?;
        let is_groups = self.shared_gid == Some(found.gid());
        if self.owner.is_none() || is_groups || self.is_owners(&found) {
            return Ok(());
        }
        let why = "the directory is not of the user who owns the store; it may have been replaced meanwhile";
        Err(io::Error::other(why))
    }

    fn is_owners(&self, folder: &Metadata) -> bool {
        self.owner.is_some_and(|(uid, _)| folder.uid() == uid)
    }

    /// Whether directories below the store's may be links: where others may write, a link would have files written and
    /// removed elsewhere, with the caller's rights.
    pub fn links(&self) -> Link {
        if self.shared_gid.is_some() || self.is_anothers { Link::Refused } else { Link::Followed }
    }

    /// Makes the directory `root` where it is missing, with these permissions. Its parents are made as the umask says, and
    /// all these names survive power loss.
    pub fn create_root(&self, root: &Path) -> io::Result<()> {
        if root.is_dir() {
            return Ok(());
        }
        let parent = parent(root);
        create_synced(parent)?;
        self.create_folder(root)?;
        self.close_to_others(&File::open(root)?)?;
        sync_folder(parent)
    }

    /// Makes and opens a folder below an open root: if another directory gets the root's name meanwhile, nothing is made
    /// in it.
    pub fn create_folders_in(&self, root: &OpenDirectory, folder: &Path) -> io::Result<OpenDirectory> {
        let mut above = root.walk(Path::new(""), Link::Refused)?;
        for name in folder {
            if let Some(made) = above.make(Path::new(name))? {
                self.give(&made)?;
                self.apply(&made, self.folder_mode())?;
            }
            above = above.enter(Path::new(name), self.links())?;
        }
        Ok(above)
    }

    /// Gives a directory that another user made, for a store, the store's permissions.
    pub fn take_over(&self, folder: &Path) -> io::Result<()> {
        let opened = File::open(folder)?;
        if !is_owned(&opened)? {
            let why = "it belongs to another user, who could read what is stored; name one of your own";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        self.close_to_others(&opened)
    }

    fn close_to_others(&self, folder: &File) -> io::Result<()> {
        for list in ACCESS_LISTS {
            match rustix::fs::fremovexattr(folder, list) {
                Err(Errno::NODATA | Errno::NOTSUP) => {}
                removed => removed?,
            }
        }
        self.apply(folder, self.folder_mode())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {
                let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
                self.give(&opened)?;
                self.apply(&opened, self.folder_mode())
            }
            // Another process was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a file that root made to the store's owner.
    fn give(&self, made: &File) -> io::Result<()> {
        let Some((uid, gid)) = self.owner.filter(|_| is_owned(made).unwrap_or(false)) else { return Ok(()) };
        let gid = self.shared_gid.unwrap_or(gid);
        let given = rustix::fs::fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        given.map_err(|error| if error == Errno::PERM { not_given(uid) } else { error.into() })
    }

    fn apply(&self, file: &File, mode: u32) -> io::Result<()> {
        let found = file.metadata()?;
        if let Some(gid) = self.shared_gid.filter(|gid| *gid != found.gid()) {
            rustix::fs::fchown(file, None, Some(Gid::from_raw(gid))).map_err(|error| match error {
                Errno::PERM => not_a_member(gid),
                other => other.into(),
            })?;
        }
        // Changing the group clears the bit by which a directory passes it on.
        if file.metadata()?.mode() & MODE_BITS != mode {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

/// Opens a file and returns whether it was made.
fn open_or_make(folder: &OpenDirectory, name: &Path, mode: OpenMode) -> io::Result<(File, bool)> {
    let exclusive = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    for _ in 0..ATTEMPTS {
        if mode != OpenMode::New {
            match folder.open(name, OFlags::RDWR) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => return Ok((opened?, false)),
            }
        }
        match folder.open(name, exclusive) {
            // Another process was first, or a link was put there.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && mode != OpenMode::New => {}
            made => return Ok((made?, true)),
        }
    }
    Err(io::Error::other("it is made and removed all the time"))
}

fn not_a_member(gid: u32) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("you are not a member of group {gid}, which shares the store"))
}

fn not_given(uid: u32) -> io::Error {
    let why = format!(
        "the store belongs to user {uid}, and this process may not give that user what it makes; run it as them"
    );
    io::Error::new(ErrorKind::PermissionDenied, why)
}

/// Returns user and group of a store that belongs to another user than this process's, and not to root.
fn other_owner(store: &Path) -> Option<(u32, u32)> {
    let found = fs::metadata(store).ok()?;
    let is_another = ![0, rustix::process::geteuid().as_raw()].contains(&found.uid());
    is_another.then(|| (found.uid(), found.gid()))
}

fn is_owned(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.uid() == rustix::process::geteuid().as_raw())
}

/// Makes a directory and those above it, each durably.
fn create_synced(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    create_synced(parent(folder))?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    sync_folder(parent(folder))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in this directory survive power loss.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(opened) => opened.sync_all(),
        // A directory may be writable but not readable; its file system can be synced from anywhere.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            rustix::fs::sync();
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Directory, Files};
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & MODE_BITS
    }

    #[test]
    fn a_private_store_is_its_owners_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("above/store");
        let folder = root.join("containers/07");
        let permissions = Permissions::default();
        permissions.create_root(&root).unwrap();
        let opened =
            permissions.create_folders_in(&OpenDirectory::at(&root).unwrap(), Path::new("containers/07")).unwrap();
        permissions.create_in(&opened, Path::new("one"), OpenMode::New).unwrap();
        permissions.create_in(&opened, Path::new("one"), OpenMode::New).unwrap_err();
        for path in [&root, &root.join("containers"), &folder] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(mode(&folder.join("one")), 0o600);
        assert_ne!(mode(&scratch.path().join("above")), 0o700, "directories above the store are no part of it");
    }

    #[test]
    fn a_shared_store_is_its_groups() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, gid) = (scratch.path().join("store"), rustix::process::getegid().as_raw());
        let folder = root.join("table");
        let permissions = Permissions { shared_gid: Some(gid), ..Permissions::default() };
        permissions.create_root(&root).unwrap();
        permissions.create_folders_in(&OpenDirectory::at(&root).unwrap(), Path::new("table")).unwrap();
        let file = folder.join("runs.lock");
        permissions.create_file(&file, OpenMode::Kept).unwrap();
        assert_eq!((mode(&root), mode(&folder), mode(&file)), (0o2770, 0o2770, 0o660));
        assert_eq!(fs::metadata(&file).unwrap().gid(), gid);
    }

    /// Also when it is put there after all was checked: each step is made from the directory before.
    #[test]
    fn where_others_write_no_folder_is_entered_through_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let strict = Permissions { is_anothers: true, ..Permissions::default() };
        fs::create_dir_all(at("elsewhere/07")).unwrap();
        fs::write(at("elsewhere/07/one"), "theirs").unwrap();
        fs::create_dir(at("store")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("store/containers")).unwrap();
        let files = Directory::new(at("store"), strict);
        let name = "containers/07/one";
        let refused = |error: crate::Error| assert!(error.to_string().contains("symbolic link"), "{error}");
        files.open(name).map(drop).map_err(refused).unwrap_err();
        files.exists(name).map_err(refused).unwrap_err();
        files.list("containers").map_err(refused).unwrap_err();
        files.remove(name).map_err(refused).unwrap_err();
        files.replace(name, b"ours").map_err(refused).unwrap_err();
        files.sync_folder(name).map_err(refused).unwrap_err();
        files.create("containers/08/one").map(drop).map_err(refused).unwrap_err();
        files.lock("containers/07/lock", std::time::Duration::ZERO).map(drop).map_err(refused).unwrap_err();
        assert_eq!(fs::read(at("elsewhere/07/one")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(at("elsewhere/07")).unwrap().count(), 1);
        let ours = Directory::new(at("store"), Permissions::default());
        assert_eq!(ours.open(name).unwrap().read(0, 6).unwrap(), b"theirs", "no other user writes to the store");
    }

    #[test]
    fn a_directory_that_others_could_read_is_closed_when_it_is_taken_over() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("open");
        fs::DirBuilder::new().mode(0o755).create(&folder).unwrap();
        Permissions::default().take_over(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
    }
}

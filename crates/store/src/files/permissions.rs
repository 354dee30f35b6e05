//! Access to the files and directories a store makes: its owner alone, or a group (`thalweg init --shared`).
//!
//! Stored content can be secret wherever it came from, so modes never depend on the umask. Files that root makes in
//! another user's store are given to that user, who could not use the store any more otherwise. That user can put links
//! in root's way: nothing reached through a link is given away.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use format::Settings;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::ordinary::open_ordinary;

/// Bits of a mode that can be set.
const MODE_BITS: u32 = 0o7777;
/// Access lists that would grant others than owner and group access, to a directory and to what is made in it.
const ACCESS_LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// Owner and modes of all files and directories of a store. The default is its owner's alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    shared_gid: Option<u32>,
    /// The user and group to whom root gives all files.
    owner: Option<(u32, u32)>,
}

impl Permissions {
    /// Returns the permissions of the store in the directory `store`, which may be missing yet.
    pub fn of(store: &Path, settings: &Settings) -> Self {
        Permissions { shared_gid: settings.shared_gid, owner: other_owner(store) }
    }

    fn file_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o660 } else { 0o600 }
    }

    /// Returns the mode of folders: a shared directory passes its group on to what is made in it.
    fn folder_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o2770 } else { 0o700 }
    }

    /// Opens a file with `options`, which may create it.
    pub fn create_file(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        // No other user may open it before it has its group.
        let file = open_ordinary(path, options.mode(0o600))?;
        if is_owned(&file)? {
            self.apply(&file, self.file_mode())?;
            if self.is_owners_own(path, &file)? {
                self.give(&file)?;
            }
        }
        Ok(file)
    }

    /// Makes `folder`, which is `root` or below it, and all missing folders above it. From `root` on directories have
    /// these permissions. A missing root's parents are made as the umask says, and all these names survive power loss;
    /// names below the root are synced with the files in them.
    pub fn create_folders(&self, root: &Path, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return if folder == root { Ok(()) } else { self.check_no_link(folder) };
        }
        if folder == root {
            return self.create_root(root);
        }
        if let Some(above) = folder.parent() {
            self.create_folders(root, above)?;
        }
        self.create_folder(folder)
    }

    /// As `create_folders`, for a folder below an open root: if another directory gets the root's name meanwhile, nothing
    /// is made in it.
    pub fn create_folders_in(&self, root: &File, folder: &Path) -> io::Result<()> {
        let mut above = root.try_clone()?;
        for name in folder.components().map(|component| component.as_os_str()) {
            let is_made = match rustix::fs::mkdirat(&above, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            let opened = open_folder(&above, name, is_made || self.others_write())?;
            if is_made {
                self.give(&opened)?;
                self.apply(&opened, self.folder_mode())?;
            }
            above = opened;
        }
        Ok(())
    }

    fn others_write(&self) -> bool {
        self.shared_gid.is_some() || self.owner.is_some()
    }

    /// Refuses links: where others may write, a link would have files written elsewhere, with the caller's rights.
    fn check_no_link(&self, folder: &Path) -> io::Result<()> {
        if self.others_write() && !fs::symlink_metadata(folder)?.is_dir() {
            return Err(is_a_link());
        }
        Ok(())
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

    fn create_root(&self, root: &Path) -> io::Result<()> {
        let parent = parent(root);
        create_synced(parent)?;
        self.create_folder(root)?;
        self.close_to_others(&File::open(root)?)?;
        sync_folder(parent)
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

    /// Returns whether a file at `path` lies where the store's owner could have put it, and nowhere else.
    fn is_owners_own(&self, path: &Path, file: &File) -> io::Result<bool> {
        let folder = fs::symlink_metadata(parent(path))?;
        let is_owners = self.owner.is_some_and(|(uid, _)| folder.is_dir() && folder.uid() == uid);
        Ok(is_owners && file.metadata()?.nlink() == 1)
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

/// Opens a folder in another, which may be reached through a link unless that is `strict`.
fn open_folder(above: &File, name: &OsStr, strict: bool) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flags = if strict { flags | OFlags::NOFOLLOW } else { flags };
    match rustix::fs::openat(above, name, flags, Mode::empty()) {
        Err(Errno::LOOP) => Err(is_a_link()),
        // With O_DIRECTORY a link, which is not followed, is no directory.
        Err(Errno::NOTDIR) if strict => Err(is_a_link()),
        opened => Ok(opened?.into()),
    }
}

fn is_a_link() -> io::Error {
    let why = "a symbolic link stands where a directory of the store belongs; remove it";
    io::Error::new(ErrorKind::InvalidInput, why)
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

/// Returns user and group of a store that root uses and another user owns.
fn other_owner(store: &Path) -> Option<(u32, u32)> {
    let found = fs::metadata(store).ok().filter(|_| rustix::process::geteuid().is_root())?;
    (found.uid() != 0).then(|| (found.uid(), found.gid()))
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
        permissions.create_folders(&root, &folder).unwrap();
        let file = folder.join("one");
        permissions.create_file(&file, OpenOptions::new().write(true).create_new(true)).unwrap();
        for path in [&root, &root.join("containers"), &folder] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(mode(&file), 0o600);
        assert_ne!(mode(&scratch.path().join("above")), 0o700, "directories above the store are no part of it");
    }

    #[test]
    fn a_shared_store_is_its_groups() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, gid) = (scratch.path().join("store"), rustix::process::getegid().as_raw());
        let folder = root.join("table");
        let permissions = Permissions { shared_gid: Some(gid), owner: None };
        permissions.create_folders(&root, &folder).unwrap();
        let file = folder.join("runs.lock");
        permissions.create_file(&file, OpenOptions::new().write(true).create(true).truncate(false)).unwrap();
        assert_eq!((mode(&root), mode(&folder), mode(&file)), (0o2770, 0o2770, 0o660));
        assert_eq!(fs::metadata(&file).unwrap().gid(), gid);
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

//! Who may read and write what a store makes: its owner alone, or a group (`thalweg init --shared`).
//!
//! Stored content can be secret wherever it came from, so modes never depend on the umask.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use format::Settings;
use rustix::fs::{Gid, Mode};
use rustix::io::Errno;

/// Bits of a mode that can be set.
const MODE_BITS: u32 = 0o7777;
/// Lists that would give others than owner and group access, to a directory and to what is made in it.
const ACCESS_LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// Owner and modes of all files and directories of a store. The default is its owner's alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    shared_gid: Option<u32>,
}

impl Permissions {
    pub fn of(settings: &Settings) -> Self {
        Permissions { shared_gid: settings.shared_gid }
    }

    fn file_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o660 } else { 0o600 }
    }

    /// A shared directory hands its group on to what is made in it.
    fn folder_mode(&self) -> u32 {
        if self.shared_gid.is_some() { 0o2770 } else { 0o700 }
    }

    /// Opens a file with `options`, which may create it.
    pub fn create_file(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        // Nobody else may open it before it has its group.
        let file = options.mode(0o600).open(path)?;
        if is_owned(&file)? {
            self.apply(&file, self.file_mode())?;
        }
        Ok(file)
    }

    /// Makes `folder`, which is `root` or below it, and what is missing above it. From `root` on directories have
    /// these permissions. A missing root's parents are made as the umask says, and all these names survive power loss;
    /// names below the root are synced with the files in them.
    pub fn create_folders(&self, root: &Path, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if folder == root {
            return self.create_root(root);
        }
        if let Some(above) = folder.parent() {
            self.create_folders(root, above)?;
        }
        self.create_folder(folder)
    }

    /// Gives a directory that was made by somebody else, for a store, the store's permissions.
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
            Ok(()) => self.apply(&File::open(folder)?, self.folder_mode()),
            // Another process was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn apply(&self, file: &File, mode: u32) -> io::Result<()> {
        let found = file.metadata()?;
        if let Some(gid) = self.shared_gid.filter(|gid| *gid != found.gid()) {
            rustix::fs::fchown(file, None, Some(Gid::from_raw(gid))).map_err(|error| match error {
                Errno::PERM => not_a_member(gid),
                other => other.into(),
            })?;
        }
        // A change of group takes the bit away by which a directory hands it on.
        if file.metadata()?.mode() & MODE_BITS != mode {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

fn not_a_member(gid: u32) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("you are not a member of group {gid}, which shares the store"))
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

/// The names in this directory survive power loss.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(opened) => opened.sync_all(),
        // One may make names in a directory that one may not read; its file system can be synced from anywhere.
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
        let permissions = Permissions { shared_gid: Some(gid) };
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

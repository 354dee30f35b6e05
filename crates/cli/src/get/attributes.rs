//! Attributes back onto files: owner, extended attributes, mode, times, in the order in which none undoes another.
//!
//! As root the owner is restored; others get files of their own, as from `cp`. Extended attributes that the file system
//! or our rights do not allow are left out and reported. So are attributes that give rights to a file's users, unless
//! the user asked for them: a store's content is not trusted with that.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use format::{Attributes, FileKind, FileTimes};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::{Errno, Result};

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";
/// Run as the file's owner or group; for a directory, whose group new files get.
const SET_ID_BITS: u32 = 0o6000;
const STICKY_BIT: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// File capabilities, security labels, and attributes that only root may read.
const PRIVILEGED_NAMES: [&[u8]; 2] = [b"security.", b"trusted."];

/// Something that was done without.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// One of a few nouns, to count by.
    pub kind: &'static str,
    pub why: String,
}

impl LeftOut {
    fn privilege(kind: &'static str, what: impl std::fmt::Display) -> Self {
        LeftOut { kind, why: format!("{what} (--privileged restores it)") }
    }
}

/// The attributes that are not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Setuid, setgid and sticky bits, and attributes in `security.` and `trusted.`.
    Privileges,
    Nothing,
}

impl Withheld {
    /// Returns the mode to restore, and what is left out of it. Where the sticky bit kept those who may write in a
    /// directory from each other's files, only the owner may write there without it.
    fn mode_of(self, attributes: &Attributes) -> (u32, Vec<LeftOut>) {
        let (mut mode, mut left_out) = (attributes.mode, Vec::new());
        if self == Withheld::Nothing {
            return (mode, left_out);
        }
        if mode & SET_ID_BITS != 0 {
            mode &= !SET_ID_BITS;
            left_out.push(LeftOut::privilege("setuid or setgid bit", "its setuid or setgid bit"));
        }
        if mode & STICKY_BIT != 0 {
            mode &= !STICKY_BIT;
            if attributes.kind == FileKind::Directory {
                mode &= !WRITABLE_BY_OTHERS;
            }
            left_out.push(LeftOut::privilege("sticky bit", "its sticky bit"));
        }
        (mode, left_out)
    }

    fn withholds(self, name: &[u8]) -> bool {
        self == Withheld::Privileges && PRIVILEGED_NAMES.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Whether files made in this directory get an ACL from it.
pub fn inherits_acl(directory: &OwnedFd) -> bool {
    rustix::fs::fgetxattr_query(directory, DEFAULT_ACL).is_ok()
}

/// Returns what could not be applied, or was withheld, and is done without.
pub fn apply_to_file(
    file: impl AsFd,
    attributes: &Attributes,
    inherits_acl: bool,
    withheld: Withheld,
) -> Result<Vec<LeftOut>> {
    let file = file.as_fd();
    if let Some((uid, gid)) = owner(attributes) {
        rustix::fs::fchown(file, uid, gid)?;
    }
    if inherits_acl {
        ignore_missing(rustix::fs::fremovexattr(file, ACCESS_ACL))?;
    }
    let set = |name: &[u8], value: &[u8]| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty());
    let mut missing = set_extended(attributes, withheld, set);
    let (mode, left_out) = withheld.mode_of(attributes);
    missing.extend(left_out);
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    rustix::fs::futimens(file, &timestamps(attributes))?;
    Ok(missing)
}

/// The same for the link of this name in the directory.
pub fn apply_to_symlink(
    directory: &OwnedFd,
    name: &CStr,
    attributes: &Attributes,
    withheld: Withheld,
) -> Result<Vec<LeftOut>> {
    if let Some((uid, gid)) = owner(attributes) {
        rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    // There is no call for attributes below a descriptor; /proc leads to the directory, and the last name is not
    // followed.
    let path = std::path::Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    let path = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let set = |name: &[u8], value: &[u8]| rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty());
    let missing = set_extended(attributes, withheld, set);
    rustix::fs::utimensat(directory, name, &timestamps(attributes), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(missing)
}

/// A directory with other attributes is still worth having.
pub fn apply_to_directory(directory: &OwnedFd, attributes: &Attributes, withheld: Withheld) -> Vec<LeftOut> {
    let apply = || {
        for acl in [ACCESS_ACL, DEFAULT_ACL] {
            ignore_missing(rustix::fs::fremovexattr(directory, acl))?;
        }
        apply_to_file(directory, attributes, false, withheld)
    };
    apply().unwrap_or_else(|error| vec![all_of_a_directory(error)])
}

pub fn all_of_a_directory(why: impl std::fmt::Display) -> LeftOut {
    LeftOut { kind: "directory's attributes", why: format!("its attributes: {why}") }
}

fn ignore_missing(removed: Result<()>) -> Result<()> {
    match removed {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        removed => removed,
    }
}

/// Only root can give files away.
fn owner(attributes: &Attributes) -> Option<(Option<Uid>, Option<Gid>)> {
    let known = |id: u32| id != u32::MAX;
    let is_possible = rustix::process::geteuid().is_root() && known(attributes.uid) && known(attributes.gid);
    is_possible.then(|| (Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid))))
}

fn set_extended(attributes: &Attributes, withheld: Withheld, set: impl Fn(&[u8], &[u8]) -> Result<()>) -> Vec<LeftOut> {
    let mut missing = Vec::new();
    for (name, value) in &attributes.extended {
        let shown = crate::shown::escaped(name);
        if withheld.withholds(name) {
            missing.push(LeftOut::privilege(kind_of(name), format_args!("extended attribute {shown}")));
        } else if let Err(error) = set(name, value) {
            missing.push(LeftOut { kind: kind_of(name), why: format!("extended attribute {shown}: {error}") });
        }
    }
    missing
}

fn kind_of(name: &[u8]) -> &'static str {
    match name {
        b"security.capability" => "file capability attribute",
        name if name.starts_with(b"security.") => "security.* attribute",
        name if name.starts_with(b"trusted.") => "trusted.* attribute",
        name if name.starts_with(b"system.") => "system.* attribute",
        _ => "user.* attribute",
    }
}

/// Returns the times to set. The access time stays as it is: it is not kept. So do the times of entries that have none:
/// the root, and directories that were made because a file below them was.
fn timestamps(attributes: &Attributes) -> Timestamps {
    let as_it_is = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    if attributes.times == FileTimes::default() {
        return Timestamps { last_access: as_it_is, last_modification: as_it_is };
    }
    let modified = attributes.times.modified;
    Timestamps {
        last_access: as_it_is,
        last_modification: Timespec { tv_sec: modified.seconds as _, tv_nsec: modified.nanoseconds as _ },
    }
}

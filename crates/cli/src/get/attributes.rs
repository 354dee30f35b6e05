//! Attributes back onto files: owner, extended attributes, mode, times, in the order in which none undoes another.
//!
//! As root the owner is restored; others get files of their own, as from `cp`. Extended attributes that the file
//! system or our rights do not allow are left out and reported.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use format::Attributes;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::{Errno, Result};

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Whether files made in this directory get an ACL from it.
pub fn inherits_acl(directory: &OwnedFd) -> bool {
    rustix::fs::fgetxattr_query(directory, DEFAULT_ACL).is_ok()
}

/// Returns what could not be applied and is done without.
pub fn apply_to_file(file: impl AsFd, attributes: &Attributes, inherits_acl: bool) -> Result<Vec<String>> {
    let file = file.as_fd();
    if let Some((uid, gid)) = owner(attributes) {
        rustix::fs::fchown(file, uid, gid)?;
    }
    if inherits_acl {
        ignore_missing(rustix::fs::fremovexattr(file, ACCESS_ACL))?;
    }
    let set = |name: &[u8], value: &[u8]| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty());
    let lacking = set_extended(attributes, set);
    rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode))?;
    rustix::fs::futimens(file, &timestamps(attributes))?;
    Ok(lacking)
}

pub fn apply_to_symlink(path: &Path, attributes: &Attributes) -> Result<Vec<String>> {
    if let Some((uid, gid)) = owner(attributes) {
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let set = |name: &[u8], value: &[u8]| rustix::fs::lsetxattr(path, name, value, XattrFlags::empty());
    let lacking = set_extended(attributes, set);
    rustix::fs::utimensat(CWD, path, &timestamps(attributes), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(lacking)
}

/// A directory with other attributes is still worth having.
pub fn apply_to_directory(path: &Path, attributes: &Attributes) -> Vec<String> {
    let apply = || {
        let directory = std::fs::File::open(path)?;
        for acl in [ACCESS_ACL, DEFAULT_ACL] {
            ignore_missing(rustix::fs::fremovexattr(&directory, acl))?;
        }
        Ok::<_, std::io::Error>(apply_to_file(&directory, attributes, false)?)
    };
    apply().unwrap_or_else(|error| vec![format!("its attributes: {error}")])
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

fn set_extended(attributes: &Attributes, set: impl Fn(&[u8], &[u8]) -> Result<()>) -> Vec<String> {
    let mut lacking = Vec::new();
    for (name, value) in &attributes.extended {
        if let Err(error) = set(name, value) {
            lacking.push(format!("extended attribute {}: {error}", crate::shown::escaped(name)));
        }
    }
    lacking
}

/// The access time stays as it is: it is not kept.
fn timestamps(attributes: &Attributes) -> Timestamps {
    let modified_ns = attributes.times.modified_ns;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: modified_ns.div_euclid(1_000_000_000),
            tv_nsec: modified_ns.rem_euclid(1_000_000_000) as _,
        },
    }
}

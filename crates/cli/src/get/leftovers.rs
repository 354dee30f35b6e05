//! Drafts that a killed `get` left in a directory: removed when the next one writes there.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};

/// The prefix of drafts' names; the writer's process number and a count follow.
pub const DRAFT_PREFIX: &str = ".thalweg-get-";
/// A draft younger than this may not have its lock yet.
const MIN_AGE: Duration = Duration::from_secs(60);
/// Links have no lock: only their age shows that no process is about to rename them.
const MIN_LINK_AGE: Duration = Duration::from_secs(3600);

/// Removes files that our own user's dead runs left. Those that cannot be examined or removed stay: they do no harm.
pub fn remove(directory: &OwnedFd) {
    let Ok(names) = Dir::read_from(directory) else { return };
    for entry in names.flatten() {
        if is_draft(entry.file_name()) && is_abandoned(directory, entry.file_name()) {
            let _ = rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty());
        }
    }
}

fn is_draft(name: &CStr) -> bool {
    let Some(numbers) = name.to_bytes().strip_prefix(DRAFT_PREFIX.as_bytes()) else { return false };
    let mut parts = numbers.split(|byte| *byte == b'-');
    let is_number =
        |part: Option<&[u8]>| part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

fn is_abandoned(directory: &OwnedFd, name: &CStr) -> bool {
    let Ok(found) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return false;
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => age(found.st_mtime) > MIN_AGE && is_unlocked(directory, name),
        FileType::Symlink => age(found.st_ctime) > MIN_LINK_AGE,
        _ => false,
    }
}

fn is_unlocked(directory: &OwnedFd, name: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
    opened.is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Returns how long ago that was (seconds since 1970), by this machine's clock.
fn age(seconds: i64) -> Duration {
    let then = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_drafts_are_taken_for_drafts() {
        for name in [c".thalweg-get-1-2", c".thalweg-get-4194304-0"] {
            assert!(is_draft(name), "{name:?}");
        }
        for name in
            [c".thalweg-get-1", c".thalweg-get-1-2-3", c".thalweg-get-a-1", c"thalweg-get-1-2", c".thalweg-get--1"]
        {
            assert!(!is_draft(name), "{name:?}");
        }
    }

    #[test]
    fn a_draft_under_way_stays() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".thalweg-get-1-2"), "young").unwrap();
        let directory = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
        remove(&directory);
        assert!(folder.path().join(".thalweg-get-1-2").exists());
    }
}

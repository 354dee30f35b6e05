//! The secret of a job's own node: other users of the machine reach its address too.
//!
//! It lies in a folder that only this user can enter. A run that is killed leaves its folder behind; the user's next one
//! removes it.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use format::ErrorCode;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::process::Pid;

use crate::error_code::Coded;

const NAME: &str = "thalweg-run-";
const FILE: &str = "secret";
/// The most names read in the folder of temporary files, which all users share.
const MAX_LOOKED_AT: usize = 100_000;

/// A new secret in a new folder; removed in the end.
pub(super) struct JobSecret {
    folder: PathBuf,
    /// Locked while this process lives, so that another run of this user, be it in another PID namespace, leaves it alone.
    _lock: OwnedFd,
}

impl JobSecret {
    /// In the folder of temporary files, or for a job on several hosts below the home folder, which they share.
    pub fn create(is_for_other_hosts: bool) -> anyhow::Result<Self> {
        let temporary = if is_for_other_hosts { shared_folder()? } else { std::env::temp_dir() };
        remove_left_behind(&temporary);
        let number = transfer::random_number()?;
        let folder = temporary.join(format!("{NAME}{}-{number:016x}", std::process::id()));
        let about = || format!("making a folder for the job's secret, {}", folder.display());
        std::fs::DirBuilder::new().mode(0o700).create(&folder).with_context(about)?;
        let lock = open_folder(&folder).with_context(about)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(about)?;
        let secret = JobSecret { folder, _lock: lock };
        transfer::create_secret(&secret.file())?;
        Ok(secret)
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl Drop for JobSecret {
    fn drop(&mut self) {
        remove(Some(&self.folder));
    }
}

/// One for each host: whether a process lives is only known where it would.
fn shared_folder() -> anyhow::Result<PathBuf> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.context(Coded::new(
        ErrorCode::SecretRefused,
        "no home folder for the job's secret: say --secret-file FILE, which all hosts of the job have",
    ))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let folder = home.join(".cache/thalweg/jobs").join(host);
    let about = || format!("making a folder for the job's secret, {}", folder.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(about)?;
    Ok(folder)
}

pub(super) fn remove(folder: Option<&Path>) {
    // Left behind it does no harm: only its owner can read it, and its node is gone.
    let _ = folder.map(std::fs::remove_dir_all);
}

/// Removes folders that killed runs of this user left. Best effort: those that cannot be examined stay.
fn remove_left_behind(temporary: &Path) {
    let Ok(names) = std::fs::read_dir(temporary) else { return };
    for name in names.take(MAX_LOOKED_AT).flatten().map(|entry| entry.file_name()) {
        if name.to_str().and_then(process_of).is_some_and(|process| !lives(process)) {
            let _ = remove_abandoned(&temporary.join(name));
        }
    }
}

/// Returns the process in the name of a run's folder.
fn process_of(name: &str) -> Option<Pid> {
    let (process, number) = name.strip_prefix(NAME)?.split_once('-')?;
    u64::from_str_radix(number, 16).ok().filter(|_| number.len() == 16)?;
    Pid::from_raw(process.parse().ok()?)
}

fn lives(process: Pid) -> bool {
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

/// Removes the folder if it is this user's, as a run makes it, and unlocked; and in it nothing but the secret.
fn remove_abandoned(folder: &Path) -> rustix::io::Result<()> {
    let opened = open_folder(folder)?;
    let found = rustix::fs::fstat(&opened)?;
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && Mode::from_raw_mode(found.st_mode) == Mode::RWXU;
    if !is_ours {
        return Ok(());
    }
    rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    match rustix::fs::unlinkat(&opened, FILE, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    rustix::fs::unlinkat(CWD, folder, AtFlags::REMOVEDIR)
}

fn open_folder(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, folder, flags, Mode::empty())
}

/// Processes of the job may work in other directories.
pub(super) fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(file).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// No process has a number as high as this.
    const GONE: &str = "thalweg-run-2147483647-";

    fn make(temporary: &Path, name: String, mode: u32) -> PathBuf {
        let folder = temporary.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(FILE), "secret").unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[test]
    fn folders_that_killed_runs_left_are_removed_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let named = |prefix: &str, number: u64| format!("{prefix}{number:016x}");
        let left = make(temporary.path(), named(GONE, 1), 0o700);
        let open = make(temporary.path(), named(GONE, 2), 0o755);
        let living = make(temporary.path(), named(&format!("{NAME}{}-", std::process::id()), 3), 0o700);
        let other = make(temporary.path(), format!("{GONE}notes"), 0o700);
        let full = make(temporary.path(), named(GONE, 4), 0o700);
        std::fs::write(full.join("precious"), "content").unwrap();
        let locked = make(temporary.path(), named(GONE, 5), 0o700);
        let lock = open_folder(&locked).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let victim = make(temporary.path(), "victim".into(), 0o700);
        let link = temporary.path().join(named(GONE, 6));
        symlink(&victim, &link).unwrap();
        remove_left_behind(temporary.path());
        assert!(!left.exists());
        for kept in [open.join(FILE), living, other, full.join("precious"), locked.join(FILE), victim.join(FILE), link]
        {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}

//! Keeps a command from writing outside of its directory, by Landlock, where the kernel has it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Accesses that change a file system: write a file, remove directories and files, make them of each kind, move them
/// elsewhere, and cut files.
const WRITES: u64 = 1 << 1 | 1 << 4 | 1 << 5 | 0xff << 6 | 1 << 14;
/// Those of a kernel that knows no moving between directories (version 1), and no cutting (2).
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// To write a file that is there.
const WRITE_FILE: u64 = 1 << 1;
/// What programs write besides files: devices without a disk behind them, and shared memory.
const DEVICES: [&str; 11] =
    ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "dri", "infiniband"];
/// How the names of graphics processors' devices begin.
const GRAPHICS: [&str; 2] = ["nvidia", "kfd"];
const RULE_PATH_BENEATH: libc::c_int = 1;
const CREATE_RULESET_VERSION: libc::c_uint = 1;

#[repr(C)]
struct Ruleset {
    handled_access: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent: libc::c_int,
}

/// Rules that a process can take upon itself.
pub struct Confinement {
    ruleset: OwnedFd,
}

impl Confinement {
    /// Allows writing below these directories, to [`DEVICES`], and to these open files, alone. None where the kernel has no
    /// Landlock, or may not use it.
    pub fn to(directories: &[&Path], files: &[RawFd]) -> Option<Self> {
        let version = supported_version()?;
        let handled = match version {
            1 => WRITES & !REFER & !TRUNCATE,
            2 => WRITES & !TRUNCATE,
            _ => WRITES,
        };
        let attribute = Ruleset { handled_access: handled };
        // SAFETY: the attribute outlives the call, and its size is its own.
        let ruleset =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attribute, size_of::<Ruleset>(), 0) };
        if ruleset < 0 {
            return None;
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset as libc::c_int) };
        let confinement = Confinement { ruleset };
        directories.iter().try_for_each(|directory| confinement.allow(directory, handled)).ok()?;
        devices().iter().for_each(|device| confinement.allow_device(device, handled));
        // What is no file (a pipe, a terminal) has no such rule, and needs none.
        for file in files {
            let _ = confinement.add_rule(*file, handled & (WRITE_FILE | TRUNCATE));
        }
        Some(confinement)
    }

    /// A device that is not there, or not for us, is one that the command cannot write either.
    fn allow_device(&self, device: &Path, handled: u64) {
        let access = if device.is_dir() { handled } else { handled & (WRITE_FILE | TRUNCATE) };
        let _ = self.allow(device, access);
    }

    fn allow(&self, path: &Path, access: u64) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends in NUL.
        let parent = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if parent < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened.
        let parent = unsafe { OwnedFd::from_raw_fd(parent) };
        self.add_rule(parent.as_raw_fd(), access)
    }

    fn add_rule(&self, parent: RawFd, access: u64) -> io::Result<()> {
        let rule = PathBeneath { allowed_access: access, parent };
        let ruleset = self.ruleset.as_raw_fd();
        // SAFETY: the rule outlives the call.
        let added =
            unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &raw const rule, 0) };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Confines the calling process, for good. Makes system calls alone: it is called between fork and exec.
    pub fn confine_self(&self) -> io::Result<()> {
        // SAFETY: both calls take numbers.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset.as_raw_fd(), 0) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn devices() -> Vec<PathBuf> {
    let below = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_meant = |name: &str| DEVICES.contains(&name) || GRAPHICS.iter().any(|begin| name.starts_with(begin));
    below.filter(|entry| entry.file_name().to_str().is_some_and(is_meant)).map(|entry| entry.path()).collect()
}

fn supported_version() -> Option<libc::c_long> {
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: without an attribute the call returns a version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, CREATE_RULESET_VERSION) };
    (version > 0).then_some(version)
}

//! Room kept for the verbs that make room, so that they work on a disk without a free byte.
//!
//! `rm`, `forget` and `collect` write before they free anything: a lease, a transaction, its journal record. So a file
//! of allocated blocks lies beside the store's files. Where room is short, those verbs give its blocks up for as long as
//! they run, and take them back at their end. Writers do so for moments: to record a lease or a session, without which
//! a node could not even serve readers, and to remove names.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use format::Settings;
use store::files::{OpenMode, Permissions, check_sole};

use crate::engines::state_folder;

pub(crate) const FILE: &str = "reserve";
/// Enough for the catalog's log, its index and the journal of a removal of some ten thousand names.
const RESERVE_BYTES: u64 = 8 << 20;
/// Left for the catalog while containers are rewritten.
const HELD_BACK_BYTES: u64 = 2 << 20;
/// The reserve grows by this when there may not be room for all of it.
const STEP_BYTES: u64 = 256 << 10;
/// Another process fills the reserve again, or needs it: that takes a moment.
const LOCK_ATTEMPTS: usize = 100;
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The reserve of an open store, given up by its threads together: of two that gave it up apart, neither would know how
/// long it was.
pub(crate) struct SharedReserve {
    path: PathBuf,
    settings: Settings,
    given_up: Mutex<Weak<Reserve>>,
}

impl SharedReserve {
    pub fn new(path: &Path, settings: &Settings) -> Arc<Self> {
        Arc::new(SharedReserve { path: path.to_owned(), settings: settings.clone(), given_up: Mutex::default() })
    }

    /// Gives up the reserve, if room is short, until the last of those that share it is dropped.
    pub fn take(&self) -> Arc<Reserve> {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reserve) = given_up.upgrade() {
            reserve.release();
            return reserve;
        }
        let reserve = Arc::new(Reserve::take(&self.path, &self.settings));
        *given_up = Arc::downgrade(&reserve);
        reserve
    }
}

/// The reserve of a store, given up while this lives if room is short. A failure here does not fail the verb: it may
/// still find room.
pub(crate) struct Reserve {
    /// One on each file system that the store uses, and its length before it was given up.
    files: Vec<(File, u64)>,
}

impl Reserve {
    /// Makes the reserve of a new store, where there is room for it twice.
    pub fn create(path: &Path, settings: &Settings) {
        drop(Self::take(path, settings));
    }

    /// Gives up the reserve if less than as much again is free.
    pub fn take(path: &Path, settings: &Settings) -> Self {
        let permissions = Permissions::of(path, settings);
        let state = state_folder(path, settings);
        let folders = [path, &state];
        let folders = if state == path { &folders[..1] } else { &folders };
        let mut files = Vec::new();
        for folder in folders {
            let Ok(file) = open(&folder.join(FILE), &permissions) else { continue };
            let bytes = file.metadata().map_or(0, |found| found.len());
            if lock(|| file.try_lock_shared()) {
                give_up_unless_roomy(&file);
                files.push((file, bytes));
            }
        }
        Reserve { files }
    }

    /// Whether room was short.
    pub fn is_given_up(&self) -> bool {
        self.files.iter().any(|(file, _)| file.metadata().is_ok_and(|found| found.len() == 0))
    }

    /// Takes a part back, so that rewriting containers leaves room for the transactions that free the old ones.
    pub fn hold_back(&self) {
        self.files.iter().for_each(|(file, _)| grow(file, HELD_BACK_BYTES));
    }

    /// Gives up what was held back.
    pub fn release(&self) {
        self.files.iter().for_each(|(file, _)| give_up_unless_roomy(file));
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        for (file, bytes) in &self.files {
            // Others that need the room for a moment do not know how long it was; those that need it for longer fill it
            // again at their end.
            if file.try_lock().is_ok() || (*bytes > 0 && lock(|| file.try_lock())) {
                grow(file, *bytes);
                is_roomy(file);
            }
        }
    }
}

/// A reserve has no content: anything else in its place, and a file with another name, which would be written under
/// that too, gives way to a new one.
fn open(path: &Path, permissions: &Permissions) -> std::io::Result<File> {
    let open = || permissions.create_file(path, OpenMode::Kept).and_then(|file| check_sole(&file).map(|()| file));
    match open() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            std::fs::remove_file(path)?;
            open()
        }
        opened => opened,
    }
}

fn lock(attempt: impl Fn() -> Result<(), TryLockError>) -> bool {
    (0..LOCK_ATTEMPTS).any(|_| {
        let locked = attempt().is_ok();
        if !locked {
            std::thread::sleep(LOCK_INTERVAL);
        }
        locked
    })
}

fn give_up_unless_roomy(file: &File) {
    if !is_roomy(file) {
        let _ = file.set_len(0);
    }
}

/// Whether there is room for the whole reserve and as much again. If so the file has its whole length afterwards.
fn is_roomy(file: &File) -> bool {
    let bytes = file.metadata().map_or(0, |found| found.len());
    let roomy = allocate(file, 2 * RESERVE_BYTES).is_ok();
    let _ = file.set_len(if roomy { RESERVE_BYTES } else { bytes });
    roomy
}

/// Gives the file `bytes`, or what there is room for.
fn grow(file: &File, bytes: u64) {
    let mut reached = file.metadata().map_or(0, |found| found.len());
    while reached < bytes {
        let next = bytes.min(reached + STEP_BYTES);
        if allocate(file, next).is_err() {
            let _ = file.set_len(reached);
            return;
        }
        reached = next;
    }
}

/// Gives the file blocks up to `bytes`.
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    let from = file.metadata()?.len();
    if from >= bytes {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), from, bytes - from) {
        Err(rustix::io::Errno::OPNOTSUPP) => fill(file, from, bytes),
        allocated => Ok(allocated?),
    }
}

/// For file systems that cannot allocate; bytes that none of them compresses.
fn fill(file: &File, from: u64, to: u64) -> std::io::Result<()> {
    let mut noise = blake3::Hasher::new().update(&from.to_le_bytes()).finalize_xof();
    let mut piece = vec![0; STEP_BYTES as usize];
    let mut at = from;
    while at < to {
        noise.fill(&mut piece);
        let bytes = (to - at).min(STEP_BYTES);
        match file.write_at(&piece[..bytes as usize], at) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => at += written as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

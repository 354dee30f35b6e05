//! Finds the processes that hold SQLite's locks on a catalog. Every reader of the store may lock the log's index, and hold up all
//! writers; readers need that file, so it is not closed to them.
//!
//! The kernel's list of locks names them: a process that opened the files to ask would lose SQLite's own locks on them
//! when it closes them again.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::{Metadata, metadata, read, read_to_string};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

/// Most holders that are named.
const MAX_NAMED: usize = 4;
/// The bytes of the log's index that writer, checkpointer and recovery lock. Readers lock those behind it.
const WRITER_BYTES: RangeInclusive<u64> = 120..=122;

/// Other processes that hold a lock which a writer needs, as far as the kernel names them; of each whether it holds one
/// for writing.
pub(super) struct LockHolders(BTreeMap<u32, bool>);

impl LockHolders {
    pub fn of(path: &Path) -> Self {
        let locks = read_to_string("/proc/locks").unwrap_or_default();
        let index = metadata(format!("{}-shm", path.display()));
        let of_index = index.iter().flat_map(|index| locked(&locks, index)).filter(Lock::is_of_writer);
        // Any user of the catalog holds a lock for reading on the file itself.
        let of_file = metadata(path);
        let of_file = of_file.iter().flat_map(|file| locked(&locks, file)).filter(|lock| lock.is_for_writing);
        let mut holders = BTreeMap::new();
        of_index.chain(of_file).for_each(|lock| *holders.entry(lock.process).or_default() |= lock.is_for_writing);
        holders.remove(&std::process::id());
        // One of another container.
        holders.remove(&0);
        LockHolders(holders)
    }

    /// Whether there are some, and none can be writing: SQLite never holds a writer's lock for reading.
    pub fn are_idle(&self) -> bool {
        let is_idle = |(process, is_for_writing): (&u32, &bool)| !is_for_writing || is_stopped(*process);
        !self.0.is_empty() && self.0.iter().all(is_idle)
    }
}

/// ` (process 71 of user 1000: sqlite3 catalog.sqlite)`; empty where there are none.
impl Display for LockHolders {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.0.keys().take(MAX_NAMED).copied().map(described).collect();
        if named.is_empty() { Ok(()) } else { write!(f, " ({})", named.join(", ")) }
    }
}

struct Lock {
    process: u32,
    is_for_writing: bool,
    bytes: RangeInclusive<u64>,
}

impl Lock {
    /// A line of `/proc/locks` that is no waiter's, with the file it is of.
    fn decode(line: &str) -> Option<(Lock, &str)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, how, process, file, first, last] = words[..] else { return None };
        let bytes = first.parse().ok()?..=last.parse().unwrap_or(u64::MAX);
        Some((Lock { process: process.parse().ok()?, is_for_writing: how == "WRITE", bytes }, file))
    }

    fn is_of_writer(&self) -> bool {
        self.bytes.start() <= WRITER_BYTES.end() && self.bytes.end() >= WRITER_BYTES.start()
    }
}

/// Returns the locks on the file, by the lines of `/proc/locks`.
fn locked(locks: &str, file: &Metadata) -> impl Iterator<Item = Lock> {
    let file = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    locks.lines().filter_map(Lock::decode).filter(move |(_, of)| *of == file).map(|(lock, _)| lock)
}

/// Whether a signal or a debugger has stopped it.
fn is_stopped(process: u32) -> bool {
    let stat = read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may hold any of them.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't'))
}

fn described(process: u32) -> String {
    let user = metadata(format!("/proc/{process}")).map(|found| format!(" of user {}", found.uid()));
    let command = read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let command =
        String::from_utf8_lossy(&words.join(&b' ')).chars().filter(|letter| !letter.is_control()).collect::<String>();
    let stopped = if is_stopped(process) { ", which is stopped" } else { "" };
    format!("process {process}{}: {command}{stopped}", user.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_those_of_posix_locks_on_the_file_that_do_not_wait() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let found = scratch.as_file().metadata().unwrap();
        let file = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
        let locks = format!(
            "1: POSIX  ADVISORY  READ 71 {file} 120 120\n\
             1: -> POSIX  ADVISORY  WRITE 72 {file} 120 120\n\
             2: FLOCK  ADVISORY  WRITE 73 {file} 0 EOF\n\
             3: POSIX  ADVISORY  WRITE 74 fd:01:98 0 EOF\n\
             4: POSIX  ADVISORY  READ 75 {file} 128 128\n\
             5: POSIX  ADVISORY  WRITE 76 {file} 0 EOF\n"
        );
        let found: Vec<_> =
            locked(&locks, &found).map(|lock| (lock.process, lock.is_for_writing, lock.is_of_writer())).collect();
        assert_eq!(found, [(71, false, true), (75, false, false), (76, true, true)]);
    }
}

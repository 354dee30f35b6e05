//! Which processes hold SQLite's locks on a catalog. Whoever may read the store may lock the log's index, and hold up all
//! writers; readers need that file, so it is not closed to them.
//!
//! The kernel's list of locks tells it: a process that opened the files to ask would lose SQLite's own locks on them
//! when it closes them again.

use std::collections::BTreeSet;
use std::fs::{metadata, read, read_to_string};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

/// Most holders that are named.
const MAX_NAMED: usize = 4;

/// ` (process 71 of user 1000: sqlite3 catalog.sqlite)`, for other processes that the kernel names; empty where it names
/// none.
pub(super) fn named(path: &str) -> String {
    let locks = read_to_string("/proc/locks").unwrap_or_default();
    let files = ["", "-shm"].map(|suffix| metadata(format!("{path}{suffix}")));
    let files = files.iter().flatten().map(|found| (found.dev(), found.ino()));
    let mut holders: BTreeSet<u32> = files.flat_map(|file| holders(&locks, file)).collect();
    holders.remove(&std::process::id());
    // One of another container.
    holders.remove(&0);
    let holders: Vec<String> = holders.into_iter().take(MAX_NAMED).map(described).collect();
    if holders.is_empty() { String::new() } else { format!(" ({})", holders.join(", ")) }
}

/// Returns the processes that hold a lock on the file, by the lines of `/proc/locks`.
fn holders(locks: &str, (device, inode): (u64, u64)) -> Vec<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_held = words.get(1) == Some(&"POSIX") && words.get(5) == Some(&file.as_str());
        words.get(4).filter(|_| is_held)?.parse().ok()
    };
    locks.lines().filter_map(holder).collect()
}

fn described(process: u32) -> String {
    let user = metadata(format!("/proc/{process}")).map(|found| format!(" of user {}", found.uid()));
    let command = read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let command =
        String::from_utf8_lossy(&words.join(&b' ')).chars().filter(|letter| !letter.is_control()).collect::<String>();
    format!("process {process}{}: {command}", user.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_those_of_posix_locks_on_the_file_that_do_not_wait() {
        let locks = "1: POSIX  ADVISORY  READ 71 fd:01:99 120 120\n\
                     1: -> POSIX  ADVISORY  WRITE 72 fd:01:99 120 120\n\
                     2: FLOCK  ADVISORY  WRITE 73 fd:01:99 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 74 fd:01:98 0 EOF\n";
        assert_eq!(holders(locks, (rustix::fs::makedev(0xfd, 1), 99)), [71]);
    }

    #[test]
    fn another_process_with_a_lock_on_the_logs_index_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, index) = (scratch.path().join("catalog"), scratch.path().join("catalog-shm"));
        std::fs::write(&path, "").unwrap();
        std::fs::write(&index, "").unwrap();
        let path = path.display().to_string();
        assert_eq!(named(&path), "");
        let holder = std::process::Command::new("python3")
            .args(["-c", "import fcntl,sys,time;f=open(sys.argv[1]);fcntl.lockf(f,fcntl.LOCK_SH,1,120);print(flush=True);time.sleep(60)"])
            .arg(&index)
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut holder = holder.unwrap();
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let said = named(&path);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(said.contains(&format!("process {} of user", holder.id())) && said.contains("python3"), "{said}");
    }
}

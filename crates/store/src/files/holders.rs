//! Finds the holder of a lock, for messages.

use std::fs::{File, metadata, read, read_to_string};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

/// ` by process 71 (thalweg node /scratch/st)`, for all that the kernel names; empty where it names none.
pub fn by_holders(file: &File) -> String {
    let holders: Vec<String> = holders(file).into_iter().map(described).collect();
    if holders.is_empty() { String::new() } else { format!(" by {}", holders.join(", ")) }
}

/// Whether the kernel names another process than this one that holds a lock on the file.
pub fn is_held_elsewhere(file: &File) -> bool {
    holders(file).into_iter().any(|process| process != std::process::id())
}

/// Returns the processes that took locks on the file, as far as they are visible from here.
fn holders(file: &File) -> Vec<u32> {
    let (Ok(found), Ok(locks)) = (file.metadata(), read_to_string("/proc/locks")) else { return Vec::new() };
    let which = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&which.as_str());
        words.get(4).filter(|_| is_ours)?.parse().ok()
    };
    let mut holders: Vec<u32> = locks.lines().filter_map(holder).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

/// Names the user too where that is another.
fn described(process: u32) -> String {
    let user = metadata(format!("/proc/{process}")).map(|found| found.uid()).ok();
    let user = user.filter(|uid| *uid != rustix::process::geteuid().as_raw());
    let of_user = user.map_or_else(String::new, |uid| format!(" of user {uid}"));
    let command = read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => format!("process {process}{of_user}"),
        false => format!("process {process}{of_user} ({})", String::from_utf8_lossy(&words.join(&b' '))),
    }
}

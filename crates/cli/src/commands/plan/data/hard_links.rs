//! Files with several names, of which a store reads one.

use std::collections::HashSet;

use rustix::fs::Stat;

/// Files that are remembered (24 MiB): of more, each name counts, and deduplication finds their content again.
const MAX_FILES: usize = 1 << 20;

#[derive(Default)]
pub struct HardLinks {
    /// Device and inode.
    known: HashSet<(u64, u64)>,
}

impl HardLinks {
    /// Tells whether the file was met under another name before.
    pub fn is_known(&mut self, stat: &Stat) -> bool {
        let file = (stat.st_dev, stat.st_ino);
        if stat.st_nlink < 2 || self.known.len() == MAX_FILES {
            return stat.st_nlink >= 2 && self.known.contains(&file);
        }
        !self.known.insert(file)
    }
}

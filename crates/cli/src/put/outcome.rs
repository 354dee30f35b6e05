//! The result of one name of a source.

use std::collections::BTreeSet;
use std::path::PathBuf;

use format::{Change, ContainerId, StorePath};

pub enum Outcome {
    /// To be committed.
    Change(Box<Ready>),
    /// Another name of the file at `target`, which may still be on its way: made last.
    Link { path: StorePath, target: StorePath, replaces: bool, is_new: bool },
    /// As it was when it was put last; some was read to find that.
    Unchanged { path: StorePath, bytes: u64, read_bytes: u64 },
    /// A dry run would read the file and store what is new of it.
    Planned { path: StorePath, bytes: u64, is_new: bool },
    /// Versions go with the change of this name that comes.
    Dropped { path: PathBuf, what: String },
    /// Passed over as the user asked.
    Excluded { path: StorePath },
    /// Neither file, directory nor symlink.
    Skipped { path: PathBuf, what: &'static str },
    /// Could not be read.
    Left { path: PathBuf, why: String },
    /// Stored as last read, although it kept changing.
    Changing { path: PathBuf },
    /// Stored, except for this.
    Incomplete { path: PathBuf, why: String },
    /// The store failed: the run ends.
    Failed(anyhow::Error),
}

pub struct Ready {
    pub change: Change,
    /// The name's present entry must go first: it is of another kind, or a file shared with other names.
    pub replaces: bool,
    /// The store had nothing under the name.
    pub is_new: bool,
    /// The file's content is what its newest version had.
    pub is_same_content: bool,
    pub references: BTreeSet<ContainerId>,
    /// Bytes read.
    pub bytes: u64,
}

impl Ready {
    /// Makes a change without content.
    pub fn plain(change: Change, replaces: bool, is_new: bool) -> Self {
        Ready { change, replaces, is_new, is_same_content: false, references: BTreeSet::new(), bytes: 0 }
    }
}

//! The result of one name of a source.

use std::collections::BTreeSet;
use std::path::PathBuf;

use catalog::FileEntry;
use format::{Change, ContainerId, StorePath};
use segment::Rounded;

use crate::failed_name::FailedName;

pub enum Outcome {
    /// To be committed.
    Change(Box<Ready>),
    /// Another name of the file at `target`, which may still be on its way: made last.
    Link { path: StorePath, target: StorePath, replaces: bool, is_new: bool },
    /// As it was when it was put last; some was read to find that.
    Unchanged { path: StorePath, bytes: u64, read_bytes: u64, known: Known },
    /// A dry run would read the file and store what is new of it.
    Planned { path: StorePath, bytes: u64, is_new: bool },
    /// Versions go with the change of this name that comes.
    Dropped { path: PathBuf, what: String },
    /// Passed over as the user asked.
    Excluded { path: StorePath },
    /// Neither file, directory nor symlink.
    Skipped { path: PathBuf, what: &'static str },
    /// Could not be read: what the store has there, and below it, stays.
    Left { failed: FailedName, target: Option<StorePath> },
    /// Stored as last read, although it kept changing.
    Changing { path: PathBuf },
    /// Stored, except for this.
    Incomplete { path: PathBuf, why: String },
    /// The store failed: the run ends.
    Failed(anyhow::Error),
}

/// The state of an unchanged name in the store.
pub enum Known {
    Entry(Box<FileEntry>),
    /// Another name of the file that this one has.
    SameAs(StorePath),
    /// The root.
    Nothing,
}

impl Known {
    pub fn of(entry: Option<&FileEntry>) -> Self {
        entry.map_or(Known::Nothing, |entry| Known::Entry(Box::new(entry.clone())))
    }
}

pub struct Ready {
    pub change: Change,
    /// The name's present entry must go first: it is of another kind, or a file shared with other names.
    pub replaces: bool,
    /// The store had nothing under the name.
    pub is_new: bool,
    /// The file whose newest version has the same content.
    pub known: Option<Box<FileEntry>>,
    pub references: BTreeSet<ContainerId>,
    /// Bytes read.
    pub bytes: u64,
    /// What rounding the file came to, where it was asked for.
    pub rounded: Option<Rounded>,
}

impl Ready {
    /// Makes a change without content.
    pub fn plain(change: Change, replaces: bool, is_new: bool) -> Self {
        Ready { change, replaces, is_new, known: None, references: BTreeSet::new(), bytes: 0, rounded: None }
    }
}

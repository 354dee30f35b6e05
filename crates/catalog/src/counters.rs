//! The numbers a catalog gives out. Each only rises, so none is ever given twice.
//!
//! Files that have versions count from 1; directories and symlinks count from 2⁶², apart from them. A
//! journal names only the former: replaying one with gaps can so never give a file's number to a directory.

use format::{ContainerId, FileId, SessionId};

/// Directories and symlinks have numbers from here on.
const FIRST_UNVERSIONED: u64 = 1 << 62;

/// The number of the root directory, the first of its kind.
pub(crate) const ROOT: FileId = FileId(FIRST_UNVERSIONED);

/// The last number given of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Transactions recorded in the journal, without a gap: a number that is in no container is a lost record.
    pub sequence: u64,
    /// Transactions that refer to containers: commits, checkpoints and copies of lost segments.
    pub referral: u64,
    /// Times that containers were condemned or moved.
    pub epoch: u64,
    pub session: u64,
    pub container: u64,
    pub versioned: u64,
    pub unversioned: u64,
}

impl Counters {
    pub fn new() -> Self {
        Counters {
            sequence: 0,
            referral: 0,
            epoch: 0,
            session: 0,
            container: 0,
            versioned: 0,
            unversioned: FIRST_UNVERSIONED,
        }
    }

    pub fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub fn next_referral(&mut self) -> u64 {
        self.referral += 1;
        self.referral
    }

    pub fn next_session(&mut self) -> SessionId {
        self.session += 1;
        SessionId(self.session)
    }

    pub fn next_container(&mut self) -> ContainerId {
        self.container += 1;
        ContainerId(self.container)
    }

    /// Returns the next number for a file that has versions.
    pub fn next_versioned(&mut self) -> FileId {
        self.versioned += 1;
        FileId(self.versioned)
    }

    /// Returns the next number for a directory or symlink.
    pub fn next_unversioned(&mut self) -> FileId {
        self.unversioned += 1;
        FileId(self.unversioned)
    }
}

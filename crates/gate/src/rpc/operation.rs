//! A call's meaning to the gate: whether it waits for a grant, and its cost.

use super::call::Call;
use super::{gluster, nfs};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Asks for this many bytes, which its reply brings. Waits for a grant.
    Read { bytes: u64 },
    /// Brings this many bytes. Waits for a grant.
    Write { bytes: u64 },
    /// Passes when the writes before it on its connection have passed: it makes durable, cuts or closes what they write.
    AfterWrites,
    /// NFS: the reply says how much one READ and WRITE may carry.
    FileSystemInfo,
    /// GlusterFS: the client's calls from here on belong to this volume.
    Attach { volume: String },
    /// Passes at once.
    Other,
}

impl Operation {
    /// Decodes a call. Program numbers distinguish the protocols. Calls that are not understood pass at once: the
    /// server refuses them in its own words.
    pub fn of(call: &Call) -> Self {
        nfs::operation(call).or_else(|| gluster::operation(call)).unwrap_or(Operation::Other)
    }
}

//! The trait every segment store offers, and the one it needs of the catalog.

use std::time::Duration;

use format::{Block, ContainerId, ErrorCode, Fingerprint, Label, LostSegment, Run, SegmentAddress, SegmentEntry};

/// A store is far whose answers are under way for so long: beyond a machine room, and longer than it takes to decode what
/// they bring.
pub const FAR: Duration = Duration::from_millis(2);

/// A store's answer about a requested segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Stored here already, or being stored by this process.
    Have(SegmentAddress),
    /// Not stored: the caller now holds the claim and is expected to put it.
    Send,
    /// Another claim owner is about to put it: call [`SegmentStore::await_claims`] after putting one's own.
    Claimed,
}

/// An owner of claims: one pipeline, one connection. Numbers are the caller's to choose and must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimOwner(pub u64);

/// A block as it lies in a container, with its segments' numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// In the order of the block's segments; the counts add up to their number.
    pub labels: Vec<Label>,
    pub block: Block,
}

impl StoredBlock {
    /// Returns the address of each segment, in order.
    pub fn addresses(&self) -> impl Iterator<Item = SegmentAddress> + '_ {
        self.labels.iter().flat_map(|label| {
            (label.first..label.first + label.count).map(|ordinal| SegmentAddress::new(label.container, ordinal))
        })
    }
}

/// Why a store operation failed, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such container or segment: collected, or a manifest that does not belong here.
    #[error("{what} is not in the store")]
    NotFound { what: String },
    /// Stored bytes have changed; other containers are still readable.
    #[error("{path} is damaged at byte {offset}: {why}; `thalweg verify --data` lists what is affected")]
    Corrupt { path: String, offset: u64, why: String },
    /// No room left; nothing half-written is visible.
    #[error(
        "{path}: the disk is full; make room (`rm` or `forget`, then `collect`, work on a full disk) and run again"
    )]
    Full { path: String },
    #[error(transparent)]
    Format(#[from] format::Error),
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    /// The peer cannot be reached now; trying again may help.
    #[error("{peer}: {why}")]
    Unavailable { peer: String, why: String },
    /// A node refused the request or failed at it; `why` is its own sentence.
    #[error("{peer}: {why}")]
    Node { peer: String, why: String, code: ErrorCode },
    /// The peer serves another store than the one that was opened.
    #[error("another store is served at {peer} now; begin again")]
    Replaced { peer: String },
    /// Data since the last success may be lost, so nothing more is accepted: a write failed earlier, or the node at the
    /// other end was restarted. `why` is the whole sentence.
    #[error("{why}")]
    Failed { why: String },
}

impl Error {
    /// Returns whether stored bytes are missing or have changed.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::NotFound { .. } | Error::Corrupt { .. })
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Error::NotFound { .. } => ErrorCode::DataMissing,
            Error::Corrupt { .. } => ErrorCode::DataDamaged,
            Error::Full { .. } => ErrorCode::DiskFull,
            Error::Format(error) => error.code(),
            Error::Io { source, .. } => ErrorCode::of_io(source.kind()),
            Error::Unavailable { .. } => ErrorCode::NodeUnreachable,
            Error::Node { code, .. } => *code,
            Error::Replaced { .. } => ErrorCode::StoreReplaced,
            Error::Failed { .. } => ErrorCode::WriteFailedEarlier,
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// Segments by fingerprint and by address. Batched; safe to use from many threads.
///
/// The order of use is `missing` → `put` the segments to send → `await_claims` for the rest → `make_durable` → commit
/// in the catalog. Abandoning it in between only needs `release`.
pub trait SegmentStore: Send + Sync {
    /// Returns for each fingerprint whether it must be sent. Equal fingerprints within one call: the first is answered
    /// `Send`, the later ones `Claimed` (by the caller itself; its own put resolves them).
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>>;

    /// As `missing`, but waits until no answer is `Claimed` by *another* claim owner any more. A segment whose claim
    /// owner gave up, or kept others waiting for some seconds, is answered `Send`. Put your own claims first, or two
    /// claim owners may wait for each other.
    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>>;

    /// Stores a block; its segments get consecutive ordinals of one container, and the claim owner's claims on them are
    /// resolved. The block's content is trusted: a caller checks blocks received from clients first.
    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> Result<Run>;

    /// As `put` of one block after another; returns the run of each. After an error some of them may be stored. A store
    /// whose answers take long sends the next blocks before it has the answer to the first.
    fn put_all(&self, claim_owner: ClaimOwner, blocks: &mut dyn Iterator<Item = Block>) -> Result<Vec<Run>> {
        blocks.map(|block| self.put(claim_owner, &block)).collect()
    }

    /// Returns how long an answer is under way at least: nothing for a store on this machine.
    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether blocks with numbers of this container come over a network rather than from this machine's disks,
    /// however long that takes.
    fn is_remote(&self, _container: ContainerId) -> bool {
        false
    }

    /// Releases all open claims of this claim owner.
    fn release(&self, claim_owner: ClaimOwner);

    /// Returns the encoded blocks that hold the run's segments, each once, in the order of the run.
    fn get(&self, run: Run) -> Result<Vec<StoredBlock>>;

    /// Hands over what `get` returns for one run after another, as long as `take` wants more; runs that are missing or damaged
    /// are left out. A store whose answers take long sends the next requests before it has the answer to the first. Ends at
    /// any other error.
    fn get_each(&self, runs: &[Run], take: &mut dyn FnMut(Vec<StoredBlock>) -> bool) -> Result<()> {
        get_one_by_one(self, runs, take)
    }

    /// Returns fingerprint and length of each segment of the run, in order.
    fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>>;

    /// Returns when everything put before survives power loss, and is readable by other processes.
    fn make_durable(&self) -> Result<()>;
}

/// [`SegmentStore::get_each`] of a store whose answers take no time: each run is asked for by itself.
pub fn get_one_by_one(
    store: &(impl SegmentStore + ?Sized),
    runs: &[Run],
    take: &mut dyn FnMut(Vec<StoredBlock>) -> bool,
) -> Result<()> {
    for run in runs {
        let is_enough = match store.get(*run) {
            Ok(found) => !take(found),
            Err(error) if error.is_damage() => false,
            Err(error) => return Err(error),
        };
        if is_enough {
            break;
        }
    }
    Ok(())
}

/// The facts about a container when it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SealedContainer {
    /// Length of the file.
    pub stored_bytes: u64,
    pub segments: u64,
}

/// The operations a local store needs of the catalog; a trait so that this crate need not know catalogs.
pub trait Registrar: Send + Sync {
    /// Returns a new container number, registered as open before the container's first byte.
    fn open(&self) -> Result<ContainerId>;

    /// Notes that the container has its footer and no longer changes.
    fn sealed(&self, container: ContainerId, facts: SealedContainer) -> Result<()>;

    /// Notes that the container ends before some of its segments, for which there was no room, and has no footer. No
    /// address in it that was given until now may be committed.
    fn truncated(&self, container: ContainerId) -> Result<()>;

    /// Returns the container in whose file duplicates of this logical number may be searched for; none when the number
    /// may not be referred to. A file that collection has replaced may still be there for older readers: it is not this
    /// one.
    fn referable(&self, container: ContainerId) -> Result<Option<ContainerId>>;

    /// Returns a number that changes whenever earlier answers of [`Registrar::referable`] must not be used any more.
    fn epoch(&self) -> u64;

    /// Returns the containers in whose files this logical number's segments are found: the one that holds them now,
    /// then those it has left, newest first. Collection leaves dead segments behind when it rewrites a file, and the
    /// old file stays for older sessions, which may still refer to them.
    fn locate(&self, container: ContainerId) -> Result<Vec<ContainerId>>;

    /// Returns how long the container's file was when it had got its footer (bytes); 0 of one without.
    fn sealed_bytes(&self, _container: ContainerId) -> Result<u64> {
        Ok(0)
    }

    /// Returns whether a live writer may still add to the container's file.
    fn is_growing(&self, _container: ContainerId) -> Result<bool> {
        Ok(true)
    }

    /// Records segments that could not be read.
    fn lose(&self, _lost: &[(SegmentAddress, Fingerprint)]) -> Result<()> {
        Ok(())
    }

    /// Returns all segments that were recorded as lost, healed or not.
    fn lost(&self) -> Result<Vec<LostSegment>> {
        Ok(Vec::new())
    }

    /// Records where durable copies of lost segments lie.
    fn heal(&self, _healed: &[(LostSegment, SegmentAddress)]) -> Result<()> {
        Ok(())
    }
}

//! The trait every catalog offers, and what it speaks of.

use format::{
    Attributes, Change, ContainerId, FileId, Fingerprint, HandleKey, JournalRecord, LostSegment, Root, SegmentAddress,
    SessionId, StorePath, VersionId, VersionRecord,
};

/// Why a catalog refused or failed, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: no such file or directory in the store")]
    NotFound { path: StorePath },
    #[error("{path}: {why}")]
    Refused { path: StorePath, why: &'static str },
    /// The commit refers to containers that were condemned or rewritten since the session began: put those
    /// segments again, refer to the new places, and commit again.
    #[error("{} container(s) the commit refers to are no longer live", containers.len())]
    NotLive { containers: Vec<ContainerId> },
    /// The path's head is no longer the version the commit was based on: rebase and commit again.
    #[error("{path}: another writer committed first")]
    HeadMoved { path: StorePath, head: Option<VersionId> },
    /// The session's lease ran out: nothing it wrote was committed.
    #[error("session {session} holds no lease any more; its work was not committed")]
    LeaseLost { session: SessionId },
    /// Another node has taken over this stripe set of the path's session.
    #[error("stripe set {stripe_set} of session {session} was taken over by another node")]
    StripeSetLost { session: SessionId, stripe_set: u32 },
    #[error("the catalog at {path} is of format {found}, newer than this program knows; use a newer thalweg")]
    TooNew { path: String, found: u16 },
    #[error(
        "the catalog at {path} was made by an older thalweg, whose formats this one does not read; get the files with \
         that one, and put them into a new store"
    )]
    TooOld { path: String },
    #[error(
        "the catalog at {path} is damaged: {why}; `thalweg verify --rebuild-catalog` makes it again from the containers"
    )]
    Corrupt { path: String, why: String },
    #[error(
        "{path}: the disk is full; make room (`rm` or `forget`, then `collect`, work on a full disk) and run again"
    )]
    Full { path: String },
    #[error("the catalog at {path}: {why}")]
    Io { path: String, why: String },
    #[error("{peer}: {why}")]
    Unavailable { peer: String, why: String },
}

pub type Result<T> = std::result::Result<T, Error>;

/// What a session is for; shown by `thalweg sessions`, and only path sessions can hold checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    Read = 0,
    Write = 1,
    Path = 2,
}

/// A lease: while it is held, no container condemned after `epoch` is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub epoch: u64,
}

/// Open (being written) → live → condemned (unreferenced, file still there) → gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ContainerState {
    Open = 0,
    Live = 1,
    Condemned = 2,
    Gone = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRecord {
    pub id: ContainerId,
    pub state: ContainerState,
    /// The container whose file holds the segments; its own number unless collection rewrote it.
    pub physical: ContainerId,
    /// Of the file that was made with this number, as it was sealed (bytes).
    pub stored_bytes: u64,
    /// Likewise.
    pub segments: u64,
}

impl ContainerRecord {
    /// Whether it was closed, so that its file's length is known.
    pub fn was_sealed(&self) -> bool {
        self.stored_bytes > 0
    }

    /// Whether new commits may refer to it.
    pub fn is_referable(&self) -> bool {
        matches!(self.state, ContainerState::Open | ContainerState::Live)
    }
}

/// All of it or none of it, in one transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    pub session: SessionId,
    /// Every container the new versions refer to. Each must be open or live, and not rewritten since `epoch`.
    pub references: Vec<ContainerId>,
    /// The session's epoch when the earliest of the answers was given that the references rest on; the session's
    /// own counts when that is older.
    pub epoch: u64,
    pub changes: Vec<Change>,
    /// Checkpoints whose writes this commit carries, as (path session, stripe set, number): those of the stripe set up to
    /// this number are dropped.
    pub checkpoints: Vec<(SessionId, u32, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub sequence: u64,
    /// File and version number of each `Change::Write`, in order.
    pub numbers: Vec<(FileId, u64)>,
}

/// One version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Counts 1, 2, 3 … within the file; never reused.
    pub number: u64,
    pub committed_ns: i64,
    pub record: VersionRecord,
    /// What the file had when a newer version took this one's place. None of the newest, which has the file's, and of
    /// those that catalogs of earlier formats replaced.
    pub attributes: Option<Box<Attributes>>,
}

/// What a name points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub file: FileId,
    pub attributes: Attributes,
    /// The newest version; none for directories and symlinks.
    pub head: Option<Version>,
    /// How many names the file has.
    pub links: u64,
}

impl FileEntry {
    /// Which version a change of the file is to be based on.
    pub fn head_id(&self) -> Option<VersionId> {
        self.head.as_ref().map(|head| VersionId { file: self.file, number: head.number })
    }
}

/// A live or interrupted session of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSession {
    pub id: SessionId,
    pub path: StorePath,
    /// Addresses of the nodes by stripe set: stripe `s` of the file belongs to stripe set `s mod nodes.len()`. Stripe set 0 is home.
    pub nodes: Vec<String>,
    pub stripe_bytes: u64,
    /// What `thalweg run` named the job, to find what a job left behind; empty outside one.
    pub job: String,
    pub opened_ns: i64,
    /// Handles open now.
    pub handles: u32,
    /// The lease has run out: its owner died. What it had checkpointed can be recovered.
    pub interrupted: bool,
}

/// Asks for the live session of a path, or a new one.
#[derive(Clone, Debug)]
pub struct Join {
    pub path: StorePath,
    /// Used when the session is new; one that lives keeps its own.
    pub nodes: Vec<String>,
    pub stripe_bytes: u64,
    pub job: String,
    /// The new handle's. Joining again with it adds no second handle.
    pub key: HandleKey,
    pub lease_ms: u64,
}

/// What one stripe set has made durable of a path session: a manifest of the ranges written since its last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub session: SessionId,
    pub stripe_set: u32,
    /// The node process that holds the stripe set: see [`Catalog::take_stripe_set`].
    pub owner: u64,
    /// Counts up within the stripe set; checkpoints are applied in this order.
    pub number: u64,
    /// The MPI epoch it belongs to (syncs so far).
    pub epoch: u64,
    /// A sparse manifest: entries written, and holes of kind `Hole` where nothing was written.
    pub root: Root,
    /// Size of the file as this stripe set knows it.
    pub size: u64,
    /// The size was set since the stripe set's last checkpoint; otherwise the file only grew.
    pub resized: bool,
    /// (client, stream, sequence): all pieces of that stream up to this one are in this or an earlier checkpoint
    /// of the stripe set, and are repetitions when they come again.
    pub frontier: Vec<(u64, u32, u64)>,
    /// (offset, length, stamp): when what is in `root` arrived, where pieces older than some of it may still come
    /// again; elsewhere everything that comes again is newer.
    pub stamps: Vec<(u64, u64, u64)>,
}

/// The moment a collection begins to mark from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the last transaction before it that refers to containers.
    pub referral: u64,
    pub epoch: u64,
}

/// The highest numbers that catalogs of a store have given, as far as is known; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssuedNumbers {
    pub sequence: u64,
    pub container: u64,
    pub session: u64,
    /// Of files that have versions.
    pub file: u64,
}

impl IssuedNumbers {
    /// The higher of each.
    pub fn max(&self, other: &Self) -> Self {
        IssuedNumbers {
            sequence: self.sequence.max(other.sequence),
            container: self.container.max(other.container),
            session: self.session.max(other.session),
            file: self.file.max(other.file),
        }
    }
}

/// Something in a journal that only makes sense after a record that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Of the record it stands in.
    pub sequence: u64,
    pub path: StorePath,
    pub why: String,
}

/// A catalog at one moment.
pub trait CatalogView {
    /// The last sequence that was given.
    fn sequence(&self) -> Result<u64>;

    /// As [`Catalog::unjournaled`], all of them.
    fn unjournaled(&self) -> Result<Vec<JournalRecord>>;

    /// All names, from after `after`, as [`Catalog::list`].
    fn list(&self, after: Option<&StorePath>, limit: usize) -> Result<Vec<(StorePath, FileEntry)>>;

    /// As [`Catalog::versions`].
    fn versions(&self, path: &StorePath) -> Result<Vec<Version>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Regular files; one with several names counts once.
    pub files: u64,
    /// Without the root.
    pub directories: u64,
    pub versions: u64,
    /// Sum of the sizes of all kept versions (bytes), without those that have the content of the one before and differ in
    /// attributes alone.
    pub logical_bytes: u64,
    /// Container files that bear an open or live number.
    pub live_containers: u64,
    /// Container files that bear none and are not deleted yet.
    pub condemned_containers: u64,
    /// Sum of the sizes of the container files that are not gone (bytes).
    pub container_bytes: u64,
    pub container_segments: u64,
}

/// Names, versions, container states, sessions. Every call is one transaction; all are safe from many
/// threads and, for engines on disk, many processes.
pub trait Catalog: Send + Sync {
    // Sessions. Leases run by the catalog's clock.

    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session>;

    /// As `begin`, for a client of a node, by its number: see [`Catalog::is_begun_for`].
    fn begin_for(&self, client: u64, purpose: Purpose, lease_ms: u64) -> Result<Session>;

    /// Whether the session was begun for this client (the highest bit of its number does not count); none when there is
    /// no such session. Sessions of processes of this machine, and of paths, were begun for no client.
    fn is_begun_for(&self, session: SessionId, client: u64) -> Result<Option<bool>>;

    /// Extends the lease. With `refresh` the session's epoch becomes today's: its holder declares that it
    /// relies on no earlier answer. A lease that ran out but was not yet ended by a collection is renewed.
    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session>;

    /// Ends the session; containers it left open become live. Ending twice is no error.
    fn end(&self, session: SessionId) -> Result<()>;

    // Containers.

    /// Numbers count up from 1 and are never reused. The session must hold a lease.
    fn open_container(&self, session: SessionId) -> Result<ContainerId>;

    /// Open → live.
    fn seal_container(&self, container: ContainerId, stored_bytes: u64, segments: u64) -> Result<()>;

    fn container(&self, container: ContainerId) -> Result<Option<ContainerRecord>>;

    /// The containers in whose files the number's segments lie, as far as they are not deleted: the one that holds them
    /// now, then those it moved away from, newest first. Empty for a number that is gone or was never given.
    fn files_of(&self, container: ContainerId) -> Result<Vec<ContainerId>>;

    /// Those that a session which holds its lease has open, by number: their files still grow.
    fn growing(&self) -> Result<Vec<ContainerId>>;

    /// All that are not gone, by number.
    fn containers(&self) -> Result<Vec<ContainerRecord>>;

    // Names and versions.

    /// Applies all changes or none. Checks, in this order: the session's lease, the references, each change.
    /// The transaction is kept for [`Catalog::unjournaled`].
    fn commit(&self, commit: &Commit) -> Result<Committed>;

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>>;

    /// What lies in a directory, or everything below it, in byte order of the paths, from after `after`, at
    /// most `limit`. The directory itself is not listed. Refused for what is no directory.
    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>>;

    /// Oldest first.
    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.versions_after(path, 0, usize::MAX)
    }

    /// The same, those with numbers above `after`, and at most `limit`.
    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>>;

    // The journal.

    /// Transactions not yet kept by a container, in order of sequence.
    fn unjournaled(&self, limit: usize) -> Result<Vec<JournalRecord>>;

    /// A container keeps these now, durably.
    fn journaled(&self, sequences: &[u64]) -> Result<()>;

    /// Those of these records, each told by sequence and [`JournalRecord::checksum_of`], that this catalog did not write.
    /// A record is in a container only after its transaction: one that is not known here says that the catalog is an
    /// older copy, or that two catalogs of the store went on apart.
    fn unknown_records(&self, records: &[(u64, u64)]) -> Result<Vec<u64>>;

    /// Has the journal state again what is at these paths now, or that nothing is, in transactions that change nothing here:
    /// its records of them are lost.
    fn restate(&self, session: SessionId, paths: &[StorePath]) -> Result<()>;

    /// Has the journal keep records without changes in the place of these, which are lost: whatever they changed was stated
    /// again, so that nothing is missing.
    fn fill_gaps(&self, session: SessionId, sequences: &[u64]) -> Result<()>;

    /// Sequences of all records that this catalog wrote or was made from, in order; none when it does not know them all,
    /// since some are older than its format.
    fn known_records(&self) -> Result<Option<Vec<u64>>>;

    /// What the engine itself finds wrong with what it keeps: reads all of it.
    fn integrity(&self) -> Result<Vec<String>>;

    /// Names, versions and outbox as they are at this moment, however long they are looked at.
    fn view(&self) -> Result<Box<dyn CatalogView + '_>>;

    /// Fills an *empty* catalog: containers as found, and records sorted by sequence, without repetition.
    /// The next container, file, session and sequence numbers are above all that occur, and above those `given`.
    /// Returns what could not be done because records before it are missing.
    fn replay(
        &self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Result<Vec<SkippedRecord>>;

    // Sessions of paths.

    /// Joins the path's live session, adding a handle with the key and extending the lease, or begins one. An interrupted
    /// session is left alone: a new one begins beside it.
    fn join(&self, join: &Join) -> Result<PathSession>;

    fn path_session(&self, session: SessionId) -> Result<Option<PathSession>>;

    /// How long the lease of a live session still runs (ms) if nobody renews it; none where that is not known.
    fn lease_left_ms(&self, _session: SessionId) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The path's live session, if any.
    fn live_session(&self, path: &StorePath) -> Result<Option<PathSession>>;

    /// All of them, interrupted ones included, oldest first.
    fn path_sessions(&self) -> Result<Vec<PathSession>> {
        self.path_sessions_after(SessionId(0), usize::MAX)
    }

    /// The same, those with numbers above `after`, and at most `limit`.
    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>>;

    /// Whether the key is one of the session's handles, or of one that was taken off: who got it was let in. None when
    /// there is no such session.
    fn has_handle(&self, session: SessionId, key: &HandleKey) -> Result<Option<bool>>;

    /// Takes the key's handle off; one that is off already, or never was there, changes nothing. With the last one the
    /// session ends if it has no checkpoints left, and otherwise is interrupted at once. Returns the handles left.
    fn leave(&self, session: SessionId, key: &HandleKey) -> Result<u32>;

    /// Takes all handles off a path's session: nobody is left who could commit it.
    fn leave_all(&self, session: SessionId) -> Result<()>;

    /// Drops the session with its checkpoints: after recovery, or when nobody wants it.
    fn discard(&self, session: SessionId) -> Result<()>;

    /// `owner` (a number of the node process's own) takes a stripe set, from whoever had it. From now on only its
    /// checkpoints count. Returns the number its next checkpoint gets, which is above all it had and above what
    /// any earlier taking of this stripe set returned.
    fn take_stripe_set(&self, session: SessionId, stripe_set: u32, owner: u64) -> Result<u64>;

    /// Records a durable checkpoint. Refused with [`Error::StripeSetLost`] when `owner` does not hold the stripe set,
    /// with [`Error::NotLive`] as a commit is; `writer` is the session that stored them, `epoch` as in
    /// [`Commit::epoch`].
    fn checkpoint(
        &self,
        writer: SessionId,
        checkpoint: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Result<()>;

    /// In order of stripe set, then number.
    fn checkpoints(&self, session: SessionId) -> Result<Vec<Checkpoint>> {
        self.checkpoints_after(session, (0, 0), usize::MAX)
    }

    /// The same, those after this stripe set and number (which count from 1), and at most `limit`.
    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>>;

    // Collection.

    /// Where marking begins; sessions that ended or ran out are ended first.
    fn snapshot(&self) -> Result<Snapshot>;

    /// Roots of all kept versions and all checkpoints, in some fixed order, from after `after` (0 to begin);
    /// each with its cursor.
    fn roots(&self, after: u64, limit: usize) -> Result<Vec<(u64, Root)>>;

    /// Live → condemned, for those that are live and that no commit or checkpoint since the snapshot refers
    /// to. Returns those condemned.
    fn condemn(&self, snapshot: Snapshot, containers: &[ContainerId]) -> Result<Vec<ContainerId>>;

    /// From now on the segments of each `(logical, physical)` lie in the file of `physical`; the file that
    /// held them until now is to be deleted when no older session is left. Left out are those that are not live
    /// or that a commit or checkpoint since the snapshot refers to. Returns the logical numbers that moved;
    /// what was recorded as lost of them is forgotten, since all that is needed was read to be written anew.
    /// [`Error::NotLive`] when a `physical` is not open or live and in its own file.
    fn relocate(&self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>>;

    /// Files that may be deleted now: every number they bore is condemned or moved away, and no session older
    /// than that is left. Sessions that ran out are ended first. A file may be gone already.
    fn deletable(&self) -> Result<Vec<ContainerId>>;

    /// Their files are deleted; the condemned numbers they bore are gone. A file that bears an open or live
    /// number is left as it is. What was recorded as lost of numbers that are gone is forgotten.
    fn deleted(&self, containers: &[ContainerId]) -> Result<()>;

    // Damage.

    /// Records segments that could not be read. What is recorded already stays as it is.
    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> Result<()>;

    /// All that were recorded, healed or not, by place.
    fn lost(&self) -> Result<Vec<LostSegment>>;

    /// Records where lost segments are found from now on, and that their copies are referred to. Refused with
    /// [`Error::NotLive`] as a commit is, with `epoch` as in [`Commit::epoch`].
    fn heal(&self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()>;

    fn statistics(&self) -> Result<Statistics>;

    /// Why nothing can be read or written by it any more until it is opened anew, if there is a reason.
    fn displaced(&self) -> Option<String> {
        None
    }
}

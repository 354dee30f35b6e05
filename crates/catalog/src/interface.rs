//! The trait every catalog offers, and its types.

use format::{
    Attributes, Change, ContainerId, ErrorCode, FileId, Fingerprint, HandleKey, JournalRecord, LostSegment, Root,
    SegmentAddress, SessionId, StorePath, VersionId, VersionRecord,
};

use crate::Refusal;

/// Why a catalog refused or failed, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: no such file or directory in the store")]
    NotFound { path: StorePath },
    #[error("{path}: {why}")]
    Refused { path: StorePath, why: Refusal },
    /// The commit refers to containers that were condemned or rewritten since the session began: put those segments
    /// again, refer to the new addresses, and commit again.
    #[error("{} container(s) the commit refers to are no longer live", containers.len())]
    NotLive { containers: Vec<ContainerId> },
    /// The path's head is no longer the version the commit was based on: rebase and commit again.
    #[error("{path}: another writer committed first")]
    HeadMoved { path: StorePath, head: Option<VersionId> },
    /// The session's lease expired: nothing it wrote was committed.
    #[error(
        "session {session} holds no lease any more: its process, or its node, stood still or was away for longer than a \
         lease lasts; nothing of it is committed from now on; run it again (`thalweg sessions` lists what a job had synced, and \
         `recover` makes a version of it)"
    )]
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
    #[error("the catalog at {path}: it can only be read here")]
    ReadOnly { path: String },
    #[error("the catalog at {path}: {why}")]
    Io { path: String, why: String },
    #[error("{peer}: {why}")]
    Unavailable { peer: String, why: String },
    /// A node refused the request or failed at it; `why` is its own sentence.
    #[error("{peer}: {why}")]
    Node { peer: String, why: String, code: ErrorCode },
    /// The peer serves another store than the one that was opened.
    #[error("another store is served at {peer} now; begin again")]
    Replaced { peer: String },
}

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::NotFound { .. } => ErrorCode::NoSuchPath,
            Error::Refused { why, .. } => why.code(),
            Error::NotLive { .. } => ErrorCode::SegmentsCollected,
            Error::HeadMoved { .. } => ErrorCode::HeadMoved,
            Error::LeaseLost { .. } => ErrorCode::LeaseLost,
            Error::StripeSetLost { .. } => ErrorCode::StripeSetLost,
            Error::TooNew { .. } => ErrorCode::TooNew,
            Error::TooOld { .. } => ErrorCode::TooOld,
            Error::Corrupt { .. } => ErrorCode::CatalogDamaged,
            Error::Full { .. } => ErrorCode::DiskFull,
            Error::ReadOnly { .. } => ErrorCode::ReadOnly,
            Error::Io { .. } => ErrorCode::CatalogFailed,
            Error::Unavailable { .. } => ErrorCode::NodeUnreachable,
            Error::Node { code, .. } => *code,
            Error::Replaced { .. } => ErrorCode::StoreReplaced,
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// The purpose of a session; shown by `thalweg sessions`, and only path sessions can hold checkpoints.
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
    /// Length of the file made with this number, as it was sealed (bytes).
    pub stored_bytes: u64,
    /// Segments of that file, as it was sealed.
    pub segments: u64,
}

impl ContainerRecord {
    /// Returns whether it was sealed, so that its file's length is known.
    pub fn was_sealed(&self) -> bool {
        self.stored_bytes > 0
    }

    /// Returns whether new commits may refer to it.
    pub fn is_referable(&self) -> bool {
        matches!(self.state, ContainerState::Open | ContainerState::Live)
    }
}

/// A commit, applied as a whole or not at all, in one transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    pub session: SessionId,
    /// Every container the new versions refer to. Each must be open or live, and not rewritten since `epoch`.
    pub references: Vec<ContainerId>,
    /// The session's epoch at the earliest answer that the references rest on; the session's own counts when that is
    /// older.
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
    /// The file's attributes when a newer version replaced this one. None for the newest, which has the file's, and for
    /// those that catalogs of earlier formats replaced.
    pub attributes: Option<Box<Attributes>>,
}

/// The target of a name.
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
    /// Returns the version on which a change of the file is to be based.
    pub fn head_id(&self) -> Option<VersionId> {
        self.head.as_ref().map(|head| VersionId { file: self.file, number: head.number })
    }
}

/// A live or interrupted session of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSession {
    pub id: SessionId,
    pub path: StorePath,
    /// Addresses of the nodes by stripe set: stripe `s` of the file belongs to stripe set `s mod nodes.len()`. Stripe set 0
    /// is home.
    pub nodes: Vec<String>,
    pub stripe_bytes: u64,
    /// The job's name from `thalweg run`, to find what a job left behind; empty outside one.
    pub job: String,
    pub opened_ns: i64,
    /// Number of open handles.
    pub handles: u32,
    /// The lease has expired: its owner died. Its checkpoints can be recovered.
    pub interrupted: bool,
}

/// How a path session stands to its path. Sessions that no program uses any more are interrupted, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Opens of the path join it.
    Current,
    /// Others have committed to the path since it began. Opens begin a new session; its own commits are laid over the
    /// head they find, as ever.
    Superseded,
    /// The name was removed while programs had it open, as by POSIX `unlink`: its programs go on reading and writing, and
    /// it commits nothing.
    Removed,
}

/// A request for the live session of a path, or a new one.
#[derive(Clone, Debug)]
pub struct Join {
    pub path: StorePath,
    /// Used when the session is new; a live one keeps its own.
    pub nodes: Vec<String>,
    pub stripe_bytes: u64,
    pub job: String,
    /// The new handle's key. Joining again with it adds no second handle.
    pub key: HandleKey,
    pub lease_ms: u64,
}

/// The part of a path session that one stripe set has made durable: a manifest of the ranges written since its last
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub session: SessionId,
    pub stripe_set: u32,
    /// The node process that owns the stripe set: see [`LocalCatalog::take_stripe_set`].
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
    /// (client, stream, sequence): all pieces of that stream up to this one are in this or an earlier checkpoint of the
    /// stripe set, and are duplicates when they are sent again.
    pub frontier: Vec<(u64, u32, u64)>,
    /// (offset, length, stamp): when the ranges in `root` arrived, where older pieces may still be sent again;
    /// elsewhere all resent pieces are newer.
    pub stamps: Vec<(u64, u64, u64)>,
}

/// The moment a collection begins to mark from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last transaction before it that refers to containers.
    pub referral: u64,
    pub epoch: u64,
}

/// The highest numbers that catalogs of a store have given, as far as known; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssuedNumbers {
    pub sequence: u64,
    pub container: u64,
    pub session: u64,
    /// Of files that have versions.
    pub file: u64,
}

impl IssuedNumbers {
    /// Returns the higher of each number.
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
    /// The sequence of its record.
    pub sequence: u64,
    pub path: StorePath,
    pub why: String,
}

/// A catalog at one moment.
pub trait CatalogView {
    /// Returns the last sequence that was given.
    fn sequence(&self) -> Result<u64>;

    /// As [`LocalCatalog::unjournaled`], all of them.
    fn unjournaled(&self) -> Result<Vec<JournalRecord>>;

    /// Returns all names, from after `after`, as [`Names::list`].
    fn list(&self, after: Option<&StorePath>, limit: usize) -> Result<Vec<(StorePath, FileEntry)>>;

    /// As [`Names::versions`].
    fn versions(&self, path: &StorePath) -> Result<Vec<Version>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Regular files; one with several names counts once.
    pub files: u64,
    /// Without the root.
    pub directories: u64,
    pub versions: u64,
    /// Sum of the sizes of all kept versions (bytes), without those that differ from the one before in attributes
    /// alone.
    pub logical_bytes: u64,
    /// Container files that hold an open or live number.
    pub live_containers: u64,
    /// Container files that hold none and are not deleted yet.
    pub condemned_containers: u64,
    /// Sum of the sizes of the container files that are not gone (bytes).
    pub container_bytes: u64,
    pub container_segments: u64,
}

/// Names, versions, container states, sessions. Every call is one transaction; all are safe from many
/// threads and, for engines on disk, many processes.
pub trait Names: Send + Sync {
    fn begin(&self, purpose: Purpose, lease_ms: u64) -> Result<Session>;

    /// Extends the lease. With `refresh` the session's epoch becomes the current one: its holder declares that it
    /// relies on no earlier answer. A lease that expired but was not yet ended by a collection is renewed.
    fn renew(&self, session: SessionId, lease_ms: u64, refresh: bool) -> Result<Session>;

    /// Ends the session; containers it left open become live. Ending twice is no error.
    fn end(&self, session: SessionId) -> Result<()>;

    /// Returns whether [`Names::commit`] makes the containers durable itself, as the node at the other end of a connection does.
    fn makes_durable(&self) -> bool {
        false
    }

    /// Applies all changes or none. Checks, in this order: the session's lease, the references, each change. The
    /// transaction is recorded for [`LocalCatalog::unjournaled`].
    fn commit(&self, commit: &Commit) -> Result<Committed>;

    fn entry(&self, path: &StorePath) -> Result<Option<FileEntry>>;

    /// Lists a directory, or everything below it, in byte order of the paths, from after `after`, at most `limit`
    /// entries. The directory itself is not listed. Refused for any other kind of file.
    fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>>;

    /// Returns all versions, oldest first.
    fn versions(&self, path: &StorePath) -> Result<Vec<Version>> {
        self.versions_after(path, 0, usize::MAX)
    }

    /// Returns versions with numbers above `after`, at most `limit`.
    fn versions_after(&self, path: &StorePath, after: u64, limit: usize) -> Result<Vec<Version>>;

    /// Returns how long the lease of a live session still lasts unless renewed (ms); none where that is not known.
    fn lease_left_ms(&self, _session: SessionId) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns all path sessions, interrupted ones included, oldest first.
    fn path_sessions(&self) -> Result<Vec<PathSession>> {
        self.path_sessions_after(SessionId(0), usize::MAX)
    }

    /// Returns path sessions with numbers above `after`, at most `limit`.
    fn path_sessions_after(&self, after: SessionId, limit: usize) -> Result<Vec<PathSession>>;

    /// Drops the session with its checkpoints: after recovery, or without it.
    fn discard(&self, session: SessionId) -> Result<()>;

    /// Returns all checkpoints, in order of stripe set, then number.
    fn checkpoints(&self, session: SessionId) -> Result<Vec<Checkpoint>> {
        self.checkpoints_after(session, (0, 0), usize::MAX)
    }

    /// Returns checkpoints after this stripe set and number (which count from 1), at most `limit`.
    fn checkpoints_after(&self, session: SessionId, after: (u32, u64), limit: usize) -> Result<Vec<Checkpoint>>;
}

/// The catalog where its file is: containers, the journal, sessions of paths and collection. Only a process on the
/// machine of the store has one; clients reach it through their node. Each call is one transaction.
pub trait LocalCatalog: Names {
    // Sessions. Leases run by the catalog's clock.

    /// As `begin`, for a client of a node, by its number: see [`LocalCatalog::is_begun_for`].
    fn begin_for(&self, client: u64, purpose: Purpose, lease_ms: u64) -> Result<Session>;

    /// Returns whether the session was begun for this client (the highest bit of its number does not count); none when
    /// there is no such session. Sessions of processes of this machine, and of paths, were begun for no client.
    fn is_begun_for(&self, session: SessionId, client: u64) -> Result<Option<bool>>;

    // Containers.

    /// Opens a container. Numbers count up from 1 and are never reused. The session must hold a lease.
    fn open_container(&self, session: SessionId) -> Result<ContainerId>;

    /// Seals a container: open → live.
    fn seal_container(&self, container: ContainerId, stored_bytes: u64, segments: u64) -> Result<()>;

    /// Seals a container, open → live, some of whose segments never got into its file: who refers to it since an earlier
    /// epoch is refused, as where it moved.
    fn truncate_container(&self, container: ContainerId) -> Result<()>;

    fn container(&self, container: ContainerId) -> Result<Option<ContainerRecord>>;

    /// Returns the containers in whose files the number's segments lie, as far as they are not deleted: the one that
    /// holds them now, then those it moved away from, newest first. Empty for a number that is gone or was never given.
    fn files_of(&self, container: ContainerId) -> Result<Vec<ContainerId>>;

    /// Returns the open containers of sessions that hold their leases, by number: their files still grow.
    fn growing(&self) -> Result<Vec<ContainerId>>;

    /// Returns all containers that are not gone, by number.
    fn containers(&self) -> Result<Vec<ContainerRecord>>;

    // The journal.

    /// Returns transactions not yet in a container, in order of sequence.
    fn unjournaled(&self, limit: usize) -> Result<Vec<JournalRecord>>;

    /// Notes that a container has these now, durably.
    fn journaled(&self, sequences: &[u64]) -> Result<()>;

    /// Returns those of these records, each given by sequence and [`JournalRecord::checksum_of`], that this catalog did
    /// not write. A record is in a container only after its transaction: one that is unknown here shows that the
    /// catalog is an older copy, or that two catalogs of the store diverged.
    fn unknown_records(&self, records: &[(u64, u64)]) -> Result<Vec<u64>>;

    /// Journals again the current state of these paths, or their absence, in transactions that change nothing here: the
    /// journal's records of them are lost.
    fn restate(&self, session: SessionId, paths: &[StorePath]) -> Result<()>;

    /// Journals records without changes in the place of these, which are lost: all their changes were stated again, so
    /// that nothing is missing.
    fn fill_gaps(&self, session: SessionId, sequences: &[u64]) -> Result<()>;

    /// Returns the sequences of all records that this catalog wrote or was made from, in order; none when it does not
    /// know them all, since some are older than its format.
    fn known_records(&self) -> Result<Option<Vec<u64>>>;

    /// Returns the damage the engine finds in its own data: reads all of it.
    fn integrity(&self) -> Result<Vec<String>>;

    /// Returns names, versions and outbox as they are at this moment, for as long as the view lives.
    fn view(&self) -> Result<Box<dyn CatalogView + '_>>;

    /// Fills an *empty* catalog: containers as found, and records sorted by sequence, without repetition. The next
    /// container, file, session and sequence numbers are above all that occur, and above those `given`. Returns the
    /// changes that were impossible because records before them are missing.
    fn replay(
        &self,
        containers: &[ContainerRecord],
        records: &[JournalRecord],
        given: &IssuedNumbers,
    ) -> Result<Vec<SkippedRecord>>;

    // Sessions of paths.

    /// Joins the path's live session, adding a handle with the key and extending the lease, or begins one. An interrupted
    /// session is left alone, and so is one that is superseded or whose name was removed: a new one begins beside it.
    fn join(&self, join: &Join) -> Result<PathSession>;

    fn path_session(&self, session: SessionId) -> Result<Option<PathSession>>;

    /// Returns the path's live session that opens join, if any.
    fn live_session(&self, path: &StorePath) -> Result<Option<PathSession>>;

    /// Returns how the session stands to its path; None when there is no such session.
    fn path_state(&self, session: SessionId) -> Result<Option<PathState>>;

    /// Alters paths and states of path sessions as a commit with these changes does, where the names are another
    /// catalog's or not committed yet. `own` are the sessions whose writes the changes are.
    fn follow_changes(&self, changes: &[Change], own: &[SessionId]) -> Result<()>;

    /// Returns whether the key is that of one of the session's handles, or of one that was taken off. None when there
    /// is no such session.
    fn has_handle(&self, session: SessionId, key: &HandleKey) -> Result<Option<bool>>;

    /// Takes the key's handle off; a handle that is off already, or never existed, changes nothing. With the last one
    /// the session ends if it has no checkpoints left, and otherwise is interrupted at once. Returns the number of
    /// handles left.
    fn leave(&self, session: SessionId, key: &HandleKey) -> Result<u32>;

    /// Takes all handles off a path's session: no process is left that could commit it.
    fn leave_all(&self, session: SessionId) -> Result<()>;

    /// Makes `owner` (a number of the node process's own) the owner of a stripe set, in place of any earlier one. From
    /// now on only its checkpoints count. Returns the number its next checkpoint gets, which is above all it had and
    /// above those returned by any earlier taking of this stripe set.
    fn take_stripe_set(&self, session: SessionId, stripe_set: u32, owner: u64) -> Result<u64>;

    /// Records a durable checkpoint. Refused with [`Error::StripeSetLost`] when `owner` does not own the stripe set,
    /// with [`Error::NotLive`] as a commit is; `writer` is the session that stored the segments, `epoch` as in
    /// [`Commit::epoch`].
    fn checkpoint(
        &self,
        writer: SessionId,
        checkpoint: &Checkpoint,
        references: &[ContainerId],
        epoch: u64,
    ) -> Result<()>;

    // Collection.

    /// Returns where marking begins; expired sessions are ended first.
    fn snapshot(&self) -> Result<Snapshot>;

    /// Returns the roots of all kept versions and all checkpoints, in some fixed order, from after `after` (0 to
    /// begin); each with its cursor.
    fn roots(&self, after: u64, limit: usize) -> Result<Vec<(u64, Root)>>;

    /// Condemns those of the containers that are live and that no commit or checkpoint since the snapshot refers to.
    /// Returns those condemned.
    fn condemn(&self, snapshot: Snapshot, containers: &[ContainerId]) -> Result<Vec<ContainerId>>;

    /// Moves the segments of each `(logical, physical)` to the file of `physical`; the file that held them
    /// until now is to be deleted when no older session is left. Left out are those that are not live or that a commit
    /// or checkpoint since the snapshot refers to. Returns the logical numbers that moved; their records of lost
    /// segments are dropped, since all needed segments were read to be written again. [`Error::NotLive`] when a
    /// `physical` is not open or live and in its own file.
    fn relocate(&self, snapshot: Snapshot, moves: &[(ContainerId, ContainerId)]) -> Result<Vec<ContainerId>>;

    /// Returns files that may be deleted now: every number they held is condemned or moved away, and no session older
    /// than that is left. Expired sessions are ended first. A file may be gone already.
    fn deletable(&self) -> Result<Vec<ContainerId>>;

    /// Notes that their files are deleted; the condemned numbers they held are gone. A file that holds an open or live
    /// number is left unchanged. Records of lost segments of numbers that are gone are dropped.
    fn deleted(&self, containers: &[ContainerId]) -> Result<()>;

    // Damage.

    /// Records segments that could not be read. Existing records stay.
    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> Result<()>;

    /// Returns all that were recorded, healed or not, by address.
    fn lost(&self) -> Result<Vec<LostSegment>>;

    /// Records where lost segments are found from now on, and that their copies are referred to. Refused with
    /// [`Error::NotLive`] as a commit is, with `epoch` as in [`Commit::epoch`].
    fn heal(&self, session: SessionId, epoch: u64, healed: &[(LostSegment, SegmentAddress)]) -> Result<()>;

    fn statistics(&self) -> Result<Statistics>;

    /// Returns why the catalog cannot be read or written until it is opened again, if there is a reason.
    fn displaced(&self) -> Option<String> {
        None
    }
}

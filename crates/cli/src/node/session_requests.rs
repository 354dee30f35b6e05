//! Sessions of paths, as a connection asks for them: open, write, checkpoint, commit, leave, delete.

use std::time::{Duration, Instant};

use catalog::{FileEntry, Join, Names, PathSession};
use format::{Change, FileKind, HandleKey, SessionId, StorePath};
use repository::{DroppedContent, Error, LEASE_MS, Repository, WriteOrigin, is_reserved, publish};
use transfer::Replier;
use transfer::message::{Failure, FailureKind, Reply};

use super::Node;
use super::clients::Handle;
use super::failure;
use super::handler::Connection;
use super::shared_pointers::PointerMove;
use super::stripe_owners::{HOME_STRIPE_SET, MPI_SEGMENT_BYTES, OwnerEntry};
use crate::clock::now_ns;

/// Open flags, as in `thalweg.h`.
const CREATE: u32 = 4;
const EXCLUSIVE: u32 = 8;
/// Nodes that refuse connections for this long are dead.
const DEAD_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a write that waits for room looks whether its stripe set has failed.
const ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// Nodes of one session that are asked at a time whether they live.
const MAX_PROBES: usize = 64;

/// Returns a piece's part of the node's memory at most: all of each segment that it touches.
fn staging_bytes(extents: &[(u64, u64)]) -> u64 {
    let unit = u64::from(MPI_SEGMENT_BYTES);
    let segments = |(offset, bytes): &(u64, u64)| (offset + bytes).div_ceil(unit).saturating_sub(offset / unit);
    extents.iter().map(segments).sum::<u64>().saturating_mul(unit)
}

impl Connection {
    /// Joins or begins the path's session, with a new handle. A client that asks again is answered from memory before this.
    pub fn open_path(
        &self,
        path: StorePath,
        flags: u32,
        job: String,
        nodes: Vec<String>,
        stripe_bytes: u64,
        key: HandleKey,
    ) -> Result<(Reply, Handle), Failure> {
        if nodes.is_empty()
            || stripe_bytes < MPI_SEGMENT_BYTES as u64
            || !stripe_bytes.is_multiple_of(MPI_SEGMENT_BYTES as u64)
        {
            let why = format!(
                "{path}: stripes of {stripe_bytes} bytes over {} cannot be",
                crate::shown::count(nodes.len() as u64, "node")
            );
            return Err(Failure::new(FailureKind::Refused, why));
        }
        check_reserved(&path)?;
        let (catalog, names) = (self.node.catalog()?, self.node.repository.catalog());
        let entry = names.entry(&path)?;
        check_kind(&path, entry.as_ref().map(|entry| entry.attributes.kind))?;
        check_parents(names, &path)?;
        check_data(&self.node.repository, &path, entry.as_ref())?;
        let size = entry.as_ref().and_then(|entry| entry.head.as_ref()).map_or(0, |head| head.record.size);
        let exists = entry.is_some() || catalog.live_session(&path)?.is_some();
        if !exists && flags & CREATE == 0 {
            return Err(Failure::new(FailureKind::NotFound, format!("{path}: no such file in the store")));
        }
        if exists && flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
            return Err(Failure::new(FailureKind::Exists, format!("{path}: exists already")));
        }
        let join = Join { path: path.clone(), nodes, stripe_bytes, job, key, lease_ms: LEASE_MS };
        let session = self.join_living(&join)?;
        if flags & EXCLUSIVE != 0 && flags & CREATE != 0 && session.handles > 1 {
            catalog.leave(session.id, &key)?;
            return Err(Failure::new(FailureKind::Exists, format!("{path}: was just created by someone else")));
        }
        let handle = (session.id, key);
        Ok((Reply::Opened { session, size, segment_bytes: MPI_SEGMENT_BYTES }, handle))
    }

    /// Returns the path's live session, or a new one. A session whose nodes are all gone can no longer be committed: it
    /// is set aside, as interrupted.
    fn join_living(&self, join: &Join) -> Result<PathSession, Failure> {
        let catalog = self.node.catalog()?;
        let found = catalog.join(join)?;
        let is_strange = found.nodes.iter().all(|node| !join.nodes.contains(node));
        if !is_strange || answers_within(&found.nodes, DEAD_TIMEOUT) {
            return Ok(found);
        }
        catalog.leave_all(found.id)?;
        Ok(catalog.join(join)?)
    }

    pub fn write(
        &mut self,
        session: SessionId,
        stripe_set: u32,
        arrival: WriteOrigin,
        extents: &[(u64, u64)],
        payload: Vec<u8>,
    ) -> Result<Reply, Failure> {
        let entry = self.entry(session, stripe_set)?;
        // A full node does not read on: the client's window fills, and the program waits.
        while !self.node.budget.wait_for_room(ROOM_INTERVAL) {
            self.hint_flush(&entry)?;
        }
        self.member.wait_for_turn(payload.len() as u64);
        let node = self.node.clone();
        let staged_bytes = staging_bytes(extents);
        let incoming = loop {
            if let Some(incoming) = node.budget.admit(staged_bytes, ROOM_INTERVAL) {
                break incoming;
            }
            self.hint_flush(&entry)?;
        };
        let bytes = payload.len() as u64;
        let stamp = entry.owner.write(arrival, extents, payload).map_err(failure::of)?;
        self.traffic.written(bytes);
        drop(incoming);
        self.node.ring();
        self.node.advance();
        Ok(Reply::Received { sequence: arrival.sequence, stamp })
    }

    /// The node is full: has the stripe set's bytes stored, unless it has failed.
    fn hint_flush(&self, entry: &OwnerEntry) -> Result<(), Failure> {
        entry.hinted.store(true, std::sync::atomic::Ordering::Relaxed);
        self.node.ring();
        entry.owner.size().map(drop).map_err(failure::of)
    }

    pub fn checkpoint(&mut self, session: SessionId, stripe_set: u32, epoch: u64, replier: Replier) {
        match self.entry(session, stripe_set) {
            Err(failure) => replier.fail(failure),
            Ok(entry) => {
                let node = self.node.clone();
                self.node.checkpoints.answer(self.claim_owner.0, replier, move || {
                    node.checkpoint(&entry, true, Some(epoch)).map_err(failure::of)?;
                    Ok(Reply::Done {})
                });
            }
        }
    }

    /// Takes effect at once, for later requests on the stream, and is answered when it is durable: clients do not keep
    /// a size as they keep their writes, to send it again to a node that died.
    pub fn set_size(&mut self, session: SessionId, stripe_set: u32, size: u64, replier: Replier) {
        let entry = self.entry(session, stripe_set).and_then(|entry| {
            entry.owner.set_size(size).map_err(failure::of)?;
            Ok(entry)
        });
        match entry {
            Err(failure) => replier.fail(failure),
            Ok(entry) => {
                let node = self.node.clone();
                self.node.checkpoints.answer(self.claim_owner.0, replier, move || {
                    node.checkpoint(&entry, false, None).map_err(failure::of)?;
                    Ok(Reply::Done {})
                });
            }
        }
    }

    /// Checkpoints the home stripe set, the only one of most sessions, and publishes: one round trip for both. Once that
    /// is done, no data depends on what the client says of the key's handle.
    pub fn commit_path(&mut self, session: SessionId, key: HandleKey, replier: Replier) {
        let home = match self.entry(session, HOME_STRIPE_SET) {
            Ok(entry) => entry,
            Err(failure) => return replier.fail(failure),
        };
        let (node, job, client) = (self.node.clone(), self.job.clone(), self.source.client);
        self.node.commits.answer(self.claim_owner.0, replier, move || {
            node.checkpoint(&home, true, None).map_err(failure::of)?;
            let failed_before = path_of_failed_job(&node, &job, session)?;
            let published =
                publish(&node.repository, node.new_claim_owner(), session, now_ns()).map_err(failure::of)?;
            if let Some(path) = failed_before {
                node.job_failures.remove(&job, &path);
            }
            node.clients.closed(client, (session, key));
            node.advance();
            // No version has number 0: the name was removed, and nothing is committed.
            Ok(Reply::Version { number: published.map_or(0, |published| published.version) })
        });
    }

    /// A stripe set that another node has taken, or that failed, keeps no position any more.
    pub fn move_pointer(&self, session: SessionId, key: HandleKey, asked: &PointerMove) -> Result<u64, Failure> {
        let entry = self.entry(session, HOME_STRIPE_SET)?;
        entry.owner.size().map_err(failure::of)?;
        entry.shared_pointers.advance(key, asked)
    }

    /// Leaving twice, or a session that has ended, is no error.
    pub fn leave(&mut self, session: SessionId, key: HandleKey) -> Result<(), Failure> {
        if self.check_handle(session, &key)? {
            self.node.catalog()?.leave(session, &key)?;
            self.node.clients.gave_back((session, key));
            self.node.stripe_sets.forget_pointer(session, &key);
        }
        Ok(())
    }

    /// Removes a name; programs that have it open go on, and commit nothing (POSIX `unlink`).
    pub fn delete(&mut self, path: StorePath) -> Result<(), Failure> {
        check_reserved(&path)?;
        let (catalog, names) = (self.node.catalog()?, self.node.repository.catalog());
        let entry = names.entry(&path)?;
        check_kind(&path, entry.as_ref().map(|entry| entry.attributes.kind))?;
        let remove = Change::Remove { path: path.clone(), recursive: false };
        if entry.is_none() && catalog.live_session(&path)?.is_some() {
            catalog.follow_changes(std::slice::from_ref(&remove), &[])?;
            // The session may have committed just before.
            if names.entry(&path)?.is_none() {
                return Ok(());
            }
        }
        let commit = self.node.repository.commit(self.claim_owner, vec![remove], Default::default(), Vec::new());
        commit.map_err(failure::of)?;
        Ok(())
    }
}

fn check_reserved(path: &StorePath) -> Result<(), Failure> {
    if !is_reserved(path) {
        return Ok(());
    }
    let why = format!("{path}: the store keeps this directory for its own files");
    Err(Failure::new(FailureKind::Refused, why))
}

/// Returns the session's path, if its job has reported failures, of which its commit may make one good.
fn path_of_failed_job(node: &Node, job: &str, session: SessionId) -> Result<Option<StorePath>, Failure> {
    if !node.job_failures.has_any(job) {
        return Ok(None);
    }
    Ok(node.catalog()?.path_session(session)?.map(|session| session.path))
}

/// Whether any of the nodes takes a connection; one that is being started again gets some time. All are tried side by
/// side, and an answer comes within that time, whatever their addresses do.
fn answers_within(nodes: &[String], timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    let (answer, answers) = std::sync::mpsc::channel();
    for node in nodes.iter().take(MAX_PROBES) {
        let (node, answer) = (node.clone(), answer.clone());
        let probe = move || {
            while Instant::now() < deadline {
                if transfer::Connection::open(&node).is_ok() {
                    // The receiver is gone where another node was quicker.
                    let _ = answer.send(());
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        };
        // Without a thread the node counts as silent.
        let _ = std::thread::Builder::new().name("probe".into()).spawn(probe);
    }
    drop(answer);
    answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
}

/// Refuses a file whose data was dropped: neither could it be read, nor what is written be laid over it.
fn check_data(repository: &Repository, path: &StorePath, entry: Option<&FileEntry>) -> Result<(), Failure> {
    let Some(content) = entry.and_then(|entry| DroppedContent::of(&entry.head.as_ref()?.record)) else { return Ok(()) };
    let dropped = match repository.dropped(&content.recipe) {
        Error::Dropped(dropped) => dropped,
        other => return Err(failure::of(other)),
    };
    // The path stands at the end, which may be cut: texts of MPI's errors are short, and begin with it.
    let why = match dropped.duration_ns {
        Some(duration_ns) => format!(
            "the data was dropped; recipe {} makes it again in about {:.1} s: `thalweg recompute STORE::{path}`",
            dropped.recipe_id,
            duration_ns as f64 / 1e9
        ),
        None => format!("{path}: {dropped}"),
    };
    Err(Failure::new(FailureKind::DataDropped, why))
}

fn check_kind(path: &StorePath, kind: Option<FileKind>) -> Result<(), Failure> {
    let why = match kind {
        None | Some(FileKind::Regular) if !path.is_root() => return Ok(()),
        Some(FileKind::Symlink) => "is a symbolic link",
        _ => "is a directory",
    };
    Err(Failure::new(FailureKind::Refused, format!("{path}: {why}")))
}

/// A file below something that is no directory could be written, but never committed.
fn check_parents(catalog: &dyn Names, path: &StorePath) -> Result<(), Failure> {
    let mut parent = path.parent();
    while let Some(above) = parent.filter(|above| !above.is_root()) {
        match catalog.entry(&above)?.map(|entry| entry.attributes.kind) {
            Some(FileKind::Directory) => return Ok(()),
            Some(_) => {
                let why = format!("{path}: cannot be made, since {above} is not a directory");
                return Err(Failure::new(FailureKind::Refused, why));
            }
            None => parent = above.parent(),
        }
    }
    Ok(())
}

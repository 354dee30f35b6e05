//! One connection: each request's effect on this node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use catalog::{Checkpoint, Commit, FileEntry, Names, PathSession, Version};
use format::{Block, BlockHeader, HandleKey, MAX_FILE_BYTES, Run, SegmentEntry, SessionId, StorePath};
use repository::{Source, WriteOrigin};
use store::{ClaimOwner, SegmentStore};
use transfer::message::{Extent, Failure, FailureKind, MAX_LISTED, Reply, Request, StoreStatistics, StoredBlockHeader};
use transfer::{AnswerCharge, ClientSender, Handler, Hello, Replier};

use super::ingest_scheduler::Member;
use super::locks::{Activity, Owner};
use super::offers::Offers;
use super::pages::{MAX_PAGE_BYTES, page};
use super::shared_pointers::PointerMove;
use super::stripe_owners::{OwnerEntry, User};
use super::traffic::CountedConnection;
use super::{Node, failure};

/// The node's state of a connection.
pub(super) struct Connection {
    pub node: Arc<Node>,
    pub source: Source,
    pub job: String,
    pub member: Member,
    pub traffic: CountedConnection,
    /// Bytes put into the store that it did not wait for yet.
    owed_bytes: u64,
    outbox: ClientSender,
    /// This connection's own number: it holds locks, and claims the segments of offers under it.
    pub claim_owner: ClaimOwner,
    pub offers: Arc<Offers>,
    /// Whether the client goes on sending.
    activity: Arc<Activity>,
    /// The stripe sets it attached to, each with how often it did and did not detach.
    attached: HashMap<(SessionId, u32), (Arc<OwnerEntry>, usize)>,
}

/// An answer, with its payload in pieces, and its part of the memory for answers, until it is sent.
struct Answered {
    reply: Reply,
    payload: Vec<Vec<u8>>,
    _charge: Option<AnswerCharge>,
}

type Answer = Result<Answered, Failure>;

/// An answer's memory for each fingerprint, and for each segment entry.
const ANSWER_BYTES: u64 = 40;
const ENTRY_BYTES: u64 = 80;
/// Memory that a read of a file holds beside its answer while it is made: the blocks around 64 segments, and the entries of a run.
const READ_BYTES: u64 = 1536 << 10;

impl Connection {
    pub fn new(node: Arc<Node>, hello: Hello, outbox: ClientSender) -> Self {
        let source = Source { client: hello.client, stream: hello.stream };
        let claim_owner = node.new_claim_owner();
        let member = node.ingest.join(&hello.application);
        let traffic = node.traffic.connected(claim_owner.0, &hello, &outbox);
        let offers = Offers::new(&node, claim_owner);
        let (job, owed_bytes, attached) = (hello.job, 0, HashMap::new());
        let activity = Arc::default();
        Connection { node, source, job, member, traffic, owed_bytes, outbox, claim_owner, offers, activity, attached }
    }

    fn store(&self) -> &dyn SegmentStore {
        self.node.repository.store()
    }

    fn catalog(&self) -> &dyn Names {
        self.node.repository.catalog()
    }

    /// Returns a stripe set this connection attached to.
    pub fn entry(&self, session: SessionId, stripe_set: u32) -> Result<Arc<OwnerEntry>, Failure> {
        let attached = self.attached.get(&(session, stripe_set)).map(|(entry, _)| entry.clone());
        attached.ok_or_else(|| {
            let why = format!(
                "session {session}: this connection has not attached to stripe set {stripe_set} with a handle's key"
            );
            Failure::new(FailureKind::Refused, why)
        })
    }

    pub fn has_attached(&self, session: SessionId) -> bool {
        self.attached.keys().any(|(attached, _)| *attached == session)
    }

    fn attach(&mut self, session: SessionId, stripe_set: u32, key: &HandleKey) -> Result<Arc<OwnerEntry>, Failure> {
        self.check_handle(session, key)?;
        let (outbox, application) = (self.outbox.clone(), self.traffic.application().clone());
        let user = User { connection: self.claim_owner.0, source: self.source, key: *key, outbox, application };
        let entry = self.node.attach(session, stripe_set, user).map_err(failure::of)?;
        self.attached.entry((session, stripe_set)).or_insert_with(|| (entry.clone(), 0)).1 += 1;
        Ok(entry)
    }
}

impl Handler for Connection {
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier) {
        self.activity.begin();
        self.traffic.received(payload.len());
        self.take(request, payload, replier);
        self.activity.end();
    }

    fn closed(&mut self) {
        self.offers.end();
        self.node.locks.forget(self.claim_owner.0);
        // The client may come back; the maintenance loop frees stripe sets that stay without users.
        self.attached.drain().for_each(|(_, (entry, _))| entry.drop_user(self.claim_owner.0));
        let ended = self.node.clients.disconnected(self.source.client);
        ended.into_iter().for_each(|owner| self.store().release(owner));
    }
}

impl Connection {
    fn take(&mut self, request: Request, payload: Vec<u8>, replier: Replier) {
        match request {
            // Slow work must not hold up the pieces behind it on the same stream.
            Request::Checkpoint { session, stripe_set, epoch } => self.checkpoint(session, stripe_set, epoch, replier),
            Request::SetSize { session, stripe_set, size } => self.set_size(session, stripe_set, size, replier),
            Request::CommitPath { session, key } => self.commit_path(session, key, replier),
            Request::AwaitOthers { session, stripe_set, processes } => match self.entry(session, stripe_set) {
                Ok(entry) => entry.await_others((self.claim_owner.0, self.source), processes, replier),
                Err(failure) => replier.fail(failure),
            },
            Request::Lock { session } => {
                if let Err(failure) = self.check_attached(session) {
                    return replier.fail(failure);
                }
                let owner = Owner {
                    connection: self.claim_owner.0,
                    outbox: self.outbox.clone(),
                    activity: self.activity.clone(),
                };
                self.node.locks.lock(session, owner, replier);
            }
            Request::OfferFingerprints { session, stripe_set, sequence, stamp, epoch: _, extents, fingerprints } => {
                let arrival = WriteOrigin { source: self.source, sequence, stamp };
                self.pay_before_offers();
                self.offer((session, stripe_set, sequence), arrival, &extents, &fingerprints, replier);
            }
            Request::OfferDigest { session, stripe_set, sequence, stamp, epoch: _, extents, names } => {
                let arrival = WriteOrigin { source: self.source, sequence, stamp };
                self.pay_before_offers();
                self.offer_digest((session, stripe_set, sequence), arrival, &extents, names, replier);
            }
            Request::SendBlocks { session, stripe_set, sequence, blocks } => {
                self.owed_bytes += payload.len() as u64;
                self.send_blocks((session, stripe_set, sequence), blocks, payload, replier);
            }
            request => match (matches!(request, Request::Get { .. }), self.answer(request, payload)) {
                (_, Ok(Answered { reply, payload, _charge })) => {
                    let pieces: Vec<&[u8]> = payload.iter().map(Vec::as_slice).collect();
                    self.traffic.sent(pieces.iter().map(|piece| piece.len() as u64).sum());
                    replier.reply_with(reply, &pieces);
                }
                // Nodes near their clients ask beyond what they know of. A reader that needs the segment reports it.
                (true, Err(failure)) if is_behind_unclosed_end(&failure) => replier.fail_quietly(failure),
                (_, Err(failure)) => replier.fail(failure),
            },
        }
    }

    fn answer(&mut self, request: Request, payload: Vec<u8>) -> Answer {
        match request {
            Request::Write { session, stripe_set, sequence, stamp, epoch: _, mode, extents } => {
                let arrival = WriteOrigin { source: self.source, sequence, stamp };
                if let Some(mode) = mode {
                    self.entry(session, stripe_set)?.owner.encode_by(mode);
                }
                let extents: Vec<_> = extents.iter().map(|extent| (extent.offset, extent.bytes)).collect();
                plain(self.write(session, stripe_set, arrival, &extents, payload)?)
            }
            Request::Read { session, stripe_set, extents } => self.read(session, stripe_set, &extents),
            Request::Measure {} => plain(Reply::Measured { workers: self.node.options.workers as u32 }),
            request => self.answer_of_store(request, payload),
        }
    }

    /// Returns the store's number for one of the client's claim owners.
    fn owner(&self, number: u64) -> ClaimOwner {
        let (owner, ended) = self.node.clients.claim_owner(self.source.client, number, || self.node.new_claim_owner());
        ended.into_iter().for_each(|ended| self.store().release(ended));
        owner
    }

    fn answer_of_store(&mut self, request: Request, payload: Vec<u8>) -> Answer {
        match request {
            Request::FindMissing { owner, fingerprints } => {
                self.pay();
                let charge = self.outbox.charge_answer(ANSWER_BYTES * fingerprints.len() as u64);
                charged(Reply::Answers { answers: self.store().missing(self.owner(owner), &fingerprints)? }, charge)
            }
            Request::AwaitClaims { owner, fingerprints } => {
                let answers = self.store().await_claims(self.owner(owner), &fingerprints)?;
                let charge = self.outbox.charge_answer(ANSWER_BYTES * answers.len() as u64);
                charged(Reply::Answers { answers }, charge)
            }
            Request::PutBlock { owner, header, segments } => {
                self.owed_bytes += payload.len() as u64;
                let block = self.checked(Block { header, segments, payload })?;
                let run = self.store().put(self.owner(owner), &block)?;
                self.traffic.stored(block.payload.len() as u64);
                self.node.advance();
                plain(Reply::Stored { run })
            }
            Request::Release { owner } => {
                self.store().release(self.owner(owner));
                done()
            }
            Request::Get { run } => self.get(run),
            Request::Entries { run } => {
                let charge = self.outbox.charge_answer(ENTRY_BYTES * u64::from(run.count));
                charged(Reply::Entries { entries: self.store().entries(run)? }, charge)
            }
            Request::MakeDurable {} => {
                self.store().make_durable()?;
                done()
            }
            request => self.answer_of_catalog(request),
        }
    }

    fn answer_of_catalog(&mut self, request: Request) -> Answer {
        match request {
            Request::Begin { purpose, lease_ms } => {
                let session = self.begin_session(purpose, lease_ms)?;
                self.node.repository.session_moved_on();
                plain(Reply::Session { session })
            }
            Request::Renew { session, lease_ms, refresh } => {
                let session = self.renew_session(session, lease_ms, refresh)?;
                if refresh {
                    self.node.repository.session_moved_on();
                }
                plain(Reply::Session { session })
            }
            Request::End { session } => {
                self.end_session(session)?;
                done()
            }
            Request::Commit { session, references, epoch, changes, checkpoints } => {
                let commit = Commit { session, references, epoch, changes, checkpoints };
                plain(Reply::Committed { committed: self.commit(commit)? })
            }
            Request::Entry { path } => {
                let mut entry = self.catalog().entry(&path)?;
                self.node.damage.mark(&self.node.repository, entry.iter_mut());
                plain(Reply::Entry { entry })
            }
            Request::List { directory, recursive, after, limit } => {
                let charge = self.outbox.charge_answer(MAX_PAGE_BYTES as u64);
                let (mut entries, more, bytes) =
                    page(limit as usize, |last: Option<&(StorePath, FileEntry)>, wanted| {
                        let after = last.map(|(path, _)| path).or(after.as_ref());
                        Ok(self.catalog().list(&directory, recursive, after, wanted)?)
                    })?;
                self.node.damage.mark(&self.node.repository, entries.iter_mut().map(|(_, entry)| entry));
                paged(Reply::List { entries, more }, bytes, charge)
            }
            Request::Versions { path, after } => {
                let charge = self.outbox.charge_answer(MAX_PAGE_BYTES as u64);
                let (versions, more, bytes) = page(MAX_LISTED, |last: Option<&Version>, wanted| {
                    let after = last.map_or(after, |version| version.number);
                    Ok(self.catalog().versions_after(&path, after, wanted)?)
                })?;
                paged(Reply::Versions { versions, more }, bytes, charge)
            }
            Request::PathSessions { after } => {
                let charge = self.outbox.charge_answer(MAX_PAGE_BYTES as u64);
                let (sessions, more, bytes) = page(MAX_LISTED, |last: Option<&PathSession>, wanted| {
                    Ok(self.catalog().path_sessions_after(last.map_or(after, |session| session.id), wanted)?)
                })?;
                paged(Reply::PathSessions { sessions, more }, bytes, charge)
            }
            Request::Checkpoints { session, after } => {
                let charge = self.outbox.charge_answer(MAX_PAGE_BYTES as u64);
                let (checkpoints, more, bytes) = page(MAX_LISTED, |last: Option<&Checkpoint>, wanted| {
                    let after = last.map_or(after, |checkpoint| (checkpoint.stripe_set, checkpoint.number));
                    let found = self.catalog().checkpoints_after(session, after, wanted)?;
                    Ok(found.into_iter().map(without_arrivals).collect())
                })?;
                paged(Reply::Checkpoints { checkpoints, more }, bytes, charge)
            }
            Request::Discard { session } => {
                self.discard(session)?;
                done()
            }
            Request::Statistics {} => self.statistics(),
            Request::Model {} => self.model(),
            Request::Recover { session } => plain(Reply::Version { number: self.recover(session)? }),
            request => self.answer_of_path(request),
        }
    }

    fn answer_of_path(&mut self, request: Request) -> Answer {
        match request {
            Request::OpenPath { path, flags, job, nodes, stripe_bytes, key } => {
                let job = if job.is_empty() { self.job.clone() } else { job };
                let open = || self.open_path(path, flags, job, nodes, stripe_bytes, key);
                plain(self.node.clients.open_once(self.source.client, key, open)?)
            }
            Request::Attach { session, stripe_set, key } => {
                let entry = self.attach(session, stripe_set, &key)?;
                match entry.owner.size() {
                    Ok(size) => plain(Reply::Attached { size, epoch: entry.owner.epoch() }),
                    Err(error) => {
                        // A client that could not attach does not detach; the failure is the answer already.
                        let _ = self.detach(session, stripe_set);
                        Err(failure::of(error))
                    }
                }
            }
            Request::Size { session, stripe_set } => {
                plain(Reply::Size { size: self.entry(session, stripe_set)?.owner.size().map_err(failure::of)? })
            }
            Request::FlushHint { session, stripe_set } => {
                let entry = self.entry(session, stripe_set)?;
                // A stripe set that has failed makes nothing durable, however long its client waits for that.
                entry.owner.size().map_err(failure::of)?;
                entry.hinted.store(true, std::sync::atomic::Ordering::Relaxed);
                done()
            }
            Request::Detach { session, stripe_set } => {
                self.detach(session, stripe_set)?;
                done()
            }
            Request::Leave { session, key } => {
                self.leave(session, key)?;
                done()
            }
            Request::MovePointer { session, key, number, generation, initial, by } => {
                let client = self.source.client;
                let asked = PointerMove { client, number, generation, initial, by };
                plain(Reply::Pointer { position: self.move_pointer(session, key, &asked)? })
            }
            Request::Unlock { session } => {
                self.node.locks.unlock(session, self.claim_owner.0);
                done()
            }
            Request::Delete { path } => {
                self.node.job_failures.remove(&self.job, &path);
                self.delete(path)?;
                done()
            }
            Request::ReportFailure { path, why } => {
                self.node.job_failures.add(&self.job, path, why);
                done()
            }
            Request::JobFailures { job } => {
                self.node.leave_closed();
                plain(Reply::JobFailures { failures: self.node.job_failures.of_job(&job) })
            }
            other => Err(Failure::new(FailureKind::Refused, format!("request {} does not belong here", other.kind()))),
        }
    }

    /// Detaching twice, or from a stripe set this connection never had, is no error: a client may ask again after a break.
    fn detach(&mut self, session: SessionId, stripe_set: u32) -> Result<(), Failure> {
        let Entry::Occupied(mut attached) = self.attached.entry((session, stripe_set)) else { return Ok(()) };
        attached.get_mut().1 -= 1;
        if attached.get().1 > 0 {
            return Ok(());
        }
        let (entry, _) = attached.remove();
        self.node.detach(&entry, self.claim_owner.0).map_err(failure::of)?;
        match entry.owner.size() {
            // The client's pieces in the stripe set went to another node with the stripe set.
            Ok(_) | Err(repository::Error::Catalog(catalog::Error::StripeSetLost { .. })) => Ok(()),
            Err(error) => Err(failure::of(error)),
        }
    }

    /// Waits for the scheduler after this connection's earlier pieces, and before it claims anything again: others may
    /// wait for its claims.
    fn pay(&mut self) {
        let owed_bytes = std::mem::take(&mut self.owed_bytes);
        if owed_bytes > 0 {
            self.member.wait_for_turn(owed_bytes);
        }
    }

    /// While pieces are announced, something may be claimed for this connection at any time.
    fn pay_before_offers(&mut self) {
        if self.offers.are_done() {
            self.pay();
        }
    }

    /// A remote client's block is decoded and named again before others may refer to it (design, rule 9).
    pub fn checked(&self, block: Block) -> Result<Block, Failure> {
        if !self.node.options.trust_clients {
            segment::decode_verified(&block, self.node.repository.settings.fingerprint)
                .map_err(|error| Failure::new(FailureKind::Corrupt, format!("a block as it arrived: {error}")))?;
        }
        Ok(block)
    }

    fn read(&mut self, session: SessionId, stripe_set: u32, extents: &[Extent]) -> Answer {
        let total = Extent::total_bytes(extents);
        if total > format::MAX_PAYLOAD_BYTES as u64 {
            return Err(Failure::new(
                FailureKind::Refused,
                format!("a read of {total} bytes is beyond what a frame holds"),
            ));
        }
        let entry = self.entry(session, stripe_set)?;
        let known = entry.owner.size().map_err(failure::of)?;
        // It may have grown meanwhile, perhaps by something that was asked for.
        let mut read = self.read_until(&entry, extents, known)?;
        if read.0 > known {
            drop(read);
            read = self.read_until(&entry, extents, u64::MAX)?;
        }
        let (size, payload, charge) = read;
        Ok(Answered { reply: Reply::Bytes { size }, payload: vec![payload], _charge: Some(charge) })
    }

    /// Returns the bytes of the extents, without their tail behind `end`, and the size of the file as the stripe set
    /// knew it then: reading far behind the end costs nothing.
    fn read_until(
        &self,
        entry: &OwnerEntry,
        extents: &[Extent],
        end: u64,
    ) -> Result<(u64, Vec<u8>, AnswerCharge), Failure> {
        let bytes = Extent::bytes_until(extents.iter().copied(), end) as usize;
        let charge = self.outbox.charge_answer(bytes as u64 + READ_BYTES);
        let (mut payload, mut size) = (vec![0; bytes], end.min(MAX_FILE_BYTES));
        let mut left = &mut payload[..];
        for extent in extents {
            let into;
            (into, left) = left.split_at_mut(left.len().min(extent.bytes as usize));
            if !into.is_empty() {
                size = entry.owner.read(extent.offset, into).map_err(failure::of)?;
            }
        }
        charge.shrink_to(bytes as u64);
        Ok((size, payload, charge))
    }

    fn get(&self, run: Run) -> Answer {
        let (placed, charge) = super::blocks::of_run(self.store(), run, |bytes| self.outbox.charge_answer(bytes))?;
        let mut payload = Vec::with_capacity(placed.len());
        let blocks = placed.into_iter().map(|placed| {
            payload.push(placed.block.payload);
            StoredBlockHeader { labels: placed.labels, header: placed.block.header, segments: placed.block.segments }
        });
        let reply = Reply::Blocks { blocks: blocks.collect() };
        Ok(Answered { reply, payload, _charge: Some(charge) })
    }

    fn model(&self) -> Answer {
        let model = self.node.repository.model().map_or_else(Vec::new, |model| model.to_vec());
        let charge = self.outbox.charge_answer(model.len() as u64);
        Ok(Answered { reply: Reply::Model {}, payload: vec![model], _charge: Some(charge) })
    }

    fn statistics(&self) -> Answer {
        if let Some(far) = &self.node.upstream {
            let statistics = far.statistics().map_err(|error| transfer::store_error(error, far.address()))?;
            return plain(Reply::Statistics { statistics });
        }
        let figures = repository::store_statistics(&self.node.repository).map_err(failure::of)?;
        plain(Reply::Statistics {
            statistics: StoreStatistics {
                logical_bytes: figures.logical_bytes,
                unique_bytes: figures.unique_bytes,
                stored_bytes: figures.stored_bytes,
                segments: figures.segments,
                unique_segments: figures.unique_segments,
                containers: figures.containers,
                files: figures.files,
                table_memory_bytes: figures.table_memory_bytes,
            },
        })
    }
}

fn is_behind_unclosed_end(failure: &Failure) -> bool {
    failure.subject.as_ref().is_some_and(|subject| subject.damage.ends_with(store::UNCLOSED_END))
}

fn plain(reply: Reply) -> Answer {
    Ok(Answered { reply, payload: Vec::new(), _charge: None })
}

fn charged(reply: Reply, charge: AnswerCharge) -> Answer {
    Ok(Answered { reply, payload: Vec::new(), _charge: Some(charge) })
}

fn paged(reply: Reply, bytes: usize, charge: AnswerCharge) -> Answer {
    charge.shrink_to(bytes as u64);
    charged(reply, charge)
}

fn done() -> Answer {
    plain(Reply::Done {})
}

/// Removes the part that only the stripe set needs to go on from: it is long, and names clients by their numbers, under
/// which others could pass for them.
fn without_arrivals(mut checkpoint: Checkpoint) -> Checkpoint {
    (checkpoint.frontier, checkpoint.stamps) = Default::default();
    checkpoint
}

/// Splits the payload of a supply into its blocks.
pub(super) fn split(blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>, payload: &[u8]) -> Result<Vec<Block>, Failure> {
    let mut rest = payload;
    let mut split = Vec::with_capacity(blocks.len());
    for (header, segments) in blocks {
        let Some((head, tail)) = rest.split_at_checked(header.stored_bytes as usize) else {
            return Err(Failure::new(FailureKind::Refused, "a supply is shorter than its blocks"));
        };
        split.push(Block { header, segments, payload: head.to_vec() });
        rest = tail;
    }
    Ok(split)
}

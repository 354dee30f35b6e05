//! A session in this process: its send queues, where each byte of the file goes, and what is asked of all its nodes.
//!
//! Several files of the process may be handles of one session; they share its send queues, because nodes know the bytes of
//! a process by (stream, session, stripe set).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use format::{HandleKey, Mode, SessionId};

use super::oneshot::{Answer, Done, gather};
use super::piece::{Cursor, Piece};
use super::process::Process;
use super::read_ahead::ReadAhead;
use super::send_queue::{QueueContext, SendQueue};
use super::session_status::SessionStatus;
use super::stripe_streams::StripeStreams;
use super::ticket::Ticket;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::{Error, Result};

/// Minimum time between two flush hints to a node.
const HINT_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes copied between two checks of how full the window is.
const LOOK_BYTES: u64 = 1 << 20;

type Next = Box<dyn FnOnce() + Send>;

pub(super) struct Session {
    pub id: SessionId,
    pub status: Arc<SessionStatus>,
    pub routes: StripeStreams,
    epoch: Arc<AtomicU64>,
    pub process: Arc<Process>,
    hinted: Mutex<Option<Instant>>,
    /// Work that follows a commit running in the background.
    after_commit: Mutex<Option<Vec<Next>>>,
    /// This process has made a version of what the session wrote.
    is_committed: AtomicBool,
    /// Of the handles that read.
    readers: Mutex<Vec<Weak<ReadAhead>>>,
}

impl Session {
    /// Returns when all nodes have let this process attach.
    pub fn attach(process: &Arc<Process>, ticket: &Ticket) -> Result<Arc<Self>> {
        let of = QueueContext {
            session: ticket.session.id,
            key: ticket.key,
            status: Arc::default(),
            segment_bytes: ticket.segment_bytes,
            reduction: process.reduction.clone(),
            mode: Arc::default(),
            epoch: Arc::default(),
            high_sequence: process.high_sequence.clone(),
            timeout: process.settings.timeout,
        };
        let nodes = &ticket.session.nodes;
        // Nodes of one session are alike far, and their streams are numbered alike.
        let streams = nodes.iter().map(|node| process.streams.counts.of(node)).max().unwrap_or(1);
        let mut queues = Vec::new();
        for stripe_set in 0..ticket.session.nodes.len() {
            let mut nodes = ticket.session.nodes.clone();
            nodes.rotate_left(stripe_set);
            queues.extend(
                (0..streams)
                    .map(|index| SendQueue::new(&of, stripe_set as u32, index, nodes.clone(), &process.streams)),
            );
        }
        of.status.bind(&queues);
        queues.iter().for_each(SendQueue::begin);
        let session = Arc::new(Session {
            id: of.session,
            status: of.status,
            routes: StripeStreams::new(queues, streams as usize, ticket.session.stripe_bytes),
            epoch: of.epoch,
            process: process.clone(),
            hinted: Mutex::default(),
            after_commit: Mutex::default(),
            is_committed: AtomicBool::new(false),
            readers: Mutex::default(),
        });
        match session.wait_attached() {
            Ok(()) => Ok(session),
            Err(error) => {
                session.queues().iter().for_each(SendQueue::end);
                Err(error)
            }
        }
    }

    fn wait_attached(&self) -> Result<()> {
        for queue in self.queues() {
            self.epoch.fetch_max(queue.wait_attached()?, Ordering::SeqCst);
        }
        Ok(())
    }

    pub fn queues(&self) -> &[Arc<SendQueue>] {
        &self.routes.queues
    }

    pub fn home(&self) -> &Arc<SendQueue> {
        &self.queues()[0]
    }

    /// Returns the time there and back to the farthest node.
    pub fn round_trip(&self) -> Duration {
        let counts = &self.process.streams.counts;
        let of_node = |queue: &Arc<SendQueue>| counts.round_trip(&queue.address());
        self.queues().iter().step_by(self.routes.streams()).map(of_node).max().unwrap_or_default()
    }

    /// Has blocks that are encoded from now on, here or at the nodes, encoded in this mode.
    pub fn encode_by(&self, mode: Option<Mode>) {
        self.home().mode.set(mode);
    }

    pub fn add_reader(&self, reader: &Arc<ReadAhead>) {
        let mut readers = self.readers();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(reader));
    }

    /// Has all handles of this process drop what they read ahead.
    pub fn renew_readers(&self) {
        self.readers().iter().filter_map(Weak::upgrade).for_each(|reader| reader.renew());
    }

    /// Copies pieces from the cursor on; false when the window is full before the end.
    pub fn copy(&self, pieces: &[Piece], cursor: &mut Cursor) -> Result<bool> {
        let copied = self.copy_into_frames(pieces, cursor);
        // Not before: what a reader asks for in between would miss the bytes.
        self.readers().iter().filter_map(Weak::upgrade).for_each(|reader| reader.written(pieces));
        copied
    }

    fn copy_into_frames(&self, pieces: &[Piece], cursor: &mut Cursor) -> Result<bool> {
        let mut unlooked_bytes = 0;
        while let Some(part) = cursor.part(pieces, self.routes.stripe_bytes) {
            let window = &self.process.window;
            let copy = |queue: &Arc<SendQueue>| queue.append(window, part.offset(), part.source()) as u64;
            let copied = self.routes.write(part.offset(), copy);
            cursor.advance(copied);
            unlooked_bytes += copied;
            if unlooked_bytes >= LOOK_BYTES || copied < part.bytes() {
                unlooked_bytes = 0;
                self.status.check()?;
                self.hint_early();
            }
            if copied < part.bytes() {
                return Ok(false);
            }
        }
        self.status.check()?;
        self.hint_early();
        Ok(true)
    }

    /// Sends hints before the window is full, which keeps the program writing while the nodes sync.
    fn hint_early(&self) {
        if self.process.window.is_half_full() {
            self.hint_again();
        }
    }

    pub fn seal(&self) {
        self.queues().iter().for_each(SendQueue::seal);
    }

    /// Sends flush hints, unless it did so a moment ago.
    pub fn hint_again(&self) {
        let now = Instant::now();
        let mut hinted = self.hinted.lock().expect("noting the time does not panic");
        if hinted.is_none_or(|last| last + HINT_INTERVAL <= now) {
            *hinted = Some(now);
            drop(hinted);
            self.hint_flush();
        }
    }

    /// Asks the nodes that hold bytes of this process to make them durable.
    pub fn hint_flush(&self) {
        for (stripe_set, queues) in self.queues().chunks(self.routes.streams()).enumerate() {
            if queues.iter().any(|queue| !queue.is_empty()) {
                let status = self.status.clone();
                // The answer that counts is `Durable`, which a stripe set that has failed never sends.
                let hinted = move |answer: Result<Answer>| match answer {
                    Err(Error::Failed(failure)) if failure.kind != FailureKind::Unavailable => {
                        status.fail(Error::Failed(failure));
                    }
                    _ => {}
                };
                queues[0].ask(Request::FlushHint { session: self.id, stripe_set: stripe_set as u32 }, Box::new(hinted));
            }
        }
    }

    /// Waits until the nodes hold everything that was copied.
    pub fn flush(&self) -> Result<()> {
        self.seal();
        self.queues().iter().try_for_each(|queue| queue.wait_received(queue.last_sequence()))?;
        self.status.check()
    }

    /// Computes the file's size: the end of the last byte written, or the size set, over all send queues.
    pub fn size_then(&self, done: Done<u64>) {
        let largest = |replies: Vec<Reply>| {
            let size = |reply: &Reply| if let Reply::Size { size } = reply { *size } else { 0 };
            replies.iter().map(size).max().unwrap_or(0)
        };
        let done: Done<Vec<Reply>> = Box::new(move |replies| done(replies.map(largest)));
        // Every stream is asked: its answer counts everything written over it before.
        self.ask(self.queues(), |queue| Request::Size { session: self.id, stripe_set: queue.stripe_set }, done);
    }

    pub fn set_size_then(&self, size: u64, done: Done<()>) {
        let request = |queue: &SendQueue| Request::SetSize { session: self.id, stripe_set: queue.stripe_set, size };
        self.ask_owners(request, Box::new(move |replies| done(replies.map(drop))));
    }

    /// Checkpoints everything received; `done` gets the new epoch.
    pub fn checkpoint_then(&self, done: Done<u64>) {
        let epoch = self.epoch.load(Ordering::SeqCst) + 1;
        let request = |queue: &SendQueue| Request::Checkpoint { session: self.id, stripe_set: queue.stripe_set, epoch };
        self.ask_owners(request, Box::new(move |replies| done(replies.map(|_| epoch))));
    }

    /// Notes a new epoch: everything of the ones before is durable.
    ///
    /// Fails when a node was replaced and may not have had something when it checkpointed. With several handles of the
    /// session in this process nothing is concluded: the others' frames may be newer than the checkpoint.
    pub fn set_epoch(&self, epoch: u64, only_handle: bool) -> Result<()> {
        self.epoch.fetch_max(epoch, Ordering::SeqCst);
        if !only_handle {
            return Ok(());
        }
        if let Some(queue) = self.queues().iter().find(|queue| queue.has_unreceived()) {
            let text = format!(
                "a node was replaced while the file was synchronised, and stripe set {} may miss bytes written before; write \
                 them again",
                queue.stripe_set
            );
            self.status.fail(Error::Failed(Failure::new(FailureKind::Io, text)));
            return self.status.check();
        }
        self.queues().iter().for_each(|queue| queue.checkpointed(epoch));
        self.status.look();
        Ok(())
    }

    /// Makes a version of everything written, before the key's handle is closed. The home node checkpoints its own stripe
    /// set for that.
    pub fn commit_then(self: &Arc<Self>, key: HandleKey, done: Done<()>) {
        let session = self.clone();
        let publish = move |checkpointed: Result<u64>| {
            if let Err(error) = checkpointed {
                return done(Err(error));
            }
            let (request, home) = (Request::CommitPath { session: session.id, key }, session.home().clone());
            let committed = move |answer: Result<Answer>| {
                session.is_committed.fetch_or(answer.is_ok(), Ordering::SeqCst);
                done(answer.map(drop));
            };
            home.ask(request, Box::new(committed));
        };
        if self.routes.stripe_sets() == 1 { publish(Ok(0)) } else { self.checkpoint_then(Box::new(publish)) }
    }

    /// Returns whether the commit may miss bytes that other processes sent again after it, to a node that took a dead
    /// one's place.
    pub fn may_miss_bytes(&self) -> bool {
        self.is_committed.load(Ordering::SeqCst) && self.queues().iter().any(|queue| queue.was_replaced())
    }

    /// Returns whether nothing is kept for the nodes, and nothing can be sent to them again.
    pub fn is_settled(&self) -> bool {
        self.status.check().is_ok() && self.queues().iter().all(|queue| queue.is_empty()) && !self.may_miss_bytes()
    }

    /// Notes that a commit runs in the background from now on, until [`Session::committed`].
    pub fn committing(&self) {
        *self.after_commit.lock().expect("noting what follows does not panic") = Some(Vec::new());
    }

    pub fn committed(&self) {
        let after = self.after_commit.lock().expect("noting what follows does not panic").take();
        after.into_iter().flatten().for_each(|next| next());
    }

    /// Calls `next` now, or when the commit in the background has ended.
    pub fn after_commit(&self, next: Next) {
        let mut after = self.after_commit.lock().expect("noting what follows does not panic");
        match after.as_mut() {
            Some(waiting) => waiting.push(next),
            None => {
                drop(after);
                next();
            }
        }
    }

    pub fn ask_owners(&self, request: impl Fn(&SendQueue) -> Request, done: Done<Vec<Reply>>) {
        self.ask(self.queues().iter().step_by(self.routes.streams()), request, done);
    }

    fn ask<'a>(
        &self,
        queues: impl IntoIterator<Item = &'a Arc<SendQueue>>,
        request: impl Fn(&SendQueue) -> Request,
        done: Done<Vec<Reply>>,
    ) {
        let queues: Vec<&Arc<SendQueue>> = queues.into_iter().collect();
        let completions = gather(queues.len(), done);
        queues.iter().zip(completions).for_each(|(queue, completion)| queue.ask(request(queue), completion));
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<ReadAhead>>> {
        self.readers.lock().expect("nothing panics while it holds the readers")
    }
}

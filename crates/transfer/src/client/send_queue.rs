//! A send queue: the bytes that one process writes to one stripe set of one session over one stream, kept in order.
//!
//! A send queue outlives its connection, and its node: when its own node stays away it moves to another node's stream,
//! with everything that is not durable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::{HandleKey, SessionId};
use policy::streams::StreamPace;

use super::encoding_mode::EncodingMode;
use super::frame::{Builder, Frame};
use super::oneshot::{Answer, Completion};
use super::pending_frames::PendingFrames;
use super::reduction::ProcessReduction;
use super::session_status::SessionStatus;
use super::stream::{Ask, Stream, Streams, Work};
use super::window::Window;
use crate::message::Request;
use crate::{Error, Result};

/// After another node process took the stripe set, reads and checkpoints wait for this part of the timeout (a second,
/// by default), so that what other clients keep arrives there first.
const QUIET_PART: u32 = 60;
/// A stripe set whose node takes no connection when the file is opened is requested from the next node after this.
pub(super) const REACH_TIMEOUT: Duration = Duration::from_secs(3);
/// A node that reports progress, but none on what is waited for, is believed for this many timeouts.
pub(super) const MAX_TIMEOUTS_ALIVE: u32 = 20;
/// Pause between a lost stripe set and the next try elsewhere.
const MOVE_PAUSE: Duration = Duration::from_millis(50);
/// Whole segments may go apart from the rest.
const MAX_FRAMES_OF_BUILDER: u64 = 2;

pub(super) struct SendQueue {
    pub session: SessionId,
    pub stripe_set: u32,
    /// The key that the send queue attaches with.
    pub key: HandleKey,
    pub status: Arc<SessionStatus>,
    /// Where the stripe set may be served, its own node first.
    nodes: Vec<String>,
    index: u32,
    segment_bytes: u32,
    /// Set where segments may be reduced here.
    reduction: Option<Arc<ProcessReduction>>,
    pub mode: Arc<EncodingMode>,
    epoch: Arc<AtomicU64>,
    /// The highest sequence of any send queue of the process. A new send queue begins above it, so that a file closed and
    /// opened again never uses a sequence twice.
    high_sequence: Arc<AtomicU64>,
    timeout: Duration,
    /// Origin of the seconds that paces are given.
    made: Instant,
    builder: Mutex<Builder>,
    unsealed: AtomicBool,
    /// Of the frame under construction.
    building_bytes: AtomicU64,
    route: Mutex<Route>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

struct Route {
    stream: Arc<Stream>,
    /// Index into `nodes`.
    node: usize,
    last_sequence: u64,
}

#[derive(Default)]
struct Progress {
    unreceived: PendingFrames,
    /// Frames that are not durable, in order.
    kept: VecDeque<KeptFrame>,
    attached: bool,
    /// Number of attachments; what a node ties to a connection is gone when this increases.
    attachments: u64,
    /// The node process that owns the stripe set, as far as known.
    incarnation: Option<u64>,
    was_replaced: bool,
    ask_after: Option<Instant>,
    /// Since when something waits in vain, and when the send queue tries the next node.
    trouble: Option<(Instant, Instant)>,
    /// Since when something waits and nothing has been done for this send queue, whatever the node did for others.
    unserved_since: Option<Instant>,
    /// As `Attached` said.
    epoch: u64,
}

/// A frame that may have to be sent again.
#[derive(Clone, Copy)]
struct KeptFrame {
    sequence: u64,
    /// Its number in the stream's log.
    number: u64,
    bytes: u64,
}

/// The context that a session passes to its send queues.
pub(super) struct QueueContext {
    pub session: SessionId,
    pub key: HandleKey,
    pub status: Arc<SessionStatus>,
    pub segment_bytes: u32,
    pub reduction: Option<Arc<ProcessReduction>>,
    pub mode: Arc<EncodingMode>,
    pub epoch: Arc<AtomicU64>,
    pub high_sequence: Arc<AtomicU64>,
    pub timeout: Duration,
}

/// The next action of a send queue without connection.
pub(super) enum Action {
    Wait,
    Move,
    Fail,
}

impl SendQueue {
    /// Makes a send queue; `nodes`: where the stripe set may be served, its own node first.
    pub fn new(of: &QueueContext, stripe_set: u32, index: u32, nodes: Vec<String>, streams: &Streams) -> Arc<Self> {
        let stream = streams.get(&nodes[0], index);
        Arc::new(SendQueue {
            session: of.session,
            stripe_set,
            key: of.key,
            status: of.status.clone(),
            nodes,
            index,
            segment_bytes: of.segment_bytes,
            reduction: of.reduction.clone(),
            mode: of.mode.clone(),
            epoch: of.epoch.clone(),
            high_sequence: of.high_sequence.clone(),
            timeout: of.timeout,
            made: Instant::now(),
            builder: Mutex::default(),
            unsealed: AtomicBool::new(false),
            building_bytes: AtomicU64::new(0),
            route: Mutex::new(Route { stream, node: 0, last_sequence: of.high_sequence.load(Ordering::SeqCst) }),
            progress: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    // For callers.

    /// Registers the send queue with its stream.
    pub fn begin(self: &Arc<Self>) {
        self.route().stream.stripe_set(self, Instant::now());
    }

    /// Returns the epoch the node is in, once it has attached this process.
    pub fn wait_attached(&self) -> Result<u64> {
        let progress = self.wait(|progress| progress.attached)?;
        Ok(progress.epoch)
    }

    /// Copies bytes that go to `offset`; returns how many before the window was full.
    pub fn append(self: &Arc<Self>, window: &Arc<Window>, offset: u64, source: &[u8]) -> usize {
        let mut builder = self.builder();
        let mut copied = 0;
        while copied < source.len() {
            let Some(bytes) = builder.append(window, offset + copied as u64, &source[copied..]) else { break };
            copied += bytes;
            self.building_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            if builder.is_full() {
                self.seal_held(&mut builder);
            }
        }
        // Sealing a full frame cleared the mark; what came after it needs it again.
        if !builder.is_empty() && !self.unsealed.swap(true, Ordering::SeqCst) {
            self.route().stream.wake();
        }
        copied
    }

    /// Sends the frame under construction.
    pub fn seal(self: &Arc<Self>) {
        if self.unsealed.load(Ordering::SeqCst) {
            self.seal_held(&mut self.builder());
        }
    }

    fn seal_held(self: &Arc<Self>, builder: &mut Builder) {
        let mut route = self.route();
        self.building_bytes.store(0, Ordering::Relaxed);
        let reduction = self.reduction.as_ref().map(|reduction| || reduction.takes_next_frame());
        let reduces_here = reduction.as_ref().map(|takes| takes as &dyn Fn() -> bool);
        for content in builder.finish(self.segment_bytes, reduces_here) {
            route.last_sequence += 1;
            let frame = Frame::new(route.last_sequence, self.epoch.load(Ordering::SeqCst), content);
            // A frame given back belongs to a file that has failed: it is dropped here, and the caller gets the error.
            drop(route.stream.push(Some(self), Work::Frame(Arc::new(frame))));
        }
        self.high_sequence.fetch_max(route.last_sequence, Ordering::SeqCst);
        self.unsealed.store(false, Ordering::SeqCst);
    }

    /// Returns the last sequence given out.
    pub fn last_sequence(&self) -> u64 {
        self.route().last_sequence
    }

    /// Returns a sequence that no byte copied so far goes beyond: the frame under construction may become several.
    pub fn highest_sequence(&self) -> u64 {
        let route = self.route();
        route.last_sequence + if self.is_unsealed() { MAX_FRAMES_OF_BUILDER } else { 0 }
    }

    /// Returns whether nothing up to a [`SendQueue::highest_sequence`] is kept any more.
    pub fn has_released(&self, sequence: u64) -> bool {
        // Held, so that a move to another stream is over or has not begun.
        let route = self.route();
        if route.last_sequence < sequence && self.is_unsealed() {
            return false;
        }
        self.progress().kept.front().is_none_or(|first| first.sequence > sequence)
    }

    /// Returns how fast the send queue's stream brings its bytes, and how many it has to bring.
    pub fn pace(&self) -> StreamPace {
        let mut pace = self.progress().unreceived.pace().clone();
        pace.given(self.building_bytes.load(Ordering::Relaxed), self.seconds());
        pace
    }

    /// Returns when the node holds everything up to `sequence`.
    pub fn wait_received(&self, sequence: u64) -> Result<()> {
        self.wait(|progress| progress.received(sequence)).map(drop)
    }

    pub fn has_received(&self, sequence: u64) -> bool {
        self.progress().received(sequence)
    }

    pub fn ask(self: &Arc<Self>, request: Request, completion: Completion) {
        let work = Work::Ask(Ask::new(request, self.timeout, completion));
        let refused = self.route().stream.push(Some(self), work);
        self.refuse(refused);
    }

    /// Asks something whose answer is not waited for unless `is_awaited` is set.
    pub fn ask_ahead(self: &Arc<Self>, request: Request, is_awaited: Arc<AtomicBool>, completion: Completion) {
        let work = Work::Ask(Ask::ahead(request, self.timeout, is_awaited, completion));
        let refused = self.route().stream.push(Some(self), work);
        self.refuse(refused);
    }

    /// Returns whether a frame was not yet received by the node process that serves the stripe set now.
    pub fn has_unreceived(&self) -> bool {
        !self.progress().unreceived.is_empty()
    }

    pub fn checkpointed(self: &Arc<Self>, epoch: u64) {
        self.route().stream.checkpointed(self, epoch);
    }

    /// Leaves its stream for good.
    pub fn end(self: &Arc<Self>) {
        drop(self.route().stream.remove_queue(self));
    }

    /// Returns whether another node process has replaced one that owned the stripe set.
    pub fn was_replaced(&self) -> bool {
        self.progress().was_replaced
    }

    /// Returns the address of the node that serves the stripe set now, as far as known.
    pub fn address(&self) -> String {
        self.route().stream.address.clone()
    }

    /// Returns how many connections have carried the send queue.
    pub fn attachments(&self) -> u64 {
        self.progress().attachments
    }

    // For streams.

    pub fn kept(&self, frame: &Frame, number: u64) {
        let now = self.seconds();
        let kept = KeptFrame { sequence: frame.sequence, number, bytes: frame.bytes() };
        let mut progress = self.progress();
        progress.kept.push_back(kept);
        progress.unreceived.add(kept.sequence, kept.bytes, now);
    }

    pub fn kept_nothing(&self) {
        self.progress().kept.clear();
    }

    /// Forgets frames up to `sequence`, but for those in `held`; returns their numbers.
    pub fn durable(&self, sequence: u64, held: &[u64]) -> Vec<u64> {
        let now = self.seconds();
        let mut progress = self.progress();
        let is_durable = |kept: &KeptFrame| kept.sequence <= sequence && !held.contains(&kept.sequence);
        let (durable, kept): (VecDeque<_>, VecDeque<_>) = progress.kept.drain(..).partition(is_durable);
        progress.kept = kept;
        let numbers: Vec<u64> = durable.into_iter().map(|frame| frame.number).collect();
        progress.unreceived.durable(sequence, now);
        progress.durable_or_forgotten(&numbers);
        drop(progress);
        self.changed.notify_all();
        numbers
    }

    /// Forgets the frames whose numbers `is_old` names; returns the numbers.
    pub fn forget(&self, is_old: impl Fn(&u64) -> bool) -> Vec<u64> {
        let now = self.seconds();
        let mut progress = self.progress();
        let (old, kept): (VecDeque<_>, VecDeque<_>) =
            progress.kept.drain(..).partition(|frame: &KeptFrame| is_old(&frame.number));
        progress.kept = kept;
        for frame in &old {
            progress.unreceived.received(frame.sequence, now);
        }
        let numbers: Vec<u64> = old.into_iter().map(|frame| frame.number).collect();
        progress.durable_or_forgotten(&numbers);
        numbers
    }

    // For the thread.

    /// Seals a frame that no write has added to lately.
    pub fn seal_if_idle(self: &Arc<Self>) {
        if let Ok(mut builder) = self.builder.try_lock() {
            self.seal_held(&mut builder);
        }
    }

    pub fn is_unsealed(&self) -> bool {
        self.unsealed.load(Ordering::SeqCst)
    }

    pub fn is_empty(&self) -> bool {
        self.progress().kept.is_empty() && !self.is_unsealed()
    }

    pub fn is_attached(&self) -> bool {
        self.progress().attached
    }

    /// Returns whether the send queue goes over this stream; false when it has moved to another node's.
    pub fn goes_over(&self, stream: &Arc<Stream>) -> bool {
        Arc::ptr_eq(&self.route().stream, stream)
    }

    pub fn must_not_ask_yet(&self, now: Instant) -> bool {
        self.progress().ask_after.is_some_and(|after| after > now)
    }

    /// Records that the node has received a frame; `is_new`: no node had before. A frame that was only sent again is no
    /// progress: a node that breaks at what comes after it would be tried for ever.
    pub fn received(&self, sequence: u64, is_new: bool) {
        let now = self.seconds();
        let mut progress = self.progress();
        progress.unreceived.received(sequence, now);
        if is_new {
            (progress.trouble, progress.unserved_since) = (None, None);
        }
        drop(progress);
        self.changed.notify_all();
    }

    /// Records that the node process `incarnation` serves the send queue now. Returns whether it is the first.
    pub fn attached(&self, incarnation: u64, epoch: u64, now: Instant) -> bool {
        let seconds = self.seconds();
        let mut progress = self.progress();
        let is_first = progress.attachments == 0;
        progress.attached = true;
        progress.attachments += 1;
        progress.epoch = epoch;
        if progress.incarnation.replace(incarnation).is_some_and(|before| before != incarnation) {
            progress.was_replaced = true;
            progress.ask_after = Some(now + self.timeout / QUIET_PART);
            let Progress { kept, unreceived, .. } = &mut *progress;
            kept.iter().for_each(|frame| unreceived.add(frame.sequence, frame.bytes, seconds));
        }
        if is_first {
            (progress.trouble, progress.unserved_since) = (None, None);
        }
        drop(progress);
        self.changed.notify_all();
        is_first
    }

    /// Records that a request of the send queue was answered.
    pub fn served(&self) {
        let mut progress = self.progress();
        (progress.trouble, progress.unserved_since) = (None, None);
    }

    pub fn has_other_nodes(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Returns whether a caller waits for what only the node can do: not for bytes that it has received and will make
    /// durable in its own time.
    pub fn is_awaited(&self, has_asked: bool, window: &Window) -> bool {
        let awaits_durable = window.is_awaited() || self.status.is_awaited();
        let progress = self.progress();
        let has_kept = !progress.kept.is_empty();
        has_asked || !progress.attached || !progress.unreceived.is_empty() || (has_kept && awaits_durable)
    }

    /// Decides what a send queue should do while the node does nothing for it; `waits` says whether that matters.
    /// Called repeatedly.
    pub fn action(&self, waits: bool, is_out_of_reach: bool, now: Instant) -> Action {
        let mut progress = self.progress();
        if !waits {
            progress.trouble = None;
            return Action::Wait;
        }
        let (since, move_at) = self.trouble(&mut progress, is_out_of_reach, now);
        if now >= since + self.timeout {
            Action::Fail
        } else if now >= move_at && self.has_other_nodes() {
            Action::Move
        } else {
            Action::Wait
        }
    }

    fn trouble(&self, progress: &mut Progress, is_out_of_reach: bool, now: Instant) -> (Instant, Instant) {
        // Where nothing is kept yet, another node is as good.
        let is_new = progress.attachments == 0;
        let move_after = match (is_new, is_out_of_reach) {
            (true, true) => Duration::ZERO,
            (true, false) => REACH_TIMEOUT.min(self.timeout / 2),
            (false, _) => self.timeout / 2,
        };
        *progress.trouble.get_or_insert((now, now + move_after))
    }

    /// Returns whether to give up a node that lives, as the time since when it is waited for in vain; called repeatedly
    /// while connected. The timeout, but at least `least`, continues from one node to the next: a node just moved to has
    /// the rest of it, unless it works.
    pub fn stuck_since(&self, waits: bool, works: bool, least: Duration, now: Instant) -> Option<Instant> {
        let mut progress = self.progress();
        if !waits {
            (progress.trouble, progress.unserved_since) = (None, None);
            return None;
        }
        let unserved_since = *progress.unserved_since.get_or_insert(now);
        let timeout = self.timeout.max(least);
        if works {
            progress.trouble = None;
            return (now >= unserved_since + timeout * MAX_TIMEOUTS_ALIVE).then_some(unserved_since);
        }
        let since = self.trouble(&mut progress, false, now).0;
        (now >= since + timeout).then_some(since.min(unserved_since))
    }

    /// Notes that the node has sent nothing since then: the time until the next one is tried runs from there.
    pub fn node_is_silent(&self, since: Instant, now: Instant) {
        let mut progress = self.progress();
        let waits_since = progress.trouble.map_or(now, |(since, _)| since);
        progress.trouble = Some((waits_since, since + self.timeout / 2));
    }

    /// Discounts the time for which the process was stopped: nothing was waited for meanwhile.
    pub fn stopped(&self, time: Duration, now: Instant) {
        let mut progress = self.progress();
        progress.trouble = progress.trouble.map(|(since, move_at)| ((since + time).min(now), move_at + time));
        progress.unserved_since = progress.unserved_since.map(|since| (since + time).min(now));
    }

    /// Returns the next node that has answered, or else that may: those that are known to be out of reach are passed over,
    /// unless all others are.
    fn next_node(&self, streams: &Streams, node: usize) -> usize {
        let others = || (1..self.nodes.len()).map(|step| (node + step) % self.nodes.len());
        let reached = others().find(|other| streams.is_reached(&self.nodes[*other], self.index));
        let unknown = || others().find(|other| !streams.is_out_of_reach(&self.nodes[*other], self.index));
        reached.or_else(unknown).unwrap_or((node + 1) % self.nodes.len())
    }

    /// Moves to the next node with everything that is kept; false when the timeout has passed.
    pub fn move_on(self: &Arc<Self>, streams: &Streams, now: Instant) -> bool {
        let mut route = self.route();
        {
            let mut progress = self.progress();
            let since = progress.trouble.map_or(now, |(since, _)| since);
            let move_after = if progress.attachments == 0 { REACH_TIMEOUT } else { self.timeout / 8 };
            progress.trouble = Some((since, now + move_after.min(self.timeout / 8)));
            if now >= since + self.timeout {
                return false;
            }
        }
        let works = route.stream.remove_queue(self);
        route.node = self.next_node(streams, route.node);
        route.stream = streams.get(&self.nodes[route.node], self.index);
        route.stream.stripe_set(self, now + MOVE_PAUSE);
        let refused: Vec<Work> = works.into_iter().filter_map(|work| route.stream.push(Some(self), work)).collect();
        drop(route);
        refused.into_iter().for_each(|work| self.refuse(Some(work)));
        true
    }

    /// Gives up everything; all waiting callers get `error`.
    pub fn abandon(self: &Arc<Self>, error: &Error) {
        let works = self.route().stream.remove_queue(self);
        self.progress().unreceived.clear();
        self.changed.notify_all();
        for work in works {
            if let Work::Ask(ask) = work {
                (ask.completion)(Err(error.clone()));
            }
        }
    }

    fn refuse(&self, work: Option<Work>) {
        if let Some(Work::Ask(ask)) = work {
            let error = self.status.failure().expect("work is only given back after a failure");
            let refuse: Result<Answer> = Err(error);
            (ask.completion)(refuse);
        }
    }

    fn wait(&self, is_done: impl Fn(&Progress) -> bool) -> Result<MutexGuard<'_, Progress>> {
        let mut progress = self.progress();
        loop {
            self.status.check()?;
            if is_done(&progress) {
                return Ok(progress);
            }
            progress = self.changed.wait(progress).expect("nothing panics while it holds a send queue's progress");
        }
    }

    fn seconds(&self) -> f64 {
        self.made.elapsed().as_secs_f64()
    }

    fn builder(&self) -> MutexGuard<'_, Builder> {
        self.builder.lock().expect("nothing panics while it holds a builder")
    }

    fn route(&self) -> MutexGuard<'_, Route> {
        self.route.lock().expect("nothing panics while it holds a route")
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("nothing panics while it holds a send queue's progress")
    }
}

impl Progress {
    /// Frames with these numbers in the stream's log have left it. Where none is left, nothing is waited for in vain.
    fn durable_or_forgotten(&mut self, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        self.unserved_since = None;
        if self.kept.is_empty() {
            self.trouble = None;
        }
    }

    fn received(&self, sequence: u64) -> bool {
        self.unreceived.has_none_up_to(sequence)
    }
}

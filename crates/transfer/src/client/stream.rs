//! A stream: one connection to one node, as callers see it: a log of what it must bring there, in order.
//!
//! An entry leaves the log when it is answered (requests) or durable (frames). After a break the whole log is sent
//! again, so nothing that was accepted can be lost by a broken connection. Locks are taken in the order
//! builder, route, stream, progress.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::SessionId;

use super::frame::Frame;
use super::oneshot::Completion;
use super::reactor::Thread;
use super::send_queue::{MAX_TIMEOUTS_ALIVE, SendQueue};
use super::stream_choice::StreamChoice;
use crate::ALIVE_INTERVAL;
use crate::message::Request;
use crate::node_connection::{LAST_HANDSHAKE_NUMBER, head};

/// Since when a node has sent nothing may differ by this much between two connections.
const HEARTBEAT_SKEW: Duration = ALIVE_INTERVAL;
/// Read requests in flight to a node at a time over one stream.
pub(super) const READS_IN_FLIGHT: usize = 8;

/// All streams of the process, by address and index.
pub(super) struct Streams {
    threads: Vec<Arc<Thread>>,
    known: Mutex<HashMap<(String, u32), Arc<Stream>>>,
    pub counts: StreamChoice,
    held_locks: AtomicUsize,
}

/// A file's lock while this process holds it: meanwhile the process sends its nodes heartbeats.
pub(super) struct HeldLock {
    /// The connection (counted) over which it is held.
    pub over: u64,
    streams: Arc<Streams>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.streams.held_locks.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Streams {
    pub fn new(threads: Vec<Arc<Thread>>, counts: StreamChoice) -> Self {
        Streams { threads, known: Mutex::default(), counts, held_locks: AtomicUsize::new(0) }
    }

    /// Connects this many streams to a node, those that are not.
    pub fn reach(&self, address: &str, count: u32) {
        (0..count).for_each(|index| self.get(address, index).try_reach());
    }

    /// Notes how long an answer of the node is under way, and connects as many more streams as that asks for.
    pub fn measured(&self, address: &str, round_trip: Duration) {
        let before = self.counts.of(address);
        let count = self.counts.measured(address, round_trip);
        (before..count).for_each(|index| self.get(address, index).try_reach());
    }

    /// Returns the stream, registered with its thread if new. It connects when it is given something to send.
    pub fn get(&self, address: &str, index: u32) -> Arc<Stream> {
        let mut known = self.known.lock().expect("finding a stream does not panic");
        let stream = known.entry((address.to_owned(), index)).or_insert_with(|| {
            let thread = &self.threads[index as usize % self.threads.len()];
            let stream = Arc::new(Stream {
                address: address.to_owned(),
                index,
                thread: thread.clone(),
                state: Mutex::new(State { last_number: LAST_HANDSHAKE_NUMBER, ..State::default() }),
                reach_changed: Condvar::new(),
            });
            thread.adopt(stream.clone());
            stream
        });
        stream.clone()
    }

    /// Notes that a file's lock was obtained over this connection.
    pub fn hold_lock(self: &Arc<Self>, over: u64) -> HeldLock {
        self.held_locks.fetch_add(1, Ordering::SeqCst);
        HeldLock { over, streams: self.clone() }
    }

    pub fn holds_lock(&self) -> bool {
        self.held_locks.load(Ordering::SeqCst) > 0
    }

    /// Notes that one of the streams to the node was found silent since then: the others need not wait as long to find that
    /// out, one after the other.
    pub fn suspect(&self, address: &str, silent_since: Instant) {
        let known = self.known.lock().expect("finding a stream does not panic");
        let of_node = known.iter().filter(|((other, _), _)| other == address);
        of_node.for_each(|(_, stream)| stream.lock().silent_since = Some(silent_since));
    }

    /// Returns whether this stream to the node, or the first, is known to find no listener.
    pub fn is_out_of_reach(&self, address: &str, index: u32) -> bool {
        self.get(address, index).is_out_of_reach() || self.get(address, 0).is_out_of_reach()
    }

    /// Returns whether this stream to the node has been welcomed, and has not been given up since.
    pub fn is_reached(&self, address: &str, index: u32) -> bool {
        self.get(address, index).lock().reach == Reach::Reached
    }
}

pub(super) struct Stream {
    pub address: String,
    pub index: u32,
    thread: Arc<Thread>,
    state: Mutex<State>,
    reach_changed: Condvar,
}

/// Whether the node can be reached, as the stream's connection found it last.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Reach {
    #[default]
    Unknown,
    /// A caller wants to know, even with nothing to send.
    Wanted,
    Reached,
    /// Nothing answers there.
    Absent,
}

#[derive(Default)]
struct State {
    log: BTreeMap<u64, Entry>,
    last_number: u64,
    /// Entries from this number on are not on the wire yet.
    unsent: u64,
    reads_in_flight: usize,
    reach: Reach,
    /// When the node last sent something over a stream that was given up for its silence.
    silent_since: Option<Instant>,
    /// The send queues that go over this stream; each is attached again after a break, before anything else is sent.
    stripe_sets: Vec<Attachment>,
}

struct Attachment {
    queue: Arc<SendQueue>,
    asked: bool,
    not_before: Instant,
}

struct Entry {
    queue: Option<Arc<SendQueue>>,
    work: Work,
}

impl Entry {
    fn is_of(&self, queue: &Arc<SendQueue>) -> bool {
        self.queue.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, queue))
    }

    /// Returns whether somebody waits for what the node does with it.
    fn is_awaited(&self) -> bool {
        match &self.work {
            Work::Frame(_) => true,
            Work::Ask(ask) => ask.is_awaited(),
        }
    }
}

/// Work for a stream to bring to its node.
pub(super) enum Work {
    Frame(Arc<Frame>),
    Ask(Ask),
}

pub(super) struct Ask {
    pub request: Request,
    pub completion: Completion,
    /// Set where nobody may wait for the answer, and then says whether somebody does.
    is_awaited: Option<Arc<AtomicBool>>,
    born: Instant,
    /// How long the node may be away before the answer is "unavailable"; send queues have their own clock.
    timeout: Duration,
}

impl Ask {
    pub fn new(request: Request, timeout: Duration, completion: Completion) -> Self {
        Ask { request, completion, is_awaited: None, born: Instant::now(), timeout }
    }

    /// Makes a request whose answer is not waited for unless `is_awaited` is set.
    pub fn ahead(request: Request, timeout: Duration, is_awaited: Arc<AtomicBool>, completion: Completion) -> Self {
        Ask { is_awaited: Some(is_awaited), ..Ask::new(request, timeout, completion) }
    }

    pub fn is_awaited(&self) -> bool {
        self.is_awaited.as_ref().is_none_or(|is_awaited| is_awaited.load(Ordering::SeqCst))
    }

    /// Returns whether it has waited longer than it may, for a node away since `since`; or much longer than that,
    /// however often the node came back.
    pub fn is_expired(&self, since: Instant, now: Instant) -> bool {
        now >= self.born.max(since) + self.timeout || now >= self.born + self.timeout * MAX_TIMEOUTS_ALIVE
    }

    /// Returns since when it waits in vain, if that is longer than it may, but at least `least`, for a node that lives
    /// and last made progress at `advanced`; or much longer than that, whatever the node did.
    pub fn stuck_since(&self, advanced: Instant, least: Duration, now: Instant) -> Option<Instant> {
        let timeout = self.timeout.max(least);
        let limits = [(self.born.max(advanced), timeout), (self.born, timeout * MAX_TIMEOUTS_ALIVE)];
        limits.into_iter().find(|(since, limit)| now >= *since + *limit).map(|(since, _)| since)
    }

    fn is_read(&self) -> bool {
        matches!(self.request, Request::Read { .. })
    }
}

/// The next message for the thread to send.
pub(super) enum Next {
    Nothing,
    /// There is something, but not yet.
    Later,
    Attach {
        number: u64,
        queue: Arc<SendQueue>,
    },
    Frame {
        number: u64,
        queue: Arc<SendQueue>,
        frame: Arc<Frame>,
    },
    Request {
        head: Vec<u8>,
    },
}

/// The recipient of an answer.
pub(super) enum AnswerTarget {
    /// The request was answered or dropped before.
    Discard,
    Frame {
        queue: Arc<SendQueue>,
        frame: Arc<Frame>,
    },
    Ask {
        queue: Option<Arc<SendQueue>>,
        ask: Ask,
    },
}

impl Stream {
    /// Puts work at the end of the log. Returns it when its send queue has failed.
    pub fn push(&self, queue: Option<&Arc<SendQueue>>, work: Work) -> Option<Work> {
        {
            let mut state = self.lock();
            if queue.is_some_and(|queue| queue.status.failure().is_some()) {
                return Some(work);
            }
            state.last_number += 1;
            let number = state.last_number;
            if let (Some(queue), Work::Frame(frame)) = (queue, &work) {
                queue.kept(frame, number);
            }
            state.log.insert(number, Entry { queue: queue.cloned(), work });
        }
        self.thread.wake();
        None
    }

    /// Routes the send queue over this stream from now on.
    pub fn stripe_set(&self, queue: &Arc<SendQueue>, not_before: Instant) {
        self.lock().stripe_sets.push(Attachment { queue: queue.clone(), asked: false, not_before });
        self.thread.wake();
    }

    /// Takes the send queue and its work off this stream, in order.
    pub fn remove_queue(&self, queue: &Arc<SendQueue>) -> Vec<Work> {
        let mut state = self.lock();
        state.stripe_sets.retain(|attachment| !Arc::ptr_eq(&attachment.queue, queue));
        let numbers: Vec<u64> =
            state.log.iter().filter(|(_, entry)| entry.is_of(queue)).map(|(number, _)| *number).collect();
        queue.kept_nothing();
        numbers.into_iter().map(|number| state.remove(number).work).collect()
    }

    pub fn wake(&self) {
        self.thread.wake();
    }

    /// Connects, if there is no connection, even with nothing to send yet.
    pub fn try_reach(&self) {
        let mut state = self.lock();
        if state.reach != Reach::Reached {
            state.reach = Reach::Wanted;
            drop(state);
            self.thread.wake();
        }
    }

    /// Returns whether the node has welcomed this process by the deadline.
    pub fn is_reached_by(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !matches!(state.reach, Reach::Reached | Reach::Absent) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.reach_changed.wait_timeout(state, left).expect("nothing panics while it holds a stream").0;
        }
        state.reach == Reach::Reached
    }

    pub fn is_out_of_reach(&self) -> bool {
        self.lock().reach == Reach::Absent
    }

    // The rest is for the thread that drives the stream.

    /// Returns whether another stream to the node found it silent, and nothing arrived over this one since either.
    pub fn is_suspected(&self, arrived: Instant) -> bool {
        self.lock().silent_since.is_some_and(|since| arrived <= since + HEARTBEAT_SKEW)
    }

    pub fn set_reach(&self, reach: Reach) {
        self.lock().reach = reach;
        self.reach_changed.notify_all();
    }

    /// Returns whether something is asked or kept, or to be attached.
    pub fn is_busy(&self) -> bool {
        let state = self.lock();
        !state.log.is_empty() || state.stripe_sets.iter().any(|attachment| !attachment.asked)
    }

    /// Discounts the time for which the process was stopped: nothing was waited for meanwhile.
    pub fn stopped(&self, time: Duration, now: Instant) {
        let mut state = self.lock();
        for entry in state.log.values_mut() {
            if let Work::Ask(ask) = &mut entry.work {
                ask.born = (ask.born + time).min(now);
            }
        }
        state.stripe_sets.iter().for_each(|attachment| attachment.queue.stopped(time, now));
    }

    pub fn next(&self, now: Instant, attaching: bool) -> Next {
        let mut state = self.lock();
        if let Some(at) = state.stripe_sets.iter().position(|attachment| !attachment.asked) {
            if state.stripe_sets[at].not_before > now {
                return Next::Later;
            }
            state.stripe_sets[at].asked = true;
            state.last_number += 1;
            return Next::Attach { number: state.last_number, queue: state.stripe_sets[at].queue.clone() };
        }
        if attaching {
            return Next::Nothing;
        }
        let unsent = state.unsent;
        let Some((number, entry)) = state.log.range(unsent..).next() else { return Next::Nothing };
        let number = *number;
        let (next, reads) = match (&entry.work, &entry.queue) {
            (Work::Frame(frame), Some(queue)) => {
                (Next::Frame { number, queue: queue.clone(), frame: frame.clone() }, 0)
            }
            (Work::Frame(_), None) => unreachable!("frames belong to send queues"),
            (Work::Ask(ask), queue) => {
                if queue.as_ref().is_some_and(|queue| queue.must_not_ask_yet(now)) {
                    return Next::Later;
                }
                if ask.is_read() && state.reads_in_flight >= READS_IN_FLIGHT {
                    return Next::Nothing;
                }
                (Next::Request { head: head(&ask.request, number, &[]) }, ask.is_read() as usize)
            }
        };
        state.unsent = number + 1;
        state.reads_in_flight += reads;
        next
    }

    /// Returns a number for a message that is not in the log.
    pub fn number(&self) -> u64 {
        let mut state = self.lock();
        state.last_number += 1;
        state.last_number
    }

    /// Removes an answered request from the log; frames stay until durable. Returns the recipient of the answer.
    pub fn answered(&self, number: u64) -> AnswerTarget {
        let mut state = self.lock();
        match state.log.get(&number) {
            None => AnswerTarget::Discard,
            Some(Entry { queue: Some(queue), work: Work::Frame(frame) }) => {
                AnswerTarget::Frame { queue: queue.clone(), frame: frame.clone() }
            }
            Some(_) => {
                let Entry { queue, work } = state.remove(number);
                let Work::Ask(ask) = work else { unreachable!("frames belong to send queues") };
                AnswerTarget::Ask { queue, ask }
            }
        }
    }

    /// Returns the send queue that goes over this stream to the stripe set.
    pub fn queue(&self, session: SessionId, stripe_set: u32) -> Option<Arc<SendQueue>> {
        self.lock().queue(session, stripe_set)
    }

    /// Removes the send queue's frames up to `sequence`, but for `held`, which are durable. Returns the send queue, if
    /// it is still here, and whether any was not known to be durable.
    pub fn durable(
        &self,
        session: SessionId,
        stripe_set: u32,
        sequence: u64,
        held: &[u64],
    ) -> Option<(Arc<SendQueue>, bool)> {
        let mut state = self.lock();
        let queue = state.queue(session, stripe_set)?;
        let dropped: Vec<Entry> =
            queue.durable(sequence, held).into_iter().map(|number| state.remove(number)).collect();
        drop(state);
        Some((queue, !dropped.is_empty()))
    }

    /// Removes frames of a checkpointed epoch from the log, if the node has received them and all before them: those
    /// after one that gets a new stamp must get a newer one ([`Stream::forget_late_stamps`]).
    pub fn checkpointed(&self, queue: &Arc<SendQueue>, epoch: u64) {
        let mut state = self.lock();
        let first_unstamped = state.frames(queue).find(|(_, frame)| frame.stamp() == 0).map(|(number, _)| number);
        let old = |number: &u64| match state.log.get(number) {
            Some(Entry { work: Work::Frame(frame), .. }) => {
                frame.epoch < epoch && first_unstamped.is_none_or(|first| *number < first)
            }
            _ => false,
        };
        let dropped: Vec<Entry> = queue.forget(old).into_iter().map(|number| state.remove(number)).collect();
        drop(state);
        drop(dropped);
    }

    /// Forgets the stamps of the send queue's frames after the first that has none. An offer may be answered later than
    /// what was written over it, and the next node process stamps it anew: then also what came after it.
    pub fn forget_late_stamps(&self, queue: &Arc<SendQueue>) {
        let state = self.lock();
        let is_stamped = |(_, frame): &(u64, &Arc<Frame>)| frame.stamp() != 0;
        state.frames(queue).skip_while(is_stamped).for_each(|(_, frame)| frame.set_stamp(0));
    }

    /// Resets the stream after its connection broke: everything is to be sent again.
    pub fn broke(&self) {
        let mut state = self.lock();
        (state.unsent, state.reads_in_flight) = (0, 0);
        state.stripe_sets.iter_mut().for_each(|attachment| attachment.asked = false);
        if state.reach == Reach::Reached {
            state.reach = Reach::Unknown;
        }
    }

    pub fn has_work(&self) -> bool {
        let state = self.lock();
        !state.log.is_empty() || !state.stripe_sets.is_empty() || state.reach == Reach::Wanted
    }

    /// Returns send queues with a frame under construction.
    pub fn unsealed(&self) -> Vec<Arc<SendQueue>> {
        let state = self.lock();
        state
            .stripe_sets
            .iter()
            .filter(|attachment| attachment.queue.is_unsealed())
            .map(|attachment| attachment.queue.clone())
            .collect()
    }

    /// Returns send queues, each with whether it waits for something.
    pub fn queues(&self) -> Vec<(Arc<SendQueue>, bool)> {
        let state = self.lock();
        let waits = |queue: &Arc<SendQueue>| {
            !queue.is_attached() || state.log.values().any(|entry| entry.is_of(queue) && entry.is_awaited())
        };
        state.stripe_sets.iter().map(|attachment| (attachment.queue.clone(), waits(&attachment.queue))).collect()
    }

    /// Returns send queues, each with whether a request of it that is waited for is not answered.
    pub fn asking_queues(&self) -> Vec<(Arc<SendQueue>, bool)> {
        let state = self.lock();
        let asks = |queue: &Arc<SendQueue>| {
            let is_asked = |entry: &Entry| matches!(&entry.work, Work::Ask(ask) if ask.is_awaited());
            state.log.values().any(|entry| is_asked(entry) && entry.is_of(queue))
        };
        state.stripe_sets.iter().map(|attachment| (attachment.queue.clone(), asks(&attachment.queue))).collect()
    }

    /// Takes out the requests without a send queue for which `is_due` holds.
    pub fn take_asks(&self, is_due: impl Fn(&Ask) -> bool) -> Vec<Ask> {
        let mut state = self.lock();
        let is_due = |entry: &Entry| match &entry.work {
            Work::Ask(ask) => entry.queue.is_none() && is_due(ask),
            Work::Frame(_) => false,
        };
        let numbers: Vec<u64> =
            state.log.iter().filter(|(_, entry)| is_due(entry)).map(|(number, _)| *number).collect();
        let asks = numbers.into_iter().map(|number| state.remove(number).work);
        asks.filter_map(|work| if let Work::Ask(ask) = work { Some(ask) } else { None }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a stream")
    }
}

impl State {
    fn queue(&self, session: SessionId, stripe_set: u32) -> Option<Arc<SendQueue>> {
        let of =
            |attachment: &&Attachment| attachment.queue.session == session && attachment.queue.stripe_set == stripe_set;
        self.stripe_sets.iter().find(of).map(|attachment| attachment.queue.clone())
    }

    /// Returns the send queue's frames with their numbers, in order.
    fn frames<'a>(&'a self, queue: &'a Arc<SendQueue>) -> impl Iterator<Item = (u64, &'a Arc<Frame>)> {
        self.log.iter().filter_map(move |(number, entry)| match (&entry.queue, &entry.work) {
            (Some(owner), Work::Frame(frame)) if Arc::ptr_eq(owner, queue) => Some((*number, frame)),
            _ => None,
        })
    }

    fn remove(&mut self, number: u64) -> Entry {
        let entry = self.log.remove(&number).expect("the entry was found in the log");
        if number < self.unsent && matches!(&entry.work, Work::Ask(ask) if ask.is_read()) {
            self.reads_in_flight -= 1;
        }
        entry
    }
}

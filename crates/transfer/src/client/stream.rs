//! A stream: one connection to one node, as callers see it: a log of what it must bring there, in order.
//!
//! An entry leaves the log when it is answered (requests) or durable (frames). After a break the whole log is sent
//! again, so nothing that was accepted can be lost by a broken connection. Locks are taken in the order
//! builder, route, stream, progress.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::SessionId;

use super::frame::Frame;
use super::handover::Completion;
use super::lane::{BELIEVED_PATIENCES, Lane};
use super::reactor::Thread;
use crate::message::Request;

/// Read requests a node is asked at a time over one stream.
const READS_IN_FLIGHT: usize = 8;

/// All streams of the process, by address and index.
pub(super) struct Streams {
    threads: Vec<Arc<Thread>>,
    known: Mutex<HashMap<(String, u32), Arc<Stream>>>,
    held_locks: AtomicUsize,
}

/// A file's lock while this process holds it: meanwhile nodes hear that the process lives.
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
    pub fn new(threads: Vec<Arc<Thread>>) -> Self {
        Streams { threads, known: Mutex::default(), held_locks: AtomicUsize::new(0) }
    }

    /// The stream, made known to its thread if new. Connects when it is given something to do.
    pub fn get(&self, address: &str, index: u32) -> Arc<Stream> {
        let mut known = self.known.lock().expect("finding a stream does not panic");
        let stream = known.entry((address.to_owned(), index)).or_insert_with(|| {
            let thread = &self.threads[index as usize % self.threads.len()];
            let stream = Arc::new(Stream {
                address: address.to_owned(),
                index,
                thread: thread.clone(),
                state: Mutex::default(),
                reach_changed: Condvar::new(),
            });
            thread.adopt(stream.clone());
            stream
        });
        stream.clone()
    }

    /// A file's lock was got over this connection.
    pub fn hold_lock(self: &Arc<Self>, over: u64) -> HeldLock {
        self.held_locks.fetch_add(1, Ordering::SeqCst);
        HeldLock { over, streams: self.clone() }
    }

    pub fn holds_lock(&self) -> bool {
        self.held_locks.load(Ordering::SeqCst) > 0
    }

    /// Whether this stream to the node, or the first, is known to find nobody.
    pub fn is_out_of_reach(&self, address: &str, index: u32) -> bool {
        self.get(address, index).is_out_of_reach() || self.get(address, 0).is_out_of_reach()
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
    /// Someone wants to know, whatever there is to bring.
    Wanted,
    Reached,
    /// Nobody answers there.
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
    /// The lanes that go over this stream; each is attached anew after a break, before anything else is sent.
    seats: Vec<Seated>,
}

struct Seated {
    lane: Arc<Lane>,
    asked: bool,
    not_before: Instant,
}

struct Entry {
    lane: Option<Arc<Lane>>,
    work: Work,
}

/// What a stream is to bring to its node.
pub(super) enum Work {
    Frame(Arc<Frame>),
    Ask(Ask),
}

pub(super) struct Ask {
    pub request: Request,
    pub completion: Completion,
    born: Instant,
    /// How long the node may be away before the answer is "unavailable"; lanes have their own clock.
    patience: Duration,
}

impl Ask {
    pub fn new(request: Request, patience: Duration, completion: Completion) -> Self {
        Ask { request, completion, born: Instant::now(), patience }
    }

    /// Whether it has waited longer than it may, for a node away since `since`.
    pub fn is_expired(&self, since: Instant, now: Instant) -> bool {
        now >= self.born.max(since) + self.patience
    }

    /// Whether it has waited longer than it may, but at least `least`, for a node that lives and did something last at
    /// `advanced`; or much longer than that, whatever the node did.
    pub fn is_stuck(&self, advanced: Instant, least: Duration, now: Instant) -> bool {
        let patience = self.patience.max(least);
        now >= self.born.max(advanced) + patience || now >= self.born + patience * BELIEVED_PATIENCES
    }

    fn is_read(&self) -> bool {
        matches!(self.request, Request::Read { .. })
    }
}

/// What the thread should send next.
pub(super) enum Next {
    Nothing,
    /// There is something, but not yet.
    Later,
    Attach {
        number: u64,
        lane: Arc<Lane>,
    },
    Frame {
        number: u64,
        lane: Arc<Lane>,
        frame: Arc<Frame>,
    },
    Request {
        head: Vec<u8>,
    },
}

/// Whom an answer is for.
pub(super) enum Addressee {
    Nobody,
    Frame { lane: Arc<Lane>, frame: Arc<Frame> },
    Ask { lane: Option<Arc<Lane>>, ask: Ask },
}

impl Stream {
    /// Puts work at the end of the log. Given back when its lane has failed.
    pub fn push(&self, lane: Option<&Arc<Lane>>, work: Work) -> Option<Work> {
        {
            let mut state = self.lock();
            if lane.is_some_and(|lane| lane.fate.failure().is_some()) {
                return Some(work);
            }
            state.last_number += 1;
            let number = state.last_number;
            if let (Some(lane), Work::Frame(frame)) = (lane, &work) {
                lane.kept(frame.sequence, number);
            }
            state.log.insert(number, Entry { lane: lane.cloned(), work });
        }
        self.thread.wake();
        None
    }

    /// The lane goes over this stream from now on.
    pub fn seat(&self, lane: &Arc<Lane>, not_before: Instant) {
        self.lock().seats.push(Seated { lane: lane.clone(), asked: false, not_before });
        self.thread.wake();
    }

    /// Takes the lane and its work off this stream, in order.
    pub fn unseat(&self, lane: &Arc<Lane>) -> Vec<Work> {
        let mut state = self.lock();
        state.seats.retain(|seated| !Arc::ptr_eq(&seated.lane, lane));
        let belongs = |entry: &Entry| entry.lane.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, lane));
        let numbers: Vec<u64> =
            state.log.iter().filter(|(_, entry)| belongs(entry)).map(|(number, _)| *number).collect();
        lane.kept_nothing();
        numbers.into_iter().map(|number| state.remove(number).work).collect()
    }

    pub fn wake(&self) {
        self.thread.wake();
    }

    /// Connects, if there is no connection, though there is nothing to bring yet.
    pub fn try_reach(&self) {
        let mut state = self.lock();
        if state.reach != Reach::Reached {
            state.reach = Reach::Wanted;
            drop(state);
            self.thread.wake();
        }
    }

    /// Whether the node has welcomed this process by the deadline.
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

    // What follows is for the thread that drives the stream.

    pub fn set_reach(&self, reach: Reach) {
        self.lock().reach = reach;
        self.reach_changed.notify_all();
    }

    /// Something is asked or kept.
    pub fn is_busy(&self) -> bool {
        let state = self.lock();
        !state.log.is_empty() || state.seats.iter().any(|seated| !seated.asked)
    }

    /// The process was stopped for so long: nothing was waited for meanwhile.
    pub fn stopped(&self, time: Duration, now: Instant) {
        let mut state = self.lock();
        for entry in state.log.values_mut() {
            if let Work::Ask(ask) = &mut entry.work {
                ask.born = (ask.born + time).min(now);
            }
        }
        state.seats.iter().for_each(|seated| seated.lane.stopped(time, now));
    }

    pub fn next(&self, now: Instant, attaching: bool) -> Next {
        let mut state = self.lock();
        if let Some(at) = state.seats.iter().position(|seated| !seated.asked) {
            if state.seats[at].not_before > now {
                return Next::Later;
            }
            state.seats[at].asked = true;
            state.last_number += 1;
            return Next::Attach { number: state.last_number, lane: state.seats[at].lane.clone() };
        }
        if attaching {
            return Next::Nothing;
        }
        let unsent = state.unsent;
        let Some((number, entry)) = state.log.range(unsent..).next() else { return Next::Nothing };
        let number = *number;
        let (next, reads) = match (&entry.work, &entry.lane) {
            (Work::Frame(frame), Some(lane)) => (Next::Frame { number, lane: lane.clone(), frame: frame.clone() }, 0),
            (Work::Frame(_), None) => unreachable!("frames belong to lanes"),
            (Work::Ask(ask), lane) => {
                if lane.as_ref().is_some_and(|lane| lane.must_not_ask_yet(now)) {
                    return Next::Later;
                }
                if ask.is_read() && state.reads_in_flight >= READS_IN_FLIGHT {
                    return Next::Nothing;
                }
                (Next::Request { head: super::frame::head(&ask.request, number, &[]) }, ask.is_read() as usize)
            }
        };
        state.unsent = number + 1;
        state.reads_in_flight += reads;
        next
    }

    /// A number for a message that is not in the log.
    pub fn number(&self) -> u64 {
        let mut state = self.lock();
        state.last_number += 1;
        state.last_number
    }

    /// Requests leave the log with their answer, frames stay until durable.
    pub fn answered(&self, number: u64) -> Addressee {
        let mut state = self.lock();
        match state.log.get(&number) {
            None => Addressee::Nobody,
            Some(Entry { lane: Some(lane), work: Work::Frame(frame) }) => {
                Addressee::Frame { lane: lane.clone(), frame: frame.clone() }
            }
            Some(_) => {
                let Entry { lane, work } = state.remove(number);
                let Work::Ask(ask) = work else { unreachable!("frames belong to lanes") };
                Addressee::Ask { lane, ask }
            }
        }
    }

    /// The lane that goes over this stream to the seat.
    pub fn lane(&self, session: SessionId, seat: u32) -> Option<Arc<Lane>> {
        self.lock().lane(session, seat)
    }

    /// Frames of the lane up to `sequence`, but for `held`, are durable: they leave the log. The lane, if it is still
    /// here.
    pub fn durable(&self, session: SessionId, seat: u32, sequence: u64, held: &[u64]) -> Option<Arc<Lane>> {
        let mut state = self.lock();
        let lane = state.lane(session, seat)?;
        let dropped: Vec<Entry> = lane.durable(sequence, held).into_iter().map(|number| state.remove(number)).collect();
        drop(state);
        drop(dropped);
        Some(lane)
    }

    /// Frames of a settled epoch leave the log, if the node has received them.
    pub fn settled(&self, lane: &Arc<Lane>, epoch: u64) {
        let mut state = self.lock();
        let old = |number: &u64| match state.log.get(number) {
            Some(Entry { work: Work::Frame(frame), .. }) => frame.epoch < epoch && frame.stamp() != 0,
            _ => false,
        };
        let dropped: Vec<Entry> = lane.forget(old).into_iter().map(|number| state.remove(number)).collect();
        drop(state);
        drop(dropped);
    }

    /// The connection broke: everything is to be sent again.
    pub fn broke(&self) {
        let mut state = self.lock();
        (state.unsent, state.reads_in_flight) = (0, 0);
        state.seats.iter_mut().for_each(|seated| seated.asked = false);
        if state.reach == Reach::Reached {
            state.reach = Reach::Unknown;
        }
    }

    pub fn has_work(&self) -> bool {
        let state = self.lock();
        !state.log.is_empty() || !state.seats.is_empty() || state.reach == Reach::Wanted
    }

    /// Lanes with a frame under construction.
    pub fn unsealed(&self) -> Vec<Arc<Lane>> {
        let state = self.lock();
        state.seats.iter().filter(|seated| seated.lane.is_unsealed()).map(|seated| seated.lane.clone()).collect()
    }

    /// Lanes, each with whether it waits for something.
    pub fn lanes(&self) -> Vec<(Arc<Lane>, bool)> {
        let state = self.lock();
        let waits = |lane: &Arc<Lane>| {
            let of_lane = |entry: &Entry| entry.lane.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, lane));
            !lane.is_attached() || state.log.values().any(of_lane)
        };
        state.seats.iter().map(|seated| (seated.lane.clone(), waits(&seated.lane))).collect()
    }

    /// Lanes, each with whether a request of it is not answered.
    pub fn asking_lanes(&self) -> Vec<(Arc<Lane>, bool)> {
        let state = self.lock();
        let asks = |lane: &Arc<Lane>| {
            let is_ask = |entry: &Entry| matches!(entry.work, Work::Ask(_));
            let of_lane = |entry: &Entry| entry.lane.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, lane));
            state.log.values().any(|entry| is_ask(entry) && of_lane(entry))
        };
        state.seats.iter().map(|seated| (seated.lane.clone(), asks(&seated.lane))).collect()
    }

    /// Takes out the requests of no lane that `is_due` names.
    pub fn take_asks(&self, is_due: impl Fn(&Ask) -> bool) -> Vec<Ask> {
        let mut state = self.lock();
        let is_due = |entry: &Entry| match &entry.work {
            Work::Ask(ask) => entry.lane.is_none() && is_due(ask),
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
    fn lane(&self, session: SessionId, seat: u32) -> Option<Arc<Lane>> {
        let of = |seated: &&Seated| seated.lane.session == session && seated.lane.seat == seat;
        self.seats.iter().find(of).map(|seated| seated.lane.clone())
    }

    fn remove(&mut self, number: u64) -> Entry {
        let entry = self.log.remove(&number).expect("the entry was found in the log");
        if number < self.unsent && matches!(&entry.work, Work::Ask(ask) if ask.is_read()) {
            self.reads_in_flight -= 1;
        }
        entry
    }
}

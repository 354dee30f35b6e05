//! A stream as its thread drives it: connecting, greeting, attaching lanes, sending the log, taking answers.
//!
//! After every (re)connection the order is Hello, then Attach for each lane, then the log from its beginning. The
//! thread holds no lock while it calls completions or moves lanes.

mod greeting;
mod watching;

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use self::watching::UNGREETED;
use super::frame::{self, Content, Frame};
use super::handover::Answer;
use super::incoming::{Arrived, Incoming};
use super::lane::Lane;
use super::outgoing::{Bulk, Outgoing};
use super::reactor::Surroundings;
use super::recalls::Recalls;
use super::reduce;
use super::socket::Socket;
use super::stream::{Addressee, Next, Reach, Stream};
use crate::Error;
use crate::challenge::Challenge;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::resolve::Resolution;
use crate::tls::TlsRefusal;

const FIRST_BACK_OFF: Duration = Duration::from_millis(10);
const MOST_BACK_OFF: Duration = Duration::from_millis(250);
/// Received at a time before other streams have their turn (bytes).
const TURN_BYTES: usize = 4 << 20;

pub(super) struct Connection {
    pub stream: Arc<Stream>,
    phase: Phase,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Lanes whose `Attach` is not answered; nothing else is sent meanwhile.
    attaching: HashMap<u64, Arc<Lane>>,
    /// Frames of which the node wants to know more, then the messages that say it, until they are answered.
    wanting: VecDeque<(Arc<Lane>, Arc<Frame>, Want)>,
    following: HashMap<u64, (Arc<Lane>, Arc<Frame>)>,
    recalls: Recalls,
    /// Of an attempt given up before the name was resolved: the resolver is not asked twice at a time.
    resolution: Option<Resolution>,
    back_off: Duration,
    attempt: usize,
    /// Since when the node has not answered anything, and why.
    trouble: Option<(Instant, String)>,
    /// When the connection at hand, or its greeting, was begun.
    begun: Option<Instant>,
    /// While connected: when something of the node arrived last, when something came of what was asked, and when both were
    /// looked at.
    heard: Instant,
    advanced: Instant,
    /// When something came of anything: of what was asked, or of what the node does for others.
    worked: Instant,
    watched: Instant,
    said_alive: Instant,
    progress: u64,
    /// Something waits for a moment rather than for the socket.
    later: bool,
}

/// What a node wants after it was told of whole segments.
enum Want {
    Names,
    /// Of these segments, by index.
    Content(Vec<u32>),
}

enum Phase {
    /// Nothing to do.
    Idle,
    Waiting {
        until: Instant,
    },
    Resolving(Resolution),
    Connecting(Socket),
    /// Hello's number, and what comes before Welcome.
    Greeting(Socket, u64, Challenge),
    Ready(Socket, Peer),
}

/// What the node said of itself.
struct Peer {
    holder: u64,
    settings: Option<format::Settings>,
}

/// Why a connection is given up.
enum Broken {
    /// It is made again.
    ForNow(String),
    /// The peer refuses this process or speaks no protocol of ours, and will not change its mind.
    ForGood(Error),
}

impl<E: std::fmt::Display> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken::ForNow(error.to_string())
    }
}

impl Connection {
    pub fn new(stream: Arc<Stream>) -> Self {
        Connection {
            stream,
            phase: Phase::Idle,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            attaching: HashMap::new(),
            wanting: VecDeque::new(),
            following: HashMap::new(),
            recalls: Recalls::default(),
            resolution: None,
            back_off: FIRST_BACK_OFF,
            attempt: 0,
            trouble: None,
            begun: None,
            heard: Instant::now(),
            advanced: Instant::now(),
            worked: Instant::now(),
            watched: Instant::now(),
            said_alive: Instant::now(),
            progress: 0,
            later: false,
        }
    }

    /// Does whatever can be done without waiting.
    pub fn step(&mut self, around: &Surroundings, now: Instant) {
        self.later = false;
        match &self.phase {
            Phase::Idle if self.stream.has_work() => self.connect(around, now),
            Phase::Waiting { until } if now >= *until => self.connect(around, now),
            Phase::Ready(..) => {
                if let Err(broken) = self.send(around, now) {
                    self.broke(broken, around, now);
                }
            }
            _ => {}
        }
        match self.phase {
            Phase::Idle => {}
            Phase::Ready(..) => self.watch(around, now),
            _ => {
                self.give_up_attempt(around, now);
                self.lose_patience(around, now);
            }
        }
    }

    /// The socket, and what to wait for.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        use std::os::fd::AsFd;
        match &self.phase {
            Phase::Idle | Phase::Waiting { .. } | Phase::Resolving(_) => None,
            Phase::Connecting(socket) => Some((socket.as_fd(), PollFlags::OUT)),
            Phase::Greeting(socket, ..) | Phase::Ready(socket, _) => {
                let out = if self.outgoing.is_empty() && !socket.wants_to_send() {
                    PollFlags::empty()
                } else {
                    PollFlags::OUT
                };
                Some((socket.as_fd(), PollFlags::IN | out))
            }
        }
    }

    /// Whether the passing of time alone changes something.
    pub fn is_unsettled(&self) -> bool {
        self.later || !matches!(self.phase, Phase::Idle | Phase::Ready(..))
    }

    /// Whether the node owes something, so that its silence is noticed, or must not take this process's for death.
    pub fn is_watched(&self, around: &Surroundings) -> bool {
        matches!(self.phase, Phase::Ready(..)) && (self.stream.is_busy() || self.must_say_alive(around))
    }

    /// The socket has news.
    pub fn ready(&mut self, around: &Surroundings, now: Instant) {
        let outcome = match &self.phase {
            Phase::Connecting(_) => self.greet(around),
            Phase::Greeting(..) | Phase::Ready(..) => self.receive(around, now),
            _ => Ok(()),
        };
        if let Err(broken) = outcome {
            self.broke(broken, around, now);
        }
    }

    fn send(&mut self, around: &Surroundings, now: Instant) -> Result<(), Broken> {
        loop {
            while self.outgoing.has_room() {
                if !self.queue_next(around, now) {
                    break;
                }
            }
            let Phase::Ready(socket, _) = &self.phase else { unreachable!("only a ready connection sends") };
            if self.outgoing.is_empty() {
                return Ok(());
            }
            self.outgoing.send(socket)?;
            if !self.outgoing.is_empty() {
                return Ok(());
            }
        }
    }

    /// Queues one message; false when there is none to send now.
    fn queue_next(&mut self, around: &Surroundings, now: Instant) -> bool {
        if let Some((lane, frame, want)) = self.wanting.pop_front() {
            self.follow(around, lane, frame, want);
            return true;
        }
        match self.stream.next(now, !self.attaching.is_empty()) {
            Next::Nothing => return false,
            Next::Later => {
                self.later = true;
                return false;
            }
            Next::Attach { number, lane } => {
                let attach = Request::Attach { session: lane.session, seat: lane.seat, key: lane.key };
                self.outgoing.push(frame::head(&attach, number, &[]), Bulk::None);
                self.attaching.insert(number, lane);
            }
            Next::Request { head } => self.outgoing.push(head, Bulk::None),
            Next::Frame { number, lane, frame } => {
                if let Content::Whole(whole) = &frame.content {
                    let (reducer, settings) = self.reduction(around);
                    whole.fingerprint(reducer, settings);
                    if whole.digest().is_some() && !self.recalls.ask() {
                        whole.spell_out();
                    }
                }
                let head = frame.head(lane.session, lane.seat, number);
                self.outgoing.push(head, Bulk::Frame(frame));
            }
        }
        true
    }

    /// Says what the node wants to know of a frame, unless the frame's lane has gone to another node.
    fn follow(&mut self, around: &Surroundings, lane: Arc<Lane>, frame: Arc<Frame>, want: Want) {
        let Content::Whole(whole) = &frame.content else { return };
        if !lane.goes_over(&self.stream) {
            return;
        }
        let number = self.stream.number();
        match want {
            Want::Names => self.outgoing.push(frame.head(lane.session, lane.seat, number), Bulk::None),
            Want::Content(wanted) => {
                let (reducer, settings) = self.reduction(around);
                let blocks = whole.blocks(&wanted, reducer, settings);
                let (request, payload) = reduce::supply(lane.session, lane.seat, frame.sequence, blocks);
                self.outgoing.push(frame::head(&request, number, &payload), Bulk::Own(payload));
            }
        }
        self.following.insert(number, (lane, frame));
    }

    fn reduction<'a>(&'a self, around: &'a Surroundings) -> (&'a dyn reduce::Reducer, &'a format::Settings) {
        let Phase::Ready(_, Peer { settings: Some(settings), .. }) = &self.phase else {
            unreachable!("with reduction here, a node without settings is refused at its welcome")
        };
        (around.reducer.as_deref().expect("whole segments are only built with a reducer"), settings)
    }

    fn receive(&mut self, around: &Surroundings, now: Instant) -> Result<(), Broken> {
        let mut turn_bytes = 0;
        loop {
            let (Phase::Greeting(socket, ..) | Phase::Ready(socket, _)) = &self.phase else { return Ok(()) };
            // At the end of its turn it takes only what the socket does not hold any more.
            let received = socket.receive(self.incoming.room(), turn_bytes < TURN_BYTES);
            let Some(bytes) = received.map_err(|error| self.unreadable(&error))? else { return Ok(()) };
            self.incoming.filled(bytes);
            self.heard = now;
            turn_bytes += bytes;
            while let Some(arrived) = self.incoming.take().map_err(|source| self.misunderstood(source))? {
                self.take(arrived, around, now)?;
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> Broken {
        match TlsRefusal::of(error) {
            Some(refusal) => Broken::ForGood(Error::Refused(format!("{}: {refusal}", self.stream.address))),
            None => Broken::ForNow(error.to_string()),
        }
    }

    fn take(&mut self, arrived: Arrived, around: &Surroundings, now: Instant) -> Result<(), Broken> {
        let Arrived { kind, number, body, payload } = arrived;
        let reply = Reply::decode(kind, &body)?;
        if let Phase::Greeting(_, hello, _) = &self.phase {
            return if *hello == number { self.welcomed(reply, around) } else { self.challenged(reply) };
        }
        if let Reply::Alive { progress } = reply {
            if std::mem::replace(&mut self.progress, progress) != progress {
                (self.advanced, self.worked) = (now, now);
            }
            return Ok(());
        }
        // The answer to a message of life says no more than the node's own.
        if matches!(reply, Reply::Measured { .. }) {
            return Ok(());
        }
        (self.advanced, self.worked) = (now, now);
        if number == 0 {
            return self.told(reply, around, now);
        }
        if let Some(lane) = self.attaching.remove(&number) {
            return self.attach_answered(lane, reply, around, now);
        }
        if let Some((lane, frame)) = self.following.remove(&number) {
            if !lane.goes_over(&self.stream) {
                return Ok(());
            }
            return self.frame_answered(lane, frame, reply, around, now);
        }
        match self.stream.answered(number) {
            Addressee::Nobody => Ok(()),
            Addressee::Frame { lane, frame } => self.frame_answered(lane, frame, reply, around, now),
            Addressee::Ask { lane, ask } => {
                if let (Reply::Failed { failure }, Some(lane)) = (&reply, &lane)
                    && failure.kind == FailureKind::SeatLost
                    && lane.fate.failure().is_none()
                {
                    self.move_lane(lane, failure, around, now);
                    lane.ask(ask.request, ask.completion);
                    return Ok(());
                }
                lane.inspect(|lane| lane.served());
                self.fine();
                (ask.completion)(match reply {
                    Reply::Failed { failure } => Err(Error::Failed(failure)),
                    reply => Ok(Answer { reply, payload }),
                });
                Ok(())
            }
        }
    }

    /// The node says something unasked.
    fn told(&mut self, reply: Reply, around: &Surroundings, now: Instant) -> Result<(), Broken> {
        match reply {
            Reply::Durable { session, seat, sequence, held } => {
                let lane = self.stream.durable(session, seat, sequence, &held);
                lane.inspect(|lane| lane.fate.look());
                Ok(())
            }
            Reply::SeatFailed { session, seat, failure } => match self.stream.lane(session, seat) {
                Some(lane) => self.lane_failed(&lane, failure, around, now),
                None => Ok(()),
            },
            Reply::Failed { failure } => Err(Broken::ForNow(failure.text)),
            _ => Ok(()),
        }
    }

    fn misunderstood(&self, source: format::Error) -> Broken {
        match source {
            format::Error::OtherProtocol { .. } => Broken::ForGood(self.refused_by(source)),
            // Later on it is a node's stream that was damaged.
            format::Error::Stranger { .. } if matches!(self.phase, Phase::Greeting(..)) => {
                Broken::ForGood(self.refused_by(source))
            }
            source => source.into(),
        }
    }

    fn refused_by(&self, source: format::Error) -> Error {
        Error::Protocol { peer: self.stream.address.clone(), source }
    }

    fn attach_answered(
        &mut self,
        lane: Arc<Lane>,
        reply: Reply,
        around: &Surroundings,
        now: Instant,
    ) -> Result<(), Broken> {
        match reply {
            Reply::Attached { epoch, .. } => {
                let Phase::Ready(_, peer) = &self.phase else { unreachable!("lanes attach to ready connections") };
                lane.attached(peer.holder, epoch, now);
                self.fine();
                Ok(())
            }
            Reply::Failed { failure } => self.lane_failed(&lane, failure, around, now),
            other => Err(Broken::ForNow(format!("it answered an attachment with message {:#x}", other.kind()))),
        }
    }

    fn frame_answered(
        &mut self,
        lane: Arc<Lane>,
        frame: Arc<Frame>,
        reply: Reply,
        around: &Surroundings,
        now: Instant,
    ) -> Result<(), Broken> {
        let is_recalled = matches!(&frame.content, Content::Whole(whole) if whole.digest().is_some());
        match &reply {
            Reply::Received { .. } | Reply::Lacks { .. } if is_recalled => self.recalls.hit(),
            Reply::Unnamed { .. } => self.recalls.missed(),
            _ => {}
        }
        match reply {
            Reply::Received { stamp, .. } => {
                frame.set_stamp(stamp);
                lane.received(frame.sequence);
                self.fine();
                Ok(())
            }
            Reply::Lacks { stamp, wanted, .. } => {
                frame.set_stamp(stamp);
                self.wanting.push_back((lane, frame, Want::Content(wanted)));
                Ok(())
            }
            Reply::Unnamed { stamp, .. } => {
                if !frame.spell_out() {
                    return Err(Broken::ForNow("it asked for names that it was told".into()));
                }
                frame.set_stamp(stamp);
                self.wanting.push_back((lane, frame, Want::Names));
                Ok(())
            }
            Reply::Failed { failure } => self.lane_failed(&lane, failure, around, now),
            other => Err(Broken::ForNow(format!("it answered a write with message {:#x}", other.kind()))),
        }
    }

    /// A node that cannot now is asked again later, one that lost the seat is left; anything else is for ever.
    fn lane_failed(
        &mut self,
        lane: &Arc<Lane>,
        failure: Failure,
        around: &Surroundings,
        now: Instant,
    ) -> Result<(), Broken> {
        match failure.kind {
            FailureKind::Unavailable => Err(Broken::ForNow(failure.text)),
            FailureKind::SeatLost => {
                self.move_lane(lane, &failure, around, now);
                Ok(())
            }
            _ => {
                lane.fate.fail(Error::Failed(failure));
                Ok(())
            }
        }
    }

    fn move_lane(&self, lane: &Arc<Lane>, failure: &Failure, around: &Surroundings, now: Instant) {
        if !lane.move_on(&around.streams, now) {
            lane.fate.fail(Error::Unavailable { peer: self.stream.address.clone(), why: failure.text.clone() });
        }
    }

    fn fine(&mut self) {
        self.trouble = None;
        self.back_off = FIRST_BACK_OFF;
    }

    fn broke(&mut self, broken: Broken, around: &Surroundings, now: Instant) {
        self.incoming.clear();
        self.outgoing.clear();
        self.attaching.clear();
        self.wanting.clear();
        self.following.clear();
        self.stream.broke();
        let why = match broken {
            Broken::ForNow(why) if matches!(self.phase, Phase::Greeting(..)) => format!("{why}, {UNGREETED}"),
            Broken::ForNow(why) => why,
            Broken::ForGood(error) => {
                self.refuse(&error, around, now);
                error.to_string()
            }
        };
        let was_connected = matches!(self.phase, Phase::Ready(..));
        if let Phase::Resolving(resolution) = std::mem::replace(&mut self.phase, Phase::Idle) {
            self.resolution = Some(resolution);
        }
        if !self.stream.has_work() {
            self.phase = Phase::Idle;
            self.trouble = None;
            return;
        }
        // A node that could not be reached has been away since it was tried.
        let begun = if was_connected { now } else { self.begun.unwrap_or(now) };
        let since = self.trouble.take().map_or(begun, |(since, _)| since);
        self.trouble = Some((since, why));
        self.phase = Phase::Waiting { until: now + self.back_off };
        self.back_off = (self.back_off * 2).min(MOST_BACK_OFF);
    }

    /// Nothing goes to this peer: lanes try their other nodes, everything else has failed.
    fn refuse(&self, error: &Error, around: &Surroundings, now: Instant) {
        self.stream.set_reach(Reach::Absent);
        for ask in self.stream.take_asks(|_| true) {
            (ask.completion)(Err(error.clone()));
        }
        for (lane, _) in self.stream.lanes() {
            if !lane.has_other_nodes() || !lane.move_on(&around.streams, now) {
                lane.fate.fail(error.clone());
            }
        }
    }
}

//! A stream as its thread drives it: connecting, greeting, attaching send queues, sending the log, taking answers.
//!
//! After every (re)connection the order is Hello, then Attach for each send queue, then the log from its beginning. The
//! thread holds no lock while it calls completions or moves send queues.

mod greeting;
mod watching;

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use self::watching::UNGREETED;
use super::digest_offers::DigestOffers;
use super::frame::{self, Content, Frame};
use super::incoming::{Incoming, ReceivedFrame};
use super::oneshot::Answer;
use super::outgoing::{Bulk, Outgoing};
use super::reactor::IoContext;
use super::reduce;
use super::send_queue::SendQueue;
use super::socket::Socket;
use super::stream::{AnswerTarget, Next, Reach, Stream};
use crate::Error;
use crate::back_off::BackOff;
use crate::handshake::Handshake;
use crate::liveness::Liveness;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::resolve::Resolution;
use crate::tls::TlsRefusal;

const FIRST_BACK_OFF: Duration = Duration::from_millis(10);
const MAX_BACK_OFF: Duration = Duration::from_millis(250);
/// Most bytes received before other streams have their turn.
const TURN_BYTES: usize = 4 << 20;

pub(super) struct Connection {
    pub stream: Arc<Stream>,
    phase: Phase,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Send queues whose `Attach` is not answered; nothing else is sent meanwhile.
    attaching: HashMap<u64, Arc<SendQueue>>,
    /// Frames of which the node wants more, and the messages that carry it, until they are answered.
    wanting: VecDeque<(Arc<SendQueue>, Arc<Frame>, ContentRequest)>,
    following: HashMap<u64, (Arc<SendQueue>, Arc<Frame>)>,
    digest_offers: DigestOffers,
    /// Left by an attempt given up before the name was resolved, so that two resolutions never run at once.
    resolution: Option<Resolution>,
    pauses: BackOff,
    attempt: usize,
    /// Since when the node has not answered anything, and why.
    trouble: Option<(Instant, String)>,
    /// When the connection at hand, or its greeting, was begun.
    begun: Option<Instant>,
    /// While connected: what arrives from the node says of it.
    node: Liveness,
    /// When that was last checked, and when the connection began.
    watched: Instant,
    welcomed: Instant,
    said_alive: Instant,
    /// Something waits for a point in time rather than for the socket.
    later: bool,
}

/// A node's request after an offer of whole segments.
enum ContentRequest {
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
    Greeting(Socket, Handshake),
    Ready(Socket, PeerNode),
}

/// The content of the node's Welcome.
struct PeerNode {
    incarnation: u64,
    settings: Option<format::Settings>,
}

/// Why a connection is given up, and whether it is made again.
enum Disconnect {
    /// It is made again.
    ForNow(String),
    /// The peer refuses this process or does not speak our protocol, and will not later either.
    ForGood(Error),
}

impl<E: std::fmt::Display> From<E> for Disconnect {
    fn from(error: E) -> Self {
        Disconnect::ForNow(error.to_string())
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
            digest_offers: DigestOffers::default(),
            resolution: None,
            pauses: BackOff::new(FIRST_BACK_OFF, MAX_BACK_OFF),
            attempt: 0,
            trouble: None,
            begun: None,
            node: Liveness::begin(Instant::now()),
            watched: Instant::now(),
            welcomed: Instant::now(),
            said_alive: Instant::now(),
            later: false,
        }
    }

    /// Does everything that can be done without waiting.
    pub fn step(&mut self, context: &IoContext, now: Instant) {
        self.later = false;
        match &self.phase {
            Phase::Idle if self.stream.has_work() => self.connect(context, now),
            Phase::Waiting { until } if now >= *until => self.connect(context, now),
            Phase::Ready(..) => {
                if let Err(broken) = self.send(context, now) {
                    self.broke(broken, context, now);
                }
            }
            _ => {}
        }
        match self.phase {
            Phase::Idle => {}
            Phase::Ready(..) => self.watch(context, now),
            _ => {
                self.give_up_attempt(context, now);
                self.fail_waiting(context, now);
            }
        }
    }

    /// Returns the socket and the events to poll for.
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

    /// Returns whether the passing of time alone changes something.
    pub fn is_troubled(&self) -> bool {
        self.later || !matches!(self.phase, Phase::Idle | Phase::Ready(..))
    }

    /// Returns whether silence matters: the node owes an answer, or must not take this process's silence for its death.
    pub fn is_watched(&self, context: &IoContext) -> bool {
        matches!(self.phase, Phase::Ready(..)) && (self.is_busy() || self.must_say_alive(context))
    }

    /// Handles a readable or writable socket.
    pub fn ready(&mut self, context: &IoContext, now: Instant) {
        let outcome = match &self.phase {
            Phase::Connecting(_) => self.greet(context),
            Phase::Greeting(..) | Phase::Ready(..) => self.receive(context, now),
            _ => Ok(()),
        };
        if let Err(broken) = outcome {
            self.broke(broken, context, now);
        }
    }

    fn send(&mut self, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        loop {
            while self.outgoing.has_room() {
                if !self.queue_next(context, now) {
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
    fn queue_next(&mut self, context: &IoContext, now: Instant) -> bool {
        if let Some((queue, frame, want)) = self.wanting.pop_front() {
            self.follow(context, queue, frame, want);
            return true;
        }
        match self.stream.next(now, !self.attaching.is_empty()) {
            Next::Nothing => return false,
            Next::Later => {
                self.later = true;
                return false;
            }
            Next::Attach { number, queue } => {
                let attach = Request::Attach { session: queue.session, stripe_set: queue.stripe_set, key: queue.key };
                self.outgoing.push(frame::head(&attach, number, &[]), Bulk::None);
                self.attaching.insert(number, queue);
            }
            Next::Request { head } => self.outgoing.push(head, Bulk::None),
            Next::Frame { number, queue, frame } => {
                if let Content::Whole(whole) = &frame.content {
                    let (reducer, settings) = self.reduction(context);
                    whole.fingerprint(reducer, settings);
                    if whole.digest().is_some() && !self.digest_offers.ask() {
                        whole.send_full_list();
                    }
                }
                let head = frame.head(queue.session, queue.stripe_set, number);
                self.outgoing.push(head, Bulk::Frame(frame));
            }
        }
        true
    }

    /// Sends what the node wants of a frame, unless the frame's send queue has moved to another node.
    fn follow(&mut self, context: &IoContext, queue: Arc<SendQueue>, frame: Arc<Frame>, want: ContentRequest) {
        let Content::Whole(whole) = &frame.content else { return };
        if !queue.goes_over(&self.stream) {
            return;
        }
        let number = self.stream.number();
        match want {
            ContentRequest::Names => {
                self.outgoing.push(frame.head(queue.session, queue.stripe_set, number), Bulk::None)
            }
            ContentRequest::Content(wanted) => {
                let (reducer, settings) = self.reduction(context);
                let blocks = whole.blocks(&wanted, reducer, settings);
                let (request, payload) = reduce::send_blocks(queue.session, queue.stripe_set, frame.sequence, blocks);
                self.outgoing.push(frame::head(&request, number, &payload), Bulk::Own(payload));
            }
        }
        self.following.insert(number, (queue, frame));
    }

    fn reduction<'a>(&'a self, context: &'a IoContext) -> (&'a dyn reduce::Reducer, &'a format::Settings) {
        let Phase::Ready(_, PeerNode { settings: Some(settings), .. }) = &self.phase else {
            unreachable!("with reduction here, a node without settings is refused at its welcome")
        };
        (context.reducer.as_deref().expect("whole segments are only built with a reducer"), settings)
    }

    fn receive(&mut self, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        let mut turn_bytes = 0;
        loop {
            let (Phase::Greeting(socket, ..) | Phase::Ready(socket, _)) = &self.phase else { return Ok(()) };
            // At the end of its turn it takes only what the socket does not hold any more.
            let received = socket.receive(self.incoming.room(), turn_bytes < TURN_BYTES);
            let Some(bytes) = received.map_err(|error| self.unreadable(&error))? else { return Ok(()) };
            self.incoming.filled(bytes);
            self.node.hear(now);
            turn_bytes += bytes;
            while let Some(arrived) = self.incoming.take().map_err(|source| self.misunderstood(source))? {
                self.take(arrived, context, now)?;
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> Disconnect {
        match TlsRefusal::of(error) {
            Some(refusal) => Disconnect::ForGood(Error::Refused(format!("{}: {refusal}", self.stream.address))),
            None => Disconnect::ForNow(error.to_string()),
        }
    }

    fn take(&mut self, arrived: ReceivedFrame, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        let ReceivedFrame { kind, number, body, payload } = arrived;
        let reply = Reply::decode(kind, &body)?;
        if matches!(self.phase, Phase::Greeting(..)) {
            return self.greeted(number, reply, context);
        }
        if let Reply::Alive { progress } = reply {
            self.node.beat(progress, now);
            return Ok(());
        }
        // The answer to a heartbeat says no more than the node's own heartbeats.
        if matches!(reply, Reply::Measured { .. }) {
            return Ok(());
        }
        self.node.work(now);
        if number == 0 {
            return self.told(reply, context, now);
        }
        if let Some(queue) = self.attaching.remove(&number) {
            return self.attach_answered(queue, reply, context, now);
        }
        if let Some((queue, frame)) = self.following.remove(&number) {
            if !queue.goes_over(&self.stream) {
                return Ok(());
            }
            return self.frame_answered(queue, frame, reply, context, now);
        }
        match self.stream.answered(number) {
            AnswerTarget::Nobody => Ok(()),
            AnswerTarget::Frame { queue, frame } => self.frame_answered(queue, frame, reply, context, now),
            AnswerTarget::Ask { queue, ask } => {
                if let (Reply::Failed { failure }, Some(queue)) = (&reply, &queue)
                    && failure.kind == FailureKind::StripeSetLost
                    && queue.status.failure().is_none()
                {
                    self.move_queue(queue, failure, context, now);
                    queue.ask(ask.request, ask.completion);
                    return Ok(());
                }
                queue.inspect(|queue| queue.served());
                self.fine();
                (ask.completion)(match reply {
                    Reply::Failed { failure } => Err(Error::Failed(failure)),
                    reply => Ok(Answer { reply, payload }),
                });
                Ok(())
            }
        }
    }

    /// Handles an unsolicited message of the node.
    fn told(&mut self, reply: Reply, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        match reply {
            Reply::Durable { session, stripe_set, sequence, held } => {
                let queue = self.stream.durable(session, stripe_set, sequence, &held);
                if let Some((queue, has_news)) = queue {
                    if has_news {
                        self.fine();
                    }
                    queue.status.look();
                }
                Ok(())
            }
            Reply::StripeSetFailed { session, stripe_set, failure } => match self.stream.queue(session, stripe_set) {
                Some(queue) => self.queue_failed(&queue, failure, context, now),
                None => Ok(()),
            },
            Reply::Failed { failure } => Err(Disconnect::ForNow(failure.text)),
            _ => Ok(()),
        }
    }

    fn misunderstood(&self, source: format::Error) -> Disconnect {
        match source {
            format::Error::OtherProtocol { .. } => Disconnect::ForGood(self.refused_by(source)),
            // Later on it is a node's stream that was damaged.
            format::Error::Stranger { .. } if matches!(self.phase, Phase::Greeting(..)) => {
                Disconnect::ForGood(self.refused_by(source))
            }
            source => source.into(),
        }
    }

    fn refused_by(&self, source: format::Error) -> Error {
        Error::Protocol { peer: self.stream.address.clone(), source }
    }

    fn attach_answered(
        &mut self,
        queue: Arc<SendQueue>,
        reply: Reply,
        context: &IoContext,
        now: Instant,
    ) -> Result<(), Disconnect> {
        match reply {
            Reply::Attached { epoch, .. } => {
                let Phase::Ready(_, peer) = &self.phase else {
                    unreachable!("send queues attach to ready connections")
                };
                if queue.attached(peer.incarnation, epoch, now) || !self.is_busy() {
                    self.fine();
                }
                Ok(())
            }
            Reply::Failed { failure } => self.queue_failed(&queue, failure, context, now),
            other => Err(Disconnect::ForNow(format!("it answered an attachment with message {:#x}", other.kind()))),
        }
    }

    fn frame_answered(
        &mut self,
        queue: Arc<SendQueue>,
        frame: Arc<Frame>,
        reply: Reply,
        context: &IoContext,
        now: Instant,
    ) -> Result<(), Disconnect> {
        let is_digest_known = matches!(&frame.content, Content::Whole(whole) if whole.digest().is_some());
        match &reply {
            Reply::Received { .. } | Reply::Missing { .. } if is_digest_known => self.digest_offers.hit(),
            Reply::NeedFingerprints { .. } => self.digest_offers.missed(),
            _ => {}
        }
        match reply {
            Reply::Received { stamp, .. } => {
                frame.set_stamp(stamp);
                let is_new = frame.set_received();
                queue.received(frame.sequence, is_new);
                if is_new {
                    self.fine();
                }
                Ok(())
            }
            Reply::Missing { stamp, wanted, .. } => {
                frame.set_stamp(stamp);
                self.wanting.push_back((queue, frame, ContentRequest::Content(wanted)));
                Ok(())
            }
            Reply::NeedFingerprints { stamp, .. } => {
                if !frame.send_full_list() {
                    return Err(Disconnect::ForNow("it asked for names that it was told".into()));
                }
                frame.set_stamp(stamp);
                self.wanting.push_back((queue, frame, ContentRequest::Names));
                Ok(())
            }
            Reply::Failed { failure } => self.queue_failed(&queue, failure, context, now),
            other => Err(Disconnect::ForNow(format!("it answered a write with message {:#x}", other.kind()))),
        }
    }

    /// Handles a failed send queue: retries a node that cannot serve now, leaves one that lost the stripe set, fails on
    /// anything else.
    fn queue_failed(
        &mut self,
        queue: &Arc<SendQueue>,
        failure: Failure,
        context: &IoContext,
        now: Instant,
    ) -> Result<(), Disconnect> {
        match failure.kind {
            FailureKind::Unavailable => Err(Disconnect::ForNow(failure.text)),
            FailureKind::StripeSetLost => {
                self.move_queue(queue, &failure, context, now);
                Ok(())
            }
            _ => {
                queue.status.fail(Error::Failed(failure));
                Ok(())
            }
        }
    }

    fn move_queue(&self, queue: &Arc<SendQueue>, failure: &Failure, context: &IoContext, now: Instant) {
        if !queue.move_on(&context.streams, now) {
            queue.status.fail(Error::Unavailable { peer: self.stream.address.clone(), why: failure.text.clone() });
        }
    }

    /// Notes that the node has done something new, or stays: what it does again after each break says nothing.
    fn fine(&mut self) {
        self.trouble = None;
        self.pauses.reset();
    }

    fn broke(&mut self, broken: Disconnect, context: &IoContext, now: Instant) {
        self.incoming.clear();
        self.outgoing.clear();
        self.attaching.clear();
        self.wanting.clear();
        self.following.clear();
        self.stream.broke();
        let why = match broken {
            Disconnect::ForNow(why) if matches!(self.phase, Phase::Greeting(..)) => format!("{why}, {UNGREETED}"),
            Disconnect::ForNow(why) => why,
            Disconnect::ForGood(error) => {
                self.refuse(&error, context, now);
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
        self.phase = Phase::Waiting { until: now + self.pauses.next() };
    }

    /// Gives up this peer: send queues try their other nodes, everything else fails.
    fn refuse(&self, error: &Error, context: &IoContext, now: Instant) {
        self.stream.set_reach(Reach::Absent);
        for ask in self.stream.take_asks(|_| true) {
            (ask.completion)(Err(error.clone()));
        }
        for (queue, _) in self.stream.queues() {
            if !queue.has_other_nodes() || !queue.move_on(&context.streams, now) {
                queue.status.fail(error.clone());
            }
        }
    }
}

//! A stream as its thread drives it: connecting, attaching send queues, sending the log, taking answers.
//!
//! After every (re)connection the order is Hello, then Attach for each send queue, then the log from its beginning. The
//! thread holds no lock while it calls completions or moves send queues.

mod connecting;
mod watching;

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use self::watching::UNGREETED;
use super::digest_offers::DigestOffers;
use super::frame::{Content, Frame};
use super::oneshot::Answer;
use super::reactor::IoContext;
use super::reduce;
use super::reduction::ProcessReduction;
use super::send_queue::SendQueue;
use super::stream::{AnswerTarget, Next, Reach, Stream};
use crate::Error;
use crate::back_off::BackOff;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::node_connection::{Bulk, Disconnect, Event, NodeConnection, head};
use crate::resolve::Resolution;

const FIRST_BACK_OFF: Duration = Duration::from_millis(10);
const MAX_BACK_OFF: Duration = Duration::from_millis(250);

pub(super) struct StreamConnection {
    pub stream: Arc<Stream>,
    phase: Phase,
    /// The node's Welcome.
    peer: Option<PeerNode>,
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
    /// When the attempt at hand was begun.
    begun: Option<Instant>,
    /// When the node's liveness was last checked, and when the connection began.
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
    /// Connecting, greeting or welcome.
    Open(Box<NodeConnection>),
}

/// The content of the node's Welcome.
struct PeerNode {
    incarnation: u64,
    settings: Option<format::Settings>,
}

impl StreamConnection {
    pub fn new(stream: Arc<Stream>) -> Self {
        StreamConnection {
            stream,
            phase: Phase::Idle,
            peer: None,
            attaching: HashMap::new(),
            wanting: VecDeque::new(),
            following: HashMap::new(),
            digest_offers: DigestOffers::default(),
            resolution: None,
            pauses: BackOff::new(FIRST_BACK_OFF, MAX_BACK_OFF),
            attempt: 0,
            trouble: None,
            begun: None,
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
            Phase::Open(node) if node.is_welcome() => {
                if let Err(broken) = self.send(context, now) {
                    self.broke(broken, context, now);
                }
            }
            _ => {}
        }
        match &self.phase {
            Phase::Idle => {}
            Phase::Open(node) if node.is_welcome() => self.watch(context, now),
            _ => {
                self.give_up_attempt(context, now);
                self.fail_waiting(context, now);
            }
        }
    }

    /// Returns the socket and the events to poll for.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.phase {
            Phase::Open(node) => Some(node.interest()),
            _ => None,
        }
    }

    /// Returns whether the passing of time alone changes something.
    pub fn is_troubled(&self) -> bool {
        self.later || !(matches!(self.phase, Phase::Idle) || self.is_welcome())
    }

    fn is_welcome(&self) -> bool {
        matches!(&self.phase, Phase::Open(node) if node.is_welcome())
    }

    /// Returns the connection, of which the caller knows that it is open.
    fn node(&mut self) -> &mut NodeConnection {
        match &mut self.phase {
            Phase::Open(node) => node,
            _ => unreachable!("only an open connection sends and receives"),
        }
    }

    /// Returns whether silence matters: the node owes an answer, or must not take this process's silence for its death.
    pub fn is_watched(&self, context: &IoContext) -> bool {
        self.is_welcome() && (self.is_busy() || self.must_say_alive(context))
    }

    /// Handles a readable or writable socket.
    pub fn ready(&mut self, context: &IoContext, now: Instant) {
        if let Err(broken) = self.receive(context, now) {
            self.broke(broken, context, now);
        }
    }

    fn send(&mut self, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        loop {
            while self.node().has_room() {
                if !self.queue_next(context, now) {
                    break;
                }
            }
            let node = self.node();
            if node.has_sent() {
                return Ok(());
            }
            node.flush(&[])?;
            if !node.has_sent() {
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
                self.node().push(head(&attach, number, &[]), Bulk::None);
                self.attaching.insert(number, queue);
            }
            Next::Request { head } => self.node().push(head, Bulk::None),
            Next::Frame { number, queue, frame } => {
                self.offer(&frame, context);
                let head = frame.head(&queue, number);
                self.node().push(head, Bulk::Shared(frame));
            }
        }
        true
    }

    /// Decides whether a frame's segments are offered by fingerprint, and prepares the offer.
    fn offer(&mut self, frame: &Frame, context: &IoContext) {
        let Content::Whole(whole) = &frame.content else { return };
        let (reduction, settings) = self.reduction(context);
        if !whole.decide(|| reduction.takes_next_frame()) {
            return;
        }
        reduction.fingerprint(whole, settings);
        if whole.digest().is_some() && !self.digest_offers.ask() {
            whole.send_full_list();
        }
    }

    /// Sends what the node wants of a frame, unless the frame's send queue has moved to another node.
    fn follow(&mut self, context: &IoContext, queue: Arc<SendQueue>, frame: Arc<Frame>, want: ContentRequest) {
        let Some(whole) = frame.offered() else { return };
        if !queue.goes_over(&self.stream) {
            return;
        }
        let number = self.stream.number();
        match want {
            ContentRequest::Names => self.node().push(frame.head(&queue, number), Bulk::None),
            ContentRequest::Content(wanted) => {
                let (reduction, settings) = self.reduction(context);
                let blocks = reduction.encode(whole, &wanted, &queue.mode.over(settings));
                let (request, payload) = reduce::send_blocks(queue.session, queue.stripe_set, frame.sequence, blocks);
                self.node().push(head(&request, number, &[&payload]), Bulk::Own(payload));
            }
        }
        self.following.insert(number, (queue, frame));
    }

    fn reduction<'a>(&'a self, context: &'a IoContext) -> (&'a ProcessReduction, &'a format::Settings) {
        let Some(PeerNode { settings: Some(settings), .. }) = &self.peer else {
            unreachable!("with reduction here, a node without settings is refused at its welcome")
        };
        (context.reduction.as_deref().expect("whole segments are only built with a reducer"), settings)
    }

    fn receive(&mut self, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
        let Phase::Open(node) = &mut self.phase else { return Ok(()) };
        let was_greeted = node.round_trip().is_some();
        node.ready(now)?;
        if let Some(round_trip) = node.round_trip().filter(|_| !was_greeted) {
            context.streams.measured(&self.stream.address, round_trip);
        }
        while let Phase::Open(node) = &mut self.phase
            && let Some(event) = node.next(now)?
        {
            match event {
                Event::Welcome { settings, incarnation } => self.welcome(&settings, incarnation, context)?,
                Event::Message { number, reply, payload } => self.take(number, reply, payload, context, now)?,
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        number: u64,
        reply: Reply,
        payload: Vec<u8>,
        context: &IoContext,
        now: Instant,
    ) -> Result<(), Disconnect> {
        // The answer to a heartbeat says no more than the node's own heartbeats.
        if matches!(reply, Reply::Measured { .. }) {
            return Ok(());
        }
        self.node().liveness.work(now);
        if number == 0 {
            return self.handle_notice(reply, context, now);
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
            AnswerTarget::Discard => Ok(()),
            AnswerTarget::Frame { queue, frame } => self.frame_answered(queue, frame, reply, context, now),
            AnswerTarget::Ask { queue, ask } => {
                if let (Reply::Failed { failure }, Some(queue)) = (&reply, &queue)
                    && failure.kind == FailureKind::StripeSetLost
                    && queue.status.failure().is_none()
                    && ask.is_awaited()
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
    fn handle_notice(&mut self, reply: Reply, context: &IoContext, now: Instant) -> Result<(), Disconnect> {
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
            Reply::Failed { failure } => Err(Disconnect::Broken(failure.text)),
            _ => Ok(()),
        }
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
                // Before any of them is sent again.
                self.stream.forget_late_stamps(&queue);
                let peer = self.peer.as_ref().expect("send queues attach after the node's welcome");
                if queue.attached(peer.incarnation, epoch, now) || !self.is_busy() {
                    self.fine();
                }
                Ok(())
            }
            Reply::Failed { failure } => self.queue_failed(&queue, failure, context, now),
            other => Err(Disconnect::Broken(format!("it answered an attachment with message {:#x}", other.kind()))),
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
        let is_digest_known = frame.offered().is_some_and(|whole| whole.digest().is_some());
        match &reply {
            Reply::Received { .. } | Reply::Missing { .. } if is_digest_known => self.digest_offers.hit(),
            Reply::NeedFingerprints { .. } => self.digest_offers.missed(),
            _ => {}
        }
        self.note_missing(&frame, &reply, context);
        match reply {
            Reply::Received { stamp, .. } => {
                frame.set_stamp(stamp);
                let is_new = frame.set_received();
                queue.received(frame.sequence, is_new);
                if is_new {
                    self.fine();
                    if let Some(reduction) = &context.reduction {
                        reduction.received(&frame, queue.has_unreceived(), now);
                    }
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
                    return Err(Disconnect::Broken("it asked for names that it has".into()));
                }
                frame.set_stamp(stamp);
                self.wanting.push_back((queue, frame, ContentRequest::Names));
                Ok(())
            }
            Reply::Failed { failure } => self.queue_failed(&queue, failure, context, now),
            other => Err(Disconnect::Broken(format!("it answered a write with message {:#x}", other.kind()))),
        }
    }

    /// Notes how many of a frame's segments the node is missing, by its first answer about them.
    fn note_missing(&self, frame: &Frame, reply: &Reply, context: &IoContext) {
        let (Some(whole), Some(reduction)) = (frame.offered(), &context.reduction) else { return };
        match reply {
            Reply::Missing { wanted, .. } => reduction.offered(whole, wanted.len()),
            Reply::Received { .. } if !whole.was_wanted() => reduction.offered(whole, 0),
            _ => {}
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
            FailureKind::Unavailable => Err(Disconnect::Broken(failure.text)),
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
        self.attaching.clear();
        self.wanting.clear();
        self.following.clear();
        self.stream.broke();
        self.peer = None;
        // A node that could not be reached has been away since it was tried.
        let (begun, is_greeting) = match &self.phase {
            Phase::Open(node) if node.is_welcome() => (now, false),
            Phase::Open(node) => (node.begun(), node.is_greeting()),
            _ => (self.begun.unwrap_or(now), false),
        };
        let is_unanswered = is_greeting && !matches!(broken, Disconnect::Busy(_));
        let why = match self.refusal(broken, is_greeting) {
            Ok(why) if is_unanswered => format!("{why}, {UNGREETED}"),
            Ok(why) => why,
            Err(error) => {
                self.refuse(&error, context, now);
                error.to_string()
            }
        };
        if let Phase::Resolving(resolution) = std::mem::replace(&mut self.phase, Phase::Idle) {
            self.resolution = Some(resolution);
        }
        if !self.stream.has_work() {
            self.trouble = None;
            return;
        }
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

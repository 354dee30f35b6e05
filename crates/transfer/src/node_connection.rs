//! A client's end of a connection to a node, below commands and MPI programs: dialling, TLS, the handshake, whole frames
//! in both directions, and what arrives of the node's liveness.
//!
//! It never waits but in [`NodeConnection::wait`]. A command's thread waits there for its one connection; an I/O thread of
//! a program polls many. Requests, and repeating them after a break, are theirs.

mod receive_buffer;
mod send_buffer;
mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::receive_buffer::ReceiveBuffer;
use self::send_buffer::{SendBuffer, head_of};
use self::socket::Socket;
use crate::connection::{Frame, check_size};
use crate::frame_pace::FramePace;
use crate::handshake::{Handshake, Rejection, Step};
use crate::liveness::Liveness;
use crate::message::{Reply, Request};
use crate::tls::{TlsClient, TlsRefusal};
use crate::{CONNECT_TIMEOUT, Credentials, Error, SILENCE_TIMEOUT, rate_limit};
use format::ErrorCode;

pub(crate) use self::send_buffer::{Bulk, head};

/// The numbers of the handshake's messages; those of a connection's requests follow.
const HELLO_NUMBER: u64 = 1;
pub(crate) const LAST_HANDSHAKE_NUMBER: u64 = 2;
/// A thread that wakes this much later than planned was stopped, and did not wait.
pub(crate) const STOPPED: Duration = Duration::from_secs(1);
/// Most bytes received before other connections have their turn.
const TURN_BYTES: usize = 4 << 20;
/// What arrives at once and is longer holds more than heartbeats.
const MAX_HEARTBEAT_BYTES: usize = 4 << 10;
/// How far a frame that has begun may fall behind its pace.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct NodeConnection {
    address: String,
    /// Tried where the one at hand takes no connection, the last one first.
    other_candidates: Vec<SocketAddr>,
    tls: Option<TlsClient>,
    timeouts: HandshakeTimeouts,
    socket: Socket,
    stage: Stage,
    handshake: Handshake,
    receive_buffer: ReceiveBuffer,
    send_buffer: SendBuffer,
    pub liveness: Liveness,
    pace: FramePace,
    /// Received in this turn.
    turn_bytes: usize,
    /// When the stage at hand began.
    begun: Instant,
    /// How long the node's machine took to take the connection: the time there and back.
    round_trip: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Connecting,
    Greeting,
    Welcome,
}

/// How long a node that takes a connection may leave its client without a welcome.
#[derive(Clone, Copy)]
pub(crate) struct HandshakeTimeouts {
    /// If it sends nothing.
    pub silence: Duration,
    /// If it says that it lives.
    pub welcome: Duration,
}

/// A message of a node. Its heartbeats only count for [`NodeConnection::liveness`].
#[expect(clippy::large_enum_variant, reason = "an event is handled where it is made, and none is kept")]
pub(crate) enum Event {
    /// The end of the handshake: the text of the store's settings, and the node process's number.
    Welcome { settings: String, incarnation: u64 },
    /// The answer to the request of this number, or a message of the node's own (0).
    Message { number: u64, reply: Reply, payload: Vec<u8> },
}

/// Why a connection is of no use any more.
pub(crate) enum Disconnect {
    /// It broke, or the node ended it.
    Broken(String),
    /// The node takes no client now, in its own words.
    Busy(String),
    /// The bytes that arrived are not a message of a node.
    Misunderstood(format::Error),
    /// The node refuses this process, or this process the node, and will again.
    Refused(Error),
}

impl NodeConnection {
    /// Begins to connect to the first candidate that takes it, and to introduce this client.
    pub fn dial(
        address: &str,
        mut candidates: Vec<SocketAddr>,
        hello: &Request,
        credentials: &Credentials,
        timeouts: HandshakeTimeouts,
        now: Instant,
    ) -> Result<Self, Disconnect> {
        candidates.reverse();
        let none = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let socket = connect_any(address, &mut candidates, credentials.tls.as_ref(), none)?;
        let mut send_buffer = SendBuffer::default();
        send_buffer.push(head(hello, HELLO_NUMBER, &[]), Bulk::None);
        Ok(NodeConnection {
            address: address.to_owned(),
            other_candidates: candidates,
            tls: credentials.tls.clone(),
            timeouts,
            socket,
            stage: Stage::Connecting,
            handshake: Handshake::new(address, credentials.secret.clone(), hello, HELLO_NUMBER),
            receive_buffer: ReceiveBuffer::default(),
            send_buffer,
            liveness: Liveness::begin(now),
            pace: FramePace::new(FRAME_TIMEOUT),
            turn_bytes: 0,
            begun: now,
            round_trip: None,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the node has taken the connection and not yet welcomed this client.
    pub fn is_greeting(&self) -> bool {
        self.stage == Stage::Greeting
    }

    pub fn is_welcome(&self) -> bool {
        self.stage == Stage::Welcome
    }

    /// Returns when the candidate at hand was dialled or, once it took the connection, greeted.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns the time there and back, once the node's machine has taken the connection.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Returns the socket and the events to poll for.
    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.stage {
            Stage::Connecting => PollFlags::OUT,
            _ if self.has_sent() && !self.socket.wants_to_send() => PollFlags::IN,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        (self.socket.as_fd(), flags)
    }

    /// Waits until the socket is ready, but no longer than this. Time for which this process was stopped counts for
    /// nothing.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Disconnect> {
        let begun = Instant::now();
        let (socket, flags) = self.interest();
        let mut polled = [PollFd::from_borrowed_fd(socket, flags)];
        let time = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        let count = match poll(&mut polled, Some(&time)) {
            Err(rustix::io::Errno::INTR) => 0,
            polled => polled.map_err(|error| Disconnect::Broken(error.to_string()))?,
        };
        let stopped = begun.elapsed().saturating_sub(timeout);
        if stopped > STOPPED {
            self.stopped(stopped, Instant::now());
        }
        if count > 0 { self.ready(Instant::now()) } else { Ok(()) }
    }

    /// Goes on with connecting and greeting, once the socket is ready.
    pub fn ready(&mut self, now: Instant) -> Result<(), Disconnect> {
        match self.stage {
            Stage::Connecting => match self.socket.connected() {
                Ok(()) => {
                    self.round_trip = Some(now.saturating_duration_since(self.begun));
                    (self.stage, self.begun) = (Stage::Greeting, now);
                    self.liveness = Liveness::begin(now);
                    self.flush(&[]).map(drop)
                }
                Err(error) => self.dial_next(error, now),
            },
            Stage::Greeting => self.flush(&[]).map(drop),
            Stage::Welcome => Ok(()),
        }
    }

    fn dial_next(&mut self, error: io::Error, now: Instant) -> Result<(), Disconnect> {
        self.socket = connect_any(&self.address, &mut self.other_candidates, self.tls.as_ref(), error)?;
        self.begun = now;
        Ok(())
    }

    /// Gives up an address that takes no connection, and a node that does not welcome this client in time.
    pub fn check_greeting(&mut self, now: Instant) -> Result<(), Disconnect> {
        let HandshakeTimeouts { silence, welcome } = self.timeouts;
        match self.stage {
            Stage::Connecting if now >= self.begun + CONNECT_TIMEOUT => {
                let why = format!("it takes no connection within {} s", CONNECT_TIMEOUT.as_secs());
                self.dial_next(io::Error::new(io::ErrorKind::TimedOut, why), now)
            }
            Stage::Greeting if now >= self.liveness.heard() + silence => {
                Err(Disconnect::Broken(format!("no answer within {} s", silence.as_secs_f32())))
            }
            Stage::Greeting if now >= self.begun + welcome => {
                let why = "no welcome: it says that it lives, and does not welcome this client";
                Err(Disconnect::Broken(why.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Gives up a node that has sent nothing, or too slowly. Call it when all that has arrived was taken.
    pub fn check_silence(&self, now: Instant) -> Result<(), Disconnect> {
        if self.liveness.is_silent(now) {
            return Err(Disconnect::Broken(format!("it has sent nothing for {} s", SILENCE_TIMEOUT.as_secs())));
        }
        if self.pace.is_late(now) {
            return Err(Disconnect::Broken(FramePace::why(FRAME_TIMEOUT)));
        }
        Ok(())
    }

    pub fn has_room(&self) -> bool {
        self.send_buffer.has_room()
    }

    /// Returns whether every message has gone to the socket.
    pub fn has_sent(&self) -> bool {
        self.send_buffer.is_empty()
    }

    /// Queues a message; see [`head`].
    pub fn push(&mut self, head: Vec<u8>, bulk: Bulk) {
        self.send_buffer.push(head, bulk);
    }

    /// Queues a request whose payload stays with the caller, who passes it to each [`NodeConnection::flush`]. Refuses
    /// sizes that no frame holds.
    pub fn push_lent(&mut self, number: u64, request: &Request, payload: &[&[u8]]) -> Result<(), Error> {
        let body = request.encode();
        check_size(&self.address, &body, payload)?;
        let bytes = payload.iter().map(|piece| piece.len()).sum();
        self.push(head_of(request.kind(), number, &body, payload), Bulk::Lent(bytes));
        Ok(())
    }

    /// Queues a request whose payload is shared. Refuses sizes that no frame holds.
    pub fn push_shared(&mut self, number: u64, request: &Request, payload: &Arc<Vec<u8>>) -> Result<(), Error> {
        let body = request.encode();
        check_size(&self.address, &body, &[payload])?;
        self.push(head_of(request.kind(), number, &body, &[payload]), Bulk::Shared(payload.clone()));
        Ok(())
    }

    /// Sends what the socket takes now; returns whether it took anything.
    pub fn flush(&mut self, lent: &[&[u8]]) -> Result<bool, Disconnect> {
        self.send_buffer.send(&self.socket, lent).map_err(|error| self.broken(&error))
    }

    /// Returns what the node has sent next, none when nothing more has arrived, or others are to have their turn.
    pub fn next(&mut self, mut now: Instant) -> Result<Option<Event>, Disconnect> {
        while self.stage != Stage::Connecting {
            while let Some(frame) = self.receive_buffer.take().map_err(Disconnect::Misunderstood)? {
                self.pace.end();
                if let Some(event) = self.take(frame, now)? {
                    return Ok(Some(event));
                }
            }
            let room = self.receive_buffer.room();
            let step = rate_limit::download_step(room.len());
            // At the end of its turn it takes only what the socket does not hold any more.
            let received = self.socket.receive(&mut room[..step], self.turn_bytes < TURN_BYTES);
            let Some(bytes) = received.map_err(|error| self.broken(&error))? else { break };
            self.receive_buffer.filled(bytes);
            self.turn_bytes += bytes;
            let waited = rate_limit::pay_download(bytes);
            self.pace.arrived(bytes, now);
            if !waited.is_zero() {
                self.pace.wait_longer(waited);
                now = Instant::now();
            }
            self.liveness.hear(now);
            if bytes > MAX_HEARTBEAT_BYTES {
                // An answer is on its way, however slow the link is; that it comes at all is the pace's to see to.
                self.liveness.work(now);
            }
        }
        self.turn_bytes = 0;
        Ok(None)
    }

    fn take(&mut self, frame: Frame, now: Instant) -> Result<Option<Event>, Disconnect> {
        let Frame { header, body, payload } = frame;
        let reply = Reply::decode(header.kind, &body).map_err(Disconnect::Misunderstood)?;
        if self.stage == Stage::Greeting {
            return self.shake_hands(header.request, reply);
        }
        if let Reply::Alive { progress } = reply {
            self.liveness.beat(progress, now);
            return Ok(None);
        }
        Ok(Some(Event::Message { number: header.request, reply, payload }))
    }

    fn shake_hands(&mut self, number: u64, reply: Reply) -> Result<Option<Event>, Disconnect> {
        let step = self.handshake.take(number, reply).map_err(|rejection| match rejection {
            Rejection::ForNow(why) => Disconnect::Busy(why),
            Rejection::ForGood(error) => Disconnect::Refused(error),
        });
        match step? {
            Step::Wait => Ok(None),
            Step::Send(request) => {
                self.push(head(&request, LAST_HANDSHAKE_NUMBER, &[]), Bulk::None);
                self.flush(&[]).map(|_| None)
            }
            Step::Finish { settings, incarnation } => {
                self.stage = Stage::Welcome;
                self.liveness.welcome();
                Ok(Some(Event::Welcome { settings, incarnation }))
            }
        }
    }

    /// Discounts the time for which the process was stopped: nothing was waited for meanwhile.
    pub fn stopped(&mut self, time: Duration, now: Instant) {
        self.liveness.stopped(time, now);
        self.pace.wait_longer(time);
        self.begun = (self.begun + time).min(now);
    }

    fn broken(&self, error: &io::Error) -> Disconnect {
        match TlsRefusal::of(error) {
            Some(refusal) => {
                Disconnect::Refused(Error::Refused(ErrorCode::TlsRefused, format!("{}: {refusal}", self.address)))
            }
            None if error.kind() == io::ErrorKind::UnexpectedEof => Disconnect::Broken(error.to_string()),
            None => Disconnect::Broken(format!("the connection broke ({error})")),
        }
    }
}

/// Begins to connect to the last of the candidates, or the one before where that is impossible at once; fails with the
/// last error when none is left.
fn connect_any(
    address: &str,
    candidates: &mut Vec<SocketAddr>,
    tls: Option<&TlsClient>,
    mut error: io::Error,
) -> Result<Socket, Disconnect> {
    while let Some(candidate) = candidates.pop() {
        let stream = tls.map(|tls| tls.stream(address)).transpose().map_err(Disconnect::Refused)?;
        match Socket::connect(&candidate, stream) {
            Ok(socket) => return Ok(socket),
            Err(failed) => error = failed,
        }
    }
    Err(Disconnect::Broken(error.to_string()))
}

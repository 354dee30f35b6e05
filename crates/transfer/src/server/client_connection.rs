//! One connection at the node, from Hello to its end, by way of pauses in which no thread has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use format::{Role, Secret};

use crate::Error;
use crate::connection::{Connection, Frame};
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::random::random_bytes;
use crate::server::ConnectionSlot;
use crate::service::{ClientSender, Handler, Hello};

/// A client has this long to be welcomed, from the first byte to the last proof; port scanners send no Hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a node that stops waits for answers owed to one client.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection keeps its thread for so long while nothing comes: programs ask again as soon as they are answered.
const IDLE_TIMEOUT: Duration = Duration::from_millis(10);

/// Unanswered requests that one connection may have at a time. Clients of ours have some hundreds.
const MAX_UNANSWERED: usize = 16_384;

/// A client's connection and what serves it. One thread at a time has it, or none while there is nothing to do.
pub(super) struct ClientConnection {
    connection: Arc<Connection>,
    peer: SocketAddr,
    outbox: ClientSender,
    /// Once the client is welcome.
    handler: Option<Box<dyn Handler>>,
    /// Dropped last.
    slot: ConnectionSlot,
}

/// Why a connection is not read from any more.
enum Pause {
    /// Nothing has come for a while.
    Idle,
    Ended,
}

impl ClientConnection {
    pub fn new(connection: Arc<Connection>, peer: SocketAddr, slot: ConnectionSlot) -> Self {
        let shared = &slot.shared;
        let outbox = ClientSender::new(connection.clone(), shared.service.clone(), shared.answers.clone());
        ClientConnection { connection, peer, outbox, handler: None, slot }
    }

    pub fn number(&self) -> u64 {
        self.slot.number
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Returns whether the client has said nothing for so long that it is not welcome any more.
    pub fn is_late(&self) -> bool {
        self.connection.is_unknown_for().is_some_and(|age| age >= HELLO_TIMEOUT)
    }

    /// Serves the client until it has nothing to say for a while; then returns the connection. None when it has left or
    /// misbehaved, or the node stops. A panic of the handler is not caught: it is a broken invariant of the node, whose
    /// process ends (see `thalweg node`).
    pub fn serve(mut self) -> Option<Self> {
        self.outbox.read_here();
        let end = match self.attend() {
            Ok(Pause::Idle) => {
                self.outbox.read_nowhere();
                return Some(self);
            }
            Ok(Pause::Ended) => Ok(()),
            Err(goodbye) => Err(goodbye),
        };
        self.end(end);
        None
    }

    fn attend(&mut self) -> Result<Pause, Goodbye> {
        if self.handler.is_none() {
            let Some(handler) = self.greet()? else { return Ok(Pause::Ended) };
            self.connection.welcome();
            self.slot.shared.heartbeats.add(self.slot.number, self.outbox.clone());
            self.handler = Some(handler);
        }
        self.handle_requests()
    }

    fn end(mut self, end: Result<(), Goodbye>) {
        let closing = &self.slot.shared.closing;
        if let Some(handler) = &mut self.handler {
            closing.wait_while_suspended();
            handler.closed();
        }
        let peer = self.peer;
        match &end {
            Ok(()) => tracing::info!(peer = %peer, "connection ended"),
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                tracing::info!(peer = %peer, "{}", failure.text)
            }
            Err(failure) => tracing::warn!(peer = %peer, "{}", failure.text),
        }
        if closing.is_stopping() {
            self.outbox.wait_for_answers(ANSWER_TIMEOUT);
        }
        if let Err(goodbye) = end {
            // Best effort: the client may be gone, or wait for TLS and not understand.
            let _ = self.outbox.push(&Reply::Failed { failure: goodbye }, &[]);
            self.connection.close_gently();
        }
        self.slot.shared.heartbeats.remove(self.slot.number);
        self.outbox.end();
    }

    /// Receives the first message, which must be a Hello. None when the client left without one.
    fn greet(&self) -> Result<Option<Box<dyn Handler>>, Goodbye> {
        let (connection, service) = (&self.connection, &self.slot.shared.service);
        let age = connection.is_unknown_for().unwrap_or_default();
        let deadline = Instant::now() + HELLO_TIMEOUT.saturating_sub(age);
        let ended = |error| goodbye(connection, error);
        if let Some(tls) = service.tls() {
            connection.accept_tls(tls, deadline).map_err(ended)?;
        }
        let Some(frame) = connection.receive_greeting(deadline).map_err(ended)? else { return Ok(None) };
        let body = frame.body.clone();
        let (request, _, number) = decode(connection, frame)?;
        let Request::Hello { client, stream, job, application } = request else {
            return Err(refused("the first message must be Hello"));
        };
        if let Some(secret) = service.secret()
            && !self.challenge(secret, &body, deadline)?
        {
            return Ok(None);
        }
        connection.set_receive_timeout(None).map_err(ended)?;
        let replier = self.outbox.replier(number);
        let hello = Hello { client, stream, job, application, peer: self.peer };
        match service.connect(hello, self.outbox.clone()) {
            Ok((welcome, handler)) => {
                replier.reply(welcome);
                Ok(Some(handler))
            }
            Err(failure) => {
                replier.fail(failure);
                Ok(None)
            }
        }
    }

    /// Has the client prove the secret, and proves it in turn. False when the client left instead.
    fn challenge(&self, secret: &Secret, hello: &[u8], deadline: Instant) -> Result<bool, Goodbye> {
        let (connection, outbox) = (&self.connection, &self.outbox);
        let ended = |error| goodbye(connection, error);
        let of_node = random_bytes().map_err(ended)?;
        outbox.push(&Reply::Challenge { nonce: of_node }, &[]).map_err(ended)?;
        // A client of ours that has no secret leaves.
        let Some(frame) = connection.receive_greeting(deadline).map_err(ended)? else {
            tracing::warn!(
                peer = connection.peer(),
                "authentication failed: the client left before it proved the secret; it has none, or did not wait longer for \
                 this node"
            );
            return Ok(false);
        };
        let (request, _, number) = decode(connection, frame)?;
        let Request::Prove { nonce: of_client, proof } = request else {
            tracing::warn!(peer = connection.peer(), "authentication failed: the client proved no secret");
            return Err(refused("this node serves only clients that prove its secret"));
        };
        if !secret.proves(&proof, Role::Client, &of_node, &of_client, hello) {
            tracing::warn!(
                peer = connection.peer(),
                "authentication failed: the client has another secret than the node"
            );
            return Err(refused("the client has another secret than the node"));
        }
        let proof = secret.proof(Role::Node, &of_node, &of_client, hello);
        outbox.replier(number).reply(Reply::Proved { proof });
        Ok(true)
    }

    /// Hands requests to the handler until there are none.
    fn handle_requests(&mut self) -> Result<Pause, Goodbye> {
        let (shared, connection) = (&self.slot.shared, &self.connection);
        let handler = self.handler.as_mut().expect("the client is welcome");
        while !shared.closing.takes_nothing() {
            if !connection.wait_to_receive(IDLE_TIMEOUT) {
                return Ok(Pause::Idle);
            }
            // Held until the request is handled, which is the next turn of the loop.
            let mut charge = shared.memory.charge(connection);
            let frame = match connection.receive_charged(&mut |bytes| charge.grow(bytes)) {
                // The client sends it again to the successor.
                Ok(_) if shared.closing.is_suspended() => return Ok(Pause::Ended),
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(Pause::Ended),
                Err(error) => return Err(goodbye(connection, error)),
            };
            charge.finish();
            let (request, payload, number) = decode(connection, frame)?;
            if matches!(request, Request::Hello { .. } | Request::Prove { .. }) {
                return Err(refused("Hello and Prove come once, at the beginning"));
            }
            let is_beyond = self.outbox.unanswered() >= MAX_UNANSWERED;
            let replier = self.outbox.replier(number);
            if is_beyond {
                let text = format!("more than {MAX_UNANSWERED} requests of one connection wait for their answers");
                replier.fail(Failure::new(FailureKind::Refused, text));
            } else {
                handler.handle(request, payload, replier);
            }
        }
        Ok(Pause::Ended)
    }
}

type Goodbye = Failure;

fn decode(connection: &Connection, frame: Frame) -> Result<(Request, Vec<u8>, u64), Goodbye> {
    if frame.header.request == 0 {
        return Err(refused("request number 0 is the node's own"));
    }
    let request = Request::decode(frame.header.kind, &frame.body);
    let damaged = |source| goodbye(connection, Error::Protocol { peer: connection.peer().to_owned(), source });
    Ok((request.map_err(damaged)?, frame.payload, frame.header.request))
}

fn goodbye(connection: &Connection, error: Error) -> Goodbye {
    let kind = match error {
        Error::Protocol { source: format::Error::OtherProtocol { .. }, .. } => FailureKind::TooNew,
        Error::Protocol { .. } => FailureKind::Corrupt,
        // It speaks no TLS, so that it understands this answer.
        Error::Refused(..) => FailureKind::Refused,
        _ => FailureKind::Unavailable,
    };
    // The peer is the client, to whom its own port means nothing: the message names the node.
    let why = error.to_string();
    let why = why.strip_prefix(&format!("{}: ", connection.peer())).unwrap_or(&why);
    Failure::new(kind, format!("the node closed the connection: {why}"))
}

fn refused(why: &str) -> Goodbye {
    Failure::new(FailureKind::Refused, format!("the node closed the connection: {why}"))
}

//! How a node handles messages, seen from the connection: a [`Service`] greets clients and gives each connection a
//! [`Handler`]; handlers answer through [`Replier`]s and send unsolicited messages through the [`ClientSender`].
//!
//! Every request gets exactly one answer, whatever the handler does with its replier.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use format::Secret;

use crate::connection::Connection;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::outgoing::Outgoing;
use crate::server::answer_memory::{AnswerCharge, AnswerMemory};
use crate::tls::TlsServer;
use crate::{Error, Result};

/// How a client introduced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client process's random number, the same on all its connections and across reconnections.
    pub client: u64,
    /// Distinguishes the process's connections.
    pub stream: u32,
    pub job: String,
    /// The application whose share of the node's bandwidth its writes use; may be empty.
    pub application: String,
    pub peer: SocketAddr,
}

pub trait Service: Send + Sync + 'static {
    /// Returns the secret a client must prove before it is welcome; none admits every client.
    fn secret(&self) -> Option<&Secret> {
        None
    }

    /// Returns the certificate with which the node speaks TLS; none serves clients that do not.
    fn tls(&self) -> Option<&TlsServer> {
        None
    }

    /// Handles a client's Hello: returns the answer ([`Reply::Welcome`]), and the handler of its messages. The handler
    /// lives as long as the connection.
    fn connect(&self, hello: Hello, outbox: ClientSender) -> std::result::Result<(Reply, Box<dyn Handler>), Failure>;

    /// Returns whether a failure may be sent. A service that cannot go on, and is about to be replaced, withholds it:
    /// the connection is ended instead, and the client asks the successor.
    fn may_send(&self, _failure: &Failure) -> bool {
        true
    }

    /// Returns a number that changes whenever some of the work is done that clients wait for: they give up a node that
    /// lives but makes no progress.
    fn progress(&self) -> u64 {
        0
    }
}

pub trait Handler: Send {
    /// Answers through `replier`, now or later, from any thread; a replier dropped without an answer answers Failed.
    /// The next request waits until this returns, which is how a node holds a client back.
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier);

    /// Handles the end of the connection (called exactly once, also on protocol errors). Answers still owed should be
    /// given or dropped soon: a node that stops waits a few seconds for them.
    fn closed(&mut self);
}

/// Sends messages to one client.
///
/// Only the thread that reads the client's requests ever waits for the client to read, which is how a node holds it
/// back. Messages of any other thread are queued and sent by the connection's own writer: a client that does not read
/// delays no other, and is dropped after 30 s, or when 4 MiB wait for it.
#[derive(Clone)]
pub struct ClientSender {
    outgoing: Arc<Outgoing>,
    service: Arc<dyn Service>,
    answers: Arc<AnswerMemory>,
}

impl ClientSender {
    /// Makes a sender; see [`ClientSender::read_here`].
    pub(crate) fn new(connection: Arc<Connection>, service: Arc<dyn Service>, answers: Arc<AnswerMemory>) -> Self {
        ClientSender { outgoing: Outgoing::new(connection), service, answers }
    }

    /// Notes that from now on this thread reads the client's requests, or none does.
    pub(crate) fn read_here(&self) {
        self.outgoing.read_here();
    }

    pub(crate) fn read_nowhere(&self) {
        self.outgoing.read_nowhere();
    }

    /// Takes memory for an answer of at most this many bytes, held until it is sent: waits while the memory for answers
    /// is used up. For the thread that reads the connection, before it makes the answer.
    pub fn charge_answer(&self, bytes: u64) -> AnswerCharge {
        self.answers.charge(self.outgoing.connection(), bytes)
    }

    /// Sends an unsolicited message. An error means that the client will not get it; the connection is then being
    /// closed.
    pub fn push(&self, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        self.outgoing.send(0, reply, payload)
    }

    /// Sends a heartbeat, unless the client has more than that to read. Does not wait.
    pub(crate) fn heartbeats(&self, alive: &Reply) {
        self.outgoing.heartbeats(alive);
    }

    /// Returns the client's address, for messages to people.
    pub fn peer(&self) -> &str {
        self.outgoing.peer()
    }

    pub(crate) fn replier(&self, request: u64) -> Replier {
        self.outgoing.owe_answer();
        Replier { request, outbox: self.clone(), answered: false }
    }

    /// Returns the number of requests that have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.outgoing.unanswered()
    }

    /// Waits until every request has its answer and all of them are sent; false when the time is over before.
    pub(crate) fn wait_for_answers(&self, timeout: Duration) -> bool {
        self.outgoing.wait_for_answers(timeout)
    }

    /// Ends the connection; its reader notices.
    pub fn end(&self) {
        self.outgoing.end();
    }
}

/// The right, and the duty, to answer one request.
pub struct Replier {
    request: u64,
    outbox: ClientSender,
    answered: bool,
}

impl Replier {
    pub fn reply(self, reply: Reply) {
        self.reply_with(reply, &[]);
    }

    /// Answers. The payload is sent from where it lies, its pieces one after the other. A reply too large for a frame
    /// becomes a failure of kind Refused that says so. A lost client is not reported here: its handler is closed.
    pub fn reply_with(mut self, reply: Reply, payload: &[&[u8]]) {
        if let Err(Error::Refused(_, text)) = self.answer(&reply, payload) {
            // A message this short always fits; when the client is gone it is not needed.
            let _ = self.answer(&Reply::Failed { failure: Failure::new(FailureKind::Refused, text) }, &[]);
        }
    }

    /// Answers with a failure. Logs refusals and failures; a missing name or a busy node is no fault.
    pub fn fail(self, failure: impl Into<Failure>) {
        let failure = failure.into();
        if !self.outbox.service.may_send(&failure) {
            return self.withhold();
        }
        let (peer, text) = (self.outbox.peer(), &failure.text);
        match failure.kind {
            FailureKind::Refused => tracing::warn!(peer, "request refused: {text}"),
            FailureKind::Corrupt | FailureKind::Full | FailureKind::Io | FailureKind::LeaseLost => {
                tracing::warn!(peer, "request failed: {text}");
            }
            _ => tracing::debug!(peer, "request failed: {text}"),
        }
        self.reply(Reply::Failed { failure });
    }

    /// As [`Replier::fail`], without a warning in the log.
    pub fn fail_quietly(self, failure: Failure) {
        if !self.outbox.service.may_send(&failure) {
            return self.withhold();
        }
        tracing::debug!(peer = self.outbox.peer(), "request failed: {}", failure.text);
        self.reply(Reply::Failed { failure });
    }

    /// Answers nothing and ends the connection: the client connects again, and asks again.
    pub fn withhold(mut self) {
        self.answered = true;
        self.outbox.end();
    }

    /// Returns the sender for unsolicited messages that belong to the request.
    pub fn outbox(&self) -> &ClientSender {
        &self.outbox
    }

    fn answer(&mut self, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        self.answered = true;
        self.outbox.outgoing.send(self.request, reply, payload)
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.answered {
            let text = format!("the node failed on request {}; its own messages say why", self.request);
            let _ = self.answer(&Reply::Failed { failure: Failure::new(FailureKind::Io, text) }, &[]);
        }
        self.outbox.outgoing.answered();
    }
}

//! What a node does with messages, seen from the connection: a [`Service`] greets clients and gives each
//! connection a [`Handler`]; handlers answer through [`Replier`]s and speak unasked through the [`Outbox`].
//!
//! Every request gets exactly one answer, whatever the handler does with its replier.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use format::Secret;

use crate::connection::Connection;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::{Error, Result};

/// How a client introduced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client process's random number, the same on all its connections and across reconnections.
    pub client: u64,
    /// Tells the process's connections apart.
    pub stream: u32,
    pub job: String,
    /// Whose share of the node's bandwidth its writes use; may be empty.
    pub application: String,
    pub peer: SocketAddr,
}

pub trait Service: Send + Sync + 'static {
    /// What a client must prove before it is welcome; none admits everybody.
    fn secret(&self) -> Option<&Secret> {
        None
    }

    /// A client said hello: what it is answered ([`Reply::Welcome`]), and who handles what it sends. The handler
    /// lives as long as the connection.
    fn connect(&self, hello: Hello, outbox: Outbox) -> std::result::Result<(Reply, Box<dyn Handler>), Failure>;
}

pub trait Handler: Send {
    /// Answers through `replier`, now or later, from any thread; a replier dropped without an answer answers Failed.
    /// The next request waits until this returns, which is how a node holds a client back.
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier);

    /// The connection is gone (called exactly once, also on protocol errors). Answers still owed should be given or
    /// dropped soon: a node that stops waits a few seconds for them.
    fn closed(&mut self);
}

/// The way to one client. Sending waits while the client does not read; after 30 s of that the connection is ended.
#[derive(Clone)]
pub struct Outbox {
    line: Arc<Line>,
}

struct Line {
    connection: Arc<Connection>,
    sending: Mutex<()>,
    unanswered: Mutex<usize>,
    all_answered: Condvar,
}

impl Outbox {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let (sending, unanswered, all_answered) = (Mutex::new(()), Mutex::new(0), Condvar::new());
        Outbox { line: Arc::new(Line { connection, sending, unanswered, all_answered }) }
    }

    /// Says something unasked. An error means that the client will not get it; the connection is then being closed.
    pub fn push(&self, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        self.send(0, reply, payload)
    }

    /// The client's address, for messages to people.
    pub fn peer(&self) -> &str {
        self.line.connection.peer()
    }

    pub(crate) fn replier(&self, request: u64) -> Replier {
        *self.line.unanswered() += 1;
        Replier { request, outbox: self.clone(), answered: false }
    }

    fn send(&self, request: u64, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        let body = reply.encode();
        let _turn = self.line.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.line.connection.send(reply.kind(), request, &body, payload);
        if matches!(sent, Err(Error::Unavailable { .. })) {
            // Half a frame may have left: nothing after it would be understood.
            self.line.connection.shut();
        }
        sent
    }

    /// Waits until every request has its answer; false when the time is over before.
    pub(crate) fn wait_for_answers(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut unanswered = self.line.unanswered();
        while *unanswered > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            let waited = self.line.all_answered.wait_timeout(unanswered, left);
            unanswered = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Line {
    fn unanswered(&self) -> MutexGuard<'_, usize> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right, and the duty, to answer one request.
pub struct Replier {
    request: u64,
    outbox: Outbox,
    answered: bool,
}

impl Replier {
    pub fn reply(self, reply: Reply) {
        self.reply_with(reply, &[]);
    }

    /// The payload is sent from where it lies, its pieces one after the other. A reply too large for a frame becomes
    /// a failure of kind Refused that says so. That the client is gone is not reported: its handler hears of it.
    pub fn reply_with(mut self, reply: Reply, payload: &[&[u8]]) {
        if let Err(Error::Refused(text)) = self.answer(&reply, payload) {
            // The client can always be told this much; when it is gone it need not be.
            let _ = self.answer(&Reply::Failed { failure: Failure::new(FailureKind::Refused, text) }, &[]);
        }
    }

    pub fn fail(self, failure: impl Into<Failure>) {
        self.reply(Reply::Failed { failure: failure.into() });
    }

    /// For unasked messages that belong to the request.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn answer(&mut self, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        self.answered = true;
        self.outbox.send(self.request, reply, payload)
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.answered {
            let text = format!("the node failed on request {}; its own messages say why", self.request);
            let _ = self.answer(&Reply::Failed { failure: Failure::new(FailureKind::Io, text) }, &[]);
        }
        let mut unanswered = self.outbox.line.unanswered();
        *unanswered -= 1;
        self.outbox.line.all_answered.notify_all();
    }
}

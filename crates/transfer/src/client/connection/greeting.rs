//! Connecting to a node: its address, the connection, Hello, and the messages before the node's Welcome.

use std::time::Instant;

use super::super::frame;
use super::super::outgoing::Bulk;
use super::super::reactor::IoContext;
use super::super::socket::Socket;
use super::super::stream::Reach;
use super::{Connection, Disconnect, PeerNode, Phase};
use crate::Error;
use crate::challenge::Challenge;
use crate::message::{FailureKind, Reply, Request};
use crate::resolve::{Resolution, ResolveError, Resolved};

impl Connection {
    pub(super) fn connect(&mut self, context: &IoContext, now: Instant) {
        self.attempt += 1;
        self.begun = Some(now);
        let resolution = self.resolution.take().unwrap_or_else(|| {
            let stream = self.stream.clone();
            Resolution::begin(&self.stream.address, move || stream.wake())
        });
        match resolution.poll() {
            Some(resolved) => self.resolved(resolved, context, now),
            None => self.phase = Phase::Resolving(resolution),
        }
    }

    /// Picks the address to connect to; attempts rotate through several.
    pub(super) fn resolved(&mut self, resolved: Resolved, context: &IoContext, now: Instant) {
        (self.phase, self.begun) = (Phase::Idle, Some(now));
        let found = match resolved {
            Ok(found) => found,
            Err(ResolveError::ForNow(why)) => return self.broke(Disconnect::ForNow(why), context, now),
            Err(ResolveError::ForGood(why)) => {
                let unavailable = Error::Unavailable { peer: self.stream.address.clone(), why };
                return self.broke(Disconnect::ForGood(unavailable), context, now);
            }
        };
        let tls = match context.secrets.of(&self.stream.address).tls {
            None => None,
            Some(tls) => match tls.stream(&self.stream.address) {
                Ok(tls) => Some(tls),
                Err(error) => return self.broke(Disconnect::ForGood(error), context, now),
            },
        };
        match Socket::connect(&found[self.attempt % found.len()], tls) {
            Ok(socket) => self.phase = Phase::Connecting(socket),
            Err(error) => self.broke(error.into(), context, now),
        }
    }

    pub(super) fn greet(&mut self, context: &IoContext) -> Result<(), Disconnect> {
        let Phase::Connecting(socket) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            unreachable!("only a connecting socket greets")
        };
        socket.connected()?;
        self.begun = Some(Instant::now());
        let number = self.stream.number();
        let (job, application) = (context.job.clone(), context.application.clone());
        let hello = Request::Hello { client: context.client, stream: self.stream.index, job, application };
        let secret = context.secrets.of(&self.stream.address).secret;
        let challenge = Challenge::new(&self.stream.address, secret, &hello);
        self.outgoing.push(frame::head(&hello, number, &[]), Bulk::None);
        self.outgoing.send(&socket)?;
        self.phase = Phase::Greeting(socket, number, challenge);
        Ok(())
    }

    /// Handles a message that comes before Welcome: proves the secret where the node asks for it.
    pub(super) fn challenged(&mut self, reply: Reply) -> Result<(), Disconnect> {
        if let Reply::Failed { failure } = reply {
            // The phase is a greeting's no more: the node has answered.
            self.phase = Phase::Idle;
            return Err(match failure.kind {
                FailureKind::Refused => Disconnect::ForGood(Error::of_node(&self.stream.address, failure)),
                _ => Disconnect::ForNow(failure.text),
            });
        }
        let Phase::Greeting(socket, _, challenge) = &mut self.phase else {
            unreachable!("the caller saw the greeting")
        };
        if let Some(answer) = challenge.take(&reply).map_err(Disconnect::ForGood)? {
            self.outgoing.push(frame::head(&answer, self.stream.number(), &[]), Bulk::None);
            self.outgoing.send(socket)?;
        }
        Ok(())
    }

    pub(super) fn welcomed(&mut self, reply: Reply, context: &IoContext) -> Result<(), Disconnect> {
        let Phase::Greeting(socket, _, challenge) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            unreachable!("the caller saw the greeting")
        };
        match reply {
            Reply::Welcome { settings, incarnation } => {
                challenge.admit().map_err(Disconnect::ForGood)?;
                let settings = context.reducer.as_ref().map(|_| format::Settings::from_text(&settings)).transpose()?;
                self.phase = Phase::Ready(socket, PeerNode { incarnation, settings });
                self.stream.set_reach(Reach::Reached);
                (self.advanced, self.watched, self.welcomed) = (self.heard, self.heard, self.heard);
                Ok(())
            }
            Reply::Failed { failure } if is_refusal(failure.kind) => {
                // The socket is needed no more, and the phase is not a greeting's: the node has answered.
                drop(socket);
                Err(Disconnect::ForGood(Error::of_node(&self.stream.address, failure)))
            }
            Reply::Failed { failure } => Err(Disconnect::ForNow(failure.text)),
            other => Err(Disconnect::ForNow(format!("it answered a greeting with message {:#x}", other.kind()))),
        }
    }
}

/// Returns whether a node that answers a greeting with this will answer the next one alike.
fn is_refusal(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::Unavailable | FailureKind::Io | FailureKind::Full)
}

//! Coming to a node: its address, the connection, Hello, and what is said before the node's Welcome.

use std::time::Instant;

use super::super::frame;
use super::super::outgoing::Bulk;
use super::super::reactor::Surroundings;
use super::super::socket::Socket;
use super::super::stream::Reach;
use super::{Broken, Connection, Peer, Phase};
use crate::Error;
use crate::challenge::Challenge;
use crate::message::{FailureKind, Reply, Request};
use crate::resolve::{Resolution, Resolved, Unresolved};

impl Connection {
    pub(super) fn connect(&mut self, around: &Surroundings, now: Instant) {
        self.attempt += 1;
        self.begun = Some(now);
        let resolution = self.resolution.take().unwrap_or_else(|| {
            let stream = self.stream.clone();
            Resolution::begin(&self.stream.address, move || stream.wake())
        });
        match resolution.poll() {
            Some(resolved) => self.resolved(resolved, around, now),
            None => self.phase = Phase::Resolving(resolution),
        }
    }

    /// Of several addresses, the attempt chooses.
    pub(super) fn resolved(&mut self, resolved: Resolved, around: &Surroundings, now: Instant) {
        (self.phase, self.begun) = (Phase::Idle, Some(now));
        let found = match resolved {
            Ok(found) => found,
            Err(Unresolved::ForNow(why)) => return self.broke(Broken::ForNow(why), around, now),
            Err(Unresolved::ForGood(why)) => {
                let unavailable = Error::Unavailable { peer: self.stream.address.clone(), why };
                return self.broke(Broken::ForGood(unavailable), around, now);
            }
        };
        let tls = match around.secrets.of(&self.stream.address).tls {
            None => None,
            Some(tls) => match tls.stream(&self.stream.address) {
                Ok(tls) => Some(tls),
                Err(error) => return self.broke(Broken::ForGood(error), around, now),
            },
        };
        match Socket::connect(&found[self.attempt % found.len()], tls) {
            Ok(socket) => self.phase = Phase::Connecting(socket),
            Err(error) => self.broke(error.into(), around, now),
        }
    }

    pub(super) fn greet(&mut self, around: &Surroundings) -> Result<(), Broken> {
        let Phase::Connecting(socket) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            unreachable!("only a connecting socket greets")
        };
        socket.connected()?;
        self.begun = Some(Instant::now());
        let number = self.stream.number();
        let (job, application) = (around.job.clone(), around.application.clone());
        let hello = Request::Hello { client: around.client, stream: self.stream.index, job, application };
        let secret = around.secrets.of(&self.stream.address).secret;
        let challenge = Challenge::new(&self.stream.address, secret, &hello);
        self.outgoing.push(frame::head(&hello, number, &[]), Bulk::None);
        self.outgoing.send(&socket)?;
        self.phase = Phase::Greeting(socket, number, challenge);
        Ok(())
    }

    /// A message that comes before Welcome: proves the secret where the node asks for it.
    pub(super) fn challenged(&mut self, reply: Reply) -> Result<(), Broken> {
        let Phase::Greeting(socket, _, challenge) = &mut self.phase else {
            unreachable!("the caller saw the greeting")
        };
        match reply {
            Reply::Failed { failure } if failure.kind == FailureKind::Refused => {
                Err(Broken::ForGood(Error::of_node(&self.stream.address, failure)))
            }
            Reply::Failed { failure } => Err(Broken::ForNow(failure.text)),
            reply => {
                if let Some(answer) = challenge.take(&reply).map_err(Broken::ForGood)? {
                    self.outgoing.push(frame::head(&answer, self.stream.number(), &[]), Bulk::None);
                    self.outgoing.send(socket)?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn welcomed(&mut self, reply: Reply, around: &Surroundings) -> Result<(), Broken> {
        let Phase::Greeting(socket, _, challenge) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            unreachable!("the caller saw the greeting")
        };
        match reply {
            Reply::Welcome { settings, holder } => {
                challenge.admit().map_err(Broken::ForGood)?;
                let settings = around.reducer.as_ref().map(|_| format::Settings::from_text(&settings)).transpose()?;
                self.phase = Phase::Ready(socket, Peer { holder, settings });
                self.stream.set_reach(Reach::Reached);
                (self.advanced, self.watched) = (self.heard, self.heard);
                Ok(())
            }
            Reply::Failed { failure } if is_refusal(failure.kind) => {
                // The socket is needed no more, and the phase is not a greeting's: the node has answered.
                drop(socket);
                Err(Broken::ForGood(Error::of_node(&self.stream.address, failure)))
            }
            Reply::Failed { failure } => Err(Broken::ForNow(failure.text)),
            other => Err(Broken::ForNow(format!("it answered a greeting with message {:#x}", other.kind()))),
        }
    }
}

/// Whether a node that answers a greeting so will answer the next one alike.
fn is_refusal(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::Unavailable | FailureKind::Io | FailureKind::Full)
}

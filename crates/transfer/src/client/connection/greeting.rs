//! Connecting to a node: its address, the connection, Hello, and the messages before the node's Welcome.

use std::time::Instant;

use super::super::frame;
use super::super::outgoing::Bulk;
use super::super::reactor::IoContext;
use super::super::socket::Socket;
use super::super::stream::Reach;
use super::{Connection, Disconnect, PeerNode, Phase};
use crate::Error;
use crate::handshake::{Handshake, Rejection, Step};
use crate::message::Reply;
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
        let hello = context.identity.hello(self.stream.index);
        let secret = context.secrets.of(&self.stream.address).secret;
        let handshake = Handshake::new(&self.stream.address, secret, &hello, number);
        self.outgoing.push(frame::head(&hello, number, &[]), Bulk::None);
        self.outgoing.send(&socket)?;
        self.phase = Phase::Greeting(socket, handshake);
        Ok(())
    }

    /// Handles a message that comes before or as Welcome. After a rejection the phase is a greeting's no more: the node
    /// has answered.
    pub(super) fn greeted(&mut self, number: u64, reply: Reply, context: &IoContext) -> Result<(), Disconnect> {
        let Phase::Greeting(socket, mut handshake) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            unreachable!("the caller saw the greeting")
        };
        let step = handshake.take(number, reply).map_err(|rejection| match rejection {
            Rejection::ForNow(why) => Disconnect::ForNow(why),
            Rejection::ForGood(error) => Disconnect::ForGood(error),
        });
        match step? {
            Step::Finish { settings, incarnation } => {
                let settings = context.reducer.as_ref().map(|_| format::Settings::from_text(&settings)).transpose()?;
                self.phase = Phase::Ready(socket, PeerNode { incarnation, settings });
                self.stream.set_reach(Reach::Reached);
                self.node.welcome();
                (self.watched, self.welcomed) = (self.node.heard(), self.node.heard());
            }
            Step::Send(request) => {
                self.outgoing.push(frame::head(&request, self.stream.number(), &[]), Bulk::None);
                let sent = self.outgoing.send(&socket);
                self.phase = Phase::Greeting(socket, handshake);
                sent?;
            }
            Step::Wait => self.phase = Phase::Greeting(socket, handshake),
        }
        Ok(())
    }
}

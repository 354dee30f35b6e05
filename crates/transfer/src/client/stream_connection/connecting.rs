//! An attempt to reach a node: its address, the connection, and the node's Welcome or refusal.

use std::time::Instant;

use super::super::reactor::IoContext;
use super::super::stream::Reach;
use super::{PeerNode, Phase, StreamConnection};
use crate::node_connection::{Disconnect, HandshakeTimeouts, NodeConnection};
use crate::resolve::{Resolution, ResolveError, Resolved};
use crate::{Error, SILENCE_TIMEOUT};

/// How long a node may leave this process without a welcome.
const HANDSHAKE_TIMEOUTS: HandshakeTimeouts = HandshakeTimeouts { silence: SILENCE_TIMEOUT, welcome: SILENCE_TIMEOUT };

impl StreamConnection {
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
        let address = &self.stream.address;
        let found = match resolved {
            Ok(found) => found,
            Err(ResolveError::ForNow(why)) => return self.broke(Disconnect::Broken(why), context, now),
            Err(ResolveError::ForGood(why)) => {
                let unavailable = Error::Unavailable { peer: address.clone(), why };
                return self.broke(Disconnect::Refused(unavailable), context, now);
            }
        };
        let (hello, credentials) = (context.identity.hello(self.stream.index), context.secrets.of(address));
        let candidate = vec![found[self.attempt % found.len()]];
        match NodeConnection::dial(address, candidate, &hello, &credentials, HANDSHAKE_TIMEOUTS, now) {
            Ok(node) => self.phase = Phase::Open(Box::new(node)),
            Err(disconnect) => self.broke(disconnect, context, now),
        }
    }

    pub(super) fn welcome(&mut self, settings: &str, incarnation: u64, context: &IoContext) -> Result<(), Disconnect> {
        let settings = context.reduction.as_ref().map(|_| format::Settings::from_text(settings)).transpose();
        let settings = settings.map_err(|error| Disconnect::Broken(error.to_string()))?;
        self.peer = Some(PeerNode { incarnation, settings });
        self.stream.set_reach(Reach::Reached);
        let heard = self.node().liveness.heard();
        (self.watched, self.welcomed) = (heard, heard);
        Ok(())
    }

    /// Returns why an attempt or connection is made again; an error for a peer that refuses this process or does not
    /// speak our protocol, and will not later either.
    pub(super) fn refusal(&self, disconnect: Disconnect, is_greeting: bool) -> Result<String, Error> {
        match disconnect {
            Disconnect::Broken(why) | Disconnect::Busy(why) => Ok(why),
            Disconnect::Refused(error) => Err(error),
            Disconnect::Misunderstood(source @ format::Error::OtherProtocol { .. }) => Err(self.no_node(source)),
            // Later on it is a node's stream that was damaged.
            Disconnect::Misunderstood(source @ format::Error::Stranger { .. }) if is_greeting => {
                Err(self.no_node(source))
            }
            Disconnect::Misunderstood(source) => Ok(source.to_string()),
        }
    }

    fn no_node(&self, source: format::Error) -> Error {
        Error::Protocol { peer: self.stream.address.clone(), source }
    }
}

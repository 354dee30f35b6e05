//! One connection to a node on which one request at a time is asked and answered.

use format::Settings;

use crate::connection::Connection;
use crate::message::{Reply, Request};
use crate::{Error, Result};

pub(super) struct Lane {
    connection: Connection,
    /// The number of the hello's stream: no two lanes of a [`super::Remote`] share one.
    pub stream: u32,
    /// The node process at the other end.
    pub holder: u64,
    pub settings: Settings,
    requests: u64,
    broken: bool,
}

impl Lane {
    pub fn open(address: &str, hello: Request) -> Result<Self> {
        let connection = Connection::open(address)?;
        let settings = Settings::new(Default::default());
        let Request::Hello { stream, .. } = hello else { panic!("a lane begins with Hello") };
        let mut lane = Lane { connection, stream, holder: 0, settings, requests: 0, broken: false };
        let Reply::Welcome { settings, holder } = lane.ask(&hello, &[])?.0 else {
            return Err(lane.misbehaved("Hello was not answered by Welcome"));
        };
        let damaged = |source| Error::Protocol { peer: address.to_owned(), source };
        lane.settings = Settings::from_text(&settings).map_err(damaged)?;
        lane.holder = holder;
        Ok(lane)
    }

    /// Whether another request may be asked here: the node is there, and has not said anything meanwhile.
    pub fn is_usable(&self) -> bool {
        !self.broken && self.connection.is_quiet()
    }

    /// Sends the request and waits for its answer. After [`Error::Unavailable`] the request may or may not have been
    /// carried out.
    pub fn ask(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        let answer = self.exchange(request, payload);
        self.broken |= matches!(answer, Err(Error::Unavailable { .. } | Error::Protocol { .. }));
        answer
    }

    fn exchange(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        self.requests += 1;
        self.connection.send(request.kind(), self.requests, &request.encode(), payload)?;
        loop {
            let Some(frame) = self.connection.receive()? else {
                return Err(self.unavailable("the node closed the connection".into()));
            };
            let reply = Reply::decode(frame.header.kind, &frame.body);
            let reply = reply.map_err(|source| Error::Protocol { peer: self.connection.peer().to_owned(), source })?;
            match (frame.header.request, reply) {
                // The node's farewell: it may be about an earlier request, so this one may be asked elsewhere.
                (0, Reply::Failed { failure }) => return Err(self.unavailable(failure.text)),
                (0, _) => continue,
                (number, _) if number != self.requests => {
                    return Err(self.misbehaved(&format!("{number} was answered, {} was asked", self.requests)));
                }
                (_, Reply::Failed { failure }) => return Err(Error::Failed(failure)),
                (_, reply) => return Ok((reply, frame.payload)),
            }
        }
    }

    fn unavailable(&self, why: String) -> Error {
        Error::Unavailable { peer: self.connection.peer().to_owned(), why }
    }

    pub fn misbehaved(&self, why: &str) -> Error {
        let source = format::Error::Corrupt { what: "reply", why: why.to_owned() };
        Error::Protocol { peer: self.connection.peer().to_owned(), source }
    }
}

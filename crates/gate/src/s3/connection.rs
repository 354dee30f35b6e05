//! One client and its own connection to the server: two pumps, one for each direction, in one task, and how they end.
//!
//! Whatever ends one side ends the other likewise: a half-close is passed on as one, a reset as a reset, and a body that
//! was cut short never looks whole.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use crate::config::Facts;
use crate::listener::Door;
use crate::s3::dial::ServerWire;
use crate::s3::drain::Drain;
use crate::s3::pass::Broken;
use crate::s3::pending::Pending;
use crate::s3::unanswered::Unanswered;
use crate::shares::{Shares, Stream};
use crate::wire::Wire;

/// How long a client may keep a connection open that its server has closed.
const CLOSED_KEPT: Duration = Duration::from_secs(60);
/// How long a client may take for what its server had sent before it reset the connection.
const RESET_KEPT: Duration = Duration::from_secs(2);
/// How long a peer may take for the end of a connection.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
const RESET_LOOK: Duration = Duration::from_millis(5);
const GONE_LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Connection {
    pub door: Rc<Door>,
    pub client: Wire,
    pub server: ServerWire,
    pub address: IpAddr,
    pub drain: Drain,
    pub pending: Pending,
    /// A body is being sent, of which more is to come.
    pub is_sending: Cell<bool>,
    /// The client has been told to go on with the request that is being sent.
    pub has_continued: Cell<bool>,
    /// An answer is passing.
    pub is_answering: Cell<bool>,
    stream: RefCell<Option<Rc<Stream>>>,
}

/// How a pump came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// The reading end was closed between two messages, or where closing ends one.
    Clean,
    /// It was closed within a message.
    Cut,
    Broken(Broken),
    /// The server cannot be reached.
    Unreachable,
}

/// What both sides are to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
}

impl Connection {
    pub fn new(door: Rc<Door>, client: Wire, address: IpAddr) -> Self {
        door.shares.serve_objects();
        let (drain, pending) = (Drain::new(), Pending::default());
        Connection {
            door,
            client,
            server: ServerWire::default(),
            address,
            drain,
            pending,
            is_sending: Cell::default(),
            has_continued: Cell::default(),
            is_answering: Cell::default(),
            stream: RefCell::default(),
        }
    }

    pub fn shares(&self) -> &Rc<Shares> {
        &self.door.shares
    }

    /// The connection's stream of the application with these facts. Mostly it is that of the last request.
    pub fn stream_of(&self, facts: &Facts<'_>) -> Rc<Stream> {
        let application = self.door.gate.applications.of(facts);
        let mut last = self.stream.borrow_mut();
        match &*last {
            Some(stream) if Rc::ptr_eq(stream.application(), &application) => stream.clone(),
            _ => last.insert(self.shares().stream(&application)).clone(),
        }
    }

    /// The last request's; of who never sent one only the address is known.
    pub fn last_stream(&self) -> Rc<Stream> {
        let last = self.stream.borrow().clone();
        last.unwrap_or_else(|| self.stream_of(&Facts { client: Some(self.address), ..Facts::default() }))
    }

    pub async fn run(self) {
        let ending = {
            let drain = async {
                self.server.dialled().await;
                self.drain.run(&self.server, self.shares()).await;
            };
            tokio::select! {
                ending = self.pump() => ending,
                unanswered = self.until_unanswered() => self.give_up(unanswered),
                () = drain => unreachable!("it runs as long as it is asked to"),
            }
        };
        self.pending.close();
        self.drain.close();
        match ending {
            Ending::Closed => {
                self.finish(&self.client).await;
                if self.server.is_dialled() {
                    self.finish(&self.server).await;
                }
            }
            Ending::Reset => {
                self.server.into_inner().into_iter().for_each(Wire::reset);
                self.client.reset();
            }
        }
    }

    fn give_up(&self, unanswered: Unanswered) -> Ending {
        let (client, server) = (self.address, &self.door.listen.upstream);
        self.door.unanswered.say(&format_args!("{client} to {server}: closed: {unanswered}"));
        Ending::Reset
    }

    /// With TLS there may be more to say than the other side takes.
    async fn finish(&self, wire: &Wire) {
        let _ = tokio::time::timeout(FINISH_TIMEOUT, wire.finish()).await;
    }

    async fn pump(&self) -> Ending {
        let mut requests = pin!(self.requests());
        let mut responses = pin!(self.responses());
        tokio::select! {
            end = &mut requests => self.after_requests(end, responses).await,
            end = &mut responses => self.after_responses(end, requests).await,
        }
    }

    async fn after_requests(&self, end: End, responses: Pin<&mut impl Future<Output = End>>) -> Ending {
        match end {
            End::Clean if !self.server.is_dialled() => Ending::Closed,
            End::Clean => {
                self.finish(&self.server).await;
                match responses.await {
                    End::Broken(broken) => self.broken(broken).await,
                    _ => Ending::Closed,
                }
            }
            // A server must not take what came for all there was.
            End::Cut | End::Broken(Broken::Reading) => Ending::Reset,
            // The nearest to being refused that is left: the client has a connection already.
            End::Unreachable => Ending::Reset,
            // It may have said why it takes no more.
            End::Broken(Broken::Writing) => {
                let _ = responses.await;
                self.let_client_read().await;
                Ending::Reset
            }
        }
    }

    async fn after_responses(&self, end: End, requests: Pin<&mut impl Future<Output = End>>) -> Ending {
        if let End::Broken(broken) = end {
            return self.broken(broken).await;
        }
        self.finish(&self.client).await;
        let end = tokio::select! {
            end = requests => Some(end),
            () = tokio::time::sleep(CLOSED_KEPT) => Some(End::Clean),
            () = self.server_is_gone() => None,
        };
        if let Some(End::Clean) = end {
            return Ending::Closed;
        }
        self.let_client_read().await;
        Ending::Reset
    }

    /// A server that closed only its own direction may still read; one that is gone resets, which nobody notices who
    /// waits for it to read.
    async fn server_is_gone(&self) {
        while !self.server.is_gone() {
            tokio::time::sleep(GONE_LOOK).await;
        }
    }

    async fn broken(&self, broken: Broken) -> Ending {
        if let Broken::Reading = broken {
            self.let_client_read().await;
        }
        Ending::Reset
    }

    /// A reset drops what the client's kernel has not got yet.
    async fn let_client_read(&self) {
        let all_read = async {
            while self.client.unacknowledged() > 0 {
                tokio::time::sleep(RESET_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(RESET_KEPT, all_read).await;
    }
}

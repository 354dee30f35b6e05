//! One client and its own connection to the server: two pumps, one for each direction, in one task, and how they end.
//!
//! The end of one side ends the other in the same way: a half-close is passed on as one, a reset as a reset, and a body that
//! was cut short never looks whole.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use crate::config::Facts;
use crate::listener::ListenerContext;
use crate::s3::dial::ServerWire;
use crate::s3::limits::IDLE_TIMEOUT;
use crate::s3::pass::Broken;
use crate::s3::pending::Pending;
use crate::s3::send_window::SendWindow;
use crate::s3::unanswered::Unanswered;
use crate::upstream_scheduler::{RequestQueue, UpstreamScheduler};
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
    pub listener: Rc<ListenerContext>,
    pub client: Wire,
    pub server: ServerWire,
    pub address: IpAddr,
    pub send_window: SendWindow,
    pub pending: Pending,
    /// A body is being sent, of which more is to come.
    pub is_sending: Cell<bool>,
    /// The client has been sent "100 Continue" for the current request.
    pub has_continued: Cell<bool>,
    /// An answer is passing.
    pub is_answering: Cell<bool>,
    queue: RefCell<Option<Rc<RequestQueue>>>,
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
    /// The client has sent nothing of a body for too long.
    Silent,
}

/// The way both sides are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
}

impl Connection {
    pub fn new(listener: Rc<ListenerContext>, client: Wire, address: IpAddr) -> Self {
        listener.upstream.serve_objects();
        let (send_window, pending) = (SendWindow::new(), Pending::default());
        Connection {
            listener,
            client,
            server: ServerWire::default(),
            address,
            send_window,
            pending,
            is_sending: Cell::default(),
            has_continued: Cell::default(),
            is_answering: Cell::default(),
            queue: RefCell::default(),
        }
    }

    pub fn upstream(&self) -> &Rc<UpstreamScheduler> {
        &self.listener.upstream
    }

    /// The connection's stream of the application with these facts. Mostly it is that of the last request.
    pub fn queue_of(&self, facts: &Facts<'_>) -> Rc<RequestQueue> {
        let application = self.listener.gate.applications.of(facts);
        let mut last = self.queue.borrow_mut();
        match &*last {
            Some(queue) if Rc::ptr_eq(queue.application(), &application) => queue.clone(),
            _ => last.insert(self.upstream().queue(&application)).clone(),
        }
    }

    /// Returns the last request's queue; without any request only the client's address is known.
    pub fn last_queue(&self) -> Rc<RequestQueue> {
        let last = self.queue.borrow().clone();
        last.unwrap_or_else(|| self.queue_of(&Facts { client: Some(self.address), ..Facts::default() }))
    }

    pub async fn run(self) {
        let ending = {
            let send_window = async {
                self.server.dialled().await;
                self.send_window.run(&self.server, self.upstream()).await;
            };
            tokio::select! {
                ending = self.pump() => ending,
                unanswered = self.until_unanswered() => self.give_up(unanswered),
                () = send_window => unreachable!("it runs as long as it is asked to"),
            }
        };
        self.pending.close();
        self.send_window.close();
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
        let (client, server) = (self.address, &self.listener.listen.upstream);
        tracing::warn!(peer = %client, "connection to {server} closed: {unanswered}");
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
            End::Silent => {
                let (client, timeout_s) = (self.address, IDLE_TIMEOUT.as_secs());
                tracing::warn!(peer = %client, "connection closed: nothing of a body has come for {timeout_s} s");
                Ending::Reset
            }
            // The nearest to being refused that is left: the client has a connection already.
            End::Unreachable => Ending::Reset,
            // It may have sent a reason why it takes no more.
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

    /// Waits until the server is gone. A server that closed only its own direction may still read; one that is gone
    /// resets, which a task that waits for it to read does not notice.
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

    /// A reset drops bytes that the client's kernel has not received yet.
    async fn let_client_read(&self) {
        let all_read = async {
            while self.client.unacknowledged() > 0 {
                tokio::time::sleep(RESET_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(RESET_KEPT, all_read).await;
    }
}

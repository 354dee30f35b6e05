//! One client's connection and the gate's own to the server: calls one way, replies the other.
//!
//! Three parts alternate in one task. Calls are taken from the client as they come, up to its window, so that all it
//! has outstanding stands in the scheduler's queues; a READ or WRITE leaves with its grant, all else at once. Replies
//! pass in pieces as they are read, and complete the grant of the call they answer. Bytes are never changed, but for an
//! NFS server's sizes per transfer, if the configuration lowers that.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use policy::fairness::Completion;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use format::ErrorCode;

use crate::client_connections::TooManyOfClient;
use crate::config::Protocol;
use crate::listener::ListenerContext;
use crate::outstanding::SentRequest;
use crate::socket;

use super::FIRST_CALL_TIMEOUT;
use super::budget::{Part, Window};
use super::call::{Call, Caller};
use super::held::Held;
use super::in_service::{InService, Serving};
use super::intake::{Intake, Owner};
use super::operation::Operation;
use super::outbound::{Flushed, Outbound};
use super::record::{self, Malformed, Passed};
use super::replies::Replies;
use super::request_queues::{Queue, RequestQueues};
use super::write_order::WriteOrder;

/// A client with so many calls waiting or without answer is not read from until some have left.
pub const MAX_QUEUED_CALLS: usize = 1024;
/// A peer that takes nothing for so long, though there is something for it, stalls: its grants are given back.
const STALL: Duration = Duration::from_millis(100);
/// A client that has ended and a server that takes nothing: so long the server is waited for.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);
const GONE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client is read from after its server has ended: closing with its bytes unread would lose the server's
/// last bytes.
const LINGER: Duration = Duration::from_secs(2);
/// NFS clients connect again when they need to, and Linux's server ends idle connections after this time too. Clients of
/// GlusterFS keep locks by their connections: those end only with the client.
const IDLE_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// The limit on the bytes before a call's data.
const HEAD_BYTES: u64 = 2 << 10;
/// The most of a call in several fragments that is read (bytes); a handshake is the longest.
const MESSAGE_BYTES: usize = 64 << 10;

/// Why a connection ends before both sides have sent all they had to send.
#[derive(Debug, thiserror::Error)]
pub enum Ending {
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("the {from} sent {why}")]
    Malformed { from: &'static str, why: Malformed },
    #[error(
        "a call of {bytes} bytes is above half of the memory for waiting calls ({limit_bytes} bytes): \
         raise `call_memory`, or lower `max_transfer`"
    )]
    TooLong { bytes: usize, limit_bytes: usize },
    #[error("a call came too slowly: more than 30 s, and below 64 KiB/s")]
    TooSlow,
    #[error("the server is not reached")]
    Unreached,
    #[error("the client was idle")]
    Idle,
    #[error("{open} connections are open, as many as `call_memory` allows: raise it, or close some")]
    TooMany { open: usize },
    #[error("{0}")]
    TooManyOfClient(#[from] TooManyOfClient),
}

impl Ending {
    pub fn code(&self) -> ErrorCode {
        match self {
            Ending::Broken(error) => ErrorCode::of_io(error.kind()),
            Ending::Malformed { .. } => ErrorCode::GateMalformed,
            Ending::TooLong { .. } => ErrorCode::GateCallTooLong,
            Ending::TooSlow | Ending::Idle => ErrorCode::GateClientSlow,
            Ending::Unreached => ErrorCode::GateServerUnreached,
            Ending::TooMany { .. } | Ending::TooManyOfClient(_) => ErrorCode::GateTooManyConnections,
        }
    }
}

pub type Result<T> = std::result::Result<T, Ending>;

pub struct Connection {
    pub(super) listener: Rc<ListenerContext>,
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) in_service: RefCell<InService>,
    /// Calls whose replies are to be changed.
    pub(super) to_change: RefCell<Vec<u32>>,
    streams: RefCell<RequestQueues>,
    pub(super) window: Rc<Window>,
    outbound: RefCell<Outbound>,
    to_send: Notify,
    writes: RefCell<WriteOrder<Held>>,
    /// Calls that wait for their grants.
    queued: Cell<usize>,
    left_queue: Notify,
    /// A call was sent: it may be late some time.
    has_sent: Notify,
    /// When something passed last.
    pub(super) moved: Cell<Instant>,
    /// Since when the server has had something to answer and has not answered.
    pub(super) owed_since: Cell<Instant>,
    has_called: Cell<bool>,
    client_ended: Cell<bool>,
    /// Directions in which nothing moves.
    stalls: Cell<u32>,
    moves_again: Notify,
}

impl Connection {
    /// Serves the client until it and the server have ended. If it breaks, queued calls are withdrawn and those in
    /// service give back their grants.
    pub async fn serve(
        listener: Rc<ListenerContext>,
        window: Rc<Window>,
        streams: RequestQueues,
        client: TcpStream,
        server: TcpStream,
    ) -> Result<()> {
        let connection = Rc::new(Connection {
            window,
            listener,
            client,
            server,
            in_service: RefCell::default(),
            to_change: RefCell::default(),
            streams: RefCell::new(streams),
            outbound: RefCell::default(),
            to_send: Notify::new(),
            writes: RefCell::new(WriteOrder::new()),
            queued: Cell::new(0),
            left_queue: Notify::new(),
            has_sent: Notify::new(),
            moved: Cell::new(Instant::now()),
            owed_since: Cell::new(Instant::now()),
            has_called: Cell::new(false),
            client_ended: Cell::new(false),
            stalls: Cell::new(0),
            moves_again: Notify::new(),
        });
        let ended = connection.run().await;
        if ended.is_err() {
            // The remaining peer then sees a broken connection, not a proper end.
            let _ = (connection.client.set_zero_linger(), connection.server.set_zero_linger());
        }
        ended
    }

    async fn run(self: &Rc<Self>) -> Result<()> {
        tokio::select! {
            broken = self.pass_calls() => return broken,
            ended = Replies::new(self).pass() => ended?,
            never = self.sweep() => return never,
            gone = self.until_abandoned() => return Err(gone),
        }
        // The server has ended: calls that it has or that wait for it will not be answered.
        self.in_service.borrow_mut().clear();
        let drained = timeout(LINGER, send_window(&self.client)).await;
        drained.unwrap_or(Ok(())).map_err(Ending::from)
    }

    /// Returns only when it breaks: after the client's last call the server may still have replies to give.
    async fn pass_calls(self: &Rc<Self>) -> Result<()> {
        tokio::try_join!(self.receive_calls(), self.send_calls())?;
        std::future::pending().await
    }

    /// Ends the grants of calls that are late, and forgets those that hang.
    async fn sweep<T>(&self) -> T {
        loop {
            let due = self.in_service.borrow().next_due();
            match due {
                None => self.has_sent.notified().await,
                Some(due) => sleep_until(due).await,
            }
            self.in_service.borrow_mut().sweep(Instant::now());
            self.left_queue.notify_one();
        }
    }

    async fn receive_calls(self: &Rc<Self>) -> Result<()> {
        let mut intake = Intake::new(&self.client, &self.window);
        let mut waiting = JoinSet::new();
        while let Some(record) = intake.next(self).await? {
            self.moved.set(Instant::now());
            self.has_called.set(true);
            self.take(record, &mut waiting);
            while waiting.try_join_next().is_some() {}
            while self.calls() >= MAX_QUEUED_CALLS {
                let _wait = self.window.wait();
                self.left_queue.notified().await;
            }
        }
        let wait = self.window.wait();
        while waiting.join_next().await.is_some() {}
        drop(wait);
        self.client_ended.set(true);
        self.to_send.notify_one();
        Ok(())
    }

    /// Queues the call or lets it pass.
    fn take(self: &Rc<Self>, record: Held, waiting: &mut JoinSet<()>) {
        let Some((xid, caller, operation)) = understood(&record) else { return self.send(record) };
        match operation {
            Operation::Read { bytes } => {
                let cost_bytes = bytes.min(record::MAX_RECORD_BYTES as u64);
                let queued = Queued { xid, cost_bytes, expected_bytes: Some(cost_bytes), write: None };
                self.queue(queued, caller, record, waiting);
            }
            Operation::Write { bytes } => {
                // A call that brings more than it says is charged for all it brings.
                let brought_bytes = record.bytes() as u64;
                let cost_bytes = bytes.clamp(brought_bytes.saturating_sub(HEAD_BYTES), brought_bytes);
                let write = Some(self.writes.borrow_mut().queued());
                self.queue(Queued { xid, cost_bytes, expected_bytes: None, write }, caller, record, waiting);
            }
            Operation::AfterWrites => {
                let passes = self.writes.borrow_mut().follow(record);
                passes.into_iter().for_each(|record| self.send(record));
            }
            Operation::FileSystemInfo => {
                let mut expected = self.to_change.borrow_mut();
                if expected.len() < MAX_QUEUED_CALLS {
                    expected.push(xid);
                }
                drop(expected);
                self.send(record);
            }
            Operation::Attach { volume } => {
                self.streams.borrow_mut().attached(volume);
                self.send(record);
            }
            Operation::Other => self.send(record),
        }
    }

    fn queue(self: &Rc<Self>, call: Queued, caller: Caller, record: Held, waiting: &mut JoinSet<()>) {
        self.queued.set(self.queued.get() + 1);
        let Queue { queue, flow } = self.streams.borrow_mut().of(caller);
        let came = Instant::now();
        let in_queue = queue.grant(call.cost_bytes, None, Completion::Served);
        let wait = flow.wait();
        let connection = self.clone();
        waiting.spawn_local(async move {
            let has_room = || connection.listener.upstream.has_room(&flow, call.cost_bytes);
            let mut grant = in_queue.await;
            loop {
                let (moves_again, eased) = (connection.moves_again.notified(), flow.eased().notified());
                // Given back: nothing would come of it now.
                if connection.stalls.get() > 0 {
                    drop(grant);
                    moves_again.await;
                } else if !has_room() {
                    drop(grant);
                    eased.await;
                } else {
                    break;
                }
                grant = queue.grant_again(call.cost_bytes, None, Completion::Served).await;
            }
            drop(wait);
            connection.queued.set(connection.queued.get() - 1);
            connection.left_queue.notify_one();
            let Queued { xid, cost_bytes, expected_bytes, write } = call;
            let mut serving = Serving {
                xid,
                application: queue.application().clone(),
                grant: Some(grant),
                unanswered: flow.sent(cost_bytes),
                outstanding: SentRequest::of(queue.application()),
                expected_bytes,
                cost_bytes,
                came,
                sent: Instant::now(),
            };
            if flow.hangs() {
                serving.end_grant();
                serving.unanswered.note_late();
            }
            connection.in_service.borrow_mut().sent(serving);
            connection.has_sent.notify_one();
            connection.send(record);
            let followers = write.map(|number| connection.writes.borrow_mut().sent(number));
            followers.into_iter().flatten().for_each(|record| connection.send(record));
        });
    }

    /// Calls that wait, or are without answer.
    fn calls(&self) -> usize {
        self.queued.get() + self.in_service.borrow().len()
    }

    /// Notes that a reply was read whole.
    pub(super) fn answered(&self, reply: Passed) {
        self.in_service.borrow_mut().answered(reply);
        self.left_queue.notify_one();
    }

    fn send(&self, record: Held) {
        self.outbound.borrow_mut().push(record);
        self.to_send.notify_one();
    }

    async fn send_calls(&self) -> Result<()> {
        loop {
            let flushed = self.outbound.borrow_mut().flush(&self.server)?;
            match flushed {
                Flushed::Blocked => self.until_it_moves(self.server.writable()).await?,
                Flushed::All if self.client_ended.get() => break,
                Flushed::All => self.to_send.notified().await,
            }
        }
        shut_sending(&self.server)
    }

    /// Waits until a peer takes bytes again. One that takes none for long keeps no grants meanwhile.
    pub(super) async fn until_it_moves(&self, moves: impl Future<Output = io::Result<()>>) -> Result<()> {
        tokio::pin!(moves);
        match timeout(STALL, &mut moves).await {
            Ok(moved) => moved?,
            Err(_elapsed) => {
                self.stalls.set(self.stalls.get() + 1);
                self.in_service.borrow_mut().release_all();
                let moved = self.until_it_moves_or_the_client_is_gone(moves).await;
                self.stalls.set(self.stalls.get() - 1);
                self.moves_again.notify_waiters();
                moved?;
            }
        }
        Ok(())
    }

    /// Bytes from a client that is gone are not kept for a server that takes nothing.
    async fn until_it_moves_or_the_client_is_gone(
        &self,
        mut moves: impl Future<Output = io::Result<()>> + Unpin,
    ) -> io::Result<()> {
        let mut gone = Duration::ZERO;
        while gone < GONE_TIMEOUT {
            match timeout(GONE_INTERVAL, &mut moves).await {
                Ok(moved) => return moved,
                Err(_elapsed) if socket::has_ended(&self.client) => gone += GONE_INTERVAL,
                Err(_elapsed) => {}
            }
        }
        Err(ErrorKind::ConnectionAborted.into())
    }
}

impl Owner for Rc<Connection> {
    fn part(&self, beginning: &[u8]) -> Rc<Part> {
        if self.calls() == 0 && self.outbound.borrow().is_empty() {
            self.owed_since.set(Instant::now());
        }
        let message = record::message(beginning, MESSAGE_BYTES);
        let caller = Call::decode(&message).map(|call| call.caller).unwrap_or_default();
        let application = self.streams.borrow().application(caller);
        self.window.budget().part(application.name())
    }

    fn idle_timeout(&self) -> Option<Duration> {
        let limit = match (self.has_called.get(), self.listener.listen.protocol) {
            (false, _) => FIRST_CALL_TIMEOUT,
            (true, Protocol::Nfs) if self.calls() == 0 => IDLE_TIMEOUT,
            _ => return None,
        };
        Some(limit.saturating_sub(self.moved.get().elapsed()))
    }
}

fn understood(record: &Held) -> Option<(u32, Caller, Operation)> {
    let message = record::message(record.head(), MESSAGE_BYTES);
    let call = Call::decode(&message)?;
    Some((call.xid, call.caller, Operation::of(&call)))
}

/// A call that waits for its grant.
struct Queued {
    xid: u32,
    cost_bytes: u64,
    expected_bytes: Option<u64>,
    /// Its number among the connection's writes.
    write: Option<u64>,
}

/// Reads what comes until the end, and forgets it.
async fn send_window(queue: &TcpStream) -> io::Result<()> {
    let mut forgotten = [0; 4096];
    loop {
        queue.readable().await?;
        match queue.try_read(&mut forgotten) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Shuts down sending to the peer, after the other side has done so to the gate.
pub(super) fn shut_sending(queue: &TcpStream) -> Result<()> {
    match rustix::net::shutdown(queue, rustix::net::Shutdown::Write) {
        // It has ended the connection itself meanwhile.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(Ending::Broken(error.into())),
    }
}

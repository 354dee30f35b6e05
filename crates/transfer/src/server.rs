//! The node's end: accepts connections, and gives each a thread that feeds its handler while it has something to say.
//!
//! Bad input on a connection (garbage, half a frame) ends that connection only, and there are never more than
//! [`Server::limit_connections`] says. Stopping lets requests at hand be answered; suspending leaves the listener open
//! for a successor.

pub(crate) mod answer_memory;
mod client_connection;
mod closing;
mod frame_memory;
mod heartbeats;
mod idle_connections;
mod thread_pool;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

use self::answer_memory::AnswerMemory;
use self::client_connection::ClientConnection;
use self::closing::Closing;
use self::frame_memory::FrameMemory;
use self::heartbeats::Heartbeats;
use self::idle_connections::IdleConnections;
use self::thread_pool::ThreadPool;
use crate::back_off::BackOff;
use crate::connection::Connection;
use crate::message::{Failure, FailureKind, Reply};
use crate::service::Service;
use crate::{Error, Result};
use format::ErrorCode;

/// How long `run` waits, once stopped, for connections to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How soon the thread of the idle connections notices that the server has stopped, and that those it found are not served
/// yet.
const TICK: Duration = Duration::from_millis(200);
const SHORT_TICK: Duration = Duration::from_millis(5);
/// How long accepting rests after it failed, the first time and at most.
const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Refused connections kept at a time, each until its client has read why; beyond, the oldest is closed.
const MAX_REFUSED: usize = 48;
const REFUSED_TTL: Duration = Duration::from_secs(1);
/// A client has this long to introduce itself, and to prove its secret, when all places are taken.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Cloning gives another handle on the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<dyn Service>,
    closing: Closing,
    guests: AtomicU64,
    heartbeats: Heartbeats,
    memory: FrameMemory,
    answers: Arc<AnswerMemory>,
    idle: IdleConnections,
    threads: Arc<ThreadPool>,
    max_connections: AtomicUsize,
    /// Connections beyond the limit, oldest first, and when each was refused.
    refused: Mutex<VecDeque<(Instant, Arc<Connection>)>>,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    one_left: Condvar,
}

impl Server {
    /// Listens on `host:port`; port 0 takes a free one.
    pub fn bind(address: &str, service: Arc<dyn Service>) -> Result<Self> {
        let unavailable = |error: io::Error| {
            let why = format!("{address}: cannot listen there ({error}); choose another address");
            Error::Refused(ErrorCode::CannotListen, why)
        };
        let listener = TcpListener::bind(address).map_err(unavailable)?;
        Self::listen_on(listener, service).map_err(unavailable)
    }

    /// Takes over a listener that another program bound.
    pub fn listen_on(listener: TcpListener, service: Arc<dyn Service>) -> io::Result<Self> {
        // Accepting waits for the listener and for the end of accepting at once.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Shared {
            listener,
            address,
            service,
            closing: Closing::new()?,
            guests: AtomicU64::new(0),
            heartbeats: Heartbeats::default(),
            memory: FrameMemory::default(),
            answers: AnswerMemory::new(),
            idle: IdleConnections::new()?,
            threads: Arc::default(),
            max_connections: AtomicUsize::new(usize::MAX),
            refused: Mutex::default(),
            open: Mutex::new(HashMap::new()),
            one_left: Condvar::new(),
        };
        Ok(Server { shared: Arc::new(shared) })
    }

    pub fn local_address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Sets the number of connections beyond which new ones are refused, with a message.
    pub fn limit_connections(&self, max_connections: usize) {
        self.shared.max_connections.store(max_connections, Ordering::SeqCst);
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    /// Serves until [`Server::stop`]; returns when all connections have ended, at most 10 s after.
    pub fn run(&self) {
        let shared = self.shared.clone();
        start("pulse", move || shared.heartbeats.run(&shared.service, &shared.closing, || shared.give_up_late()));
        let shared = self.shared.clone();
        start("idle", move || shared.serve_those_with_something_to_do());
        let mut rests = BackOff::new(FIRST_REST, LONGEST_REST);
        while !self.shared.closing.takes_nothing() {
            let waited = self.shared.closing.wait_for(&self.shared.listener);
            if self.shared.closing.takes_nothing() {
                break;
            }
            let accepted = waited.and_then(|()| self.shared.listener.accept());
            match accepted.and_then(|(stream, peer)| self.admit(stream, peer)) {
                Ok(()) => rests.reset(),
                Err(error) if is_the_peers_doing(&error) => continue,
                Err(error) => {
                    tracing::error!(peer = %self.shared.address, "cannot take more connections now: {error}");
                    thread::sleep(rests.next());
                }
            }
        }
        self.wait_for_guests();
    }

    /// Calls [`Server::run`] in a thread of its own.
    pub fn spawn(&self) -> JoinHandle<()> {
        let server = self.clone();
        start("thalweg-accept", move || server.run())
    }

    /// Takes no more connections and no more requests; those at hand are still answered. Returns at once.
    pub fn stop(&self) {
        self.shared.closing.stop();
        // Clients that connect from now on are refused at once, instead of waiting for an answer that never comes.
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
        self.shared.open().values().for_each(|connection| connection.shut_receiving());
    }

    /// Takes no more connections and no more requests. The listener stays open: new connections wait there for the
    /// program it is handed on to. Open connections may still be sent something. Returns at once.
    pub fn suspend(&self) {
        self.shared.closing.suspend();
    }

    /// As [`Server::suspend`], and ends all connections as a crash would: unanswered requests get no answer from here.
    pub fn cut_off(&self) {
        self.suspend();
        self.shared.open().values().for_each(|connection| connection.shut());
    }

    /// Returns the listener, to be handed on to the program that serves this address next.
    pub fn listener(&self) -> &TcpListener {
        &self.shared.listener
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        // It may be gone already: then there is no client to notify.
        let Ok(connection) = Connection::accepted(stream, peer).map(Arc::new) else { return Ok(()) };
        let number = self.shared.guests.fetch_add(1, Ordering::Relaxed);
        let slot = ConnectionSlot { shared: self.shared.clone(), number };
        self.shared.close_refused();
        let mut open = self.shared.open();
        if open.len() >= self.shared.max_connections.load(Ordering::SeqCst) && !end_oldest_unknown(&mut open) {
            drop(open);
            self.refuse(connection);
            return Ok(());
        }
        open.insert(number, connection.clone());
        tracing::info!(peer = %peer, "connection accepted; {} are open", open.len());
        if self.shared.closing.is_stopping() {
            connection.shut_receiving();
        }
        drop(open);
        self.shared.leave(ClientConnection::new(connection, peer, slot));
        Ok(())
    }

    /// Sends the client why, which never waits on a new connection, and keeps the connection a moment: closed at once,
    /// with the client's first message unread, it would lose the answer.
    fn refuse(&self, connection: Arc<Connection>) {
        let max_connections = self.shared.max_connections.load(Ordering::SeqCst);
        let text = format!(
            "the node serves {max_connections} connections and takes no more now; close some, use fewer streams \
             (THALWEG_STREAMS), or start it with a higher limit of open files (ulimit -n)"
        );
        tracing::warn!(peer = connection.peer(), "connection refused: {text}");
        let reply = Reply::Failed { failure: Failure::new(FailureKind::Unavailable, text) };
        // Best effort: the client may be gone. One that uses TLS would take plain words for a node without it.
        if self.shared.service.tls().is_some() {
            return connection.shut();
        }
        let _ = connection.send(reply.kind(), 0, &reply.encode(), &[]);
        let mut refused = self.shared.refused();
        refused.push_back((Instant::now(), connection));
        let excess = refused.len().saturating_sub(MAX_REFUSED);
        refused.drain(..excess).for_each(|(_, connection)| connection.shut());
    }

    fn wait_for_guests(&self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut open = self.shared.open();
        while !open.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            open = self.shared.one_left.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        open.values().for_each(|connection| connection.shut());
    }
}

impl Shared {
    /// Until the server has stopped and has no client left.
    fn serve_those_with_something_to_do(self: &Arc<Self>) {
        while !self.closing.is_stopping() || !self.open().is_empty() {
            let timeout = if self.threads.are_short() { SHORT_TICK } else { TICK };
            self.threads.serve(self.idle.wait(timeout));
            let shared = self.clone();
            if let Err(error) = self.threads.start_missing(move |client| shared.leave(client)) {
                tracing::error!(peer = %self.address, "cannot serve more connections at once now: {error}");
                thread::sleep(SHORT_TICK);
            }
        }
    }

    /// Leaves a connection without a thread until something comes; one that the kernel cannot watch keeps a thread.
    fn leave(&self, client: ClientConnection) {
        if let Err(client) = self.idle.add(client) {
            self.threads.serve(vec![client]);
        }
    }

    fn refused(&self) -> MutexGuard<'_, VecDeque<(Instant, Arc<Connection>)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends connections whose frames come too slowly.
    fn give_up_late(&self) {
        self.open().values().for_each(|connection| connection.give_up_if_late());
    }

    /// Closes connections that were refused long enough ago.
    fn close_refused(&self) {
        let mut refused = self.refused();
        while refused.front().is_some_and(|(since, _)| since.elapsed() >= REFUSED_TTL) {
            refused.pop_front().into_iter().for_each(|(_, connection)| connection.shut());
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the list of open ones.
struct ConnectionSlot {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.shared.close_refused();
        self.shared.open().remove(&self.number);
        self.shared.one_left.notify_all();
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let spawned = thread::Builder::new().name(name.into()).spawn(run);
    spawned.expect("a program that just started can start a thread")
}

/// Makes room for a new connection: ends the one that has gone longest without introducing itself. Otherwise new
/// connections could take every place, without any secret. False when there is none, or all have just come.
fn end_oldest_unknown(open: &mut HashMap<u64, Arc<Connection>>) -> bool {
    let unknown = open.iter().filter_map(|(number, connection)| Some((*number, connection.is_unknown_for()?)));
    let oldest = unknown.filter(|(_, age)| *age >= UNKNOWN_TIMEOUT).min_by_key(|(number, _)| *number);
    let Some(connection) = oldest.and_then(|(number, _)| open.remove(&number)) else { return false };
    connection.cut_off("it has not proved itself, and all connections are taken");
    true
}

/// Returns whether an error of `accept` concerns only the connection that was to be accepted: no reason to rest.
fn is_the_peers_doing(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

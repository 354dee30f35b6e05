//! A node as its clients see it: requests over a few connections, and the store and catalog behind them.
//!
//! [`Remote`] sends requests and receives answers; a connection that broke is made again. Requests that are harmless
//! twice are then sent again, all others are reported as uncertain. [`RemoteStore`] and [`RemoteCatalog`] are the
//! traits of `store` and `catalog` over it.

mod catalog;
mod claims;
mod failures;
mod link;
mod outage;
mod pooled_connection;
mod segments;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use format::{Settings, StorePath};

use self::claims::IncarnationGuard;
use self::outage::{Attempts, Outage};
use self::pooled_connection::PooledConnection;
use crate::handshake::ClientIdentity;
use crate::message::{Reply, Request, StoreStatistics};
use crate::{Credentials, Error, Result, rate_limit};

pub use self::catalog::RemoteCatalog;
pub use self::failures::{catalog_error, store_error};
pub use self::link::Link;
pub use self::outage::report_absence;
pub use self::segments::RemoteStore;

/// Requests under way at once, not counting those of claim owners: none of them may wait for others that do not put
/// what they claimed. Each has a connection; more of them fill a far link while answers are under way.
const NEAR_CONNECTIONS: usize = 4;
const FAR_CONNECTIONS: usize = 32;
/// Requests with a payload from here on are bulk (bytes): TCP carries them faster the more the connection has carried.
const BULK_BYTES: usize = 64 << 10;
/// Idle connections that are kept. There are no more than were busy at once.
const MAX_IDLE: usize = 64;
/// How long a lost node is tried again.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Streams below this number are for the sessions of paths.
const FIRST_STREAM: u32 = 1 << 31;

/// Cloning gives another handle on the same connections.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    identity: ClientIdentity,
    credentials: Credentials,
    settings: Settings,
    incarnation: u64,
    round_trip: Duration,
    guard: IncarnationGuard,
    /// Counts the times that a connection could send something.
    sent: Arc<AtomicU64>,
    streams: AtomicU32,
    pool: Mutex<Pool>,
    outage: Outage,
    turn_over: Condvar,
}

struct Answer {
    reply: Reply,
    payload: Vec<u8>,
    /// The node process that gave it.
    incarnation: u64,
}

#[derive(Default)]
struct Pool {
    idle: Vec<PooledConnection>,
    busy: usize,
}

impl Pool {
    /// Takes an idle connection out: bulk goes over the one that has carried most, whose congestion window is the
    /// widest, and leaves it to bulk: all else goes over the one that has carried least.
    fn take(&mut self, bytes: usize) -> Option<PooledConnection> {
        let carried = |at: &usize| self.idle[*at].carried_bytes;
        let all = 0..self.idle.len();
        let chosen = if bytes >= BULK_BYTES { all.max_by_key(carried) } else { all.min_by_key(carried) };
        chosen.map(|at| self.idle.swap_remove(at))
    }
}

impl Remote {
    /// Makes the first connection; tries again only where the node answers that it takes no client now. `client` is the
    /// process's random number; `application` is charged for the node's bandwidth, empty for none. Uses the secret and
    /// the authorities that the environment names.
    pub fn connect(address: &str, client: u64, job: &str, application: &str) -> Result<Self> {
        Self::connect_with(Credentials::of_environment_for(address)?, address, client, job, application)
    }

    /// As [`Remote::connect`], with these credentials.
    pub fn connect_with(
        credentials: impl Into<Credentials>,
        address: &str,
        client: u64,
        job: &str,
        application: &str,
    ) -> Result<Self> {
        let identity = ClientIdentity { client, job: job.to_owned(), application: application.to_owned() };
        let outage = Outage::new(RECONNECT_TIMEOUT);
        Self::connect_by(credentials.into(), address, identity, |address, hello, credentials| {
            PooledConnection::open_when_free(address, hello, credentials, Attempts::new(&outage))
        })
    }

    /// As [`Remote::connect_with`], but gives the node up when it has not welcomed this process within `timeout`.
    pub fn connect_within(
        timeout: Duration,
        credentials: impl Into<Credentials>,
        address: &str,
        client: u64,
    ) -> Result<Self> {
        let identity = ClientIdentity::nameless(client);
        Self::connect_by(credentials.into(), address, identity, |address, hello, credentials| {
            PooledConnection::open_within(timeout, address, hello, credentials)
        })
    }

    fn connect_by(
        credentials: Credentials,
        address: &str,
        identity: ClientIdentity,
        open: impl FnOnce(&str, Request, &Credentials) -> Result<PooledConnection>,
    ) -> Result<Self> {
        let connection = open(address, identity.hello(FIRST_STREAM), &credentials)?;
        let shared = Shared {
            address: address.to_owned(),
            identity,
            credentials,
            settings: connection.settings.clone(),
            incarnation: connection.incarnation,
            round_trip: connection.round_trip,
            guard: IncarnationGuard::default(),
            sent: connection.sent.clone(),
            streams: AtomicU32::new(FIRST_STREAM + 1),
            pool: Mutex::new(Pool { idle: vec![connection], busy: 0 }),
            outage: Outage::new(RECONNECT_TIMEOUT),
            turn_over: Condvar::new(),
        };
        Ok(Remote { shared: Arc::new(shared) })
    }

    /// Returns a number that grows as long as the node takes what is sent to it, however slowly.
    pub fn progress(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Has a lost node tried again for so long, instead of 15 s.
    pub fn set_reconnect_timeout(&self, timeout: Duration) {
        self.shared.outage.set_timeout(timeout);
    }

    /// Returns the settings of the node's store.
    pub fn welcome(&self) -> &Settings {
        &self.shared.settings
    }

    /// Returns the random number of the node process that answered first.
    pub fn incarnation(&self) -> u64 {
        self.shared.incarnation
    }

    /// Returns how long an answer is under way, as the first connection found it; nothing where so little may be received that
    /// all wait for that. To ask ahead then would only make others wait, and connections be read too seldom.
    pub fn round_trip(&self) -> Duration {
        if rate_limit::receives_slowly() { Duration::ZERO } else { self.shared.round_trip }
    }

    pub fn address(&self) -> &str {
        &self.shared.address
    }

    pub fn statistics(&self) -> Result<StoreStatistics> {
        self.obtain(&Request::Statistics {}, |reply| match reply {
            Reply::Statistics { statistics } => Some(statistics),
            _ => None,
        })
    }

    /// Returns the bytes of the store's own model for the choice of codecs; none where it has no such one.
    pub fn model(&self) -> Result<Option<Vec<u8>>> {
        let request = Request::Model {};
        let (reply, model) = self.call(&request, &[])?;
        self.picked(&request, reply, |reply| matches!(reply, Reply::Model {}).then_some(()))?;
        Ok(Some(model).filter(|model| !model.is_empty()))
    }

    /// Returns the files that the job's processes reported as not stored, and why.
    pub fn job_failures(&self, job: &str) -> Result<Vec<(StorePath, String)>> {
        self.obtain(&Request::JobFailures { job: job.to_owned() }, |reply| match reply {
            Reply::JobFailures { failures } => Some(failures),
            _ => None,
        })
    }

    /// Sends a request on one of a few connections, waiting for one when all are busy. The answer is any reply but
    /// Failed, which is [`Error::Failed`].
    pub fn call(&self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        self.call_incarnation(request, payload, |_| Ok(()))
    }

    /// As [`Remote::call`], taking the expected fields out of the reply.
    pub fn obtain<T>(&self, request: &Request, pick: impl FnOnce(Reply) -> Option<T>) -> Result<T> {
        let (reply, _) = self.call(request, &[])?;
        self.picked(request, reply, pick)
    }

    /// Sends requests one behind another over one connection, and hands over the answers as they come, as long as `take` wants
    /// more; what the node refuses is left out. When the connection breaks, what was not answered is asked for over another.
    fn obtain_each(
        &self,
        requests: &[(Request, Arc<Vec<u8>>)],
        take: &mut dyn FnMut(Reply, Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        debug_assert!(requests.iter().all(|(request, _)| may_repeat(request)));
        let _turn = self.turn();
        let mut answered = 0;
        let ask = |connection: &mut PooledConnection| {
            let left = &requests[answered..];
            connection.ask_each(left, &mut |answer| {
                answered += 1;
                answer.map_or(Ok(true), |(reply, payload)| take(reply, payload))
            })
        };
        self.attempt(true, BULK_BYTES, ask, |_| Ok(())).map(drop)
    }

    fn picked<T>(&self, request: &Request, reply: Reply, pick: impl FnOnce(Reply) -> Option<T>) -> Result<T> {
        let kind = reply.kind();
        pick(reply).ok_or_else(|| self.misbehaved(format!("kind {kind:#x} answers {:#x}", request.kind())))
    }

    /// As [`Remote::call`], on a connection whose node process `admit` agrees to.
    fn call_incarnation(
        &self,
        request: &Request,
        payload: &[&[u8]],
        admit: impl Fn(u64) -> Result<()>,
    ) -> Result<(Reply, Vec<u8>)> {
        // A lease does not wait for content that is under way.
        let is_for_a_lease = matches!(request, Request::Renew { .. } | Request::End { .. });
        let _turn = (!is_for_a_lease).then(|| self.turn());
        self.converse(request, payload, admit).map(|answer| (answer.reply, answer.payload))
    }

    /// As [`Remote::obtain`], for a request that makes all durable: its answer covers what this process relies on, and no other
    /// node process may give it.
    fn obtain_durably<T>(&self, request: &Request, pick: impl FnOnce(Reply) -> Option<T>) -> Result<T> {
        let count = self.shared.guard.count();
        let (reply, _) = self.call_incarnation(request, &[], |incarnation| self.admit(incarnation))?;
        let picked = self.picked(request, reply, pick)?;
        self.shared.guard.end(count);
        Ok(picked)
    }

    /// Fails unless this node process may take more, or make durable what it has: all that this process relies on is there.
    fn admit(&self, incarnation: u64) -> Result<()> {
        self.shared.guard.allows(incarnation).then_some(()).ok_or_else(|| self.replaced())
    }

    /// Notes that something was put at, or found at, this node process.
    fn rely_on(&self, incarnation: u64) -> Result<()> {
        self.shared.guard.begin(incarnation).then_some(()).ok_or_else(|| self.replaced())
    }

    /// Returns whether a node process is gone on which this process relied.
    fn has_lost(&self) -> bool {
        self.shared.guard.is_lost()
    }

    fn replaced(&self) -> Error {
        let why = "the node was restarted while this process stored data there: what it had not committed may be lost, what \
                   it had committed is kept, and it has to begin again";
        Error::Unavailable { peer: self.shared.address.clone(), why: why.into() }
    }

    /// Sends a request on an idle connection or a new one, however many are busy, and on another when that breaks.
    fn converse(&self, request: &Request, payload: &[&[u8]], admit: impl Fn(u64) -> Result<()>) -> Result<Answer> {
        let ask = |connection: &mut PooledConnection| connection.ask(request, payload);
        let bytes = payload.iter().map(|piece| piece.len()).sum();
        let ((reply, payload), incarnation) = self.attempt(may_repeat(request), bytes, ask, admit)?;
        Ok(Answer { reply, payload, incarnation })
    }

    /// As `converse`, for requests that are sent one behind another over one connection; any of them may be repeated.
    /// Returns the replies, and the node process that gave them.
    fn converse_all(
        &self,
        requests: &[(Request, Arc<Vec<u8>>)],
        admit: impl Fn(u64) -> Result<()>,
    ) -> Result<(Vec<Reply>, u64)> {
        debug_assert!(requests.iter().all(|(request, _)| may_repeat(request)));
        let bytes = requests.iter().map(|(_, payload)| payload.len()).sum();
        self.attempt(true, bytes, |connection| connection.ask_all(requests), admit)
    }

    fn attempt<T>(
        &self,
        may_repeat: bool,
        bytes: usize,
        mut ask: impl FnMut(&mut PooledConnection) -> Result<T>,
        admit: impl Fn(u64) -> Result<()>,
    ) -> Result<(T, u64)> {
        self.shared.outage.check()?;
        let mut attempts = Attempts::new(&self.shared.outage);
        loop {
            let mut connection = match self.connection(bytes) {
                Ok(connection) => connection,
                Err(error) => {
                    attempts.wait(error)?;
                    continue;
                }
            };
            let incarnation = connection.incarnation;
            admit(incarnation)?;
            match ask(&mut connection) {
                Err(error @ Error::Unavailable { .. }) if may_repeat => attempts.wait(error)?,
                Err(Error::Unavailable { peer, why }) => {
                    let why = format!("{why}; whether the request was carried out is not known");
                    return Err(Error::Unavailable { peer, why });
                }
                answer => {
                    self.shared.outage.end();
                    self.give_back(connection);
                    return answer.map(|answer| (answer, incarnation));
                }
            }
        }
    }

    /// Sends a request once, if that can be done now.
    fn ask_once(&self, request: &Request) -> Result<()> {
        let mut connection = self.connection(0)?;
        connection.ask(request, &[])?;
        self.give_back(connection);
        Ok(())
    }

    /// Returns an idle connection, or a new one, for a request with a payload of `bytes`.
    fn connection(&self, bytes: usize) -> Result<PooledConnection> {
        loop {
            let Some(mut connection) = self.pool().take(bytes) else { break };
            if connection.is_usable() {
                return Ok(connection);
            }
        }
        let shared = &*self.shared;
        let stream = shared.streams.fetch_add(1, Ordering::Relaxed);
        let hello = shared.identity.hello(stream);
        let mut connection = PooledConnection::open(&shared.address, hello, &shared.credentials)?;
        connection.sent = shared.sent.clone();
        if connection.settings != shared.settings {
            return Err(Error::Replaced { peer: shared.address.clone() });
        }
        Ok(connection)
    }

    fn give_back(&self, mut connection: PooledConnection) {
        if !connection.is_usable() {
            return;
        }
        let mut pool = self.pool();
        if pool.idle.len() < MAX_IDLE {
            pool.idle.push(connection);
        }
    }

    fn turn(&self) -> BusySlot<'_> {
        let most = if self.round_trip() < store::FAR { NEAR_CONNECTIONS } else { FAR_CONNECTIONS };
        let waited = self.shared.turn_over.wait_while(self.pool(), |pool| pool.busy >= most);
        waited.unwrap_or_else(PoisonError::into_inner).busy += 1;
        BusySlot { remote: self }
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.shared.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn misbehaved(&self, why: String) -> Error {
        Error::Protocol { peer: self.shared.address.clone(), source: format::Error::Corrupt { what: "reply", why } }
    }
}

struct BusySlot<'a> {
    remote: &'a Remote,
}

impl Drop for BusySlot<'_> {
    fn drop(&mut self) {
        self.remote.pool().busy -= 1;
        self.remote.shared.turn_over.notify_one();
    }
}

/// Returns whether doing it twice is as good as once. A block put twice is stored twice, which costs room until the
/// next collection and nothing else; a session begun twice leaves a lease that expires.
fn may_repeat(request: &Request) -> bool {
    use Request::*;
    match request {
        Hello { .. }
        | Measure {}
        | Prove { .. }
        | FindMissing { .. }
        | AwaitClaims { .. }
        | PutBlock { .. }
        | Release { .. } => true,
        Get { .. } | Entries { .. } | MakeDurable {} => true,
        Begin { .. } | Renew { .. } | End { .. } => true,
        Entry { .. }
        | List { .. }
        | Versions { .. }
        | PathSessions { .. }
        | Checkpoints { .. }
        | Statistics {}
        | Model {} => true,
        ReportFailure { .. } | JobFailures { .. } => true,
        Commit { .. } | Discard { .. } | Recover { .. } | Delete { .. } => false,
        // Handles, stripe sets and locks belong to a connection or are counted: their streams handle resending.
        OpenPath { .. }
        | Attach { .. }
        | Write { .. }
        | OfferFingerprints { .. }
        | OfferDigest { .. }
        | SendBlocks { .. } => false,
        Read { .. } | Size { .. } | SetSize { .. } | Checkpoint { .. } | FlushHint { .. } | CommitPath { .. } => false,
        AwaitOthers { .. } | Detach { .. } | Leave { .. } | Lock { .. } | Unlock { .. } | MovePointer { .. } => false,
    }
}

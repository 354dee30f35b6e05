//! `thalweg node`: serves a store to clients, and reduces programs' writes.
//!
//! One process, plain threads: one per connection, as many workers as cores that reduce staged segments, a few for
//! checkpoints, commits and waits, one maintenance loop that checkpoints stripe sets, one thread that renews leases and
//! expires dead clients, and one sync scheduler while applications share. All decisions about data are the
//! repository's; this module only decides when to call it.

mod arenas;
mod begun_sessions;
mod blocks;
mod clients;
pub mod command;
mod damage;
mod detach_waiters;
mod failure;
mod fingerprint_lists;
mod handler;
mod ingest_scheduler;
mod job_failures;
mod locks;
mod maintenance;
mod model_watch;
mod monitored;
mod offer;
mod offer_budget;
mod offers;
mod open_files;
mod pages;
mod restart;
mod session_requests;
mod sessions;
mod shared_pointers;
mod stripe_owners;
mod traffic;
mod upstream;
mod work_queue;
mod workers;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use catalog::LocalCatalog;
use format::{HandleKey, Secret, SessionId};
use repository::{Budget, Repository};
use store::ClaimOwner;
use transfer::message::{Failure, Reply};
use transfer::{ClientSender, Handler, Hello, Remote, Service, TlsServer};

use begun_sessions::BegunSessions;
use clients::Clients;
use damage::DamageView;
use fingerprint_lists::FingerprintLists;
use handler::Connection;
use ingest_scheduler::IngestScheduler;
use job_failures::JobFailures;
use locks::Locks;
use offer_budget::OfferBudget;
use stripe_owners::{OwnerEntry, StripeOwners};
use traffic::Traffic;
use work_queue::WorkQueue;

/// Checkpoints at a time: each ends in a flush of the disk, which they share.
const CHECKPOINT_THREADS: usize = 8;
const COMMIT_THREADS: usize = 4;
/// Waits at a time for what other clients claim or name; none takes longer than some seconds.
const WAIT_THREADS: usize = 16;

/// How a node is set up; the defaults suit most.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes held for programs that outrun the node; beyond, they wait.
    pub staging_bytes: u64,
    /// Threads that reduce.
    pub workers: usize,
    /// A stripe set checkpoints when this much is not durable.
    pub checkpoint_bytes: u64,
    /// Memory for the fingerprint lists that clients have sent in full.
    pub names_bytes: usize,
    /// Blocks from remote clients are believed without decoding and naming them again.
    pub trust_clients: bool,
    /// The weights of applications that share the node's bandwidth; others weigh 1. None: nothing is shared.
    pub weights: Option<HashMap<String, u32>>,
}

/// A running node.
pub struct Node {
    pub(crate) repository: Arc<Repository>,
    /// The node of the far store, where this one stands near its clients.
    upstream: Option<Remote>,
    /// This process's number: whose stripe set is whose.
    incarnation: u64,
    options: NodeOptions,
    budget: Arc<Budget>,
    stripe_sets: StripeOwners,
    clients: Clients,
    begun_sessions: BegunSessions,
    job_failures: JobFailures,
    locks: Locks,
    ingest: Arc<IngestScheduler>,
    traffic: Arc<Traffic>,
    names: FingerprintLists,
    damage: DamageView,
    offer_budget: Arc<OfferBudget>,
    checkpoints: Arc<WorkQueue>,
    commits: Arc<WorkQueue>,
    waits: Arc<WorkQueue>,
    claim_owners: AtomicU64,
    /// Counts work that clients wait for.
    progress: AtomicU64,
    stopping: AtomicBool,
    /// The node was asked to stop, which takes a while.
    asked_to_stop: AtomicBool,
    /// Rung when a stripe set has work, or the node stops.
    bell: Condvar,
    rung: Mutex<bool>,
}

impl Node {
    pub fn new(
        repository: Arc<Repository>,
        incarnation: u64,
        options: NodeOptions,
        upstream: Option<Remote>,
    ) -> Arc<Self> {
        Arc::new(Node {
            repository,
            upstream,
            incarnation,
            budget: Arc::new(Budget::new(options.staging_bytes)),
            ingest: IngestScheduler::new(options.weights.clone()),
            traffic: Arc::default(),
            names: FingerprintLists::new(options.names_bytes),
            damage: DamageView::default(),
            offer_budget: OfferBudget::for_node(),
            checkpoints: WorkQueue::new("checkpoint"),
            commits: WorkQueue::new("commit"),
            waits: WorkQueue::new("wait"),
            options,
            stripe_sets: StripeOwners::default(),
            clients: Clients::default(),
            begun_sessions: BegunSessions::default(),
            job_failures: JobFailures::default(),
            locks: Locks::default(),
            claim_owners: AtomicU64::new(1),
            progress: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            asked_to_stop: AtomicBool::new(false),
            bell: Condvar::new(),
            rung: Mutex::new(false),
        })
    }

    /// Starts all threads but those of connections; they end when the node stops.
    pub fn start(self: &Arc<Self>) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
        let mut threads = Vec::new();
        for number in 0..self.options.workers {
            let node = self.clone();
            let name = format!("reduce-{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || workers::work(&node))?);
        }
        let node = self.clone();
        threads.push(std::thread::Builder::new().name("maintenance".into()).spawn(move || maintenance::keep(&node))?);
        let node = self.clone();
        threads.push(std::thread::Builder::new().name("leases".into()).spawn(move || maintenance::keep_leases(&node))?);
        let node = self.clone();
        threads.push(std::thread::Builder::new().name("model".into()).spawn(move || model_watch::follow(&node))?);
        let node = self.clone();
        threads
            .push(std::thread::Builder::new().name("sync".into()).spawn(move || maintenance::schedule_syncs(&node))?);
        for (queue, count) in
            [(&self.checkpoints, CHECKPOINT_THREADS), (&self.commits, COMMIT_THREADS), (&self.waits, WAIT_THREADS)]
        {
            threads.extend(queue.start(count)?);
        }
        Ok(threads)
    }

    /// Prepares to stop: the node does not restart any more, and no write waits.
    pub fn prepare_to_stop(&self) {
        self.asked_to_stop.store(true, Ordering::SeqCst);
        self.ingest.open();
    }

    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.asked_to_stop.load(Ordering::SeqCst)
    }

    /// Makes everything received durable and ends the workers. The sessions of clients that were there when the node was
    /// asked to stop stay, as after a crash: the node that is started next goes on with them, or their leases run out.
    pub fn stop(&self, asked: Instant) -> repository::Result<()> {
        // The users of a stripe set that failed have had the error.
        let stripe_sets = self.stripe_sets.all().into_iter().filter(|entry| entry.owner.failure().is_none());
        let checkpointed: Vec<_> = stripe_sets.map(|entry| self.checkpoint_at_end(&entry)).collect();
        // A file that a client left open was not closed: this checkpoint is its last.
        for (session, key) in self.clients.take_handles_of_gone(asked) {
            self.leave(session, &key);
        }
        self.stopping.store(true, Ordering::SeqCst);
        self.bell.notify_all();
        [&self.checkpoints, &self.commits, &self.waits].into_iter().for_each(|queue| queue.close());
        checkpointed.into_iter().collect()
    }

    /// Returns the store's catalog. A node has its store's directory.
    fn catalog(&self) -> Result<&dyn LocalCatalog, Failure> {
        self.repository.local_catalog().map_err(failure::of)
    }

    /// Takes a handle off for a client that does not do so any more. The session's checkpoints stay, marked interrupted.
    fn leave(&self, session: SessionId, key: &HandleKey) {
        if let Ok(catalog) = self.catalog() {
            let _ = catalog.leave(session, key);
        }
    }

    /// Takes the handles off that clients had closed when they ended, since their job asks what it left open.
    fn leave_closed(&self) {
        for (session, key) in self.clients.take_closed() {
            self.leave(session, &key);
            self.clients.gave_back((session, key));
        }
    }

    fn checkpoint_at_end(&self, entry: &OwnerEntry) -> repository::Result<()> {
        match self.checkpoint(entry, true, None) {
            // Its last process left without closing it. Its writers have been sent why, and the node did nothing wrong.
            Err(repository::Error::Catalog(catalog::Error::LeaseLost { session }))
                if session == entry.owner.options().session =>
            {
                Ok(())
            }
            checkpointed => checkpointed,
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Notes progress: clients that wait for a long request see it, and wait on.
    pub(crate) fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number no other pipeline of this process claims segments under.
    pub(crate) fn new_claim_owner(&self) -> ClaimOwner {
        ClaimOwner(self.claim_owners.fetch_add(1, Ordering::Relaxed))
    }
}

/// The node as the transfer layer sees it.
pub struct NodeService {
    pub node: Arc<Node>,
    pub secret: Option<Secret>,
    pub tls: Option<TlsServer>,
}

impl Service for NodeService {
    fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    fn tls(&self) -> Option<&TlsServer> {
        self.tls.as_ref()
    }

    fn connect(&self, hello: Hello, outbox: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        let node = self.node.clone();
        let settings = node.repository.settings.to_text();
        let welcome = Reply::Welcome { settings, incarnation: node.incarnation };
        node.clients.connected(hello.client, node.repository.lease().epoch());
        Ok((welcome, Box::new(Connection::new(node, hello, outbox))))
    }

    /// A failure from a lost node lease, here or upstream, is not answered, but left to the process that restarts in its place.
    fn may_send(&self, failure: &Failure) -> bool {
        let repository = &self.node.repository;
        let is_upstreams = || repository.upstream().is_some_and(|upstream| upstream.explains(&failure.text));
        !repository.lease().explains(&failure.text) && !is_upstreams()
    }

    fn progress(&self) -> u64 {
        // A sync is long where the disk is slow, and is progress as long as the disk takes what was written.
        let upstream = self.node.repository.upstream().map_or(0, |upstream| upstream.progress());
        let own = self.node.progress.load(Ordering::Relaxed).wrapping_add(self.node.repository.synced_bytes());
        let sent = self.node.upstream.as_ref().map_or(0, Remote::progress);
        own.wrapping_add(upstream).wrapping_add(sent)
    }
}

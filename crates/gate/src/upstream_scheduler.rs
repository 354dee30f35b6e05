//! The scheduling of one server: runs a scheduler of `policy` for all users of the server through this gate.
//!
//! A task with bytes to move opens a [`RequestQueue`] of an application, awaits a [`Grant`] for some of them, moves
//! them and completes the grant. Grants are counted in bytes of service. Nodes of the weighted tree are made on demand;
//! those of applications that had no queue for a minute are removed. The scheduler itself lives as long as the server
//! can be used: by a listener, or by a connection that outlives its listener.

mod admission;
mod concurrency;
mod grant;
mod grant_table;
mod leases;
pub mod reserve;
mod tree;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use policy::fairness::{Depth, Kind, Next, Request, Scheduler, Settings, Time, scheduler};
use tokio::sync::Notify;

use crate::applications::{Application, Applications};
use crate::clock::Clock;
use crate::flows::{Flow, Flows};
use crate::reachability::Reachability;
use admission::Uploads;
pub(crate) use admission::{Admission, UploadCounts};
use grant::QueueKey;
pub use grant::{Grant, RequestQueue, Waiting};
use grant_table::GrantTable;
use reserve::Reserve;
use tree::Tree;

/// How often idle applications are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// A grant without progress is given back after this many usual service times, within these bounds.
const PROGRESS_TIMEOUT_SERVICES: u64 = 4;
const MIN_PROGRESS_TIMEOUT: Duration = Duration::from_millis(20);
const MAX_PROGRESS_TIMEOUT: Duration = Duration::from_millis(200);
/// A request without progress loses its grant likewise, within these bounds.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Services that the mean remembers.
const REMEMBERED_SERVICES: u64 = 16;

pub struct UpstreamScheduler {
    server: String,
    /// Calls and requests without answer there.
    pub flows: Flows,
    pub reachability: Reachability,
    clock: Rc<Clock>,
    operation_bytes: Cell<u64>,
    state: RefCell<QueueState>,
    /// Long uploads that are under way or wait to begin.
    uploads: RefCell<Uploads>,
    /// One of them is over: the server may read another now.
    upload_ended: Notify,
    /// A grant was completed or given back: the next may begin.
    changed: Rc<Notify>,
    /// The mean time from a grant's start to its completion, in nanoseconds.
    service_ns: Cell<u64>,
    /// The mean time from a request's grant to its reply.
    request_ns: Cell<u64>,
    /// The last sign of progress with requests in service, and the longest usual time between two.
    progress_at: Cell<Time>,
    gap_ns: Cell<u64>,
    /// Whether grants end when the server makes no progress with any: only objects can wait for depth that others hold
    /// while they hold depth that others wait for.
    has_objects: Cell<bool>,
    /// The bytes that objects being read and written hold until they are served.
    pub reads: Reserve,
    pub writes: Reserve,
}

/// An entry that waits for the scheduler's decision or has it.
struct QueueState {
    scheduler: Box<dyn Scheduler>,
    settings: Settings,
    tree: Tree,
    grants: GrantTable,
}

impl UpstreamScheduler {
    /// Must be called within a `LocalSet`: schedulers have tasks, which end with them.
    pub fn new(
        server: &str,
        applications: Rc<Applications>,
        settings: &Settings,
        operation_bytes: u64,
        clock: Rc<Clock>,
    ) -> Rc<UpstreamScheduler> {
        let (state, uploads) = (QueueState::new(applications.clone(), settings), Uploads::new(applications, settings));
        let upstream = Rc::new(UpstreamScheduler {
            server: server.to_owned(),
            flows: Flows::default(),
            reachability: Reachability::default(),
            clock,
            operation_bytes: Cell::new(operation_bytes),
            state: RefCell::new(state),
            uploads: RefCell::new(uploads),
            upload_ended: Notify::new(),
            changed: Rc::default(),
            service_ns: Cell::new(0),
            request_ns: Cell::new(0),
            progress_at: Cell::default(),
            gap_ns: Cell::default(),
            has_objects: Cell::default(),
            reads: Reserve::default(),
            writes: Reserve::default(),
        });
        tokio::task::spawn_local(dispatch_while_used(
            Rc::downgrade(&upstream),
            upstream.changed.clone(),
            upstream.clock.clone(),
        ));
        tokio::task::spawn_local(sweep_while_used(Rc::downgrade(&upstream)));
        tokio::task::spawn_local(leases::sweep_while_used(Rc::downgrade(&upstream)));
        upstream
    }

    /// Returns the server these are the upstream scheduler of, as the file names it.
    pub fn server(&self) -> &str {
        &self.server
    }

    pub fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }

    /// Makes a queue below the application's: grants of one queue begin in order, those of several alternate.
    pub fn queue(self: &Rc<Self>, application: &Rc<Application>) -> Rc<RequestQueue> {
        Rc::new(RequestQueue::new(self.clone(), application.clone()))
    }

    /// Takes over what the file says now; weights and groups come from the applications.
    pub fn apply(&self, settings: &Settings, operation_bytes: u64) {
        self.operation_bytes.set(operation_bytes);
        let now = self.clock.now();
        self.state.borrow_mut().apply(settings, now);
        self.uploads.borrow_mut().apply(settings, now);
        self.dispatch();
        self.begin_uploads();
    }

    /// Returns the bytes of service completed, for each application that ever had some here.
    pub fn charged(&self) -> Vec<(Rc<str>, u64)> {
        self.state.borrow().tree.charged()
    }

    /// Adds the application's service at other servers since the last call.
    pub fn served_at_other_servers(&self, application: &str, bytes: u64) {
        let now = self.clock.now();
        self.state.borrow_mut().served_at_other_servers(application, bytes, now);
        self.uploads.borrow_mut().queue.served_at_other_servers(application, bytes, now);
    }

    /// Returns the most bytes that are to be outstanding at the server now, and those that are.
    pub fn depth_bytes(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.scheduler.depth_bytes(), state.scheduler.in_flight_bytes())
    }

    /// Whether the application of this flow has room for such a request at a server that does not answer it.
    pub fn has_room(&self, flow: &Flow, cost_bytes: u64) -> bool {
        let applications = self.state.borrow().tree.applications().clone();
        self.flows.may_send(flow, cost_bytes, self.depth_bytes().0, |group| applications.group_weight(group))
    }

    /// Returns how long a grant may show no progress before it is better given back.
    pub fn progress_timeout(&self) -> Duration {
        let usual = Duration::from_nanos(self.service_ns.get().saturating_mul(PROGRESS_TIMEOUT_SERVICES));
        usual.clamp(MIN_PROGRESS_TIMEOUT, MAX_PROGRESS_TIMEOUT)
    }

    /// Returns how long a request may show no progress before its grant is better given back.
    pub fn request_timeout(&self) -> Duration {
        let usual = Duration::from_nanos(self.request_ns.get().saturating_mul(PROGRESS_TIMEOUT_SERVICES));
        usual.clamp(MIN_REQUEST_TIMEOUT, MAX_REQUEST_TIMEOUT)
    }

    /// Notes the server's time for one service: timeouts follow the mean.
    pub fn note_service(&self, duration_ns: u64) {
        note(&self.service_ns, duration_ns);
    }

    /// Notes the server's time for a whole request, also for one whose grant was given back meanwhile.
    pub fn note_request(&self, duration_ns: u64) {
        note(&self.request_ns, duration_ns);
    }

    /// Objects pass to this server.
    pub fn serve_objects(&self) {
        self.has_objects.set(true);
    }

    /// Returns the most bytes one request may be granted at once: more than the depth would have the server to itself.
    pub fn max_grant(&self) -> u64 {
        let settings = &self.state.borrow().settings;
        match (settings.kind, settings.depth) {
            (Kind::Deadline, Depth::Auto) => reserve::MIN_BYTES,
            (_, Depth::Auto) => u64::MAX,
            (_, Depth::Bytes(bytes)) => bytes.max(reserve::MIN_BYTES),
        }
    }

    /// Begins the grants that are due.
    fn dispatch(&self) -> Option<Time> {
        let mut state = self.state.borrow_mut();
        let QueueState { scheduler, grants, .. } = &mut *state;
        let now = self.clock.now();
        loop {
            match scheduler.next(now) {
                Next::Start { id, .. } => {
                    if grants.start(id, now) == 1 {
                        self.note_start(now);
                    }
                }
                Next::Wait { until } => return Some(until),
                Next::Nothing => return None,
            }
        }
    }
}

fn note(mean_ns: &Cell<u64>, duration_ns: u64) {
    let mean = mean_ns.get();
    mean_ns.set(mean - mean / REMEMBERED_SERVICES + duration_ns / REMEMBERED_SERVICES);
}

impl Drop for UpstreamScheduler {
    fn drop(&mut self) {
        // The task that dispatches learns it.
        self.changed.notify_one();
    }
}

impl QueueState {
    fn new(applications: Rc<Applications>, settings: &Settings) -> QueueState {
        QueueState {
            scheduler: scheduler(settings),
            settings: settings.clone(),
            tree: Tree::new(applications),
            grants: GrantTable::default(),
        }
    }

    /// Returns the request's number.
    fn enqueue(&mut self, queue: &Rc<QueueKey>, request: Request, now: Time) -> u64 {
        let request = self.grants.queue(queue.clone(), request);
        let flow = self.tree.queue_node(self.scheduler.as_mut(), queue);
        self.scheduler.enqueue(flow, request, now);
        request.id
    }

    fn served_at_other_servers(&mut self, application: &str, bytes: u64, now: Time) {
        if let Some(flow) = self.tree.node_of(application) {
            self.scheduler.served_at_other_servers(flow, bytes, now);
        }
    }

    fn close(&mut self, queue: &QueueKey, now: Time) {
        self.tree.close(self.scheduler.as_mut(), queue, now);
    }

    fn apply(&mut self, settings: &Settings, now: Time) {
        if self.settings == *settings {
            self.tree.set_weights(self.scheduler.as_mut());
        } else {
            self.begin_again(settings, now);
        }
    }

    fn sweep(&mut self, now: Time) {
        self.tree.sweep(self.scheduler.as_mut(), now);
    }

    /// Begins with another scheduler: waiting requests are queued again in the order they came, those in service no
    /// longer count: schedulers ignore the completion of requests that they do not know.
    fn begin_again(&mut self, settings: &Settings, now: Time) {
        self.scheduler = scheduler(settings);
        self.settings = settings.clone();
        self.tree.forget_nodes();
        let QueueState { scheduler, tree, grants, .. } = self;
        grants.requeue(|queue, request| {
            let flow = tree.queue_node(scheduler.as_mut(), queue);
            scheduler.enqueue(flow, request, now);
        });
    }
}

/// Dispatches after completions, in a task of its own: the code that completed a grant mostly asks for the next one at
/// once, and only then can the scheduler compare.
async fn dispatch_while_used(upstream: Weak<UpstreamScheduler>, changed: Rc<Notify>, clock: Rc<Clock>) {
    while let Some(next) = upstream.upgrade().map(|upstream| upstream.dispatch()) {
        match next {
            None => changed.notified().await,
            Some(until) => tokio::select! {
                () = changed.notified() => {}
                () = clock.sleep_until(until) => {}
            },
        }
    }
}

async fn sweep_while_used(upstream: Weak<UpstreamScheduler>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(upstream) = upstream.upgrade() else { return };
        let now = upstream.clock.now();
        upstream.state.borrow_mut().sweep(now);
        upstream.uploads.borrow_mut().queue.sweep(now);
    }
}

//! Schedulers for a server that several applications share.
//!
//! A caller puts requests into the queues of flows, asks `next` until it has nothing to start, hands started requests
//! to the server, and reports completions. Flows form one weighted tree: group → application → stream. Bandwidth is
//! divided between applications (and groups); the streams of one application alternate by a quantum. A request belongs
//! to the node it is enqueued at; its application is that node's parent, or the node itself at the top.
//!
//! Costs and depth are bytes, times are nanoseconds on the caller's clock, and nothing here reads a clock.
//! `docs/fairness.md` has each scheduler's computation and the measured trade-offs.

mod budget;
mod discipline;
mod heap;
mod in_order;
mod measure;
mod queues;
mod reference;
mod remote_service;
mod reservation_tuner;
mod sfq_tags;
mod turnarounds;

pub mod anticipating;
pub mod deadline;
pub mod depth;
pub mod fifo;
pub mod max_min;
pub mod sfq_depth;
pub mod target_shares;

/// A queue or an inner node of the weighted tree. Numbers are reused after `remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Nanoseconds on the caller's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// Returns the moment `ns` nanoseconds later; stays at the end of time rather than wrap.
    pub fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `earlier`; 0 when that is not earlier.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Something that waits to be sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's id, unique among the requests of its flow.
    pub id: u64,
    /// The value of the server's work, in bytes, with the cost of an operation by itself. 0 counts as 1, more than 64
    /// GiB as that.
    pub cost_bytes: u64,
    /// When it should be complete. `None`: within the deadline of its stream, application or group, if it has one.
    pub deadline: Option<Time>,
    pub completion: Completion,
}

/// The meaning of a request's completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The server has done its work.
    #[default]
    Served,
    /// The server's kernel has it: it may lie in a buffer there.
    Received,
    /// The end of something that was received: the server has done its work on all of it.
    EndServed,
}

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Hand this request to the server, then ask again.
    Start { flow: NodeId, id: u64 },
    /// Something is queued and held back: ask again at this time, or after any other call.
    Wait { until: Time },
    /// Nothing to do before something is enqueued or completed.
    Nothing,
}

/// A queueing discipline. Unknown flows and ids are ignored (`false` where the answer matters), never a panic.
pub trait Scheduler {
    /// Adds a new node below `parent`, or at the top. A weight of 0 counts as 1.
    fn add(&mut self, parent: Option<NodeId>, weight: u32) -> NodeId;

    /// Sets the weight from now on; earlier charges stay. 0 counts as 1.
    fn set_weight(&mut self, flow: NodeId, weight: u32);

    /// Requests at or below this node that name no deadline are due this long after they were enqueued.
    fn set_deadline(&mut self, flow: NodeId, within_ns: Option<u64>);

    /// Forgets a node, and with it what its application has had too much: better some seconds after its last request.
    /// Refused while it has children, or requests queued or in service.
    fn remove(&mut self, flow: NodeId) -> bool;

    /// Puts a request at the end of its flow's queue.
    fn enqueue(&mut self, flow: NodeId, request: Request, now: Time);

    /// Takes a queued request out again; false when it is not queued (started, or unknown).
    fn withdraw(&mut self, flow: NodeId, id: u64, now: Time) -> bool;

    /// To be called after any other call, until it no longer says `Start`.
    fn next(&mut self, now: Time) -> Next;

    /// Completes a started request. The part of its cost beyond `served_bytes` is given back to the application.
    /// Returns how long past its deadline that is, in nanoseconds: 0 when it is in time, has none, or was not started.
    fn complete(&mut self, flow: NodeId, id: u64, served_bytes: u64, now: Time) -> u64;

    /// Adds the service that this application (the node that pays, never a stream) got at other servers since the last
    /// call.
    fn served_at_other_servers(&mut self, application: NodeId, bytes: u64, now: Time);

    /// Returns the most bytes that are to be outstanding at the server, as of now.
    fn depth_bytes(&self) -> u64;

    /// Returns the bytes outstanding at the server: the costs of requests started and not complete.
    fn in_flight_bytes(&self) -> u64;
}

/// Which discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// In order of arrival, weights ignored: the baseline.
    Fifo,
    /// Start-time fair queueing, one request at a time (Goyal et al. 1996).
    Sfq,
    /// Start-time fair queueing with depth (Jin et al. 2004).
    SfqD,
    /// Earliest deadline first.
    Deadline,
    /// SFQ(D) that waits for the flow that is behind, with the depth found while it runs: Thalweg's own.
    #[default]
    Anticipating,
}

/// How much may be outstanding at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The least that keeps the server at its full rate, found while it runs.
    #[default]
    Auto,
    /// Fixed. A request larger than this is started when nothing else is outstanding.
    Bytes(u64),
}

/// The knobs; `Default` is what the gate uses when its file says nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub kind: Kind,
    pub depth: Depth,
    /// The bytes that a stream of weight 1 may start before the next stream of its application has its turn.
    pub quantum_bytes: u64,
    /// Longest wait for an application that has nothing queued.
    pub max_anticipation_ns: u64,
    /// Share of the time (0 to 1) that the server may idle by such waits.
    pub waiting_share: f64,
    /// The limit on an application's credit for lagging behind others: as much as the servers can make good in this
    /// time.
    pub lag_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            kind: Kind::default(),
            depth: Depth::Auto,
            quantum_bytes: 512 << 10,
            max_anticipation_ns: 20_000_000,
            waiting_share: 0.035,
            lag_ns: 2_000_000_000,
        }
    }
}

/// Makes a scheduler for one server.
pub fn scheduler(settings: &Settings) -> Box<dyn Scheduler> {
    match settings.kind {
        Kind::Fifo => Box::new(fifo::fifo(settings)),
        Kind::Sfq => Box::new(sfq_depth::SfqDepth::one_at_a_time(settings)),
        Kind::Deadline => Box::new(deadline::deadline(settings)),
        Kind::Anticipating => Box::new(anticipating::Anticipating::new(settings)),
        Kind::SfqD => Box::new(sfq_depth::SfqDepth::new(settings)),
    }
}

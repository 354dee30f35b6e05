//! A request queue, and the grants it waits for and has.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use policy::fairness::{Completion, Request, Time};

use super::grant_table::Removed;
use super::{Admission, QueueState, UpstreamScheduler};
use crate::applications::{Application, add, take};
use crate::flows::Flow;

pub struct RequestQueue {
    pub(super) upstream: Rc<UpstreamScheduler>,
    application: Rc<Application>,
    flow: Rc<Flow>,
    pub(super) key: Rc<QueueKey>,
}

/// Where a stream's queue hangs in the tree.
pub(super) struct QueueKey {
    pub number: u64,
    pub place: (Rc<str>, Option<Rc<str>>),
}

thread_local! {
    static STREAMS: Cell<u64> = const { Cell::new(0) };
}

impl RequestQueue {
    pub(super) fn new(upstream: Rc<UpstreamScheduler>, application: Rc<Application>) -> Self {
        let number = STREAMS.replace(STREAMS.get() + 1);
        let place = upstream.state.borrow_mut().tree.open(&application);
        upstream.uploads.borrow_mut().queue.tree.open(&application);
        let flow = upstream.flows.of(&application);
        RequestQueue { upstream, application, flow, key: Rc::new(QueueKey { number, place }) }
    }

    pub fn application(&self) -> &Rc<Application> {
        &self.application
    }

    /// Returns the application's unanswered requests at the server.
    pub fn flow(&self) -> &Rc<Flow> {
        &self.flow
    }

    /// Requests a grant for an operation that moves this many bytes, at the cost of operations besides. Without a
    /// deadline it has the application's.
    pub fn grant(self: &Rc<Self>, bytes: u64, deadline: Option<Time>, completion: Completion) -> Waiting {
        add(&self.application.counters.requests, 1);
        self.waiting(bytes, self.upstream.operation_bytes.get(), deadline, completion)
    }

    /// Requests a grant for an operation that had one and gave it back.
    pub fn grant_again(self: &Rc<Self>, bytes: u64, deadline: Option<Time>, completion: Completion) -> Waiting {
        self.waiting(bytes, self.upstream.operation_bytes.get(), deadline, completion)
    }

    /// Requests a grant for more bytes of an operation that was granted before.
    pub fn slice(self: &Rc<Self>, bytes: u64, deadline: Option<Time>, completion: Completion) -> Waiting {
        self.waiting(bytes, 0, deadline, completion)
    }

    /// Requests a place among the long uploads under way, for one of this length if it is known.
    pub fn admission(self: &Rc<Self>, length: Option<u64>, deadline: Option<Time>) -> Admission {
        Admission::queue(self, length, deadline)
    }

    fn waiting(
        self: &Rc<Self>,
        bytes: u64,
        operation_bytes: u64,
        deadline: Option<Time>,
        completion: Completion,
    ) -> Waiting {
        let upstream = &self.upstream;
        let now = upstream.clock.now();
        let cost_bytes = bytes.saturating_add(operation_bytes).max(1);
        let mut state = upstream.state.borrow_mut();
        let id = state.enqueue(&self.key, Request { id: 0, cost_bytes, deadline, completion }, now);
        let pending = PendingGrant { queue: self.clone(), id, cost_bytes, operation_bytes };
        drop(state);
        add(&self.application.counters.queued, 1);
        // A hint to wait is repeated to the task that can: it dispatches after every change.
        if upstream.dispatch().is_some() {
            upstream.changed.notify_one();
        }
        Waiting { pending: Some(pending), since: now }
    }
}

impl Drop for RequestQueue {
    fn drop(&mut self) {
        let now = self.upstream.clock.now();
        self.upstream.state.borrow_mut().close(&self.key, now);
        self.upstream.uploads.borrow_mut().queue.close(&self.key, now);
    }
}

/// A request the scheduler has.
struct PendingGrant {
    queue: Rc<RequestQueue>,
    id: u64,
    cost_bytes: u64,
    operation_bytes: u64,
}

impl PendingGrant {
    /// Takes it out of the scheduler, started or not.
    fn end(&self, served_bytes: u64) {
        let upstream = &self.queue.upstream;
        let now = upstream.clock.now();
        let mut state = upstream.state.borrow_mut();
        let QueueState { scheduler, tree, grants, .. } = &mut *state;
        match grants.remove(self.id) {
            Removed::Expired => {}
            Removed::Queued => {
                let flow = tree.queue_node(scheduler.as_mut(), &self.queue.key);
                scheduler.withdraw(flow, self.id, now);
            }
            Removed::Started => {
                let charged_bytes = served_bytes.min(self.cost_bytes);
                tree.charge(&self.queue.key.place.0, charged_bytes);
                let counters = &self.queue.application.counters;
                add(&counters.charged_bytes, charged_bytes);
                let flow = tree.queue_node(scheduler.as_mut(), &self.queue.key);
                let late_ns = scheduler.complete(flow, self.id, served_bytes, now);
                counters.note_late(Duration::from_nanos(late_ns));
                if served_bytes > 0 {
                    upstream.note_progress(now);
                }
            }
        }
        drop(state);
        upstream.changed.notify_one();
    }
}

/// Waits for a grant; dropping it leaves the queue.
pub struct Waiting {
    pending: Option<PendingGrant>,
    since: Time,
}

impl Future for Waiting {
    type Output = Grant;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Grant> {
        let pending = self.pending.as_ref().expect("a future is not polled after it is ready");
        let upstream = &pending.queue.upstream;
        let mut state = upstream.state.borrow_mut();
        let Poll::Ready(started) = state.grants.poll_started(pending.id, context) else { return Poll::Pending };
        drop(state);
        let counters = &pending.queue.application.counters;
        counters.waits.note(Duration::from_nanos(started.since(self.since)));
        take(&counters.queued, 1);
        add(&counters.in_service, 1);
        let pending = self.pending.take().expect("it was there");
        Poll::Ready(Grant { pending, started, is_complete: false })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            take(&pending.queue.application.counters.queued, 1);
            pending.end(0);
        }
    }
}

/// A grant. Dropped without being completed it is given back: nothing was served.
pub struct Grant {
    pending: PendingGrant,
    started: Time,
    is_complete: bool,
}

impl Grant {
    /// Completes the grant: so many of its bytes have been served; the cost of an operation by itself is added.
    pub fn complete(self, served_bytes: u64) {
        let upstream = &self.pending.queue.upstream;
        upstream.note_service(upstream.clock.now().since(self.started));
        self.end(served_bytes);
    }

    /// Notes that a whole request was served with it.
    pub fn complete_request(self, served_bytes: u64) {
        self.end(served_bytes);
    }

    /// Returns what it counts in the depth, the cost of an operation included.
    pub fn cost_bytes(&self) -> u64 {
        self.pending.cost_bytes
    }

    /// Notes that the server makes progress with it: the grant stays.
    pub fn progress(&self) {
        let upstream = &self.pending.queue.upstream;
        let now = upstream.clock.now();
        upstream.state.borrow_mut().grants.progress(self.pending.id, now);
        upstream.note_progress(now);
    }

    /// Notes that the server has all of the object: nothing before its reply says what it does.
    pub fn awaits_reply(&self) {
        self.pending.queue.upstream.state.borrow_mut().grants.awaits_reply(self.pending.id);
    }

    /// Gives the grant back for others to use, since the server does nothing with it. It stays charged for the bytes
    /// given as served.
    pub fn give_back(self, served_bytes: u64) {
        self.end(served_bytes);
    }

    fn end(mut self, served_bytes: u64) {
        self.is_complete = true;
        self.pending.end(served_bytes.saturating_add(self.pending.operation_bytes));
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        take(&self.pending.queue.application.counters.in_service, 1);
        if !self.is_complete {
            self.pending.end(0);
        }
    }
}

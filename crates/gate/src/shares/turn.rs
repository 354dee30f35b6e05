//! What users of a server hold: a stream, and the turns it waits for and has.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use policy::fairness::{Completion, Request, Time};

use super::ticket::Removed;
use super::{Admission, Queue, Shares};
use crate::applications::{Application, add, take};

pub struct Stream {
    pub(super) shares: Rc<Shares>,
    application: Rc<Application>,
    pub(super) key: Rc<StreamKey>,
}

/// Where a stream's queue hangs in the tree.
pub(super) struct StreamKey {
    pub number: u64,
    pub place: (Rc<str>, Option<Rc<str>>),
}

thread_local! {
    static STREAMS: Cell<u64> = const { Cell::new(0) };
}

impl Stream {
    pub(super) fn new(shares: Rc<Shares>, application: Rc<Application>) -> Self {
        let number = STREAMS.replace(STREAMS.get() + 1);
        let place = shares.state.borrow_mut().tree.open(&application);
        shares.uploads.borrow_mut().queue.tree.open(&application);
        Stream { shares, application, key: Rc::new(StreamKey { number, place }) }
    }

    pub fn application(&self) -> &Rc<Application> {
        &self.application
    }

    /// A turn for an operation that moves this many bytes: it costs what operations cost besides. Without a deadline
    /// it has the application's.
    pub fn turn(self: &Rc<Self>, bytes: u64, deadline: Option<Time>, completion: Completion) -> Waiting {
        add(&self.application.counters.requests, 1);
        self.waiting(bytes, self.shares.operation_bytes.get(), deadline, completion)
    }

    /// A turn for more bytes of an operation that had its turn.
    pub fn slice(self: &Rc<Self>, bytes: u64, deadline: Option<Time>, completion: Completion) -> Waiting {
        self.waiting(bytes, 0, deadline, completion)
    }

    /// A place among the long uploads under way, for one of this length if it is known.
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
        let shares = &self.shares;
        let now = shares.clock.now();
        let cost_bytes = bytes.saturating_add(operation_bytes).max(1);
        let mut state = shares.state.borrow_mut();
        let id = state.enqueue(&self.key, Request { id: 0, cost_bytes, deadline, completion }, now);
        let ticket = Ticket { stream: self.clone(), id, cost_bytes, operation_bytes };
        drop(state);
        add(&self.application.counters.queued, 1);
        // A hint to wait is repeated to the task that can: it dispatches after every change.
        if shares.dispatch().is_some() {
            shares.changed.notify_one();
        }
        Waiting { ticket: Some(ticket), since: now }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let now = self.shares.clock.now();
        self.shares.state.borrow_mut().close(&self.key, now);
        self.shares.uploads.borrow_mut().queue.close(&self.key, now);
    }
}

/// A request the scheduler has.
struct Ticket {
    stream: Rc<Stream>,
    id: u64,
    cost_bytes: u64,
    operation_bytes: u64,
}

impl Ticket {
    /// Takes it out of the scheduler, started or not.
    fn end(&self, served_bytes: u64) {
        let shares = &self.stream.shares;
        let now = shares.clock.now();
        let mut state = shares.state.borrow_mut();
        let Queue { scheduler, tree, tickets, .. } = &mut *state;
        match tickets.remove(self.id) {
            Removed::Expired => {}
            Removed::Queued => {
                let flow = tree.stream_flow(scheduler.as_mut(), &self.stream.key);
                scheduler.withdraw(flow, self.id, now);
            }
            Removed::Started => {
                let charged_bytes = served_bytes.min(self.cost_bytes);
                tree.charge(&self.stream.key.place.0, charged_bytes);
                let counters = &self.stream.application.counters;
                add(&counters.charged_bytes, charged_bytes);
                let flow = tree.stream_flow(scheduler.as_mut(), &self.stream.key);
                let late_ns = scheduler.complete(flow, self.id, served_bytes, now);
                counters.note_late(Duration::from_nanos(late_ns));
                if served_bytes > 0 {
                    shares.note_progress(now);
                }
            }
        }
        drop(state);
        shares.changed.notify_one();
    }
}

/// Waiting for one's turn; dropping it leaves the queue.
pub struct Waiting {
    ticket: Option<Ticket>,
    since: Time,
}

impl Future for Waiting {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Turn> {
        let ticket = self.ticket.as_ref().expect("a future is not polled after it is ready");
        let shares = &ticket.stream.shares;
        let mut state = shares.state.borrow_mut();
        let Poll::Ready(started) = state.tickets.poll_started(ticket.id, context) else { return Poll::Pending };
        drop(state);
        let counters = &ticket.stream.application.counters;
        counters.waits.note(Duration::from_nanos(started.since(self.since)));
        take(&counters.queued, 1);
        add(&counters.in_service, 1);
        let ticket = self.ticket.take().expect("it was there");
        Poll::Ready(Turn { ticket, started, is_complete: false })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            take(&ticket.stream.application.counters.queued, 1);
            ticket.end(0);
        }
    }
}

/// One's turn. Dropped without being completed it is given back: nothing was served.
pub struct Turn {
    ticket: Ticket,
    started: Time,
    is_complete: bool,
}

impl Turn {
    /// So much of the bytes asked for has been served; what an operation costs besides is added.
    pub fn complete(self, served_bytes: u64) {
        let shares = &self.ticket.stream.shares;
        shares.note_service(shares.clock.now().since(self.started));
        self.end(served_bytes);
    }

    /// A whole request was served with it.
    pub fn complete_request(self, served_bytes: u64) {
        self.end(served_bytes);
    }

    /// The server makes progress with what it was given: the turn stays.
    pub fn progress(&self) {
        let shares = &self.ticket.stream.shares;
        let now = shares.clock.now();
        shares.state.borrow_mut().tickets.progress(self.ticket.id, now);
        shares.note_progress(now);
    }

    /// The server has all of the object: nothing before its reply says what it does.
    pub fn awaits_reply(&self) {
        self.ticket.stream.shares.state.borrow_mut().tickets.awaits_reply(self.ticket.id);
    }

    /// The server does nothing with what it was given: others shall have the turn. It is paid as far as it is said to
    /// be served.
    pub fn give_back(self, served_bytes: u64) {
        self.end(served_bytes);
    }

    fn end(mut self, served_bytes: u64) {
        self.is_complete = true;
        self.ticket.end(served_bytes.saturating_add(self.ticket.operation_bytes));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        take(&self.ticket.stream.application.counters.in_service, 1);
        if !self.is_complete {
            self.ticket.end(0);
        }
    }
}

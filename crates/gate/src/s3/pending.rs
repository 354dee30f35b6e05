//! Requests that have been passed on and not been answered, in order: a response is known by its place only.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use policy::fairness::Time;
use tokio::sync::Notify;

use crate::flows::Unanswered;
use crate::outstanding::SentRequest;
use crate::s3::head::Method;
use crate::s3::request_grant::RequestGrant;
use crate::upstream_scheduler::RequestQueue;

/// A client that sends more requests ahead waits.
const MOST: usize = 64;

#[derive(Default)]
pub(crate) struct Pending {
    requests: RefCell<VecDeque<Asked>>,
    /// The server has changed protocols: nothing is HTTP any more.
    is_tunnel: Cell<bool>,
    /// Nothing will be answered any more.
    is_closed: Cell<bool>,
    added: Notify,
    answered: Notify,
}

pub(crate) struct Asked {
    pub method: Method,
    pub queue: Rc<RequestQueue>,
    /// While the server works on it.
    pub request_grant: Option<RequestGrant>,
    /// Where it keeps its grant until the reply.
    pub unanswered: Option<Unanswered>,
    /// When it lost its grant without an answer, while it counts for that.
    pub late_since: Option<Time>,
    pub outstanding: SentRequest,
    /// Bytes of its body, if that is more than passes with the head.
    pub upload: Option<u64>,
    /// It began when all before it were answered.
    pub is_alone: bool,
    /// The request's own, for all of its answer.
    pub deadline: Option<Time>,
    pub began: Time,
    /// It was passed on then.
    pub sent: Time,
}

impl Pending {
    /// Returns when there is room for another.
    pub async fn room(&self) {
        while self.requests.borrow().len() >= MOST && !self.is_closed.get() {
            self.answered.notified().await;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.requests.borrow().is_empty()
    }

    /// Whether only the request that was passed on last is without its answer.
    pub fn is_single(&self) -> bool {
        self.requests.borrow().len() == 1
    }

    pub fn is_tunnel(&self) -> bool {
        self.is_tunnel.get()
    }

    /// Only the request that is next to be answered keeps its grant: those behind it would hold what its answer needs.
    pub fn push(&self, mut asked: Asked) {
        asked.is_alone = self.is_empty();
        if !asked.is_alone || self.is_closed.get() {
            asked.request_grant.take().into_iter().for_each(RequestGrant::release);
        }
        self.requests.borrow_mut().push_back(asked);
        self.added.notify_one();
    }

    /// Returns when another has been pushed since.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    pub fn first_method(&self) -> Option<Method> {
        self.requests.borrow().front().map(|asked| asked.method)
    }

    fn with_grant<T>(&self, act: impl FnOnce(&mut Option<RequestGrant>) -> T) -> Option<T> {
        self.requests.borrow_mut().front_mut().map(|asked| act(&mut asked.request_grant))
    }

    pub fn holds_grant(&self) -> bool {
        self.with_grant(|request_grant| request_grant.as_ref().is_some_and(RequestGrant::counts)).unwrap_or(false)
    }

    /// Returns the bytes of the body being sent that may pass with the grant.
    pub fn allowance(&self) -> u64 {
        self.with_grant(|request_grant| request_grant.as_ref().map_or(0, RequestGrant::left)).unwrap_or(0)
    }

    pub fn moved(&self, bytes: u64) {
        self.with_grant(|request_grant| request_grant.iter_mut().for_each(|request_grant| request_grant.moved(bytes)));
    }

    /// Notes that the server makes progress: the grant stays.
    pub fn progress(&self) {
        self.with_grant(|request_grant| request_grant.iter().for_each(RequestGrant::progress));
    }

    /// Releases the grant: the client does something else, or nothing more will be answered.
    pub fn release(&self) {
        self.with_grant(Option::take).flatten().into_iter().for_each(RequestGrant::release);
    }

    /// Notes that the server has made no progress with the request for long: it gives up its depth, and counts as one that
    /// hangs.
    pub fn note_late(&self, now: Time) {
        if let Some(asked) = self.requests.borrow_mut().front_mut() {
            asked.request_grant.iter_mut().for_each(RequestGrant::forgo_depth);
            asked.unanswered.iter_mut().for_each(Unanswered::note_late);
            asked.late_since = Some(now);
        }
    }

    pub fn late_since(&self) -> Option<Time> {
        self.requests.borrow().front().and_then(|asked| asked.late_since)
    }

    /// Counts the request that hangs against its application no longer.
    pub fn give_up(&self) {
        if let Some(asked) = self.requests.borrow_mut().front_mut() {
            asked.unanswered.iter_mut().for_each(Unanswered::give_up);
            asked.late_since = None;
        }
    }

    /// Takes the grant of which all has passed, if it is still there.
    pub fn take_grant(&self) -> Option<RequestGrant> {
        self.with_grant(Option::take).flatten()
    }

    /// Notes that the end of the body that was sent last is outstanding until the reply, if that has not come.
    pub fn hold(&self, request_grant: RequestGrant) {
        let mut requests = self.requests.borrow_mut();
        match requests.front_mut() {
            Some(asked) if asked.upload.is_some() && asked.is_alone && !self.is_closed.get() => {
                asked.request_grant = Some(request_grant);
                self.added.notify_one();
            }
            _ => request_grant.release(),
        }
    }

    /// Removes the first, whose answer has come. `is_tunnel`: the bytes after it are not HTTP.
    pub fn answer(&self, is_tunnel: bool) -> Option<Asked> {
        if is_tunnel {
            self.is_tunnel.set(true);
        }
        let asked = self.requests.borrow_mut().pop_front();
        self.answered.notify_one();
        asked
    }

    /// No answer will come any more: nothing of it is held, now or later.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.release();
        self.answered.notify_one();
    }

    /// Returns when all are answered: whether the protocol has changed.
    pub async fn changes_protocol(&self) -> bool {
        while !self.requests.borrow().is_empty() && !self.is_closed.get() {
            self.answered.notified().await;
        }
        self.is_tunnel.get()
    }
}

//! Requests that have been passed on and not been answered, in order: a response is known by its place only.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use policy::fairness::Time;
use tokio::sync::Notify;

use crate::s3::head::Method;
use crate::shares::{Stream, Turn};

/// A client that sends more requests ahead waits.
const MOST: usize = 64;

#[derive(Default)]
pub(crate) struct Pending {
    requests: RefCell<VecDeque<Asked>>,
    /// The server has changed protocols: nothing is HTTP any more.
    is_tunnel: Cell<bool>,
    added: Notify,
    answered: Notify,
}

pub(crate) struct Asked {
    pub method: Method,
    pub stream: Rc<Stream>,
    /// The operation's turn, while the server works on it.
    pub turn: Option<Turn>,
    /// The request's own, for all of its answer.
    pub deadline: Option<Time>,
    pub began: Time,
}

impl Pending {
    /// Returns when there is room for another.
    pub async fn room(&self) {
        while self.requests.borrow().len() >= MOST {
            self.answered.notified().await;
        }
    }

    /// Only the request that is next to be answered keeps its turn: those behind it would hold what its answer needs.
    pub fn push(&self, mut asked: Asked) {
        if !self.requests.borrow().is_empty() {
            asked.turn.take().into_iter().for_each(|turn| turn.give_back(0));
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

    pub fn holds_turn(&self) -> bool {
        self.requests.borrow().front().is_some_and(|asked| asked.turn.is_some())
    }

    /// The server works on something else, or sleeps: others shall have the turn. The operation is paid.
    pub fn give_turn_back(&self) {
        let turn = self.requests.borrow_mut().front_mut().and_then(|asked| asked.turn.take());
        turn.into_iter().for_each(|turn| turn.give_back(0));
    }

    /// The first, whose answer has come. `is_tunnel`: what follows is not HTTP.
    pub fn answer(&self, is_tunnel: bool) -> Option<Asked> {
        if is_tunnel {
            self.is_tunnel.set(true);
        }
        let asked = self.requests.borrow_mut().pop_front();
        self.answered.notify_one();
        asked
    }

    /// Returns when all are answered: whether the protocol has changed.
    pub async fn changes_protocol(&self) -> bool {
        while !self.requests.borrow().is_empty() {
            self.answered.notified().await;
        }
        self.is_tunnel.get()
    }
}

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
    pub began: Time,
}

impl Pending {
    /// Returns when there is room for another.
    pub async fn room(&self) {
        while self.requests.borrow().len() >= MOST {
            self.answered.notified().await;
        }
    }

    pub fn push(&self, asked: Asked) {
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

    pub fn holds_turns(&self) -> bool {
        self.requests.borrow().iter().any(|asked| asked.turn.is_some())
    }

    /// The server works on something else, or sleeps: others shall have the turns. The operations are paid.
    pub fn give_turns_back(&self) {
        let turns: Vec<Turn> = self.requests.borrow_mut().iter_mut().filter_map(|asked| asked.turn.take()).collect();
        turns.into_iter().for_each(|turn| turn.complete(0));
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

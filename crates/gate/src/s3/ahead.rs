//! The turns of one answer. While one slice is read the next is asked for: a server sends as much ahead as our window
//! lets it, and what it works on should have its turn.

use std::collections::VecDeque;
use std::rc::Rc;

use policy::fairness::{Completion, Time};

use crate::shares::{Stream, Turn, Waiting};
use crate::socket::SLICE;

/// As many as the window to the server holds.
const TURNS: u64 = 2;

pub(crate) struct Ahead {
    stream: Rc<Stream>,
    deadline: Option<Time>,
    waiting: VecDeque<Waiting>,
}

impl Ahead {
    pub fn new(stream: Rc<Stream>, deadline: Option<Time>) -> Self {
        Ahead { stream, deadline, waiting: VecDeque::new() }
    }

    /// The next slice's turn, when so many bytes are left.
    pub async fn next(&mut self, left: u64) -> Turn {
        let wanted = left.div_ceil(SLICE as u64).clamp(1, TURNS);
        while (self.waiting.len() as u64) < wanted {
            self.waiting.push_back(self.stream.slice(left.min(SLICE as u64), self.deadline, Completion::Served));
        }
        self.waiting.pop_front().expect("it was filled").await
    }

    /// Nothing can be moved now: others shall have the turns.
    pub fn give_back(&mut self) {
        self.waiting.clear();
    }
}

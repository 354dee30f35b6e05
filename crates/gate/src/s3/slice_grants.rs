//! The turns of one answer. While one slice is read the next is asked for: a server sends as much ahead as our window
//! lets it, and what it works on should have its turn.

use std::collections::VecDeque;
use std::rc::Rc;

use policy::fairness::{Completion, Time};

use crate::socket::SLICE;
use crate::upstream_scheduler::{Grant, RequestQueue, Waiting};

/// As many as the window to the server holds.
const GRANTS: u64 = 2;

pub(crate) struct SliceGrants {
    queue: Rc<RequestQueue>,
    deadline: Option<Time>,
    waiting: VecDeque<Waiting>,
}

impl SliceGrants {
    pub fn new(queue: Rc<RequestQueue>, deadline: Option<Time>) -> Self {
        SliceGrants { queue, deadline, waiting: VecDeque::new() }
    }

    /// The next slice's turn, when so many bytes are left.
    pub async fn next(&mut self, left: u64) -> Grant {
        let wanted = left.div_ceil(SLICE as u64).clamp(1, GRANTS);
        while (self.waiting.len() as u64) < wanted {
            self.waiting.push_back(self.queue.slice(left.min(SLICE as u64), self.deadline, Completion::Served));
        }
        self.waiting.pop_front().expect("it was filled").await
    }

    /// Nothing can be moved now: others shall have the turns.
    pub fn give_back(&mut self) {
        self.waiting.clear();
    }
}

//! The grants of one answer. While one slice is read the next grant is requested: a server sends as much ahead as our
//! window lets it, and the bytes it works on should be granted.

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

    /// Returns the next slice's grant, when so many bytes are left.
    pub async fn next(&mut self, left: u64) -> Grant {
        let wanted = left.div_ceil(SLICE as u64).clamp(1, GRANTS);
        while (self.waiting.len() as u64) < wanted {
            self.waiting.push_back(self.queue.slice(left.min(SLICE as u64), self.deadline, Completion::Served));
        }
        self.waiting.pop_front().expect("it was filled").await
    }

    /// Gives back the grants for others to use: nothing can be moved now.
    pub fn give_back(&mut self) {
        self.waiting.clear();
    }
}

//! Requests in the order of one of their times, whatever their flow; of equal ones the first to come.

use super::discipline::Discipline;
use super::heap::Heap;
use super::queues::{QueuedRequest, Queues};
use super::{Next, Settings, Time};

pub struct InOrder {
    queues: Queues,
    key: fn(&QueuedRequest) -> Time,
    /// Queued cells by key, then arrival.
    order: Heap<(Time, u64)>,
    arrivals: u64,
    depth_bytes: u64,
}

impl InOrder {
    pub fn new(settings: &Settings, depth_bytes: u64, key: fn(&QueuedRequest) -> Time) -> Self {
        InOrder { queues: Queues::new(settings), key, order: Heap::new(), arrivals: 0, depth_bytes }
    }
}

impl Discipline for InOrder {
    fn queues(&self) -> &Queues {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    fn enqueued(&mut self, cell: u32, _now: Time) {
        self.arrivals += 1;
        self.order.set(cell, ((self.key)(&self.queues.cell(cell)), self.arrivals));
    }

    fn withdrawn(&mut self, cell: u32, _application: u32, _now: Time) {
        self.order.remove(cell);
    }

    fn next(&mut self, now: Time) -> Next {
        let Some((_, cell)) = self.order.first() else { return Next::Nothing };
        if !self.queues.admits(&self.queues.cell(cell), self.depth_bytes) {
            return Next::Nothing;
        }
        self.order.remove(cell);
        self.queues.start(cell, now).started()
    }

    fn depth_bytes(&self) -> u64 {
        self.depth_bytes
    }
}

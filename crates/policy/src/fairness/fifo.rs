//! First in, first out: the baseline. Weights are ignored; with automatic depth nothing is held back at all, as if
//! there were no scheduler.

use super::heap::Heap;
use super::queues::Queues;
use super::{Depth, FlowId, Late, Next, Request, Scheduler, Settings, Time};

pub struct Fifo {
    queues: Queues,
    /// Queued cells by arrival.
    order: Heap<u64>,
    arrivals: u64,
    depth_bytes: u64,
}

impl Fifo {
    pub fn new(settings: &Settings) -> Self {
        let depth_bytes = match settings.depth {
            Depth::Auto => u64::MAX,
            Depth::Bytes(bytes) => bytes,
        };
        Fifo { queues: Queues::new(settings), order: Heap::new(), arrivals: 0, depth_bytes }
    }
}

impl Scheduler for Fifo {
    fn add(&mut self, parent: Option<FlowId>, weight: u32) -> FlowId {
        self.queues.add(parent, weight)
    }

    fn set_weight(&mut self, flow: FlowId, weight: u32) {
        self.queues.set_weight(flow, weight);
    }

    fn set_deadline(&mut self, flow: FlowId, within_ns: Option<u64>) {
        self.queues.set_deadline(flow, within_ns);
    }

    fn remove(&mut self, flow: FlowId) -> bool {
        self.queues.remove(flow)
    }

    fn enqueue(&mut self, flow: FlowId, request: Request, now: Time) {
        if self.queues.knows(flow) {
            let cell = self.queues.enqueue(flow, request, now);
            self.arrivals += 1;
            self.order.set(cell, self.arrivals);
        }
    }

    fn withdraw(&mut self, flow: FlowId, id: u64, _now: Time) -> bool {
        let Some(cell) = self.queues.find_queued(flow, id) else { return false };
        self.order.remove(cell);
        self.queues.withdraw(cell);
        true
    }

    fn next(&mut self, now: Time) -> Next {
        let Some((_, cell)) = self.order.first() else { return Next::Nothing };
        if !self.queues.admits(self.queues.cell(cell).cost_bytes, self.depth_bytes) {
            return Next::Nothing;
        }
        self.order.remove(cell);
        self.queues.start(cell, now).started()
    }

    fn complete(&mut self, flow: FlowId, id: u64, _served_bytes: u64, now: Time) {
        self.queues.complete(flow, id, now);
    }

    fn served_elsewhere(&mut self, _application: FlowId, _bytes: u64, _now: Time) {}

    fn lateness(&self) -> Vec<Late> {
        self.queues.lateness()
    }

    fn depth_bytes(&self) -> u64 {
        self.depth_bytes
    }

    fn in_flight_bytes(&self) -> u64 {
        self.queues.in_flight_bytes()
    }
}

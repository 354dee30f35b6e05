//! SFQ(D) (Jin, Chase and Kaur, SIGMETRICS 2004): start-time fair queueing with several requests at the server.
//!
//! D is counted in bytes. The unfairness between two backlogged flows is at most (D + 1) of their largest requests
//! by weight; and an application that cannot fill its slots leaves them to the others, which is why the ratio dies
//! when the heavy one has few requests outstanding. Work-conserving.

use super::depth::DepthControl;
use super::queues::Queues;
use super::sfq_tags::SfqTags;
use super::{Depth, FlowId, Late, Next, Request, Scheduler, Settings, Time};

pub struct SfqDepth {
    queues: Queues,
    tags: SfqTags,
    depth: DepthControl,
}

impl SfqDepth {
    pub fn new(settings: &Settings) -> Self {
        SfqDepth::with_depth(settings, settings.depth)
    }

    pub(super) fn with_depth(settings: &Settings, depth: Depth) -> Self {
        SfqDepth { queues: Queues::new(settings), tags: SfqTags::new(), depth: DepthControl::new(depth) }
    }

    fn note_idle(&mut self) {
        if self.tags.first().is_none() && self.queues.in_flight_count() == 0 {
            self.tags.idle();
        }
    }

    fn leave_if_empty(&mut self, application: u32) {
        if self.queues.queued(application) == 0 && self.queues.in_service(application) == 0 {
            self.queues.set_present(application, false);
        }
    }
}

impl Scheduler for SfqDepth {
    fn add(&mut self, parent: Option<FlowId>, weight: u32) -> FlowId {
        let flow = self.queues.add(parent, weight);
        self.tags.add(flow.0);
        flow
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
        if !self.queues.knows(flow) {
            return;
        }
        self.queues.enqueue(flow, request, now);
        let application = self.queues.application(flow.0);
        self.queues.set_present(application, true);
        if self.queues.queued(application) == 1 {
            self.tags.arrive(application);
        }
    }

    fn withdraw(&mut self, flow: FlowId, id: u64, _now: Time) -> bool {
        let Some(cell) = self.queues.find_queued(flow, id) else { return false };
        self.queues.withdraw(cell);
        let application = self.queues.application(flow.0);
        if self.queues.queued(application) == 0 {
            self.tags.leave(application);
            self.leave_if_empty(application);
        }
        self.note_idle();
        true
    }

    fn next(&mut self, now: Time) -> Next {
        let Some(application) = self.tags.first() else {
            if self.queues.in_flight_bytes() < self.depth.bytes() {
                self.depth.ran_dry();
            }
            return Next::Nothing;
        };
        let Some((cell, head)) = self.queues.head(application) else { return Next::Nothing };
        if !self.queues.admits(head.cost_bytes, self.depth.bytes()) {
            self.depth.ran_full();
            return Next::Nothing;
        }
        let virtual_length = head.cost_bytes as f64 * self.queues.virtual_per_byte(application);
        let started = self.queues.start(cell, now);
        self.depth.started(started.cost_bytes);
        self.tags.start(virtual_length, self.queues.queued(application) > 0);
        started.started()
    }

    fn complete(&mut self, flow: FlowId, id: u64, served_bytes: u64, now: Time) {
        let Some(cell) = self.queues.complete(flow, id, now) else { return };
        self.depth.completed(served_bytes.min(cell.cost_bytes), cell.since, self.queues.in_flight_bytes(), now);
        let application = self.queues.application(flow.0);
        let unserved = cell.cost_bytes.saturating_sub(served_bytes);
        if unserved > 0 {
            self.tags.shift(application, -(unserved as f64) * self.queues.virtual_per_byte(application));
        }
        self.leave_if_empty(application);
        self.note_idle();
    }

    fn served_elsewhere(&mut self, application: FlowId, bytes: u64, _now: Time) {
        if self.queues.knows(application) {
            self.tags.shift(application.0, bytes as f64 * self.queues.virtual_per_byte(application.0));
        }
    }

    fn lateness(&self) -> Vec<Late> {
        self.queues.lateness()
    }

    fn depth_bytes(&self) -> u64 {
        self.depth.bytes()
    }

    fn in_flight_bytes(&self) -> u64 {
        self.queues.in_flight_bytes()
    }
}

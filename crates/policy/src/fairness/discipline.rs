//! The common part of all orders: the tree, looking up flows and ids, withdrawals, completions. A discipline adds its
//! own part after each change of the queues; it may trust that flows and cells exist.

use super::queues::{QueuedRequest, Queues};
use super::{Next, NodeId, Request, Scheduler, Time};

/// In which order requests start, and when. Nodes are named by their number, as in `Queues`.
pub trait Discipline {
    fn queues(&self) -> &Queues;

    fn queues_mut(&mut self) -> &mut Queues;

    /// The number may have been another node's.
    fn added(&mut self, _node: u32) {}

    fn removed(&mut self, _node: u32) {}

    /// Notes that this cell was put into its queue.
    fn enqueued(&mut self, cell: u32, now: Time);

    /// Notes that this cell, of this application, was taken out of its queue without being started.
    fn withdrawn(&mut self, cell: u32, application: u32, now: Time);

    fn next(&mut self, now: Time) -> Next;

    /// Notes that this request was taken out of service.
    fn completed(&mut self, _done: &QueuedRequest, _served_bytes: u64, _now: Time) {}

    fn served_at_other_servers(&mut self, _application: u32, _bytes: u64, _now: Time) {}

    fn depth_bytes(&self) -> u64;
}

impl<D: Discipline> Scheduler for D {
    fn add(&mut self, parent: Option<NodeId>, weight: u32) -> NodeId {
        let flow = self.queues_mut().add(parent, weight);
        self.added(flow.0);
        flow
    }

    fn set_weight(&mut self, flow: NodeId, weight: u32) {
        self.queues_mut().set_weight(flow, weight);
    }

    fn set_deadline(&mut self, flow: NodeId, within_ns: Option<u64>) {
        self.queues_mut().set_deadline(flow, within_ns);
    }

    fn remove(&mut self, flow: NodeId) -> bool {
        let removed = self.queues_mut().remove(flow);
        if removed {
            self.removed(flow.0);
        }
        removed
    }

    fn enqueue(&mut self, flow: NodeId, request: Request, now: Time) {
        if self.queues().knows(flow) {
            let cell = self.queues_mut().enqueue(flow, request, now);
            self.enqueued(cell, now);
        }
    }

    fn withdraw(&mut self, flow: NodeId, id: u64, now: Time) -> bool {
        let Some(cell) = self.queues().find_queued(flow, id) else { return false };
        self.queues_mut().withdraw(cell);
        let application = self.queues().application(flow.0);
        self.withdrawn(cell, application, now);
        true
    }

    fn next(&mut self, now: Time) -> Next {
        Discipline::next(self, now)
    }

    fn complete(&mut self, flow: NodeId, id: u64, served_bytes: u64, now: Time) -> u64 {
        let Some(done) = self.queues_mut().complete(flow, id) else { return 0 };
        self.completed(&done, served_bytes, now);
        now.since(done.deadline)
    }

    fn served_at_other_servers(&mut self, application: NodeId, bytes: u64, now: Time) {
        if self.queues().knows(application) {
            Discipline::served_at_other_servers(self, application.0, bytes, now);
        }
    }

    fn depth_bytes(&self) -> u64 {
        Discipline::depth_bytes(self)
    }

    fn in_flight_bytes(&self) -> u64 {
        self.queues().in_flight_bytes()
    }
}

//! SFQ(D) (Jin, Chase and Kaur, SIGMETRICS 2004): start-time fair queueing with several requests at the server.
//!
//! D is counted in bytes. The unfairness between two backlogged flows is at most (D + 1) of their largest requests
//! by weight; and an application that cannot fill its slots leaves them to the others, which is why the ratio dies
//! when the heavy one has few requests outstanding. Work-conserving.

use super::depth::DepthControl;
use super::discipline::Discipline;
use super::queues::{QueuedRequest, Queues};
use super::sfq_tags::SfqTags;
use super::{Completion, Depth, Next, Settings, Time};

pub struct SfqDepth {
    queues: Queues,
    tags: SfqTags,
    depth: DepthControl,
}

impl SfqDepth {
    pub fn new(settings: &Settings) -> Self {
        SfqDepth::with_depth(settings, settings.depth)
    }

    /// Start-time fair queueing as published (Goyal, Vin and Cheng, SIGCOMM 1996): one request at the server at a time.
    /// The tightest shares of all, and the slowest wherever the server gains from having several requests.
    pub fn one_at_a_time(settings: &Settings) -> Self {
        SfqDepth::with_depth(settings, Depth::Bytes(1))
    }

    fn with_depth(settings: &Settings, depth: Depth) -> Self {
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

impl Discipline for SfqDepth {
    fn queues(&self) -> &Queues {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    fn added(&mut self, node: u32) {
        self.tags.add(node);
    }

    fn enqueued(&mut self, cell: u32, _now: Time) {
        let application = self.queues.application(self.queues.cell(cell).stream);
        self.queues.set_present(application, true);
        if self.queues.queued(application) == 1 {
            self.tags.arrive(application);
        }
    }

    fn withdrawn(&mut self, _cell: u32, application: u32, _now: Time) {
        if self.queues.queued(application) == 0 {
            self.tags.leave(application);
            self.leave_if_empty(application);
        }
        self.note_idle();
    }

    fn next(&mut self, now: Time) -> Next {
        let Some(application) = self.tags.first() else {
            if self.queues.outstanding_bytes(Completion::Served) < self.depth.bytes() {
                self.depth.ran_dry();
            }
            return Next::Nothing;
        };
        let Some((cell, head)) = self.queues.head(application) else { return Next::Nothing };
        if !self.queues.admits(&head, self.depth.limit_bytes(head.completion)) {
            self.depth.ran_full(head.completion);
            return Next::Nothing;
        }
        let virtual_length = head.cost_bytes as f64 * self.queues.virtual_per_byte(application);
        let started = self.queues.start(cell, now);
        self.depth.started(&started, now);
        self.tags.start(virtual_length, self.queues.queued(application) > 0);
        started.started()
    }

    fn completed(&mut self, done: &QueuedRequest, served_bytes: u64, now: Time) {
        self.depth.completed(done, served_bytes, &self.queues, now);
        let application = self.queues.application(done.stream);
        let unserved = done.cost_bytes.saturating_sub(served_bytes);
        if unserved > 0 {
            self.tags.shift(application, -(unserved as f64) * self.queues.virtual_per_byte(application));
        }
        self.leave_if_empty(application);
        self.note_idle();
    }

    fn served_at_other_servers(&mut self, application: u32, bytes: u64, _now: Time) {
        self.tags.shift(application, bytes as f64 * self.queues.virtual_per_byte(application));
    }

    fn depth_bytes(&self) -> u64 {
        self.depth.bytes()
    }
}

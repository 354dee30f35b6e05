//! Start-time fair queueing as published (Goyal, Vin and Cheng, SIGCOMM 1996): one request at the server at a time.
//!
//! The tightest shares of all, and the slowest wherever the server gains from having several requests: SFQ(D) with
//! a depth that only one request fits.

use super::sfq_depth::SfqDepth;
use super::{Depth, FlowId, Late, Next, Request, Scheduler, Settings, Time};

pub struct Sfq(SfqDepth);

impl Sfq {
    pub fn new(settings: &Settings) -> Self {
        Sfq(SfqDepth::with_depth(settings, Depth::Bytes(1)))
    }
}

impl Scheduler for Sfq {
    fn add(&mut self, parent: Option<FlowId>, weight: u32) -> FlowId {
        self.0.add(parent, weight)
    }

    fn set_weight(&mut self, flow: FlowId, weight: u32) {
        self.0.set_weight(flow, weight);
    }

    fn set_deadline(&mut self, flow: FlowId, within_ns: Option<u64>) {
        self.0.set_deadline(flow, within_ns);
    }

    fn remove(&mut self, flow: FlowId) -> bool {
        self.0.remove(flow)
    }

    fn enqueue(&mut self, flow: FlowId, request: Request, now: Time) {
        self.0.enqueue(flow, request, now);
    }

    fn withdraw(&mut self, flow: FlowId, id: u64, now: Time) -> bool {
        self.0.withdraw(flow, id, now)
    }

    fn next(&mut self, now: Time) -> Next {
        self.0.next(now)
    }

    fn complete(&mut self, flow: FlowId, id: u64, served_bytes: u64, now: Time) {
        self.0.complete(flow, id, served_bytes, now);
    }

    fn served_elsewhere(&mut self, application: FlowId, bytes: u64, now: Time) {
        self.0.served_elsewhere(application, bytes, now);
    }

    fn lateness(&self) -> Vec<Late> {
        self.0.lateness()
    }

    fn depth_bytes(&self) -> u64 {
        self.0.depth_bytes()
    }

    fn in_flight_bytes(&self) -> u64 {
        self.0.in_flight_bytes()
    }
}

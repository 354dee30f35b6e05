//! No allocation once the largest number of flows and requests has been seen.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

use random::Random;
use thalweg_policy::fairness::{Completion, Kind, Next, NodeId, Request, Scheduler, Settings, Time, scheduler};

use crate::simulator::{KIB, MS};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOWS: u64 = 10_000;

/// Closed loops with one request outstanding each; some wait a while, some are served elsewhere.
struct Loops {
    gate: Box<dyn Scheduler>,
    flows: Vec<NodeId>,
    in_service: VecDeque<(NodeId, u64)>,
    idle: VecDeque<NodeId>,
    random: Random,
    now: u64,
    ticket: u64,
}

impl Loops {
    fn new(kind: Kind) -> Loops {
        let mut gate = scheduler(&Settings { kind, ..Settings::default() });
        let flows: Vec<NodeId> = (0..FLOWS).map(|flow| gate.add(None, 1 + flow as u32 % 16)).collect();
        let idle = flows.iter().copied().collect();
        let in_service = VecDeque::with_capacity(FLOWS as usize);
        Loops { gate, flows, in_service, idle, random: Random::new(3), now: 0, ticket: 0 }
    }

    fn turn(&mut self) {
        self.now += 100_000;
        if let Some((flow, id)) = self.in_service.pop_front() {
            self.gate.complete(flow, id, 4 * KIB, Time(self.now));
            self.idle.push_back(flow);
        }
        while self.idle.len() > 100 {
            let flow = self.idle.pop_front().expect("some are idle");
            self.ticket += 1;
            let deadline = Some(Time(self.now + self.random.below(50 * MS)));
            self.gate.enqueue(
                flow,
                Request { id: self.ticket, cost_bytes: 4 * KIB, deadline, completion: Completion::Served },
                Time(self.now),
            );
        }
        let remote_service = self.flows[self.random.below(FLOWS) as usize];
        self.gate.served_at_other_servers(remote_service, 4 * KIB, Time(self.now));
        while let Next::Start { flow, id } = self.gate.next(Time(self.now)) {
            self.in_service.push_back((flow, id));
        }
    }
}

#[test]
fn ten_thousand_flows_are_scheduled_without_allocation() {
    for kind in [Kind::Fifo, Kind::Sfq, Kind::SfqD, Kind::Deadline, Kind::Anticipating] {
        let mut loops = Loops::new(kind);
        (0..50_000).for_each(|_| loops.turn());
        let before = ALLOCATIONS.with(Cell::get);
        (0..50_000).for_each(|_| loops.turn());
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{kind:?}");
    }
}

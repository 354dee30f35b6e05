//! The cost of a scheduler: nanoseconds and allocations for enqueue + next + complete, with many flows.
//!
//! `cargo run --release -p thalweg-policy --example fairness_cost [FLOWS]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use thalweg_policy::fairness::{Completion, Depth, Kind, Next, NodeId, Request, Scheduler, Settings, Time, scheduler};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SLICE: u64 = 64 << 10;

/// Closed loops: each flow asks again at once on completion, so that all flows stay backlogged.
struct Loop {
    gate: Box<dyn Scheduler>,
    in_service: std::collections::VecDeque<(NodeId, u64)>,
    now: u64,
    tickets: u64,
}

impl Loop {
    fn new(kind: Kind, flows: u32) -> Loop {
        let mut gate = scheduler(&Settings { kind, depth: Depth::Bytes(8 * SLICE), ..Settings::default() });
        let flows: Vec<NodeId> = (0..flows).map(|flow| gate.add(None, 1 + flow % 16)).collect();
        let mut all = Loop { gate, in_service: Default::default(), now: 0, tickets: 0 };
        for flow in flows {
            all.enqueue(flow);
        }
        all.start();
        all
    }

    fn enqueue(&mut self, flow: NodeId) {
        self.tickets += 1;
        let deadline = Some(Time(self.now + 20_000_000 + self.tickets % 1000));
        self.gate.enqueue(
            flow,
            Request { id: self.tickets, cost_bytes: SLICE, deadline, completion: Completion::Served },
            Time(self.now),
        );
    }

    fn start(&mut self) {
        while let Next::Start { flow, id } = self.gate.next(Time(self.now)) {
            self.in_service.push_back((flow, id));
        }
    }

    fn turn(&mut self) {
        self.now += 600_000;
        let (flow, id) = self.in_service.pop_front().expect("backlogged");
        self.gate.complete(flow, id, SLICE, Time(self.now));
        self.enqueue(flow);
        self.start();
    }
}

fn main() {
    let flows = std::env::args().nth(1).and_then(|flows| flows.parse().ok()).unwrap_or(10_000);
    for kind in [Kind::Fifo, Kind::Sfq, Kind::SfqD, Kind::Deadline, Kind::Anticipating] {
        let mut all = Loop::new(kind, flows);
        (0..200_000).for_each(|_| all.turn());
        let turns = 1_000_000;
        let (allocations, began) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        (0..turns).for_each(|_| all.turn());
        let ns = began.elapsed().as_nanos() as f64 / turns as f64;
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        println!("{kind:?}: {ns:.0} ns for enqueue + next + complete, {flows} flows, {allocations} allocations");
    }
}

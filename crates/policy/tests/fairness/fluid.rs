//! SFQ(D) and ours against fluid sharing (GPS), under random arrivals.

use std::collections::VecDeque;

use random::Random;
use thalweg_policy::fairness::{Completion, Kind, Next, NodeId, Request, Scheduler, Time, scheduler};

use crate::scenes::fixed;
use crate::simulator::KIB;

/// Bytes per nanosecond.
const RATE: f64 = 0.1;
const LARGEST: u64 = 64 * KIB;
const LEAST: u64 = 16 * KIB;
const DEPTH: u64 = 4 * LARGEST;

struct Started {
    flow: usize,
    id: u64,
    bytes: u64,
    done: u64,
}

/// One server that works in order, random on and off sources, and each flow's service.
struct Bench {
    gate: Box<dyn Scheduler>,
    flows: Vec<NodeId>,
    weights: Vec<f64>,
    /// By request id.
    bytes: Vec<u64>,
    server: VecDeque<Started>,
    busy_until: u64,
    now: u64,
    queued: Vec<u64>,
    served: Vec<f64>,
    random: Random,
}

impl Bench {
    fn new(kind: Kind, seed: u64) -> Bench {
        let mut random = Random::new(seed);
        let mut gate = scheduler(&fixed(kind, DEPTH));
        let weights: Vec<u32> = (0..2 + random.below(5)).map(|_| 1 + random.below(16) as u32).collect();
        let flows: Vec<NodeId> = weights.iter().map(|weight| gate.add(None, *weight)).collect();
        Bench {
            gate,
            queued: vec![0; flows.len()],
            served: vec![0.0; flows.len()],
            flows,
            weights: weights.into_iter().map(f64::from).collect(),
            bytes: Vec::new(),
            server: VecDeque::new(),
            busy_until: 0,
            now: 0,
            random,
        }
    }

    fn arrive(&mut self, flow: usize) {
        let (id, cost_bytes) = (self.bytes.len() as u64, LEAST + self.random.below(LARGEST - LEAST + 1));
        self.bytes.push(cost_bytes);
        self.queued[flow] += 1;
        self.gate.enqueue(
            self.flows[flow],
            Request { id, cost_bytes, deadline: None, completion: Completion::Served },
            Time(self.now),
        );
    }

    fn start(&mut self) {
        while let Next::Start { flow, id } = self.gate.next(Time(self.now)) {
            let flow = self.flows.iter().position(|known| *known == flow).expect("a known flow");
            let bytes = self.bytes[id as usize];
            self.queued[flow] -= 1;
            self.busy_until = self.busy_until.max(self.now) + (bytes as f64 / RATE) as u64;
            self.server.push_back(Started { flow, id, bytes, done: self.busy_until });
        }
    }

    /// Lets the server finish what it does first; false when it has nothing.
    fn finish_one(&mut self) -> bool {
        let Some(Started { flow, id, bytes, done }) = self.server.pop_front() else { return false };
        self.now = self.now.max(done);
        self.served[flow] += bytes as f64;
        self.gate.complete(self.flows[flow], id, bytes, Time(self.now));
        true
    }

    /// Some arrivals, mostly in bursts of one flow.
    fn arrivals(&mut self) {
        if self.random.below(3) == 0 {
            let flow = self.random.below(self.flows.len() as u64) as usize;
            for _ in 0..self.random.below(24) {
                self.arrive(flow);
            }
        }
        if self.server.is_empty() {
            self.now += self.random.below(3_000_000);
        }
    }
}

/// While f and g are both backlogged, their service by weight differs by at most (D + 1)(c_f / w_f + c_g / w_g).
#[test]
fn two_backlogged_flows_differ_by_no_more_than_the_bound_of_jin() {
    for seed in 0..60 {
        let mut bench = Bench::new(Kind::SfqD, seed);
        let depth = (DEPTH / LEAST) as f64;
        let count = bench.flows.len();
        let mut since: Vec<Vec<Option<(f64, f64)>>> = vec![vec![None; count]; count];
        for _ in 0..4_000 {
            bench.arrivals();
            bench.start();
            bench.finish_one();
            bench.start();
            for (f, row) in since.iter_mut().enumerate() {
                for (g, range) in row.iter_mut().enumerate().take(f) {
                    if bench.queued[f] == 0 || bench.queued[g] == 0 {
                        *range = None;
                        continue;
                    }
                    let gap = bench.served[f] / bench.weights[f] - bench.served[g] / bench.weights[g];
                    let (low, high) = range.map_or((gap, gap), |(low, high)| (gap.min(low), gap.max(high)));
                    *range = Some((low, high));
                    let step = LARGEST as f64 / bench.weights[f] + LARGEST as f64 / bench.weights[g];
                    assert!(high - low <= (depth + 1.0) * step, "seed {seed}: flows {f} and {g} by {}", high - low);
                }
            }
        }
    }
}

/// A backlogged flow gets at least what fluid sharing with all others would give, less a constant: none starves.
#[test]
fn a_backlogged_flow_gets_its_fluid_share_less_a_constant() {
    for kind in [Kind::Sfq, Kind::SfqD, Kind::Anticipating] {
        for seed in 0..60 {
            let mut bench = Bench::new(kind, seed);
            let count = bench.flows.len();
            let all: f64 = bench.weights.iter().sum();
            // The bytes that may be at the server before, one request of each, and the lead that ours lets others have.
            let lead = 12e6 * RATE;
            let slack = DEPTH as f64 + (count as f64 + 1.0) * LARGEST as f64 + lead;
            let mut since: Vec<Option<(u64, f64)>> = vec![None; count];
            for _ in 0..4_000 {
                bench.arrivals();
                bench.start();
                bench.finish_one();
                bench.start();
                for (f, since) in since.iter_mut().enumerate() {
                    if bench.queued[f] == 0 {
                        *since = None;
                        continue;
                    }
                    let (from, served) = *since.get_or_insert((bench.now, bench.served[f]));
                    let fluid = (bench.now - from) as f64 * RATE * bench.weights[f] / all;
                    let got = bench.served[f] - served;
                    assert!(got >= fluid - slack, "{kind:?}, seed {seed}: flow {f} got {got} of {fluid}");
                }
            }
        }
    }
}

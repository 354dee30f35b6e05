//! EDF: a load that passes the demand-bound test is never late; late requests are reported.

use std::collections::VecDeque;

use random::Random;
use thalweg_policy::fairness::deadline::{Demand, fits};
use thalweg_policy::fairness::{Completion, Kind, Next, NodeId, Request, Time, scheduler};

use crate::scenes::fixed;
use crate::simulator::KIB;

const RATE: f64 = 1e8;
const DEPTH: u64 = 128 * KIB;

/// Sporadic flows beside a bulk flow without deadlines that always has something queued. Answers which demand was late by
/// how many nanoseconds, each time.
fn lateness(demands: &[Demand], random: &mut Random) -> Vec<(usize, u64)> {
    let mut gate = scheduler(&fixed(Kind::Deadline, DEPTH));
    let bulk = gate.add(None, 1);
    let flows: Vec<NodeId> = demands.iter().map(|_| gate.add(None, 1)).collect();
    for (flow, demand) in flows.iter().zip(demands) {
        gate.set_deadline(*flow, Some(demand.within_ns));
    }
    let mut due: Vec<u64> = demands.iter().map(|_| 0).collect();
    let mut server: VecDeque<(NodeId, u64, u64)> = VecDeque::new();
    let mut sizes = vec![64 * KIB; 4];
    let (mut now, mut busy_until) = (0, 0);
    let mut late = Vec::new();
    for id in 0..4 {
        gate.enqueue(
            bulk,
            Request { id, cost_bytes: 64 * KIB, deadline: None, completion: Completion::Served },
            Time(now),
        );
    }
    while now < 2_000_000_000 {
        for (index, demand) in demands.iter().enumerate() {
            if due[index] <= now {
                let request = Request {
                    id: sizes.len() as u64,
                    cost_bytes: demand.bytes,
                    deadline: None,
                    completion: Completion::Served,
                };
                sizes.push(demand.bytes);
                gate.enqueue(flows[index], request, Time(now));
                due[index] = now + demand.period_ns + random.below(2) * random.below(demand.period_ns);
            }
        }
        while let Next::Start { flow, id } = gate.next(Time(now)) {
            busy_until = now.max(busy_until) + (sizes[id as usize] as f64 / RATE * 1e9) as u64;
            server.push_back((flow, id, busy_until));
        }
        let arrival = due.iter().copied().min().unwrap_or(u64::MAX);
        let done = server.front().expect("bulk is always there").2;
        now = arrival.min(done);
        if done <= now {
            let (flow, id, _) = server.pop_front().expect("just seen");
            let late_ns = gate.complete(flow, id, sizes[id as usize], Time(now));
            if late_ns > 0 {
                late.push((flows.iter().position(|known| *known == flow).expect("bulk is never late"), late_ns));
            }
            if flow == bulk {
                gate.enqueue(
                    bulk,
                    Request { id, cost_bytes: 64 * KIB, deadline: None, completion: Completion::Served },
                    Time(now),
                );
            }
        }
    }
    late
}

fn draw(random: &mut Random) -> Vec<Demand> {
    let one = |random: &mut Random| Demand {
        bytes: 4 * KIB * (1 + random.below(15)),
        period_ns: 1_000_000 + random.below(20_000_000),
        within_ns: 2_000_000 + random.below(10_000_000),
    };
    (0..1 + random.below(8)).map(|_| one(random)).collect()
}

#[test]
fn a_load_that_passes_the_demand_bound_test_is_never_late() {
    let (mut passed, mut tight) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let demands = draw(&mut random);
        // A millionth less than the server has, for times rounded to nanoseconds.
        if !fits(&demands, RATE * (1.0 - 1e-6), DEPTH) {
            continue;
        }
        passed += 1;
        tight += usize::from(!fits(&demands, RATE * 0.8, DEPTH));
        let late = lateness(&demands, &mut random);
        assert!(late.is_empty(), "seed {seed}: {late:?} for {demands:?}");
    }
    assert!(passed > 50 && tight > 10, "{passed} loads passed, {tight} of them tightly: the test says little");
}

#[test]
fn what_is_late_is_named() {
    let tight = Demand { bytes: 64 * KIB, period_ns: 10_000_000, within_ns: 1_000_000 };
    let easy = Demand { bytes: 64 * KIB, period_ns: 10_000_000, within_ns: 9_000_000 };
    assert!(!fits(&[tight, easy], RATE, DEPTH) && fits(&[easy], RATE, DEPTH));
    let late = lateness(&[tight, easy], &mut Random::new(1));
    assert!(late.len() > 50 && late.iter().all(|(demand, _)| *demand == 0), "{late:?}");
    assert!(late.iter().any(|(_, late_ns)| *late_ns > 100_000), "{late:?}");
}

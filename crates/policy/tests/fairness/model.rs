//! Every scheduler under random calls, against a plain list: nothing is lost, nothing is started twice.

use std::collections::BTreeMap;

use random::Random;
use thalweg_policy::fairness::{Completion, Depth, Kind, Next, NodeId, Request, Settings, Time, scheduler};

use crate::simulator::KIB;

const KINDS: [Kind; 5] = [Kind::Fifo, Kind::Sfq, Kind::SfqD, Kind::Deadline, Kind::Anticipating];

#[test]
fn nothing_is_lost_or_started_twice() {
    for kind in KINDS {
        for seed in 0..40 {
            let depth = if seed % 2 == 0 { Depth::Auto } else { Depth::Bytes(300 * KIB) };
            history(&Settings { kind, depth, ..Settings::default() }, seed);
        }
    }
}

fn history(settings: &Settings, seed: u64) {
    let mut random = Random::new(seed);
    let mut gate = scheduler(settings);
    let mut flows = Vec::new();
    for group in 0..3 {
        let group = (group > 0).then(|| gate.add(None, 1 + random.below(9) as u32));
        for _ in 0..2 {
            let application = gate.add(group, 1 + random.below(9) as u32);
            flows.extend((0..3).map(|_| (gate.add(Some(application), 1), application)));
        }
    }
    let (mut queued, mut started) = (BTreeMap::new(), BTreeMap::new());
    let (mut now, mut draining) = (0, false);
    let mut ticket = 0;
    for step in 0.. {
        let (flow, application) = flows[random.below(flows.len() as u64) as usize];
        now += random.below(400_000);
        match random.below(8) {
            0..3 if !draining => {
                ticket += 1;
                let cost_bytes = random.below(100 * KIB);
                let deadline = (random.below(2) == 0).then(|| Time(now + random.below(50_000_000)));
                gate.enqueue(
                    flow,
                    Request { id: ticket, cost_bytes, deadline, completion: Completion::Served },
                    Time(now),
                );
                queued.insert(ticket, (flow, cost_bytes.max(1)));
            }
            3 => {
                let id = 1 + random.below(ticket + 1);
                let known = queued.get(&id).is_some_and(|(at, _)| *at == flow);
                assert_eq!(gate.withdraw(flow, id, Time(now)), known, "seed {seed}, step {step}");
                if known {
                    queued.remove(&id);
                }
            }
            4..7 => {
                if let Some((&id, &(flow, cost))) = started.iter().nth(random.below(1 + started.len() as u64) as usize)
                {
                    gate.complete(flow, id, random.below(cost + 2), Time(now));
                    started.remove(&id);
                }
            }
            _ => {
                gate.served_at_other_servers(application, random.below(500 * KIB), Time(now));
                gate.set_weight(application, random.below(20) as u32);
                gate.complete(flow, u64::MAX, 1, Time(now));
                gate.enqueue(
                    NodeId(12_345),
                    Request { id: 1, cost_bytes: 1, deadline: None, completion: Completion::Served },
                    Time(now),
                );
                assert!(!gate.remove(application), "it has streams");
            }
        }
        let mut waits = false;
        loop {
            match gate.next(Time(now)) {
                Next::Start { flow, id } => {
                    let (owner, cost) = queued.remove(&id).expect("queued and not started");
                    assert_eq!(owner, flow, "seed {seed}, step {step}");
                    started.insert(id, (flow, cost));
                }
                Next::Wait { until } => {
                    assert!(until > Time(now) && !queued.is_empty(), "seed {seed}, step {step}");
                    waits = true;
                    break;
                }
                Next::Nothing => break,
            }
        }
        assert!(waits || !started.is_empty() || queued.is_empty(), "seed {seed}, step {step}: stuck");
        assert_eq!(gate.in_flight_bytes(), started.values().map(|(_, cost)| cost).sum::<u64>());
        draining |= step > 3_000;
        if draining && queued.is_empty() && started.is_empty() {
            break;
        }
        assert!(step < 60_000, "seed {seed}: {} never served", queued.len());
    }
    assert!(flows.iter().all(|(flow, _)| gate.remove(*flow)));
}

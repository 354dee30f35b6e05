//! Whole histories of nodes, clients and collector in one thread, from one seed, on engines in memory.
//!
//! The oracle applies a piece when a seat first takes it. Nodes die and lose what was not durable, power fails and
//! tears files, acknowledgements get lost, collectors run at any moment: whatever happens, the session reads as the
//! oracle says, and a commit makes a version that equals it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use catalog::Catalog;
use format::{Change, SessionId};
use repository::{Arrival, Repository, Seat, Source, collect, publish, verify};

use crate::fixture::{CLAIMANT, Random, SEGMENT_BYTES, STRIPE_BYTES, World, content, path, seat, with_seeds};

const NODES: usize = 2;
const CLIENTS: u64 = 3;
const SPAN_BYTES: u64 = 12 * SEGMENT_BYTES as u64;

/// A piece a client keeps until it is durable.
#[derive(Clone)]
struct Kept {
    sequence: u64,
    stamp: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// One path's session, with its seats and what each client still keeps for each.
struct Open {
    session: SessionId,
    seats: Vec<Seat>,
    kept: HashMap<(u64, usize), Vec<Kept>>,
    sequences: HashMap<(u64, usize), u64>,
    epoch: u64,
    plain: Vec<u8>,
}

struct History {
    random: Random,
    world: World,
    nodes: Vec<Arc<Repository>>,
    open: BTreeMap<&'static str, Open>,
    committed: BTreeMap<&'static str, Vec<u8>>,
}

impl History {
    fn new(seed: u64) -> Self {
        let world = World::new();
        let nodes = (0..NODES).map(|_| world.process()).collect();
        History { random: Random(seed), world, nodes, open: BTreeMap::new(), committed: BTreeMap::new() }
    }

    fn step(&mut self) {
        let name = ["a", "b"][self.random.below(2) as usize];
        match self.random.below(20) {
            0..8 => self.write(name),
            8 => self.read(name),
            9 => drop(self.seat_of(name).map(|seat| seat.reduce(CLAIMANT).unwrap())),
            10..12 => self.settle(name),
            12 => self.sync(name),
            13 => self.commit(name),
            14 => self.close(name),
            15 => self.kill_node(),
            16 => self.fail_power(),
            17 => self.break_connection(name),
            18 => self.forget_old(name),
            _ => self.collect(),
        }
    }

    fn ensure_open(&mut self, name: &'static str) {
        if self.open.contains_key(name) {
            return;
        }
        let session = self.world.join(name, NODES).id;
        let seats = (0..NODES).map(|i| seat(&self.nodes[i], session, i as u32, i as u64)).collect();
        let plain = self.committed.get(name).cloned().unwrap_or_default();
        let epoch = 0;
        let opened = Open { session, seats, kept: HashMap::new(), sequences: HashMap::new(), epoch, plain };
        self.open.insert(name, opened);
    }

    fn seat_of(&mut self, name: &'static str) -> Option<&Seat> {
        let i = self.random.below(NODES as u64) as usize;
        self.open.get(name).map(|open| &open.seats[i])
    }

    fn write(&mut self, name: &'static str) {
        self.ensure_open(name);
        let client = self.random.below(CLIENTS);
        let offset = self.random.below(SPAN_BYTES);
        let aligned = self.random.below(2) == 0;
        let offset = if aligned { offset / SEGMENT_BYTES as u64 * SEGMENT_BYTES as u64 } else { offset };
        let left = STRIPE_BYTES - offset % STRIPE_BYTES;
        let count = if aligned { SEGMENT_BYTES as u64 } else { self.random.below(3000) + 1 }.min(left);
        let bytes = self.random.bytes(count as usize);
        let lost_answer = self.random.below(6) == 0;
        let open = self.open.get_mut(name).unwrap();
        let seat = (offset / STRIPE_BYTES) as usize % NODES;
        let sequence = open.sequences.entry((client, seat)).or_default();
        *sequence += 1;
        let mut kept = Kept { sequence: *sequence, stamp: 0, offset, bytes };
        let stamp = open.send(client, seat, &kept);
        if lost_answer {
            // The client hears nothing, connects again and sends all it keeps: nothing may change.
            open.keep(client, seat, kept);
            open.send_again(client, seat);
        } else {
            kept.stamp = stamp;
            open.keep(client, seat, kept);
        }
    }

    fn read(&mut self, name: &'static str) {
        if let Some(open) = self.open.get(name) {
            open.check();
        }
    }

    fn settle(&mut self, name: &'static str) {
        let (fragments, lost) = (self.random.below(2) == 0, self.random.below(3) == 0);
        let i = self.random.below(NODES as u64) as usize;
        let Some(open) = self.open.get_mut(name) else { return };
        let durable = open.seats[i].settle(CLAIMANT, fragments, None).unwrap();
        for durable in durable.into_iter().filter(|_| !lost) {
            let is_kept = |kept: &Kept| kept.sequence > durable.sequence || durable.held.contains(&kept.sequence);
            open.kept.entry((durable.source.client, i)).or_default().retain(is_kept);
        }
    }

    fn sync(&mut self, name: &'static str) {
        let Some(open) = self.open.get_mut(name) else { return };
        open.epoch += 1;
        for seat in &open.seats {
            seat.settle(CLAIMANT, true, Some(open.epoch)).unwrap();
        }
        open.kept.clear();
    }

    fn commit(&mut self, name: &'static str) {
        self.sync(name);
        let node = self.random.below(NODES as u64) as usize;
        let Some(open) = self.open.get(name) else { return };
        publish(&self.nodes[node], CLAIMANT, open.session, self.world.now_ns()).unwrap();
        self.committed.insert(name, open.plain.clone());
        assert_eq!(content(&self.nodes[1 - node], name), open.plain);
    }

    fn close(&mut self, name: &'static str) {
        self.commit(name);
        if let Some(open) = self.open.remove(name) {
            self.world.catalog.leave(open.session).unwrap();
        }
    }

    /// kill -9: what was in the node's memory is gone, what it wrote to files is not.
    fn kill_node(&mut self) {
        let i = self.random.below(NODES as u64) as usize;
        self.nodes[i] = self.world.process();
        self.retake(&[i]);
    }

    fn fail_power(&mut self) {
        let seed = self.random.next();
        let open = self.open.keys().copied().collect::<Vec<_>>();
        let files = Arc::new(self.world.files.crash(seed));
        self.world.files = files;
        self.nodes = (0..NODES).map(|_| self.world.process()).collect();
        let _ = open;
        self.retake(&(0..NODES).collect::<Vec<_>>());
    }

    fn retake(&mut self, dead: &[usize]) {
        let holder = self.random.next() >> 1;
        for open in self.open.values_mut() {
            for &i in dead {
                open.seats[i] = seat(&self.nodes[i], open.session, i as u32, holder);
                // Clients notice in any order.
                let first = self.random.below(CLIENTS);
                (0..CLIENTS).for_each(|client| open.send_again((client + first) % CLIENTS, i));
            }
            open.check();
        }
    }

    fn break_connection(&mut self, name: &'static str) {
        let (client, i) = (self.random.below(CLIENTS), self.random.below(NODES as u64) as usize);
        if let Some(open) = self.open.get_mut(name) {
            open.send_again(client, i);
            open.check();
        }
    }

    fn forget_old(&mut self, name: &'static str) {
        let versions = self.nodes[0].catalog().versions(&path(name)).unwrap_or_default();
        let old: Vec<u64> = versions.iter().rev().skip(1).map(|version| version.number).collect();
        if !old.is_empty() {
            let change = Change::Forget { path: path(name), versions: old };
            self.nodes[0].commit(CLAIMANT, vec![change], Default::default(), Vec::new()).unwrap();
        }
    }

    fn collect(&mut self) {
        // A node whose seats are all settled relies on nothing it was told before.
        for (i, node) in self.nodes.iter().enumerate() {
            if self.open.values().all(|open| !open.seats[i].has_unsettled()) {
                node.lease().refresh_now().unwrap();
            }
        }
        let collector = self.world.process();
        collect(&collector).unwrap();
        collector.close().unwrap();
        self.open.values().for_each(Open::check);
    }

    fn finish(mut self) {
        for name in ["a", "b"] {
            self.close(name);
        }
        let late = self.world.process();
        for (name, plain) in &self.committed {
            assert_eq!(&content(&late, name), plain);
        }
        assert_eq!(verify(&late, true, &mut |_| {}).unwrap().damages, []);
    }
}

impl Open {
    /// Delivers a piece; the oracle takes it when it comes for the first time.
    fn send(&mut self, client: u64, seat: usize, kept: &Kept) -> u64 {
        let source = Source { client, stream: 0 };
        let arrival = Arrival { source, sequence: kept.sequence, stamp: kept.stamp };
        let extent = (kept.offset, kept.bytes.len() as u64);
        let stamp = self.seats[seat].write(arrival, &[extent], kept.bytes.clone()).unwrap();
        let end = kept.offset as usize + kept.bytes.len();
        if kept.stamp == 0 {
            self.plain.resize(self.plain.len().max(end), 0);
            self.plain[kept.offset as usize..end].copy_from_slice(&kept.bytes);
        }
        stamp
    }

    fn keep(&mut self, client: u64, seat: usize, kept: Kept) {
        self.kept.entry((client, seat)).or_default().push(kept);
    }

    fn send_again(&mut self, client: u64, seat: usize) {
        let mut all = self.kept.remove(&(client, seat)).unwrap_or_default();
        // Whoever connects again is told how far its pieces are durable.
        if let Some(durable) = self.seats[seat].durable_up_to(Source { client, stream: 0 }).unwrap() {
            all.retain(|kept| kept.sequence > durable.sequence || durable.held.contains(&kept.sequence));
        }
        for kept in &mut all {
            let source = Source { client, stream: 0 };
            let arrival = Arrival { source, sequence: kept.sequence, stamp: kept.stamp };
            let extent = (kept.offset, kept.bytes.len() as u64);
            kept.stamp = self.seats[seat].write(arrival, &[extent], kept.bytes.clone()).unwrap();
        }
        self.kept.insert((client, seat), all);
    }

    /// What the seats say equals the oracle.
    fn check(&self) {
        let size = self.seats.iter().map(|seat| seat.size().unwrap()).max().unwrap();
        assert_eq!(size, self.plain.len() as u64);
        for start in (0..size).step_by(STRIPE_BYTES as usize) {
            let count = STRIPE_BYTES.min(size - start) as usize;
            let seat = (start / STRIPE_BYTES) as usize % NODES;
            let mut bytes = vec![0xee; count];
            self.seats[seat].read(start, &mut bytes).unwrap();
            let bad = (0..count).find(|i| bytes[*i] != self.plain[start as usize + i]);
            assert!(bad.is_none(), "stripe at {start}, byte {:?}", bad.map(|i| i + start as usize));
        }
    }
}

#[test]
fn histories_of_nodes_clients_and_collector_keep_every_promise() {
    with_seeds(150, |seed| {
        let mut history = History::new(seed);
        for _ in 0..120 {
            history.step();
        }
        history.finish();
    });
}

//! Nodes as they are asked for, come, and go: the provisioner's decisions carried out.

use policy::cache::{ItemId, WorkerId};
use policy::placement::{Rule, Scheduler};
use policy::provisioning::{Demand, Growth, Load, Provisioner, Settings, Spare};

use crate::Random;
use crate::agenda::{Agenda, Event};
use crate::network::{Network, Transfer};
use crate::testbed::{Provisioning, Testbed};

/// The idle time after which the source's rule releases a node.
const IDLE_S: f64 = 60.0;
/// How often ours looks for nodes to release.
const SHRINK_EVERY_TICKS: u64 = 15;
/// As many fill a node's interface.
const HANDED_OVER_AT_ONCE: u32 = 3;

struct Node {
    ready_s: f64,
    idle_since_s: f64,
    left_s: Option<f64>,
    is_closed: bool,
    /// Items it has still to hand over before it leaves.
    legacy: Vec<ItemId>,
}

pub struct Nodes {
    provisioner: Option<Provisioner>,
    testbed: Testbed,
    random: Random,
    nodes: Vec<Node>,
    requested: u32,
    ticks: u64,
    is_ours: bool,
}

impl Nodes {
    pub fn new(testbed: &Testbed, provisioning: Provisioning, growth: Growth, rule: Rule, seed: u64) -> Self {
        let is_ours = rule == Rule::Thalweg;
        let (min_s, max_s) = testbed.allocation_s;
        let settings = Settings {
            growth,
            demand: if is_ours { Demand::Rate } else { Demand::Queue },
            slots_per_node: testbed.cpus_per_node,
            min_nodes: u32::from(is_ours),
            max_nodes: testbed.nodes,
            pause_s: 1.0,
            idle_s: IDLE_S,
            lead_s: (min_s + max_s) / 2.0,
            cache_bytes: testbed.cache_bytes,
        };
        let provisioner = (provisioning == Provisioning::Dynamic).then(|| Provisioner::new(settings));
        let random = Random::new(seed ^ 0x6e6f_6465);
        Nodes { provisioner, testbed: *testbed, random, nodes: Vec::new(), requested: 0, ticks: 0, is_ours }
    }

    /// Starts all nodes at once where provisioning is static.
    pub fn begin(&mut self, scheduler: &mut Scheduler, network: &mut Network) {
        if self.provisioner.is_none() {
            (0..self.testbed.nodes).for_each(|_| self.come(0.0, scheduler, network));
        }
    }

    pub fn ready(&mut self, now_s: f64, scheduler: &mut Scheduler, network: &mut Network) {
        self.requested -= 1;
        self.come(now_s, scheduler, network);
    }

    fn come(&mut self, now_s: f64, scheduler: &mut Scheduler, network: &mut Network) {
        scheduler.join(self.testbed.cpus_per_node, self.testbed.cache_bytes);
        network.join();
        self.nodes.push(Node {
            ready_s: now_s,
            idle_since_s: now_s,
            left_s: None,
            is_closed: false,
            legacy: Vec::new(),
        });
    }

    /// Notes that a task ended on a node that runs none now.
    pub fn idle(&mut self, now_s: f64, worker: WorkerId) {
        self.nodes[worker.0 as usize].idle_since_s = now_s;
    }

    /// Nodes that take tasks.
    pub fn open(&self) -> u32 {
        self.nodes.iter().filter(|node| node.left_s.is_none() && !node.is_closed).count() as u32
    }

    /// Once a second.
    pub fn tick(
        &mut self,
        now_s: f64,
        scheduler: &mut Scheduler,
        network: &mut Network,
        agenda: &mut Agenda,
        submitted: u64,
        ended: u64,
    ) {
        let Some(mut provisioner) = self.provisioner.take() else { return };
        self.ticks += 1;
        let load = Load {
            waiting_tasks: scheduler.waiting_for_slots() as u64,
            cached_bytes: scheduler.index().distinct_bytes(),
            busy_slots: scheduler.busy_slots(),
            nodes: self.open(),
            requested_nodes: self.requested,
            submitted,
            ended,
        };
        for _ in 0..provisioner.grow(now_s, &load) {
            self.requested += 1;
            let (min_s, max_s) = self.testbed.allocation_s;
            agenda.add(now_s + self.random.between(min_s, max_s), Event::NodeReady);
        }
        if !self.is_ours || self.ticks.is_multiple_of(SHRINK_EVERY_TICKS) {
            for worker in provisioner.shrink(&load, || self.spares(now_s, scheduler)) {
                self.close(now_s, worker, scheduler, network, agenda);
            }
        }
        self.release_idle(now_s, scheduler);
        self.provisioner = Some(provisioner);
    }

    /// Closes the node: it takes no more tasks. With ours, items that only it has go to others first, which spares the
    /// store.
    fn close(
        &mut self,
        now_s: f64,
        worker: WorkerId,
        scheduler: &mut Scheduler,
        network: &mut Network,
        agenda: &mut Agenda,
    ) {
        scheduler.close(worker);
        self.nodes[worker.0 as usize].is_closed = true;
        if self.is_ours {
            self.nodes[worker.0 as usize].legacy = scheduler.last_copies(worker).collect();
            (0..HANDED_OVER_AT_ONCE).for_each(|_| self.handed_over(now_s, worker, scheduler, network, agenda));
        }
    }

    /// One item is handed over; the next one goes.
    pub fn handed_over(
        &mut self,
        now_s: f64,
        worker: WorkerId,
        scheduler: &mut Scheduler,
        network: &mut Network,
        agenda: &mut Agenda,
    ) {
        while let Some(item) = self.nodes[worker.0 as usize].legacy.pop() {
            if scheduler.index().is_here(worker, item)
                && let Some(heir) = scheduler.heir(item)
            {
                let bytes = scheduler.index().bytes(item) as f64;
                let fetch = scheduler.fetch(now_s, heir, item);
                network.fetch(now_s, agenda, Transfer { to: heir, item, bytes }, fetch, None);
                return;
            }
        }
    }

    fn spares(&self, now_s: f64, scheduler: &Scheduler) -> Vec<Spare<WorkerId>> {
        let open = self.nodes.iter().enumerate().filter(|(_, node)| node.left_s.is_none() && !node.is_closed);
        let spare = |(at, node): (usize, &Node)| {
            let worker = WorkerId(at as u32);
            let idle_s = if scheduler.is_at_rest(worker) { now_s - node.idle_since_s } else { 0.0 };
            let last_copy_bytes = if self.is_ours { scheduler.last_copy_bytes(worker) } else { 0 };
            Spare { node: worker, idle_s, last_copy_bytes }
        };
        open.map(spare).collect()
    }

    /// Releases closed nodes that run nothing and serve no peer any more.
    fn release_idle(&mut self, now_s: f64, scheduler: &mut Scheduler) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let worker = WorkerId(at as u32);
            if node.is_closed && node.left_s.is_none() && scheduler.is_at_rest(worker) {
                scheduler.leave(now_s, worker);
                node.left_s = Some(now_s);
            }
        }
    }

    /// From the time a node is there until it goes, or the end.
    pub fn cpu_hours(&self, end_s: f64) -> f64 {
        let held = |node: &Node| (node.left_s.unwrap_or(end_s).min(end_s) - node.ready_s).max(0.0);
        self.nodes.iter().map(held).sum::<f64>() * f64::from(self.testbed.cpus_per_node) / 3600.0
    }
}

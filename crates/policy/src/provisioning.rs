//! How many nodes to hold: requested as work queues, released as it drains.
//!
//! Static holds all from the start. Dynamic is the source's DRP: it requests what the queue wants, in requests that
//! grow as [`Growth`] says, and releases a node that has been idle long. Ours ([`Demand::Rate`]) requests what the
//! arrivals will need when the nodes come, and releases those whose caches hold least that no other has. No clock:
//! times are the caller's seconds.

use std::str::FromStr;

/// How the sizes of successive requests grow while more nodes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// 1, 1, 1, …
    OneAtATime,
    /// 1, 2, 3, …
    Additive,
    /// 1, 2, 4, …
    Exponential,
    /// All that are wanted.
    AllAtOnce,
}

impl Growth {
    pub const ALL: [Growth; 4] = [Growth::OneAtATime, Growth::Additive, Growth::Exponential, Growth::AllAtOnce];

    pub fn name(self) -> &'static str {
        match self {
            Growth::OneAtATime => "one-at-a-time",
            Growth::Additive => "additive",
            Growth::Exponential => "exponential",
            Growth::AllAtOnce => "all-at-once",
        }
    }

    /// Returns the size of the request after `before` others, when `wanted` nodes are still wanted.
    fn size(self, before: u32, wanted: u32) -> u32 {
        let size = match self {
            Growth::OneAtATime => 1,
            Growth::Additive => before + 1,
            Growth::Exponential => 1u32.checked_shl(before).unwrap_or(u32::MAX),
            Growth::AllAtOnce => wanted,
        };
        size.min(wanted)
    }
}

impl FromStr for Growth {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Growth::ALL.into_iter().find(|growth| growth.name() == name);
        found.ok_or_else(|| format!("no growth is named {name}: one-at-a-time, additive, exponential or all-at-once"))
    }
}

/// The measure of how many nodes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The source's later, "less aggressive" version: a tenth of the queue.
    Queue,
    /// Ours: the rate of arrivals, foreseen for when a node asked for now would come, times what a task takes.
    Rate,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub growth: Growth,
    pub demand: Demand,
    pub slots_per_node: u32,
    pub min_nodes: u32,
    pub max_nodes: u32,
    /// Between two requests; the source pauses 1 s.
    pub pause_s: f64,
    /// A node idle so long goes ([`Demand::Queue`]).
    pub idle_s: f64,
    /// From request to node, as it is expected ([`Demand::Rate`]).
    pub lead_s: f64,
    /// Of one node ([`Demand::Rate`]).
    pub cache_bytes: u64,
}

/// The load at the moment of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Tasks that more slots would help.
    pub waiting_tasks: u64,
    /// The bytes that all caches hold, each item once.
    pub cached_bytes: u64,
    pub busy_slots: u32,
    pub nodes: u32,
    /// Asked for and not there yet.
    pub requested_nodes: u32,
    /// All tasks ever submitted, and ended.
    pub submitted: u64,
    pub ended: u64,
}

/// A node that may be released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spare<Name> {
    pub node: Name,
    /// How long it has been idle; 0 while it runs a task.
    pub idle_s: f64,
    /// The bytes that only its cache holds.
    pub last_copy_bytes: u64,
}

/// Slots are asked for at this share of use: random arrivals queue long before all are busy.
const USE: f64 = 0.9;
/// A backlog is to be worked off within this time.
const DRAIN_S: f64 = 30.0;
/// Time constants of the two means of the arrivals' rate; their difference is the trend.
const FAST_S: f64 = 10.0;
const SLOW_S: f64 = 60.0;
/// Caches are taken for full at this share, so that there is room for what leaving nodes hand over.
const FULL: f64 = 0.9;
/// A node goes only when so many more than are wanted are there: the next wave may need it.
const SLACK_NODES: u32 = 1;

pub struct Provisioner {
    settings: Settings,
    requests: u32,
    last_request_s: f64,
    seen: Option<(f64, Load)>,
    fast_rate: f64,
    slow_rate: f64,
    task_s: f64,
}

impl Provisioner {
    pub fn new(settings: Settings) -> Self {
        let never = f64::NEG_INFINITY;
        Provisioner {
            settings,
            requests: 0,
            last_request_s: never,
            seen: None,
            fast_rate: 0.0,
            slow_rate: 0.0,
            task_s: 0.0,
        }
    }

    /// Nodes to ask for now, in one request. To be asked about once a second.
    pub fn grow(&mut self, now_s: f64, load: &Load) -> u32 {
        self.observe(now_s, load);
        let wanted = self.missing(load);
        if wanted == 0 {
            self.requests = 0;
            return 0;
        }
        if now_s - self.last_request_s < self.settings.pause_s {
            return 0;
        }
        let size = self.settings.growth.size(self.requests, wanted);
        self.requests += 1;
        self.last_request_s = now_s;
        size
    }

    /// Returns the nodes to release now: they get no more tasks, and leave when the last one ends. `spares`, all nodes
    /// that are not leaving yet, are only asked for when some may go.
    pub fn shrink<Name: Copy>(&self, load: &Load, spares: impl FnOnce() -> Vec<Spare<Name>>) -> Vec<Name> {
        let most = load.nodes.saturating_sub(self.settings.min_nodes) as usize;
        match self.settings.demand {
            Demand::Queue => {
                let idle = spares().into_iter().filter(|spare| spare.idle_s >= self.settings.idle_s);
                idle.take(most).map(|spare| spare.node).collect()
            }
            Demand::Rate => {
                let surplus = load.nodes.saturating_sub(self.nodes_for_rate(load) + SLACK_NODES) as usize;
                if surplus == 0 {
                    return Vec::new();
                }
                let mut spares = spares();
                spares.sort_by_key(|spare| spare.last_copy_bytes);
                spares.iter().take(surplus.min(most)).map(|spare| spare.node).collect()
            }
        }
    }

    fn missing(&self, load: &Load) -> u32 {
        let Settings { slots_per_node, min_nodes, max_nodes, .. } = self.settings;
        let had = load.nodes + load.requested_nodes;
        let wanted = match self.settings.demand {
            Demand::Queue => {
                let free = u64::from(load.nodes * slots_per_node - load.busy_slots);
                let slots = (load.waiting_tasks / 10).saturating_sub(free);
                let nodes = slots.div_ceil(u64::from(slots_per_node)).min(u64::from(max_nodes)) as u32;
                // Nodes requested and not there yet count against it.
                load.nodes + nodes.max(load.requested_nodes)
            }
            Demand::Rate => self.nodes_for_rate(load),
        };
        wanted.clamp(min_nodes, max_nodes).saturating_sub(had)
    }

    fn nodes_for_rate(&self, load: &Load) -> u32 {
        let trend = (self.fast_rate - self.slow_rate) / (SLOW_S - FAST_S);
        let foreseen = self.fast_rate + trend.max(0.0) * (self.settings.lead_s + FAST_S);
        let backlog = load.waiting_tasks as f64 / DRAIN_S;
        let slots = (foreseen + backlog) * self.task_s / USE;
        let nodes = (slots / f64::from(self.settings.slots_per_node)).ceil() as u32;
        // Cached items stay cached as long as the run lasts: the next wave reads them again.
        let nodes_for_cache =
            (load.cached_bytes as f64 / (self.settings.cache_bytes.max(1) as f64 * FULL)).ceil() as u32;
        let nodes_for_cache = nodes_for_cache.min(load.nodes);
        // A first task shows what tasks take.
        nodes
            .max(nodes_for_cache)
            .max(u32::from(load.waiting_tasks > 0))
            .clamp(self.settings.min_nodes, self.settings.max_nodes)
    }

    fn observe(&mut self, now_s: f64, load: &Load) {
        if let Some((before_s, before)) = self.seen.replace((now_s, *load)) {
            let passed_s = now_s - before_s;
            if passed_s <= 0.0 {
                return;
            }
            let rate = (load.submitted - before.submitted) as f64 / passed_s;
            self.fast_rate += (rate - self.fast_rate) * (1.0 - (-passed_s / FAST_S).exp());
            self.slow_rate += (rate - self.slow_rate) * (1.0 - (-passed_s / SLOW_S).exp());
            let ended = load.ended - before.ended;
            if ended > 0 {
                // Little's law.
                let task_s = f64::from(before.busy_slots + load.busy_slots) / 2.0 * passed_s / ended as f64;
                let share = if self.task_s == 0.0 { 1.0 } else { 1.0 - (-passed_s / FAST_S).exp() };
                self.task_s += (task_s - self.task_s) * share;
            }
        }
    }
}

/// The work left, for callers that only ask how many nodes there should be and start them themselves, as Dask's
/// `Adaptive` does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// Tasks that run, or that a slot would help.
    pub tasks: u64,
    /// The time of one task, input and all.
    pub task_s: f64,
    /// All is to be done within this time.
    pub drain_s: f64,
    pub slots_per_node: u32,
    /// Nodes that run tasks.
    pub busy_nodes: u32,
}

impl Backlog {
    /// As many as work it off in time, one slot a task at most; none that is busy is too many.
    pub fn nodes(&self) -> u32 {
        let slots = (self.tasks as f64 * self.task_s / self.drain_s.max(f64::MIN_POSITIVE)).min(self.tasks as f64);
        let nodes = (slots / f64::from(self.slots_per_node.max(1))).ceil() as u32;
        nodes.max(self.busy_nodes).max(u32::from(self.tasks > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_wants_the_nodes_that_drain_it_in_time_and_no_more_than_it_has_tasks() {
        let backlog = Backlog { tasks: 1000, task_s: 0.1, drain_s: 5.0, slots_per_node: 2, busy_nodes: 0 };
        assert_eq!(backlog.nodes(), 10);
        assert_eq!(Backlog { tasks: 7, task_s: 100.0, ..backlog }.nodes(), 4);
        assert_eq!(Backlog { tasks: 1, task_s: 0.0, ..backlog }.nodes(), 1);
        assert_eq!(Backlog { tasks: 3, busy_nodes: 3, ..backlog }.nodes(), 3);
        assert_eq!(Backlog { tasks: 0, ..backlog }.nodes(), 0);
        assert_eq!(Backlog { drain_s: 0.0, ..backlog }.nodes(), 500);
    }

    fn provisioner(growth: Growth, demand: Demand) -> Provisioner {
        Provisioner::new(Settings {
            growth,
            demand,
            slots_per_node: 2,
            min_nodes: 0,
            max_nodes: 64,
            pause_s: 1.0,
            idle_s: 60.0,
            lead_s: 45.0,
            cache_bytes: 100,
        })
    }

    /// Requests until `hosts` are there, which come at once.
    fn requests(growth: Growth, hosts: u32) -> Vec<u32> {
        let mut provisioner = provisioner(growth, Demand::Queue);
        let mut load = Load::default();
        let mut sizes = Vec::new();
        for second in 0.. {
            load.waiting_tasks = u64::from(2 * hosts) * 10;
            let size = provisioner.grow(f64::from(second), &load);
            if size == 0 {
                break;
            }
            load.requested_nodes += size;
            sizes.push(size);
        }
        sizes
    }

    #[test]
    fn requests_are_as_many_as_the_source_says() {
        for hosts in 1..=64u32 {
            let n = f64::from(hosts);
            assert_eq!(requests(Growth::OneAtATime, hosts).len(), hosts as usize);
            let additive = (((8.0 * n + 1.0).sqrt() - 1.0) / 2.0).ceil() as usize;
            assert_eq!(requests(Growth::Additive, hosts).len(), additive, "{hosts}");
            assert_eq!(requests(Growth::Exponential, hosts).len(), (n + 1.0).log2().ceil() as usize, "{hosts}");
            assert_eq!(requests(Growth::AllAtOnce, hosts), [hosts]);
        }
    }

    #[test]
    fn a_second_request_waits_for_the_pause_and_none_goes_beyond_the_most() {
        let mut provisioner = provisioner(Growth::AllAtOnce, Demand::Queue);
        let load = Load { waiting_tasks: 1_000_000, ..Load::default() };
        assert_eq!(provisioner.grow(0.0, &load), 64);
        assert_eq!(provisioner.grow(0.5, &load), 0);
        assert_eq!(provisioner.grow(2.0, &Load { requested_nodes: 64, ..load }), 0);
    }

    #[test]
    fn idle_nodes_go_by_the_source_and_those_with_least_to_lose_by_ours() {
        let spare = |node, idle_s, last_copy_bytes| Spare { node, idle_s, last_copy_bytes };
        let spares = || vec![spare('a', 10.0, 0), spare('b', 70.0, 900), spare('c', 0.0, 400)];
        let load = Load { nodes: 3, ..Load::default() };
        assert_eq!(provisioner(Growth::AllAtOnce, Demand::Queue).shrink(&load, spares), ['b']);
        assert_eq!(provisioner(Growth::AllAtOnce, Demand::Rate).shrink(&load, spares), ['a', 'c']);
    }

    #[test]
    fn ours_keeps_the_nodes_that_what_is_cached_needs() {
        let spares = || (0..3u32).map(|node| Spare { node, idle_s: 0.0, last_copy_bytes: 50 }).collect();
        let load = Load { nodes: 3, cached_bytes: 150, ..Load::default() };
        assert!(provisioner(Growth::AllAtOnce, Demand::Rate).shrink(&load, spares).is_empty());
    }

    #[test]
    fn ours_asks_ahead_of_a_rising_rate() {
        let mut provisioner = provisioner(Growth::AllAtOnce, Demand::Rate);
        let mut load = Load { nodes: 8, busy_slots: 10, ..Load::default() };
        let mut asked = 0;
        for second in 0..200u32 {
            // From 100 tasks a second upwards by one each second, each taking a tenth.
            load.submitted += u64::from(100 + second);
            load.ended += u64::from(100 + second);
            load.busy_slots = (100 + second) / 10;
            load.nodes = 8 + asked;
            asked += provisioner.grow(f64::from(second), &load);
        }
        let now = f64::from(load.busy_slots) / 2.0 / USE;
        let ahead = f64::from(load.busy_slots) * 1.3 / 2.0 / USE;
        assert!(f64::from(load.nodes) > now && f64::from(load.nodes) < ahead, "{} nodes", load.nodes);
    }
}

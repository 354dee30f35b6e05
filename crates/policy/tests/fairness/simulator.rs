//! Clients, gates and servers in virtual time: events in a heap, everything random from one seed.
//!
//! Clients are closed loops: each keeps a window of requests outstanding and answers a completion after a turnaround.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use random::Random;
use thalweg_policy::fairness::{Completion, Next, NodeId, Request, Scheduler, Settings, Time, scheduler};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
pub const KIB: u64 = 1 << 10;
/// Bytes per nanosecond.
pub const MB_PER_S: f64 = 1e-3;

/// How a server works through what it was given.
#[derive(Clone, Copy)]
pub enum Work {
    /// One after another at a rate, then a latency on the way back: a paced link.
    Link { rate: f64, latency_ns: u64 },
    /// `parallel` at a time, each at an equal part of the rate, with times that vary by ± `jitter`.
    Parallel { rate: f64, parallel: usize, jitter: f64 },
    /// All at once.
    Latency { ns: u64 },
    /// A throttle: in every slice of time so many bytes may go, all at once, each in `call_ns`; the unused rest may go
    /// in the next slice.
    Bursts { rate: f64, slice_ns: u64, call_ns: u64 },
    /// A link whose rate is another one every 100 ms (± `noise`), behind a buffer that takes what fits at once.
    Buffered { rate: f64, buffer_bytes: u64, latency_ns: u64, noise: f64 },
}

/// From a completion to the next request.
#[derive(Clone, Copy)]
pub struct Think {
    pub min_ns: u64,
    pub max_ns: u64,
    /// One in so many is a hiccup (0: none).
    pub hiccup_one_in: u64,
    pub hiccup_ns: u64,
}

impl Think {
    pub fn between(min_ns: u64, max_ns: u64) -> Think {
        Think { min_ns, max_ns, hiccup_one_in: 0, hiccup_ns: 0 }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        if self.hiccup_one_in > 0 && random.below(self.hiccup_one_in) == 0 {
            return self.hiccup_ns;
        }
        self.min_ns + random.below(self.max_ns - self.min_ns + 1)
    }
}

/// A client process: one stream at each of its servers.
#[derive(Clone)]
pub struct Client {
    pub application: usize,
    /// It goes round these; several requests may be at one of them.
    pub servers: Vec<usize>,
    pub outstanding: usize,
    pub bytes: u64,
    pub think: Think,
    /// Requests come in bursts of so many: the client waits until so many are complete.
    pub burst: usize,
    /// On for the first, off for the second, and so on; 0, 0: always on.
    pub on_ns: u64,
    pub off_ns: u64,
}

impl Client {
    pub fn new(application: usize, outstanding: usize, bytes: u64) -> Client {
        let think = Think::between(200_000, 400_000);
        Client { application, servers: vec![0], outstanding, bytes, think, burst: 1, on_ns: 0, off_ns: 0 }
    }

    fn may_send_at(&self, at: u64) -> u64 {
        let cycle = self.on_ns + self.off_ns;
        if cycle == 0 || at % cycle < self.on_ns { at } else { at - at % cycle + cycle }
    }
}

pub struct Scene {
    pub settings: Settings,
    pub weights: Vec<u32>,
    /// Weights of groups, and by application its group; empty: no groups.
    pub groups: Vec<u32>,
    pub group_of: Vec<usize>,
    pub servers: Vec<Work>,
    /// At these times all servers' rates change to so many times the first.
    pub changes: Vec<(u64, f64)>,
    pub clients: Vec<Client>,
    /// The interval at which gates exchange counters; 0: never.
    pub exchange_ns: u64,
    pub warm_up_ns: u64,
    pub run_ns: u64,
    /// A grant that lasts longer is given back; the client asks for another when its bytes have come. 0: never.
    pub give_back_ns: u64,
    pub seed: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send { client: usize },
    Done { server: usize, id: u64 },
    GiveBack { server: usize, id: u64 },
    AskAgain { server: usize, id: u64 },
    Ask { server: usize },
    Exchange { server: usize },
    Hear { server: usize, application: usize, bytes: u64 },
}

struct Pending {
    client: usize,
    server: usize,
    flow: NodeId,
    bytes: u64,
    sent: u64,
    /// Its bytes have come from the server already.
    is_here: bool,
}

struct Server {
    work: Work,
    gate: Box<dyn Scheduler>,
    applications: Vec<NodeId>,
    streams: Vec<Option<NodeId>>,
    channels: Vec<u64>,
    /// Of a throttle: the slice it is in, and the bytes that may still go in it.
    slice: u64,
    tokens: f64,
    charged: Vec<u64>,
    exchanged: Vec<u64>,
    asked_at: u64,
}

/// The result, after the warm-up.
pub struct Outcome {
    pub bytes: Vec<u64>,
    /// By server, then application.
    pub bytes_at: Vec<Vec<u64>>,
    pub latencies_ns: Vec<Vec<u64>>,
    /// Bytes of each application in every 10 ms of the whole run.
    pub timeline: Vec<Vec<u64>>,
    pub depth_bytes: Vec<u64>,
    pub seconds: f64,
}

/// The time to read bytes that came before.
const HANDED_OVER_NS: u64 = 20_000;

pub const TICK_NS: u64 = 10 * MS;

impl Outcome {
    pub fn total(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64
    }

    pub fn rate(&self, application: usize) -> f64 {
        self.bytes[application] as f64 / self.seconds / 1e6
    }

    pub fn total_rate(&self) -> f64 {
        self.total() / self.seconds / 1e6
    }

    pub fn ratio(&self) -> f64 {
        self.bytes[0] as f64 / self.bytes[1] as f64
    }

    pub fn quantile_ns(&self, application: usize, share: f64) -> u64 {
        let mut sorted = self.latencies_ns[application].clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }

    pub fn between(&self, application: usize, from_ns: u64, to_ns: u64) -> u64 {
        self.timeline[application][(from_ns / TICK_NS) as usize..(to_ns / TICK_NS) as usize].iter().sum()
    }
}

impl Server {
    fn throttled(&mut self, bytes: f64, slice_bytes: f64, slice_ns: u64, call_ns: u64, now: u64) -> u64 {
        let mut begins = self.channels[0].max(now);
        loop {
            let slice = begins / slice_ns;
            if slice > self.slice {
                self.tokens = self.tokens.min(slice_bytes) + slice_bytes;
                self.slice = slice;
            }
            if self.tokens >= bytes {
                break;
            }
            begins = (slice + 1) * slice_ns;
        }
        self.tokens -= bytes;
        self.channels[0] = begins;
        begins + call_ns
    }
}

struct World<'a> {
    scene: &'a Scene,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    servers: Vec<Server>,
    pending: Vec<Pending>,
    turns: Vec<usize>,
    complete: Vec<usize>,
    outcome: Outcome,
}

pub fn run(scene: &Scene) -> Outcome {
    let mut world = World::new(scene);
    for (index, client) in scene.clients.iter().enumerate() {
        for _ in 0..client.outstanding {
            let at = world.random.below(MS);
            world.at(at, Event::Send { client: index });
        }
    }
    if scene.exchange_ns > 0 {
        for server in 0..scene.servers.len() {
            let at = world.random.below(scene.exchange_ns);
            world.at(at, Event::Exchange { server });
        }
    }
    while let Some(Reverse((now, _, event))) = world.events.pop() {
        if now > scene.warm_up_ns + scene.run_ns {
            break;
        }
        world.handle(now, event);
    }
    for (server, depth) in world.servers.iter().zip(&mut world.outcome.depth_bytes) {
        *depth = server.gate.depth_bytes();
    }
    world.outcome
}

impl<'a> World<'a> {
    fn new(scene: &'a Scene) -> Self {
        let servers = scene.servers.iter().map(|work| {
            let mut gate = scheduler(&scene.settings);
            let groups: Vec<NodeId> = scene.groups.iter().map(|weight| gate.add(None, *weight)).collect();
            let applications = scene.weights.iter().enumerate().map(|(application, weight)| {
                let group = scene.group_of.get(application).map(|&group| groups[group]);
                gate.add(group, *weight)
            });
            let applications = applications.collect();
            let channels = if let Work::Parallel { parallel, .. } = work { *parallel } else { 1 };
            Server {
                work: *work,
                gate,
                applications,
                streams: vec![None; scene.clients.len()],
                channels: vec![0; channels],
                slice: 0,
                tokens: 0.0,
                charged: vec![0; scene.weights.len()],
                exchanged: vec![0; scene.weights.len()],
                asked_at: u64::MAX,
            }
        });
        let applications = scene.weights.len();
        let ticks = ((scene.warm_up_ns + scene.run_ns) / TICK_NS + 1) as usize;
        World {
            scene,
            random: Random::new(scene.seed),
            events: BinaryHeap::new(),
            sequence: 0,
            servers: servers.collect(),
            pending: Vec::new(),
            turns: (0..scene.clients.len()).collect(),
            complete: vec![0; scene.clients.len()],
            outcome: Outcome {
                bytes: vec![0; applications],
                bytes_at: vec![vec![0; applications]; scene.servers.len()],
                latencies_ns: vec![Vec::new(); applications],
                timeline: vec![vec![0; ticks]; applications],
                depth_bytes: vec![0; scene.servers.len()],
                seconds: scene.run_ns as f64 / 1e9,
            },
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Send { client } => self.send(client, now),
            Event::Done { server, id } => self.done(server, id, now),
            Event::GiveBack { server, id } => {
                let flow = self.pending[id as usize].flow;
                self.servers[server].gate.complete(flow, id, 0, Time(now));
                self.ask(server, now);
            }
            Event::AskAgain { server, id } => {
                let Pending { flow, bytes, .. } = self.pending[id as usize];
                self.pending[id as usize].is_here = true;
                let request = Request { id, cost_bytes: bytes, deadline: None, completion: Completion::Served };
                self.servers[server].gate.enqueue(flow, request, Time(now));
                self.ask(server, now);
            }
            Event::Ask { server } => {
                self.servers[server].asked_at = u64::MAX;
                self.ask(server, now);
            }
            Event::Exchange { server } => self.exchange(server, now),
            Event::Hear { server, application, bytes } => {
                let flow = self.servers[server].applications[application];
                self.servers[server].gate.served_at_other_servers(flow, bytes, Time(now));
                self.ask(server, now);
            }
        }
    }

    fn send(&mut self, index: usize, now: u64) {
        let client = &self.scene.clients[index];
        let at = client.may_send_at(now);
        if at > now {
            return self.at(at, Event::Send { client: index });
        }
        let turn = self.turns[index];
        self.turns[index] += 1;
        let server = client.servers[turn % client.servers.len()];
        let gate = &mut self.servers[server];
        let application = gate.applications[client.application];
        let flow = *gate.streams[index].get_or_insert_with(|| gate.gate.add(Some(application), 1));
        let id = self.pending.len() as u64;
        self.pending.push(Pending { client: index, server, flow, bytes: client.bytes, sent: now, is_here: false });
        gate.gate.enqueue(
            flow,
            Request { id, cost_bytes: client.bytes, deadline: None, completion: Completion::Served },
            Time(now),
        );
        self.ask(server, now);
    }

    fn ask(&mut self, server: usize, now: u64) {
        loop {
            match self.servers[server].gate.next(Time(now)) {
                Next::Start { flow, id } => {
                    let request = &self.pending[id as usize];
                    assert_eq!((request.flow, request.server), (flow, server), "a stranger was started");
                    let Pending { bytes, client, is_here, .. } = *request;
                    self.servers[server].charged[self.scene.clients[client].application] += bytes;
                    let done = if is_here { now + HANDED_OVER_NS } else { self.serve(server, bytes, now) };
                    if self.scene.give_back_ns > 0 && done > now + self.scene.give_back_ns {
                        self.at(now + self.scene.give_back_ns, Event::GiveBack { server, id });
                        self.at(done, Event::AskAgain { server, id });
                    } else {
                        self.at(done, Event::Done { server, id });
                    }
                }
                Next::Wait { until } => {
                    let at = until.0.max(now + 1);
                    if at < self.servers[server].asked_at {
                        self.servers[server].asked_at = at;
                        self.at(at, Event::Ask { server });
                    }
                    return;
                }
                Next::Nothing => return,
            }
        }
    }

    /// When the server will be done with a request given to it now.
    fn serve(&mut self, server: usize, bytes: u64, now: u64) -> u64 {
        let factor = self.scene.changes.iter().rev().find(|change| change.0 <= now).map_or(1.0, |change| change.1);
        let unit = self.random.unit();
        let server = &mut self.servers[server];
        let (ns, latency_ns) = match server.work {
            Work::Link { rate, latency_ns } => ((bytes as f64 / rate / factor) as u64, latency_ns),
            Work::Parallel { rate, parallel, jitter } => {
                let ns = bytes as f64 * parallel as f64 / rate / factor;
                ((ns * (1.0 + jitter * (2.0 * unit - 1.0))) as u64, 0)
            }
            Work::Latency { ns } => return now + ns,
            Work::Bursts { rate, slice_ns, call_ns } => {
                return server.throttled(bytes as f64, rate * factor * slice_ns as f64, slice_ns, call_ns, now);
            }
            Work::Buffered { rate, buffer_bytes, latency_ns, noise } => {
                let epoch = Random::new(self.scene.seed + server.channels[0].max(now) / (100 * MS)).unit();
                let rate = rate * factor * (1.0 + noise * (2.0 * epoch - 1.0));
                let drained = server.channels[0].max(now) + (bytes as f64 / rate) as u64;
                server.channels[0] = drained;
                return drained.saturating_sub((buffer_bytes as f64 / rate) as u64).max(now) + latency_ns;
            }
        };
        let channel = server.channels.iter_mut().min().expect("a channel");
        *channel = (*channel).max(now) + ns;
        *channel + latency_ns
    }

    fn done(&mut self, server: usize, id: u64, now: u64) {
        let Pending { client: index, flow, bytes, sent, .. } = self.pending[id as usize];
        self.servers[server].gate.complete(flow, id, bytes, Time(now));
        let client = &self.scene.clients[index];
        let application = client.application;
        self.outcome.timeline[application][(now / TICK_NS) as usize] += bytes;
        if now >= self.scene.warm_up_ns {
            self.outcome.bytes[application] += bytes;
            self.outcome.bytes_at[server][application] += bytes;
            self.outcome.latencies_ns[application].push(now - sent);
        }
        self.complete[index] += 1;
        if self.complete[index] >= client.burst {
            let thought = now + client.think.draw(&mut self.random);
            for slice in 0..self.complete[index] as u64 {
                // A burst arrives at the speed of a fast link: 1 GB/s.
                self.at(thought + slice * client.bytes, Event::Send { client: index });
            }
            self.complete[index] = 0;
        }
        self.ask(server, now);
    }

    fn exchange(&mut self, server: usize, now: u64) {
        for application in 0..self.scene.weights.len() {
            let bytes = self.servers[server].charged[application] - self.servers[server].exchanged[application];
            self.servers[server].exchanged[application] += bytes;
            for other in (0..self.servers.len()).filter(|&other| other != server && bytes > 0) {
                let at = now + 200_000 + self.random.below(MS);
                self.at(at, Event::Hear { server: other, application, bytes });
            }
        }
        self.at(now + self.scene.exchange_ns, Event::Exchange { server });
    }
}

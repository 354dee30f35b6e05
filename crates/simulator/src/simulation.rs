//! One run: events in the order of time, each followed by all decisions that are due.
//!
//! A task takes a slot, asks for all its missing input at once, and when the last of it is there takes the time of
//! dispatch, of reading what was local, of computing and of writing. Input that comes from elsewhere is read as it
//! arrives, and enters the cache in passing.

use policy::cache::{Eviction, Holding, ItemId, WorkerId};
use policy::placement::{self, Assignment, Rule, Scheduler, Source, TaskId};
use policy::provisioning::Growth;

use crate::agenda::{Agenda, Event};
use crate::measures::{MOMENT_S, Measures, Report};
use crate::network::{Network, Transfer};
use crate::nodes::Nodes;
use crate::testbed::{Provisioning, Testbed};
use crate::workload::Workload;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub testbed: Testbed,
    pub rule: Rule,
    /// Waiting tasks a decision examines; the rule's own when `None`.
    pub window: Option<usize>,
    pub eviction: Eviction,
    pub provisioning: Provisioning,
    pub growth: Growth,
    pub seed: u64,
}

impl Settings {
    /// As the source ran it: LRU, all nodes from the start.
    pub fn new(testbed: Testbed, rule: Rule) -> Self {
        Settings {
            testbed,
            rule,
            window: None,
            eviction: Eviction::Lru,
            provisioning: Provisioning::Static,
            growth: Growth::AllAtOnce,
            seed: 1,
        }
    }
}

/// Runs the workload to its last task's end.
pub fn simulate(workload: &Workload, settings: &Settings) -> Report {
    assert!(settings.testbed.slots() > 0, "a run needs slots");
    let mut run = Run::new(workload, settings);
    run.begin();
    while run.measures.ended_tasks() < workload.len() {
        run.step();
    }
    run.report()
}

const TICK_S: f64 = 1.0;
const TICKS_PER_MOMENT: u64 = (MOMENT_S / TICK_S) as u64;

#[derive(Clone, Copy)]
struct Running {
    task: u32,
    worker: WorkerId,
    /// Inputs on their way.
    outstanding: u32,
    local_bytes: f64,
    /// Which of its inputs are pinned in the worker's cache, a bit each.
    pinned: u64,
}

struct Run<'a> {
    workload: &'a Workload,
    testbed: Testbed,
    scheduler: Scheduler,
    network: Network,
    nodes: Nodes,
    agenda: Agenda,
    measures: Measures,
    running: Vec<Running>,
    vacant: Vec<u32>,
    submitted: usize,
    now_s: f64,
    ticks: u64,
}

/// The next event.
enum Next {
    Submission,
    Agenda,
    Store,
    Release,
    Tick,
}

impl<'a> Run<'a> {
    fn new(workload: &'a Workload, settings: &Settings) -> Self {
        let Settings { testbed, rule, eviction, seed, .. } = *settings;
        let window = settings.window.unwrap_or(rule.window());
        let costs = testbed.costs();
        let mut scheduler = Scheduler::new(placement::Settings { rule, window, eviction, costs, seed });
        workload.file_bytes.iter().for_each(|&bytes| _ = scheduler.add_item(bytes));
        Run {
            workload,
            testbed,
            scheduler,
            network: Network::new(&testbed),
            nodes: Nodes::new(&testbed, settings.provisioning, settings.growth, rule, seed),
            agenda: Agenda::default(),
            measures: Measures::default(),
            running: Vec::new(),
            vacant: Vec::new(),
            submitted: 0,
            now_s: 0.0,
            ticks: 0,
        }
    }

    fn begin(&mut self) {
        self.nodes.begin(&mut self.scheduler, &mut self.network);
        if self.workload.is_batch {
            let workload = self.workload;
            let tasks = (0..workload.len()).map(|at| (TaskId(at as u32), workload.task(at).inputs));
            self.scheduler.submit_batch(0.0, tasks);
            self.submitted = workload.len();
            workload.tasks().for_each(|task| self.measures.submitted(workload.input_bytes(&task) as f64));
        }
        self.decide();
    }

    fn step(&mut self) {
        let submission_s = if self.submitted < self.workload.len() {
            self.workload.task(self.submitted).submitted_s
        } else {
            f64::INFINITY
        };
        // A release in the past is due already: it waits for a free worker, not for its time.
        let release_s = self.scheduler.next_release_s().filter(|&at_s| at_s > self.now_s).unwrap_or(f64::INFINITY);
        let candidates = [
            (submission_s, Next::Submission),
            (self.agenda.next_s(), Next::Agenda),
            (self.network.store.next_s(), Next::Store),
            (release_s, Next::Release),
            ((self.ticks + 1) as f64 * TICK_S, Next::Tick),
        ];
        let first = candidates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let (at_s, next) = first.expect("there are five");
        self.now_s = at_s;
        match next {
            Next::Submission => self.submit(),
            Next::Agenda => self.happen(),
            Next::Store => {
                let flow = self.network.store.end(at_s);
                self.arrived(flow);
            }
            Next::Release => {}
            Next::Tick => self.tick(),
        }
        self.decide();
    }

    fn submit(&mut self) {
        let task = self.workload.task(self.submitted);
        self.scheduler.submit(self.now_s, TaskId(self.submitted as u32), task.inputs);
        self.measures.submitted(self.workload.input_bytes(&task) as f64);
        self.submitted += 1;
    }

    fn happen(&mut self) {
        match self.agenda.take().expect("an event is due") {
            Event::Done { running } => self.end(running),
            Event::Transferred { flow, generation } if self.network.is_due(flow, generation) => self.arrived(flow),
            Event::Transferred { .. } => {}
            Event::NodeReady => self.nodes.ready(self.now_s, &mut self.scheduler, &mut self.network),
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let (submitted, ended) = (self.submitted as u64, self.measures.ended_tasks() as u64);
        let (scheduler, network) = (&mut self.scheduler, &mut self.network);
        self.nodes.tick(self.now_s, scheduler, network, &mut self.agenda, submitted, ended);
        if self.ticks.is_multiple_of(TICKS_PER_MOMENT) {
            self.note_moment();
        }
    }

    fn note_moment(&mut self) {
        let (busy, waiting) = (self.scheduler.busy_slots(), self.scheduler.waiting() as u64);
        self.measures.moment(self.now_s, self.nodes.open(), busy, waiting);
    }

    fn decide(&mut self) {
        while let Some(Assignment { task, worker }) = self.scheduler.next(self.now_s) {
            self.start(task, worker);
        }
    }

    fn start(&mut self, task: TaskId, worker: WorkerId) {
        let running = self.occupy(Running { task: task.0, worker, outstanding: 0, local_bytes: 0.0, pinned: 0 });
        let inputs = self.workload.task(task.0 as usize).inputs;
        for (at, &item) in inputs.iter().enumerate() {
            let bytes = self.bytes(item);
            match self.scheduler.index().holding(worker, item) {
                Some(Holding::Here) => self.pin(running, at, item),
                Some(Holding::Arriving) => {
                    self.network.share(worker, item, running);
                    self.running[running as usize].outstanding += 1;
                    self.read_local(running, bytes);
                    continue;
                }
                None => {
                    let fetch = self.scheduler.fetch(self.now_s, worker, item);
                    self.network.fetch(
                        self.now_s,
                        &mut self.agenda,
                        Transfer { to: worker, item, bytes },
                        fetch,
                        Some(running),
                    );
                    self.running[running as usize].outstanding += 1;
                    continue;
                }
            }
            self.read_local(running, bytes);
        }
        self.work_if_complete(running);
    }

    fn read_local(&mut self, running: u32, bytes: f64) {
        self.running[running as usize].local_bytes += bytes;
        self.measures.read_local(bytes);
    }

    fn pin(&mut self, running: u32, at: usize, item: ItemId) {
        let entry = &mut self.running[running as usize];
        if at < u64::BITS as usize {
            entry.pinned |= 1 << at;
            self.scheduler.read_here(entry.worker, item);
        }
    }

    /// Notes that input is there, for the task that asked and for those of its node that wait with it.
    fn arrived(&mut self, flow: u32) {
        let ended = self.network.end(self.now_s, &mut self.agenda, flow);
        self.scheduler.fetched(self.now_s, ended.to, ended.item, &ended.fetch);
        match ended.fetch.source {
            Source::Store => self.measures.read_store(ended.bytes),
            Source::Peer(from) | Source::Behind(from) if ended.is_handed_over => {
                self.measures.handed_over(ended.bytes);
                self.nodes.handed_over(self.now_s, from, &mut self.scheduler, &mut self.network, &mut self.agenda);
            }
            Source::Peer(_) | Source::Behind(_) => self.measures.read_peer(ended.bytes),
        }
        for &running in &ended.readers {
            let inputs = self.workload.task(self.running[running as usize].task as usize).inputs;
            let at = inputs.iter().position(|item| *item == ended.item).expect("a reader wants it");
            if ended.fetch.kept {
                self.pin(running, at, ended.item);
            }
            self.running[running as usize].outstanding -= 1;
            self.work_if_complete(running);
        }
    }

    fn work_if_complete(&mut self, running: u32) {
        let Running { task, outstanding, local_bytes, .. } = self.running[running as usize];
        if outstanding > 0 {
            return;
        }
        let task = self.workload.task(task as usize);
        let written: f64 = task.outputs.iter().map(|&file| self.bytes(file)).sum();
        let io_s = local_bytes / self.testbed.local_bytes_per_s + written / self.testbed.local_write_bytes_per_s;
        self.agenda.add(self.now_s + self.testbed.dispatch_s + io_s + task.compute_s, Event::Done { running });
    }

    fn end(&mut self, running: u32) {
        let Running { task, worker, pinned, .. } = self.running[running as usize];
        self.vacant.push(running);
        let task = self.workload.task(task as usize);
        for (at, &item) in task.inputs.iter().enumerate().take(u64::BITS as usize) {
            if pinned >> at & 1 == 1 {
                self.scheduler.done_with(worker, item);
            }
        }
        for &item in task.outputs {
            self.scheduler.wrote(self.now_s, worker, item);
            self.measures.wrote_local(self.bytes(item));
        }
        self.measures.ended(self.now_s, task.submitted_s);
        self.scheduler.vacate(worker);
        if self.scheduler.is_at_rest(worker) {
            self.nodes.idle(self.now_s, worker);
        }
    }

    fn occupy(&mut self, running: Running) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            self.running[slot as usize] = running;
            return slot;
        }
        self.running.push(running);
        self.running.len() as u32 - 1
    }

    fn bytes(&self, item: ItemId) -> f64 {
        self.workload.file_bytes[item.0 as usize] as f64
    }

    fn report(mut self) -> Report {
        self.note_moment();
        let cpu_hours = self.nodes.cpu_hours(self.measures.last_end_s());
        self.measures.report(self.workload, &self.testbed, cpu_hours)
    }
}

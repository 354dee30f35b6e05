//! The scheduler against an oracle that looks through everything, on random histories of tasks, workers and replicas.

use std::collections::BTreeMap;

use random::Random;

use super::{Assignment, Costs, Fetch, Rule, Scheduler, Settings, Source, TaskId};
use crate::cache::{Eviction, Holding, ItemId, WorkerId};

const COSTS: Costs = Costs {
    store_bytes_per_s: 200.0,
    store_reader_bytes_per_s: 100.0,
    peer_bytes_per_s: 50.0,
    local_bytes_per_s: 100.0,
    link_bytes_per_s: 125.0,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Cold,
    Awaited,
    Held { since_s: f64 },
}

struct Task {
    id: TaskId,
    inputs: Vec<ItemId>,
    kind: Option<Kind>,
}

/// The rules as `placement` and `rule` describe them, by examining every task and every worker each time.
struct Oracle {
    rule: Rule,
    window: usize,
    sizes: Vec<u64>,
    waiting: Vec<Task>,
    holdings: BTreeMap<(WorkerId, ItemId), Holding>,
    free: BTreeMap<WorkerId, (u32, u32)>,
    idle: Vec<WorkerId>,
    store_readers: u32,
    cold_starts: u64,
}

impl Oracle {
    fn is_here(&self, worker: WorkerId, item: ItemId) -> bool {
        self.holdings.get(&(worker, item)) == Some(&Holding::Here)
    }

    /// `None` when the worker has nothing of it.
    fn rank(&self, task: &Task, worker: WorkerId) -> Option<u64> {
        let here: Vec<_> = task.inputs.iter().filter(|&&item| self.is_here(worker, item)).collect();
        let score = |item: &ItemId| if self.rule == Rule::Thalweg { self.sizes[item.at()] } else { 1 };
        match here.len() {
            0 => None,
            all if all == task.inputs.len() => Some(u64::MAX),
            _ => Some(here.into_iter().map(score).sum()),
        }
    }

    fn kind(&self, now_s: f64, inputs: &[ItemId]) -> Kind {
        let has = |holding: Holding| {
            inputs.iter().any(|item| self.holdings.iter().any(|(key, found)| key.1 == *item && *found == holding))
        };
        if inputs.is_empty() || has(Holding::Here) {
            Kind::Held { since_s: now_s }
        } else if self.rule == Rule::Thalweg && has(Holding::Arriving) {
            Kind::Awaited
        } else {
            Kind::Cold
        }
    }

    /// After each event.
    fn stand(&mut self, now_s: f64) {
        for at in 0..self.waiting.len().min(self.window) {
            let kind = self.kind(now_s, &self.waiting[at].inputs);
            let before = self.waiting[at].kind;
            if before.is_none_or(|before| std::mem::discriminant(&before) != std::mem::discriminant(&kind)) {
                self.waiting[at].kind = Some(kind);
            }
        }
    }

    fn next(&mut self, now_s: f64) -> Option<Assignment> {
        let (at, worker) = self.decide(now_s)?;
        let task = self.waiting.remove(at).id;
        self.idle.retain(|idle| *idle != worker);
        let free = &mut self.free.get_mut(&worker).expect("it joined").0;
        *free -= 1;
        if *free > 0 {
            self.idle.push(worker);
        }
        self.stand(now_s);
        Some(Assignment { task, worker })
    }

    fn decide(&mut self, now_s: f64) -> Option<(usize, WorkerId)> {
        let window = self.waiting.len().min(self.window);
        let first_idle = *self.idle.first()?;
        if self.rule == Rule::FirstAvailable {
            return (!self.waiting.is_empty()).then_some((0, first_idle));
        }
        let mut best: Option<(u64, usize, WorkerId)> = None;
        for at in 0..window {
            for (&worker, &(free, _)) in &self.free {
                if let (true, Some(rank)) = (free > 0, self.rank(&self.waiting[at], worker))
                    && best.is_none_or(|best| rank > best.0)
                {
                    best = Some((rank, at, worker));
                }
            }
        }
        if let Some((_, at, worker)) = best {
            return Some((at, worker));
        }
        let at = if self.rule == Rule::Thalweg { self.dear(now_s, window) } else { self.threshold(window) };
        at.map(|at| (at, first_idle))
    }

    fn threshold(&self, window: usize) -> Option<usize> {
        let slots: u32 = self.free.values().map(|(_, slots)| slots).sum();
        let free: u32 = self.free.values().map(|(free, _)| free).sum();
        let busy_share = (f64::from(slots - free) - 1.0) / f64::from(slots);
        let threshold = match self.rule {
            Rule::MaxCacheHit => 0.0,
            Rule::GoodCacheCompute => 0.9,
            _ => f64::INFINITY,
        };
        (0..window).find(|&at| busy_share < threshold || self.waiting[at].kind == Some(Kind::Cold))
    }

    fn dear(&mut self, now_s: f64, window: usize) -> Option<usize> {
        let cold: Vec<usize> = (0..window).filter(|&at| self.waiting[at].kind == Some(Kind::Cold)).collect();
        if self.store_readers < COSTS.store_readers() && !cold.is_empty() {
            let lead = |at: usize| self.waiting[at].inputs[0];
            let count = |item: ItemId| cold.iter().filter(|&&at| lead(at) == item).count();
            let most = cold.iter().map(|&at| (std::cmp::Reverse(count(lead(at))), lead(at), at)).min();
            let oldest = self.cold_starts % 4 == 3;
            self.cold_starts += 1;
            return Some(if oldest { cold[0] } else { most.expect("some are cold").2 });
        }
        let due = (0..window).filter_map(|at| {
            let Some(Kind::Held { since_s }) = self.waiting[at].kind else { return None };
            let bytes = self.waiting[at].inputs.iter().map(|item| self.sizes[item.at()]).sum();
            let until_s = since_s + COSTS.max_wait_s(bytes);
            (until_s <= now_s).then_some((until_s, at))
        });
        due.min_by(|a, b| a.partial_cmp(b).expect("times are numbers")).map(|(_, at)| at)
    }
}

/// A task that runs; its fetches are under way.
struct Running {
    worker: WorkerId,
    fetches: Vec<(ItemId, Fetch)>,
}

struct History {
    dice: Random,
    scheduler: Scheduler,
    oracle: Oracle,
    running: Vec<Running>,
    inputs: Vec<Vec<ItemId>>,
    now_s: f64,
}

impl History {
    fn new(seed: u64, rule: Rule) -> Self {
        let mut dice = Random::new(seed);
        let window = if dice.index(2) == 0 { 1 + dice.index(12) } else { usize::MAX };
        let eviction = Eviction::ALL[dice.index(5)];
        let mut scheduler = Scheduler::new(Settings { rule, window, eviction, costs: COSTS, seed });
        let sizes: Vec<u64> = (0..2 + dice.index(14)).map(|_| 1 + dice.index(20) as u64).collect();
        sizes.iter().for_each(|&bytes| _ = scheduler.add_item(bytes));
        let oracle = Oracle {
            rule,
            window,
            sizes,
            waiting: Vec::new(),
            holdings: BTreeMap::new(),
            free: BTreeMap::new(),
            idle: Vec::new(),
            store_readers: 0,
            cold_starts: 0,
        };
        let mut history = History { dice, scheduler, oracle, running: Vec::new(), inputs: Vec::new(), now_s: 0.0 };
        (0..1 + history.dice.index(4)).for_each(|_| history.join());
        history
    }

    fn step(&mut self) {
        self.now_s += self.dice.index(100) as f64 * 0.001;
        match self.dice.index(21) {
            0 if self.oracle.free.len() < 6 => self.join(),
            1 => self.leave(),
            2 => self.lose_a_replica(),
            3 => self.resize(),
            4..=9 => self.submit(),
            20 => self.widen(),
            _ => self.finish(),
        }
        loop {
            self.oracle.stand(self.now_s);
            let expected = self.oracle.next(self.now_s);
            assert_eq!(self.scheduler.next(self.now_s), expected, "at {} s", self.now_s);
            assert_eq!(self.scheduler.waiting(), self.oracle.waiting.len());
            let Some(Assignment { task, worker }) = expected else { break };
            self.start(task, worker);
        }
    }

    fn join(&mut self) {
        let slots = 1 + self.dice.index(3) as u32;
        let worker = self.scheduler.join(slots, 20 + self.dice.index(60) as u64);
        self.oracle.free.insert(worker, (slots, slots));
        self.oracle.idle.push(worker);
    }

    fn leave(&mut self) {
        let at_rest = self.oracle.free.keys().copied().filter(|&worker| self.scheduler.is_at_rest(worker));
        let all: Vec<WorkerId> = at_rest.collect();
        if all.is_empty() || self.oracle.free.len() == 1 {
            return;
        }
        let worker = all[self.dice.index(all.len())];
        self.scheduler.leave(self.now_s, worker);
        self.oracle.free.remove(&worker);
        self.oracle.idle.retain(|idle| *idle != worker);
        self.oracle.holdings.retain(|(holder, _), _| *holder != worker);
    }

    fn lose_a_replica(&mut self) {
        let here: Vec<_> = self.oracle.holdings.iter().filter(|(_, holding)| **holding == Holding::Here).collect();
        if here.is_empty() || !self.running.is_empty() {
            return;
        }
        let (worker, item) = *here[self.dice.index(here.len())].0;
        self.scheduler.drop_replica(self.now_s, worker, item);
        self.oracle.holdings.remove(&(worker, item));
    }

    /// To zero too: a file's size is unknown before it has been read.
    fn resize(&mut self) {
        let item = ItemId(self.dice.index(self.oracle.sizes.len()) as u32);
        let bytes = self.dice.index(30) as u64;
        self.scheduler.resize(item, bytes);
        self.oracle.sizes[item.at()] = bytes;
        let workers: Vec<WorkerId> = self.oracle.free.keys().copied().collect();
        for worker in workers {
            for victim in self.scheduler.overflow(self.now_s, worker) {
                assert_eq!(self.oracle.holdings.remove(&(worker, victim)), Some(Holding::Here));
                self.oracle.stand(self.now_s);
            }
        }
    }

    fn widen(&mut self) {
        let workers: Vec<WorkerId> = self.oracle.free.keys().copied().collect();
        let worker = workers[self.dice.index(workers.len())];
        self.scheduler.widen(worker, 1);
        let (free, slots) = self.oracle.free.get_mut(&worker).expect("it joined");
        (*free, *slots) = (*free + 1, *slots + 1);
        if !self.oracle.idle.contains(&worker) {
            self.oracle.idle.push(worker);
        }
    }

    fn submit(&mut self) {
        let items = self.oracle.sizes.len();
        let mut inputs: Vec<ItemId> = (0..self.dice.index(4)).map(|_| ItemId(self.dice.index(items) as u32)).collect();
        let mut seen = Vec::new();
        inputs.retain(|item| {
            !seen.contains(item) && {
                seen.push(*item);
                true
            }
        });
        let id = TaskId(self.inputs.len() as u32);
        self.scheduler.submit(self.now_s, id, &inputs);
        self.oracle.waiting.push(Task { id, inputs: inputs.clone(), kind: None });
        self.inputs.push(inputs);
    }

    fn start(&mut self, task: TaskId, worker: WorkerId) {
        let mut fetches = Vec::new();
        for &item in &self.inputs[task.0 as usize].clone() {
            if self.scheduler.index().holding(worker, item).is_some() {
                continue;
            }
            let fetch = self.scheduler.fetch(self.now_s, worker, item);
            self.check_source(item, &fetch);
            for &victim in &fetch.evicted {
                assert_eq!(self.oracle.holdings.remove(&(worker, victim)), Some(Holding::Here));
            }
            self.oracle.stand(self.now_s);
            if fetch.kept {
                self.oracle.holdings.insert((worker, item), Holding::Arriving);
            }
            self.oracle.store_readers += u32::from(fetch.source == Source::Store);
            self.oracle.stand(self.now_s);
            fetches.push((item, fetch));
        }
        self.running.push(Running { worker, fetches });
    }

    fn check_source(&self, item: ItemId, fetch: &Fetch) {
        let who = |holding| self.oracle.holdings.iter().any(|(key, found)| key.1 == item && *found == holding);
        match fetch.source {
            Source::Peer(peer) => assert!(self.oracle.is_here(peer, item)),
            Source::Behind(peer) => {
                assert_eq!(self.oracle.holdings.get(&(peer, item)), Some(&Holding::Arriving));
                assert_eq!(self.oracle.rule, Rule::Thalweg);
            }
            Source::Store if self.oracle.rule == Rule::FirstAvailable => assert!(!fetch.kept),
            Source::Store if self.oracle.rule == Rule::Thalweg => {
                assert!(!who(Holding::Here) && !who(Holding::Arriving), "read again what a worker has");
            }
            Source::Store => assert!(!who(Holding::Here)),
        }
    }

    /// One task's next fetch is there, or it ends.
    fn finish(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.dice.index(self.running.len());
        let worker = self.running[at].worker;
        if let Some((item, fetch)) = self.running[at].fetches.pop() {
            self.oracle.store_readers -= u32::from(fetch.source == Source::Store);
            if self.dice.index(8) == 0 {
                self.scheduler.fetch_failed(self.now_s, worker, item, &fetch);
                if fetch.kept {
                    self.oracle.holdings.remove(&(worker, item));
                }
                return;
            }
            self.scheduler.fetched(self.now_s, worker, item, &fetch);
            if fetch.kept {
                self.oracle.holdings.insert((worker, item), Holding::Here);
            }
            return;
        }
        self.running.swap_remove(at);
        self.scheduler.vacate(worker);
        self.oracle.free.get_mut(&worker).expect("it joined").0 += 1;
        if !self.oracle.idle.contains(&worker) {
            self.oracle.idle.push(worker);
        }
        if self.dice.index(4) == 0 {
            let item = ItemId(self.dice.index(self.oracle.sizes.len()) as u32);
            self.write(worker, item);
        }
    }

    fn write(&mut self, worker: WorkerId, item: ItemId) {
        let wrote = self.scheduler.wrote(self.now_s, worker, item);
        for victim in wrote.evicted {
            self.oracle.holdings.remove(&(worker, victim));
        }
        self.oracle.stand(self.now_s);
        if wrote.kept {
            self.oracle.holdings.insert((worker, item), Holding::Here);
        }
    }
}

/// `THALWEG_SEED=n` has one history again.
#[test]
fn decisions_are_those_of_an_oracle_that_looks_through_everything() {
    let one = std::env::var("THALWEG_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in one.map_or(0..10_000, |seed| seed..seed + 1) {
        let rule = Rule::ALL[seed as usize % 5];
        let run = std::panic::catch_unwind(|| {
            let mut history = History::new(seed, rule);
            (0..120).for_each(|_| history.step());
            history.inputs.len()
        });
        assert!(run.is_ok_and(|submitted| submitted > 0), "THALWEG_SEED={seed} ({rule:?})");
    }
}

fn settings(rule: Rule) -> Settings {
    Settings { rule, window: 2500, eviction: Eviction::Lru, costs: COSTS, seed: 0 }
}

/// Two workers of one slot, the first busy and with the item of the second task.
fn a_task_whose_input_lies_with_a_busy_worker(rule: Rule) -> Scheduler {
    let mut scheduler = Scheduler::new(settings(rule));
    let item = scheduler.add_item(10);
    let holder = scheduler.join(1, 100);
    scheduler.submit(0.0, TaskId(0), &[]);
    assert_eq!(scheduler.next(0.0), Some(Assignment { task: TaskId(0), worker: holder }));
    scheduler.wrote(0.0, holder, item);
    scheduler.join(1, 100);
    scheduler.submit(0.0, TaskId(1), &[item]);
    scheduler
}

#[test]
fn only_the_threshold_differs() {
    let runs_away = |rule| a_task_whose_input_lies_with_a_busy_worker(rule).next(0.0).is_some();
    assert!(runs_away(Rule::FirstAvailable) && runs_away(Rule::MaxComputeUtil) && runs_away(Rule::GoodCacheCompute));
    assert!(!runs_away(Rule::MaxCacheHit));
}

#[test]
fn ours_waits_as_long_as_fetching_would_lose() {
    let mut scheduler = a_task_whose_input_lies_with_a_busy_worker(Rule::Thalweg);
    // 10 bytes at 50 instead of 100 a second.
    let until_s = scheduler.next_release_s().expect("it is held");
    assert!((until_s - 0.1).abs() < 1e-9);
    assert_eq!(scheduler.next(0.05), None);
    assert_eq!(scheduler.next(until_s), Some(Assignment { task: TaskId(1), worker: WorkerId(1) }));
}

/// 10 bytes more: another 0.1 s until fetching would not lose.
#[test]
fn a_task_whose_input_is_larger_than_was_known_waits_longer() {
    let mut scheduler = a_task_whose_input_lies_with_a_busy_worker(Rule::Thalweg);
    scheduler.resize(ItemId(0), 20);
    assert!((scheduler.next_release_s().expect("it is held") - 0.2).abs() < 1e-9);
    assert_eq!(scheduler.overflow(0.0, WorkerId(0)), []);
    scheduler.resize(ItemId(0), 101);
    assert_eq!(scheduler.overflow(0.0, WorkerId(0)), [ItemId(0)]);
    assert_eq!(scheduler.next_release_s(), None);
}

#[test]
fn a_closed_worker_ends_what_it_has_and_gets_no_more() {
    let mut scheduler = Scheduler::new(settings(Rule::Thalweg));
    let worker = scheduler.join(2, 100);
    (0..3).for_each(|task| scheduler.submit(0.0, TaskId(task), &[]));
    assert!(scheduler.next(0.0).is_some());
    scheduler.close(worker);
    assert_eq!(scheduler.next(0.0), None);
    assert!(!scheduler.is_at_rest(worker));
    scheduler.vacate(worker);
    assert_eq!((scheduler.next(0.0), scheduler.slots(), scheduler.busy_slots()), (None, 0, 0));
    assert!(scheduler.is_at_rest(worker));
}

#[test]
fn items_only_a_closed_worker_has_go_to_the_worker_with_most_room() {
    let mut scheduler = Scheduler::new(settings(Rule::Thalweg));
    let items: Vec<ItemId> = (0..3).map(|_| scheduler.add_item(10)).collect();
    let [leaving, _narrow, roomy] = [100, 10, 30].map(|bytes| scheduler.join(1, bytes));
    scheduler.wrote(0.0, leaving, items[0]);
    scheduler.wrote(0.0, leaving, items[1]);
    scheduler.wrote(0.0, roomy, items[1]);
    scheduler.close(leaving);
    assert_eq!(scheduler.last_copies(leaving).collect::<Vec<_>>(), [items[0]]);
    assert_eq!((scheduler.heir(items[0]), scheduler.heir(items[1])), (Some(roomy), None));
}

#[test]
fn of_two_victims_ours_keeps_the_last_copy() {
    let mut scheduler = Scheduler::new(settings(Rule::Thalweg));
    let items: Vec<ItemId> = (0..3).map(|_| scheduler.add_item(10)).collect();
    let (first, second) = (scheduler.join(1, 20), scheduler.join(1, 20));
    scheduler.wrote(0.0, first, items[0]);
    scheduler.wrote(0.0, first, items[1]);
    scheduler.wrote(0.0, second, items[1]);
    // By age the first item would leave.
    let fetch = scheduler.fetch(0.0, first, items[2]);
    assert_eq!(fetch, Fetch { source: Source::Store, kept: true, evicted: vec![items[1]] });
}

#[test]
fn ours_makes_no_second_copy_at_anothers_expense_when_one_of_each_is_all_that_fits() {
    let mut scheduler = Scheduler::new(settings(Rule::Thalweg));
    let items: Vec<ItemId> = (0..2).map(|_| scheduler.add_item(10)).collect();
    scheduler.submit(0.0, TaskId(0), &items);
    let (first, second) = (scheduler.join(1, 10), scheduler.join(1, 10));
    scheduler.wrote(0.0, first, items[0]);
    scheduler.wrote(0.0, second, items[1]);
    let fetch = scheduler.fetch(0.0, second, items[0]);
    assert_eq!(fetch, Fetch { source: Source::Peer(first), kept: false, evicted: Vec::new() });
}

#[test]
fn copies_spread_like_a_tree() {
    let mut scheduler = Scheduler::new(settings(Rule::Thalweg));
    let item = scheduler.add_item(10);
    let workers: Vec<WorkerId> = (0..16).map(|_| scheduler.join(1, 100)).collect();
    let mut behind = BTreeMap::new();
    for &worker in &workers {
        match scheduler.fetch(0.0, worker, item).source {
            Source::Store => assert_eq!(worker, workers[0], "the store is read once"),
            Source::Behind(peer) | Source::Peer(peer) => *behind.entry(peer).or_insert(0) += 1,
        }
    }
    assert!(behind.values().all(|&readers| readers <= 1), "each serves the next: {behind:?}");
}

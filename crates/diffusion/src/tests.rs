//! A plan against workers that lose things: messages cross, transfers fail, workers die and come back with their caches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use policy::cache::{Eviction, ItemId, WorkerId};
use policy::placement::{Costs, Rule, TaskId};
use random::Random;

use crate::{Accesses, Attempt, Order, Plan, Settings};

const COSTS: Costs = Costs {
    store_bytes_per_s: 200.0,
    store_reader_bytes_per_s: 100.0,
    peer_bytes_per_s: 50.0,
    local_bytes_per_s: 100.0,
    link_bytes_per_s: 125.0,
};

fn settings(rule: Rule) -> Settings {
    Settings { rule, eviction: Eviction::Lru, costs: COSTS, store_bytes_per_s: None, seed: 0, guess_bytes: 10 }
}

fn accesses<'a>(inputs: &'a [ItemId], outputs: &'a [ItemId]) -> Accesses<'a> {
    Accesses { inputs, outputs, ..Accesses::default() }
}

#[derive(Default)]
struct Site {
    is_alive: bool,
    slots: usize,
    mail: VecDeque<Order>,
    cache: BTreeSet<ItemId>,
    private: BTreeSet<(Attempt, ItemId)>,
    fetching: Vec<(ItemId, Option<WorkerId>, Option<Attempt>)>,
    tasks: Vec<(TaskId, u32)>,
}

struct World {
    dice: Random,
    plan: Plan,
    sites: BTreeMap<WorkerId, Site>,
    inputs: Vec<Vec<ItemId>>,
    outputs: Vec<ItemId>,
    /// Those that a worker had then.
    cancelled: BTreeSet<TaskId>,
    /// Or cancelled or abandoned, which may wait for others before they end.
    done: Vec<bool>,
    sizes: Vec<u64>,
    now_s: f64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Random::new(seed);
        let plan = Plan::new(settings(Rule::ALL[seed as usize % 5]));
        let sizes = (0..400).map(|_| dice.index(30) as u64).collect();
        let sites = BTreeMap::new();
        let mut world = World {
            dice,
            plan,
            sites,
            inputs: vec![],
            outputs: vec![],
            cancelled: BTreeSet::new(),
            done: vec![],
            sizes,
            now_s: 0.0,
        };
        (0..2 + world.dice.index(4)).for_each(|_| world.join(BTreeSet::new()));
        let tasks = 1 + world.dice.index(60);
        let items = 1 + world.dice.index(12);
        (0..tasks).for_each(|at| world.submit(items, at + 1 == tasks));
        world
    }

    fn join(&mut self, cache: BTreeSet<ItemId>) {
        let slots = 1 + self.dice.index(2);
        let held: Vec<(ItemId, u64)> = cache.iter().map(|&item| (item, self.sizes[item.0 as usize])).collect();
        let bytes = 20 + self.dice.index(80) as u64;
        let worker = self.plan.join(self.now_s, slots as u32, bytes, &held);
        self.sites.insert(worker, Site { is_alive: true, slots, cache, ..Site::default() });
    }

    fn submit(&mut self, items: usize, is_last: bool) {
        let task = self.inputs.len();
        let mut inputs: Vec<ItemId> =
            (0..self.dice.index(3)).map(|_| self.plan.item(&format!("in{}", self.dice.index(items)))).collect();
        if task > 0 && self.dice.index(3) == 0 {
            inputs.push(self.plan.item(&format!("out{}", self.dice.index(task))));
        }
        let written = if self.dice.index(4) == 0 { self.dice.index(task + 1) } else { task };
        let output = self.plan.item(&format!("out{written}"));
        self.plan.submit(self.now_s, accesses(&inputs, &[output]), is_last);
        self.inputs.push(inputs);
        self.outputs.push(output);
        self.done.push(false);
    }

    fn deliver(&mut self) {
        for order in self.plan.orders(self.now_s) {
            let (Order::Run { worker, .. }
            | Order::Fetch { worker, .. }
            | Order::Evict { worker, .. }
            | Order::Recall { worker, .. }) = order;
            self.sites.get_mut(&worker).expect("it joined").mail.push_back(order);
        }
    }

    fn step(&mut self) {
        self.now_s += self.dice.index(100) as f64 * 0.01;
        let alive: Vec<WorkerId> = self.sites.iter().filter(|(_, site)| site.is_alive).map(|(at, _)| *at).collect();
        let worker = alive[self.dice.index(alive.len())];
        match self.dice.index(40) {
            0 if alive.len() > 1 => self.die(worker),
            1 if alive.len() < 8 => self.join(BTreeSet::new()),
            2 => self.damage(worker),
            3 if self.dice.index(4) == 0 => self.cancel(),
            3..=15 => self.read_mail(worker),
            16..=28 => self.transfer(worker),
            _ => self.run(worker),
        }
        self.deliver();
    }

    fn die(&mut self, worker: WorkerId) {
        let site = self.sites.get_mut(&worker).expect("it joined");
        site.is_alive = false;
        let cache = std::mem::take(&mut site.cache);
        for task in self.plan.leave(self.now_s, worker) {
            self.again(task);
        }
        if self.dice.index(2) == 0 {
            self.join(cache);
        }
    }

    fn cancel(&mut self) {
        let task = self.dice.index(self.done.len());
        if self.done[task] {
            return;
        }
        if self.plan.cancel(TaskId(task as u32)) {
            self.end_cancelled(TaskId(task as u32));
        } else {
            self.cancelled.insert(TaskId(task as u32));
        }
    }

    /// Or one that failed for good.
    fn end_cancelled(&mut self, task: TaskId) {
        for ended in self.plan.abandon(self.now_s, task).into_iter().chain([task]) {
            assert!(!std::mem::replace(&mut self.done[ended.0 as usize], true), "{ended:?} ends once");
        }
    }

    fn again(&mut self, task: TaskId) {
        if self.cancelled.contains(&task) {
            self.end_cancelled(task);
        } else {
            self.plan.again(self.now_s, task);
        }
    }

    fn give_back(&mut self, worker: WorkerId, task: TaskId, attempt: u32) {
        if !self.cancelled.contains(&task) {
            self.plan.returned(self.now_s, worker, task, attempt);
            return;
        }
        self.plan.answered(worker);
        if self.plan.ended(worker, task, attempt, None) {
            self.end_cancelled(task);
        }
    }

    fn damage(&mut self, worker: WorkerId) {
        let site = self.sites.get_mut(&worker).expect("it joined");
        if let Some(item) = site.cache.pop_first()
            && self.dice.index(2) == 0
        {
            self.plan.lost(self.now_s, worker, item);
        }
    }

    fn read_mail(&mut self, worker: WorkerId) {
        let site = self.sites.get_mut(&worker).expect("it joined");
        match site.mail.pop_front() {
            Some(Order::Run { task, attempt, .. }) => site.tasks.push((task, attempt)),
            Some(Order::Fetch { item, from, only_for, .. }) => site.fetching.push((item, from, only_for)),
            Some(Order::Evict { items, .. }) => items.iter().for_each(|item| _ = site.cache.remove(item)),
            Some(Order::Recall { task, attempt, .. }) => {
                let found = site.tasks.iter().position(|entry| *entry == (task, attempt));
                match found {
                    Some(at) if self.dice.index(2) == 0 => {
                        site.tasks.remove(at);
                        self.give_back(worker, task, attempt);
                    }
                    _ => self.plan.answered(worker),
                }
            }
            None => {}
        }
    }

    fn transfer(&mut self, worker: WorkerId) {
        let site = self.sites.get_mut(&worker).expect("it joined");
        if site.fetching.is_empty() {
            return;
        }
        let at = self.dice.index(site.fetching.len());
        let (item, from, only_for) = site.fetching.swap_remove(at);
        let has_it = from.is_none_or(|peer| self.sites[&peer].is_alive && self.sites[&peer].cache.contains(&item));
        if !has_it || self.dice.index(8) == 0 {
            self.plan.missed(self.now_s, worker, item, only_for, from);
            return;
        }
        let is_kept = only_for.is_none() && self.dice.index(10) > 0;
        let site = self.sites.get_mut(&worker).expect("it joined");
        match only_for {
            Some(attempt) => _ = site.private.insert((attempt, item)),
            None if is_kept => _ = site.cache.insert(item),
            None => {}
        }
        self.plan.arrived(self.now_s, worker, item, only_for, self.sizes[item.0 as usize], is_kept, 0.1);
    }

    /// Some task whose input is there ends; one that finds some gone says so.
    fn run(&mut self, worker: WorkerId) {
        let site = self.sites.get_mut(&worker).expect("it joined");
        let known = site.tasks.len().min(site.slots + 1);
        if known == 0 {
            return;
        }
        let at = self.dice.index(known);
        let (task, attempt) = site.tasks[at];
        for &item in &self.inputs[task.0 as usize] {
            let is_here = site.cache.contains(&item) || site.private.contains(&((task, attempt), item));
            if is_here || site.fetching.iter().any(|fetch| fetch.0 == item) || !site.mail.is_empty() {
                continue;
            }
            self.plan.missing(self.now_s, worker, task, item);
        }
        let site = self.sites.get_mut(&worker).expect("it joined");
        let is_here = |item: &ItemId| site.cache.contains(item) || site.private.contains(&((task, attempt), *item));
        if !self.inputs[task.0 as usize].iter().all(is_here) {
            return;
        }
        site.tasks.remove(at);
        if !self.plan.ended(worker, task, attempt, Some(0.1)) {
            return;
        }
        match self.dice.index(30) {
            0 => return self.end_cancelled(task),
            1..=3 => return self.again(task),
            _ if self.cancelled.contains(&task) => return self.end_cancelled(task),
            _ => {}
        }
        assert!(!std::mem::replace(&mut self.done[task.0 as usize], true), "{task:?} is done once");
        let output = self.outputs[task.0 as usize];
        let is_adopted = self.dice.index(2) == 0;
        if is_adopted {
            site.cache.insert(output);
        }
        self.plan.wrote(self.now_s, worker, output, self.sizes[output.0 as usize], is_adopted);
        self.plan.done(self.now_s, task);
        self.check_order(task.0 as usize);
    }
}

impl World {
    /// Checks that earlier tasks are done that read or write items that this task writes, or write items that it reads.
    fn check_order(&self, task: usize) {
        let reads = |task: usize, item: ItemId| self.inputs[task].contains(&item);
        for before in 0..task {
            let (written, mine) = (self.outputs[before], self.outputs[task]);
            let is_before = written == mine || reads(before, mine) || reads(task, written);
            assert!(self.done[before] || !is_before, "{task} ran before {before}");
        }
    }
}

/// `THALWEG_SEED=n` has one history again.
#[test]
fn every_task_is_done_once_whatever_is_lost() {
    let one = std::env::var("THALWEG_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in one.map_or(0..1500, |seed| seed..seed + 1) {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.deliver();
            for _ in 0..40_000 {
                world.step();
                if world.done.iter().all(|done| *done) {
                    return true;
                }
            }
            false
        });
        assert!(run.is_ok_and(|all| all), "THALWEG_SEED={seed}");
    }
}

fn run_orders(orders: &[Order]) -> Vec<(WorkerId, TaskId)> {
    let runs = orders.iter().filter_map(|order| match order {
        Order::Run { worker, task, .. } => Some((*worker, *task)),
        _ => None,
    });
    runs.collect()
}

#[test]
fn a_worker_knows_its_next_task_before_it_ends_the_last() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    plan.join(0.0, 1, 100, &[]);
    (0..5).for_each(|_| _ = plan.submit(0.0, accesses(&[], &[]), true));
    assert_eq!(run_orders(&plan.orders(0.0)).len(), 2);
    assert!(plan.ended(WorkerId(0), TaskId(0), 1, Some(10.0)));
    plan.done(0.0, TaskId(0));
    assert_eq!(run_orders(&plan.orders(0.0)).len(), 1);
}

#[test]
fn what_waits_at_one_worker_is_recalled_for_another_that_idles() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let busy = plan.join(0.0, 1, 100, &[]);
    let tasks: Vec<TaskId> = (0..2).map(|_| plan.submit(0.0, accesses(&[], &[]), true)).collect();
    assert_eq!(run_orders(&plan.orders(0.0)), [(busy, tasks[0]), (busy, tasks[1])]);
    let idle = plan.join(0.0, 1, 100, &[]);
    assert_eq!(plan.orders(0.0), [Order::Recall { worker: busy, task: tasks[1], attempt: 1 }]);
    plan.returned(0.0, busy, tasks[1], 1);
    assert_eq!(plan.orders(0.0), [Order::Run { worker: idle, task: tasks[1], attempt: 2, coming: Vec::new() }]);
}

#[test]
fn a_task_waits_for_the_output_it_reads_and_runs_where_that_was_written() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let link = plan.item("link");
    (0..3).for_each(|_| _ = plan.join(0.0, 1, 100, &[]));
    let first = plan.submit(0.0, accesses(&[], &[link]), true);
    let second = plan.submit(0.0, accesses(&[link], &[]), true);
    let orders = run_orders(&plan.orders(0.0));
    assert_eq!((orders.len(), orders[0].1), (1, first));
    let worker = orders[0].0;
    assert!(plan.ended(worker, first, 1, None));
    assert!(plan.orders(0.0).is_empty(), "the output is not yet where it belongs");
    plan.wrote(0.0, worker, link, 10, true);
    plan.done(0.0, first);
    assert_eq!(plan.orders(0.0), [Order::Run { worker, task: second, attempt: 1, coming: Vec::new() }]);
}

#[test]
fn a_task_waits_for_what_is_awaited_beside_its_inputs_and_old_copies_of_those_are_evicted() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let (folder, part) = (plan.item("folder"), plan.item("folder/part"));
    let worker = plan.join(0.0, 1, 100, &[(folder, 10)]);
    let writer = plan.submit(0.0, accesses(&[], &[part]), true);
    let reader = plan.submit(0.0, Accesses { awaited: &[part, part], ..accesses(&[folder], &[]) }, true);
    assert_eq!(run_orders(&plan.orders(0.0)).len(), 1);
    assert!(plan.ended(worker, writer, 1, None));
    plan.outdated(0.0, folder);
    plan.wrote(0.0, worker, part, 10, true);
    plan.done(0.0, writer);
    let orders = plan.orders(0.0);
    assert_eq!(orders[0], Order::Evict { worker, items: vec![folder] });
    assert_eq!(orders[1], Order::Run { worker, task: reader, attempt: 1, coming: vec![folder] });
}

#[test]
fn an_item_in_transfer_while_a_task_rewrites_it_is_evicted_too() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let item = plan.item("file");
    plan.measured(0.0, item, 10);
    let workers = [plan.join(0.0, 1, 100, &[]), plan.join(0.0, 1, 100, &[])];
    plan.submit(0.0, accesses(&[item], &[]), true);
    let reader = run_orders(&plan.orders(0.0))[0].0;
    let writer = if reader == workers[0] { workers[1] } else { workers[0] };
    plan.wrote(0.0, writer, item, 10, true);
    assert_eq!(plan.orders(0.0), [Order::Evict { worker: reader, items: vec![item] }]);
}

/// Of one item, in this order: a writer, two readers, a task that reads and writes it, a writer, a reader.
fn readers_and_writers(plan: &mut Plan) -> Vec<TaskId> {
    let item = plan.item("file");
    let (with, without) = ([item], []);
    let uses: [(&[ItemId], &[ItemId]); 6] =
        [(&without, &with), (&with, &without), (&with, &without), (&with, &with), (&without, &with), (&with, &without)];
    uses.into_iter().map(|(inputs, outputs)| plan.submit(0.0, accesses(inputs, outputs), true)).collect()
}

#[test]
fn tasks_that_read_and_write_one_item_run_in_the_order_of_their_submission() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 9, 100, &[]);
    let tasks = readers_and_writers(&mut plan);
    let (file, mut waves) = (plan.item("file"), Vec::new());
    while waves.len() < 5 {
        let begun: Vec<TaskId> = run_orders(&plan.orders(0.0)).into_iter().map(|(_, task)| task).collect();
        for &task in &begun {
            assert!(plan.ended(worker, task, 1, None));
            if [0, 3, 4].contains(&task.0) {
                plan.wrote(0.0, worker, file, 10, true);
            }
            plan.done(0.0, task);
        }
        waves.push(begun);
    }
    assert_eq!(waves, [&tasks[..1], &tasks[1..3], &tasks[3..4], &tasks[4..5], &tasks[5..]]);
}

#[test]
fn a_reader_fails_with_its_writer_and_a_later_writer_runs_all_the_same() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 9, 100, &[]);
    let tasks = readers_and_writers(&mut plan);
    assert_eq!(run_orders(&plan.orders(0.0)), [(worker, tasks[0])]);
    assert!(plan.ended(worker, tasks[0], 1, None));
    assert_eq!(plan.abandon(0.0, tasks[0]), tasks[1..4]);
    assert_eq!(run_orders(&plan.orders(0.0)), [(worker, tasks[4])]);
}

#[test]
fn a_writer_of_a_folder_waits_for_readers_and_writers_of_its_parts() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 9, 100, &[]);
    let (folder, parts) = (plan.item("folder"), [plan.item("folder/1"), plan.item("folder/2")]);
    let reader = plan.submit(0.0, accesses(&parts[..1], &[]), true);
    let writer = plan.submit(0.0, accesses(&[], &parts[1..]), true);
    let last = plan.submit(0.0, Accesses { displaced: &parts, ..accesses(&[], &[folder]) }, true);
    for (task, next) in [(reader, None), (writer, Some((worker, last)))] {
        let _ = plan.orders(0.0);
        assert!(plan.ended(worker, task, 1, None));
        plan.done(0.0, task);
        assert_eq!(run_orders(&plan.orders(0.0)), Vec::from_iter(next));
    }
}

#[test]
fn tasks_behind_one_that_fails_are_abandoned_with_it() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let links = [plan.item("a"), plan.item("b")];
    let first = plan.submit(0.0, accesses(&[], &[links[0]]), true);
    let second = plan.submit(0.0, accesses(&[links[0]], &[links[1]]), true);
    let third = plan.submit(0.0, accesses(&[links[1]], &[]), true);
    assert_eq!(plan.abandon(0.0, first), [second, third]);
}

#[test]
fn a_task_behind_two_outputs_is_abandoned_once_and_the_other_output_may_still_come() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 2, 100, &[]);
    let links = [plan.item("a"), plan.item("b"), plan.item("c")];
    let fails = plan.submit(0.0, accesses(&[], &links[..2]), true);
    let ends = plan.submit(0.0, accesses(&[], &links[2..]), true);
    let reader = plan.submit(0.0, accesses(&links, &[]), true);
    assert_eq!(run_orders(&plan.orders(0.0)).len(), 2);
    assert!(plan.ended(worker, fails, 1, None));
    assert_eq!(plan.abandon(0.0, fails), [reader]);
    assert!(plan.ended(worker, ends, 1, None));
    plan.done(0.0, ends);
    assert!(plan.orders(0.0).is_empty());
}

#[test]
fn tasks_behind_one_that_was_cancelled_wait_for_those_before_it() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let (a, b) = (plan.item("a"), plan.item("b"));
    plan.join(0.0, 1, 100, &[]);
    plan.join(0.0, 1, 100, &[]);
    let writes_both = plan.submit(0.0, accesses(&[], &[a, b]), true);
    let reads_and_writes = plan.submit(0.0, accesses(&[a], &[b]), true);
    let reads = plan.submit(0.0, accesses(&[b], &[]), true);
    let writes = plan.submit(0.0, accesses(&[], &[b]), true);
    assert_eq!(run_orders(&plan.orders(0.0)), [(WorkerId(0), writes_both)]);
    assert!(plan.cancel(reads_and_writes));
    assert_eq!(plan.abandon(0.0, reads_and_writes), [reads]);
    assert_eq!(run_orders(&plan.orders(0.0)), [], "the first still writes what the last writes");
    assert!(plan.ended(WorkerId(0), writes_both, 1, Some(1.0)));
    plan.done(1.0, writes_both);
    assert_eq!(run_orders(&plan.orders(1.0)).len(), 1);
    assert!(plan.is_current(WorkerId(0), writes, 1) || plan.is_current(WorkerId(1), writes, 1));
}

#[test]
fn cancelled_tasks_take_no_slot_and_no_input() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let input = plan.item("in");
    plan.join(0.0, 1, 100, &[]);
    let tasks: Vec<TaskId> = (0..20).map(|at| plan.submit(0.0, accesses(&[input], &[]), at == 19)).collect();
    let begun: Vec<TaskId> = run_orders(&plan.orders(0.0)).into_iter().map(|(_, task)| task).collect();
    for &task in &tasks {
        assert_eq!(plan.cancel(task), !begun.contains(&task));
        if !begun.contains(&task) {
            assert!(plan.abandon(0.0, task).is_empty());
        }
    }
    // Those that the worker has may not have begun: it is asked for them, once.
    assert!(begun.iter().all(|&task| !plan.cancel(task)));
    let recalled = begun.iter().map(|&task| Order::Recall { worker: WorkerId(0), task, attempt: 1 });
    assert_eq!(plan.orders(0.5), recalled.collect::<Vec<_>>());
    for &task in &begun {
        plan.answered(WorkerId(0));
        assert!(plan.ended(WorkerId(0), task, 1, None));
        plan.abandon(0.0, task);
    }
    assert!(plan.orders(1.0).is_empty());
    let last = plan.submit(1.0, accesses(&[], &[]), true);
    assert_eq!(run_orders(&plan.orders(1.0)), [(WorkerId(0), last)]);
}

#[test]
fn tasks_that_ended_are_forgotten() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 1, 100, &[]);
    for _ in 0..1000 {
        let task = plan.submit(0.0, accesses(&[], &[]), true);
        assert_eq!(run_orders(&plan.orders(0.0)), [(worker, task)]);
        assert!(plan.ended(worker, task, 1, None));
        plan.done(0.0, task);
        // Later reports of it are ignored.
        assert!(!plan.ended(worker, task, 1, None));
        plan.returned(0.0, worker, task, 1);
    }
    assert_eq!(plan.tasks.remembered(), 0);
}

#[test]
fn a_task_waiting_for_a_slot_wakes_no_worker() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let worker = plan.join(0.0, 1, 100, &[]);
    let mut now_s = 0.0;
    let tasks: Vec<TaskId> = (0..1000).map(|_| plan.submit(now_s, accesses(&[], &[]), true)).collect();
    for task in tasks {
        now_s += 0.001;
        let _ = plan.orders(now_s);
        assert!(plan.next_wake_s().is_none_or(|at_s| at_s > now_s), "at {now_s}: {:?}", plan.next_wake_s());
        assert!(plan.ended(worker, task, 1, None));
        plan.done(now_s, task);
    }
}

#[test]
fn as_many_workers_are_wanted_as_what_is_left_needs() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    assert_eq!(plan.wanted_workers(0, 1.0, 5.0, 2), 0);
    let tasks: Vec<TaskId> = (0..20).map(|_| plan.submit(0.0, accesses(&[], &[]), true)).collect();
    assert_eq!(plan.wanted_workers(0, 1.0, 5.0, 2), 2);
    assert_eq!(plan.wanted_workers(0, 100.0, 5.0, 2), 10);
    let worker = plan.join(0.0, 100, 100, &[]);
    assert_eq!(run_orders(&plan.orders(0.0)).len(), 20);
    assert!(!plan.is_idle(worker) && plan.wanted_workers(0, 1.0, 5.0, 100) == 1);
    for task in tasks {
        assert!(plan.ended(worker, task, 1, None));
        plan.done(0.0, task);
    }
    assert!(plan.is_idle(worker) && plan.wanted_workers(0, 1.0, 5.0, 100) == 0);
}

#[test]
fn a_transfer_waits_until_the_peer_has_the_bytes() {
    let mut plan = Plan::new(settings(Rule::Thalweg));
    let item = plan.item("in");
    let workers: Vec<WorkerId> = (0..2).map(|_| plan.join(0.0, 1, 100, &[])).collect();
    (0..4).for_each(|_| _ = plan.submit(0.0, accesses(&[item], &[]), true));
    let orders = plan.orders(0.0);
    let fetches: Vec<&Order> = orders.iter().filter(|order| matches!(order, Order::Fetch { .. })).collect();
    let [Order::Fetch { worker, from: None, .. }] = fetches[..] else { panic!("one reads from the store: {orders:?}") };
    plan.arrived(0.0, *worker, item, None, 10, true, 0.1);
    let later = [plan.orders(0.1), plan.orders(10.0)].concat();
    let other = workers[1 - worker.0 as usize];
    let expected = Order::Fetch { worker: other, item, from: Some(*worker), only_for: None };
    assert!(later.contains(&expected), "{later:?}");
}

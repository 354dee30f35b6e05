//! The plan itself: tasks in, workers in and out, attempts that end, and the orders that follow.

use std::collections::HashMap;

use policy::cache::{Eviction, ItemId, WorkerId};
use policy::placement::{self, Assignment, Costs, Fetch, Rule, Scheduler, TaskId};
use policy::provisioning::Backlog;

use crate::Order;
use crate::items::Items;
use crate::pace::Pace;
use crate::precedence::Accesses;
use crate::store_admission::StoreAdmission;
use crate::tasks::{State, Task, Tasks, Worker};
use crate::transfers::TransferKey;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub rule: Rule,
    pub eviction: Eviction,
    /// Rates until they are measured.
    pub costs: Costs,
    /// The store's rate for all together, if that is known.
    pub store_bytes_per_s: Option<f64>,
    pub seed: u64,
    /// Size of an item while no worker has had any.
    pub guess_bytes: u64,
}

/// A batch smaller than this many tasks a slot is not worth an order of its own.
const BATCH_PER_SLOT: usize = 4;

pub struct Plan {
    pub(crate) scheduler: Scheduler,
    pub(crate) costs: Costs,
    pub(crate) items: Items,
    pub(crate) tasks: Tasks,
    pub(crate) workers: Vec<Worker>,
    pub(crate) transfers: HashMap<TransferKey, Fetch>,
    /// Transfers that begin when an item has arrived at a worker.
    pub(crate) behind: HashMap<(WorkerId, ItemId), Vec<TransferKey>>,
    /// Transfers from the store.
    pub(crate) admission: StoreAdmission,
    /// The store's rate, as it was given.
    pub(crate) store_bytes_per_s: Option<f64>,
    pub(crate) orders: Vec<Order>,
    pub(crate) pace: Pace,
    /// Of a batch that is not yet all here.
    gathered: Vec<TaskId>,
    /// When orders were last asked for.
    asked_s: f64,
}

impl Plan {
    pub fn new(settings: Settings) -> Self {
        let Settings { rule, eviction, costs, store_bytes_per_s, seed, guess_bytes } = settings;
        let window = rule.window();
        Plan {
            scheduler: Scheduler::new(placement::Settings { rule, window, eviction, costs, seed }),
            costs,
            items: Items::new(guess_bytes),
            tasks: Tasks::default(),
            workers: Vec::new(),
            transfers: HashMap::new(),
            behind: HashMap::new(),
            admission: StoreAdmission::default(),
            store_bytes_per_s,
            orders: Vec::new(),
            pace: Pace::default(),
            gathered: Vec::new(),
            asked_s: 0.0,
        }
    }

    /// Returns the item of this name, new or known.
    pub fn item(&mut self, name: &str) -> ItemId {
        if let Some(item) = self.items.find(name) {
            return item;
        }
        let item = self.scheduler.add_item(self.items.expected_bytes());
        self.items.add(name, item);
        item
    }

    /// Returns how many items there are; they are numbered from 0.
    pub fn items(&self) -> usize {
        self.items.len()
    }

    /// Notes that an item's size was learned.
    pub fn measured(&mut self, now_s: f64, item: ItemId, bytes: u64) {
        self.items.measured(item, bytes);
        if self.scheduler.index().bytes(item) == bytes {
            return;
        }
        self.scheduler.resize(item, bytes);
        for (holder, _) in self.scheduler.index().holders(item).collect::<Vec<_>>() {
            let evicted = self.scheduler.overflow(now_s, holder);
            self.order_eviction(holder, &evicted);
        }
    }

    /// A worker with this in its cache.
    pub fn join(&mut self, now_s: f64, slots: u32, cache_bytes: u64, held: &[(ItemId, u64)]) -> WorkerId {
        let depth = slots * (1 + self.pace.ahead());
        let worker = self.scheduler.join(depth, cache_bytes);
        self.workers.push(Worker { slots, depth, held_back: 0, assigned: Vec::new(), recalls: 0, is_open: true });
        for &(item, bytes) in held {
            self.measured(now_s, item, bytes);
            self.enter(now_s, worker, item);
        }
        worker
    }

    /// Removes a worker that is gone, with its cache. Returns the tasks that were lost with it.
    pub fn leave(&mut self, now_s: f64, worker: WorkerId) -> Vec<TaskId> {
        let entry = &mut self.workers[worker.0 as usize];
        if !std::mem::replace(&mut entry.is_open, false) {
            return Vec::new();
        }
        entry.held_back = 0;
        let lost = std::mem::take(&mut entry.assigned);
        for &task in &lost {
            let task = &mut self.tasks[task.0 as usize];
            task.state = State::Waiting;
            task.pinned.clear();
        }
        let mut ended: Vec<TransferKey> = self.transfers.keys().filter(|key| key.worker == worker).copied().collect();
        ended.sort_unstable();
        self.scheduler.close(worker);
        for item in self.scheduler.index().held_by(worker).collect::<Vec<_>>() {
            if self.scheduler.index().is_here(worker, item) {
                self.scheduler.drop_replica(now_s, worker, item);
            }
        }
        self.fetch_again(now_s, ended);
        self.scheduler.leave(now_s, worker);
        lost
    }

    /// Adds a task, which waits for those before it that read or write the same. Of a batch it waits for the rest of it
    /// until `is_last`, if it has input to share.
    pub fn submit(&mut self, now_s: f64, accesses: Accesses, is_last: bool) -> TaskId {
        let task = TaskId(self.tasks.ever() as u32);
        let inputs = accesses.inputs;
        let mut entry = Task::new(inputs);
        let before = self.follow_others(task, &accesses);
        if before > 0 {
            entry.state = State::Blocked(before);
        } else if inputs.is_empty() {
            self.scheduler.submit(now_s, task, inputs);
        } else {
            self.gathered.push(task);
        }
        self.tasks.push(entry);
        if is_last {
            self.submit_gathered(now_s);
        }
        task
    }

    /// Tasks with input at some worker go there by the queue; cold ones are ordered, so that neighbours share input.
    fn submit_gathered(&mut self, now_s: f64) {
        let index = self.scheduler.index();
        let is_known = |item: &ItemId| index.copies(*item) + index.arriving(*item) > 0;
        let gathered = std::mem::take(&mut self.gathered);
        let is_large = gathered.len() > BATCH_PER_SLOT * self.scheduler.slots() as usize;
        let (warm, cold): (Vec<TaskId>, Vec<TaskId>) =
            gathered.into_iter().partition(|task| !is_large || self.tasks[task.0 as usize].inputs.iter().any(is_known));
        for task in warm {
            self.scheduler.submit(now_s, task, &self.tasks[task.0 as usize].inputs);
        }
        let tasks = &self.tasks;
        self.scheduler.submit_batch(now_s, cold.iter().map(|&task| (task, &*tasks[task.0 as usize].inputs)));
    }

    /// Ends an attempt, well or not, after `seconds` in its slot. Returns whether it is the one that counts.
    pub fn ended(&mut self, worker: WorkerId, task: TaskId, attempt: u32, seconds: Option<f64>) -> bool {
        if !self.is_current(worker, task, attempt) {
            return false;
        }
        self.unassign(worker, task);
        self.tasks[task.0 as usize].state = State::Waiting;
        if let Some(seconds) = seconds {
            self.pace.task(seconds);
        }
        true
    }

    /// A task whose attempt came to nothing waits for another.
    pub fn again(&mut self, now_s: f64, task: TaskId) {
        let entry = &self.tasks[task.0 as usize];
        assert_eq!(entry.state, State::Waiting, "it ended, and is not done");
        self.scheduler.submit(now_s, task, &entry.inputs);
    }

    /// Notes that a task's output is in the store now, and in this worker's cache if it `is_adopted`; older copies are
    /// stale.
    pub fn wrote(&mut self, now_s: f64, worker: WorkerId, item: ItemId, bytes: u64, is_adopted: bool) {
        self.drop_copies(now_s, item, Some(worker));
        self.measured(now_s, item, bytes);
        if is_adopted && self.workers[worker.0 as usize].is_open && !self.enter(now_s, worker, item) {
            self.order_eviction(worker, &[item]);
        }
    }

    /// A task wrote something that the item has as a part, or is a part of: all copies of the item are stale.
    pub fn outdated(&mut self, now_s: f64, item: ItemId) {
        self.drop_copies(now_s, item, None);
    }

    /// The writer has evicted its own. A worker to which the item is on its way fetches it again on its eviction order.
    fn drop_copies(&mut self, now_s: f64, item: ItemId, writer: Option<WorkerId>) {
        for (holder, _) in self.scheduler.index().holders(item).collect::<Vec<_>>() {
            if self.scheduler.index().is_here(holder, item) {
                self.forget(now_s, holder, item);
            }
            if Some(holder) != writer {
                self.order_eviction(holder, &[item]);
            }
        }
    }

    fn enter(&mut self, now_s: f64, worker: WorkerId, item: ItemId) -> bool {
        let entered = self.scheduler.wrote(now_s, worker, item);
        self.order_eviction(worker, &entered.evicted);
        entered.kept
    }

    /// Cancels the task. Returns whether it waited: then `abandon` it. One that a worker has is recalled: if it has not
    /// begun, the worker gives it back, for `ended`.
    pub fn cancel(&mut self, task: TaskId) -> bool {
        let Some(entry) = self.tasks.get_mut(task.0 as usize) else { return false };
        if let State::Assigned(worker) = entry.state {
            if !entry.is_recalled {
                self.recall(worker, task);
            }
            return false;
        }
        self.gathered.retain(|other| *other != task);
        true
    }

    /// Returns all orders to workers, in order.
    pub fn orders(&mut self, now_s: f64) -> Vec<Order> {
        self.asked_s = now_s;
        self.costs = self.pace.corrected(self.costs);
        self.scheduler.set_costs(self.costs);
        self.deepen();
        self.resume();
        self.assign(now_s);
        self.balance();
        self.read_from_store(now_s);
        std::mem::take(&mut self.orders)
    }

    fn assign(&mut self, now_s: f64) {
        while let Some(Assignment { task, worker }) = self.scheduler.next(now_s) {
            if self.tasks.get(task.0 as usize).is_none_or(|task| task.state == State::Ended) {
                // Abandoned.
                self.scheduler.vacate(worker);
                continue;
            }
            self.start(now_s, task, worker);
            self.apply_backpressure(worker);
        }
    }

    /// Returns when to ask for orders again, though nothing should happen until then. A task held longer than that
    /// waits for a slot, and the end of the one in it will be reported.
    pub fn next_wake_s(&self) -> Option<f64> {
        self.scheduler.next_release_s().filter(|at_s| *at_s > self.asked_s)
    }

    /// Returns the bytes that all caches would lose with this worker.
    pub fn last_copy_bytes(&self, worker: WorkerId) -> u64 {
        self.scheduler.last_copy_bytes(worker)
    }

    /// Whether it runs nothing and is to run nothing.
    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.workers[worker.0 as usize].assigned.is_empty()
    }

    /// Returns how many workers there should be, when a task takes `task_s` and all is to be done in `drain_s`, also
    /// `more` tasks that were not submitted yet.
    pub fn wanted_workers(&self, more: u64, task_s: f64, drain_s: f64, slots_per_worker: u32) -> u32 {
        let assigned = self.workers.iter().map(|worker| worker.assigned.len());
        let backlog = Backlog {
            tasks: more + (self.scheduler.waiting_for_slots() + assigned.clone().sum::<usize>()) as u64,
            task_s,
            drain_s,
            slots_per_node: slots_per_worker,
            busy_nodes: assigned.filter(|tasks| *tasks > 0).count() as u32,
        };
        backlog.nodes()
    }

    /// Returns the holders of the item.
    pub fn holders(&self, item: ItemId) -> Vec<WorkerId> {
        let holders = self.scheduler.index().holders(item).map(|(worker, _)| worker);
        holders.filter(|&worker| self.scheduler.index().is_here(worker, item)).collect()
    }

    fn deepen(&mut self) {
        let ahead = self.pace.ahead();
        for (at, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| worker.is_open) {
            let depth = worker.slots * (1 + ahead);
            if depth > worker.depth {
                self.scheduler.widen(WorkerId(at as u32), depth - worker.depth);
                worker.depth = depth;
            }
        }
    }

    pub(crate) fn start(&mut self, now_s: f64, task: TaskId, worker: WorkerId) {
        let entry = &mut self.tasks[task.0 as usize];
        entry.state = State::Assigned(worker);
        entry.attempt += 1;
        entry.is_recalled = false;
        let (attempt, inputs) = (entry.attempt, entry.inputs.clone());
        self.workers[worker.0 as usize].assigned.push(task);
        let place = self.orders.len();
        self.orders.push(Order::Run { worker, task, attempt, coming: Vec::new() });
        let mut awaited = Vec::new();
        for (at, &item) in inputs.iter().enumerate() {
            if !inputs[..at].contains(&item) && self.need(now_s, worker, task, item) {
                awaited.push(item);
            }
        }
        if let Order::Run { coming, .. } = &mut self.orders[place] {
            *coming = awaited;
        }
    }

    pub(crate) fn is_current(&self, worker: WorkerId, task: TaskId, attempt: u32) -> bool {
        let entry = self.tasks.get(task.0 as usize);
        entry.is_some_and(|entry| entry.is_on(worker) && entry.attempt == attempt)
    }

    pub(crate) fn unassign(&mut self, worker: WorkerId, task: TaskId) {
        self.give_up_private(worker, task);
        for item in std::mem::take(&mut self.tasks[task.0 as usize].pinned) {
            self.scheduler.done_with(worker, item);
        }
        let assigned = &mut self.workers[worker.0 as usize].assigned;
        let at = assigned.iter().position(|other| *other == task).expect("it is assigned there");
        assigned.remove(at);
        self.scheduler.vacate(worker);
    }
}

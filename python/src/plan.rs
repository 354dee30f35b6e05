//! The plan of a run of data diffusion as Python sees it: names and numbers in, orders out. Its logic is in
//! `diffusion`.

use diffusion::{Accesses, Attempt, Order, Settings};
use policy::cache::{Eviction, ItemId, WorkerId};
use policy::placement::{Costs, Rule, TaskId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::misuse;

/// A store of which nothing is known: the policy then does not count its readers.
const UNLIMITED_BYTES_PER_S: f64 = 1e12;

/// Used by one thread at a time.
#[pyclass(module = "thalweg._thalweg")]
pub struct Plan {
    plan: diffusion::Plan,
}

/// Run this attempt of a task; the items of `coming` are not there yet, and fetches follow.
#[pyclass(module = "thalweg._thalweg", frozen, get_all)]
pub struct RunOrder {
    worker: u32,
    task: u32,
    attempt: u32,
    coming: Vec<u32>,
}

/// Fetch an item from a peer, or from the store without one. With `only_for`, a task and its attempt, it is not kept.
#[pyclass(module = "thalweg._thalweg", frozen, get_all)]
pub struct FetchOrder {
    worker: u32,
    item: u32,
    peer: Option<u32>,
    only_for: Option<(u32, u32)>,
}

/// Remove items from the worker's cache.
#[pyclass(module = "thalweg._thalweg", frozen, get_all)]
pub struct EvictOrder {
    worker: u32,
    items: Vec<u32>,
}

/// Give an attempt back, if it has not begun.
#[pyclass(module = "thalweg._thalweg", frozen, get_all)]
pub struct RecallOrder {
    worker: u32,
    task: u32,
    attempt: u32,
}

/// An order as an object of its kind's class.
#[derive(IntoPyObject)]
enum PythonOrder {
    Run(RunOrder),
    Fetch(FetchOrder),
    Evict(EvictOrder),
    Recall(RecallOrder),
}

impl From<Order> for PythonOrder {
    fn from(order: Order) -> Self {
        let numbers = |items: Vec<ItemId>| items.into_iter().map(|item| item.0).collect();
        match order {
            Order::Run { worker, task, attempt, coming } => {
                Self::Run(RunOrder { worker: worker.0, task: task.0, attempt, coming: numbers(coming) })
            }
            Order::Fetch { worker, item, from, only_for } => Self::Fetch(FetchOrder {
                worker: worker.0,
                item: item.0,
                peer: from.map(|peer| peer.0),
                only_for: only_for.map(|(task, attempt)| (task.0, attempt)),
            }),
            Order::Evict { worker, items } => Self::Evict(EvictOrder { worker: worker.0, items: numbers(items) }),
            Order::Recall { worker, task, attempt } => {
                Self::Recall(RecallOrder { worker: worker.0, task: task.0, attempt })
            }
        }
    }
}

fn items(numbers: Vec<u32>) -> Vec<ItemId> {
    numbers.into_iter().map(ItemId).collect()
}

fn attempt(numbers: Option<(u32, u32)>) -> Option<Attempt> {
    numbers.map(|(task, attempt)| (TaskId(task), attempt))
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (policy, eviction, *, seed, store_bytes_per_s, stream_bytes_per_s, peer_bytes_per_s,
        link_bytes_per_s, local_bytes_per_s, guess_bytes))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        policy: &str,
        eviction: &str,
        seed: u64,
        store_bytes_per_s: Option<f64>,
        stream_bytes_per_s: f64,
        peer_bytes_per_s: f64,
        link_bytes_per_s: f64,
        local_bytes_per_s: f64,
        guess_bytes: u64,
    ) -> PyResult<Self> {
        let rule: Rule = policy.parse().map_err(misuse::<PyValueError>)?;
        let eviction: Eviction = eviction.parse().map_err(misuse::<PyValueError>)?;
        let costs = Costs {
            store_bytes_per_s: store_bytes_per_s.unwrap_or(UNLIMITED_BYTES_PER_S),
            store_reader_bytes_per_s: stream_bytes_per_s,
            peer_bytes_per_s,
            local_bytes_per_s,
            link_bytes_per_s,
        };
        let plan = diffusion::Plan::new(Settings { rule, eviction, costs, store_bytes_per_s, seed, guess_bytes });
        Ok(Plan { plan })
    }

    fn item(&mut self, name: &str) -> u32 {
        self.plan.item(name).0
    }

    fn join(&mut self, now_s: f64, slots: u32, cache_bytes: u64, held: Vec<(u32, u64)>) -> u32 {
        let held: Vec<(ItemId, u64)> = held.into_iter().map(|(item, bytes)| (ItemId(item), bytes)).collect();
        self.plan.join(now_s, slots, cache_bytes, &held).0
    }

    fn leave(&mut self, now_s: f64, worker: u32) -> Vec<u32> {
        self.plan.leave(now_s, WorkerId(worker)).into_iter().map(|task| task.0).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn submit(
        &mut self,
        now_s: f64,
        inputs: Vec<u32>,
        awaited: Vec<u32>,
        outputs: Vec<u32>,
        displaced: Vec<u32>,
        is_last: bool,
    ) -> u32 {
        let [inputs, awaited, outputs, displaced] = [inputs, awaited, outputs, displaced].map(items);
        let accesses = Accesses { inputs: &inputs, awaited: &awaited, outputs: &outputs, displaced: &displaced };
        self.plan.submit(now_s, accesses, is_last).0
    }

    #[allow(clippy::too_many_arguments)]
    fn arrived(
        &mut self,
        now_s: f64,
        worker: u32,
        item: u32,
        only_for: Option<(u32, u32)>,
        bytes: u64,
        is_kept: bool,
        seconds: f64,
    ) {
        self.plan.arrived(now_s, WorkerId(worker), ItemId(item), attempt(only_for), bytes, is_kept, seconds);
    }

    fn missed(&mut self, now_s: f64, worker: u32, item: u32, only_for: Option<(u32, u32)>, peer: Option<u32>) {
        self.plan.missed(now_s, WorkerId(worker), ItemId(item), attempt(only_for), peer.map(WorkerId));
    }

    fn lost(&mut self, now_s: f64, worker: u32, item: u32) {
        self.plan.lost(now_s, WorkerId(worker), ItemId(item));
    }

    fn missing(&mut self, now_s: f64, worker: u32, task: u32, item: u32) {
        self.plan.missing(now_s, WorkerId(worker), TaskId(task), ItemId(item));
    }

    fn returned(&mut self, now_s: f64, worker: u32, task: u32, attempt: u32) {
        self.plan.returned(now_s, WorkerId(worker), TaskId(task), attempt);
    }

    fn answered(&mut self, worker: u32) {
        self.plan.answered(WorkerId(worker));
    }

    fn ended(&mut self, worker: u32, task: u32, attempt: u32, seconds: Option<f64>) -> bool {
        self.plan.ended(WorkerId(worker), TaskId(task), attempt, seconds)
    }

    fn again(&mut self, now_s: f64, task: u32) {
        self.plan.again(now_s, TaskId(task));
    }

    fn wrote(&mut self, now_s: f64, worker: u32, item: u32, bytes: u64, is_adopted: bool) {
        self.plan.wrote(now_s, WorkerId(worker), ItemId(item), bytes, is_adopted);
    }

    fn outdated(&mut self, now_s: f64, item: u32) {
        self.plan.outdated(now_s, ItemId(item));
    }

    fn done(&mut self, now_s: f64, task: u32) {
        self.plan.done(now_s, TaskId(task));
    }

    fn cancel(&mut self, task: u32) -> bool {
        self.plan.cancel(TaskId(task))
    }

    fn abandon(&mut self, now_s: f64, task: u32) -> Vec<u32> {
        self.plan.abandon(now_s, TaskId(task)).into_iter().map(|task| task.0).collect()
    }

    fn orders(&mut self, now_s: f64) -> Vec<PythonOrder> {
        self.plan.orders(now_s).into_iter().map(PythonOrder::from).collect()
    }

    fn next_wake_s(&self) -> Option<f64> {
        self.plan.next_wake_s()
    }

    fn last_copy_bytes(&self, worker: u32) -> u64 {
        self.plan.last_copy_bytes(WorkerId(worker))
    }

    fn is_idle(&self, worker: u32) -> bool {
        self.plan.is_idle(WorkerId(worker))
    }

    fn wanted_workers(&self, more: u64, task_s: f64, drain_s: f64, slots_per_worker: u32) -> u32 {
        self.plan.wanted_workers(more, task_s, drain_s, slots_per_worker)
    }
}

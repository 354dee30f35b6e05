//! Inputs on their way: which, to which worker, for which task, and which wait behind them.

use policy::cache::{Holding, ItemId, WorkerId};
use policy::placement::{Fetch, Source, TaskId};

use crate::plan::Plan;
use crate::{Attempt, Order};

/// Of the store, on one worker, until something is known of the store.
const READERS: u32 = 4;

/// One transfer. Items that enter a cache are for all tasks there; others are for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransferKey {
    pub worker: WorkerId,
    pub item: ItemId,
    pub only_for: Option<Attempt>,
}

impl Plan {
    /// Notes that the worker has the item's bytes. `is_kept`: they entered its cache.
    #[allow(clippy::too_many_arguments)]
    pub fn arrived(
        &mut self,
        now_s: f64,
        worker: WorkerId,
        item: ItemId,
        only_for: Option<Attempt>,
        bytes: u64,
        is_kept: bool,
        seconds: f64,
    ) {
        self.measured(now_s, item, bytes);
        let key = TransferKey { worker, item, only_for };
        let since_s = self.admission.since_s(&key);
        let Some(fetch) = self.end_transfer(&key) else { return };
        match fetch.source {
            Source::Store => {
                // With the way of order and report: meanwhile nothing else is read in its place.
                let span_s = since_s.map_or(seconds, |since_s| now_s - since_s);
                self.pace.read_from_store(now_s, bytes, span_s, self.admission.is_idle());
            }
            Source::Peer(_) | Source::Behind(_) => self.pace.read_from_peer(bytes, seconds),
        }
        self.scheduler.fetched(now_s, worker, item, &fetch);
        if !fetch.kept {
            return;
        }
        let behind = self.behind.remove(&(worker, item)).unwrap_or_default();
        if is_kept {
            behind.into_iter().for_each(|key| self.order_fetch(key, Some(worker)));
        } else {
            self.forget(now_s, worker, item);
            self.fetch_again(now_s, behind);
        }
    }

    /// Notes that the worker could not get the item from its source; a peer that failed is taken not to have it.
    pub fn missed(
        &mut self,
        now_s: f64,
        worker: WorkerId,
        item: ItemId,
        only_for: Option<Attempt>,
        from: Option<WorkerId>,
    ) {
        if let Some(peer) = from {
            self.lost(now_s, peer, item);
            self.orders.push(Order::Evict { worker: peer, items: vec![item] });
        }
        let key = TransferKey { worker, item, only_for };
        if self.transfers.contains_key(&key) {
            self.fetch_again(now_s, vec![key]);
        }
    }

    /// Notes that a cached copy is gone without an order to evict it.
    pub fn lost(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        if self.scheduler.index().is_here(worker, item) {
            self.forget(now_s, worker, item);
        }
    }

    /// Notes that a task found one of its inputs gone.
    pub fn missing(&mut self, now_s: f64, worker: WorkerId, task: TaskId, item: ItemId) {
        let Some(entry) = self.tasks.get(task.0 as usize) else { return };
        if entry.is_on(worker) && entry.inputs.contains(&item) {
            self.lost(now_s, worker, item);
            self.need(now_s, worker, task, item);
        }
    }

    /// Gives whether the task has to wait for it.
    pub(crate) fn need(&mut self, now_s: f64, worker: WorkerId, task: TaskId, item: ItemId) -> bool {
        match self.scheduler.index().holding(worker, item) {
            Some(holding) => {
                self.pin(worker, task, item);
                holding == Holding::Arriving
            }
            None => {
                self.fetch(now_s, worker, task, item);
                true
            }
        }
    }

    fn fetch(&mut self, now_s: f64, worker: WorkerId, task: TaskId, item: ItemId) {
        let attempt = (task, self.tasks[task.0 as usize].attempt);
        if self.transfers.contains_key(&TransferKey { worker, item, only_for: Some(attempt) }) {
            return;
        }
        let fetch = self.scheduler.fetch(now_s, worker, item);
        self.order_eviction(worker, &fetch.evicted);
        if fetch.kept {
            self.pin(worker, task, item);
        }
        let key = TransferKey { worker, item, only_for: (!fetch.kept).then_some(attempt) };
        let source = fetch.source;
        self.transfers.insert(key, fetch);
        match source {
            Source::Store => self.order_fetch(key, None),
            Source::Peer(peer) => self.order_fetch(key, Some(peer)),
            Source::Behind(peer) => self.behind.entry((peer, item)).or_default().push(key),
        }
    }

    /// A fetch from the store may have to wait.
    fn order_fetch(&mut self, key: TransferKey, from: Option<WorkerId>) {
        if from.is_none() {
            self.admission.enter(key);
            return;
        }
        let TransferKey { worker, item, only_for } = key;
        self.orders.push(Order::Fetch { worker, item, from, only_for });
    }

    /// Begins as many as the store's rate allows.
    pub(crate) fn read_from_store(&mut self, now_s: f64) {
        let open = self.workers.iter().filter(|worker| worker.is_open);
        let (workers, slots) = open.fold((0, 0), |sums, worker| (sums.0 + 1, sums.1 + worker.slots.min(READERS)));
        let limit = self.pace.store_readers(workers, slots as usize, self.store_bytes_per_s);
        while let Some(TransferKey { worker, item, only_for }) = self.admission.next(now_s, limit) {
            self.pace.reads_from_store(now_s);
            self.orders.push(Order::Fetch { worker, item, from: None, only_for });
        }
    }

    fn end_transfer(&mut self, key: &TransferKey) -> Option<Fetch> {
        let fetch = self.transfers.remove(key)?;
        if fetch.source == Source::Store {
            self.admission.leave(key);
        }
        Some(fetch)
    }

    pub(crate) fn order_eviction(&mut self, worker: WorkerId, items: &[ItemId]) {
        if !items.is_empty() {
            self.orders.push(Order::Evict { worker, items: items.to_vec() });
        }
    }

    /// Ends failed transfers and all that wait behind them; then the tasks that still want the items ask again. All end
    /// before the first asks, or two could wait behind each other.
    pub(crate) fn fetch_again(&mut self, now_s: f64, mut failed: Vec<TransferKey>) {
        let mut wanting: Vec<(WorkerId, TaskId, ItemId)> = Vec::new();
        let mut at = 0;
        while at < failed.len() {
            let TransferKey { worker, item, only_for } = failed[at];
            at += 1;
            let Some(fetch) = self.end_transfer(&failed[at - 1]) else { continue };
            match only_for {
                Some((task, attempt)) if self.is_current(worker, task, attempt) => wanting.push((worker, task, item)),
                Some(_) => {}
                None => {
                    wanting.extend(self.unpin_all(worker, item).into_iter().map(|task| (worker, task, item)));
                    failed.extend(self.behind.remove(&(worker, item)).unwrap_or_default());
                }
            }
            self.stand_behind_no_more(&failed[at - 1], fetch.source);
            self.scheduler.fetch_failed(now_s, worker, item, &fetch);
        }
        for (worker, task, item) in wanting {
            if self.tasks[task.0 as usize].is_on(worker) {
                self.need(now_s, worker, task, item);
            }
        }
    }

    /// Gives up transfers for this attempt alone: they are of no use any more, whether they still arrive or not.
    pub(crate) fn give_up_private(&mut self, worker: WorkerId, task: TaskId) {
        let attempt = (task, self.tasks[task.0 as usize].attempt);
        for item in self.tasks[task.0 as usize].inputs.clone() {
            let key = TransferKey { worker, item, only_for: Some(attempt) };
            if let Some(fetch) = self.end_transfer(&key) {
                self.stand_behind_no_more(&key, fetch.source);
                // Nothing was to enter the cache, so nothing becomes of the time.
                self.scheduler.fetch_failed(0.0, worker, item, &fetch);
            }
        }
    }

    fn stand_behind_no_more(&mut self, key: &TransferKey, source: Source) {
        if let Source::Behind(peer) = source
            && let Some(behind) = self.behind.get_mut(&(peer, key.item))
        {
            behind.retain(|other| other != key);
        }
    }

    pub(crate) fn forget(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        self.unpin_all(worker, item);
        self.scheduler.drop_replica(now_s, worker, item);
    }

    /// Removes the replica, and its pins with it: returns the tasks that had pinned it.
    fn unpin_all(&mut self, worker: WorkerId, item: ItemId) -> Vec<TaskId> {
        let mut unpinned = Vec::new();
        for &task in &self.workers[worker.0 as usize].assigned {
            let pinned = &mut self.tasks[task.0 as usize].pinned;
            if let Some(at) = pinned.iter().position(|other| *other == item) {
                pinned.swap_remove(at);
                unpinned.push(task);
            }
        }
        unpinned
    }

    fn pin(&mut self, worker: WorkerId, task: TaskId, item: ItemId) {
        let pinned = &mut self.tasks[task.0 as usize].pinned;
        if !pinned.contains(&item) {
            pinned.push(item);
            self.scheduler.read_here(worker, item);
        }
    }
}

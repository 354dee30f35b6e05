//! The scheduler: events in (a task came, a slot is free, a replica is there or gone), decisions out.
//!
//! After each event the caller takes decisions with [`Scheduler::next`] until there is none. A decision costs about
//! one step a replica of its task's input; nothing is looked through. `tests` holds it against an oracle that does
//! look through everything. Times are seconds of the caller's clock and never go back.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::cache::{Eviction, Index, ItemId, WorkerId};

use super::candidates::{Candidate, FULL};
use super::line::{Entry, Line};
use super::queue::{Locality, Queue};
use super::workers::Workers;
use super::{Assignment, Batch, Costs, Rule, TaskId};

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub rule: Rule,
    /// Waiting tasks that are considered; see [`Rule::window`].
    pub window: usize,
    pub eviction: Eviction,
    pub costs: Costs,
    /// For [`Eviction::Random`].
    pub seed: u64,
}

pub struct Scheduler {
    pub(super) settings: Settings,
    pub(super) index: Index,
    pub(super) queue: Queue,
    pub(super) workers: Workers,
    batch: Batch,
    /// By their place in the queue.
    cold: Line,
    /// Items by the cold tasks they lead, for ours.
    leading: BTreeSet<(Reverse<u32>, ItemId)>,
    /// By when they may run elsewhere, for ours.
    held: Line,
    pub(super) store_readers: u32,
    cold_starts: u64,
    pub(super) cached_bytes: u64,
}

/// Of this many cold starts one is for the task that waits longest, lest one that waits alone never starts.
const OLDEST_EVERY: u64 = 4;

impl Scheduler {
    pub fn new(settings: Settings) -> Self {
        Scheduler {
            settings,
            index: Index::new(settings.eviction, settings.seed),
            queue: Queue::new(),
            workers: Workers::new(),
            batch: Batch::default(),
            cold: Line::default(),
            leading: BTreeSet::new(),
            held: Line::default(),
            store_readers: 0,
            cold_starts: 0,
            cached_bytes: 0,
        }
    }

    pub fn add_item(&mut self, bytes: u64) -> ItemId {
        self.index.add_item(bytes)
    }

    /// Reserves room for so many items and replicas without slack.
    pub fn reserve(&mut self, items: usize, replicas: usize) {
        self.index.reserve(items, replicas);
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Adds a worker with an empty cache.
    pub fn join(&mut self, slots: u32, cache_bytes: u64) -> WorkerId {
        let worker = self.workers.join(slots);
        assert_eq!(worker, self.index.add_worker(cache_bytes));
        self.cached_bytes += cache_bytes;
        self.batch.join(worker, slots);
        worker
    }

    /// Notes that the worker is to leave: it gets no more tasks, but ends those it has and serves its cache till it
    /// does.
    pub fn close(&mut self, worker: WorkerId) {
        self.workers.close(worker, &self.queue);
        self.batch.leave(worker);
    }

    /// Notes that the worker is gone, with its cache and with what ran there; the caller submits that again.
    pub fn leave(&mut self, now_s: f64, worker: WorkerId) {
        self.cached_bytes -= self.index.capacity_bytes(worker);
        self.workers.leave(worker, &self.queue);
        self.batch.leave(worker);
        for item in self.index.held_by(worker).collect::<Vec<_>>() {
            self.drop_replica(now_s, worker, item);
        }
        self.index.remove_worker(worker);
    }

    /// Returns the tasks that wait for a worker.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.batch.len()
    }

    /// Returns those of them that more slots would help: not those that wait for a crowded store.
    pub fn waiting_for_slots(&self) -> usize {
        if !self.settings.rule.is_ours() {
            return self.waiting();
        }
        let is_crowded = self.store_readers >= self.settings.costs.store_readers();
        self.batch.len() + self.held.len() + if is_crowded { 0 } else { self.cold.len() }
    }

    pub fn busy_slots(&self) -> u32 {
        self.workers.busy
    }

    pub fn slots(&self) -> u32 {
        self.workers.slots
    }

    pub fn free_slots_of(&self, worker: WorkerId) -> u32 {
        self.workers.get(worker).free
    }

    /// Returns whether the worker may be released: it runs nothing, waits for nothing and serves no peer.
    pub fn is_at_rest(&self, worker: WorkerId) -> bool {
        let worker = self.workers.get(worker);
        worker.free == worker.slots && worker.serving == 0 && worker.awaiting == 0
    }

    pub fn submit(&mut self, now_s: f64, task: TaskId, inputs: &[ItemId]) {
        self.queue.submit(task, inputs);
        inputs.iter().for_each(|&item| self.index.name(item));
        self.fill_window(now_s);
    }

    /// Submits all tasks of a batch at once, for the workers there are: ordered so that neighbours share input
    /// ([`Batch`]). Other rules than ours take them one by one.
    pub fn submit_batch<'a>(&mut self, now_s: f64, tasks: impl Iterator<Item = (TaskId, &'a [ItemId])>) {
        if self.settings.rule.is_ours() {
            self.batch.fill(tasks);
        } else {
            tasks.for_each(|(task, inputs)| self.submit(now_s, task, inputs));
        }
    }

    /// Gives the worker a task that the caller chose; it must have a free slot.
    pub fn occupy(&mut self, worker: WorkerId) {
        self.workers.occupy(worker, &self.queue);
    }

    /// Notes that the worker takes so many tasks more at once than it did.
    pub fn widen(&mut self, worker: WorkerId, slots: u32) {
        self.workers.widen(worker, slots, &self.queue);
    }

    /// Rates as they were measured since. Tasks that are held already wait as long as they were to.
    pub fn set_costs(&mut self, costs: Costs) {
        self.settings.costs = costs;
    }

    /// Notes that the task that had the slot is done with it.
    pub fn vacate(&mut self, worker: WorkerId) {
        self.workers.vacate(worker, &self.queue);
    }

    /// Returns the next decision, if any is due.
    pub fn next(&mut self, now_s: f64) -> Option<Assignment> {
        if !self.settings.rule.uses_caches() {
            let worker = self.workers.first_idle()?;
            let task = self.queue.take_beyond()?;
            self.workers.occupy(worker, &self.queue);
            return Some(Assignment { task, worker });
        }
        if let Some((candidate, worker)) = self.workers.best_offer(&self.queue) {
            return Some(self.assign(now_s, candidate.slot, worker));
        }
        let worker = self.workers.first_idle()?;
        if let Some(task) = self.batch.take(worker) {
            self.workers.occupy(worker, &self.queue);
            return Some(Assignment { task, worker });
        }
        let slot = if self.settings.rule.is_ours() { self.dear(now_s) } else { self.below_threshold() }?;
        Some(self.assign(now_s, slot, worker))
    }

    /// Returns when the first held task may run elsewhere, if one is held.
    pub fn next_release_s(&self) -> Option<f64> {
        self.held.first().map(|first| f64::from_bits(first.key))
    }

    /// The source's rule: anything while slots idle, else only tasks of which no worker has any input.
    fn below_threshold(&self) -> Option<u32> {
        let busy_share = (f64::from(self.workers.busy) - 1.0) / f64::from(self.workers.slots);
        if busy_share < self.settings.rule.threshold() {
            self.queue.first()
        } else {
            self.cold.first().map(|first| first.slot)
        }
    }

    /// Ours: tasks whose input must be read from the store, as far as that has room, then those that have waited as
    /// long as fetching takes.
    fn dear(&mut self, now_s: f64) -> Option<u32> {
        if self.store_readers < self.settings.costs.store_readers()
            && let Some(slot) = self.most_wanted()
        {
            self.cold_starts += 1;
            return Some(slot);
        }
        let first = self.held.first()?;
        (f64::from_bits(first.key) <= now_s).then_some(first.slot)
    }

    /// Returns the first cold task of the item that most cold tasks begin with.
    fn most_wanted(&self) -> Option<u32> {
        let oldest = self.cold.first()?.slot;
        if self.cold_starts % OLDEST_EVERY == OLDEST_EVERY - 1 {
            return Some(oldest);
        }
        let &(_, item) = self.leading.first()?;
        let is_led =
            |&slot: &u32| self.queue.standing(slot) == Locality::Cold && self.queue.inputs(slot).next() == Some(item);
        self.queue.wanting(&self.index, item).find(is_led)
    }

    fn assign(&mut self, now_s: f64, slot: u32, worker: WorkerId) -> Assignment {
        self.queue.inputs(slot).for_each(|item| self.index.prefetch_replica(worker, item));
        self.stand(slot, Locality::Beyond);
        let task = self.queue.take(&mut self.index, slot);
        self.workers.occupy(worker, &self.queue);
        self.fill_window(now_s);
        Assignment { task, worker }
    }

    fn fill_window(&mut self, now_s: f64) {
        while self.settings.rule.uses_caches() && self.queue.in_window() < self.settings.window {
            let Some(slot) = self.queue.enter(&mut self.index) else { break };
            if let Some(next) = self.queue.first_beyond() {
                self.queue.inputs(next).for_each(|item| self.index.prefetch_item(item));
            }
            self.stand(slot, self.standing(now_s, slot));
            for (earlier, item) in self.queue.inputs(slot).enumerate() {
                for holder in self.index.here(item) {
                    if !self.has_any(holder, slot, earlier)
                        && let Some(candidate) = self.candidate(slot, holder, item, true)
                    {
                        self.workers.offer(holder, candidate, &self.queue);
                    }
                }
            }
        }
    }

    /// Whether the worker has one of the task's first inputs.
    fn has_any(&self, worker: WorkerId, slot: u32, first: usize) -> bool {
        self.queue.inputs(slot).take(first).any(|item| self.index.is_here(worker, item))
    }

    /// Returns how the worker sees the task if it has `item`, one of its inputs, or has not; not at all if it has none
    /// of them.
    pub(super) fn candidate(&self, slot: u32, worker: WorkerId, item: ItemId, has: bool) -> Option<Candidate> {
        let (mut score, mut any, mut full) = (0, false, true);
        for input in self.queue.inputs(slot) {
            if if input == item { has } else { self.index.is_here(worker, input) } {
                score += self.settings.rule.score(self.index.bytes(input));
                any = true;
            } else {
                full = false;
            }
        }
        let rank = if full { FULL } else { score };
        any.then(|| Candidate { missing: FULL - rank, sequence: self.queue.sequence(slot), slot })
    }

    /// Notes that a replica is there: the tasks that want it update the worker's score. The index knows already.
    pub(super) fn appeared(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        self.change(worker, item, true);
        self.update_standing(now_s, item);
    }

    /// Drops a replica that left its cache: as a victim, with its worker, or by mishap.
    pub fn drop_replica(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        if self.index.is_here(worker, item) {
            self.change(worker, item, false);
        }
        self.index.remove(worker, item);
        self.update_standing(now_s, item);
    }

    /// Shows the worker to the tasks that want the item as one that has it now, or has not.
    fn change(&mut self, worker: WorkerId, item: ItemId, has: bool) {
        for slot in self.queue.wanting(&self.index, item) {
            if let Some(old) = self.candidate(slot, worker, item, !has) {
                self.workers.withdraw(worker, &old, &self.queue);
            }
            if let Some(new) = self.candidate(slot, worker, item, has) {
                self.workers.offer(worker, new, &self.queue);
            }
        }
    }

    /// Updates the waiting tasks after a worker's having or awaiting the item changed.
    pub(super) fn update_standing(&mut self, now_s: f64, item: ItemId) {
        if self.index.copies(item) > 1 {
            return;
        }
        for slot in self.queue.wanting(&self.index, item).collect::<Vec<_>>() {
            let (before, after) = (self.queue.standing(slot), self.standing(now_s, slot));
            if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
                self.stand(slot, after);
            }
        }
    }

    fn standing(&self, now_s: f64, slot: u32) -> Locality {
        let mut inputs = self.queue.inputs(slot).peekable();
        let (mut here, mut awaited) = (inputs.peek().is_none(), false);
        for item in inputs {
            here |= self.index.copies(item) > 0;
            awaited |= self.settings.rule.is_ours() && self.index.arriving(item) > 0;
        }
        if here {
            self.held_since(now_s, slot)
        } else if awaited {
            Locality::Awaited
        } else {
            Locality::Cold
        }
    }

    pub(super) fn held_since(&self, since_s: f64, slot: u32) -> Locality {
        let bytes = self.queue.inputs(slot).map(|item| self.index.bytes(item)).sum();
        Locality::Held { since_s, until_s: since_s + self.settings.costs.max_wait_s(bytes) }
    }

    /// Moves a task from the line of its standing to that of another.
    pub(super) fn stand(&mut self, slot: u32, after: Locality) {
        let before = self.queue.standing(slot);
        self.queue.set_standing(slot, after);
        match before {
            Locality::Cold => self.leave_cold(slot),
            Locality::Held { .. } if self.settings.rule.is_ours() => self.leave_held(),
            Locality::Held { .. } | Locality::Awaited | Locality::Beyond => {}
        }
        match after {
            Locality::Cold => self.join_cold(slot),
            Locality::Held { until_s, .. } if self.settings.rule.is_ours() => self.join_held(slot, until_s),
            Locality::Held { .. } | Locality::Awaited | Locality::Beyond => {}
        }
    }

    fn join_cold(&mut self, slot: u32) {
        let (queue, sequence) = (&self.queue, self.queue.sequence(slot));
        self.cold.join(Entry { key: sequence, sequence, slot }, |entry| is_cold(queue, entry));
        self.count_lead(slot, 1);
    }

    fn leave_cold(&mut self, slot: u32) {
        self.cold.leave();
        let queue = &self.queue;
        self.cold.drop_departed(|entry| is_cold(queue, entry));
        self.count_lead(slot, -1);
    }

    fn join_held(&mut self, slot: u32, until_s: f64) {
        let (queue, sequence) = (&self.queue, self.queue.sequence(slot));
        self.held.join(Entry { key: until_s.to_bits(), sequence, slot }, |entry| is_held(queue, entry));
    }

    fn leave_held(&mut self) {
        self.held.leave();
        let queue = &self.queue;
        self.held.drop_departed(|entry| is_held(queue, entry));
    }

    fn count_lead(&mut self, slot: u32, change: i32) {
        let (true, Some(item)) = (self.settings.rule.is_ours(), self.queue.inputs(slot).next()) else { return };
        let (before, after) = self.index.note_mut(item).lead(change);
        self.leading.remove(&(Reverse(before), item));
        if after > 0 {
            self.leading.insert((Reverse(after), item));
        }
    }
}

fn is_cold(queue: &Queue, entry: &Entry) -> bool {
    queue.sequence(entry.slot) == entry.sequence && queue.standing(entry.slot) == Locality::Cold
}

fn is_held(queue: &Queue, entry: &Entry) -> bool {
    let until_s = f64::from_bits(entry.key);
    queue.sequence(entry.slot) == entry.sequence
        && matches!(queue.standing(entry.slot), Locality::Held { until_s: found_s, .. } if found_s == until_s)
}

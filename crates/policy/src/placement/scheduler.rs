//! The scheduler: events in (a task came, a slot is free, a replica is there or gone), decisions out.
//!
//! After each event the caller takes decisions with [`Scheduler::next`] until there is none. A decision costs about
//! one step a replica of its task's input; nothing is looked through. `tests` holds it against an oracle that does
//! look through everything. Times are seconds of the caller's clock and never go back.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::cache::{Eviction, Holding, Index, ItemId, WorkerId};

use super::candidates::{Candidate, FULL};
use super::queue::{Queue, Standing};
use super::workers::Workers;
use super::{Assignment, Batch, Costs, Rule, TaskId};

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub rule: Rule,
    /// Waiting tasks that are looked at; see [`Rule::window`].
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
    cold: BTreeSet<(u64, u32)>,
    /// Of each item the cold tasks whose first input it is, and the items by their number.
    leads: Vec<u32>,
    leading: BTreeSet<(Reverse<u32>, ItemId)>,
    held: BTreeSet<(u64, u64, u32)>,
    pub(super) store_readers: u32,
    cold_starts: u64,
    pub(super) cached_bytes: u64,
    pub(super) known_bytes: u64,
    pub(super) known: Vec<bool>,
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
            cold: BTreeSet::new(),
            leads: Vec::new(),
            leading: BTreeSet::new(),
            held: BTreeSet::new(),
            store_readers: 0,
            cold_starts: 0,
            cached_bytes: 0,
            known_bytes: 0,
            known: Vec::new(),
        }
    }

    pub fn add_item(&mut self, bytes: u64) -> ItemId {
        self.leads.push(0);
        self.known.push(false);
        self.index.add_item(bytes)
    }

    /// Room for so many items and replicas without slack.
    pub fn reserve(&mut self, items: usize, replicas: usize) {
        self.index.reserve(items, replicas);
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// A worker with an empty cache.
    pub fn join(&mut self, slots: u32, cache_bytes: u64) -> WorkerId {
        let worker = self.workers.join(slots);
        assert_eq!(worker, self.index.add_worker(cache_bytes));
        self.cached_bytes += cache_bytes;
        self.batch.join(worker, slots);
        worker
    }

    /// The worker is to leave: it gets no more tasks, but ends those it has and serves its cache till it does.
    pub fn close(&mut self, worker: WorkerId) {
        self.workers.close(worker);
        self.batch.leave(worker);
    }

    /// The worker is gone, with its cache and with what ran there; the caller submits that again.
    pub fn leave(&mut self, now_s: f64, worker: WorkerId) {
        self.cached_bytes -= self.index.capacity_bytes(worker);
        self.workers.leave(worker);
        self.batch.leave(worker);
        for item in self.index.held_by(worker).collect::<Vec<_>>() {
            self.drop_replica(now_s, worker, item);
        }
        self.index.remove_worker(worker);
    }

    /// Tasks that wait for a worker.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.batch.len()
    }

    /// Those of them that more slots would help: not those that wait for a crowded store.
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

    /// A worker that runs nothing, waits for nothing and serves nobody may be released.
    pub fn is_at_rest(&self, worker: WorkerId) -> bool {
        let worker = self.workers.get(worker);
        worker.free == worker.slots && worker.serving == 0 && worker.awaiting == 0
    }

    pub fn submit(&mut self, now_s: f64, task: TaskId, inputs: &[ItemId]) {
        self.queue.submit(task, inputs);
        for &item in inputs {
            if !std::mem::replace(&mut self.known[item.at()], true) {
                self.known_bytes += self.index.bytes(item);
            }
        }
        self.fill_window(now_s);
    }

    /// All tasks of a batch at once, for the workers there are: ordered so that neighbours share input ([`Batch`]).
    /// Other rules than ours take them one by one.
    pub fn submit_batch<'a>(&mut self, now_s: f64, tasks: impl Iterator<Item = (TaskId, &'a [ItemId])>) {
        if self.settings.rule.is_ours() {
            self.batch.fill(tasks);
        } else {
            tasks.for_each(|(task, inputs)| self.submit(now_s, task, inputs));
        }
    }

    /// The task that had the slot is done with it.
    pub fn vacate(&mut self, worker: WorkerId) {
        self.workers.vacate(worker);
    }

    /// The next decision, if any is due.
    pub fn next(&mut self, now_s: f64) -> Option<Assignment> {
        if !self.settings.rule.uses_caches() {
            let worker = self.workers.first_idle()?;
            let task = self.queue.take_beyond()?;
            self.workers.occupy(worker);
            return Some(Assignment { task, worker });
        }
        if let Some((candidate, worker)) = self.workers.best_offer() {
            return Some(self.assign(now_s, candidate.slot, worker));
        }
        let worker = self.workers.first_idle()?;
        if let Some(task) = self.batch.take(worker) {
            self.workers.occupy(worker);
            return Some(Assignment { task, worker });
        }
        let slot = if self.settings.rule.is_ours() { self.dear(now_s) } else { self.below_threshold() }?;
        Some(self.assign(now_s, slot, worker))
    }

    /// When the first held task may run elsewhere, if one is held.
    pub fn next_release_s(&self) -> Option<f64> {
        self.held.first().map(|(until, _, _)| f64::from_bits(*until))
    }

    /// The source: anything while slots idle, else only what nobody has.
    fn below_threshold(&self) -> Option<u32> {
        let busy_share = (f64::from(self.workers.busy) - 1.0) / f64::from(self.workers.slots);
        if busy_share < self.settings.rule.threshold() {
            self.queue.first()
        } else {
            self.cold.first().map(|&(_, slot)| slot)
        }
    }

    /// Ours: what has to be read from the store, as far as that has room, then what has waited as long as fetching
    /// takes.
    fn dear(&mut self, now_s: f64) -> Option<u32> {
        if self.store_readers < self.settings.costs.store_readers()
            && let Some(slot) = self.most_wanted()
        {
            self.cold_starts += 1;
            return Some(slot);
        }
        let &(until, _, slot) = self.held.first()?;
        (f64::from_bits(until) <= now_s).then_some(slot)
    }

    /// The first cold task of the item that most cold tasks begin with.
    fn most_wanted(&self) -> Option<u32> {
        let &(_, oldest) = self.cold.first()?;
        if self.cold_starts % OLDEST_EVERY == OLDEST_EVERY - 1 {
            return Some(oldest);
        }
        let &(_, item) = self.leading.first()?;
        self.queue.wanting(item).find(|&slot| {
            self.queue.get(slot).standing == Standing::Cold && self.queue.inputs(slot).next() == Some(item)
        })
    }

    fn assign(&mut self, now_s: f64, slot: u32, worker: WorkerId) -> Assignment {
        self.stand(slot, Standing::Beyond);
        for item in self.queue.inputs(slot) {
            for (holder, holding) in self.index.holders(item) {
                if holding == Holding::Here {
                    let candidate = self.candidate(slot, holder, item, true);
                    self.workers.get_mut(holder).candidates.remove(&candidate);
                    self.workers.refresh(holder);
                }
            }
        }
        let task = self.queue.take(slot);
        self.workers.occupy(worker);
        self.fill_window(now_s);
        Assignment { task, worker }
    }

    fn fill_window(&mut self, now_s: f64) {
        while self.settings.rule.uses_caches() && self.queue.in_window() < self.settings.window {
            let Some(slot) = self.queue.enter() else { break };
            self.stand(slot, self.standing(now_s, slot));
            for (earlier, item) in self.queue.inputs(slot).enumerate() {
                for (holder, holding) in self.index.holders(item) {
                    if holding == Holding::Here && !self.has_any(holder, slot, earlier) {
                        let candidate = self.candidate(slot, holder, item, true);
                        self.workers.get_mut(holder).candidates.insert(candidate);
                        self.workers.refresh(holder);
                    }
                }
            }
        }
    }

    /// Whether the worker has one of the task's first inputs.
    fn has_any(&self, worker: WorkerId, slot: u32, first: usize) -> bool {
        self.queue.inputs(slot).take(first).any(|item| self.index.is_here(worker, item))
    }

    /// How the worker sees the task if it has `item`, one of its inputs, or has not.
    pub(super) fn candidate(&self, slot: u32, worker: WorkerId, item: ItemId, has: bool) -> Candidate {
        let (mut score, mut full) = (0, true);
        for input in self.queue.inputs(slot) {
            if if input == item { has } else { self.index.is_here(worker, input) } {
                score += self.settings.rule.score(self.index.bytes(input));
            } else {
                full = false;
            }
        }
        let rank = if full { FULL } else { score };
        Candidate { lack: FULL - rank, sequence: self.queue.get(slot).sequence, slot }
    }

    /// A replica is there: those who want it see the worker anew. The index knows already.
    pub(super) fn appeared(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        for slot in self.queue.wanting(item) {
            let (old, new) = (self.candidate(slot, worker, item, false), self.candidate(slot, worker, item, true));
            let candidates = &mut self.workers.get_mut(worker).candidates;
            candidates.remove(&old);
            candidates.insert(new);
        }
        self.workers.refresh(worker);
        self.stand_anew(now_s, item);
    }

    /// A replica left its cache: as a victim, with its worker, or by mishap.
    pub fn drop_replica(&mut self, now_s: f64, worker: WorkerId, item: ItemId) {
        let was_here = self.index.is_here(worker, item);
        if was_here {
            for slot in self.queue.wanting(item) {
                let (old, new) = (self.candidate(slot, worker, item, true), self.candidate(slot, worker, item, false));
                let has_other = self.queue.inputs(slot).any(|other| other != item && self.index.is_here(worker, other));
                let candidates = &mut self.workers.get_mut(worker).candidates;
                candidates.remove(&old);
                if has_other {
                    candidates.insert(new);
                }
            }
            self.workers.refresh(worker);
        }
        self.index.remove(worker, item);
        self.stand_anew(now_s, item);
    }

    /// After somebody's having or awaiting the item changed.
    pub(super) fn stand_anew(&mut self, now_s: f64, item: ItemId) {
        if self.index.copies(item) > 1 {
            return;
        }
        for slot in self.queue.wanting(item).collect::<Vec<_>>() {
            let (before, after) = (self.queue.get(slot).standing, self.standing(now_s, slot));
            if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
                self.stand(slot, after);
            }
        }
    }

    fn standing(&self, now_s: f64, slot: u32) -> Standing {
        let mut inputs = self.queue.inputs(slot).peekable();
        let (mut here, mut awaited) = (inputs.peek().is_none(), false);
        for item in inputs {
            here |= self.index.copies(item) > 0;
            awaited |= self.settings.rule.is_ours() && self.index.arriving(item) > 0;
        }
        if here {
            self.held_since(now_s, slot)
        } else if awaited {
            Standing::Awaited
        } else {
            Standing::Cold
        }
    }

    pub(super) fn held_since(&self, since_s: f64, slot: u32) -> Standing {
        let bytes = self.queue.inputs(slot).map(|item| self.index.bytes(item)).sum();
        Standing::Held { since_s, until_s: since_s + self.settings.costs.patience_s(bytes) }
    }

    /// Moves a task from the set of its standing to that of another.
    pub(super) fn stand(&mut self, slot: u32, after: Standing) {
        let (before, sequence) = (self.queue.get(slot).standing, self.queue.get(slot).sequence);
        let lead = self.queue.inputs(slot).next();
        let ours = self.settings.rule.is_ours();
        match before {
            Standing::Cold => {
                self.cold.remove(&(sequence, slot));
                self.count_lead(lead, -1);
            }
            Standing::Held { until_s, .. } if ours => {
                self.held.remove(&(until_s.to_bits(), sequence, slot));
            }
            Standing::Held { .. } | Standing::Awaited | Standing::Beyond => {}
        }
        match after {
            Standing::Cold => {
                self.cold.insert((sequence, slot));
                self.count_lead(lead, 1);
            }
            Standing::Held { until_s, .. } if ours => {
                self.held.insert((until_s.to_bits(), sequence, slot));
            }
            Standing::Held { .. } | Standing::Awaited | Standing::Beyond => {}
        }
        self.queue.set_standing(slot, after);
    }

    fn count_lead(&mut self, lead: Option<ItemId>, change: i32) {
        let (true, Some(item)) = (self.settings.rule.is_ours(), lead) else { return };
        let before = self.leads[item.at()];
        let after = before.checked_add_signed(change).expect("a lead is counted down as often as up");
        self.leads[item.at()] = after;
        self.leading.remove(&(Reverse(before), item));
        if after > 0 {
            self.leading.insert((Reverse(after), item));
        }
    }
}

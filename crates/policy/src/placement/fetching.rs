//! Where a task's missing input comes from, whether it stays, and which items are evicted for it.
//!
//! The rules of the source take a holder or else the store, and keep everything. Ours never reads an item from the
//! store that any worker has or awaits, lets a holder serve only as many as its link bears (others wait behind those
//! being served, so that copies spread like a tree), and makes no further copy at another item's expense beyond the
//! number that fits all caches together.

use crate::cache::{Holding, Index, ItemId, WorkerId};

use super::Scheduler;

/// Where the bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Store,
    Peer(WorkerId),
    /// A peer that awaits them itself: begin when they are there.
    Behind(WorkerId),
}

/// The fetch of a missing item; give it back to [`Scheduler::fetched`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub source: Source,
    /// Whether the bytes enter the worker's cache; else they are only read.
    pub kept: bool,
    /// Items to evict from the cache first.
    pub evicted: Vec<ItemId>,
}

/// Holders that are compared; of an item with more any will do.
const HOLDERS: usize = 32;
/// Replicas among which ours looks for one that is neither wanted nor the last.
const DEPTH: usize = 16;

impl Scheduler {
    /// Begins to fetch an item that the worker does not have; from now on it awaits it.
    pub fn fetch(&mut self, now_s: f64, worker: WorkerId, item: ItemId) -> Fetch {
        let source = self.source(worker, item);
        match source {
            Source::Store => self.store_readers += 1,
            Source::Peer(peer) | Source::Behind(peer) => self.workers.get_mut(peer).serving += 1,
        }
        self.workers.get_mut(worker).awaiting += 1;
        let kept = self.is_kept(worker, item);
        let evicted = if kept { self.make_room(now_s, worker, item) } else { Vec::new() };
        if kept {
            self.index.admit(worker, item, Holding::Arriving);
            self.update_standing(now_s, item);
        }
        Fetch { source, kept, evicted }
    }

    /// Notes that the bytes are there.
    pub fn fetched(&mut self, now_s: f64, worker: WorkerId, item: ItemId, fetch: &Fetch) {
        self.end_fetch(worker, fetch);
        if fetch.kept {
            self.index.arrived(worker, item);
            self.appeared(now_s, worker, item);
        }
    }

    /// Notes that the bytes will not come, at least not from there: the worker awaits the item no more.
    pub fn fetch_failed(&mut self, now_s: f64, worker: WorkerId, item: ItemId, fetch: &Fetch) {
        self.end_fetch(worker, fetch);
        if fetch.kept {
            self.drop_replica(now_s, worker, item);
        }
    }

    fn end_fetch(&mut self, worker: WorkerId, fetch: &Fetch) {
        match fetch.source {
            Source::Store => self.store_readers -= 1,
            Source::Peer(peer) | Source::Behind(peer) => self.workers.get_mut(peer).serving -= 1,
        }
        self.workers.get_mut(worker).awaiting -= 1;
    }

    /// A task begins to read an item that is here; it stays until [`Scheduler::done_with`].
    pub fn read_here(&mut self, worker: WorkerId, item: ItemId) {
        self.index.touch_and_pin(worker, item);
    }

    pub fn done_with(&mut self, worker: WorkerId, item: ItemId) {
        self.index.unpin(worker, item);
    }

    /// Enters a task's output into its worker's cache, so that chains of tasks diffuse. Returns whether it stays there,
    /// and the items evicted for it.
    pub fn wrote(&mut self, now_s: f64, worker: WorkerId, item: ItemId) -> Fetch {
        let kept = self.settings.rule.uses_caches()
            && self.index.holding(worker, item).is_none()
            && self.index.has_room(worker, item);
        let evicted = if kept { self.make_room(now_s, worker, item) } else { Vec::new() };
        if kept {
            self.index.admit(worker, item, Holding::Here);
            self.appeared(now_s, worker, item);
        }
        Fetch { source: Source::Peer(worker), kept, evicted }
    }

    /// Returns the items that all caches would lose with this worker.
    pub fn last_copies(&self, worker: WorkerId) -> impl Iterator<Item = ItemId> + '_ {
        self.index.held_by(worker).filter(|&item| self.index.copies(item) <= 1)
    }

    /// Returns the bytes of [`Scheduler::last_copies`]: the worker with the least is released first.
    pub fn last_copy_bytes(&self, worker: WorkerId) -> u64 {
        self.last_copies(worker).map(|item| self.index.bytes(item)).sum()
    }

    /// Returns the worker to take over an item that only a closed worker has: of those that take tasks and need evict
    /// nothing for it the one with most room. None when the item is elsewhere by now or fits nowhere.
    pub fn heir(&self, item: ItemId) -> Option<WorkerId> {
        if self.index.copies(item) + self.index.arriving(item) != 1 {
            return None;
        }
        let room = |worker: &WorkerId| self.index.capacity_bytes(*worker) - self.index.used_bytes(*worker);
        self.workers.open().filter(|&worker| !self.index.is_crowded(worker, item)).max_by_key(room)
    }

    fn source(&self, worker: WorkerId, item: ItemId) -> Source {
        if !self.settings.rule.uses_caches() {
            return Source::Store;
        }
        let mut best: [Option<(u32, WorkerId)>; 2] = [None, None];
        for (holder, holding) in self.index.holders(item).filter(|(holder, _)| *holder != worker).take(HOLDERS) {
            let serving = self.workers.get(holder).serving;
            let best = &mut best[usize::from(holding == Holding::Arriving)];
            if best.is_none_or(|(least, _)| serving < least) {
                *best = Some((serving, holder));
            }
        }
        let ours = self.settings.rule.is_ours();
        match best {
            [Some((serving, _)), Some((behind, peer))]
                if ours && serving >= self.settings.costs.peer_readers() && behind < serving =>
            {
                Source::Behind(peer)
            }
            [Some((_, peer)), _] => Source::Peer(peer),
            [None, Some((_, peer))] if ours => Source::Behind(peer),
            [None, _] => Source::Store,
        }
    }

    fn is_kept(&self, worker: WorkerId, item: ItemId) -> bool {
        if !self.settings.rule.uses_caches() || !self.index.has_room(worker, item) {
            return false;
        }
        let copies = u64::from(self.index.copies(item) + self.index.arriving(item));
        !self.settings.rule.is_ours() || !self.index.is_crowded(worker, item) || copies < self.replication_cap()
    }

    /// Copies of everything known that fit all caches together; one at least.
    fn replication_cap(&self) -> u64 {
        (self.cached_bytes / self.index.named_bytes().max(1)).max(1)
    }

    fn make_room(&mut self, now_s: f64, worker: WorkerId, item: ItemId) -> Vec<ItemId> {
        let mut evicted = Vec::new();
        while self.index.is_crowded(worker, item) {
            let victim = self.evict(now_s, worker);
            evicted.push(victim.expect("pinned replicas leave room, or the item was not kept"));
        }
        evicted
    }

    /// Returns the next to leave, if not all are pinned.
    pub(super) fn evict(&mut self, now_s: f64, worker: WorkerId) -> Option<ItemId> {
        let victim = if self.settings.rule.is_ours() {
            let reluctance =
                |index: &Index, item| 2 * u8::from(index.note(item).is_wanted()) + u8::from(index.copies(item) <= 1);
            self.index.victim(worker, DEPTH, reluctance)
        } else {
            self.index.victim(worker, 1, |_, _| 0)
        }?;
        self.drop_replica(now_s, worker, victim);
        Some(victim)
    }
}

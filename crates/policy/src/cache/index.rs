//! The index: which worker holds which item, how full each cache is, and which item leaves it first.
//!
//! One slab of replicas; each stands among its item's holders and in its worker's order of leaving. An item's holders
//! lie with it, in one cache line while they are few; where they are many, a table of slots finds each by (item,
//! worker). A replica may be *arriving*: its room is taken, its bytes are on their way. Pinned replicas (a task reads
//! them, or they arrive) are never victims.

use hashbrown::HashTable;

use super::eviction::Priorities;
use super::holders::{Holder, HolderBlocks, Holders};
use super::note::Note;
use super::order::Order;
use super::prefetch::prefetch;
use super::table::Table;
use super::{Eviction, ItemId, WorkerId};

/// Of so many holders all are in the table; fewer are looked through one by one, they are nearer.
const MANY: u16 = 9;
/// When so few are left, they leave the table.
const FEW: u16 = 4;

pub(super) struct Replica {
    pub priority: u64,
    /// In its worker's order.
    pub position: u32,
    item: u32,
    worker: u32,
    pins: u16,
    /// As its holder says, for items whose holders are too many to look through.
    is_arriving: bool,
}

#[repr(align(64))]
struct Item {
    bytes: u64,
    holders: Holders,
    note: Note,
    copies: u16,
    arriving: u16,
    is_in_table: bool,
    was_named: bool,
}

const _: () = assert!(size_of::<Item>() == 64, "an item is one cache line");

#[derive(Default)]
struct Cache {
    capacity_bytes: u64,
    used_bytes: u64,
    pinned_bytes: u64,
    inflation: u64,
    order: Order,
}

/// How a worker has an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    Here,
    Arriving,
}

pub struct Index {
    items: Table<Item>,
    caches: Vec<Cache>,
    replicas: Table<Replica>,
    blocks: HolderBlocks,
    vacant: Vec<u32>,
    places: HashTable<u32>,
    distinct_bytes: u64,
    named_bytes: u64,
    priorities: Priorities,
}

impl Index {
    /// `seed` is for [`Eviction::Random`].
    pub fn new(eviction: Eviction, seed: u64) -> Self {
        Index {
            items: Table::new(),
            caches: Vec::new(),
            replicas: Table::new(),
            blocks: HolderBlocks::default(),
            vacant: Vec::new(),
            places: HashTable::new(),
            distinct_bytes: 0,
            named_bytes: 0,
            priorities: Priorities::new(eviction, seed),
        }
    }

    /// Reserves room for this many without growing, which would leave slack.
    pub fn reserve(&mut self, items: usize, replicas: usize) {
        self.items.reserve_exact(items);
        self.replicas.reserve_exact(replicas);
    }

    pub fn add_item(&mut self, bytes: u64) -> ItemId {
        self.items.push(Item {
            bytes,
            holders: Holders::EMPTY,
            note: Note::NOTHING,
            copies: 0,
            arriving: 0,
            is_in_table: false,
            was_named: false,
        });
        ItemId(self.items.len() as u32 - 1)
    }

    pub fn items(&self) -> usize {
        self.items.len()
    }

    pub fn bytes(&self, item: ItemId) -> u64 {
        self.items[item.at()].bytes
    }

    /// Notes that the item is among those that tasks read.
    pub fn name(&mut self, item: ItemId) {
        let entry = &mut self.items[item.at()];
        if !std::mem::replace(&mut entry.was_named, true) {
            self.named_bytes += entry.bytes;
        }
    }

    /// Returns the bytes of all named items.
    pub fn named_bytes(&self) -> u64 {
        self.named_bytes
    }

    pub(crate) fn note(&self, item: ItemId) -> &Note {
        &self.items[item.at()].note
    }

    pub(crate) fn note_mut(&mut self, item: ItemId) -> &mut Note {
        &mut self.items[item.at()].note
    }

    /// Prefetches the item's entry, which will be needed soon.
    pub(crate) fn prefetch_item(&self, item: ItemId) {
        prefetch(&self.items[item.at()]);
    }

    /// Notes that the worker will soon read the item, if it has it.
    pub(crate) fn prefetch_replica(&self, worker: WorkerId, item: ItemId) {
        if let Some(slot) = self.find(worker, item) {
            prefetch(&self.replicas[slot as usize]);
        }
    }

    /// Adds an empty cache.
    pub fn add_worker(&mut self, capacity_bytes: u64) -> WorkerId {
        self.caches.push(Cache { capacity_bytes, ..Cache::default() });
        WorkerId(self.caches.len() as u32 - 1)
    }

    /// Removes the worker's cache; returns the items it held or awaited.
    pub fn remove_worker(&mut self, worker: WorkerId) -> Vec<ItemId> {
        let items: Vec<ItemId> = self.held_by(worker).collect();
        for &item in &items {
            self.remove(worker, item);
        }
        self.caches[worker.at()].capacity_bytes = 0;
        items
    }

    /// Returns all the worker holds or awaits, in no order.
    pub fn held_by(&self, worker: WorkerId) -> impl Iterator<Item = ItemId> + '_ {
        self.caches[worker.at()].order.slots().map(|slot| ItemId(self.replicas[slot as usize].item))
    }

    pub fn used_bytes(&self, worker: WorkerId) -> u64 {
        self.caches[worker.at()].used_bytes
    }

    pub fn capacity_bytes(&self, worker: WorkerId) -> u64 {
        self.caches[worker.at()].capacity_bytes
    }

    /// Returns all that is in any cache, each item once.
    pub fn distinct_bytes(&self) -> u64 {
        self.distinct_bytes
    }

    pub fn holding(&self, worker: WorkerId, item: ItemId) -> Option<Holding> {
        let entry = &self.items[item.at()];
        let is_arriving = if entry.is_in_table {
            self.replicas[self.find(worker, item)? as usize].is_arriving
        } else {
            entry.holders.find(&self.blocks, worker)?.is_arriving
        };
        Some(if is_arriving { Holding::Arriving } else { Holding::Here })
    }

    pub fn is_here(&self, worker: WorkerId, item: ItemId) -> bool {
        self.holding(worker, item) == Some(Holding::Here)
    }

    /// Returns the holders of the item, present or awaited, in no order.
    pub fn holders(&self, item: ItemId) -> impl Iterator<Item = (WorkerId, Holding)> + '_ {
        let holders = self.items[item.at()].holders.all(&self.blocks);
        let holding = |is_arriving| if is_arriving { Holding::Arriving } else { Holding::Here };
        holders.map(move |holder| (holder.worker, holding(holder.is_arriving)))
    }

    /// Returns the workers that have the item, in no order.
    pub fn here(&self, item: ItemId) -> impl Iterator<Item = WorkerId> + '_ {
        self.holders(item).filter(|(_, holding)| *holding == Holding::Here).map(|(worker, _)| worker)
    }

    /// Replicas whose bytes are there.
    pub fn copies(&self, item: ItemId) -> u32 {
        u32::from(self.items[item.at()].copies)
    }

    /// Replicas whose bytes are on their way.
    pub fn arriving(&self, item: ItemId) -> u32 {
        u32::from(self.items[item.at()].arriving)
    }

    /// Returns the bytes that tasks have or await there.
    pub fn pinned_bytes(&self, worker: WorkerId) -> u64 {
        self.caches[worker.at()].pinned_bytes
    }

    /// Whether the cache could take the item, with evictions if need be.
    pub fn has_room(&self, worker: WorkerId, item: ItemId) -> bool {
        let cache = &self.caches[worker.at()];
        cache.pinned_bytes + self.bytes(item) <= cache.capacity_bytes
    }

    /// Whether something must leave before the item fits.
    pub fn is_crowded(&self, worker: WorkerId, item: ItemId) -> bool {
        let cache = &self.caches[worker.at()];
        cache.used_bytes + self.bytes(item) > cache.capacity_bytes
    }

    /// Returns the next to leave, or none when all are pinned. `reluctance` is asked of the `depth` lowest; the first
    /// of the least reluctance goes. The baseline has depth 1: the lowest goes, whatever it is.
    pub fn victim(
        &mut self,
        worker: WorkerId,
        depth: usize,
        reluctance: impl Fn(&Index, ItemId) -> u8,
    ) -> Option<ItemId> {
        self.caches[worker.at()].order.sift_top(&mut self.replicas);
        let ascending = self.caches[worker.at()].order.ascending(&self.replicas);
        let loose = ascending.filter(|&slot| self.replicas[slot as usize].pins == 0).take(depth);
        let items = loose.map(|slot| ItemId(self.replicas[slot as usize].item));
        let mut least: Option<(u8, ItemId)> = None;
        for item in items {
            let reluctance = reluctance(self, item);
            if least.is_none_or(|(lowest, _)| reluctance < lowest) {
                least = Some((reluctance, item));
            }
            if reluctance == 0 {
                break;
            }
        }
        least.map(|(_, item)| item)
    }

    /// Puts an item into a cache, which has room for it. One that arrives is pinned until it is there.
    pub fn admit(&mut self, worker: WorkerId, item: ItemId, holding: Holding) {
        assert!(self.find(worker, item).is_none(), "a cache holds an item once");
        assert!(!self.is_crowded(worker, item), "room was made before");
        let bytes = self.bytes(item);
        let is_arriving = holding == Holding::Arriving;
        let priority = self.priorities.of_new(bytes, self.caches[worker.at()].inflation);
        let slot = self.occupy(Replica { priority, position: 0, item: item.0, worker: worker.0, pins: 0, is_arriving });
        let entry = &mut self.items[item.at()];
        entry.holders.add(&mut self.blocks, Holder { worker, slot, is_arriving });
        if entry.copies + entry.arriving == 0 {
            self.distinct_bytes += bytes;
        }
        *if is_arriving { &mut entry.arriving } else { &mut entry.copies } += 1;
        let cache = &mut self.caches[worker.at()];
        cache.used_bytes += bytes;
        cache.order.push(&mut self.replicas, slot);
        if self.items[item.at()].is_in_table {
            self.enter_table(slot);
        } else if self.items[item.at()].holdings() == MANY {
            self.enter_table_with_all(item);
        }
        if is_arriving {
            self.pin_slot(slot);
        }
    }

    /// Notes that the bytes of an arriving replica are there.
    pub fn arrived(&mut self, worker: WorkerId, item: ItemId) {
        assert_eq!(self.holding(worker, item), Some(Holding::Arriving), "what arrives was announced");
        let slot = self.find(worker, item).expect("it is held");
        self.replicas[slot as usize].is_arriving = false;
        let entry = &mut self.items[item.at()];
        entry.holders.arrived(&mut self.blocks, worker);
        entry.arriving -= 1;
        entry.copies += 1;
        self.unpin_slot(slot);
    }

    /// Notes that the replica was used once more.
    pub fn touch(&mut self, worker: WorkerId, item: ItemId) {
        let slot = self.find(worker, item).expect("what is used is held");
        self.touch_slot(slot);
    }

    /// Notes that the replica was used once more, and is pinned.
    pub fn touch_and_pin(&mut self, worker: WorkerId, item: ItemId) {
        let slot = self.find(worker, item).expect("what is used is held");
        self.touch_slot(slot);
        self.pin_slot(slot);
    }

    /// Pins the replica: it may not leave until it is unpinned as often.
    pub fn pin(&mut self, worker: WorkerId, item: ItemId) {
        let slot = self.find(worker, item).expect("what is pinned is held");
        self.pin_slot(slot);
    }

    pub fn unpin(&mut self, worker: WorkerId, item: ItemId) {
        let slot = self.find(worker, item).expect("what is unpinned is held");
        self.unpin_slot(slot);
    }

    /// Corrects the item's size. A cache may hold more than it has room for afterwards.
    pub fn resize(&mut self, item: ItemId, bytes: u64) {
        let entry = &mut self.items[item.at()];
        let before = std::mem::replace(&mut entry.bytes, bytes);
        if entry.copies + entry.arriving > 0 {
            self.distinct_bytes = self.distinct_bytes - before + bytes;
        }
        if entry.was_named {
            self.named_bytes = self.named_bytes - before + bytes;
        }
        for Holder { worker, slot, .. } in entry.holders.all(&self.blocks) {
            let cache = &mut self.caches[worker.at()];
            cache.used_bytes = cache.used_bytes - before + bytes;
            let replica = &mut self.replicas[slot as usize];
            if replica.pins > 0 {
                cache.pinned_bytes = cache.pinned_bytes - before + bytes;
            }
            let priority = self.priorities.of_resized(replica.priority, bytes, cache.inflation);
            if priority != replica.priority {
                cache.order.remove(&mut self.replicas, slot);
                self.replicas[slot as usize].priority = priority;
                cache.order.push(&mut self.replicas, slot);
            }
        }
    }

    /// Removes the replica, which left its cache as a victim or by mishap.
    pub fn remove(&mut self, worker: WorkerId, item: ItemId) {
        let slot = self.find(worker, item).expect("what leaves is held");
        if self.items[item.at()].is_in_table {
            self.leave_table(slot);
        }
        let Replica { pins, priority, is_arriving, .. } = self.replicas[slot as usize];
        let entry = &mut self.items[item.at()];
        *if is_arriving { &mut entry.arriving } else { &mut entry.copies } -= 1;
        if entry.copies + entry.arriving == 0 {
            self.distinct_bytes -= entry.bytes;
        }
        entry.holders.remove(&mut self.blocks, worker);
        let cache = &mut self.caches[worker.at()];
        cache.used_bytes -= entry.bytes;
        if pins > 0 {
            cache.pinned_bytes -= entry.bytes;
        }
        cache.inflation = self.priorities.inflation(cache.inflation, priority);
        cache.order.remove(&mut self.replicas, slot);
        self.vacant.push(slot);
        if self.items[item.at()].is_in_table && self.items[item.at()].holdings() == FEW {
            self.leave_table_with_all(item);
        }
    }

    fn touch_slot(&mut self, slot: u32) {
        let replica = &mut self.replicas[slot as usize];
        let bytes = self.items[replica.item as usize].bytes;
        let inflation = self.caches[replica.worker as usize].inflation;
        replica.priority = self.priorities.of_used(replica.priority, bytes, inflation);
    }

    fn pin_slot(&mut self, slot: u32) {
        let replica = &mut self.replicas[slot as usize];
        if replica.pins == 0 {
            self.caches[replica.worker as usize].pinned_bytes += self.items[replica.item as usize].bytes;
        }
        replica.pins += 1;
    }

    fn unpin_slot(&mut self, slot: u32) {
        let replica = &mut self.replicas[slot as usize];
        replica.pins -= 1;
        if replica.pins == 0 {
            self.caches[replica.worker as usize].pinned_bytes -= self.items[replica.item as usize].bytes;
        }
    }

    fn enter_table(&mut self, slot: u32) {
        let replicas = &self.replicas;
        self.places.insert_unique(hash_of(replicas, slot), slot, |&slot| hash_of(replicas, slot));
    }

    fn leave_table(&mut self, slot: u32) {
        let found = self.places.find_entry(hash_of(&self.replicas, slot), |&other| other == slot);
        found.expect("all replicas of an item in the table are").remove();
    }

    fn enter_table_with_all(&mut self, item: ItemId) {
        self.slots_of(item).into_iter().for_each(|slot| self.enter_table(slot));
        self.items[item.at()].is_in_table = true;
    }

    fn leave_table_with_all(&mut self, item: ItemId) {
        self.slots_of(item).into_iter().for_each(|slot| self.leave_table(slot));
        self.items[item.at()].is_in_table = false;
    }

    fn slots_of(&self, item: ItemId) -> Vec<u32> {
        self.items[item.at()].holders.all(&self.blocks).map(|holder| holder.slot).collect()
    }

    fn find(&self, worker: WorkerId, item: ItemId) -> Option<u32> {
        let entry = &self.items[item.at()];
        if !entry.is_in_table {
            return entry.holders.find(&self.blocks, worker).map(|holder| holder.slot);
        }
        self.places.find(hash(worker, item), |&slot| is_replica(&self.replicas, slot, worker, item)).copied()
    }

    fn occupy(&mut self, replica: Replica) -> u32 {
        if let Some(slot) = self.vacant.pop() {
            self.replicas[slot as usize] = replica;
            return slot;
        }
        self.replicas.push(replica);
        self.replicas.len() as u32 - 1
    }
}

impl Item {
    fn holdings(&self) -> u16 {
        self.copies + self.arriving
    }
}

fn is_replica(replicas: &[Replica], slot: u32, worker: WorkerId, item: ItemId) -> bool {
    let replica = &replicas[slot as usize];
    replica.item == item.0 && replica.worker == worker.0
}

fn hash_of(replicas: &[Replica], slot: u32) -> u64 {
    let replica = &replicas[slot as usize];
    hash(WorkerId(replica.worker), ItemId(replica.item))
}

/// The finalizer of MurmurHash3: all bits of the key reach all bits of the hash.
fn hash(worker: WorkerId, item: ItemId) -> u64 {
    let mut hash = u64::from(item.0) << 32 | u64::from(worker.0);
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

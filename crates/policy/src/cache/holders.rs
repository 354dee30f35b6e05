//! Who has an item: small blocks of (worker, slot), so that the holders of most items lie in one place.
//!
//! Only an item's first block may have room; whoever leaves is replaced by the first block's last.

use super::WorkerId;

const NONE: u32 = u32::MAX;
const PER_BLOCK: usize = 4;
/// Set in a worker's number while the item is on its way there.
const ARRIVING: u32 = 1 << 31;

struct Block {
    workers: [u32; PER_BLOCK],
    slots: [u32; PER_BLOCK],
    next: u32,
}

/// The first block of one item's holders.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct First(u32);

impl First {
    pub const NOBODY: First = First(NONE);
}

#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub worker: WorkerId,
    /// Of its replica.
    pub slot: u32,
    pub is_arriving: bool,
}

#[derive(Default)]
pub(super) struct Holders {
    blocks: Vec<Block>,
    vacant: u32,
    has_vacant: bool,
}

impl Holders {
    pub fn reserve(&mut self, replicas: usize) {
        self.blocks.reserve_exact(replicas.div_ceil(PER_BLOCK));
    }

    pub fn add(&mut self, first: &mut First, holder: Holder) {
        assert!(holder.worker.0 < ARRIVING, "fewer than 2^31 workers");
        if first.0 == NONE || self.blocks[first.0 as usize].len() == PER_BLOCK {
            first.0 = self.occupy(first.0);
        }
        let block = &mut self.blocks[first.0 as usize];
        let at = block.len();
        block.workers[at] = holder.worker.0 | if holder.is_arriving { ARRIVING } else { 0 };
        block.slots[at] = holder.slot;
    }

    pub fn remove(&mut self, first: &mut First, worker: WorkerId) {
        let (place, at) = self.place(*first, worker).expect("whoever leaves is there");
        let block = &mut self.blocks[first.0 as usize];
        let last = block.len() - 1;
        let (moved, slot) = (std::mem::replace(&mut block.workers[last], NONE), block.slots[last]);
        if (place, at) != (first.0, last) {
            let block = &mut self.blocks[place as usize];
            (block.workers[at], block.slots[at]) = (moved, slot);
        }
        if last == 0 {
            first.0 = self.free(first.0);
        }
    }

    pub fn arrived(&mut self, first: First, worker: WorkerId) {
        let (place, at) = self.place(first, worker).expect("whoever waits is there");
        self.blocks[place as usize].workers[at] &= !ARRIVING;
    }

    pub fn find(&self, first: First, worker: WorkerId) -> Option<Holder> {
        let (place, at) = self.place(first, worker)?;
        Some(self.blocks[place as usize].holder(at))
    }

    /// In no order.
    pub fn of(&self, first: First) -> impl Iterator<Item = Holder> + '_ {
        let (mut place, mut at) = (first.0, 0);
        std::iter::from_fn(move || {
            if place != NONE && (at == PER_BLOCK || self.blocks[place as usize].workers[at] == NONE) {
                (place, at) = (self.blocks[place as usize].next, 0);
            }
            let block = self.blocks.get(place as usize)?;
            at += 1;
            Some(block.holder(at - 1))
        })
    }

    fn place(&self, first: First, worker: WorkerId) -> Option<(u32, usize)> {
        let mut place = first.0;
        while place != NONE {
            let block = &self.blocks[place as usize];
            let is_it = |number: &u32| *number != NONE && *number & !ARRIVING == worker.0;
            if let Some(at) = block.workers.iter().position(is_it) {
                return Some((place, at));
            }
            place = block.next;
        }
        None
    }

    fn occupy(&mut self, next: u32) -> u32 {
        let block = Block { workers: [NONE; PER_BLOCK], slots: [NONE; PER_BLOCK], next };
        if !self.has_vacant {
            self.blocks.push(block);
            return self.blocks.len() as u32 - 1;
        }
        let place = self.vacant;
        self.vacant = self.blocks[place as usize].next;
        self.has_vacant = self.vacant != NONE;
        self.blocks[place as usize] = block;
        place
    }

    /// Gives the block after it.
    fn free(&mut self, place: u32) -> u32 {
        let vacant = if self.has_vacant { self.vacant } else { NONE };
        let next = std::mem::replace(&mut self.blocks[place as usize].next, vacant);
        (self.vacant, self.has_vacant) = (place, true);
        next
    }
}

impl Block {
    fn len(&self) -> usize {
        self.workers.iter().position(|worker| *worker == NONE).unwrap_or(PER_BLOCK)
    }

    fn holder(&self, at: usize) -> Holder {
        let worker = self.workers[at];
        Holder { worker: WorkerId(worker & !ARRIVING), slot: self.slots[at], is_arriving: worker & ARRIVING != 0 }
    }
}

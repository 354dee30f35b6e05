//! The holders of an item: four with the item itself, in its cache line, and more in blocks of four.
//!
//! Only the four nearest may be fewer; a holder that leaves is replaced by the last of them.

use super::WorkerId;

const NONE: u32 = u32::MAX;
const NEAR: usize = 4;
/// Set in a worker's number while the item is on its way there.
const ARRIVING: u32 = 1 << 31;

#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub worker: WorkerId,
    /// Of its replica.
    pub slot: u32,
    pub is_arriving: bool,
}

/// Up to four holders, and where the others are.
#[derive(Clone, Copy)]
pub(super) struct Holders {
    workers: [u32; NEAR],
    slots: [u32; NEAR],
    blocks: u32,
}

/// The blocks of all items; those in use are full.
#[derive(Default)]
pub(super) struct HolderBlocks {
    blocks: Vec<Holders>,
    vacant: Vec<u32>,
}

impl Holders {
    pub const EMPTY: Holders = Holders { workers: [NONE; NEAR], slots: [NONE; NEAR], blocks: NONE };

    pub fn add(&mut self, blocks: &mut HolderBlocks, holder: Holder) {
        assert!(holder.worker.0 < NONE & !ARRIVING, "fewer than 2^31 - 1 workers");
        if self.len() == NEAR {
            *self = Holders { blocks: blocks.occupy(*self), ..Holders::EMPTY };
        }
        let at = self.len();
        self.workers[at] = holder.worker.0 | if holder.is_arriving { ARRIVING } else { 0 };
        self.slots[at] = holder.slot;
    }

    pub fn remove(&mut self, blocks: &mut HolderBlocks, worker: WorkerId) {
        let last = self.len().checked_sub(1).expect("an item that is held");
        let (moved, slot) = (self.workers[last], self.slots[last]);
        let (block, at) = self.place(blocks, worker).expect("the leaving worker holds it");
        (block.workers[at], block.slots[at]) = (moved, slot);
        self.workers[last] = NONE;
        if last == 0 && self.blocks != NONE {
            *self = blocks.free(self.blocks);
        }
    }

    pub fn arrived(&mut self, blocks: &mut HolderBlocks, worker: WorkerId) {
        let (block, at) = self.place(blocks, worker).expect("the waiting worker holds it");
        block.workers[at] &= !ARRIVING;
    }

    pub fn find(&self, blocks: &HolderBlocks, worker: WorkerId) -> Option<Holder> {
        let mut block = self;
        loop {
            if let Some(at) = block.position(worker) {
                return Some(block.holder(at));
            }
            block = blocks.blocks.get(block.blocks as usize)?;
        }
    }

    /// In no order.
    pub fn all<'a>(&'a self, blocks: &'a HolderBlocks) -> impl Iterator<Item = Holder> + 'a {
        let (mut block, mut at) = (self, 0);
        std::iter::from_fn(move || {
            if at == NEAR || block.workers[at] == NONE {
                (block, at) = (blocks.blocks.get(block.blocks as usize)?, 0);
            }
            at += 1;
            Some(block.holder(at - 1))
        })
    }

    fn len(&self) -> usize {
        self.workers.iter().position(|worker| *worker == NONE).unwrap_or(NEAR)
    }

    fn position(&self, worker: WorkerId) -> Option<usize> {
        self.workers.iter().position(|number| *number != NONE && *number & !ARRIVING == worker.0)
    }

    fn holder(&self, at: usize) -> Holder {
        let worker = self.workers[at];
        Holder { worker: WorkerId(worker & !ARRIVING), slot: self.slots[at], is_arriving: worker & ARRIVING != 0 }
    }

    fn place<'a>(&'a mut self, blocks: &'a mut HolderBlocks, worker: WorkerId) -> Option<(&'a mut Holders, usize)> {
        if let Some(at) = self.position(worker) {
            return Some((self, at));
        }
        let mut place = self.blocks;
        loop {
            let block = blocks.blocks.get(place as usize)?;
            if let Some(at) = block.position(worker) {
                return Some((&mut blocks.blocks[place as usize], at));
            }
            place = block.blocks;
        }
    }
}

impl HolderBlocks {
    fn occupy(&mut self, block: Holders) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.blocks[place as usize] = block;
            return place;
        }
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    fn free(&mut self, place: u32) -> Holders {
        self.vacant.push(place);
        self.blocks[place as usize]
    }
}

//! The wants of waiting tasks: of each task its items, of each item the tasks of the window in a list.
//!
//! All lists are links through one slab, so that a task costs no allocation of its own. Where an item's list begins and
//! ends is noted with the item.

use crate::cache::{Index, ItemId};

use super::queue::NONE;

struct Want {
    item: ItemId,
    slot: u32,
    of_task: u32,
    previous: u32,
    next: u32,
}

pub(super) struct Wants {
    wants: Vec<Want>,
    vacant: u32,
}

impl Wants {
    pub fn new() -> Self {
        Wants { wants: Vec::new(), vacant: NONE }
    }

    /// Returns the tasks of an item, from its first want on.
    pub fn of_item(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut want = first;
        std::iter::from_fn(move || {
            let found = self.wants.get(want as usize)?;
            want = found.next;
            Some(found.slot)
        })
    }

    /// Returns the items of a task, from its first want on.
    pub fn of_task(&self, first: u32) -> impl Iterator<Item = ItemId> + '_ {
        let mut want = first;
        std::iter::from_fn(move || {
            let found = self.wants.get(want as usize)?;
            want = found.of_task;
            Some(found.item)
        })
    }

    /// Wants for a task that is not in the window yet, each item once; gives the first.
    pub fn add(&mut self, slot: u32, inputs: &[ItemId]) -> u32 {
        let mut of_task = NONE;
        for (at, &item) in inputs.iter().enumerate().rev() {
            if !inputs[..at].contains(&item) {
                of_task = self.occupy(Want { item, slot, of_task, previous: NONE, next: NONE });
            }
        }
        of_task
    }

    /// Moves the task into the window.
    pub fn link(&mut self, index: &mut Index, first: u32) {
        let mut want = first;
        while want != NONE {
            let Want { item, of_task, .. } = self.wants[want as usize];
            let last = std::mem::replace(&mut index.note_mut(item).last_want, want);
            self.wants[want as usize].previous = last;
            match last {
                NONE => index.note_mut(item).first_want = want,
                _ => self.wants[last as usize].next = want,
            }
            want = of_task;
        }
    }

    /// Moves the task out of the window.
    pub fn unlink(&mut self, index: &mut Index, first: u32) {
        let mut want = first;
        while want != NONE {
            let Want { item, of_task, previous, next, .. } = self.wants[want as usize];
            match previous {
                NONE => index.note_mut(item).first_want = next,
                _ => self.wants[previous as usize].next = next,
            }
            match next {
                NONE => index.note_mut(item).last_want = previous,
                _ => self.wants[next as usize].previous = previous,
            }
            want = of_task;
        }
    }

    /// Frees the wants of a task that is gone; they are linked nowhere.
    pub fn remove(&mut self, first: u32) {
        let mut want = first;
        while want != NONE {
            let of_task = self.wants[want as usize].of_task;
            self.wants[want as usize].next = std::mem::replace(&mut self.vacant, want);
            want = of_task;
        }
    }

    fn occupy(&mut self, want: Want) -> u32 {
        if self.vacant == NONE {
            self.wants.push(want);
            return self.wants.len() as u32 - 1;
        }
        let place = self.vacant;
        self.vacant = self.wants[place as usize].next;
        self.wants[place as usize] = want;
        place
    }
}

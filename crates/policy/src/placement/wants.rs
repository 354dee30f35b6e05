//! What the tasks of the window want of each item: a list of them, and how many of the cold ones it leads.
//!
//! All lists are links through one slab, so that a task costs no allocation of its own; what is known of an item lies
//! in one place.

use crate::cache::ItemId;

use super::queue::NONE;

struct Want {
    item: ItemId,
    slot: u32,
    of_task: u32,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Item {
    /// The first and the last of its wants.
    first: u32,
    last: u32,
    /// Cold tasks whose first input it is.
    leads: u32,
    was_named: bool,
}

pub(super) struct Wants {
    wants: Vec<Want>,
    vacant: u32,
    items: Vec<Item>,
}

impl Wants {
    pub fn new() -> Self {
        Wants { wants: Vec::new(), vacant: NONE, items: Vec::new() }
    }

    pub fn reserve(&mut self, items: usize) {
        self.items.reserve_exact(items);
    }

    pub fn add_item(&mut self) {
        self.items.push(Item { first: NONE, last: NONE, leads: 0, was_named: false });
    }

    /// A task names the item among its input; gives whether one did before.
    pub fn name(&mut self, item: ItemId) -> bool {
        std::mem::replace(&mut self.items[item.at()].was_named, true)
    }

    pub fn was_named(&self, item: ItemId) -> bool {
        self.items[item.at()].was_named
    }

    /// Changes how many cold tasks it leads; gives how many before and now.
    pub fn lead(&mut self, item: ItemId, change: i32) -> (u32, u32) {
        let leads = &mut self.items[item.at()].leads;
        let after = leads.checked_add_signed(change).expect("a lead is counted down as often as up");
        (std::mem::replace(leads, after), after)
    }

    pub fn is_wanted(&self, item: ItemId) -> bool {
        self.items[item.at()].first != NONE
    }

    /// Tasks of the window that want the item, in the order they entered it.
    pub fn of_item(&self, item: ItemId) -> impl Iterator<Item = u32> + '_ {
        let mut want = self.items[item.at()].first;
        std::iter::from_fn(move || {
            let found = self.wants.get(want as usize)?;
            want = found.next;
            Some(found.slot)
        })
    }

    /// Items of a task, from its first want on.
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

    /// The task enters the window.
    pub fn link(&mut self, first: u32) {
        let mut want = first;
        while want != NONE {
            let Want { item, of_task, .. } = self.wants[want as usize];
            let last = std::mem::replace(&mut self.items[item.at()].last, want);
            self.wants[want as usize].previous = last;
            match last {
                NONE => self.items[item.at()].first = want,
                _ => self.wants[last as usize].next = want,
            }
            want = of_task;
        }
    }

    /// The task leaves the window.
    pub fn unlink(&mut self, first: u32) {
        let mut want = first;
        while want != NONE {
            let Want { item, of_task, previous, next, .. } = self.wants[want as usize];
            match previous {
                NONE => self.items[item.at()].first = next,
                _ => self.wants[previous as usize].next = next,
            }
            match next {
                NONE => self.items[item.at()].last = previous,
                _ => self.wants[next as usize].previous = previous,
            }
            want = of_task;
        }
    }

    /// The task is gone; its wants are linked nowhere.
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

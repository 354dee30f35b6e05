//! Tasks that wait: in the order they came, and by the items they want.
//!
//! Only tasks of the window stand in the lists of items; those beyond enter it as others leave. All lists are links
//! through two slabs, so that a task costs no allocation of its own.

use std::collections::VecDeque;

use crate::cache::ItemId;

use super::TaskId;

pub(super) const NONE: u32 = u32::MAX;

/// Whether any worker has, or awaits, some of a task's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing {
    /// Not in the window.
    Beyond,
    /// Nobody has any of it.
    Cold,
    /// Nobody has any of it yet, but some is on its way to a worker.
    Awaited,
    /// Somebody has some of it, since then; after the other time it may run elsewhere.
    Held { since_s: f64, until_s: f64 },
}

pub(super) struct Waiting {
    pub task: TaskId,
    pub sequence: u64,
    pub standing: Standing,
    first_want: u32,
    previous: u32,
    next: u32,
}

struct Want {
    item: ItemId,
    slot: u32,
    of_task: u32,
    previous: u32,
    next: u32,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    vacant: Vec<u32>,
    wants: Vec<Want>,
    vacant_want: u32,
    /// For each item its first and last want.
    wanted: Vec<(u32, u32)>,
    beyond: VecDeque<u32>,
    window: (u32, u32),
    in_window: usize,
    submitted: u64,
}

impl Queue {
    pub fn new() -> Self {
        Queue { window: (NONE, NONE), vacant_want: NONE, ..Queue::default() }
    }

    pub fn len(&self) -> usize {
        self.in_window + self.beyond.len()
    }

    pub fn in_window(&self) -> usize {
        self.in_window
    }

    pub fn get(&self, slot: u32) -> &Waiting {
        &self.waiting[slot as usize]
    }

    pub fn set_standing(&mut self, slot: u32, standing: Standing) {
        self.waiting[slot as usize].standing = standing;
    }

    /// The first task of the window.
    pub fn first(&self) -> Option<u32> {
        (self.window.0 != NONE).then_some(self.window.0)
    }

    /// Items the task wants, each once.
    pub fn inputs(&self, slot: u32) -> impl Iterator<Item = ItemId> + '_ {
        let mut want = self.waiting[slot as usize].first_want;
        std::iter::from_fn(move || {
            let found = self.wants.get(want as usize)?;
            want = found.of_task;
            Some(found.item)
        })
    }

    /// Tasks of the window that want the item, in the order they entered it.
    pub fn wanting(&self, item: ItemId) -> impl Iterator<Item = u32> + '_ {
        let mut want = self.wanted.get(item.at()).map_or(NONE, |ends| ends.0);
        std::iter::from_fn(move || {
            let found = self.wants.get(want as usize)?;
            want = found.next;
            Some(found.slot)
        })
    }

    pub fn is_wanted(&self, item: ItemId) -> bool {
        self.wanted.get(item.at()).is_some_and(|ends| ends.0 != NONE)
    }

    /// At the end, beyond the window.
    pub fn submit(&mut self, task: TaskId, inputs: &[ItemId]) {
        let (sequence, standing) = (self.submitted, Standing::Beyond);
        let waiting = Waiting { task, sequence, standing, first_want: NONE, previous: NONE, next: NONE };
        self.submitted += 1;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.waiting[slot as usize] = waiting;
                slot
            }
            None => {
                self.waiting.push(waiting);
                self.waiting.len() as u32 - 1
            }
        };
        for (at, &item) in inputs.iter().enumerate().rev() {
            if !inputs[..at].contains(&item) {
                let of_task = self.waiting[slot as usize].first_want;
                let want = Want { item, slot, of_task, previous: NONE, next: NONE };
                self.waiting[slot as usize].first_want = self.occupy(want);
            }
        }
        self.beyond.push_back(slot);
    }

    /// The first beyond comes into the window.
    pub fn enter(&mut self) -> Option<u32> {
        let slot = self.beyond.pop_front()?;
        let last = self.window.1;
        self.waiting[slot as usize].previous = last;
        match last {
            NONE => self.window.0 = slot,
            _ => self.waiting[last as usize].next = slot,
        }
        self.window.1 = slot;
        self.in_window += 1;
        let mut want = self.waiting[slot as usize].first_want;
        while want != NONE {
            self.link(want);
            want = self.wants[want as usize].of_task;
        }
        Some(slot)
    }

    /// Takes the first beyond without its having been in the window.
    pub fn take_beyond(&mut self) -> Option<TaskId> {
        let slot = self.beyond.pop_front()?;
        Some(self.free(slot))
    }

    /// Takes a task out of the window.
    pub fn take(&mut self, slot: u32) -> TaskId {
        let Waiting { previous, next, .. } = self.waiting[slot as usize];
        match previous {
            NONE => self.window.0 = next,
            _ => self.waiting[previous as usize].next = next,
        }
        match next {
            NONE => self.window.1 = previous,
            _ => self.waiting[next as usize].previous = previous,
        }
        self.in_window -= 1;
        let mut want = self.waiting[slot as usize].first_want;
        while want != NONE {
            self.unlink(want);
            want = self.wants[want as usize].of_task;
        }
        self.free(slot)
    }

    fn free(&mut self, slot: u32) -> TaskId {
        let mut want = self.waiting[slot as usize].first_want;
        while want != NONE {
            let of_task = self.wants[want as usize].of_task;
            self.wants[want as usize].next = self.vacant_want;
            self.vacant_want = want;
            want = of_task;
        }
        self.vacant.push(slot);
        self.waiting[slot as usize].task
    }

    fn occupy(&mut self, want: Want) -> u32 {
        if self.vacant_want == NONE {
            self.wants.push(want);
            return self.wants.len() as u32 - 1;
        }
        let place = self.vacant_want;
        self.vacant_want = self.wants[place as usize].next;
        self.wants[place as usize] = want;
        place
    }

    fn link(&mut self, want: u32) {
        let item = self.wants[want as usize].item.at();
        if self.wanted.len() <= item {
            self.wanted.resize(item + 1, (NONE, NONE));
        }
        let last = self.wanted[item].1;
        self.wants[want as usize].previous = last;
        match last {
            NONE => self.wanted[item].0 = want,
            _ => self.wants[last as usize].next = want,
        }
        self.wanted[item].1 = want;
    }

    fn unlink(&mut self, want: u32) {
        let Want { item, previous, next, .. } = self.wants[want as usize];
        match previous {
            NONE => self.wanted[item.at()].0 = next,
            _ => self.wants[previous as usize].next = next,
        }
        match next {
            NONE => self.wanted[item.at()].1 = previous,
            _ => self.wants[next as usize].previous = previous,
        }
    }
}

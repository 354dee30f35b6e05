//! Tasks that wait, in the order they came.
//!
//! Only tasks of the window stand in the lists of the items they want (`wants`); those beyond enter it as others leave.

use std::collections::VecDeque;

use crate::cache::{Index, ItemId};

use super::TaskId;
use super::candidates::Candidate;
use super::wants::Wants;

pub(super) const NONE: u32 = u32::MAX;
/// Of a slot that no task has.
const NO_SEQUENCE: u64 = u64::MAX;

/// Whether any worker has, or awaits, some of a task's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Locality {
    /// Not in the window.
    Beyond,
    /// No worker has any of it.
    Cold,
    /// No worker has any of it yet, but some is on its way to a worker.
    Awaited,
    /// A worker has some of it, since then; after the other time it may run elsewhere.
    Held { since_s: f64, until_s: f64 },
}

pub(super) struct Waiting {
    pub task: TaskId,
    pub standing: Locality,
    first_want: u32,
    previous: u32,
    next: u32,
}

pub(super) struct Queue {
    waiting: Vec<Waiting>,
    /// For each slot the queue place of its task: apart, for callers that ask only whether it is there.
    sequences: Vec<u64>,
    vacant: Vec<u32>,
    wants: Wants,
    beyond: VecDeque<u32>,
    window: (u32, u32),
    in_window: usize,
    submitted: u64,
}

impl Queue {
    pub fn new() -> Self {
        Queue {
            waiting: Vec::new(),
            sequences: Vec::new(),
            vacant: Vec::new(),
            wants: Wants::new(),
            beyond: VecDeque::new(),
            window: (NONE, NONE),
            in_window: 0,
            submitted: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.in_window + self.beyond.len()
    }

    pub fn in_window(&self) -> usize {
        self.in_window
    }

    pub fn standing(&self, slot: u32) -> Locality {
        self.waiting[slot as usize].standing
    }

    pub fn sequence(&self, slot: u32) -> u64 {
        self.sequences[slot as usize]
    }

    pub fn set_standing(&mut self, slot: u32, standing: Locality) {
        self.waiting[slot as usize].standing = standing;
    }

    /// Whether the task still waits.
    pub fn is_there(&self, candidate: Candidate) -> bool {
        self.sequences[candidate.slot as usize] == candidate.sequence
    }

    /// Returns the first task of the window.
    pub fn first(&self) -> Option<u32> {
        (self.window.0 != NONE).then_some(self.window.0)
    }

    /// Returns the items the task wants, each once.
    pub fn inputs(&self, slot: u32) -> impl Iterator<Item = ItemId> + '_ {
        self.wants.of_task(self.waiting[slot as usize].first_want)
    }

    /// Returns the tasks of the window that want the item, in the order they entered it.
    pub fn wanting(&self, index: &Index, item: ItemId) -> impl Iterator<Item = u32> + '_ {
        self.wants.of_item(index.note(item).first_want)
    }

    /// Returns the first beyond the window.
    pub fn first_beyond(&self) -> Option<u32> {
        self.beyond.front().copied()
    }

    /// At the end, beyond the window.
    pub fn submit(&mut self, task: TaskId, inputs: &[ItemId]) {
        let slot = self.vacant.pop().unwrap_or(self.waiting.len() as u32);
        let first_want = self.wants.add(slot, inputs);
        let waiting = Waiting { task, standing: Locality::Beyond, first_want, previous: NONE, next: NONE };
        if slot as usize == self.waiting.len() {
            self.waiting.push(waiting);
            self.sequences.push(self.submitted);
        } else {
            self.waiting[slot as usize] = waiting;
            self.sequences[slot as usize] = self.submitted;
        }
        self.submitted += 1;
        self.beyond.push_back(slot);
    }

    /// Moves the first beyond into the window.
    pub fn enter(&mut self, index: &mut Index) -> Option<u32> {
        let slot = self.beyond.pop_front()?;
        let last = std::mem::replace(&mut self.window.1, slot);
        self.waiting[slot as usize].previous = last;
        match last {
            NONE => self.window.0 = slot,
            _ => self.waiting[last as usize].next = slot,
        }
        self.in_window += 1;
        self.wants.link(index, self.waiting[slot as usize].first_want);
        Some(slot)
    }

    /// Takes the first beyond without its having been in the window.
    pub fn take_beyond(&mut self) -> Option<TaskId> {
        let slot = self.beyond.pop_front()?;
        Some(self.free(slot))
    }

    /// Takes a task out of the window.
    pub fn take(&mut self, index: &mut Index, slot: u32) -> TaskId {
        let Waiting { previous, next, first_want, .. } = self.waiting[slot as usize];
        match previous {
            NONE => self.window.0 = next,
            _ => self.waiting[previous as usize].next = next,
        }
        match next {
            NONE => self.window.1 = previous,
            _ => self.waiting[next as usize].previous = previous,
        }
        self.in_window -= 1;
        self.wants.unlink(index, first_want);
        self.free(slot)
    }

    fn free(&mut self, slot: u32) -> TaskId {
        self.wants.remove(self.waiting[slot as usize].first_want);
        self.vacant.push(slot);
        self.sequences[slot as usize] = NO_SEQUENCE;
        self.waiting[slot as usize].task
    }
}

//! The agenda: a heap of events by time, and by order of entry among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task has read and computed.
    Done { running: u32 },
    /// A transfer between peers is over, unless its rate changed since.
    Transferred { flow: u32, generation: u32 },
    /// A node that was asked for is there.
    NodeReady,
}

#[derive(Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    entered: u64,
}

impl Agenda {
    pub fn add(&mut self, at_s: f64, event: Event) {
        self.entered += 1;
        // Bits of a time, which is not negative, are ordered as the time is.
        self.heap.push(Reverse((at_s.to_bits(), self.entered, event)));
    }

    pub fn next_s(&self) -> f64 {
        self.heap.peek().map_or(f64::INFINITY, |Reverse((bits, _, _))| f64::from_bits(*bits))
    }

    pub fn take(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((_, _, event))| event)
    }
}

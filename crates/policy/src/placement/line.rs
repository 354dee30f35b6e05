//! Tasks of one standing by a key, the least first.
//!
//! Nearly all come in the order of their keys and stand in a queue; the others in a heap. A task that leaves is only
//! counted, and removed when it comes to the front or when most of the line has left.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub key: u64,
    pub sequence: u64,
    pub slot: u32,
}

#[derive(Default)]
pub(super) struct Line {
    in_order: VecDeque<Entry>,
    strays: BinaryHeap<Reverse<Entry>>,
    standing: usize,
}

/// So many that have left are not worth a sweep.
const FEW: usize = 64;

impl Line {
    /// Those that stand in it.
    pub fn len(&self) -> usize {
        self.standing
    }

    /// Must follow [`Line::drop_departed`] after the last that left.
    pub fn first(&self) -> Option<Entry> {
        match (self.in_order.front(), self.strays.peek()) {
            (Some(&first), Some(&Reverse(stray))) => Some(first.min(stray)),
            (first, stray) => first.copied().or(stray.map(|stray| stray.0)),
        }
    }

    pub fn join(&mut self, entry: Entry, is_standing: impl Fn(&Entry) -> bool) {
        self.standing += 1;
        if self.in_order.back().is_none_or(|last| *last < entry) {
            self.in_order.push_back(entry);
        } else {
            self.strays.push(Reverse(entry));
        }
        if self.in_order.len() + self.strays.len() > 2 * self.standing + FEW {
            self.sweep(is_standing);
        }
    }

    pub fn leave(&mut self) {
        self.standing -= 1;
    }

    /// Drops departed entries from the front, so that the first one stands.
    pub fn drop_departed(&mut self, is_standing: impl Fn(&Entry) -> bool) {
        while self.in_order.front().is_some_and(|first| !is_standing(first)) {
            self.in_order.pop_front();
        }
        while self.strays.peek().is_some_and(|stray| !is_standing(&stray.0)) {
            self.strays.pop();
        }
    }

    /// One that left and came back with the same key stands twice until then.
    fn sweep(&mut self, is_standing: impl Fn(&Entry) -> bool) {
        let mut all: Vec<Entry> = self.strays.drain().map(|stray| stray.0).chain(self.in_order.drain(..)).collect();
        all.retain(is_standing);
        all.sort_unstable();
        all.dedup();
        self.in_order = all.into();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Entry, FEW, Line};

    /// Tasks join in order and out of order, leave, and join again with the key they had.
    #[test]
    fn the_first_is_the_least_of_those_that_stand() {
        let (mut line, mut standing, mut left) = (Line::default(), BTreeSet::new(), Vec::new());
        let mut draws = 7u64;
        for sequence in 0..20_000 {
            draws = draws.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let draw = draws >> 33;
            let fresh = Entry { key: sequence + draw % 4 / 3 * (draw % 900), sequence, slot: 0 };
            let entry = if draw.is_multiple_of(11) { left.pop().unwrap_or(fresh) } else { fresh };
            standing.insert(entry);
            line.join(entry, |entry| standing.contains(entry));
            if !draw.is_multiple_of(16) {
                let middle = Entry { key: sequence - sequence.min(draw % 50), sequence: 0, slot: 0 };
                let gone = standing.range(middle..).next().or(standing.first()).copied().expect("one stands");
                standing.remove(&gone);
                left.push(gone);
                line.leave();
                line.drop_departed(|entry| standing.contains(entry));
            }
            assert_eq!((line.first(), line.len()), (standing.first().copied(), standing.len()), "after {sequence}");
            assert!(line.in_order.len() + line.strays.len() <= 2 * standing.len() + FEW + 2, "stale entries stayed");
        }
    }
}

//! How many read from the store at once, and who is next.
//!
//! Readers beyond what the store bears only slow each other down: all inputs come late instead of the first ones early. So
//! transfers from the store wait here for their turn, and whoever has fewest under way is next.

use std::collections::{HashMap, VecDeque};

use crate::transfers::Wanted;

#[derive(Default)]
struct Line {
    waiting: VecDeque<(u64, Wanted)>,
    under_way: u32,
}

#[derive(Default)]
pub(crate) struct Gate {
    /// One for each worker.
    lines: Vec<Line>,
    /// Since when.
    under_way: HashMap<Wanted, f64>,
    waiting: usize,
    entered: u64,
}

impl Gate {
    pub fn enter(&mut self, wanted: Wanted) {
        let at = wanted.worker.0 as usize;
        if self.lines.len() <= at {
            self.lines.resize_with(at + 1, Line::default);
        }
        self.lines[at].waiting.push_back((self.entered, wanted));
        self.entered += 1;
        self.waiting += 1;
    }

    /// The next to begin, while fewer than `limit` are under way.
    pub fn next(&mut self, now_s: f64, limit: usize) -> Option<Wanted> {
        if self.waiting == 0 || self.under_way.len() >= limit {
            return None;
        }
        let lines = self.lines.iter_mut().filter(|line| !line.waiting.is_empty());
        let line = lines.min_by_key(|line| (line.under_way, line.waiting[0].0))?;
        let (_, wanted) = line.waiting.pop_front()?;
        line.under_way += 1;
        self.waiting -= 1;
        self.under_way.insert(wanted, now_s);
        Some(wanted)
    }

    /// Since when it has been under way.
    pub fn since_s(&self, wanted: &Wanted) -> Option<f64> {
        self.under_way.get(wanted).copied()
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// It ended, or will not begin.
    pub fn leave(&mut self, wanted: &Wanted) {
        let Some(line) = self.lines.get_mut(wanted.worker.0 as usize) else { return };
        if self.under_way.remove(wanted).is_some() {
            line.under_way -= 1;
        } else if let Some(at) = line.waiting.iter().position(|(_, other)| other == wanted) {
            line.waiting.remove(at);
            self.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::cache::{ItemId, WorkerId};

    use super::*;

    fn wanted(worker: u32, item: u32) -> Wanted {
        Wanted { worker: WorkerId(worker), item: ItemId(item), only_for: None }
    }

    #[test]
    fn whoever_has_fewest_under_way_is_next() {
        let mut gate = Gate::default();
        [(0, 0), (0, 1), (0, 2), (1, 3)].into_iter().for_each(|(worker, item)| gate.enter(wanted(worker, item)));
        let begun: Vec<u32> = std::iter::from_fn(|| gate.next(0.0, 3)).map(|wanted| wanted.item.0).collect();
        assert_eq!(begun, [0, 3, 1]);
        gate.leave(&wanted(0, 2));
        gate.leave(&wanted(0, 0));
        assert_eq!(gate.next(0.0, 3), None);
        gate.enter(wanted(1, 4));
        assert_eq!(gate.next(0.0, 3), Some(wanted(1, 4)));
    }
}

//! How fast bytes passed over the last minutes, by application: what the live page plots.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Each point is the mean of so long.
const INTERVAL: Duration = Duration::from_secs(2);
/// Five minutes.
const MAX_POINTS: usize = 150;

/// Bytes per second in each interval, oldest first: from clients, and to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    pub written: Vec<f64>,
    pub read: Vec<f64>,
}

#[derive(Default)]
pub struct History {
    /// When the last interval ended, since the server began.
    marked: Duration,
    /// Intervals in all; a name that came late has fewer points.
    intervals: usize,
    names: BTreeMap<String, Points>,
}

#[derive(Default)]
struct Points {
    /// The counters at the last mark: bytes written and read.
    before: [u64; 2],
    points: VecDeque<[f32; 2]>,
}

impl History {
    pub const INTERVAL: Duration = INTERVAL;

    /// To be called about once a second, `at` so long after the server began, with all names and their counters of bytes
    /// written and read, which only grow. Names that are missing are forgotten.
    pub fn mark<'a>(&mut self, at: Duration, readings: impl Iterator<Item = (&'a str, [u64; 2])>) {
        let elapsed = at.saturating_sub(self.marked);
        // A tick that comes a little early counts.
        if elapsed + INTERVAL / 4 < INTERVAL {
            return;
        }
        self.marked = at;
        self.intervals += 1;
        let mut known = std::mem::take(&mut self.names);
        for (name, now) in readings {
            let mut points = known.remove(name).unwrap_or_default();
            points.add(now, elapsed.as_secs_f32());
            self.names.insert(name.to_owned(), points);
        }
    }

    /// Of one name; as many points as there were intervals, [`MAX_POINTS`] at most.
    pub fn rates(&self, name: &str) -> Rates {
        let length = self.intervals.min(MAX_POINTS);
        let empty = VecDeque::new();
        let points = self.names.get(name).map_or(&empty, |points| &points.points);
        let missing = vec![0.0; length - points.len()];
        let column = |at: usize| {
            missing.iter().copied().chain(points.iter().map(|point| f64::from(point[at]).round())).collect()
        };
        Rates { written: column(0), read: column(1) }
    }

    /// Of all names together.
    pub fn total(&self) -> Rates {
        let mut total = self.rates("");
        for name in self.names.keys().filter(|name| !name.is_empty()) {
            let rates = self.rates(name);
            add(&mut total.written, &rates.written);
            add(&mut total.read, &rates.read);
        }
        total
    }
}

fn add(total: &mut [f64], more: &[f64]) {
    total.iter_mut().zip(more).for_each(|(total, more)| *total += more);
}

impl Points {
    fn add(&mut self, now: [u64; 2], seconds: f32) {
        let rate = |at: usize| now[at].saturating_sub(self.before[at]) as f32 / seconds;
        self.points.push_back([rate(0), rate(1)]);
        self.before = now;
        if self.points.len() > MAX_POINTS {
            self.points.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(history: &mut History, second: u64, readings: &[(&str, [u64; 2])]) {
        history.mark(Duration::from_secs(second), readings.iter().copied());
    }

    #[test]
    fn rates_are_means_of_intervals_and_late_names_begin_with_zeros() {
        let mut history = History::default();
        assert_eq!(history.total(), Rates::default());
        for second in 1..=6 {
            let mut readings = vec![("climate", [second * 100, 0])];
            if second > 4 {
                readings.push(("genome", [0, 50]));
            }
            mark(&mut history, second, &readings);
        }
        assert_eq!(history.rates("climate").written, [100.0, 100.0, 100.0]);
        assert_eq!(history.rates("genome").read, [0.0, 0.0, 25.0]);
        assert_eq!(history.rates("nobody").read, [0.0; 3]);
        let total = history.total();
        assert_eq!((total.written, total.read), (vec![100.0; 3], vec![0.0, 0.0, 25.0]));
    }

    #[test]
    fn memory_is_bounded_and_names_that_are_gone_are_forgotten() {
        let mut history = History::default();
        for number in 1..=2 * MAX_POINTS as u64 {
            mark(&mut history, 2 * number, &[("old", [number, number])]);
        }
        assert_eq!(history.rates("old").written.len(), MAX_POINTS);
        mark(&mut history, 10_000, &[("new", [1, 1])]);
        assert!(history.names.len() == 1 && history.rates("new").written.len() == MAX_POINTS);
    }
}

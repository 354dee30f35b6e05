//! The service of the last seconds by application: marks of the counters at equal distances, and their differences.
//!
//! Samples between marks show how often an application had something outstanding. The counters of an idle application
//! are kept once, so that the memory follows the busy ones.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::histogram::quantile;

/// Counters of one application when a mark is made; all only grow.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub charged_bytes: u64,
    pub up_bytes: u64,
    pub down_bytes: u64,
    pub requests: u64,
    pub late: u64,
    /// Histogram of latencies: counts of its buckets.
    pub latencies: Rc<[u64]>,
}

/// Differences over the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    pub charged_bytes: u64,
    pub up_bytes_per_s: f64,
    pub down_bytes_per_s: f64,
    pub requests_per_s: f64,
    /// Turns complete after their deadline.
    pub late: u64,
    /// The part of the time (0 to 1) in which something was outstanding.
    pub outstanding: f64,
    pub p50: Option<Duration>,
    pub p99: Option<Duration>,
}

pub struct Window {
    marks: VecDeque<Mark>,
    most_marks: usize,
    /// Glances so far, and for each application those at which something was outstanding.
    glances: u64,
    outstanding: BTreeMap<Rc<str>, u64>,
}

struct Mark {
    at: Duration,
    glances: u64,
    readings: BTreeMap<Rc<str>, (Reading, u64)>,
}

impl Window {
    /// Spans so many distances between marks.
    pub fn new(distances: usize) -> Self {
        Window { marks: VecDeque::new(), most_marks: distances + 1, glances: 0, outstanding: BTreeMap::new() }
    }

    /// Notes the applications that have something outstanding now.
    pub fn glance<'a>(&mut self, busy: impl IntoIterator<Item = &'a Rc<str>>) {
        self.glances += 1;
        for name in busy {
            match self.outstanding.get_mut(name) {
                Some(count) => *count += 1,
                None => _ = self.outstanding.insert(name.clone(), 1),
            }
        }
    }

    pub fn mark(&mut self, at: Duration, readings: impl IntoIterator<Item = (Rc<str>, Reading)>) {
        let last = self.marks.back();
        let mut marked = BTreeMap::new();
        for (name, mut reading) in readings {
            let before = last.and_then(|mark| mark.readings.get(&name));
            if let Some((before, _)) = before.filter(|(before, _)| before.latencies == reading.latencies) {
                reading.latencies = before.latencies.clone();
            }
            let outstanding = self.outstanding.get(&name).copied().unwrap_or(0);
            marked.insert(name, (reading, outstanding));
        }
        self.outstanding.retain(|name, _| marked.contains_key(name));
        self.marks.push_back(Mark { at, glances: self.glances, readings: marked });
        if self.marks.len() > self.most_marks {
            self.marks.pop_front();
        }
    }

    /// From the oldest mark to the newest; the length is zero before there are two.
    pub fn seconds(&self) -> f64 {
        let ends = self.marks.front().zip(self.marks.back());
        ends.map_or(0.0, |(first, last)| last.at.saturating_sub(first.at).as_secs_f64())
    }

    /// Zeros for an application that has not been seen at two marks; one that came meanwhile began at zero.
    pub fn recent(&self, name: &str) -> Recent {
        let Some((first, last)) = self.marks.front().zip(self.marks.back()) else { return Recent::default() };
        let seconds = self.seconds();
        let Some((newer, newer_outstanding)) = last.readings.get(name).filter(|_| seconds > 0.0) else {
            return Recent::default();
        };
        let began = (Reading::default(), 0);
        let (older, older_outstanding) = first.readings.get(name).unwrap_or(&began);
        let per_s = |newer: u64, older: u64| newer.saturating_sub(older) as f64 / seconds;
        let latencies: Vec<u64> = newer
            .latencies
            .iter()
            .enumerate()
            .map(|(at, count)| count.saturating_sub(older.latencies.get(at).copied().unwrap_or(0)))
            .collect();
        let glances = last.glances.saturating_sub(first.glances).max(1) as f64;
        Recent {
            charged_bytes: newer.charged_bytes.saturating_sub(older.charged_bytes),
            up_bytes_per_s: per_s(newer.up_bytes, older.up_bytes),
            down_bytes_per_s: per_s(newer.down_bytes, older.down_bytes),
            requests_per_s: per_s(newer.requests, older.requests),
            late: newer.late.saturating_sub(older.late),
            outstanding: newer_outstanding.saturating_sub(*older_outstanding) as f64 / glances,
            p50: quantile(&latencies, 0.5),
            p99: quantile(&latencies, 0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn reading(bytes: u64, latencies: &Histogram) -> Reading {
        let (requests, late, latencies) = (bytes / 10, bytes / 100, latencies.counts());
        Reading { charged_bytes: bytes, up_bytes: bytes, down_bytes: 2 * bytes, requests, late, latencies }
    }

    #[test]
    fn only_the_last_seconds_count() {
        let name: Rc<str> = "climate".into();
        let latencies = Histogram::default();
        let mut window = Window::new(5);
        for second in 0..20 {
            let slow = second < 10;
            latencies.note(Duration::from_millis(if slow { 500 } else { 1 }));
            let bytes = if slow { second * 1000 } else { 10_000 + (second - 10) * 100 };
            window.mark(seconds(second), [(name.clone(), reading(bytes, &latencies))]);
        }
        let recent = window.recent("climate");
        assert_eq!((window.seconds(), recent.charged_bytes, recent.late), (5.0, 500, 5));
        assert_eq!((recent.up_bytes_per_s, recent.down_bytes_per_s, recent.requests_per_s), (100.0, 200.0, 10.0));
        let p99 = recent.p99.expect("there were requests");
        assert!(p99 >= Duration::from_millis(1) && p99 < Duration::from_millis(2), "{p99:?}");
    }

    #[test]
    fn glances_tell_how_often_something_was_outstanding() {
        let (busy, idle): (Rc<str>, Rc<str>) = ("busy".into(), "idle".into());
        let mut window = Window::new(2);
        let both = || [(busy.clone(), Reading::default()), (idle.clone(), Reading::default())];
        window.mark(seconds(0), both());
        for second in 1..=4 {
            for tenth in 0..10 {
                window.glance([&busy].into_iter().filter(|_| second <= 2 || tenth < 5));
            }
            window.mark(seconds(second), both());
        }
        assert_eq!(window.recent("busy").outstanding, 0.5);
        assert_eq!(window.recent("idle").outstanding, 0.0);
    }

    #[test]
    fn an_application_that_came_meanwhile_began_at_zero_and_one_that_is_gone_has_nothing() {
        let latencies = Histogram::default();
        let mut window = Window::new(5);
        window.mark(seconds(0), [("old".into(), reading(700, &latencies))]);
        window.mark(seconds(2), [("new".into(), reading(50, &latencies))]);
        assert_eq!(window.recent("new").up_bytes_per_s, 25.0);
        assert_eq!(window.recent("old"), Recent::default());
        assert_eq!(window.recent("unknown"), Recent::default());
    }

    #[test]
    fn one_mark_is_no_window() {
        let mut window = Window::new(5);
        window.mark(seconds(3), [("new".into(), reading(50, &Histogram::default()))]);
        assert_eq!((window.seconds(), window.recent("new")), (0.0, Recent::default()));
    }

    #[test]
    fn what_an_idle_application_showed_is_kept_once() {
        let latencies = Histogram::default();
        let mut window = Window::new(5);
        (0..6).for_each(|second| window.mark(seconds(second), [("idle".into(), reading(1, &latencies))]));
        let kept: Vec<_> = window.marks.iter().map(|mark| mark.readings["idle"].0.latencies.clone()).collect();
        assert!(kept.iter().all(|latencies| Rc::ptr_eq(latencies, &kept[0])));
    }
}

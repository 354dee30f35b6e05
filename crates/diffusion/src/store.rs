//! Who reads the store, and who waits until it has room: more readers than saturate it only slow each other down, and
//! all that is read arrives at the very end.
//!
//! How many that is, is learned: half as many more are let in as long as that brings a tenth more.

use std::collections::{HashSet, VecDeque};

use crate::transfers::Wanted;

/// More readers are worth it when they bring this much more.
const GAIN: f64 = 1.1;
const GROWTH: f64 = 1.5;
/// Readers before anything is known, a slot each but no more than this.
const MOST_AT_FIRST: u32 = 32;
/// The rate is taken over this many arrivals a reader, after one each that began earlier.
const ROUNDS: u32 = 2;

#[derive(Default)]
pub(crate) struct Store {
    gauge: Gauge,
    reading: HashSet<Wanted>,
    waiting: VecDeque<Wanted>,
}

impl Store {
    pub fn wait(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// Who may read now, with so many slots in all.
    pub fn admit(&mut self, slots: u32) -> Option<Wanted> {
        if self.reading.len() >= self.gauge.readers(slots) as usize {
            return None;
        }
        let Some(wanted) = self.waiting.pop_front() else {
            self.gauge.idle();
            return None;
        };
        self.reading.insert(wanted);
        Some(wanted)
    }

    pub fn arrived(&mut self, now_s: f64, bytes: u64) {
        self.gauge.arrived(now_s, bytes);
    }

    /// Whether it arrived, failed or was given up.
    pub fn ended(&mut self, wanted: &Wanted) {
        if !self.reading.remove(wanted) {
            self.waiting.retain(|other| other != wanted);
        }
    }
}

/// How many readers the store bears.
#[derive(Default)]
struct Gauge {
    /// 0 while nothing is known.
    readers: u32,
    best: Option<Best>,
    window: Option<Window>,
    is_settled: bool,
}

struct Best {
    readers: u32,
    bytes_per_s: f64,
}

/// What arrived while as many read as may.
struct Window {
    to_skip: u32,
    begin_s: f64,
    bytes: u64,
    arrivals: u32,
}

impl Gauge {
    fn readers(&mut self, slots: u32) -> u32 {
        if self.best.is_none() {
            self.readers = self.readers.max(slots.clamp(1, MOST_AT_FIRST));
        }
        self.readers
    }

    /// Fewer read than may: what arrives now tells nothing.
    fn idle(&mut self) {
        self.window = None;
    }

    fn arrived(&mut self, now_s: f64, bytes: u64) {
        if self.is_settled || self.readers == 0 {
            return;
        }
        let fresh = Window { to_skip: self.readers, begin_s: now_s, bytes: 0, arrivals: 0 };
        let window = self.window.get_or_insert(fresh);
        if window.to_skip > 0 {
            window.to_skip -= 1;
            window.begin_s = now_s;
            return;
        }
        window.bytes += bytes;
        window.arrivals += 1;
        if window.arrivals >= ROUNDS * self.readers && now_s > window.begin_s {
            let bytes_per_s = window.bytes as f64 / (now_s - window.begin_s);
            self.judge(bytes_per_s);
        }
    }

    fn judge(&mut self, bytes_per_s: f64) {
        self.window = None;
        match &self.best {
            Some(best) if bytes_per_s < GAIN * best.bytes_per_s => {
                self.readers = best.readers;
                self.is_settled = true;
            }
            _ => {
                self.best = Some(Best { readers: self.readers, bytes_per_s });
                self.readers = (f64::from(self.readers) * GROWTH).ceil() as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::cache::{ItemId, WorkerId};

    /// A store of this rate, and of this for one reader; files of 1 byte, at `readers` at once as the gauge says.
    fn learned(store_bytes_per_s: f64, reader_bytes_per_s: f64, slots: u32) -> u32 {
        let mut store = Store::default();
        (0..10_000).for_each(|item| {
            store.wait(Wanted { worker: WorkerId(0), item: ItemId(item), task: None });
        });
        let mut now_s = 0.0;
        for _ in 0..2000 {
            while store.admit(slots).is_some() {}
            now_s += 1.0 / store_bytes_per_s.min(reader_bytes_per_s * store.reading.len() as f64);
            let first = *store.reading.iter().min().expect("somebody reads");
            store.arrived(now_s, 1);
            store.ended(&first);
        }
        store.reading.len() as u32 + 1
    }

    #[test]
    fn readers_are_as_many_as_bring_more() {
        assert_eq!(learned(40.0, 8.0, 8), 8, "they saturate it from the start");
        let of_many = learned(400.0, 8.0, 8);
        assert!((50..=90).contains(&of_many), "fifty saturate it, {of_many} read");
    }

    #[test]
    fn who_gave_up_waiting_is_not_admitted() {
        let wanted = |item| Wanted { worker: WorkerId(0), item: ItemId(item), task: None };
        let mut store = Store::default();
        (0..3).for_each(|item| store.wait(wanted(item)));
        assert_eq!(store.admit(1), Some(wanted(0)));
        assert_eq!(store.admit(1), None);
        store.ended(&wanted(1));
        store.ended(&wanted(0));
        assert_eq!(store.admit(1), Some(wanted(2)));
    }
}

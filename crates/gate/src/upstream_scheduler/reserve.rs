//! How many bytes of an object count as outstanding at a server until it has replied.
//!
//! Many servers take bytes long before they work on them: they read ahead of their disks, or accept more connections
//! than they read. Their TCP acknowledges all the same. So an object is granted whole and counts until the reply,
//! unless the server was seen to work on what it reads: then slices do, which keeps less at the server. Its backlog is
//! seen by the longest time in which an object made no progress, as a part of all its time: near nothing for a server
//! that works on what it reads, all for one that buffers everything or reads another connection first.

use std::cell::Cell;

use policy::fairness::Time;

/// A slice, which a server holds in any case.
pub const MIN_BYTES: u64 = 64 << 10;
/// Objects up to this length are granted whole.
pub const MAX_BYTES: u64 = 32 << 20;
/// One object says little, so more is believed of it.
const MARGIN: f64 = 1.25;
/// A server that holds back less is one that works on what it reads, after so many objects in a row; after each
/// mistake, which costs throughput, after twice as many.
const CALM_BYTES: u64 = MIN_BYTES * 3 / 2;
const MIN_CALM_OBJECTS: u32 = 64;
const MAX_CALM_OBJECTS: u32 = 8192;

pub struct Reserve {
    calm: Cell<u32>,
    calm_needed: Cell<u32>,
    is_streaming: Cell<bool>,
}

impl Default for Reserve {
    fn default() -> Self {
        Reserve { calm: Cell::new(0), calm_needed: Cell::new(MIN_CALM_OBJECTS), is_streaming: Cell::new(false) }
    }
}

impl Reserve {
    /// For an object of this length.
    pub fn bytes(&self, length: u64) -> u64 {
        if self.is_streaming.get() || length > MAX_BYTES { length.min(MIN_BYTES) } else { length }
    }

    /// Notes that an object was served so.
    pub fn note(&self, length: u64, progress: &Progress, now: Time) {
        if length < 2 * MIN_BYTES {
            return;
        }
        let (stood_ns, whole_ns) = progress.ends(now);
        let hidden = MARGIN * length as f64 * stood_ns as f64 / whole_ns.max(1) as f64;
        self.judge(hidden <= CALM_BYTES as f64);
    }

    fn judge(&self, is_calm: bool) {
        if !is_calm {
            self.calm.set(0);
            if self.is_streaming.replace(false) {
                self.calm_needed.set((2 * self.calm_needed.get()).min(MAX_CALM_OBJECTS));
            }
            return;
        }
        self.calm.set(self.calm.get().saturating_add(1));
        if self.calm.get() >= self.calm_needed.get() {
            self.is_streaming.set(true);
        }
    }
}

/// When an object began, and for how long the server made no progress with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    began: Time,
    last: Time,
    stood_ns: u64,
}

impl Progress {
    pub fn begin(now: Time) -> Progress {
        Progress { began: now, last: now, stood_ns: 0 }
    }

    /// Notes that the server took or sent some.
    pub fn note(&mut self, now: Time) {
        self.stood_ns = self.stood_ns.max(now.since(self.last));
        self.last = now;
    }

    /// Notes that until now it had nothing to do: the client, or the scheduler, kept it waiting.
    pub fn resume(&mut self, now: Time) {
        self.last = now;
    }

    pub fn last(&self) -> Time {
        self.last
    }

    fn ends(mut self, now: Time) -> (u64, u64) {
        self.note(now);
        (self.stood_ns, now.since(self.began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Objects of 4 MiB that make progress at these parts of their time.
    fn after(objects: usize, progress_at: &[u64], length: u64) -> u64 {
        let reserve = Reserve::default();
        for _ in 0..objects {
            let mut progress = Progress::begin(Time(0));
            progress_at.iter().for_each(|at| progress.note(Time(*at)));
            reserve.note(length, &progress, Time(100));
        }
        reserve.bytes(length)
    }

    #[test]
    fn a_server_that_serves_what_it_reads_is_given_slices() {
        let steps: Vec<u64> = (0..100).collect();
        assert_eq!(after(200, &steps, 4 * MIB), MIN_BYTES);
    }

    #[test]
    fn a_server_that_replies_long_after_it_has_read_all_is_given_whole_objects() {
        assert_eq!(after(200, &[1, 2], 4 * MIB), 4 * MIB);
    }

    #[test]
    fn a_server_that_reads_ahead_is_given_whole_objects_and_slices_of_long_ones() {
        let steps: Vec<u64> = (0..75).collect();
        assert_eq!(after(200, &steps, 4 * MIB), 4 * MIB);
        assert_eq!(after(200, &steps, 64 * MIB), MIN_BYTES);
    }

    #[test]
    fn a_server_that_reads_another_connection_first_is_given_whole_objects() {
        let steps: Vec<u64> = (80..100).collect();
        assert_eq!(after(200, &steps, 4 * MIB), 4 * MIB);
    }

    #[test]
    fn each_mistake_doubles_the_time_until_the_next() {
        let reserve = Reserve::default();
        let calm_until_streaming = || {
            (1..1000).find(|_| {
                reserve.judge(true);
                reserve.is_streaming.get()
            })
        };
        for objects in [64, 128, 256] {
            assert_eq!(calm_until_streaming(), Some(objects));
            reserve.judge(false);
        }
    }
}

//! How many bytes of an object count as outstanding at a server until it has replied.
//!
//! Many servers take bytes long before they work on them: they read ahead of their disks, or accept more connections
//! than they read. Their TCP acknowledges all the same. What a server holds back of an object is seen by the longest time
//! in which the object made no progress, as a part of all its time: near nothing for a server that works on what it
//! reads, all for one that buffers everything or reads another connection first.
//!
//! Short objects are granted whole and count until the reply, unless the server was seen to work on what it reads: then
//! slices do, which keeps less at the server. Long ones, of which a server holds a small part only, pass in slices that
//! are complete when acknowledged, unless it was seen to hold back much of them: then they are granted whole for a while.

use std::cell::Cell;

use policy::fairness::Time;

/// A slice, which a server holds in any case.
pub const MIN_BYTES: u64 = 64 << 10;
/// Longer objects pass in slices if the server lets them.
const MAX_SHORT_BYTES: u64 = 1 << 20;
/// Longer ones are never granted whole.
const MAX_BYTES: u64 = 32 << 20;
/// One object says little, so more is believed of it.
const MARGIN: f64 = 1.25;
/// A server that holds back less is one that works on what it reads, after so many objects in a row; after each
/// mistake, which costs throughput, after twice as many.
const CALM_BYTES: u64 = MIN_BYTES * 3 / 2;
const MIN_CALM_OBJECTS: u32 = 64;
const MAX_CALM_OBJECTS: u32 = 8192;

/// Objects that may be granted whole for a while, or never are.
pub fn is_long(length: u64) -> bool {
    length > MAX_SHORT_BYTES
}

#[derive(Default)]
pub struct Reserve {
    short: ShortObjects,
    long: LongObjects,
}

impl Reserve {
    /// For an object of this length that begins now.
    pub fn bytes(&self, length: u64, now: Time) -> u64 {
        let is_whole = if is_long(length) {
            length <= MAX_BYTES && now < self.long.whole_until.get()
        } else {
            !self.short.is_streaming.get()
        };
        if is_whole { length } else { length.min(MIN_BYTES) }
    }

    /// An object was served so, of which so much was granted when it began.
    pub fn note(&self, length: u64, granted: u64, progress: &Progress, now: Time) {
        let (stood_ns, whole_ns) = progress.ends(now);
        let stood = stood_ns as f64 / whole_ns.max(1) as f64;
        if is_long(length) {
            // One granted whole stands still while others pass, whatever the server does.
            if granted < length {
                // That all of it was taken long before the reply matters little: few ends of objects are there at a time.
                let stood = progress.stood_ns as f64 / whole_ns.max(1) as f64;
                self.long.note(stood > much_held_back(length), whole_ns, now);
            }
        } else if length >= 2 * MIN_BYTES {
            self.short.note(MARGIN * length as f64 * stood <= CALM_BYTES as f64);
        }
    }
}

struct ShortObjects {
    calm: Cell<u32>,
    calm_needed: Cell<u32>,
    is_streaming: Cell<bool>,
}

impl Default for ShortObjects {
    fn default() -> Self {
        ShortObjects { calm: Cell::new(0), calm_needed: Cell::new(MIN_CALM_OBJECTS), is_streaming: Cell::new(false) }
    }
}

impl ShortObjects {
    fn note(&self, is_calm: bool) {
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

/// A server holds back much that makes no progress with an object for more than this part of its time. In short ones the
/// mebibyte that many servers read ahead is a large part already.
fn much_held_back(length: u64) -> f64 {
    (0.5 + (1 << 20) as f64 / length as f64).min(0.75)
}

/// Then long objects are granted whole for so many times what this one took. Slices are tried again afterwards, which
/// costs about one such time, so each time for twice as long.
const MIN_WHOLE_TIMES: u32 = 32;
const MAX_WHOLE_TIMES: u32 = 1024;
const MAX_WHOLE_NS: u64 = 3_600_000_000_000;
/// After so many objects in a row of which little was held back, nothing is left of that.
const FORGETTING_OBJECTS: u32 = 64;

struct LongObjects {
    whole_until: Cell<Time>,
    whole_times: Cell<u32>,
    calm: Cell<u32>,
}

impl Default for LongObjects {
    fn default() -> Self {
        LongObjects { whole_until: Cell::default(), whole_times: Cell::new(MIN_WHOLE_TIMES), calm: Cell::new(0) }
    }
}

impl LongObjects {
    /// An object that passed in slices took so long. Those that began before others were granted whole say nothing new.
    fn note(&self, is_held_back: bool, whole_ns: u64, now: Time) {
        if now < self.whole_until.get() {
            return;
        }
        if !is_held_back {
            self.calm.set(self.calm.get().saturating_add(1));
            if self.calm.get() >= FORGETTING_OBJECTS {
                self.whole_times.set(MIN_WHOLE_TIMES);
            }
            return;
        }
        self.calm.set(0);
        let times = self.whole_times.get();
        self.whole_times.set((2 * times).min(MAX_WHOLE_TIMES));
        self.whole_until.set(now.after(whole_ns.saturating_mul(times.into()).min(MAX_WHOLE_NS)));
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

    /// The server took or sent some.
    pub fn note(&mut self, now: Time) {
        self.stood_ns = self.stood_ns.max(now.since(self.last));
        self.last = now;
    }

    /// Until now it had nothing to do: the client, or the scheduler, kept it waiting.
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

    /// One object after the other that makes progress at these parts of its time; what the next is granted.
    fn after(objects: u64, progress_at: &[u64], length: u64) -> u64 {
        let reserve = Reserve::default();
        for object in 0..objects {
            note(&reserve, progress_at, length, 100 * object);
        }
        reserve.bytes(length, Time(100 * objects))
    }

    fn note(reserve: &Reserve, progress_at: &[u64], length: u64, began: u64) {
        let granted = reserve.bytes(length, Time(began));
        let mut progress = Progress::begin(Time(began));
        progress_at.iter().for_each(|at| progress.note(Time(began + at)));
        reserve.note(length, granted, &progress, Time(began + 100));
    }

    fn all_the_time() -> Vec<u64> {
        (0..100).collect()
    }

    #[test]
    fn a_server_that_serves_what_it_reads_is_given_slices() {
        assert_eq!(after(200, &all_the_time(), MIB), MIN_BYTES);
        assert_eq!(after(200, &all_the_time(), 4 * MIB), MIN_BYTES);
    }

    #[test]
    fn a_server_that_replies_long_after_it_has_read_all_is_given_whole_objects_and_slices_of_long_ones() {
        assert_eq!(after(200, &[1, 2], MIB), MIB);
        assert_eq!(after(200, &[1, 2], 4 * MIB), MIN_BYTES);
    }

    #[test]
    fn a_server_that_reads_ahead_is_given_whole_objects_and_slices_of_long_ones() {
        let steps: Vec<u64> = (0..75).collect();
        assert_eq!(after(200, &steps, MIB), MIB);
        assert_eq!(after(200, &steps, 4 * MIB), MIN_BYTES);
    }

    #[test]
    fn a_server_that_reads_another_connection_first_is_given_whole_objects() {
        let steps: Vec<u64> = (80..100).collect();
        assert_eq!(after(200, &steps, MIB), MIB);
        assert_eq!(after(200, &steps, 4 * MIB), 4 * MIB);
    }

    #[test]
    fn the_first_long_objects_and_the_longest_are_given_slices() {
        assert_eq!(after(0, &[], 4 * MIB), MIN_BYTES);
        assert_eq!(after(200, &[1, 90], 64 * MIB), MIN_BYTES);
    }

    #[test]
    fn each_mistake_doubles_the_number_of_objects_until_slices_of_short_ones() {
        let objects = ShortObjects::default();
        let calm_until_streaming = || {
            (1..1000).find(|_| {
                objects.note(true);
                objects.is_streaming.get()
            })
        };
        for count in [64, 128, 256] {
            assert_eq!(calm_until_streaming(), Some(count));
            objects.note(false);
        }
    }

    #[test]
    fn each_mistake_doubles_the_time_until_slices_of_long_ones_are_tried_again() {
        let reserve = Reserve::default();
        let mut began = 0;
        for objects in [32, 64, 128] {
            note(&reserve, &[1, 90], 4 * MIB, began);
            began += 100;
            // Slices that began before say the same.
            note(&reserve, &[1, 90], 64 * MIB, began - 50);
            let last = Time(began + 100 * objects - 1);
            assert_eq!(reserve.bytes(4 * MIB, last), 4 * MIB);
            began += 100 * objects;
            assert_eq!(reserve.bytes(4 * MIB, Time(began)), MIN_BYTES);
        }
        for _ in 0..FORGETTING_OBJECTS {
            note(&reserve, &all_the_time(), 4 * MIB, began);
        }
        note(&reserve, &[1, 90], 4 * MIB, began);
        assert_eq!(reserve.bytes(4 * MIB, Time(began + 32 * 100)), 4 * MIB);
        assert_eq!(reserve.bytes(4 * MIB, Time(began + 33 * 100)), MIN_BYTES);
    }
}

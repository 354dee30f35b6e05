//! How many bytes to keep outstanding at the server: the least with which it still works at its full rate.
//!
//! What is outstanding at the server is out of our hands: it decides in which order that is served, and whoever comes
//! next waits for it. So depth is a trade between control and utilization (Jin et al. 2004, section 5). Like BBR and
//! Vegas we find the knee by looking: cruise for a while, try a little more or a little less for a moment, and keep
//! what proves better. A trial counts only if the queue never ran dry, since otherwise it was not the depth that
//! limited. Trials that change nothing become rarer; a change of the server's rate makes them frequent again.

use super::{Depth, Time};

/// Where the search starts, and its bounds. The floor is two requests of the sizes seen.
const FIRST_BYTES: u64 = 256 << 10;
const LEAST_BYTES: u64 = 16 << 10;
const MOST_BYTES: u64 = 64 << 20;

/// A trial lasts at least so long and so many requests, so that a hundredth of the rate can be told from noise.
const TRIAL_NS: u64 = 30_000_000;
const TRIAL_REQUESTS: u64 = 48;
const TRIAL_LONGEST_NS: u64 = 2_000_000_000;

/// Pauses between trials that taught nothing double between these.
const PAUSE_LEAST_NS: u64 = 100_000_000;
const PAUSE_MOST_NS: u64 = 8_000_000_000;

/// The full rate is looked at again so often.
const STALE_NS: u64 = 10_000_000_000;

/// More depth must gain this much of the rate; less depth may lose so much.
const GAIN_WANTED: f64 = 1.02;
const LOSS_ALLOWED: f64 = 0.99;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trial {
    Cruise,
    More,
    Less,
}

/// What is being measured: from the first completion of a request started in the trial.
struct Measure {
    trial: Trial,
    began: Time,
    first: Option<Time>,
    requests: u64,
    bytes: u64,
    ran_dry: bool,
    held: bool,
}

/// The depth of one server, and what was learnt of it on the way.
pub struct DepthControl {
    fixed: Option<u64>,
    bytes: u64,
    largest_bytes: u64,
    measure: Measure,
    cruise_rate: f64,
    full_rate: f64,
    looked_at: Time,
    next_trial: Trial,
    next_trial_at: Time,
    pause_ns: u64,
    /// Bytes per nanosecond while busy, smoothed.
    rate: f64,
    last_completion: Time,
}

impl DepthControl {
    pub fn new(depth: Depth) -> Self {
        let (fixed, bytes) = match depth {
            Depth::Auto => (None, FIRST_BYTES),
            Depth::Bytes(bytes) => (Some(bytes), bytes),
        };
        DepthControl {
            fixed,
            bytes,
            largest_bytes: 0,
            measure: Measure::of(Trial::Cruise, Time(0)),
            cruise_rate: 0.0,
            full_rate: 0.0,
            looked_at: Time(0),
            next_trial: Trial::Less,
            next_trial_at: Time(0),
            pause_ns: PAUSE_LEAST_NS,
            rate: 0.0,
            last_completion: Time(0),
        }
    }

    /// Most that is to be outstanding now.
    pub fn bytes(&self) -> u64 {
        if self.fixed.is_some() {
            return self.bytes;
        }
        let bytes = match self.measure.trial {
            Trial::Cruise => self.bytes,
            Trial::More => self.bytes + (self.bytes / 2).max(self.largest_bytes),
            Trial::Less => (self.bytes - self.bytes / 4).min(self.bytes.saturating_sub(self.largest_bytes)),
        };
        bytes.clamp(self.floor_bytes(), MOST_BYTES)
    }

    /// Bytes per nanosecond that the server gave lately.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes per nanosecond that it gives when it always has as much as it needs; `None` before that was seen.
    pub fn full_rate(&self) -> Option<f64> {
        (self.full_rate > 0.0).then_some(self.full_rate)
    }

    /// Whether the full rate should be looked at again, without holding anything back meanwhile.
    pub fn is_stale(&self, now: Time) -> bool {
        now.since(self.looked_at) > STALE_NS
    }

    /// Everything queued was started and there is room for more: what is measured now is not the server.
    pub fn ran_dry(&mut self) {
        self.measure.ran_dry = true;
    }

    /// Something queued is held back though there is room for it.
    pub fn held(&mut self) {
        self.measure.held = true;
    }

    pub fn started(&mut self, cost_bytes: u64) {
        self.largest_bytes = self.largest_bytes.max(cost_bytes);
    }

    /// A request of `cost_bytes` started at `since` is complete; `in_flight_bytes` remain.
    pub fn completed(&mut self, cost_bytes: u64, since: Time, in_flight_bytes: u64, now: Time) {
        self.note_rate(cost_bytes, now, in_flight_bytes);
        if since < self.measure.began {
            return;
        }
        match self.measure.first {
            None => self.measure.first = Some(now),
            Some(first) => {
                self.measure.requests += 1;
                self.measure.bytes += cost_bytes;
                let ns = now.since(first);
                let enough = self.measure.requests >= TRIAL_REQUESTS && ns >= TRIAL_NS;
                if enough || ns >= TRIAL_LONGEST_NS {
                    self.end_trial(self.measure.bytes as f64 / ns.max(1) as f64, now);
                }
            }
        }
    }

    fn floor_bytes(&self) -> u64 {
        (2 * self.largest_bytes).max(LEAST_BYTES).min(MOST_BYTES)
    }

    fn end_trial(&mut self, rate: f64, now: Time) {
        let Measure { trial, ran_dry, held, .. } = self.measure;
        let limited_by_depth = !ran_dry && !held;
        let tried_bytes = self.bytes();
        if !held {
            self.looked_at = now;
        }
        if limited_by_depth {
            match trial {
                Trial::Cruise => self.note_cruise(rate),
                Trial::More => self.judge(rate >= self.cruise_rate * GAIN_WANTED, Trial::Less, tried_bytes, now),
                Trial::Less => self.judge(rate >= self.cruise_rate * LOSS_ALLOWED, Trial::More, tried_bytes, now),
            }
        }
        self.full_rate = self.full_rate.max(rate);
        let next = match trial {
            Trial::Cruise if limited_by_depth && self.fixed.is_none() && now >= self.next_trial_at => {
                self.trial_that_changes_something()
            }
            _ => Trial::Cruise,
        };
        self.largest_bytes -= self.largest_bytes / 64;
        self.measure = Measure::of(next, now);
    }

    fn trial_that_changes_something(&mut self) -> Trial {
        if self.next_trial == Trial::Less && self.bytes <= self.floor_bytes() {
            self.bytes = self.floor_bytes();
            self.next_trial = Trial::More;
        }
        self.next_trial
    }

    /// A rate quite unlike the last is a changed server (or changed requests): look again soon.
    fn note_cruise(&mut self, rate: f64) {
        if (rate - self.cruise_rate).abs() > 0.15 * self.cruise_rate {
            self.pause_ns = PAUSE_LEAST_NS;
            self.next_trial_at = Time(0);
        }
        self.cruise_rate = rate;
        self.full_rate = rate;
    }

    /// Keeps what was tried and goes on the same way at once, or returns and tries the other way later.
    fn judge(&mut self, better: bool, otherwise: Trial, tried_bytes: u64, now: Time) {
        if better {
            self.bytes = tried_bytes;
            self.pause_ns = PAUSE_LEAST_NS;
            self.next_trial_at = now;
        } else {
            self.next_trial = otherwise;
            self.next_trial_at = now.after(self.pause_ns);
            self.pause_ns = (2 * self.pause_ns).min(PAUSE_MOST_NS);
        }
    }

    /// A mean over some tens of milliseconds of completions, not counting time in which the server was empty.
    fn note_rate(&mut self, cost_bytes: u64, now: Time, in_flight_bytes: u64) {
        const SPAN_NS: f64 = 50_000_000.0;
        let ns = now.since(self.last_completion) as f64;
        let share = (ns / SPAN_NS).min(1.0);
        if self.last_completion != Time(0) && in_flight_bytes > 0 {
            // Completions at the same instant add up; time in between lets the mean fade.
            self.rate = self.rate * (1.0 - share) + cost_bytes as f64 / SPAN_NS.max(ns);
        }
        self.last_completion = now;
    }
}

impl Measure {
    fn of(trial: Trial, began: Time) -> Self {
        Measure { trial, began, first: None, requests: 0, bytes: 0, ran_dry: false, held: false }
    }
}

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

/// A trial lasts at least so long, so many requests and so many times in service (parallel servers complete in
/// clusters), so that a hundredth of the rate can be told from noise.
const TRIAL_NS: u64 = 50_000_000;
const TRIAL_REQUESTS: u64 = 96;
const TRIAL_ROUNDS: u64 = 12;
const TRIAL_LONGEST_NS: u64 = 2_000_000_000;

/// Pauses between trials that taught nothing double between these.
const PAUSE_LEAST_NS: u64 = 300_000_000;
const PAUSE_MOST_NS: u64 = 8_000_000_000;

/// The full rate is looked at again so often.
const STALE_NS: u64 = 10_000_000_000;

/// More depth must gain this much of the rate; less depth may lose so much.
const GAIN_WANTED: f64 = 1.02;
const LOSS_ALLOWED: f64 = 0.99;

/// Other than such a gain, what looks better must do so twice: servers are noisy, and a depth too large is kept long.
const CLEAR_GAIN: f64 = 1.10;

/// So plain a gain or loss is believed sooner.
const PLAIN_GAIN: f64 = 1.25;
const PLAIN_REQUESTS: u64 = 24;
const PLAIN_ROUNDS: u64 = 4;

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
    /// How often there was room for more and nothing queued, and how often the depth kept something waiting.
    dry: u64,
    full: u64,
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
    won_once: bool,
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
            won_once: false,
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

    /// The largest request seen lately.
    pub fn largest_bytes(&self) -> u64 {
        self.largest_bytes
    }

    /// Bytes per nanosecond that the server gave lately.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes per nanosecond that it gives when it always has as much as it needs; `None` before that was seen.
    pub fn full_rate(&self) -> Option<f64> {
        (self.full_rate > 0.0).then_some(self.full_rate)
    }

    /// Whether requests may be held back on purpose: not before the full rate is known, not while another depth is
    /// tried, and not when the full rate was last seen long ago.
    pub fn allows_holding(&self, now: Time) -> bool {
        self.full_rate > 0.0 && self.measure.trial == Trial::Cruise && now.since(self.looked_at) <= STALE_NS
    }

    /// Everything queued was started and there is room for more: what is measured now is not the server.
    pub fn ran_dry(&mut self) {
        self.measure.dry += 1;
    }

    /// Something is queued and there is no room for it.
    pub fn ran_full(&mut self) {
        self.measure.full += 1;
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
                let ns = now.since(first).max(1);
                let rate = self.measure.bytes as f64 / ns as f64;
                let rounds = ns / now.since(since).max(1);
                let enough = rounds >= TRIAL_ROUNDS && self.measure.requests >= TRIAL_REQUESTS && ns >= TRIAL_NS;
                let plain = rounds >= PLAIN_ROUNDS && self.measure.requests >= PLAIN_REQUESTS && self.is_plain(rate);
                if enough || plain || ns >= TRIAL_LONGEST_NS {
                    self.end_trial(rate, now);
                }
            }
        }
    }

    fn floor_bytes(&self) -> u64 {
        (2 * self.largest_bytes).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Far below the knee every step up is a large gain, and every step down a large loss.
    fn is_plain(&self, rate: f64) -> bool {
        match self.measure.trial {
            Trial::Cruise => false,
            Trial::More => rate >= PLAIN_GAIN * self.cruise_rate,
            Trial::Less => rate <= self.cruise_rate / PLAIN_GAIN,
        }
    }

    fn end_trial(&mut self, rate: f64, now: Time) {
        let Measure { trial, dry, full, held, .. } = self.measure;
        let limited_by_depth = full > dry && !held;
        let tried_bytes = self.bytes();
        if !held {
            self.looked_at = now;
        }
        self.full_rate = self.full_rate.max(rate);
        let gain = rate / self.cruise_rate;
        let mut next = Trial::Cruise;
        match trial {
            Trial::Cruise if limited_by_depth => {
                self.note_cruise(rate);
                if self.fixed.is_none() && now >= self.next_trial_at {
                    next = self.trial_that_changes_something();
                }
            }
            // To have run dry can only have made the gain less than it was.
            Trial::More if !held && (limited_by_depth || gain >= GAIN_WANTED) => {
                self.judge(gain, GAIN_WANTED, tried_bytes, now);
                if gain >= CLEAR_GAIN {
                    self.cruise_rate = rate;
                    next = Trial::More;
                }
            }
            Trial::Less if limited_by_depth => self.judge(gain, LOSS_ALLOWED, tried_bytes, now),
            _ => {}
        }
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

    /// Keeps what was tried and goes on the same way at once, or returns and tries the other way; when that fails as
    /// well, pauses.
    fn judge(&mut self, gain: f64, wanted: f64, tried_bytes: u64, now: Time) {
        if gain < wanted {
            self.won_once = false;
            if self.measure.trial == Trial::More {
                self.next_trial = Trial::Less;
                self.next_trial_at = now;
            } else {
                self.next_trial = Trial::More;
                self.next_trial_at = now.after(self.pause_ns);
                self.pause_ns = (2 * self.pause_ns).min(PAUSE_MOST_NS);
            }
        } else if self.won_once || gain >= CLEAR_GAIN {
            self.won_once = false;
            self.bytes = tried_bytes;
            self.pause_ns = PAUSE_LEAST_NS;
            self.next_trial_at = now;
        } else {
            self.won_once = true;
            self.next_trial_at = now;
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
        Measure { trial, began, first: None, requests: 0, bytes: 0, dry: 0, full: 0, held: false }
    }
}

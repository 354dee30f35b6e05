//! A server's rate, from its completions: over whole bursts, so that one more or less at an end does not count.
//!
//! Throttles let bytes go every 100 ms, parallel servers complete in clusters. A measure begins and ends at a
//! completion that came after a lull at least half as long as the longest one seen.

use super::Time;

/// A whole measure lasts so long, so many requests, so many times in service and so many lulls.
const WHOLE_NS: u64 = 300_000_000;
const WHOLE_REQUESTS: u64 = 96;
const WHOLE_ROUNDS: u64 = 12;
const WHOLE_LULLS: u64 = 8;
const LONGEST_NS: u64 = 3_000_000_000;

/// A short measure: shows plain differences only.
const SHORT_NS: u64 = 20_000_000;
const SHORT_REQUESTS: u64 = 24;
const SHORT_ROUNDS: u64 = 4;
const SHORT_LULLS: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    Short,
    Full,
}

pub struct Measure {
    began: Time,
    settle_ns: u64,
    last: Time,
    lull_ns: u64,
    /// Whether the last completion came after a lull.
    after_lull: bool,
    first: Option<Time>,
    requests: u64,
    bytes: u64,
    /// The most that was outstanding.
    pub max_bytes: u64,
    /// How often there was room for more and nothing queued, and how often the depth kept something waiting.
    pub dry: u64,
    pub full: u64,
}

impl Measure {
    /// Completions in the first `settle_ns` do not count.
    pub fn new(began: Time, settle_ns: u64) -> Self {
        Measure {
            began,
            settle_ns,
            last: began,
            lull_ns: 0,
            after_lull: false,
            first: None,
            requests: 0,
            bytes: 0,
            max_bytes: 0,
            dry: 0,
            full: 0,
        }
    }

    pub fn completed(&mut self, cost_bytes: u64, since: Time, in_flight_bytes: u64, now: Time) {
        if self.began == Time(0) && self.last == Time(0) {
            // The first ever: no earlier time is measured.
            (self.began, self.last) = (now, now);
        }
        let lull_ns = now.since(self.last);
        self.last = now;
        self.lull_ns = self.lull_ns.max(lull_ns);
        self.after_lull = 2 * lull_ns >= self.lull_ns;
        self.max_bytes = self.max_bytes.max(in_flight_bytes + cost_bytes);
        if self.first.is_some() {
            self.requests += 1;
            self.bytes += cost_bytes;
        } else if since >= self.began && self.age_ns(now) >= self.settle_ns && self.after_lull {
            self.first = Some(now);
        }
    }

    /// Returns bytes per nanosecond, once they are known. `service_ns`: how long the last completion was in service.
    pub fn rate(&self, service_ns: u64, now: Time) -> Option<(f64, Length)> {
        let ns = now.since(self.first?);
        let lasts = |requests, rounds, lulls, min_ns| {
            self.requests >= requests && ns >= rounds * service_ns && ns >= lulls * self.lull_ns && ns >= min_ns
        };
        let length = if ns >= LONGEST_NS {
            Length::Full
        } else if !self.after_lull {
            return None;
        } else if lasts(WHOLE_REQUESTS, WHOLE_ROUNDS, WHOLE_LULLS, WHOLE_NS) {
            Length::Full
        } else if lasts(SHORT_REQUESTS, SHORT_ROUNDS, SHORT_LULLS, SHORT_NS) {
            Length::Short
        } else {
            return None;
        };
        Some((self.bytes as f64 / ns.max(1) as f64, length))
    }

    /// Something was nearly always queued that the depth kept waiting.
    pub fn is_limited_by_depth(&self) -> bool {
        self.full > 3 * self.dry
    }

    pub fn lull_ns(&self) -> u64 {
        self.lull_ns
    }

    pub fn age_ns(&self, now: Time) -> u64 {
        now.since(self.began)
    }
}

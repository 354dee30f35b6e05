//! How many bytes to keep outstanding at the server: the least with which it still works at its full rate.
//!
//! Requests outstanding at the server are beyond our control: it decides the order in which they are served, and the
//! next one waits for them. A little less rate is a small loss, a depth too large loses the shares altogether: only
//! requests queued here can be scheduled. So we begin with little, go up only on a gain that lasts, and go down
//! whenever that costs nothing.
//!
//! The search rests most of the time. Now and then it makes an experiment: it measures the rate at the depth it has
//! (the base), then at less, then at more, and keeps the better one. Real servers mislead: throttles let bytes go in
//! bursts, and buffers on the way give for a moment what no depth could. Hence a measure leaves out its beginning and
//! is taken from burst to burst (`measure.rs`).
//!
//! Bytes that are complete when the server's kernel has received them say nothing of the server's work: more of them
//! fill buffers there, at the speed of memory, beyond any scheduling. So they are not measured, and have a limit of
//! their own: a few slices, which keep a slow server busy, or the bytes under way on a long and fast network.

use super::measure::{Length, Measure};
use super::queues::{QueuedRequest, Queues};
use super::{Completion, Depth, Time};

/// Bounds. The search begins with two requests of the largest size seen, and never goes below one. Nor below two of the
/// gate's slices: a TCP server may keep the acknowledgement of a single one for 40 ms.
const MIN_BYTES: u64 = 128 << 10;
const MAX_BYTES: u64 = 64 << 20;

/// Four of the gate's slices; and so many times what passes at the present rate in the shortest time to an
/// acknowledgement.
const RECEIVED_BYTES: u64 = 256 << 10;
const RECEIVED_ROUNDS: f64 = 2.0;

/// Rests between experiments that taught nothing grow threefold between these; experiments upward, which spoil shares
/// while they last, are rarer still.
const MIN_REST_NS: u64 = 500_000_000;
const MAX_REST_NS: u64 = 20_000_000_000;
const MIN_UPWARD_NS: u64 = 4_000_000_000;
const MAX_UPWARD_NS: u64 = 64_000_000_000;

/// More depth must gain this much of the rate, twice, or at once so much; less depth may lose so much.
const GAIN_WANTED: f64 = 1.04;
const CLEAR_GAIN: f64 = 1.12;
const LOSS_ALLOWED: f64 = 0.985;

/// So plain a gain or loss is believed sooner.
const PLAIN_GAIN: f64 = 1.25;
const PLAIN_LOSS: f64 = 0.85;

/// Another rate than before by this much is another server, or other requests: earlier results are forgotten.
const CHANGED: f64 = 0.15;

/// A depth that was plainly too little is not tried again for so long.
const REMEMBERED_NS: u64 = 30_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing is measured; requests may be held back.
    Rest,
    Base,
    Less,
    More,
}

/// The depth of one server, and the results of the search so far.
pub struct DepthControl {
    fixed: bool,
    bytes: u64,
    /// Nothing was learnt yet: the depth follows the sizes seen.
    is_new: bool,
    largest_bytes: u64,
    phase: Phase,
    measure: Measure,
    /// The rate in the last base, and the longest time in it without a completion.
    base_rate: f64,
    lull_ns: u64,
    full_rate: f64,
    /// Whether in this experiment less was found enough.
    went_down: bool,
    won_once: bool,
    rest_ns: u64,
    rest_ends: Time,
    upward_ns: u64,
    upward_from: Time,
    too_little_bytes: u64,
    too_little_until: Time,
    /// Whether something was always queued when it was last measured.
    was_limiting: bool,
    /// Bytes per nanosecond while busy, smoothed.
    rate: f64,
    last_completion: Time,
    /// The shortest time in which anything was received.
    receipt_ns: Option<u64>,
}

impl DepthControl {
    pub fn new(depth: Depth) -> Self {
        let (fixed, bytes) = match depth {
            Depth::Auto => (false, MIN_BYTES),
            Depth::Bytes(bytes) => (true, bytes),
        };
        DepthControl {
            fixed,
            bytes,
            is_new: true,
            largest_bytes: 0,
            phase: Phase::Base,
            measure: Measure::new(Time(0), 0),
            base_rate: 0.0,
            lull_ns: 0,
            full_rate: 0.0,
            went_down: false,
            won_once: false,
            rest_ns: MIN_REST_NS,
            rest_ends: Time(0),
            upward_ns: MIN_UPWARD_NS,
            upward_from: Time(0),
            too_little_bytes: 0,
            too_little_until: Time(0),
            was_limiting: false,
            rate: 0.0,
            last_completion: Time(0),
            receipt_ns: None,
        }
    }

    /// Returns the most that is to be outstanding now.
    pub fn bytes(&self) -> u64 {
        if self.fixed {
            return self.bytes;
        }
        let bytes = match self.phase {
            Phase::Rest | Phase::Base => self.bytes,
            Phase::Less => self.less_bytes(),
            Phase::More => self.bytes + (self.bytes / 2).max(self.largest_bytes),
        };
        bytes.clamp(self.floor_bytes(), MAX_BYTES)
    }

    /// Returns the most that is to be outstanding of requests that are complete so.
    pub fn limit_bytes(&self, completion: Completion) -> u64 {
        if completion != Completion::Received || self.fixed {
            return self.bytes();
        }
        let on_its_way = RECEIVED_ROUNDS * self.rate * self.receipt_ns.unwrap_or(0) as f64;
        (on_its_way as u64).clamp(RECEIVED_BYTES, MAX_BYTES)
    }

    /// Returns the largest request seen lately.
    pub fn largest_bytes(&self) -> u64 {
        self.largest_bytes
    }

    /// Returns the bytes per nanosecond that the server gave lately.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the bytes per nanosecond that it gives when it always has as much as it needs; `None` before that was seen.
    pub fn full_rate(&self) -> Option<f64> {
        (self.full_rate > 0.0).then_some(self.full_rate)
    }

    /// Returns how long the server may complete nothing though it works at its full rate: throttles let bytes go in
    /// bursts.
    pub fn lull_ns(&self) -> u64 {
        self.lull_ns
    }

    /// Whether requests may be held back on purpose: not while anything is measured.
    pub fn allows_holding(&self) -> bool {
        self.full_rate > 0.0 && self.phase == Phase::Rest
    }

    /// Notes that everything queued was started and there is room for more: the rate measured now is not the server's.
    pub fn ran_dry(&mut self) {
        self.measure.dry += 1;
    }

    /// Notes that something of this completion is queued, and there is no room for it.
    pub fn ran_full(&mut self, completion: Completion) {
        self.measure.full += u64::from(completion != Completion::Received);
    }

    pub fn started(&mut self, request: &QueuedRequest, now: Time) {
        if request.completion == Completion::Received {
            return;
        }
        let cost_bytes = request.cost_bytes;
        if !self.is_new && cost_bytes >= 2 * self.largest_bytes {
            // Requests of another kind: a depth that was enough for smaller ones says nothing of them.
            self.is_new = true;
            self.begin(Phase::Base, now);
        }
        self.largest_bytes = self.largest_bytes.max(cost_bytes);
        if self.is_new && !self.fixed {
            self.bytes = self.bytes.max(2 * self.largest_bytes).min(MAX_BYTES);
        }
    }

    /// Notes that a request is complete, and no longer among those at the server.
    pub fn completed(&mut self, done: &QueuedRequest, served_bytes: u64, queues: &Queues, now: Time) {
        let (bytes, since) = (served_bytes.min(done.cost_bytes), done.since);
        self.note_rate(bytes, now, queues.in_flight_bytes());
        if done.completion == Completion::Received {
            if bytes > 0 {
                let ns = now.since(since);
                self.receipt_ns = Some(self.receipt_ns.map_or(ns, |shortest_ns| shortest_ns.min(ns)));
            }
            return;
        }
        self.measure.completed(bytes, since, queues.outstanding_bytes(done.completion), now);
        if self.phase == Phase::Rest {
            if now >= self.rest_ends || self.began_to_limit(now) {
                self.begin(Phase::Base, now);
            }
        } else if let Some((rate, length)) = self.measure.rate(now.since(since), now)
            && (length == Length::Full || self.is_plain(rate))
        {
            self.end(rate, now);
        }
    }

    fn floor_bytes(&self) -> u64 {
        self.largest_bytes.clamp(MIN_BYTES, MAX_BYTES)
    }

    /// A quarter less or one request, and once that was enough half.
    fn less_bytes(&self) -> u64 {
        let step = if self.went_down { self.bytes / 2 } else { self.bytes / 4 };
        self.bytes.saturating_sub(step.max(self.largest_bytes)).max(self.floor_bytes())
    }

    /// When there is more to do than when the depth was chosen, it may be too little by far.
    fn began_to_limit(&self, now: Time) -> bool {
        !self.was_limiting && self.measure.is_limited_by_depth() && self.measure.age_ns(now) >= MIN_REST_NS
    }

    /// Far below the knee every step up is a large gain, and every step down a large loss.
    fn is_plain(&self, rate: f64) -> bool {
        match self.phase {
            Phase::Rest | Phase::Base => false,
            Phase::More => rate >= PLAIN_GAIN * self.base_rate,
            Phase::Less => rate <= PLAIN_LOSS * self.base_rate,
        }
    }

    fn begin(&mut self, phase: Phase, now: Time) {
        // Buffers on the way fill or drain first, which says nothing of the depth.
        let settle_ns = match phase {
            Phase::More => SETTLE_UPWARD_NS.max(2 * self.lull_ns),
            _ => SETTLE_NS.max(2 * self.lull_ns).min(MAX_SETTLE_NS),
        };
        // Without a base nothing is known of bursts.
        let settle_ns = if self.full_rate == 0.0 { SETTLE_UPWARD_NS } else { settle_ns };
        self.phase = phase;
        self.measure = Measure::new(now, settle_ns);
        self.largest_bytes -= self.largest_bytes / 8;
    }

    fn end(&mut self, rate: f64, now: Time) {
        self.is_new = false;
        let gain = rate / self.base_rate;
        match self.phase {
            Phase::Rest => {}
            Phase::Base => self.end_base(rate, now),
            Phase::Less => self.end_less(gain, now),
            Phase::More => self.end_more(rate, gain, now),
        }
    }

    fn end_base(&mut self, rate: f64, now: Time) {
        if (rate - self.base_rate).abs() > CHANGED * self.base_rate {
            self.forget();
        }
        self.base_rate = rate;
        self.lull_ns = self.measure.lull_ns();
        self.went_down = false;
        self.was_limiting = self.measure.is_limited_by_depth();
        self.full_rate = if self.was_limiting { rate } else { self.full_rate.max(rate) };
        if self.fixed {
            return self.rest(now);
        }
        // Depth that was not used does not count.
        self.bytes = self.bytes.min(self.measure.max_bytes.max(self.floor_bytes()));
        self.try_less_or_more(now);
    }

    fn forget(&mut self) {
        self.rest_ns = MIN_REST_NS;
        self.upward_ns = MIN_UPWARD_NS;
        self.upward_from = Time(0);
        self.too_little_bytes = 0;
    }

    fn try_less_or_more(&mut self, now: Time) {
        let less = self.less_bytes();
        let known = less <= self.too_little_bytes && now < self.too_little_until;
        if less < self.bytes && !known && !self.won_once {
            self.begin(Phase::Less, now);
        } else {
            self.try_more(now);
        }
    }

    /// Upward only where something is queued; a depth just found to be enough needs no more.
    fn try_more(&mut self, now: Time) {
        if self.was_limiting && !self.went_down && (self.won_once || now >= self.upward_from) {
            self.begin(Phase::More, now);
        } else {
            self.rest(now);
        }
    }

    fn end_less(&mut self, gain: f64, now: Time) {
        if gain > 1.0 + CHANGED {
            // Less cannot be so much faster: the server has changed meanwhile.
            return self.begin(Phase::Base, now);
        }
        if gain >= LOSS_ALLOWED {
            self.bytes = self.less_bytes();
            self.went_down = true;
            self.rest_ns = MIN_REST_NS;
            // Against the same base: small losses do not add up.
            return self.try_less_or_more(now);
        }
        if gain <= PLAIN_LOSS {
            self.too_little_bytes = self.bytes();
            self.too_little_until = now.after(REMEMBERED_NS);
        }
        self.try_more(now);
    }

    fn end_more(&mut self, rate: f64, gain: f64, now: Time) {
        if gain >= CLEAR_GAIN || gain >= GAIN_WANTED && self.won_once {
            self.bytes = self.bytes();
            self.won_once = false;
            self.forget();
            self.base_rate = rate;
            self.full_rate = self.full_rate.max(rate);
            self.begin(Phase::More, now);
        } else if gain >= GAIN_WANTED {
            self.won_once = true;
            self.begin(Phase::Base, now);
        } else {
            self.won_once = false;
            self.upward_from = now.after(self.upward_ns);
            self.upward_ns = (2 * self.upward_ns).min(MAX_UPWARD_NS);
            self.rest(now);
        }
    }

    fn rest(&mut self, now: Time) {
        self.begin(Phase::Rest, now);
        self.rest_ends = now.after(self.rest_ns);
        self.rest_ns = (3 * self.rest_ns).min(MAX_REST_NS);
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

/// The time that a measure leaves out at its beginning.
const SETTLE_NS: u64 = 20_000_000;
const SETTLE_UPWARD_NS: u64 = 200_000_000;
const MAX_SETTLE_NS: u64 = 400_000_000;

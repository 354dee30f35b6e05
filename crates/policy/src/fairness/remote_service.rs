//! Service that applications got at other servers, reported in lumps every 25 to 50 ms.
//!
//! Were a lump charged at once, every one of N gates would make good the whole of an imbalance that all of them see,
//! some tens of milliseconds late: a loop of gain N - 1 with delay, which swings. So a lump trickles into the tag with
//! a time constant that grows with N, seen as (rate here + elsewhere) / rate here. Nothing is lost by it, only later.

use super::Time;

/// The time constant for each server's worth of service; stable while it exceeds about 0.65 times the delay.
const TRICKLE_NS_PER_SERVER: f64 = 50_000_000.0;
const MAX_TRICKLE_NS: f64 = 1_000_000_000.0;

/// How often an application's share is updated, and how long it counts as served elsewhere after a lump.
const STEP_NS: u64 = 2_000_000;
const ACTIVE_NS: u64 = 200_000_000;

#[derive(Clone, Copy)]
struct Lump {
    pending: f64,
    trickled: Time,
    updated: Time,
    in_ring: bool,
}

const NOTHING: Lump = Lump { pending: 0.0, trickled: Time(0), updated: Time(0), in_ring: false };

pub struct RemoteService {
    lumps: Vec<Lump>,
    /// Applications with something pending, in the order of their updates.
    ring: std::collections::VecDeque<u32>,
    /// Bytes per nanosecond, all applications together.
    rate: f64,
    rated: Time,
}

impl RemoteService {
    pub fn new() -> Self {
        RemoteService { lumps: Vec::new(), ring: Default::default(), rate: 0.0, rated: Time(0) }
    }

    pub fn add(&mut self, application: u32) {
        if self.lumps.len() <= application as usize {
            self.lumps.resize(application as usize + 1, NOTHING);
        }
        let in_ring = self.lumps[application as usize].in_ring;
        self.lumps[application as usize] = Lump { in_ring, ..NOTHING };
    }

    pub fn remove(&mut self, application: u32) {
        self.lumps[application as usize].pending = 0.0;
    }

    pub fn note(&mut self, application: u32, bytes: u64, virtual_length: f64, now: Time) {
        const SPAN_NS: f64 = 500_000_000.0;
        let share = (now.since(self.rated) as f64 / SPAN_NS).min(1.0);
        self.rate = self.rate * (1.0 - share) + bytes as f64 / SPAN_NS;
        self.rated = now;
        let lump = &mut self.lumps[application as usize];
        if !lump.in_ring {
            lump.in_ring = true;
            lump.trickled = now;
            self.ring.push_back(application);
        }
        lump.pending += virtual_length;
        lump.updated = now;
    }

    /// Returns an application whose tag is to be moved now, and by how much. To be asked until `None`.
    pub fn due(&mut self, now: Time, rate_here: f64) -> Option<(u32, f64)> {
        let application = *self.ring.front()?;
        let lump = &mut self.lumps[application as usize];
        let ns = now.since(lump.trickled);
        if ns < STEP_NS {
            return None;
        }
        let servers = if rate_here > 0.0 { 1.0 + self.rate / rate_here } else { 1.0 };
        let constant_ns = (TRICKLE_NS_PER_SERVER * servers).min(MAX_TRICKLE_NS);
        let share = 1.0 - (-(ns as f64) / constant_ns).exp();
        let part = lump.pending * share;
        lump.pending -= part;
        lump.trickled = now;
        self.ring.pop_front();
        if lump.pending < 1e-3 {
            lump.in_ring = false;
        } else {
            self.ring.push_back(application);
        }
        Some((application, part))
    }

    /// Whether it was served elsewhere a moment ago.
    pub fn is_active(&self, application: u32, now: Time) -> bool {
        let updated = self.lumps[application as usize].updated;
        updated != Time(0) && now.since(updated) < ACTIVE_NS
    }

    /// Returns the bytes per nanosecond of all applications elsewhere.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

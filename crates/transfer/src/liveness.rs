//! Tracks, by what arrives from a node, that it lives and that it makes progress.
//!
//! A node that holds its clients back, or works long for them, sends Alive; its `progress` changes whenever the node has
//! done some of the work that clients wait for. Time is passed in, and nothing is done about it here.

use std::time::{Duration, Instant};

use crate::SILENCE_TIMEOUT;

/// Times since a connection's Welcome, or since a request was sent.
pub(crate) struct Liveness {
    progress: u64,
    /// When something last arrived.
    arrived: Instant,
    /// The same, or when this client last waited for nothing.
    heard: Instant,
    /// When the node last did something, for this client or others.
    worked: Instant,
    /// The same, or when this client last waited for nothing.
    advanced: Instant,
}

impl Liveness {
    pub fn begin(now: Instant) -> Self {
        Liveness { progress: 0, arrived: now, heard: now, worked: now, advanced: now }
    }

    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    pub fn heard(&self) -> Instant {
        self.heard
    }

    pub fn worked(&self) -> Instant {
        self.worked
    }

    pub fn advanced(&self) -> Instant {
        self.advanced
    }

    /// Notes that bytes have arrived.
    pub fn hear(&mut self, now: Instant) {
        (self.arrived, self.heard) = (now, now);
    }

    /// Notes a heartbeat: another `progress` than the last says that the node has done something since.
    pub fn beat(&mut self, progress: u64, now: Instant) {
        if std::mem::replace(&mut self.progress, progress) != progress {
            self.work(now);
        }
    }

    /// Notes that the node has done something.
    pub fn work(&mut self, now: Instant) {
        (self.worked, self.advanced) = (now, now);
    }

    /// Waits from now on: nothing was waited for before, or nothing could be received.
    pub fn wait_from(&mut self, now: Instant) {
        (self.heard, self.advanced) = (self.heard.max(now), self.advanced.max(now));
    }

    /// Counts a connection's times from what arrived last, its Welcome.
    pub fn welcome(&mut self) {
        self.advanced = self.heard;
    }

    pub fn is_silent(&self, now: Instant) -> bool {
        now >= self.heard + SILENCE_TIMEOUT
    }

    /// Discounts the time for which this process was stopped.
    pub fn stopped(&mut self, time: Duration, now: Instant) {
        for instant in [&mut self.arrived, &mut self.heard, &mut self.worked, &mut self.advanced] {
            *instant = (*instant + time).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_beats_lives_and_only_one_whose_progress_changes_gets_on() {
        let begun = Instant::now();
        let at = |s: u64| begun + Duration::from_secs(s);
        let mut node = Liveness::begin(begun);
        node.hear(at(9));
        node.beat(0, at(9));
        assert!(!node.is_silent(at(18)) && node.is_silent(at(19)));
        assert_eq!((node.worked(), node.advanced()), (begun, begun));
        node.beat(4, at(12));
        assert_eq!((node.worked(), node.advanced()), (at(12), at(12)));
        node.wait_from(at(30));
        assert_eq!((node.heard(), node.worked(), node.advanced()), (at(30), at(12), at(30)));
        node.stopped(Duration::from_secs(5), at(33));
        assert_eq!((node.heard(), node.worked(), node.advanced()), (at(33), at(17), at(33)));
    }
}

//! Where an application that owes nothing stands: the tag of newcomers.
//!
//! It follows virtual time as that moves by charges, not as it jumps when the one that was behind leaves: else a short
//! absence would forgive all that the others had too much.

use super::Time;

#[derive(Default)]
pub struct Reference {
    tag: f64,
    faded: Time,
}

impl Reference {
    pub fn tag(&self) -> f64 {
        self.tag
    }

    /// Notes that virtual time went from `before` to `after` by a charge, with the same applications present.
    pub fn follow(&mut self, before: Option<f64>, after: Option<f64>) {
        let (Some(before), Some(after)) = (before, after) else { return };
        if before >= self.tag {
            self.tag += (after - before).max(0.0);
        } else {
            self.tag = self.tag.max(after);
        }
    }

    /// Forgets the distance between it and virtual time within some `lag_ns`.
    pub fn fade(&mut self, virtual_time: Option<f64>, now: Time, lag_ns: f64) {
        let ns = now.since(self.faded) as f64;
        self.faded = now;
        if let Some(virtual_time) = virtual_time.filter(|virtual_time| *virtual_time > self.tag) {
            self.tag += (virtual_time - self.tag) * (ns / lag_ns.max(1.0)).min(1.0);
        }
    }
}

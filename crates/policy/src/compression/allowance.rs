//! What mode `performance` may lose: blocks never take much longer in all than if they were stored as they are.

use super::choice::{EncodingResult, Goal};
use super::mode::{Mode, Outcome};

/// Of the time that blocks take as they are, looks and encodings that save nothing may take so much in all.
const MAX_LOSS_SHARE: f32 = 0.015;
/// What may be lost before anything was earned (ns).
const INITIAL_NS: f32 = 0.2e6;
/// What is kept at most, so that a long run of blocks which lose is not paid for by those that gained before; and owed at most, since a time that was
/// measured wrong must not stop compression for long (ns).
const MAX_NS: f32 = 2e6;

/// Of a first look, as the model's times are (ns).
const GLANCE_NS: f32 = 10_000.0;

/// Nanoseconds that may still be lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    ns: f32,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance { ns: INITIAL_NS }
    }
}

impl Allowance {
    /// Earns by a block of so many bytes, and pays for a first look at it; returns `false` where nothing is left for one. Other modes
    /// always look: they give time for bytes.
    pub fn take_first_look(&mut self, goal: &Goal, raw_bytes: usize) -> bool {
        if goal.mode != Mode::Performance {
            return true;
        }
        self.add(MAX_LOSS_SHARE * as_it_is_ns(goal) * raw_bytes as f32);
        let is_affordable = self.ns >= 0.0;
        if is_affordable {
            self.add(-GLANCE_NS * goal.slowness / goal.conditions.cores);
        }
        is_affordable
    }

    /// Pays for a close look, which took so long.
    pub fn pay_for_look(&mut self, goal: &Goal, took_ns: f32) {
        if goal.mode == Mode::Performance {
            self.add(-took_ns / goal.conditions.cores);
        }
    }

    /// Counts what a block saved or lost that was not stored as it is.
    pub fn count(&mut self, goal: &Goal, result: &EncodingResult, raw_bytes: usize) {
        let Some(encode_ns) = result.encode_ns.filter(|_| goal.mode == Mode::Performance) else { return };
        self.add((as_it_is_ns(goal) - cost_ns(goal, result.share, encode_ns)) * raw_bytes as f32);
    }

    fn add(&mut self, ns: f32) {
        self.ns = (self.ns + ns).clamp(-MAX_NS, MAX_NS);
    }
}

fn as_it_is_ns(goal: &Goal) -> f32 {
    cost_ns(goal, 1.0, 0.0)
}

/// Of a raw byte.
fn cost_ns(goal: &Goal, share: f32, encode_ns: f32) -> f32 {
    Mode::Performance.cost(&Outcome { share, encode_ns, decode_ns: 0.0 }, &goal.conditions)
}

#[cfg(test)]
mod tests {
    use super::super::Conditions;
    use super::*;

    const RAW_BYTES: usize = 256 << 10;

    fn goal(bytes_per_second: f32) -> Goal {
        Goal {
            mode: Mode::Performance,
            conditions: Conditions { bytes_per_second, cores: 1.0, ..Conditions::default() },
            slowness: 1.0,
        }
    }

    #[test]
    fn blocks_that_gain_nothing_take_hardly_longer_than_as_they_are() {
        for rate in [50e6, 500e6, 2e9] {
            let (goal, mut allowance) = (goal(rate), Allowance::default());
            let (blocks, mut lost_ns) = (2000, 0.0);
            for _ in 0..blocks {
                if allowance.take_first_look(&goal, RAW_BYTES) {
                    allowance.pay_for_look(&goal, 30e3);
                    lost_ns += GLANCE_NS + 30e3;
                }
            }
            let as_they_are_ns = blocks as f32 * RAW_BYTES as f32 * 1e9 / rate;
            assert!(
                lost_ns < 1.1 * MAX_LOSS_SHARE * as_they_are_ns + INITIAL_NS,
                "{rate}: {lost_ns} of {as_they_are_ns}"
            );
            assert!(lost_ns > 0.005 * as_they_are_ns, "{rate}: {lost_ns} of {as_they_are_ns}");
        }
    }

    #[test]
    fn an_encoding_that_takes_longer_than_it_saves_is_paid_for_by_the_next_blocks() {
        let (goal, mut allowance) = (goal(1e9), Allowance::default());
        allowance.count(&goal, &EncodingResult { share: 0.9, encode_ns: Some(1.5) }, RAW_BYTES);
        let looked = (0..100).filter(|_| allowance.take_first_look(&goal, RAW_BYTES)).count();
        assert!((5..40).contains(&looked), "{looked}");
        allowance.count(&goal, &EncodingResult { share: 0.01, encode_ns: Some(0.1) }, 64 * RAW_BYTES);
        assert!((0..100).all(|_| allowance.take_first_look(&goal, RAW_BYTES)));
    }
}

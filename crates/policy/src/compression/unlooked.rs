//! Blocks whose encoding needs no close look: one that looks random or is empty, a short one, and any that goes where bytes go faster
//! than a look and the fastest codec would take.

use super::candidates::{CANDIDATES, Candidate, Data};
use super::choice::Goal;
use super::mode::Mode;
use super::{Compression, Probe, never};
use crate::encoding::{Element, Encoding, Filter};

/// Entropy coding gains about (collisions − 1) / (2 ln 2) bits of 8 when bytes are nearly even: 0.4 % at this
/// value, which is 7 standard deviations from random for a sample of 4 KiB.
const EVEN_COLLISIONS: f32 = 1.04;

/// Shorter blocks are compressed without a look at them: it would cost more than there is to win, and a model has seen few
/// (bytes).
const MIN_MODELLED_BYTES: usize = 16 << 10;

/// What a look takes (ns, as the model's times are), and how many times that it must promise.
const LOOK_NS: f32 = 40_000.0;
const WORTH_A_LOOK: f32 = 2.0;

/// The fastest codecs for what is mostly of one value, and for anything else (ns a byte); from so many collisions on.
const EMPTIEST_NS: f32 = 0.25;
const FASTEST_NS: f32 = 0.8;
const MOSTLY_ONE_VALUE: f32 = 64.0;

/// What zstd:1 takes of short blocks (ns a byte), and leaves of those worth it (share).
const SHORT_NS: f32 = 3.0;
const SHORT_SHARE: f32 = 0.5;

/// Returns whether a block looks random all over: it is stored as it is, without another look.
pub fn is_incompressible(probe: Probe) -> bool {
    probe.byte_collisions < EVEN_COLLISIONS && !probe.repeats
}

/// Returns whether any block may be worth compressing; where not even one of zeros is, blocks need no probe.
pub fn can_pay(goal: &Goal, raw_bytes: usize) -> bool {
    goal.mode != Mode::Performance || is_worth_a_look(goal, 256.0, raw_bytes)
}

/// Returns how a block is encoded that needs no look, and `None` for one that deserves it.
pub fn without_a_look(goal: &Goal, probe: Probe, raw_bytes: usize, data: &Data) -> Option<Encoding> {
    match () {
        _ if !data.is_known && is_incompressible(probe) => Some(never().into()),
        _ if probe.zeros => Some(Compression::ZeroRun.into()),
        _ if raw_bytes < MIN_MODELLED_BYTES => of_short_block(goal, data),
        _ if goal.mode != Mode::Performance => None,
        _ if is_worth_a_look(goal, probe.byte_collisions, raw_bytes) => None,
        _ => Some(never().into()),
    }
}

fn is_worth_a_look(goal: &Goal, byte_collisions: f32, raw_bytes: usize) -> bool {
    promise_ns(goal, byte_collisions) * raw_bytes as f32 > WORTH_A_LOOK * LOOK_NS * goal.slowness
}

/// Returns the time that is saved at best, for each raw byte, in mode `performance`: of what an even code of half the bits that single bytes
/// need would leave.
fn promise_ns(goal: &Goal, byte_collisions: f32) -> f32 {
    let fastest_ns = if byte_collisions < MOSTLY_ONE_VALUE { FASTEST_NS } else { EMPTIEST_NS };
    let share = (8.0 - byte_collisions.max(1.0).log2()) / 16.0;
    (1.0 - share) * transfer_ns(goal) - fastest_ns * goal.slowness / goal.conditions.cores
}

fn transfer_ns(goal: &Goal) -> f32 {
    1e9 / goal.conditions.bytes_per_second
}

fn of_short_block(goal: &Goal, data: &Data) -> Option<Encoding> {
    let saved_ns = (1.0 - SHORT_SHARE) * transfer_ns(goal);
    if goal.mode == Mode::Performance && saved_ns < SHORT_NS * goal.slowness / goal.conditions.cores {
        return Some(never().into());
    }
    let level = if goal.mode == Mode::Archival { 19 } else { 1 };
    let is_wanted = |candidate: &&Candidate| {
        let is_shuffled = candidate.filters() == [Some(Filter::Shuffle), None, None, None];
        let is_plain = candidate.filters() == [None; 4];
        let is_for = if data.is_known && data.element != Element::U8 { is_shuffled } else { is_plain };
        is_for && candidate.compression == Compression::Zstd { level }
    };
    CANDIDATES.iter().find(is_wanted)?.encoding(data)
}

#[cfg(test)]
mod tests {
    use super::super::Conditions;
    use super::*;

    const TEXT: Probe = Probe { byte_collisions: 16.0, repeats: false, zeros: false };
    const BLOCK_BYTES: usize = 256 << 10;

    fn goal(mode: Mode, bytes_per_second: f32) -> Goal {
        Goal { mode, conditions: Conditions { bytes_per_second, ..Conditions::default() }, slowness: 1.0 }
    }

    #[test]
    fn even_bytes_are_incompressible_unless_stretches_repeat() {
        assert!(is_incompressible(Probe { byte_collisions: 1.01, ..TEXT }));
        assert!(!is_incompressible(Probe { byte_collisions: 1.01, repeats: true, ..TEXT }));
        assert!(!is_incompressible(Probe { byte_collisions: 2.0, ..TEXT }));
    }

    #[test]
    fn short_blocks_need_no_model() {
        let floats = Data { element: Element::F64, is_known: true, ..Data::default() };
        let of = |mode, raw_bytes, data| without_a_look(&goal(mode, 500e6), TEXT, raw_bytes, &data);
        let encoding = of(Mode::Balanced, 5000, floats).unwrap();
        assert_eq!(
            (encoding.filters[0], encoding.compression),
            (Some(Filter::Shuffle), Compression::Zstd { level: 1 })
        );
        assert_eq!(of(Mode::Archival, 5000, Data::default()), Some(Compression::Zstd { level: 19 }.into()));
        assert_eq!(of(Mode::Balanced, 16 << 10, floats), None);
        assert_eq!(of(Mode::Performance, 5000, floats), Some(never().into()));
    }

    #[test]
    fn zeros_need_no_model() {
        let zeros = Probe { byte_collisions: 256.0, repeats: true, zeros: true };
        let found = without_a_look(&goal(Mode::Archival, 500e6), zeros, BLOCK_BYTES, &Data::default());
        assert_eq!(found, Some(Compression::ZeroRun.into()));
    }

    #[test]
    fn nothing_is_looked_at_where_bytes_go_faster_than_codecs() {
        let of = |mode, rate| without_a_look(&goal(mode, rate), TEXT, BLOCK_BYTES, &Data::default());
        assert_eq!(of(Mode::Performance, 100e6), None);
        assert_eq!(of(Mode::Performance, 1e9), Some(never().into()));
        assert_eq!(of(Mode::Balanced, 1e9), None);
        assert!(can_pay(&goal(Mode::Performance, 1e9), BLOCK_BYTES));
        assert!(!can_pay(&goal(Mode::Performance, 4e9), BLOCK_BYTES));
        assert!(can_pay(&goal(Mode::Energy, 4e9), BLOCK_BYTES));
        assert!(can_pay(&Goal { slowness: 0.25, ..goal(Mode::Performance, 4e9) }, BLOCK_BYTES));
    }
}

//! Which way to cut, which codec and which place to reduce at a plan recommends, by its estimates.

use super::dedup_nodes::{self, DedupNodes};
use super::machine::Machine;
use super::write_time::{Reduction, reduced_by_writers, unreduced};

/// What a way to cut files would find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutEstimate {
    /// The share of the bytes that deduplication saves.
    pub saved_share: f64,
    /// What the share may be off by.
    pub error: f64,
    /// Different segments, each of which has entries in table and manifests.
    pub segments: f64,
}

/// Finer cuts must save this much more of the bytes: each entry takes memory, metadata and time.
const MIN_SAVED_SHARE: f64 = 0.01;

/// Returns the number of the way to cut with fewest segments that saves as much as any, within a hundredth and the estimates' errors;
/// of several the last.
pub fn choose_cut(cuts: &[CutEstimate]) -> Option<usize> {
    let best = cuts.iter().max_by(|one, other| one.saved_share.total_cmp(&other.saved_share))?;
    let saves_enough =
        |cut: &CutEstimate| cut.saved_share >= best.saved_share - MIN_SAVED_SHARE.max(cut.error + best.error);
    let enough = cuts.iter().enumerate().filter(|(_, cut)| saves_enough(cut));
    enough.rev().min_by(|(_, one), (_, other)| one.segments.total_cmp(&other.segments)).map(|(number, _)| number)
}

/// Where data are reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// By the nodes that write.
    Writers,
    /// By nodes that do nothing else.
    DedupNodes(DedupNodes),
}

/// A phase with its output reduced at the place that makes it shortest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    pub place: Place,
    /// Computation and what of the writing is not hidden behind it.
    pub seconds: f64,
}

/// Returns a phase's seconds without any reduction.
pub fn unreduced_phase_s(machine: &Machine) -> f64 {
    machine.program.compute_s + unreduced(machine).seconds
}

/// Returns the shortest phase with a reduction.
pub fn shortest_phase(machine: &Machine, reduction: &Reduction) -> Phase {
    let by_writers_s = machine.program.compute_s + reduced_by_writers(machine, reduction).seconds;
    match dedup_nodes::best(machine, reduction) {
        Some(best) if best.phase_s() < by_writers_s => {
            Phase { place: Place::DedupNodes(best), seconds: best.phase_s() }
        }
        _ => Phase { place: Place::Writers, seconds: by_writers_s },
    }
}

/// So much longer than the shortest a phase may be for fewer stored bytes.
const MAX_LONGER: f64 = 1.02;

/// So much more than the least may be stored for a shorter phase.
const MAX_STORED: f64 = 1.01;

/// Returns the number of the reduction that stores least among those whose phase is nearly as short as any; of those that store
/// nearly as little the one with the shortest phase.
pub fn choose_reduction(reductions: &[(Reduction, Phase)]) -> Option<usize> {
    let numbers = 0..reductions.len();
    let stored = |number: &usize| reductions[*number].0.stored_share();
    let seconds = |number: &usize| reductions[*number].1.seconds;
    let shortest = numbers.clone().map(|number| seconds(&number)).min_by(f64::total_cmp)?;
    let short: Vec<usize> = numbers.filter(|number| seconds(number) <= shortest * MAX_LONGER).collect();
    let least = short.iter().map(stored).min_by(f64::total_cmp)?;
    let small = short.into_iter().filter(|number| stored(number) <= least * MAX_STORED);
    small.min_by(|one, other| seconds(one).total_cmp(&seconds(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(saved_share: f64, segments: f64) -> CutEstimate {
        CutEstimate { saved_share, error: 0.0, segments }
    }

    #[test]
    fn finer_cuts_must_save_a_hundredth_more_than_their_error() {
        assert_eq!(choose_cut(&[cut(0.305, 1000.0), cut(0.30, 500.0), cut(0.28, 250.0)]), Some(1));
        let rough = CutEstimate { error: 0.03, ..cut(0.28, 250.0) };
        assert_eq!(choose_cut(&[cut(0.305, 1000.0), cut(0.30, 500.0), rough]), Some(2));
        assert_eq!(choose_cut(&[cut(0.0, 1.0), cut(0.0, 1.0)]), Some(1));
        assert_eq!(choose_cut(&[]), None);
    }

    #[test]
    fn the_least_stored_of_the_short_phases_is_chosen() {
        let of = |stored: f64, seconds: f64| {
            let reduction = Reduction { left_share: 1.0, encoded_share: stored, encode_mb_per_s: 100.0 };
            (reduction, Phase { place: Place::Writers, seconds })
        };
        assert_eq!(choose_reduction(&[of(0.5, 100.0), of(0.4, 101.9), of(0.3, 150.0)]), Some(1));
        assert_eq!(choose_reduction(&[of(0.3, 101.5), of(0.302, 100.5), of(0.31, 100.0)]), Some(1));
        assert_eq!(choose_reduction(&[]), None);
    }

    #[test]
    fn a_phase_takes_the_shorter_of_both_places() {
        let slow_storage = Machine { storage_mb_per_s: 20_000.0, ..Machine::default() };
        let reduction = Reduction { left_share: 0.5, encoded_share: 0.5, encode_mb_per_s: 300.0 };
        let phase = shortest_phase(&slow_storage, &reduction);
        let by_writers_s = 3600.0 + reduced_by_writers(&slow_storage, &reduction).seconds;
        let Place::DedupNodes(nodes) = phase.place else { panic!("{phase:?}") };
        assert!(nodes.is_hidden() && phase.seconds < by_writers_s && by_writers_s < unreduced_phase_s(&slow_storage));
        let alone = Machine { nodes: 1.0, ..slow_storage };
        assert_eq!(shortest_phase(&alone, &reduction).place, Place::Writers);
    }
}

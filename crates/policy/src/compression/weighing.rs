//! What candidates are expected to cost, and which of them is worth a trial.

use super::candidates::CANDIDATES;

/// A candidate is tried whose cost may be lower by as much as this, within its deviation.
const WORTH_A_TRIAL: f32 = 0.99;

/// Costs of one candidate, by the goal's function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    /// Whether a trial would say more than is known.
    pub is_open: bool,
    /// Where its share is a deviation less than expected, as expected, and a deviation more.
    pub at_best: f32,
    pub expected: f32,
    pub at_worst: f32,
}

/// By candidate; `None` for those that have no meaning for the block.
pub(super) struct Weighed(pub [Option<Weight>; CANDIDATES.len()]);

impl Weighed {
    /// Returns the candidate of the least expected cost.
    pub fn best(&self) -> usize {
        self.least_but(usize::MAX).map_or(0, |(candidate, _)| candidate)
    }

    /// Returns the payable candidate on whose trial the choice hangs: the most promising one.
    pub fn worth_a_trial(&self, is_payable: impl Fn(usize) -> bool) -> Option<usize> {
        let (best, of_best) = self.least_but(usize::MAX)?;
        let (_, of_second) = self.least_but(best)?;
        let hangs_on_it = |candidate: usize, weight: &Weight| match candidate == best {
            true => of_second < weight.at_worst * WORTH_A_TRIAL,
            false => weight.at_best < of_best * WORTH_A_TRIAL,
        };
        let is_worth_it = |(candidate, weight): &(usize, Weight)| {
            weight.is_open && hangs_on_it(*candidate, weight) && is_payable(*candidate)
        };
        let promising = self.weights().filter(is_worth_it);
        Some(promising.min_by(|one, other| one.1.at_best.total_cmp(&other.1.at_best))?.0)
    }

    fn least_but(&self, but: usize) -> Option<(usize, f32)> {
        let all = self.weights().filter(|(candidate, _)| *candidate != but);
        all.map(|(candidate, weight)| (candidate, weight.expected)).min_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn weights(&self) -> impl Iterator<Item = (usize, Weight)> {
        self.0.iter().enumerate().filter_map(|(candidate, weight)| Some((candidate, (*weight)?)))
    }
}

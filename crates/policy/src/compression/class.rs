//! What is remembered of blocks that look alike: how far what encodings gave was from their predictions.

use super::Compression;
use super::candidates::CANDIDATES;
use super::choice::{Goal, MIN_SHARE, Prediction, Predictions};
use super::mode::{Mode, Outcome};
use super::weighing::{Weighed, Weight};

/// What makes blocks alike: numbers of which a difference of 1 is a clear one, and what must be the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    pub same: [u32; 4],
    pub near: [f32; 4],
}

impl Likeness {
    pub(super) fn is_like(&self, other: &Likeness) -> bool {
        let is_near = |(one, other): (&f32, &f32)| (one - other).abs() < 1.0;
        self.same == other.same && self.near.iter().zip(&other.near).all(is_near)
    }
}

/// How fast a class's bias follows what its blocks give (share), and how far it goes (base-2 logarithm).
const FOLLOWING: f32 = 0.25;
const MAX_BIAS: f32 = 3.0;

/// After so many blocks of a class its trials are forgotten: data change.
const FORGOTTEN_AFTER_BLOCKS: u32 = 512;
/// A class is known after so many blocks.
pub(super) const KNOWN_AFTER_BLOCKS: u32 = 2;

/// What one candidate was wrong by says of others how wrong they are: nearly as much of those that are as it is, filtered or not, and less of the
/// others; so much (share), by regression over held-out files.
const SAID_OF_FAMILY: f32 = 0.9;
const SAID_OF_OTHERS: f32 = 0.4;
/// What is uncertain still once that is known (share of the deviation).
const LEFT_OF_FAMILY: f32 = 0.4;
const LEFT_OF_OTHERS: f32 = 0.9;
/// The same of a candidate that was tried on another block of the class.
const LEFT_OF_EARLIER: f32 = 0.25;
/// A correction by other blocks is uncertain by so much of itself, since blocks that are alike differ more where a model is far off
/// (share, and base-2 logarithm at most).
const CORRECTION_DEVIATION: f32 = 0.3;
const MAX_CORRECTION_DEVIATION: f32 = 0.25;

/// Deviations within which a candidate may turn out better: an archive has the time for the less likely ones too.
const DOUBT: f32 = 1.0;
const DOUBT_OF_ARCHIVES: f32 = 2.0;
/// Pcodec sees that floats are decimals or multiples of something, of which the features say nothing: it may store a third of what is predicted,
/// and to archives an eighth (base-2 logarithm).
const HIDDEN_DEVIATION: f32 = 1.5;
const QUICK_PCODEC: Compression = Compression::Pco { level: 4 };
/// Trees that agree are not right for that (base-2 logarithm).
const MIN_DEVIATION: f32 = 0.1;

#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Names it for good: the likeness follows its blocks.
    pub number: u64,
    pub likeness: Likeness,
    /// By candidate, where one was tried or chosen: base-2 logarithm of what it gave / what was predicted.
    tried: [Option<f32>; CANDIDATES.len()],
    /// Those of them that were tried on the block at hand.
    tried_now: [bool; CANDIDATES.len()],
    /// What blocks gave / what was expected of them since, of all candidates.
    bias: f32,
    /// Base-2 logarithm of how many times as long as predicted its blocks take.
    pub log_slowness: f32,
    pub blocks: u32,
    blocks_since_look: u32,
    pub last_met: u64,
}

/// How far predictions of one kind of candidates are wrong, by those that were tried.
#[derive(Clone, Copy, Debug, Default)]
struct Family {
    sum: f32,
    tried: u32,
}

impl Family {
    fn mean(&self) -> Option<f32> {
        (self.tried > 0).then(|| self.sum / self.tried as f32)
    }
}

impl Class {
    pub fn new(likeness: Likeness, met: u64, log_slowness: f32) -> Self {
        Class {
            number: met,
            likeness,
            tried: [None; CANDIDATES.len()],
            tried_now: [false; CANDIDATES.len()],
            bias: 0.0,
            log_slowness,
            blocks: 0,
            blocks_since_look: 0,
            last_met: met,
        }
    }

    /// Returns what the candidate's share is expected to be, of which this is predicted (base-2 logarithms).
    pub fn log_share(&self, candidate: usize, predicted: f32) -> f32 {
        let (correction, _) = self.correction(candidate, &self.families());
        (predicted + correction).min(0.0)
    }

    /// Learns how many times as long as predicted a block took (base-2 logarithm).
    pub fn learn_slowness(&mut self, log_slowness: f32) {
        self.log_slowness += FOLLOWING * (log_slowness - self.log_slowness);
    }

    pub fn weigh(&self, predictions: &Predictions, goal: &Goal) -> Weighed {
        let encode_slowness = if goal.mode == Mode::Performance { self.log_slowness.exp2() } else { 1.0 };
        let families = self.families();
        let doubt = if goal.mode == Mode::Archival { DOUBT_OF_ARCHIVES } else { DOUBT };
        Weighed(std::array::from_fn(|candidate| {
            let prediction = predictions[candidate].as_ref()?;
            let (correction, left) = self.correction(candidate, &families);
            let left = if self.is_to_be_tried_again(candidate, goal.mode) { left.max(LEFT_OF_EARLIER) } else { left };
            let unsure = if self.tried_now[candidate] { 0.0 } else { correction_deviation(correction) };
            let deviation =
                (left * prediction.deviation.max(MIN_DEVIATION)).max(unsure).max(self.hidden(candidate, goal.mode));
            let expected = (prediction.log_share + correction).min(0.0);
            let cost = |deviations: f32| {
                let log_share = expected + deviations * deviation;
                goal.mode.cost(&expected_outcome(prediction, log_share, goal, encode_slowness), &goal.conditions)
            };
            let is_open = (left * prediction.deviation).max(unsure) > 0.0;
            Some(Weight { is_open, at_best: cost(-doubt), expected: cost(0.0), at_worst: cost(doubt) })
        }))
    }

    /// Returns the deviation of a candidate that may find what no feature shows, until it was tried; where time is all, finding out takes too much of it.
    fn hidden(&self, candidate: usize, mode: Mode) -> f32 {
        let finds_hidden = CANDIDATES[candidate].compression == QUICK_PCODEC;
        if finds_hidden && self.tried[candidate].is_none() && !mode.follows_machine() { HIDDEN_DEVIATION } else { 0.0 }
    }

    /// An archive has the time to try on each block what was tried on others of its class.
    fn is_to_be_tried_again(&self, candidate: usize, mode: Mode) -> bool {
        mode == Mode::Archival && candidate > 0 && !self.tried_now[candidate]
    }

    /// Returns by how much a prediction is wrong, and which share of its deviation is left.
    fn correction(&self, candidate: usize, families: &[Family; 2]) -> (f32, f32) {
        let Some(family) = family(candidate) else { return (0.0, 0.0) };
        let of_family = families[family].mean().map(|mean| (SAID_OF_FAMILY * (mean + self.bias), LEFT_OF_FAMILY));
        let of_others = families[1 - family].mean().map(|mean| (SAID_OF_OTHERS * (mean + self.bias), LEFT_OF_OTHERS));
        let own = self.tried[candidate].map(|tried| (tried + self.bias, 0.0));
        own.or(of_family).or(of_others).unwrap_or((0.0, 1.0))
    }

    fn families(&self) -> [Family; 2] {
        let mut families = [Family::default(); 2];
        for (candidate, tried) in self.tried.iter().enumerate() {
            if let (Some(family), Some(tried)) = (family(candidate), tried) {
                families[family].sum += tried;
                families[family].tried += 1;
            }
        }
        families
    }

    /// Learns what a whole block gave / what was predicted (base-2 logarithm).
    pub fn learn(&mut self, candidate: usize, error: f32) {
        self.blocks_since_look += 1;
        let (expected, _) = self.correction(candidate, &self.families());
        match &mut self.tried[candidate] {
            Some(_) => self.bias = (self.bias + FOLLOWING * (error - expected)).clamp(-MAX_BIAS, MAX_BIAS),
            none => *none = Some(error - self.bias),
        }
    }

    /// Begins with the next block at which the class is looked at closely; returns how many there were since the last one.
    pub fn begin_block(&mut self) -> u32 {
        self.tried_now = [false; CANDIDATES.len()];
        let blocks = std::mem::take(&mut self.blocks_since_look).max(1);
        self.blocks += blocks;
        if self.blocks >= FORGOTTEN_AFTER_BLOCKS {
            (self.tried, self.bias, self.log_slowness) = ([None; CANDIDATES.len()], 0.0, 0.0);
            self.blocks = KNOWN_AFTER_BLOCKS;
        }
        blocks
    }

    /// Learns what a trial on the block at hand gave: stored / raw bytes.
    pub fn tried(&mut self, candidate: usize, prediction: &Prediction, share: f32) {
        let error = share.max(MIN_SHARE).log2() - prediction.log_share - self.bias;
        if let Some(before) = self.tried[candidate] {
            self.shift_untried(candidate, error - before);
        }
        self.tried[candidate] = Some(error);
        self.tried_now[candidate] = true;
    }

    /// A candidate that was tried on other blocks and again on this one says by how much the others, tried on those alone, are further off: by 0.9 or
    /// 0.4 of what it moved.
    fn shift_untried(&mut self, candidate: usize, moved: f32) {
        for (other, tried) in self.tried.iter_mut().enumerate() {
            let said = if family(other) == family(candidate) { SAID_OF_FAMILY } else { SAID_OF_OTHERS };
            if let Some(error) = tried
                && other != candidate
                && !self.tried_now[other]
            {
                *error += said * moved;
            }
        }
    }
}

fn correction_deviation(correction: f32) -> f32 {
    (CORRECTION_DEVIATION * correction.abs()).min(MAX_CORRECTION_DEVIATION)
}

/// Returns what a candidate gives on this machine if that is its share (base-2 logarithm).
fn expected_outcome(prediction: &Prediction, log_share: f32, goal: &Goal, encode_slowness: f32) -> Outcome {
    Outcome {
        share: log_share.min(0.0).exp2(),
        encode_ns: prediction.encode_ns * goal.slowness * encode_slowness,
        decode_ns: prediction.decode_ns * goal.slowness,
    }
}

/// Returns which candidates are wrong together: those that take bytes as they are, and those that filter them; storing as it is belongs to none.
fn family(candidate: usize) -> Option<usize> {
    (candidate > 0).then(|| CANDIDATES[candidate].filters()[0].is_some() as usize)
}

#[cfg(test)]
mod tests {
    use super::super::Conditions;
    use super::*;

    const LIKENESS: Likeness = Likeness { same: [0; 4], near: [0.0; 4] };
    const ZSTD_1: usize = 3;
    const ZSTD_3: usize = 4;

    fn predicted(log_share: f32) -> Prediction {
        Prediction { log_share, deviation: 0.2, encode_ns: 2.0, decode_ns: 1.0 }
    }

    #[test]
    fn a_trial_on_the_block_at_hand_says_how_far_earlier_ones_have_moved() {
        let mut class = Class::new(LIKENESS, 1, 0.0);
        class.tried(ZSTD_1, &predicted(-1.0), 0.25);
        class.tried(ZSTD_3, &predicted(-1.1), 0.25);
        assert_eq!(class.log_share(ZSTD_3, -1.1), -2.0);
        class.begin_block();
        class.tried(ZSTD_1, &predicted(-1.0), 0.5);
        assert_eq!(class.log_share(ZSTD_3, -1.1), -2.0 + SAID_OF_FAMILY);
    }

    #[test]
    fn what_is_stored_as_it_is_teaches_nothing() {
        let mut class = Class::new(LIKENESS, 1, 0.0);
        class.learn(ZSTD_1, 0.0);
        class.learn(ZSTD_1, 0.8);
        let bias = class.bias;
        (0..1000).for_each(|_| class.learn(0, 0.0));
        assert!(bias > 0.0 && class.bias == bias);
        assert_eq!(class.log_share(0, 0.0), 0.0);
    }

    #[test]
    fn a_block_that_gave_what_relatives_said_changes_nothing() {
        let mut class = Class::new(LIKENESS, 1, 0.0);
        class.tried(ZSTD_1, &predicted(-1.0), 0.25);
        let expected = class.log_share(ZSTD_3, -1.1);
        for _ in 0..30 {
            class.learn(ZSTD_3, expected + 1.1);
        }
        assert!((class.log_share(ZSTD_3, -1.1) - expected).abs() < 1e-5);
        assert!((class.log_share(ZSTD_1, -1.0) + 2.0).abs() < 1e-5);
    }

    #[test]
    fn a_candidate_that_seems_to_save_nothing_stays_open() {
        let mut class = Class::new(LIKENESS, 1, 0.0);
        class.learn(ZSTD_1, 2.0);
        let goal = Goal { mode: Mode::Balanced, conditions: Conditions::default(), slowness: 1.0 };
        let mut predictions = [None; CANDIDATES.len()];
        predictions[0] = Some(Prediction { log_share: 0.0, deviation: 0.0, encode_ns: 0.1, decode_ns: 0.1 });
        predictions[ZSTD_1] = Some(predicted(-0.3));
        let weighed = class.weigh(&predictions, &goal);
        assert_eq!((weighed.best(), weighed.worth_a_trial(|_| true)), (0, Some(ZSTD_1)));
    }

    #[test]
    fn a_fast_machine_compresses_where_a_slow_one_does_not() {
        let conditions = Conditions::default();
        let mut predictions = [None; CANDIDATES.len()];
        predictions[0] = Some(Prediction { log_share: 0.0, deviation: 0.0, encode_ns: 0.1, decode_ns: 0.1 });
        predictions[ZSTD_1] = Some(predicted(-1.0));
        for (slowness, best) in [(1.0, 0), (0.25, ZSTD_1)] {
            let goal = Goal { mode: Mode::Performance, conditions, slowness };
            assert_eq!(Class::new(LIKENESS, 1, 0.0).weigh(&predictions, &goal).best(), best);
        }
    }
}

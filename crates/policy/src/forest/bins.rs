//! Examples as fitting sees them: features as numbers of bins between quantiles, outputs as whole steps.

use super::UNKNOWN;
use super::fit::Example;
use super::split::Sum;
use super::tree::to_steps;

/// Bins of one feature at most; their numbers are bytes.
pub(super) const BINS: usize = 128;

/// All examples. Rows of one example are together: a pass over examples reads each row once for several features.
pub(super) struct Table {
    pub(super) features: usize,
    pub(super) outputs: usize,
    bins: Vec<u8>,
    sums: Vec<Sum>,
    /// For each feature the thresholds between its bins, ascending.
    thresholds: Vec<Vec<f32>>,
}

impl Table {
    pub(super) fn new(examples: &[Example<'_>]) -> Self {
        let (features, outputs) = (examples[0].features.len(), examples[0].outputs.len());
        let is_alike = |example: &Example| (example.features.len(), example.outputs.len()) == (features, outputs);
        assert!(examples.iter().all(is_alike), "examples have features and outputs alike");
        let column = |feature: usize| examples.iter().map(|example| example.features[feature]).collect();
        let thresholds: Vec<_> = (0..features).map(|feature| thresholds(column(feature))).collect();
        let binned = |example: &Example| bins_of(example.features, &thresholds);
        let bins = examples.iter().flat_map(binned).collect();
        let sums = examples.iter().flat_map(|example| example.outputs).map(|output| summand(*output)).collect();
        Table { features, outputs, bins, sums, thresholds }
    }

    pub(super) fn bins(&self, example: u32) -> &[u8] {
        &self.bins[example as usize * self.features..][..self.features]
    }

    /// Returns the example's outputs, each as a sum of one.
    pub(super) fn sums(&self, example: u32) -> &[Sum] {
        &self.sums[example as usize * self.outputs..][..self.outputs]
    }

    /// Returns the threshold between a bin and the next one.
    pub(super) fn threshold(&self, feature: usize, bin: usize) -> f32 {
        self.thresholds[feature][bin]
    }
}

fn summand(output: f32) -> Sum {
    match to_steps(output) {
        UNKNOWN => Sum::default(),
        steps => Sum::of(steps),
    }
}

/// Returns the bins of one example. What is no number is above all thresholds, as in a walk down a tree.
fn bins_of(features: &[f32], thresholds: &[Vec<f32>]) -> Vec<u8> {
    let is_below = |threshold: &f32, feature: f32| feature > *threshold || feature.is_nan();
    let bin = |feature: f32, thresholds: &[f32]| thresholds.partition_point(|threshold| is_below(threshold, feature));
    features.iter().zip(thresholds).map(|(feature, thresholds)| bin(*feature, thresholds) as u8).collect()
}

/// Returns thresholds that divide the values into bins as even as equal values let them be.
fn thresholds(mut values: Vec<f32>) -> Vec<f32> {
    values.retain(|value| !value.is_nan());
    values.sort_unstable_by(f32::total_cmp);
    let changes: Vec<usize> = (1..values.len()).filter(|at| values[at - 1] < values[*at]).collect();
    let between_at = |at: usize| between(values[at - 1], values[at]);
    if changes.len() < BINS {
        return changes.into_iter().map(between_at).collect();
    }
    let quantiles = (1..BINS).map(|number| number * values.len() / BINS);
    let mut ends: Vec<usize> = quantiles.map(|rank| change_near(&changes, rank)).collect();
    ends.dedup();
    ends.into_iter().map(between_at).collect()
}

/// Returns the first place at or behind the rank where values change; the last one when there is none.
fn change_near(changes: &[usize], rank: usize) -> usize {
    changes[changes.partition_point(|change| *change < rank).min(changes.len() - 1)]
}

/// Returns a number that is not below the lower and is below the upper one: mostly the middle.
fn between(lower: f32, upper: f32) -> f32 {
    let middle = lower / 2.0 + upper / 2.0;
    if lower <= middle && middle < upper { middle } else { lower }
}

//! The best split of some examples: the one after which their outputs, all together, vary least.
//!
//! For each feature, sums of outputs over the examples of each bin; then every threshold between bins is tried. What
//! remains of the squared deviations is least where Σ (sum² / count) over both sides and all outputs is largest.

use super::bins::{BINS, Table};

/// The sum and the number of some values of one output, in one number: adding it is one instruction. Exact for
/// 2^24 values of 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum(i64);

const COUNT_BITS: u32 = 24;

/// Gains below this share of the score are what rounding makes of no gain.
const ROUNDING: f64 = 1e-9;

impl Sum {
    pub(super) const MAX_COUNT: usize = (1 << COUNT_BITS) - 1;

    pub(super) fn of(value: i16) -> Self {
        Sum((i64::from(value) << COUNT_BITS) + 1)
    }

    fn plus(self, other: Sum) -> Sum {
        Sum(self.0.wrapping_add(other.0))
    }

    fn minus(self, other: Sum) -> Sum {
        Sum(self.0.wrapping_sub(other.0))
    }

    fn count(self) -> i64 {
        self.0 & Self::MAX_COUNT as i64
    }

    fn sum(self) -> i64 {
        self.0 >> COUNT_BITS
    }

    /// Returns the mean, if there is a value.
    pub(super) fn mean(self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum() as f64 / self.count() as f64)
    }

    /// sum² / count.
    fn score(self) -> f64 {
        let sum = self.sum() as f64;
        sum * sum / self.count().max(1) as f64
    }
}

pub(super) fn add(sums: &mut [Sum], others: &[Sum]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum = sum.plus(*other));
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    pub(super) feature: usize,
    /// The last bin of the left side.
    pub(super) bin: usize,
    /// By how much the squared deviations become less.
    pub(super) gain: f64,
}

/// Sums of bins, kept from one search to the next.
pub(super) struct Search<'a> {
    table: &'a Table,
    min_examples: usize,
    /// For each feature of the search, each of its bins: as many sums as there are outputs.
    sums: Vec<Sum>,
    counts: Vec<[u32; BINS]>,
    left: Vec<Sum>,
}

impl<'a> Search<'a> {
    pub(super) fn new(table: &'a Table, min_examples: usize) -> Self {
        let (sums, counts, left) = (Vec::new(), Vec::new(), Vec::new());
        Search { table, min_examples, sums, counts, left }
    }

    /// Returns the best split of the examples on one of the features; `None` when none gains. `total` is their sums.
    pub(super) fn best(&mut self, examples: &[u32], features: &[usize], total: &[Sum]) -> Option<Split> {
        self.sum_bins(examples, features);
        let before: f64 = total.iter().map(|sum| sum.score()).sum();
        let splits = features.iter().enumerate().filter_map(|(slot, feature)| {
            let (bin, score) = self.best_bin(slot, examples.len(), total)?;
            Some(Split { feature: *feature, bin, gain: score - before })
        });
        let gains = |split: &Split| split.gain > before * ROUNDING;
        splits.filter(gains).reduce(|best, split| if split.gain > best.gain { split } else { best })
    }

    fn sum_bins(&mut self, examples: &[u32], features: &[usize]) {
        let outputs = self.table.outputs;
        self.sums.clear();
        self.sums.resize(features.len() * BINS * outputs, Sum::default());
        self.counts.clear();
        self.counts.resize(features.len(), [0; BINS]);
        for example in examples {
            let (bins, outputs_of) = (self.table.bins(*example), self.table.sums(*example));
            for (slot, feature) in features.iter().enumerate() {
                let bin = bins[*feature] as usize;
                self.counts[slot][bin] += 1;
                add(&mut self.sums[(slot * BINS + bin) * outputs..][..outputs], outputs_of);
            }
        }
    }

    /// Returns the last bin of the left side of the best split, and the score after it.
    fn best_bin(&mut self, slot: usize, examples: usize, total: &[Sum]) -> Option<(usize, f64)> {
        let outputs = self.table.outputs;
        self.left.clear();
        self.left.resize(outputs, Sum::default());
        let (mut left_examples, mut best) = (0, None::<(usize, f64)>);
        for bin in (0..BINS).filter(|bin| self.counts[slot][*bin] > 0) {
            left_examples += self.counts[slot][bin] as usize;
            add(&mut self.left, &self.sums[(slot * BINS + bin) * outputs..][..outputs]);
            if examples - left_examples < self.min_examples {
                break;
            }
            if left_examples < self.min_examples {
                continue;
            }
            let score = score_of_sides(&self.left, total);
            if best.is_none_or(|(_, least)| score > least) {
                best = Some((bin, score));
            }
        }
        best
    }
}

fn score_of_sides(left: &[Sum], total: &[Sum]) -> f64 {
    left.iter().zip(total).map(|(left, total)| left.score() + total.minus(*left).score()).sum()
}

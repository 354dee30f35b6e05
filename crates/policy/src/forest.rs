//! A random forest (Breiman, 2001) of regression trees with many outputs: one walk down a tree serves them all.
//!
//! Outputs are kept as whole steps of 1/256, so that fitting adds whole numbers, in any order with the same sum, and a
//! forest is the same on every machine. Trees that come from outside are checked before they are walked.

mod bins;
mod draws;
mod fit;
mod grow;
mod split;
#[cfg(test)]
mod tests;
mod tree;

pub use fit::{Example, FitOptions};
pub use tree::{MAX_DEPTH, Node, TreeParts};

use tree::Tree;

pub const MAX_TREES: usize = 64;
pub const MAX_FEATURES: usize = 64;
pub const MAX_OUTPUTS: usize = 256;
/// Leaves of one tree at most.
pub const MAX_LEAVES: usize = 4096;

/// Steps in one unit of an output.
const STEPS: f32 = 256.0;

/// The value of an output of which a leaf knows nothing.
const UNKNOWN: i16 = i16::MIN;

#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    features: usize,
    outputs: usize,
    trees: Vec<Tree>,
}

/// What the trees say of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f32,
    /// Standard deviation over the trees; infinite for an output that no example had.
    pub spread: f32,
}

impl Estimate {
    pub const UNKNOWN: Estimate = Estimate { mean: 0.0, spread: f32::INFINITY };
}

impl Forest {
    /// Makes the forest of trees that were read from outside; the error says what is wrong with them.
    pub fn from_parts(features: usize, outputs: usize, trees: Vec<TreeParts>) -> Result<Self, &'static str> {
        if !(1..=MAX_FEATURES).contains(&features) {
            return Err("a forest has 1 to 64 features");
        }
        if !(1..=MAX_OUTPUTS).contains(&outputs) {
            return Err("a forest has 1 to 256 outputs");
        }
        if !(1..=MAX_TREES).contains(&trees.len()) {
            return Err("a forest has 1 to 64 trees");
        }
        let trees = trees.into_iter().map(|parts| Tree::from_parts(parts, features, outputs));
        Ok(Forest { features, outputs, trees: trees.collect::<Result<_, _>>()? })
    }

    /// Returns the trees as [`Forest::from_parts`] takes them.
    pub fn parts(&self) -> impl Iterator<Item = TreeParts> {
        self.trees.iter().map(Tree::parts)
    }

    /// Returns how many numbers a prediction takes.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Returns how many numbers it makes.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Estimates all outputs; `features` and `estimates` have as many as the forest. Allocates nothing.
    pub fn predict(&self, features: &[f32], estimates: &mut [Estimate]) {
        assert_eq!((features.len(), estimates.len()), (self.features, self.outputs));
        let mut leaves: [&[i16]; MAX_TREES] = [&[]; MAX_TREES];
        let leaves = &mut leaves[..self.trees.len()];
        leaves.iter_mut().zip(&self.trees).for_each(|(leaf, tree)| *leaf = tree.leaf(features));
        estimate(leaves, estimates);
    }
}

/// Outputs whose sums are in registers at the same time.
const LANES: usize = 8;

/// Sets the estimates of all outputs, a few at a time.
fn estimate(leaves: &[&[i16]], estimates: &mut [Estimate]) {
    let whole = estimates.len() / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        estimates[first..first + LANES].copy_from_slice(&estimate_lanes::<LANES>(leaves, first));
    }
    for (output, estimate) in estimates.iter_mut().enumerate().skip(whole) {
        [*estimate] = estimate_lanes::<1>(leaves, output);
    }
}

/// Sums in two passes: squares of the values themselves would lose a small spread in rounding.
fn estimate_lanes<const N: usize>(leaves: &[&[i16]], first: usize) -> [Estimate; N] {
    let trees = leaves.len() as f32;
    let (mut sums, mut squares) = ([0; N], [0.0; N]);
    for leaf in leaves {
        sums.iter_mut().zip(&leaf[first..first + N]).for_each(|(sum, value)| *sum += i32::from(*value));
    }
    let means = sums.map(|sum| sum as f32 / trees);
    for leaf in leaves {
        let deviations = leaf[first..first + N].iter().zip(means).map(|(value, mean)| f32::from(*value) - mean);
        squares.iter_mut().zip(deviations).for_each(|(square, deviation)| *square += deviation * deviation);
    }
    std::array::from_fn(|lane| in_units(means[lane], squares[lane] / trees))
}

/// Turns steps into units. The mean is the unknown value only if every tree's value is.
fn in_units(mean: f32, variance: f32) -> Estimate {
    if mean == f32::from(UNKNOWN) {
        return Estimate::UNKNOWN;
    }
    Estimate { mean: mean / STEPS, spread: variance.sqrt() / STEPS }
}

//! Fits a forest to examples: each tree to as many of them as there are, drawn with repetition.

use super::bins::Table;
use super::draws::Draws;
use super::grow::{grow, rounded_mean};
use super::split::{Sum, add};
use super::tree::Tree;
use super::{Forest, MAX_FEATURES, MAX_LEAVES, MAX_OUTPUTS, MAX_TREES, UNKNOWN};

/// What is known of one case. All examples of a fit have as many features and as many outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example<'a> {
    pub features: &'a [f32],
    /// NaN: not known of this example. Kept in steps of 1/256, from -128 to 128.
    pub outputs: &'a [f32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitOptions {
    pub trees: usize,
    /// Leaves of each tree at most.
    pub max_leaves: usize,
    /// Examples of each leaf at least.
    pub min_leaf_examples: usize,
    /// Features that are tried for a split, drawn anew for each; fewer make trees that differ more.
    pub features_per_split: usize,
    pub seed: u64,
}

impl Forest {
    /// Fits a forest; the same examples and options make the same one everywhere. Panics where there are no examples,
    /// or more features, outputs, trees or leaves than a forest may have.
    pub fn fit(examples: &[Example<'_>], options: &FitOptions) -> Forest {
        check(examples, options);
        let table = Table::new(examples);
        let mut draws = Draws::new(options.seed);
        let default = overall_means(&table, examples.len());
        let mut fitted = || {
            let bag = draws.bag(examples.len());
            let parts = grow(&table, options, bag, &default, &mut draws);
            Tree::from_parts(parts, table.features, table.outputs).expect("a tree that was grown is whole")
        };
        let trees = (0..options.trees).map(|_| fitted()).collect();
        Forest { features: table.features, outputs: table.outputs, trees }
    }
}

fn check(examples: &[Example<'_>], options: &FitOptions) {
    assert!((1..=Sum::MAX_COUNT).contains(&examples.len()), "{} examples", examples.len());
    assert!((1..=MAX_FEATURES).contains(&examples[0].features.len()), "{} features", examples[0].features.len());
    assert!((1..=MAX_OUTPUTS).contains(&examples[0].outputs.len()), "{} outputs", examples[0].outputs.len());
    assert!((1..=MAX_TREES).contains(&options.trees), "{options:?}");
    assert!((1..=MAX_LEAVES).contains(&options.max_leaves) && options.features_per_split > 0, "{options:?}");
}

/// Returns the means over all examples: what is said of an output where a tree has no example that knows it.
fn overall_means(table: &Table, examples: usize) -> Vec<i16> {
    let mut total = vec![Sum::default(); table.outputs];
    (0..examples).for_each(|example| add(&mut total, table.sums(example as u32)));
    total.into_iter().map(|sum| rounded_mean(sum).unwrap_or(UNKNOWN)).collect()
}

//! Grows one tree over a bag of examples: of all leaves, the one whose best split gains most is split next.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::bins::Table;
use super::draws::Draws;
use super::fit::FitOptions;
use super::split::{Search, Split, Sum, add};
use super::tree::{MAX_DEPTH, Node, TreeParts};

/// Grows a tree; `default` are the values of a leaf where no example of the bag has the output.
pub(super) fn grow(
    table: &Table,
    options: &FitOptions,
    bag: Vec<u32>,
    default: &[i16],
    draws: &mut Draws,
) -> TreeParts {
    let mut growth = Growth {
        table,
        search: Search::new(table, options.min_leaf_examples.max(1)),
        features_per_split: options.features_per_split,
        draws,
        bag,
        nodes: Vec::new(),
        waiting: BinaryHeap::new(),
    };
    growth.push_node(0..growth.bag.len(), 0, default);
    for _ in 1..options.max_leaves {
        let Some(next) = growth.waiting.pop() else { break };
        growth.split(next);
    }
    growth.into_parts()
}

struct Growth<'a> {
    table: &'a Table,
    search: Search<'a>,
    features_per_split: usize,
    draws: &'a mut Draws,
    /// Examples in such an order that those of every node are together.
    bag: Vec<u32>,
    nodes: Vec<Grown>,
    waiting: BinaryHeap<PossibleSplit>,
}

struct Grown {
    examples: Range<usize>,
    depth: usize,
    values: Vec<i16>,
    /// The split, and the number of the left child, which the right one follows.
    split: Option<(Split, usize)>,
}

/// A leaf that can be split. Equal gains go by the node's number, so that the order is always the same.
struct PossibleSplit {
    node: usize,
    split: Split,
}

impl Growth<'_> {
    fn push_node(&mut self, examples: Range<usize>, depth: usize, inherited: &[i16]) {
        let mut total = vec![Sum::default(); self.table.outputs];
        self.bag[examples.clone()].iter().for_each(|example| add(&mut total, self.table.sums(*example)));
        let means = total.iter().zip(inherited).map(|(sum, inherited)| rounded_mean(*sum).unwrap_or(*inherited));
        let (node, values) = (self.nodes.len(), means.collect());
        if depth < MAX_DEPTH
            && let Some(split) = self.best_split(examples.clone(), &total)
        {
            self.waiting.push(PossibleSplit { node, split });
        }
        self.nodes.push(Grown { examples, depth, values, split: None });
    }

    /// Searches among a few features drawn at random; among the next few where none of those gains.
    fn best_split(&mut self, examples: Range<usize>, total: &[Sum]) -> Option<Split> {
        let mut features: Vec<usize> = (0..self.table.features).collect();
        self.draws.shuffle(&mut features);
        let examples = &self.bag[examples];
        features.chunks(self.features_per_split).find_map(|some| self.search.best(examples, some, total))
    }

    fn split(&mut self, PossibleSplit { node, split }: PossibleSplit) {
        let (left, count) = (self.nodes.len(), self.nodes.len() + 2);
        let Grown { examples, depth, values, .. } = &mut self.nodes[node];
        let (examples, depth, values) = (examples.clone(), *depth + 1, values.clone());
        let middle = examples.start + self.partition(examples.clone(), split);
        self.push_node(examples.start..middle, depth, &values);
        self.push_node(middle..examples.end, depth, &values);
        assert_eq!(self.nodes.len(), count);
        self.nodes[node].split = Some((split, left));
    }

    /// Moves the examples of the left side to the front, keeping both sides in order; returns how many those are.
    fn partition(&mut self, examples: Range<usize>, split: Split) -> usize {
        let is_left = |example: &u32| self.table.bins(*example)[split.feature] as usize <= split.bin;
        let (left, right): (Vec<u32>, Vec<u32>) =
            self.bag[examples.clone()].iter().partition(|example| is_left(example));
        self.bag[examples.start..][..left.len()].copy_from_slice(&left);
        self.bag[examples.start + left.len()..examples.end].copy_from_slice(&right);
        left.len()
    }

    /// Returns the nodes level by level.
    fn into_parts(self) -> TreeParts {
        let mut parts = TreeParts::default();
        let mut next = VecDeque::from([0]);
        while let Some(number) = next.pop_front() {
            let node = &self.nodes[number];
            parts.nodes.push(match node.split {
                None => Node::Leaf,
                Some((Split { feature, bin, .. }, left)) => {
                    next.extend([left, left + 1]);
                    Node::Split { feature: feature as u8, threshold: self.table.threshold(feature, bin) }
                }
            });
            if node.split.is_none() {
                parts.values.extend_from_slice(&node.values);
            }
        }
        parts
    }
}

pub(super) fn rounded_mean(sum: Sum) -> Option<i16> {
    sum.mean().map(|mean| mean.round() as i16)
}

impl Ord for PossibleSplit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.split.gain.total_cmp(&other.split.gain).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for PossibleSplit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PossibleSplit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PossibleSplit {}

//! One tree: splits to walk down, and a vector of output values at each leaf.
//!
//! Nodes stand in the order of their levels, from the left: the children of the n-th split are then the nodes 1 + 2n
//! and 2 + 2n, and the leaves are numbered as they come. A list of nodes needs no references, so none can be wrong.

use super::{MAX_LEAVES, UNKNOWN};

/// Splits on the way to a leaf at most: what one walk costs is bounded, whoever made the tree.
pub const MAX_DEPTH: usize = 32;

/// A node as it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    Leaf,
    /// The left child is for features up to the threshold, the right one for those above, and for what is no number.
    Split {
        feature: u8,
        threshold: f32,
    },
}

/// A tree as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeParts {
    /// Level by level, each from the left.
    pub nodes: Vec<Node>,
    /// All outputs of the first leaf, then of the second, and so on, in steps of 1/256; the lowest number is unknown.
    pub values: Vec<i16>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<WalkNode>,
    values: Vec<i16>,
    outputs: usize,
}

/// A node as it is walked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WalkNode {
    threshold: f32,
    /// [`LEAF`], or what a split compares.
    feature: u16,
    /// Of a split its left child, the right one follows; of a leaf its number.
    next: u16,
}

const LEAF: u16 = u16::MAX;

// The numbers of all nodes fit `next`.
const _: () = assert!(2 * MAX_LEAVES < LEAF as usize && size_of::<WalkNode>() == 8);

impl Tree {
    pub(super) fn from_parts(parts: TreeParts, features: usize, outputs: usize) -> Result<Self, &'static str> {
        check_shape(&parts.nodes, features)?;
        let leaves = parts.nodes.len() / 2 + 1;
        if parts.values.len() != leaves * outputs {
            return Err("a tree has values for other leaves than it has");
        }
        Ok(Tree { nodes: walk_nodes(&parts.nodes), values: parts.values, outputs })
    }

    pub(super) fn parts(&self) -> TreeParts {
        let stored = |node: &WalkNode| match node.feature {
            LEAF => Node::Leaf,
            feature => Node::Split { feature: feature as u8, threshold: node.threshold },
        };
        TreeParts { nodes: self.nodes.iter().map(stored).collect(), values: self.values.clone() }
    }

    /// Returns the values at the leaf that the features lead to.
    pub(super) fn leaf(&self, features: &[f32]) -> &[i16] {
        let mut node = self.nodes[0];
        while node.feature != LEAF {
            let is_left = features[node.feature as usize] <= node.threshold;
            node = self.nodes[node.next as usize + !is_left as usize];
        }
        &self.values[node.next as usize * self.outputs..][..self.outputs]
    }
}

/// Checks that the nodes are exactly one tree, within the limits.
fn check_shape(nodes: &[Node], features: usize) -> Result<(), &'static str> {
    let (mut splits, mut depth, mut level_end) = (0, 0, 1);
    for (number, node) in nodes.iter().enumerate() {
        if number == 1 + 2 * splits {
            return Err("a tree has nodes that no split leads to");
        }
        if number == level_end {
            (depth, level_end) = (depth + 1, 1 + 2 * splits);
        }
        let Node::Split { feature, threshold } = node else { continue };
        splits += 1;
        match () {
            _ if *feature as usize >= features => return Err("a split is on a feature that there is not"),
            _ if threshold.is_nan() => return Err("a split's threshold is no number"),
            _ if depth == MAX_DEPTH => return Err("a tree is deeper than 32 splits"),
            _ if splits == MAX_LEAVES => return Err("a tree has more than 4096 leaves"),
            _ => {}
        }
    }
    if nodes.len() == 1 + 2 * splits { Ok(()) } else { Err("a tree ends before its last leaf") }
}

/// Adds to each node of a tree where it leads.
fn walk_nodes(nodes: &[Node]) -> Vec<WalkNode> {
    let (mut splits, mut leaves) = (0, 0);
    let walk_node = |node: &Node| match *node {
        Node::Leaf => {
            leaves += 1;
            WalkNode { threshold: 0.0, feature: LEAF, next: leaves - 1 }
        }
        Node::Split { feature, threshold } => {
            splits += 1;
            WalkNode { threshold, feature: feature.into(), next: 2 * splits - 1 }
        }
    };
    nodes.iter().map(walk_node).collect()
}

/// Rounds to steps; what is no number is unknown.
pub(super) fn to_steps(output: f32) -> i16 {
    if output.is_nan() {
        return UNKNOWN;
    }
    (output * super::STEPS).round().clamp(f32::from(-i16::MAX), f32::from(i16::MAX)) as i16
}

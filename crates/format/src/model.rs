//! The model file: trees that estimate, from features of a block, what each candidate encoding makes of it.
//!
//! Plain arrays: what the features are and how the trees are walked is known where they are used. A tree is its nodes
//! level by level, so that the children of the n-th split are the nodes 1 + 2n and 2 + 2n: no reference can be wrong.

use crate::{CodecId, ElementId, FORMAT_VERSION, FilterId, Reader, Result, Writer, check_version, checksum, corrupt};

/// A longer file is refused (bytes).
pub const MAX_MODEL_BYTES: usize = 4 << 20;
pub const MAX_MODEL_FEATURES: usize = 64;
pub const MAX_MODEL_CANDIDATES: usize = 64;
pub const MAX_MODEL_OUTPUTS: usize = 256;
pub const MAX_MODEL_TREES: usize = 64;
/// Leaves of one tree.
pub const MAX_MODEL_LEAVES: usize = 4096;
/// Splits on the way to a leaf.
pub const MAX_MODEL_DEPTH: usize = 32;

pub const MODEL_HEADER_BYTES: usize = 24;
pub const CANDIDATE_BYTES: usize = 8;

const MODEL_MAGIC: [u8; 8] = *b"TWGMODL\0";
const CHECKSUM_BYTES: usize = 8;
/// In place of a split's feature.
const LEAF: u8 = 255;
const WHAT: &str = "model file";

const _: () = assert!(MAX_MODEL_FEATURES <= LEAF as usize && MAX_MODEL_LEAVES <= u16::MAX as usize);

#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Which computation of features the model was trained with; those of another are not comparable.
    pub features_version: u16,
    pub features: u16,
    pub candidates: Vec<CandidateEncoding>,
    /// Values of each leaf: as many for each candidate, one candidate after the other.
    pub outputs: u16,
    pub trees: Vec<ModelTree>,
}

/// An encoding that the model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateEncoding {
    pub codec: CodecId,
    /// As in a block header.
    pub level: i8,
    /// In the order in which they are applied; 0 ends the list.
    pub filters: [u8; 4],
    /// The element type the filters take; `U8`: the one found in the block.
    pub element: ElementId,
    /// Compared, and otherwise for those who made the model.
    pub flags: u8,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTree {
    /// Level by level, each from the left.
    pub nodes: Vec<ModelNode>,
    /// All outputs of the first leaf, then of the second, and so on, in steps of 1/256; the lowest number is unknown.
    pub values: Vec<i16>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelNode {
    Leaf,
    /// The left child is for features up to the threshold, the right one for all others.
    Split {
        feature: u8,
        threshold: f32,
    },
}

impl Model {
    /// Returns the file's bytes; refuses what no reader would take.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check_limits()?;
        self.trees.iter().try_for_each(|tree| tree.check(self.features, self.outputs))?;
        let mut to = Writer::new();
        to.put(&MODEL_MAGIC).u16(FORMAT_VERSION).u16(self.features_version).u16(self.features);
        to.u16(self.candidates.len() as u16).u16(self.outputs).u16(self.trees.len() as u16).u32(0);
        self.candidates.iter().for_each(|candidate| candidate.write(&mut to));
        self.trees.iter().for_each(|tree| tree.write(&mut to));
        let sum = checksum(to.as_bytes());
        let bytes = to.u64(sum).finish();
        check_length(&bytes)?;
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        check_length(bytes)?;
        let mut from = unsealed(bytes)?;
        check_version(WHAT, from.u16()?)?;
        let (features_version, features, candidates) = (from.u16()?, from.u16()?, from.u16()?);
        let (outputs, trees, _) = (from.u16()?, from.u16()?, from.u32()?);
        check_counts(features.into(), candidates.into(), outputs.into(), trees.into())?;
        let candidates = (0..candidates).map(|_| CandidateEncoding::read(&mut from)).collect::<Result<_>>()?;
        let trees = (0..trees).map(|_| ModelTree::read(&mut from, features, outputs)).collect::<Result<_>>()?;
        from.end()?;
        Ok(Model { features_version, features, candidates, outputs, trees })
    }

    /// Refuses a model of other features or candidates than the program's: a sound file that is of no use.
    pub fn check_use(&self, features_version: u16, features: u16, candidates: &[CandidateEncoding]) -> Result<()> {
        let (found, known) = ((self.features_version, self.features), (features_version, features));
        if found != known {
            let of = |(version, count): (u16, u16)| format!("{count} features of version {version}");
            return corrupt(WHAT, format!("it was trained for {}, and this program has {}", of(found), of(known)));
        }
        if self.candidates != candidates {
            return corrupt(WHAT, "it was trained for other candidate encodings than this program has");
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<()> {
        check_counts(self.features.into(), self.candidates.len(), self.outputs.into(), self.trees.len())?;
        self.candidates.iter().try_for_each(CandidateEncoding::check)
    }
}

fn check_length(bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_MODEL_BYTES {
        return corrupt(WHAT, format!("it has {} bytes, and {MAX_MODEL_BYTES} are the most", bytes.len()));
    }
    Ok(())
}

/// Checks magic bytes and checksum; returns what stands between them.
fn unsealed(bytes: &[u8]) -> Result<Reader<'_>> {
    let mut from = Reader::new(WHAT, bytes);
    let body = from.take(bytes.len().saturating_sub(CHECKSUM_BYTES).max(MODEL_HEADER_BYTES))?;
    let sum = from.u64()?;
    let mut from = Reader::new(WHAT, body);
    if from.array::<8>()? != MODEL_MAGIC {
        return corrupt(WHAT, "the magic bytes are not there");
    }
    if checksum(body) != sum {
        return corrupt(WHAT, "the checksum does not match");
    }
    Ok(from)
}

fn check_counts(features: usize, candidates: usize, outputs: usize, trees: usize) -> Result<()> {
    let limits = [
        ("features", features, MAX_MODEL_FEATURES),
        ("candidates", candidates, MAX_MODEL_CANDIDATES),
        ("outputs", outputs, MAX_MODEL_OUTPUTS),
        ("trees", trees, MAX_MODEL_TREES),
    ];
    if let Some((what, found, max)) = limits.into_iter().find(|(_, found, max)| !(1..=*max).contains(found)) {
        return corrupt(WHAT, format!("{found} {what} are not between 1 and {max}"));
    }
    if !outputs.is_multiple_of(candidates) {
        return corrupt(WHAT, format!("{outputs} outputs cannot be shared evenly by {candidates} candidates"));
    }
    Ok(())
}

impl CandidateEncoding {
    fn write(&self, to: &mut Writer) {
        to.u8(self.codec as u8).u8(self.level as u8).put(&self.filters).u8(self.element as u8).u8(self.flags);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let (codec, level, filters) = (CodecId::from_byte(from.u8()?)?, from.u8()? as i8, from.array()?);
        let candidate =
            CandidateEncoding { codec, level, filters, element: ElementId::from_byte(from.u8()?)?, flags: from.u8()? };
        candidate.check()?;
        Ok(candidate)
    }

    /// Whether the filters go together is for those who use them.
    fn check(&self) -> Result<()> {
        let count = self.filters.iter().take_while(|filter| **filter != 0).count();
        let (listed, behind) = self.filters.split_at(count);
        listed.iter().try_for_each(|filter| FilterId::from_byte(*filter).map(drop))?;
        if behind.iter().any(|filter| *filter != 0) {
            return corrupt(WHAT, "a candidate's filter follows the end of the list");
        }
        Ok(())
    }
}

impl ModelTree {
    fn write(&self, to: &mut Writer) {
        to.u16(self.leaves() as u16);
        for node in &self.nodes {
            match node {
                ModelNode::Leaf => to.u8(LEAF),
                ModelNode::Split { feature, threshold } => to.u8(*feature).u32(threshold.to_bits()),
            };
        }
        for value in &self.values {
            to.put(&value.to_le_bytes());
        }
    }

    fn read(from: &mut Reader, features: u16, outputs: u16) -> Result<Self> {
        let leaves = from.u16()? as usize;
        if !(1..=MAX_MODEL_LEAVES).contains(&leaves) {
            return corrupt(WHAT, format!("a tree of {leaves} leaves; {MAX_MODEL_LEAVES} are the most"));
        }
        let nodes = (0..2 * leaves - 1).map(|_| ModelNode::read(from)).collect::<Result<_>>()?;
        let values = from.take(2 * leaves * outputs as usize)?.chunks_exact(2);
        let values = values.map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect();
        let tree = ModelTree { nodes, values };
        tree.check(features, outputs)?;
        Ok(tree)
    }

    /// Returns the leaves of a tree of so many nodes.
    fn leaves(&self) -> usize {
        self.nodes.len().div_ceil(2)
    }

    /// Checks that the nodes are exactly one tree within the limits, and the values those of its leaves.
    fn check(&self, features: u16, outputs: u16) -> Result<()> {
        let (mut splits, mut depth, mut level_end) = (0, 0, 1);
        for (number, node) in self.nodes.iter().enumerate() {
            if number > 2 * splits {
                return corrupt(WHAT, format!("no split of its tree leads to node {number}"));
            }
            if number == level_end {
                (depth, level_end) = (depth + 1, 1 + 2 * splits);
            }
            if let ModelNode::Split { feature, threshold } = node {
                splits += 1;
                check_split(*feature, *threshold, features, depth)?;
            }
        }
        if self.nodes.len() != 1 + 2 * splits || splits >= MAX_MODEL_LEAVES {
            return corrupt(WHAT, format!("{} nodes of which {splits} are splits are no tree", self.nodes.len()));
        }
        if self.values.len() != (splits + 1) * outputs as usize {
            return corrupt(WHAT, format!("{} values for {} leaves of a tree", self.values.len(), splits + 1));
        }
        Ok(())
    }
}

fn check_split(feature: u8, threshold: f32, features: u16, depth: usize) -> Result<()> {
    if u16::from(feature) >= features {
        return corrupt(WHAT, format!("a split on feature {feature}, and there are {features}"));
    }
    if threshold.is_nan() {
        return corrupt(WHAT, "a split's threshold is no number");
    }
    if depth >= MAX_MODEL_DEPTH {
        return corrupt(WHAT, format!("a tree is deeper than {MAX_MODEL_DEPTH} splits"));
    }
    Ok(())
}

impl ModelNode {
    fn read(from: &mut Reader) -> Result<Self> {
        match from.u8()? {
            LEAF => Ok(ModelNode::Leaf),
            feature => Ok(ModelNode::Split { feature, threshold: f32::from_bits(from.u32()?) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const ZSTD: CandidateEncoding = CandidateEncoding {
        codec: CodecId::Zstd,
        level: -3,
        filters: [FilterId::Shuffle as u8, 0, 0, 0],
        element: ElementId::U8,
        flags: 1,
    };

    fn split(feature: u8) -> ModelNode {
        ModelNode::Split { feature, threshold: 0.5 }
    }

    /// A split, a leaf, a split, two leaves; and a tree that is one leaf.
    fn model() -> Model {
        let nodes = vec![split(0), ModelNode::Leaf, split(1), ModelNode::Leaf, ModelNode::Leaf];
        let trees = vec![
            ModelTree { nodes, values: vec![-256, 1, 2, 3, i16::MIN, i16::MAX] },
            ModelTree { nodes: vec![ModelNode::Leaf], values: vec![7, 8] },
        ];
        Model { features_version: 3, features: 2, candidates: vec![ZSTD], outputs: 2, trees }
    }

    /// Returns the file with a byte set, under a checksum that matches.
    fn forged(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = model().encode().unwrap();
        bytes[at] = byte;
        let end = bytes.len() - CHECKSUM_BYTES;
        let sum = checksum(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn refused(bytes: &[u8], why: &str) {
        let error = Model::decode(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error} is not {why}");
    }

    #[test]
    fn models_come_back_from_their_bytes() {
        let bytes = model().encode().unwrap();
        assert_eq!(bytes.len(), MODEL_HEADER_BYTES + CANDIDATE_BYTES + (2 + 13 + 12) + (2 + 1 + 4) + CHECKSUM_BYTES);
        assert_eq!(Model::decode(&bytes), Ok(model()));
    }

    #[test]
    fn damaged_and_newer_files_are_refused_as_such() {
        let bytes = model().encode().unwrap();
        (0..bytes.len()).for_each(|end| assert!(Model::decode(&bytes[..end]).is_err(), "{end} bytes"));
        assert!(matches!(Model::decode(&bytes[..20]), Err(Error::Truncated { .. })));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 16;
            refused(&damaged, if at < 8 { "magic" } else { "checksum" });
        }
        assert!(matches!(Model::decode(&forged(8, 1)), Err(Error::TooNew { found: 1, .. })));
        refused(&vec![0; MAX_MODEL_BYTES + 1], "are the most");
    }

    #[test]
    fn forged_counts_and_nodes_are_refused() {
        let (candidate, tree) = (MODEL_HEADER_BYTES, MODEL_HEADER_BYTES + CANDIDATE_BYTES);
        refused(&forged(12, 0), "0 features");
        refused(&forged(12, 65), "65 features");
        refused(&forged(14, 65), "65 candidates");
        refused(&forged(14, 3), "shared evenly");
        refused(&forged(17, 2), "outputs");
        refused(&forged(18, 0), "0 trees");
        refused(&forged(18, 1), "left over");
        refused(&forged(18, 3), "cut short");
        refused(&forged(candidate, 99), "unknown codec");
        refused(&forged(candidate + 2, 99), "unknown filter");
        refused(&forged(candidate + 5, 1), "follows the end");
        refused(&forged(candidate + 6, 4), "unknown element type");
        refused(&forged(tree, 0), "0 leaves");
        refused(&forged(tree + 1, 0x20), "leaves");
        refused(&forged(tree + 2, 2), "feature 2, and there are 2");
        refused(&forged(tree + 2, LEAF), "leads to node 1");
        let mut nan = model();
        nan.trees[0].nodes[0] = ModelNode::Split { feature: 0, threshold: f32::NAN };
        assert!(nan.encode().unwrap_err().to_string().contains("no number"));
    }

    #[test]
    fn what_no_reader_would_take_is_not_written() {
        let refused = |nodes: Vec<ModelNode>, why: &str| {
            let values = vec![0; 2 * nodes.len().div_ceil(2)];
            let error = Model { trees: vec![ModelTree { nodes, values }], ..model() }.encode().unwrap_err();
            assert!(error.to_string().contains(why), "{error} is not {why}");
        };
        let chain = [split(0), ModelNode::Leaf].repeat(MAX_MODEL_DEPTH + 1);
        refused([chain, vec![ModelNode::Leaf]].concat(), "deeper");
        refused([vec![split(0); 4096], vec![ModelNode::Leaf; 4097]].concat(), "no tree");
        refused(vec![split(0); 3], "no tree");
        refused(vec![], "no tree");
        let tree = ModelTree { nodes: vec![ModelNode::Leaf], values: vec![0; 3] };
        assert!(Model { trees: vec![tree], ..model() }.encode().is_err());
        let leaves = [vec![split(0); 4095], vec![ModelNode::Leaf; 4096]].concat();
        let tree = ModelTree { nodes: leaves, values: vec![0; 2 * 4096] };
        assert!(Model { trees: vec![tree; 64], ..model() }.encode().is_ok());
        let large = Model { outputs: 256, trees: vec![ModelTree { nodes: vec![], values: vec![] }], ..model() };
        assert!(large.encode().is_err());
    }

    #[test]
    fn a_model_for_other_features_or_candidates_is_of_no_use() {
        let error = |version, features, candidates: &[CandidateEncoding]| {
            model().check_use(version, features, candidates).map_err(|error| error.to_string())
        };
        assert_eq!(error(3, 2, &[ZSTD]), Ok(()));
        assert!(error(4, 2, &[ZSTD]).unwrap_err().contains("version 3, and this program has 2 features of version 4"));
        assert!(error(3, 3, &[ZSTD]).is_err());
        assert!(error(3, 2, &[CandidateEncoding { flags: 0, ..ZSTD }]).unwrap_err().contains("candidate"));
        assert!(error(3, 2, &[ZSTD, ZSTD]).is_err());
    }
}

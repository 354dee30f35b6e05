//! The model that predicts what each candidate makes of a block: a forest, as its file has it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use format::{CandidateEncoding, Model, ModelNode, ModelTree};
use policy::Compression;
use policy::compression::{CANDIDATES, Candidate, Outcome, Prediction, Predictions};
use policy::forest::{Estimate, Forest, Node, TreeParts};

use crate::encoding::{codec_and_level, element_id, filter_ids};
use crate::error::{Result, corrupt};
use crate::features::{FEATURES, FEATURES_VERSION};
use crate::{codec, core_speed};

/// Of each candidate: stored / raw bytes, and nanoseconds to encode and to decode a byte.
pub const OUTPUTS_PER_CANDIDATE: usize = 3;
const OUTPUTS: usize = OUTPUTS_PER_CANDIDATE * CANDIDATES.len();

const SHARE_WEIGHT: f32 = 4.0;
/// Less than this is stored of no block.
const MIN_SHARE: f32 = 1e-6;
/// Nothing is faster for each byte.
const MIN_NS: f32 = 0.02;
/// Of what no tree knows: it may be anything.
const MAX_DEVIATION: f32 = 16.0;

/// What `thalweg train --model` made of `bench/corpus`, by `zstd --ultra -22 --no-check`: half as long, in every program that encodes.
const BUILT_IN_FILE: &[u8] = include_bytes!("../model/built-in.zst");
const BUILT_IN_BYTES: usize = 389_010;

static BUILT_IN: LazyLock<Arc<Forest>> = LazyLock::new(|| {
    let forest = read(&built_in_model()).expect("the built-in model is of this version");
    Arc::new(forest)
});

/// Returns the bytes of the model file that comes with Thalweg.
pub fn built_in_model() -> Vec<u8> {
    let decoded = codec::decode(&Compression::Zstd { level: 22 }.into(), BUILT_IN_FILE, BUILT_IN_BYTES);
    decoded.expect("the built-in model is sound")
}

static NUMBER: AtomicU64 = AtomicU64::new(0);
static IN_USE: RwLock<Option<Arc<Forest>>> = RwLock::new(None);

/// Takes a model file's bytes for all that this process chooses from now on. An error says why it is of no use, and the one in use
/// stays.
pub fn use_model(bytes: &[u8]) -> Result<()> {
    use_forest(Some(Arc::new(read(bytes)?)));
    Ok(())
}

/// Chooses by the built-in model from now on.
pub fn use_built_in_model() {
    use_forest(None);
}

fn use_forest(forest: Option<Arc<Forest>>) {
    *IN_USE.write().unwrap_or_else(PoisonError::into_inner) = forest;
    NUMBER.fetch_add(1, Ordering::Release);
}

/// Returns another number for each model that was in use: what was learned of one is of no use for the next.
pub(crate) fn number() -> u64 {
    NUMBER.load(Ordering::Acquire)
}

/// Makes the model ready, which takes a millisecond the first time.
pub(crate) fn prepare() {
    in_use();
}

/// Returns a forest of these examples' features and outputs as the bytes of a model file.
pub fn model_file(forest: &Forest) -> Result<Vec<u8>> {
    let model = Model {
        features_version: FEATURES_VERSION,
        features: FEATURES as u16,
        candidates: candidates(),
        outputs: OUTPUTS as u16,
        trees: forest.parts().map(written).collect(),
    };
    Ok(model.encode()?)
}

/// Predicts for all candidates that have a meaning for the block.
pub(crate) fn predictions(features: &[f32; FEATURES], has_meaning: impl Fn(&Candidate) -> bool) -> Predictions {
    let mut estimates = [Estimate::UNKNOWN; OUTPUTS];
    in_use().predict(features, &mut estimates);
    std::array::from_fn(|number| {
        let estimates = &estimates[OUTPUTS_PER_CANDIDATE * number..][..OUTPUTS_PER_CANDIDATE];
        has_meaning(&CANDIDATES[number]).then(|| prediction(number, estimates))
    })
}

fn prediction(candidate: usize, estimates: &[Estimate]) -> Prediction {
    let [share, encode, decode] = *estimates else { unreachable!("each candidate has three outputs") };
    // What is stored as it is needs no model.
    let is_none = candidate == 0;
    Prediction {
        log_share: if is_none { 0.0 } else { (share.mean / SHARE_WEIGHT).min(0.0) },
        deviation: if is_none { 0.0 } else { (share.spread / SHARE_WEIGHT).min(MAX_DEVIATION) },
        encode_ns: encode.mean.exp2(),
        decode_ns: decode.mean.exp2(),
    }
}

/// Returns what a model has of an outcome that was measured here: base-2 logarithms, that of the share in quarters, so that it
/// weighs more when trees are fitted; times are those of the reference machine, wherever a model is trained.
pub fn logarithms(outcome: &Outcome) -> [f32; OUTPUTS_PER_CANDIDATE] {
    let Outcome { share, encode_ns, decode_ns } = *outcome;
    let log_ns = |ns: f32| (ns / core_speed::slowness()).max(MIN_NS).log2();
    [share.max(MIN_SHARE).log2() * SHARE_WEIGHT, log_ns(encode_ns), log_ns(decode_ns)]
}

fn in_use() -> Arc<Forest> {
    let chosen = IN_USE.read().unwrap_or_else(PoisonError::into_inner).clone();
    chosen.unwrap_or_else(|| BUILT_IN.clone())
}

fn read(bytes: &[u8]) -> Result<Forest> {
    let model = Model::decode(bytes)?;
    model.check_use(FEATURES_VERSION, FEATURES as u16, &candidates())?;
    if model.outputs as usize != OUTPUTS {
        return corrupt(format!("a model with {} outputs, where {OUTPUTS} are needed", model.outputs));
    }
    match Forest::from_parts(FEATURES, OUTPUTS, model.trees.into_iter().map(parts).collect()) {
        Ok(forest) => Ok(forest),
        Err(why) => corrupt(format!("a model whose trees are wrong: {why}")),
    }
}

fn parts(tree: ModelTree) -> TreeParts {
    let node = |node| match node {
        ModelNode::Leaf => Node::Leaf,
        ModelNode::Split { feature, threshold } => Node::Split { feature, threshold },
    };
    TreeParts { nodes: tree.nodes.into_iter().map(node).collect(), values: tree.values }
}

fn written(tree: TreeParts) -> ModelTree {
    let node = |node| match node {
        Node::Leaf => ModelNode::Leaf,
        Node::Split { feature, threshold } => ModelNode::Split { feature, threshold },
    };
    ModelTree { nodes: tree.nodes.into_iter().map(node).collect(), values: tree.values }
}

/// Returns the candidates as a model file names them.
fn candidates() -> Vec<CandidateEncoding> {
    let described = |candidate: &Candidate| {
        let (codec, level) = codec_and_level(candidate.compression);
        CandidateEncoding {
            codec,
            level,
            filters: filter_ids(&candidate.filters()),
            element: element_id(policy::Element::U8),
            flags: candidate.numbers_flag(),
        }
    };
    CANDIDATES.iter().map(described).collect()
}

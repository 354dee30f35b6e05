//! Chooses a block's encoding: what its bytes look like, what the model predicts of that, and what blocks like it gave.
//!
//! What was learned of blocks belongs to a thread: it needs no lock, and threads learn the same of the same data soon.

use std::cell::RefCell;

use policy::Encoding;
use policy::compression::{CANDIDATES, Choices, Chosen, Data, Glance, Goal, Likeness, Mode, Probe, Trials};

use crate::features::{self, FEATURES, Looked};
use crate::{codec, conditions, core_speed, filter, model, probe, shape};

/// Bytes of a block that are encoded for a trial, in two pieces.
const TRIAL_BYTES: usize = 32 << 10;

thread_local! {
    static CHOICES: RefCell<Choices> = RefCell::default();
}

/// An encoding, and what was expected of it; none of what is known to be incompressible.
pub(crate) struct Choice {
    pub encoding: Encoding,
    expected: Option<Chosen>,
}

/// Returns how `raw` should be encoded; `described` is what somebody knows of its data, at least the order of bytes.
pub(crate) fn choose(mode: Mode, raw: &[u8], described: Data) -> Choice {
    let known = described.is_known.then_some(described);
    let unlooked = |encoding| Choice { encoding, expected: None };
    let slowness = if mode.follows_machine() { core_speed::slowness() } else { 1.0 };
    let goal = Goal { mode, conditions: conditions::now(), slowness };
    if !policy::compression::can_pay(&goal, raw.len()) {
        return unlooked(policy::compression::never().into());
    }
    let probe = probe::probe(raw);
    if let Some(encoding) = policy::compression::without_a_look(&goal, probe, raw.len(), &known.unwrap_or_default()) {
        return unlooked(encoding);
    }
    let found = || if described.is_big_endian { shape::found_big_endian(raw) } else { shape::found(raw) };
    let data = known.unwrap_or_else(found);
    let log_collisions = probe.byte_collisions.max(0.25).log2();
    let Data { record_length, element, is_known, is_rounded, .. } = data;
    let glance = Glance { mode, record_length, element, is_known, is_rounded, log_collisions };
    let chosen = CHOICES.with_borrow_mut(|choices| match choices.recall(&glance) {
        Some(recalled) => recalled,
        None => look(choices, &goal, (glance, probe), raw, &data),
    });
    let encoding = CANDIDATES[chosen.candidate].encoding(&data).expect("what was predicted has a meaning");
    Choice { encoding, expected: Some(chosen) }
}

/// Chooses after a closer look.
fn look(choices: &mut Choices, goal: &Goal, (glance, probe): (Glance, Probe), raw: &[u8], data: &Data) -> Chosen {
    let features = features::features_after(raw, data, probe.byte_collisions);
    let mut predictions = model::predictions(&features, |candidate| candidate.encoding(data).is_some());
    let mut trials = BlockTrials { raw, data, sample: Vec::new() };
    if data.is_rounded {
        predictions = policy::compression::by_trials(&predictions, data.element.bytes(), goal.mode, &mut trials);
    }
    choices.choose((glance, likeness(goal.mode, data, &features)), &predictions, goal, &mut trials)
}

/// Learns what the block took in the end.
pub(crate) fn learn(choice: &Choice, raw_bytes: usize, stored_bytes: usize) {
    if let Some(chosen) = &choice.expected {
        CHOICES.with_borrow_mut(|choices| choices.learn(chosen, stored_bytes as f32 / raw_bytes.max(1) as f32));
    }
}

/// Blocks are alike whose numbers are as long and whose bytes are about as even and as repetitive. What one mode learned of
/// its cheap encodings would keep another from trying the dear ones, so each learns for itself.
fn likeness(mode: Mode, data: &Data, features: &[f32; FEATURES]) -> Likeness {
    let of = |looked: Looked| features[looked as usize];
    Likeness {
        same: [mode as u32, data.record_length, data.element as u32, data.is_known as u32 + 2 * data.is_rounded as u32],
        near: [
            of(Looked::Entropy) * 1.5,
            of(Looked::Lz4Share) * 6.0,
            of(Looked::PlaneEntropy) * 1.5,
            of(Looked::StepBits) * 8.0,
        ],
    }
}

struct BlockTrials<'a> {
    raw: &'a [u8],
    data: &'a Data,
    /// Made when it is asked for.
    sample: Vec<u8>,
}

impl Trials for BlockTrials<'_> {
    fn share(&mut self, candidate: usize) -> f32 {
        if self.sample.is_empty() {
            self.sample = sample(self.raw, self.data);
        }
        let encoding = CANDIDATES[candidate].encoding(self.data).expect("what was predicted has a meaning");
        let encoded_bytes = |filtered: &[u8]| codec::encoded_bytes(&encoding, filtered);
        let encoded_bytes = filter::with_filtered(&encoding, &self.sample, encoded_bytes);
        (encoded_bytes as f32 / self.sample.len().max(1) as f32).min(1.0)
    }

    fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    fn sampled(&self) -> f32 {
        (TRIAL_BYTES as f32 / self.raw.len().max(1) as f32).min(1.0)
    }
}

/// Returns two pieces of the block one after the other, at places where records stand as at its beginning; or all of a
/// short one.
fn sample(raw: &[u8], data: &Data) -> Vec<u8> {
    let unit_bytes = (data.record_length as usize).max(data.element.bytes());
    let piece_bytes = TRIAL_BYTES / 2 / unit_bytes * unit_bytes;
    if raw.len() < 2 * TRIAL_BYTES || piece_bytes == 0 {
        return raw[..raw.len().min(TRIAL_BYTES)].to_vec();
    }
    let piece = |at: usize| &raw[at / unit_bytes * unit_bytes..][..piece_bytes];
    [piece(raw.len() / 6), piece(raw.len() / 3 * 2)].concat()
}

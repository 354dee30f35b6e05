//! Chooses a block's encoding: what its bytes look like, what the model predicts of that, and what blocks like it gave.
//!
//! What was learned of blocks belongs to a thread: it needs no lock, and threads learn the same of the same data soon.

use std::cell::RefCell;

use policy::compression::{
    CANDIDATES, Choices, Chosen, Data, EncodingResult, Glance, Goal, Likeness, Mode, Probe, Trials,
};
use policy::{Compression, Element, Encoding};

use crate::features::{self, FEATURES, Looked};
use crate::{codec, conditions, core_speed, filter, model, probe, shape};

/// Bytes of a block that are encoded for a trial, in so many pieces unless records are longer.
const TRIAL_BYTES: usize = 32 << 10;
const MAX_TRIAL_PIECES: usize = 8;

thread_local! {
    static CHOICES: RefCell<Choices> = RefCell::default();
    static RECENT: RefCell<shape::RecentRecords> = RefCell::default();
}

/// An encoding, and what was expected of it; none of what is known to be incompressible.
pub(crate) struct Choice {
    pub encoding: Encoding,
    goal: Goal,
    expected: Option<Chosen>,
}

/// Returns how `raw` should be encoded; `described` is what somebody knows of its data, at least the order of bytes.
pub(crate) fn choose(mode: Mode, raw: &[u8], described: Data) -> Choice {
    let known = says_something(&described).then_some(described);
    let slowness = if mode.follows_machine() { core_speed::slowness() } else { 1.0 };
    let goal = Goal { mode, conditions: conditions::now(mode), slowness };
    let unlooked = |encoding| Choice { encoding, goal, expected: None };
    if !policy::compression::can_pay(&goal, raw.len()) {
        return unlooked(policy::compression::never().into());
    }
    let may_look = CHOICES.with_borrow_mut(|choices| {
        choices.use_model(model::number());
        choices.take_first_look(&goal, raw.len())
    });
    if !may_look && !probe::is_nearly_constant(raw) {
        return unlooked(policy::compression::never().into());
    }
    let probe = probe::probe(raw);
    if let Some(encoding) = policy::compression::without_a_look(&goal, probe, raw.len(), &known.unwrap_or_default()) {
        return unlooked(encoding);
    }
    let data = known.unwrap_or_else(|| found(mode, raw, described.is_big_endian));
    let log_collisions = probe.byte_collisions.max(0.25).log2();
    let Data { record_length, element, is_known, is_rounded, .. } = data;
    let glance = Glance { mode, record_length, element, is_known, is_rounded, log_collisions };
    let chosen = CHOICES.with_borrow_mut(|choices| match choices.recall(&glance) {
        Some(recalled) => recalled,
        None => {
            model::prepare();
            let begin_ns = core_speed::thread_ns();
            let chosen = look(choices, &goal, (glance, probe), raw, &data);
            choices.pay_for_look(&goal, (core_speed::thread_ns() - begin_ns) as f32);
            chosen
        }
    });
    let encoding = CANDIDATES[chosen.candidate].encoding(&data).expect("what was predicted has a meaning");
    Choice { encoding, goal, expected: Some(chosen) }
}

/// That data are bytes says nothing of what they have in common with those before: pixels of several colours, or a smooth field.
fn says_something(described: &Data) -> bool {
    described.is_known && (described.element != Element::U8 || described.record_length > 1)
}

/// An archive looks at each block anew.
fn found(mode: Mode, raw: &[u8], is_big_endian: bool) -> Data {
    match mode {
        Mode::Archival => shape::RecentRecords::default().found(raw, is_big_endian),
        _ => RECENT.with_borrow_mut(|recent| recent.found(raw, is_big_endian)),
    }
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

impl Choice {
    /// Encodes by the choice, and learns what it gave: `stored_bytes` says how much of `raw_bytes` is left. Where time is all, it is measured.
    pub fn encode_and_learn<T>(
        &self,
        raw_bytes: usize,
        encode: impl FnOnce() -> T,
        stored_bytes: impl Fn(&T) -> usize,
    ) -> T {
        let is_timed = self.goal.mode == Mode::Performance && self.encoding.compression != Compression::None;
        let begin_ns = is_timed.then(core_speed::thread_ns);
        let encoded = encode();
        let per_byte = |value: f32| value / raw_bytes.max(1) as f32;
        let encode_ns = begin_ns.map(|begin_ns| per_byte((core_speed::thread_ns() - begin_ns) as f32));
        let result = EncodingResult { share: per_byte(stored_bytes(&encoded) as f32), encode_ns };
        CHOICES.with_borrow_mut(|choices| match &self.expected {
            Some(chosen) => choices.learn(chosen, &result, &self.goal, raw_bytes),
            None => choices.count(&self.goal, &result, raw_bytes),
        });
        encoded
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

/// Returns pieces of the block one after the other, at places where records stand as at its beginning; of a block of less than 64 KiB its first 32.
/// Few pieces miss what differs from place to place: the planes of a shuffled chunk, or random bytes between text.
fn sample(raw: &[u8], data: &Data) -> Vec<u8> {
    let unit_bytes = (data.record_length as usize).max(data.element.bytes());
    let pieces = (TRIAL_BYTES / unit_bytes).clamp(1, MAX_TRIAL_PIECES);
    let piece_bytes = TRIAL_BYTES / pieces / unit_bytes * unit_bytes;
    if raw.len() < 2 * TRIAL_BYTES || piece_bytes == 0 {
        return raw[..raw.len().min(TRIAL_BYTES)].to_vec();
    }
    let stretch_bytes = raw.len() / pieces;
    let begin = |piece: usize| {
        let within = (stretch_bytes - piece_bytes) * scattered(piece) / (MAX_TRIAL_PIECES - 1);
        (piece * stretch_bytes + within) / unit_bytes * unit_bytes
    };
    (0..pieces).flat_map(|piece| &raw[begin(piece)..][..piece_bytes]).copied().collect()
}

/// Returns a place for a piece in its stretch, from 0 to one less than there are pieces: another one in each, so that what repeats from stretch to stretch
/// is met at all its phases.
fn scattered(piece: usize) -> usize {
    (5 * piece + 3) % MAX_TRIAL_PIECES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random_bytes;

    const BLOCK_BYTES: usize = 256 << 10;

    #[test]
    fn a_sample_has_something_of_every_plane_of_a_shuffled_block() {
        let planes: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at / (BLOCK_BYTES / 8)) as u8).collect();
        let sample = sample(&planes, &Data::default());
        assert_eq!(sample.len(), TRIAL_BYTES);
        assert!((0..8).all(|plane| sample.contains(&plane)));
    }

    #[test]
    fn a_sample_meets_what_repeats_at_more_than_one_phase_and_long_records_everywhere() {
        let pages: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at % (16 << 10) / 1024) as u8).collect();
        let sampled = sample(&pages, &Data::default());
        assert_eq!((0..16).filter(|kibibyte| sampled.contains(kibibyte)).count(), 16);
        let halves: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at >= BLOCK_BYTES / 2) as u8).collect();
        let sampled = sample(&halves, &Data { record_length: 8192, ..Data::default() });
        assert_eq!((sampled.len(), sampled.contains(&0), sampled.contains(&1)), (TRIAL_BYTES, true, true));
    }

    #[test]
    fn bytes_are_looked_at_though_their_type_is_known() {
        let wave = |at: usize| (at as f64 * 0.02).sin() + (at as f64 * 0.0007).cos();
        let raw: Vec<u8> = (0..BLOCK_BYTES).map(|at| (wave(at) * 30.0 + 100.0) as u8).collect();
        let stored_as = |described| {
            let choice = choose(Mode::Archival, &raw, described);
            let encoded = filter::with_filtered(&choice.encoding, &raw, |raw| codec::encode(&choice.encoding, raw));
            encoded.map_or(raw.len(), |bytes| bytes.len())
        };
        let known = Data { element: Element::U8, record_length: 1, is_known: true, ..Data::default() };
        assert!(stored_as(known) <= stored_as(Data::default()));
    }

    /// Readings in hundredths, as sensors give them.
    fn decimals(seed: u64) -> Vec<u8> {
        let noise = random_bytes(seed, BLOCK_BYTES / 8);
        let value = |(at, noise): (usize, &u8)| 20.0 + 5.0 * (at as f64 / 5000.0).sin() + *noise as f64 / 256.0;
        noise.iter().enumerate().map(value).flat_map(|value| ((value * 100.0).round() / 100.0).to_le_bytes()).collect()
    }

    #[test]
    fn decimals_are_found_though_no_feature_shows_them() {
        for mode in [Mode::Balanced, Mode::Archival] {
            let mut last = policy::Compression::None;
            for seed in 0..40 {
                let raw = decimals(seed);
                let choice = choose(mode, &raw, Data::default());
                let encode =
                    || filter::with_filtered(&choice.encoding, &raw, |raw| codec::encode(&choice.encoding, raw));
                choice.encode_and_learn(raw.len(), encode, |stored| stored.as_ref().map_or(raw.len(), Vec::len));
                last = choice.encoding.compression;
            }
            assert!(matches!(last, policy::Compression::Pco { .. }), "{mode:?}: {last:?}");
        }
    }
}

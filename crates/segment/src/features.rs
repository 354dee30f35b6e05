//! What a model is told of a block: numbers that say how well each kind of encoding would do, read from a sample of it.
//!
//! How even the bytes are is given as collision entropy, −log₂ of the share of equal pairs: it has no bias however few
//! bytes there are, which the planes of long records are short of, and needs no logarithm for each value.

use policy::Compression;
use policy::compression::Data;

use crate::record::{FEW, equal_bytes};
use crate::{codec, filter, probe};

/// Numbers by which a model knows a block.
pub const FEATURES: usize = 21;
/// Counts up when features change: a model for others is of no use.
pub const FEATURES_VERSION: u16 = 2;

/// Features that are used by name.
#[derive(Clone, Copy)]
pub(crate) enum Looked {
    Entropy = 1,
    Lz4Share = 7,
    PlaneEntropy = 10,
    StepBits = 17,
}

/// Stretches that are looked at, and the length of each (bytes).
const STRETCHES: usize = 4;
const STRETCH_BYTES: usize = 1536;
/// Units of each stretch whose planes and numbers are looked at.
const STRETCH_UNITS: usize = 64;
/// Planes of long records that are looked at.
const MAX_PLANES: usize = 8;

/// Returns the features of a block that consists of such data.
pub fn features(raw: &[u8], data: &Data) -> [f32; FEATURES] {
    features_after(raw, data, probe::probe(raw).byte_collisions)
}

/// Returns the features of a block whose bytes are so even (see [`probe::probe`]).
pub(crate) fn features_after(raw: &[u8], data: &Data, byte_collisions: f32) -> [f32; FEATURES] {
    if data.is_big_endian {
        return features_after(
            &filter::little_endian(raw, data),
            &Data { is_big_endian: false, ..*data },
            byte_collisions,
        );
    }
    let sample = Sample::of(raw, data);
    let bytes = sample.stretches.concat();
    let numbers = Numbers::of(&sample, data);
    let [plain, steps, xors] = sample.planes();
    [
        (raw.len().max(1) as f32).log2(),
        (8.0 - byte_collisions.max(0.25).log2()).min(8.0),
        share_of(&bytes, |byte| byte == 0),
        share_of(&bytes, |byte| byte == b'\n' || (0x20..0x7f).contains(&byte)),
        share_of_pairs(&bytes, 1),
        share_of_pairs(&bytes, 4),
        share_of_pairs(&bytes, sample.unit_bytes),
        lz4_share(&[sample.stretches[1], sample.stretches[3]].concat()),
        (data.record_length.max(1) as f32).log2(),
        data.element.bytes().ilog2() as f32,
        plain.mean,
        plain.even,
        plain.constant,
        steps.mean,
        steps.constant,
        xors.mean,
        numbers.bits,
        numbers.step_bits,
        numbers.second_step_bits,
        numbers.same,
        numbers.trailing_zeros,
    ]
}

/// Stretches of a block, each of whole units from a unit's beginning on.
struct Sample<'a> {
    stretches: [&'a [u8]; STRETCHES],
    unit_bytes: usize,
}

/// What the planes have in common: of every unit the bytes at one place.
#[derive(Default)]
struct Planes {
    /// Entropy of a plane's bytes, mean over the planes (bits).
    mean: f32,
    /// Share of planes whose bytes are nearly random.
    even: f32,
    /// Share of planes of which nearly nothing remains.
    constant: f32,
}

impl Planes {
    fn add(&mut self, bits: f32) {
        self.mean += bits;
        self.even += (bits > 7.0) as u8 as f32;
        self.constant += (bits < 1.0) as u8 as f32;
    }

    fn divided_by(self, planes: f32) -> Self {
        Planes { mean: self.mean / planes, even: self.even / planes, constant: self.constant / planes }
    }
}

impl<'a> Sample<'a> {
    fn of(raw: &'a [u8], data: &Data) -> Self {
        let unit_bytes = (data.record_length as usize).max(data.element.bytes());
        let stretch_bytes = STRETCH_BYTES.max(3 * unit_bytes).min(raw.len());
        let apart = (raw.len() - stretch_bytes) / (STRETCHES - 1);
        let stretch = |number: usize| {
            let begin = unit_boundary(number * apart, unit_bytes, data.phase as usize).min(raw.len());
            let end = (begin + stretch_bytes).min(raw.len());
            &raw[begin..begin + (end - begin) / unit_bytes * unit_bytes]
        };
        Sample { stretches: std::array::from_fn(stretch), unit_bytes }
    }

    /// Looks at planes of the bytes, of their steps from unit to unit, and of the bits that change.
    fn planes(&self) -> [Planes; 3] {
        let count = self.unit_bytes.min(MAX_PLANES);
        let mut found: [Planes; 3] = Default::default();
        for plane in 0..count {
            let pairs = self.pairs(plane * self.unit_bytes / count);
            found[0].add(pairs.entropy(|byte, _| byte));
            found[1].add(pairs.entropy(u8::wrapping_sub));
            found[2].add(pairs.entropy(|byte, before| byte ^ before));
        }
        found.map(|planes| planes.divided_by(count as f32))
    }

    /// Gathers the bytes at one place of units, each with that of the unit before.
    fn pairs(&self, at: usize) -> Pairs {
        let mut pairs = Pairs { bytes: [0; MAX_PAIRS], before: [0; MAX_PAIRS], count: 0 };
        for stretch in &self.stretches {
            let units = (stretch.len() / self.unit_bytes).min(STRETCH_UNITS);
            let byte = |unit: usize| stretch[unit * self.unit_bytes + at];
            for unit in 1..units {
                (pairs.bytes[pairs.count], pairs.before[pairs.count]) = (byte(unit), byte(unit - 1));
                pairs.count += 1;
            }
        }
        pairs
    }
}

const MAX_PAIRS: usize = STRETCHES * STRETCH_UNITS;

/// The bytes of a plane, and those of the units before.
struct Pairs {
    bytes: [u8; MAX_PAIRS],
    before: [u8; MAX_PAIRS],
    count: usize,
}

// A byte counts them.
const _: () = assert!(STRETCHES * (STRETCH_UNITS - 1) <= u8::MAX as usize);

impl Pairs {
    /// Returns −log₂ of the share of equal pairs among all pairs of what `change` makes of bytes and those before, at most 8 bits.
    fn entropy(&self, change: impl Fn(u8, u8) -> u8) -> f32 {
        let mut changed = [0u8; MAX_PAIRS];
        let pairs = self.bytes.iter().zip(&self.before);
        changed.iter_mut().zip(pairs).for_each(|(changed, (byte, before))| *changed = change(*byte, *before));
        let (mut counts, mut equal) = ([0u8; 256], 0u32);
        for byte in &changed[..self.count] {
            equal += u32::from(counts[*byte as usize]);
            counts[*byte as usize] += 1;
        }
        let pairs = (self.count * self.count.saturating_sub(1) / 2).max(1) as f32;
        -(equal as f32 / pairs).max(1.0 / 256.0).log2()
    }
}

/// Returns the first boundary of units at or behind a place.
fn unit_boundary(at: usize, unit_bytes: usize, phase: usize) -> usize {
    let phase = phase % unit_bytes;
    if at <= phase { phase } else { phase + (at - phase).div_ceil(unit_bytes) * unit_bytes }
}

/// Means over numbers, in bits as a share of those they have.
#[derive(Default)]
struct Numbers {
    /// That their values need.
    bits: f32,
    /// Of the differences to the number of the record before, and of the differences of those.
    step_bits: f32,
    second_step_bits: f32,
    /// Share of those equal to the one before.
    same: f32,
    /// Zeros at the end.
    trailing_zeros: f32,
}

impl Numbers {
    fn of(sample: &Sample, data: &Data) -> Self {
        match data.element.bytes() {
            2 => Self::of_width(sample, i16::from_le_bytes),
            4 => Self::of_width(sample, i32::from_le_bytes),
            8 => Self::of_width(sample, i64::from_le_bytes),
            _ => Self::default(),
        }
    }

    fn of_width<const N: usize, T: Into<i64>>(sample: &Sample, number: impl Fn([u8; N]) -> T) -> Self {
        let mut numbers = Numbers::default();
        if !sample.unit_bytes.is_multiple_of(N) {
            return numbers;
        }
        let mut count = 0;
        for stretch in &sample.stretches {
            let value = |at: usize| number(*stretch[at..].first_chunk().expect("stretches are of whole units")).into();
            for at in (2 * sample.unit_bytes..stretch.len()).step_by(N).take(STRETCH_UNITS) {
                let [before, earlier] = [1, 2].map(|units| value(at - units * sample.unit_bytes));
                numbers.add(value(at), before, earlier, N);
                count += 1;
            }
        }
        numbers.divided_by(count.max(1) as f32)
    }

    fn add(&mut self, value: i64, before: i64, earlier: i64, width: usize) {
        let (step, step_before) = (value.wrapping_sub(before), before.wrapping_sub(earlier));
        self.bits += bits(value, width);
        self.step_bits += bits(step, width);
        self.second_step_bits += bits(step.wrapping_sub(step_before), width);
        self.same += (step == 0) as u8 as f32;
        self.trailing_zeros += value.trailing_zeros().min(8 * width as u32) as f32 / (8 * width) as f32;
    }

    fn divided_by(self, count: f32) -> Self {
        Numbers {
            bits: self.bits / count,
            step_bits: self.step_bits / count,
            second_step_bits: self.second_step_bits / count,
            same: self.same / count,
            trailing_zeros: self.trailing_zeros / count,
        }
    }
}

/// Returns the bits that a signed number needs, as a share of those it has; steps wrap in its width.
fn bits(value: i64, width: usize) -> f32 {
    let unused = 64 - 8 * width as u32;
    let value = value << unused >> unused;
    let magnitude = if value < 0 { !value } else { value } as u64;
    (64 - magnitude.leading_zeros()) as f32 / (8 * width) as f32
}

fn share_of(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> f32 {
    let count = |bytes: &[u8]| bytes.iter().map(|byte| wanted(*byte) as u8).fold(0, u8::wrapping_add) as u32;
    bytes.chunks(FEW).map(count).sum::<u32>() as f32 / bytes.len().max(1) as f32
}

/// Returns how many bytes are equal to the one so far before them (share).
fn share_of_pairs(bytes: &[u8], apart: usize) -> f32 {
    let Some(later) = bytes.get(apart..) else { return 0.0 };
    equal_bytes(&bytes[..later.len()], later) as f32 / later.len().max(1) as f32
}

/// The tiny trial: what LZ4 makes of the sample (share).
fn lz4_share(bytes: &[u8]) -> f32 {
    codec::encoded_bytes(&Compression::LZ4.into(), bytes) as f32 / bytes.len().max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{field, random_bytes, text};
    use crate::shape;

    #[test]
    fn any_block_has_finite_features() {
        for length in (0..300).chain([5000, 262_144]) {
            for raw in [random_bytes(1, length), vec![0; length], text(2, length), field(3, length)] {
                for record_length in [0, 3, 8, 200] {
                    let element = if record_length == 8 { policy::Element::U32 } else { policy::Element::U8 };
                    let data =
                        Data { record_length, element, phase: record_length.saturating_sub(1), ..Data::default() };
                    let found = features(&raw, &data);
                    assert!(found.iter().all(|value| value.is_finite()), "{length} {record_length} {found:?}");
                }
            }
        }
    }

    #[test]
    fn random_bytes_are_even_and_text_is_printable() {
        let of = |raw: &[u8]| features(raw, &shape::found(raw));
        let random = of(&random_bytes(1, 262_144));
        assert!(random[1] > 7.9 && random[7] > 0.99, "{random:?}");
        let text = of(&text(1, 262_144));
        assert!(text[3] > 0.99 && text[7] < 0.8, "{text:?}");
        let zeros = of(&[0; 262_144]);
        assert!(zeros[1] == 0.0 && zeros[2] == 1.0, "{zeros:?}");
    }
}

//! The filter's client data: a few numbers in the dataset's header, laid out as in docs/format.md.
//!
//! Users give the first one or two; the rest is made when a dataset is, and replaced when it is copied to another.

use format::{CodecChoice, ElementId, ErrorBound, Rounding};
use segment::{ChunkType, Rounder};

/// Values that a dataset has at most: five, and five more where there is a bound on the error of its numbers.
pub const MAX_COUNT: usize = 10;

/// Names of what a number means, as [`CodecChoice`] reads them: ways to choose from 0 on, codecs from 16 on.
const MODES: [&str; 4] = ["auto", "auto:performance", "auto:archival", "auto:energy"];
const CODECS: [&str; 7] = ["none", "lz4", "lz4:fast", "lz4hc", "zstd", "zlib", "xz"];
const FIRST_CODEC: u32 = 16;

/// Added to an element type whose numbers are big-endian.
const BIG_ENDIAN: u32 = 16;

/// Kinds of bounds; 0 is none.
const ABSOLUTE: u32 = 1;
const RELATIVE: u32 = 2;

/// The level that is none: a codec takes its own.
const NO_LEVEL: u32 = i32::MAX as u32;

/// The data of a dataset, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientData {
    choice: u32,
    level: u32,
    pub known: ChunkType,
    /// 0 where it is unknown.
    pub chunk_bytes: u32,
    bound_kind: u32,
    bound: f64,
    /// The value that stands for missing ones.
    missing: Option<f64>,
}

impl ClientData {
    /// Reads what is there; more values than are known are a newer filter's, and decoding needs none of them.
    pub fn read(values: &[u32]) -> Self {
        let value = |at: usize, missing| values.get(at).copied().unwrap_or(missing);
        let (element, is_big_endian) = element_of(value(2, 0));
        ClientData {
            choice: value(0, 0),
            level: value(1, NO_LEVEL),
            known: ChunkType { element, is_big_endian, record_length: value(3, 0) },
            chunk_bytes: value(4, 0),
            bound_kind: value(5, 0),
            bound: double([value(6, 0), value(7, 0)]),
            missing: values.get(8..MAX_COUNT).map(|words| double([words[0], words[1]])).filter(|value| !value.is_nan()),
        }
    }

    /// Returns the same choice, of a dataset of which this is known.
    pub fn of_dataset(self, known: ChunkType, chunk_bytes: u32) -> Self {
        ClientData { known, chunk_bytes, ..self }
    }

    /// Returns the same, of a dataset where this value stands for missing ones.
    pub fn with_missing(self, missing: Option<f64>) -> Self {
        ClientData { missing: missing.or(self.missing), ..self }
    }

    pub fn is_bounded(&self) -> bool {
        self.bound_kind != 0
    }

    pub fn values(&self) -> Vec<u32> {
        let ChunkType { element, is_big_endian, record_length } = self.known;
        let element = element as u32 + if is_big_endian { BIG_ENDIAN } else { 0 };
        let mut values = vec![self.choice, self.level, element, record_length, self.chunk_bytes];
        if self.is_bounded() {
            values.push(self.bound_kind);
            values.extend(words(self.bound));
            values.extend(words(self.missing.unwrap_or(f64::NAN)));
        }
        values
    }

    /// Returns what rounds the numbers, where an error is allowed; an error where the bound is none, or they are no floats.
    pub fn rounder(&self) -> Result<Option<Rounder>, String> {
        if !self.is_bounded() {
            return Ok(None);
        }
        let refused = |why: &str| format!("client data {:?}: {why}", self.values());
        let Some(float) = self.known.float() else {
            return Err("an error bound is for floats of 32 or 64 bits, before any other filter: convert the data, or leave it out"
                .to_owned());
        };
        let bound = match self.bound_kind {
            ABSOLUTE => ErrorBound::Absolute(self.bound),
            RELATIVE => ErrorBound::Relative(self.bound),
            _ => return Err(refused("the kind of the error bound is neither 1 (absolute) nor 2 (relative)")),
        };
        let bound = bound.to_string().parse().map_err(|error: format::Error| refused(&error.to_string()))?;
        Ok(Rounder::new(&Rounding { float, bound, missing: self.missing }))
    }

    /// Returns the codec that was asked for; an error where this program has no such one.
    pub fn codec(&self) -> Result<CodecChoice, String> {
        let refused = |why: String| format!("client data [{}, {}]: {why}", self.choice, self.level as i32);
        let codec = self.choice.checked_sub(FIRST_CODEC).and_then(|codec| CODECS.get(codec as usize));
        let Some(name) = codec.or_else(|| MODES.get(self.choice as usize)) else {
            return Err(refused(
                "the first value is none of 0 (chosen for each chunk), 1, 2, 3 (the same by performance, archival, energy), \
                16 none, 17 lz4, 18 lz4:fast, 19 lz4hc, 20 zstd, 21 zlib, 22 xz"
                    .to_owned(),
            ));
        };
        let text = match self.level {
            NO_LEVEL => (*name).to_owned(),
            level => format!("{name}:{}", level as i32),
        };
        text.parse().map_err(|error: format::Error| refused(error.to_string()))
    }
}

/// Returns the element type that this value means, and whether its numbers are big-endian; bytes where it means none.
fn element_of(value: u32) -> (ElementId, bool) {
    let is_big_endian = value > BIG_ENDIAN;
    let byte = u8::try_from(if is_big_endian { value - BIG_ENDIAN } else { value });
    match byte.map(ElementId::from_byte) {
        Ok(Ok(element)) => (element, is_big_endian),
        _ => (ElementId::U8, false),
    }
}

/// Returns the double of which these are the lower and the higher half of its bits.
fn double([low, high]: [u32; 2]) -> f64 {
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

fn words(double: f64) -> [u32; 2] {
    let bits = double.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(values: &[u32]) -> Result<String, String> {
        ClientData::read(values).codec().map(|codec| codec.to_string())
    }

    #[test]
    fn numbers_mean_the_codecs_of_the_table() {
        let numbered = [
            (&[][..], "auto"),
            (&[0], "auto"),
            (&[1], "auto:performance"),
            (&[2], "auto:archival"),
            (&[3], "auto:energy"),
            (&[16], "none"),
            (&[17], "lz4"),
            (&[18], "lz4:fast"),
            (&[19], "lz4hc:9"),
            (&[20, 19], "zstd:19"),
            (&[20, -7i32 as u32], "zstd:-7"),
            (&[21], "zlib:6"),
            (&[22, 0], "xz:0"),
        ];
        numbered.into_iter().for_each(|(values, name)| assert_eq!(codec(values).as_deref(), Ok(name)));
    }

    #[test]
    fn numbers_without_meaning_are_refused() {
        for values in [&[4][..], &[15], &[23], &[u32::MAX], &[16, 1], &[20, 23], &[0, 3]] {
            let refused = codec(values);
            assert!(refused.is_err_and(|why| why.starts_with("client data [")), "{values:?}");
        }
    }

    #[test]
    fn what_is_made_of_a_dataset_is_read_back() {
        for is_big_endian in [false, true] {
            let known = ChunkType { element: ElementId::F32, is_big_endian, record_length: 12 };
            let data = ClientData::read(&[20, 5]).of_dataset(known, 4096);
            assert_eq!(ClientData::read(&data.values()), data);
            assert_eq!(codec(&data.values()).as_deref(), Ok("zstd:5"));
        }
        for without_meaning in [4, 12, 16, 20, 28, 256 + 11, u32::MAX] {
            assert_eq!(ClientData::read(&[20, 5, without_meaning]).known, ChunkType::UNKNOWN);
        }
        assert_eq!(codec(&ClientData::read(&[]).values()).as_deref(), Ok("auto"));
    }

    fn bounded(kind: u32, bound: f64) -> ClientData {
        let [low, high] = words(bound);
        ClientData::read(&[0, NO_LEVEL, ElementId::F32 as u32, 0, 4096, kind, low, high])
    }

    #[test]
    fn a_bound_is_kept_with_the_value_for_missing_ones() {
        let data = bounded(RELATIVE, 1e-3).with_missing(Some(1e20));
        assert_eq!(data.values().len(), MAX_COUNT);
        assert_eq!(ClientData::read(&data.values()), data);
        assert!(data.rounder().unwrap().is_some());
        assert!(bounded(0, 1e-3).rounder().unwrap().is_none() && bounded(0, 1e-3).values().len() == 5);
    }

    #[test]
    fn bounds_without_meaning_and_of_what_is_no_float_are_refused() {
        for (kind, bound) in
            [(3, 0.1), (u32::MAX, 0.1), (ABSOLUTE, 0.0), (ABSOLUTE, f64::NAN), (RELATIVE, 1.0), (RELATIVE, -0.1)]
        {
            let refused = bounded(kind, bound).rounder();
            assert!(refused.is_err_and(|why| why.starts_with("client data [")), "{kind} {bound}");
        }
        let of = |element, is_big_endian| {
            bounded(ABSOLUTE, 0.1).of_dataset(ChunkType { element, is_big_endian, record_length: 0 }, 4096)
        };
        assert!(of(ElementId::I32, false).rounder().is_err_and(|why| why.contains("is for floats")));
        assert!(of(ElementId::F64, true).rounder().unwrap().is_some());
    }
}

//! Encodes one block in every way, and takes the time that each takes a core.

use std::hint::black_box;

use format::{BlockKind, Fingerprint};
use policy::Encoding;
use policy::compression::{CANDIDATES, Data, Outcome};
use rustix::time::{ClockId, clock_gettime};
use segment::{FEATURES, decode, encode_with, features, found_data};

/// What is faster is measured again (ns), so many times, and the shortest time counts: the first one fills caches, and others of a core's
/// threads slow it down by half now and then.
const QUICK_NS: u64 = 5_000_000;
const QUICK_ROUNDS: usize = 3;

/// What an encoding gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    pub stored_bytes: usize,
    /// Of one core.
    pub encode_ns: u64,
    pub decode_ns: u64,
}

/// A block, and what every candidate made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub raw_bytes: usize,
    pub data: Data,
    pub features: [f32; FEATURES],
    /// By candidate; `None` where one has no meaning for the data.
    pub measured: [Option<Measured>; CANDIDATES.len()],
}

impl Measurement {
    /// Returns what a candidate gave, for each raw byte.
    pub fn outcome(&self, candidate: usize) -> Option<Outcome> {
        let measured = self.measured[candidate]?;
        let each = |sum: f32| sum / self.raw_bytes as f32;
        Some(Outcome {
            share: each(measured.stored_bytes as f32),
            encode_ns: each(measured.encode_ns as f32),
            decode_ns: each(measured.decode_ns as f32),
        })
    }
}

/// Encodes and decodes a block with every candidate. Panics when what comes back is not what was encoded.
pub fn measure(raw: &[u8]) -> Measurement {
    // Of a core that is as busy as while the times below are taken: `train` divides them by it.
    segment::slowness();
    let data = found_data(raw);
    let measured = std::array::from_fn(|number| {
        let encoding = CANDIDATES[number].encoding(&data)?;
        Some(measure_encoding(raw, &encoding))
    });
    Measurement { raw_bytes: raw.len(), data, features: features(raw, &data), measured }
}

pub(crate) fn measure_encoding(raw: &[u8], encoding: &Encoding) -> Measured {
    let encode = || encode_with(BlockKind::Data, &[(Fingerprint([0; 32]), raw)], encoding);
    let (mut encode_ns, block) = timed(encode);
    let (mut decode_ns, decoded) = timed(|| decode(black_box(&block)));
    assert!(decoded.is_ok_and(|decoded| decoded == raw), "{encoding:?} lost bytes");
    if encode_ns < QUICK_NS {
        for _ in 0..QUICK_ROUNDS {
            encode_ns = encode_ns.min(timed(encode).0);
            decode_ns = decode_ns.min(timed(|| decode(black_box(&block)).is_ok()).0);
        }
    }
    Measured { stored_bytes: block.payload.len(), encode_ns, decode_ns }
}

/// Returns the nanoseconds that this thread computed, whatever else the machine does.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let begin = now();
    let done = work();
    (now() - begin, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_candidates_are_measured_and_nothing_is_lost() {
        let raw: Vec<u8> = (0..8192).flat_map(|at| ((at as f64 * 0.01).sin() + 2.0).to_le_bytes()).collect();
        let measurement = measure(&raw);
        assert_eq!(measurement.data.record_length, 8);
        let stored = |measured: &Option<Measured>| measured.is_some_and(|measured| measured.stored_bytes <= raw.len());
        assert!(measurement.measured.iter().all(stored), "{measurement:?}");
        assert_eq!(measurement.outcome(0).unwrap().share, 1.0);
    }
}

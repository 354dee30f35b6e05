//! Compresses and decompresses bytes: one file per codec, all with the same two functions.
//!
//! `encode` writes to a buffer that lives as long as its thread, and keeps its context there too: making both again for
//! every block takes longer than finding that a block is incompressible. It returns `None` where the buffer is too short,
//! which it never is when compressing helps. `decode` gets the length to expect and never yields, or allocates for, more
//! than that; broken input is an error.

mod lz4;
mod lz4_fast;
mod lz4_hc;
mod none;
mod pco;
mod xz;
mod zero_run;
mod zlib;
mod zstd;

use std::cell::RefCell;

use format::MAX_SEGMENT_BYTES;
use policy::{Compression, Encoding};

use crate::buffer::{grow, trim};
use crate::encoding::codec_and_level;
use crate::error::{Result, corrupt};

/// A block holds at least one segment, and never more raw bytes than the longest segment has.
pub const MAX_BLOCK_BYTES: usize = MAX_SEGMENT_BYTES as usize;

/// Compressed bytes are kept only where they save at least 1/64: less does not pay for decoding them.
const MIN_SAVING: usize = 64;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the compressed bytes, or `None` when no compression is requested or it saves too little.
pub(crate) fn encode(encoding: &Encoding, raw: &[u8]) -> Option<Vec<u8>> {
    if encoding.compression == Compression::None {
        return None;
    }
    let most = (raw.len() - raw.len() / MIN_SAVING).min(raw.len().saturating_sub(1));
    with_encoded(encoding, raw, |encoded| encoded.filter(|bytes| bytes.len() <= most).map(<[u8]>::to_vec))
}

/// Returns the encoded length of `raw`, which may be a little more than its own.
pub(crate) fn encoded_bytes(encoding: &Encoding, raw: &[u8]) -> usize {
    with_encoded(encoding, raw, |encoded| encoded.map_or(worst_bytes(raw), <[u8]>::len))
}

/// The worst case of the codecs that know theirs, LZ4's being the worst: 1.1 times the raw bytes and 20.
fn worst_bytes(raw: &[u8]) -> usize {
    raw.len() + raw.len() / 8 + 128
}

fn with_encoded<T>(encoding: &Encoding, raw: &[u8], receive: impl FnOnce(Option<&[u8]>) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        grow(buffer, worst_bytes(raw));
        let encoded_bytes = write_encoded(encoding, raw, buffer);
        let received = receive(encoded_bytes.map(|bytes| &buffer[..bytes]));
        trim(buffer);
        received
    })
}

fn write_encoded(encoding: &Encoding, raw: &[u8], to: &mut [u8]) -> Option<usize> {
    match encoding.compression {
        Compression::None => none::encode(raw, 0, to),
        Compression::ZeroRun => zero_run::encode(raw, 0, to),
        Compression::Lz4 { acceleration: 0..2 } => lz4::encode(raw, 0, to),
        Compression::Lz4 { acceleration } => lz4_fast::encode(raw, acceleration.into(), to),
        Compression::Lz4Hc { level } => lz4_hc::encode(raw, level.into(), to),
        Compression::Zstd { level } => zstd::encode(raw, level.into(), to),
        Compression::Zlib { level } => zlib::encode(raw, level.into(), to),
        Compression::Xz { level } => xz::encode(raw, level.into(), to),
        Compression::Pco { level } => pco::encode(encoding, raw, level.into(), to),
    }
}

/// Returns the `raw_bytes` bytes that were encoded as `stored`; filters are not undone yet.
pub(crate) fn decode(encoding: &Encoding, stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    if raw_bytes > MAX_BLOCK_BYTES {
        return corrupt(format!("{raw_bytes} bytes are more than a block holds ({MAX_BLOCK_BYTES})"));
    }
    let decoded = match encoding.compression {
        Compression::None => none::decode(stored, raw_bytes),
        Compression::ZeroRun => zero_run::decode(stored, raw_bytes),
        Compression::Lz4 { .. } | Compression::Lz4Hc { .. } => lz4::decode(stored, raw_bytes),
        Compression::Zstd { .. } => zstd::decode(stored, raw_bytes),
        Compression::Zlib { .. } => zlib::decode(stored, raw_bytes),
        Compression::Xz { .. } => xz::decode(stored, raw_bytes),
        Compression::Pco { .. } => pco::decode(encoding, stored, raw_bytes),
    };
    match decoded {
        Ok(raw) if raw.len() == raw_bytes => Ok(raw),
        Ok(raw) => corrupt(format!("it decodes to {} bytes instead of {raw_bytes}", raw.len())),
        Err(why) => {
            let (codec, _) = codec_and_level(encoding.compression);
            corrupt(format!("{} cannot decode it: {why}", codec.name()))
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::Element;

    use super::*;
    use crate::random::{random_bytes, text};

    const ALL: [Compression; 16] = [
        Compression::None,
        Compression::ZeroRun,
        Compression::LZ4,
        Compression::Lz4 { acceleration: 8 },
        Compression::Lz4Hc { level: 3 },
        Compression::Lz4Hc { level: 12 },
        Compression::Zstd { level: -7 },
        Compression::Zstd { level: 1 },
        Compression::Zstd { level: 19 },
        Compression::Zlib { level: 1 },
        Compression::Zlib { level: 9 },
        Compression::Xz { level: 0 },
        Compression::Xz { level: 6 },
        Compression::Pco { level: 0 },
        Compression::Pco { level: 8 },
        Compression::Pco { level: 12 },
    ];

    fn encodings() -> impl Iterator<Item = Encoding> {
        ALL.into_iter().map(|compression| Encoding { element: Element::F32, ..Encoding::plain(compression) })
    }

    fn encoded(encoding: &Encoding, raw: &[u8]) -> Option<Vec<u8>> {
        with_encoded(encoding, raw, |encoded| encoded.map(<[u8]>::to_vec))
    }

    #[test]
    fn every_codec_brings_back_what_it_was_given() {
        for encoding in encodings() {
            for length in [0, 1, 2, 63, 64, 4095, 65_535, 65_536, 300_000] {
                for raw in [random_bytes(1, length), text(2, length), vec![0; length]] {
                    let Some(stored) = encoded(&encoding, &raw) else { continue };
                    assert_eq!(decode(&encoding, &stored, length).unwrap(), raw, "{encoding:?}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn broken_input_is_an_error_or_other_bytes_but_never_more_of_them() {
        for encoding in encodings() {
            let raw = text(7, 20_000);
            let good = encoded(&encoding, &raw).unwrap();
            for seed in 1..2000 {
                let noise = random_bytes(seed, 8);
                let mut bad = good.clone();
                let at = u16::from_le_bytes([noise[0], noise[1]]) as usize % bad.len();
                bad[at] ^= noise[2] | 1;
                if noise[3] < 64 {
                    bad.truncate(at);
                }
                if let Ok(decoded) = decode(&encoding, &bad, raw.len()) {
                    assert_eq!(decoded.len(), raw.len(), "{encoding:?}, seed {seed}");
                }
            }
            for seed in 1..2000 {
                let _ = decode(&encoding, &random_bytes(seed, 1 + seed as usize % 200), 10_000);
            }
        }
    }

    #[test]
    fn a_wrong_length_is_an_error_either_way() {
        for encoding in encodings() {
            let raw = text(3, 5000);
            let stored = encoded(&encoding, &raw).unwrap();
            for raw_bytes in [0, 4999, 5001, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1, u32::MAX as usize] {
                assert!(decode(&encoding, &stored, raw_bytes).is_err(), "{encoding:?}, {raw_bytes}");
            }
        }
    }

    #[test]
    fn what_saves_too_little_is_not_kept() {
        assert_eq!(encode(&Encoding::plain(Compression::LZ4), &random_bytes(1, 10_000)), None);
        assert_eq!(encode(&Encoding::plain(Compression::Zstd { level: 3 }), b""), None);
        assert_eq!(encode(&Encoding::plain(Compression::None), &[0; 10_000]), None);
        assert!(encode(&Encoding::plain(Compression::LZ4), &[0; 10_000]).is_some_and(|encoded| encoded.len() < 100));
    }
}

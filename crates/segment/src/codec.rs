//! Compresses and decompresses bytes: one file per codec, all with the same two functions.
//!
//! `encode` writes to a buffer that lives as long as its thread, and keeps its context there too: making both again for
//! every block takes longer than finding that a block is incompressible. `decode` gets the length to expect and never
//! yields, or allocates for, more than that; broken input is an error.

mod lz4;
mod none;
mod zstd;

use std::cell::RefCell;

use format::{CodecId, MAX_SEGMENT_BYTES};
use policy::Compression;

use crate::error::{Result, corrupt};

/// A block holds at least one segment, and never more raw bytes than the longest segment has.
pub const MAX_BLOCK_BYTES: usize = MAX_SEGMENT_BYTES as usize;

/// Compressed bytes are kept only where they save at least 1/64: less does not pay for decoding them.
const MIN_SAVING: usize = 64;

/// Capacity a thread keeps of its buffer after a block of unusual size (bytes).
const KEPT_BUFFER_BYTES: usize = 1 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the compressed bytes, or `None` when no compression is requested or it saves too little.
pub(crate) fn encode(compression: Compression, raw: &[u8]) -> Option<Vec<u8>> {
    if compression == Compression::None {
        return None;
    }
    let most = (raw.len() - raw.len() / MIN_SAVING).min(raw.len().saturating_sub(1));
    with_encoded(compression, raw, |encoded| (encoded.len() <= most).then(|| encoded.to_vec()))
}

/// Returns the encoded length of `raw`, which may be a little more than its own.
pub(crate) fn encoded_bytes(compression: Compression, raw: &[u8]) -> usize {
    with_encoded(compression, raw, <[u8]>::len)
}

fn with_encoded<T>(compression: Compression, raw: &[u8], receive: impl FnOnce(&[u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        // The worst case of every codec, LZ4's being the worst: 1.1 times the raw bytes and 20.
        let worst_bytes = raw.len() + raw.len() / 8 + 128;
        if buffer.len() < worst_bytes {
            buffer.resize(worst_bytes, 0);
        }
        let encoded_bytes = match compression {
            Compression::None => none::encode(raw, 0, buffer),
            Compression::Lz4 => lz4::encode(raw, 0, buffer),
            Compression::Zstd { level } => zstd::encode(raw, level, buffer),
        };
        let received = receive(&buffer[..encoded_bytes]);
        if buffer.len() > KEPT_BUFFER_BYTES {
            buffer.truncate(KEPT_BUFFER_BYTES);
            buffer.shrink_to_fit();
        }
        received
    })
}

/// Returns the `raw_bytes` bytes that were encoded as `stored`.
pub(crate) fn decode(codec: CodecId, stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    if raw_bytes > MAX_BLOCK_BYTES {
        return corrupt(format!("{raw_bytes} bytes are more than a block holds ({MAX_BLOCK_BYTES})"));
    }
    let decoded = match codec {
        CodecId::None => none::decode(stored, raw_bytes),
        CodecId::Lz4 => lz4::decode(stored, raw_bytes),
        CodecId::Zstd => zstd::decode(stored, raw_bytes),
    };
    match decoded {
        Ok(raw) if raw.len() == raw_bytes => Ok(raw),
        Ok(raw) => corrupt(format!("it decodes to {} bytes instead of {raw_bytes}", raw.len())),
        Err(why) => corrupt(format!("{} cannot decode it: {why}", codec.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{random_bytes, text};

    const ALL: [(Compression, CodecId); 5] = [
        (Compression::None, CodecId::None),
        (Compression::Lz4, CodecId::Lz4),
        (Compression::Zstd { level: -7 }, CodecId::Zstd),
        (Compression::Zstd { level: 1 }, CodecId::Zstd),
        (Compression::Zstd { level: 19 }, CodecId::Zstd),
    ];

    fn encoded(compression: Compression, raw: &[u8]) -> Vec<u8> {
        with_encoded(compression, raw, <[u8]>::to_vec)
    }

    #[test]
    fn every_codec_brings_back_what_it_was_given() {
        for (compression, codec) in ALL {
            for length in [0, 1, 2, 63, 64, 4095, 65_535, 65_536, 300_000] {
                for raw in [random_bytes(1, length), text(2, length), vec![0; length]] {
                    let stored = encoded(compression, &raw);
                    assert_eq!(decode(codec, &stored, length).unwrap(), raw, "{compression:?}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn broken_input_is_an_error_or_other_bytes_but_never_more_of_them() {
        for (compression, codec) in ALL {
            let raw = text(7, 20_000);
            let good = encoded(compression, &raw);
            for seed in 1..2000 {
                let noise = random_bytes(seed, 8);
                let mut bad = good.clone();
                let at = u16::from_le_bytes([noise[0], noise[1]]) as usize % bad.len();
                bad[at] ^= noise[2] | 1;
                if noise[3] < 64 {
                    bad.truncate(at);
                }
                if let Ok(decoded) = decode(codec, &bad, raw.len()) {
                    assert_eq!(decoded.len(), raw.len(), "{codec:?}, seed {seed}");
                }
            }
            for seed in 1..2000 {
                let _ = decode(codec, &random_bytes(seed, 1 + seed as usize % 200), 10_000);
            }
        }
    }

    #[test]
    fn a_wrong_length_is_an_error_either_way() {
        for (compression, codec) in ALL {
            let raw = text(3, 5000);
            let stored = encoded(compression, &raw);
            for raw_bytes in [0, 4999, 5001, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1, u32::MAX as usize] {
                assert!(decode(codec, &stored, raw_bytes).is_err(), "{codec:?}, {raw_bytes}");
            }
        }
    }

    #[test]
    fn what_saves_too_little_is_not_kept() {
        assert_eq!(encode(Compression::Lz4, &random_bytes(1, 10_000)), None);
        assert_eq!(encode(Compression::Zstd { level: 3 }, b""), None);
        assert_eq!(encode(Compression::None, &[0; 10_000]), None);
        assert!(encode(Compression::Lz4, &[0; 10_000]).is_some_and(|encoded| encoded.len() < 100));
    }
}

//! One chunk on its way into a file, or out of it.

use std::ffi::c_uint;

use crate::client_data::ClientData;
use crate::creation::too_long;

/// `H5Z_FLAG_REVERSE` of `H5Zpublic.h`: the chunk is being read.
const REVERSE: c_uint = 0x0100;

pub fn transform(flags: c_uint, values: &[u32], chunk: &[u8]) -> Result<Vec<u8>, String> {
    let data = ClientData::read(values);
    if flags & REVERSE != 0 { decoded(&data, chunk) } else { encoded(&data, chunk) }
}

fn encoded(data: &ClientData, raw: &[u8]) -> Result<Vec<u8>, String> {
    if raw.len() > segment::MAX_BLOCK_BYTES {
        return Err(too_long(raw.len() as u64));
    }
    // Where HDF5 does not let the filter complete them (variable-length types), they are the user's; such a chunk could not be read.
    match data.chunk_bytes as usize {
        known if known != 0 && known != raw.len() => Err(of_another_length(raw.len(), known)),
        _ => {
            let codec = data.codec()?;
            Ok(match data.rounder()? {
                Some(rounder) => segment::encode_rounded_chunk(raw, &rounder, data.known, codec),
                None => segment::encode_chunk(raw, data.known, codec),
            })
        }
    }
}

fn of_another_length(bytes: usize, known: usize) -> String {
    format!(
        "the chunk has {bytes} bytes, and by the client data the dataset's chunks have {known}: give the filter two values at most"
    )
}

/// Of another length than the dataset's chunks it would be read beyond its end.
fn decoded(data: &ClientData, chunk: &[u8]) -> Result<Vec<u8>, String> {
    let expected = match data.chunk_bytes as usize {
        0 => segment::MAX_BLOCK_BYTES,
        known => known.min(segment::MAX_BLOCK_BYTES),
    };
    let raw = segment::decode_chunk(chunk, expected).map_err(|why| why.to_string())?;
    match data.chunk_bytes as usize {
        0 => Ok(raw),
        known if known == raw.len() => Ok(raw),
        known => Err(of_another_length(raw.len(), known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F64: u32 = 11;
    const VALUES: [u32; 5] = [21, 6, F64, 0, 8000];

    fn raw() -> Vec<u8> {
        (0..1000u32).flat_map(|number| f64::from(number).sqrt().to_le_bytes()).collect()
    }

    #[test]
    fn a_chunk_comes_back_with_and_without_client_data() {
        let chunk = transform(0, &VALUES, &raw()).unwrap();
        assert!(chunk.len() < 8000);
        for values in [&VALUES[..], &[], &[16, 0, 0, 0, 0, 99]] {
            assert_eq!(transform(REVERSE, values, &chunk).as_deref(), Ok(&raw()[..]), "{values:?}");
        }
    }

    #[test]
    fn a_bound_rounds_what_is_written_and_nothing_that_is_read() {
        let bound = 1e-3f64.to_bits();
        let bounded = [&VALUES[..], &[2, bound as u32, (bound >> 32) as u32]].concat();
        let chunk = transform(0, &bounded, &raw()).unwrap();
        let read = transform(REVERSE, &bounded, &chunk).unwrap();
        assert!(read != raw() && chunk.len() * 2 < transform(0, &VALUES, &raw()).unwrap().len());
        for (before, after) in raw().as_chunks().0.iter().zip(read.as_chunks().0) {
            let (before, after) = (f64::from_le_bytes(*before), f64::from_le_bytes(*after));
            assert!((after - before).abs() <= 1e-3 * before);
        }
        let lossless = transform(0, &VALUES, &read).unwrap();
        assert_eq!(transform(REVERSE, &bounded, &lossless).as_deref(), Ok(&read[..]));
    }

    #[test]
    fn a_chunk_shorter_or_longer_than_the_datasets_is_refused() {
        let chunk = transform(0, &VALUES, &raw()).unwrap();
        for expected in [7999, 8001] {
            let values = [21, 6, F64, 0, expected];
            assert!(transform(REVERSE, &values, &chunk).is_err(), "{expected}");
        }
    }

    #[test]
    fn a_chunk_that_could_not_be_read_is_not_written() {
        let refused = transform(0, &[20, 3, 0, 0, 99], &raw());
        assert!(refused.is_err_and(|why| why.contains("8000 bytes") && why.contains("have 99")));
    }

    #[test]
    fn a_damaged_chunk_and_an_unknown_choice_are_errors() {
        let mut chunk = transform(0, &VALUES, &raw()).unwrap();
        *chunk.last_mut().unwrap() ^= 1;
        assert!(transform(REVERSE, &VALUES, &chunk).is_err_and(|why| why.contains("checksum")));
        assert!(transform(REVERSE, &VALUES, &[]).is_err());
        assert!(transform(0, &[4], &raw()).is_err_and(|why| why.contains("client data [4")));
    }
}

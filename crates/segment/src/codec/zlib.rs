//! One zlib stream: Deflate with a header of two bytes and an Adler-32 behind it.

use std::cell::RefCell;

use zlib_rs::{DeflateConfig, Inflate, InflateFlush, ReturnCode, Status, compress_slice};

/// Deflate cannot make more than this many bytes of one; a larger claim is refused before memory is allocated.
const MAX_EXPANSION: usize = 1032;
/// The largest window, of 32 KiB, as a power of two.
const WINDOW_BITS: u8 = 15;

thread_local! {
    static INFLATE: RefCell<Inflate> = RefCell::new(Inflate::new(true, WINDOW_BITS));
}

pub(super) fn encode(raw: &[u8], level: i32, to: &mut [u8]) -> Option<usize> {
    let (encoded, code) = compress_slice(to, raw, DeflateConfig::new(level.clamp(1, 9)));
    (code == ReturnCode::Ok).then_some(encoded.len())
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    if raw_bytes > stored.len().saturating_mul(MAX_EXPANSION) {
        return Err(format!("{} bytes cannot hold {raw_bytes}", stored.len()));
    }
    let mut raw = vec![0; raw_bytes];
    let (status, read, written) = INFLATE.with_borrow_mut(|inflate| {
        inflate.reset(true);
        let status = inflate.decompress(stored, &mut raw, InflateFlush::Finish);
        (status, inflate.total_in(), inflate.total_out())
    });
    match status {
        Ok(Status::StreamEnd) if read == stored.len() as u64 => raw.truncate(written as usize),
        Ok(_) => return Err("its end is not the end of the stream".into()),
        Err(error) => return Err(error.as_str().into()),
    }
    Ok(raw)
}

//! One raw LZMA2 stream, as an .xz file has within. The file's own header, index and checks would say again what the
//! block's header says; and its size of the dictionary would have to be believed. Here it is the block's length.

use std::io::{Read, Write};

use lzma_rust2::{Lzma2Options, Lzma2Reader, Lzma2Writer};

const MIN_DICTIONARY_BYTES: usize = 4096;

pub(super) fn encode(raw: &[u8], level: i32, mut to: &mut [u8]) -> Option<usize> {
    let room_bytes = to.len();
    let mut options = Lzma2Options::with_preset(level.clamp(0, 9) as u32);
    let dictionary_bytes = &mut options.lzma_options.dict_size;
    *dictionary_bytes = dictionary_bytes_of(raw.len()).min(*dictionary_bytes);
    let mut writer = Lzma2Writer::new(&mut to, options);
    writer.write_all(raw).ok()?;
    writer.finish().ok()?;
    Some(room_bytes - to.len())
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    let mut reader = Lzma2Reader::new(stored, dictionary_bytes_of(raw_bytes), None);
    let mut raw = vec![0; raw_bytes];
    reader.read_exact(&mut raw).map_err(|error| error.to_string())?;
    if !matches!(reader.read(&mut [0]), Ok(0)) || !reader.inner().is_empty() {
        return Err("its end is not the end of the stream".into());
    }
    Ok(raw)
}

/// Returns the dictionary that a block of this length can use (bytes).
fn dictionary_bytes_of(raw_bytes: usize) -> u32 {
    raw_bytes.max(MIN_DICTIONARY_BYTES) as u32
}

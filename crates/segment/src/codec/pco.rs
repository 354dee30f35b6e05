//! Pcodec, for numbers of a known type: each column by itself, in chunks of at most [`CHUNK_NUMBERS`].
//!
//! Stored are the bytes before the first whole record, those behind the last one, and then Pcodec's wrapped format: its
//! header, and for each chunk its metadata and one page. How many numbers a chunk has is not said: it follows from the
//! block's header.

use ::pco::data_types::Number;
use ::pco::errors::PcoResult;
use ::pco::metadata::DeltaEncoding;
use ::pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
use ::pco::{ChunkConfig, PagingSpec};
use half::f16;
use policy::{Element, Encoding, Filter};
use std::io::Write;

use crate::filter::Layout;

/// Bounds what either side holds of a chunk; longer ones compress no better.
const CHUNK_NUMBERS: usize = 1 << 18;

/// The number by which a chunk's first four bits say that it has a list of all its values, whose length follows.
const LISTS_VALUES: u32 = 4;
const MAX_LEVEL: i32 = 12;

/// Calls a function with the type of the elements, their length and how they become bytes.
macro_rules! for_element {
    ($element:expr, $function:ident, $($argument:expr),+) => {
        match $element {
            Element::U8 => unreachable!("the encoding was checked"),
            Element::U16 => $function($($argument),+, u16::from_le_bytes, u16::to_le_bytes),
            Element::U32 => $function($($argument),+, u32::from_le_bytes, u32::to_le_bytes),
            Element::U64 => $function($($argument),+, u64::from_le_bytes, u64::to_le_bytes),
            Element::I16 => $function($($argument),+, i16::from_le_bytes, i16::to_le_bytes),
            Element::I32 => $function($($argument),+, i32::from_le_bytes, i32::to_le_bytes),
            Element::I64 => $function($($argument),+, i64::from_le_bytes, i64::to_le_bytes),
            Element::F16 => $function($($argument),+, f16::from_le_bytes, f16::to_le_bytes),
            Element::F32 => $function($($argument),+, f32::from_le_bytes, f32::to_le_bytes),
            Element::F64 => $function($($argument),+, f64::from_le_bytes, f64::to_le_bytes),
        }
    };
}

pub(super) fn encode(encoding: &Encoding, raw: &[u8], level: i32, mut to: &mut [u8]) -> Option<usize> {
    let room_bytes = to.len();
    let (head, numbers, tail) = Layout::behind(encoding, &[]).split(raw);
    to.write_all(head).and_then(|()| to.write_all(tail)).ok()?;
    if !numbers.is_empty() {
        let column_bytes = numbers.len() / columns(encoding);
        to = for_element!(encoding.element, write_columns, numbers, column_bytes, level, to).ok()?;
    }
    Some(room_bytes - to.len())
}

fn write_columns<'a, T: Number, const N: usize>(
    numbers: &[u8],
    column_bytes: usize,
    level: i32,
    to: &'a mut [u8],
    number: fn([u8; N]) -> T,
    _: fn(T) -> [u8; N],
) -> PcoResult<&'a mut [u8]> {
    let config = ChunkConfig::default()
        .with_compression_level(level.clamp(0, MAX_LEVEL) as usize)
        .with_paging_spec(PagingSpec::EqualPagesUpTo(CHUNK_NUMBERS));
    let file = FileCompressor::default();
    let mut to = file.write_header(to)?;
    let mut chunk = Vec::new();
    for bytes in numbers.chunks_exact(column_bytes).flat_map(|column| column.chunks(CHUNK_NUMBERS * N)) {
        chunk.clear();
        chunk.extend(bytes.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)));
        let mut compressor = file.chunk_compressor(&chunk, &config)?;
        to = compressor.write_meta(to)?;
        to = compressor.write_page(0, to)?;
    }
    Ok(to)
}

pub(super) fn decode(encoding: &Encoding, stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    let mut raw = vec![0; raw_bytes];
    let (head, numbers, tail) = Layout::behind(encoding, &[]).split(&raw);
    let lengths = (head.len(), numbers.len(), tail.len());
    let (to_head, rest) = raw.split_at_mut(lengths.0);
    let (to_numbers, to_tail) = rest.split_at_mut(lengths.1);
    let Some((plain, stored)) = stored.split_at_checked(lengths.0 + lengths.2) else {
        return Err("it ends before its numbers begin".into());
    };
    to_head.copy_from_slice(&plain[..lengths.0]);
    to_tail.copy_from_slice(&plain[lengths.0..]);
    let mut rest = stored;
    if !to_numbers.is_empty() {
        let column_bytes = lengths.1 / columns(encoding);
        rest = for_element!(encoding.element, read_columns, stored, column_bytes, to_numbers)?;
    }
    if !rest.is_empty() {
        return Err(format!("{} bytes follow its end", rest.len()));
    }
    Ok(raw)
}

fn read_columns<'a, T: Number, const N: usize>(
    stored: &'a [u8],
    column_bytes: usize,
    to: &mut [u8],
    number: fn([u8; N]) -> T,
    bytes: fn(T) -> [u8; N],
) -> Result<&'a [u8], String> {
    let (file, mut rest) = FileDecompressor::new(stored).map_err(|error| error.to_string())?;
    let mut chunk = vec![number([0; N]); CHUNK_NUMBERS.min(column_bytes / N)];
    for to in to.chunks_exact_mut(column_bytes).flat_map(|column| column.chunks_mut(CHUNK_NUMBERS * N)) {
        let to = to.as_chunks_mut::<N>().0;
        rest = read_chunk(&file, rest, &mut chunk[..to.len()])?;
        to.iter_mut().zip(&chunk).for_each(|(to, number)| *to = bytes(*number));
    }
    Ok(rest)
}

/// Reads one chunk's metadata and its page, and returns what follows.
fn read_chunk<'a, T: Number>(file: &FileDecompressor, stored: &'a [u8], to: &mut [T]) -> Result<&'a [u8], String> {
    check_list(stored, to.len())?;
    let in_words = |error: ::pco::errors::PcoError| error.to_string();
    let (mut chunk, pages): (ChunkDecompressor<T>, _) = file.chunk_decompressor(stored).map_err(in_words)?;
    check_window(&chunk, to.len())?;
    let mut page = chunk.page_decompressor(pages, to.len()).map_err(in_words)?;
    page.read(to).map_err(in_words)?;
    Ok(page.into_src())
}

/// A list of values is allocated as long as it says, so it is looked at first: it needs no more than there are numbers.
fn check_list(stored: &[u8], numbers: usize) -> Result<(), String> {
    let Some(first) = stored.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { return Ok(()) };
    let values = (first >> 4 & 0x1ff_ffff) as usize;
    if first & 0xf == LISTS_VALUES && values > numbers {
        return Err(format!("a chunk of {numbers} numbers lists {values} values"));
    }
    Ok(())
}

/// The window of a chunk that refers back is allocated as long as it says.
fn check_window<T: Number>(chunk: &ChunkDecompressor<T>, numbers: usize) -> Result<(), String> {
    match &chunk.meta().delta_encoding {
        DeltaEncoding::Lookback { config, .. } if config.window_n_log > CHUNK_NUMBERS.ilog2() => {
            Err(format!("a chunk of {numbers} numbers looks back 2^{}", config.window_n_log))
        }
        _ => Ok(()),
    }
}

/// Returns into how many columns the filters have divided the records.
fn columns(encoding: &Encoding) -> usize {
    if encoding.filters.contains(&Some(Filter::Columns)) { encoding.unit_bytes() / encoding.element.bytes() } else { 1 }
}

#[cfg(test)]
mod tests {
    use policy::Compression;

    use super::*;

    /// Returns the encoding of doubles, and what a thousand of them are stored as.
    fn doubles() -> (Encoding, Vec<u8>) {
        let encoding = Encoding { element: Element::F64, ..Encoding::plain(Compression::Pco { level: 8 }) };
        let raw: Vec<u8> = (0..1000).flat_map(|number| (number as f64).to_le_bytes()).collect();
        let mut stored = vec![0; 10_000];
        let length = encode(&encoding, &raw, 8, &mut stored).unwrap();
        stored.truncate(length);
        (encoding, stored)
    }

    #[test]
    fn a_list_of_more_values_than_numbers_is_refused_before_it_is_allocated() {
        let (encoding, mut stored) = doubles();
        let header = FileCompressor::default().write_header(Vec::new()).unwrap().len();
        let forged = LISTS_VALUES | 0x1ff_ffff << 4;
        stored[header..header + 4].copy_from_slice(&forged.to_le_bytes());
        let error = decode(&encoding, &stored, 8000).unwrap_err();
        assert_eq!(error, "a chunk of 1000 numbers lists 33554431 values");
    }

    #[test]
    fn too_few_bytes_and_too_many_are_errors() {
        let (encoding, stored) = doubles();
        assert!(decode(&encoding, &stored, 8000).is_ok());
        for length in 0..stored.len() {
            assert!(decode(&encoding, &stored[..length], 8000).is_err(), "{length}");
        }
        assert!(decode(&encoding, &[&stored[..], &[0]].concat(), 8000).is_err());
        assert!(decode(&encoding, &[0; 3], 3).is_ok());
    }
}

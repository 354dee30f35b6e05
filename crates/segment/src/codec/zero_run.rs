//! Leaves out runs of zeros: for blocks that hold little else, at the speed of looking for it.
//!
//! Stored are pairs, until the block is full: zeros u, literals u, the literals; each u as LEB128, seven bits a byte,
//! lowest first. Written are only runs of whole words.

/// A shorter run costs more than it saves (bytes); whole vectors are compared.
const WORD_BYTES: usize = 16;

/// Bytes that LEB128 takes for lengths within a block.
const MAX_LENGTH_BYTES: usize = 4;

pub(super) fn encode(raw: &[u8], _level: i32, to: &mut [u8]) -> Option<usize> {
    let (mut at, mut written) = (0, 0);
    while at < raw.len() {
        let zeros = zero_words(&raw[at..]);
        let literals = literal_words(&raw[at + zeros..]);
        written += put_length(zeros, to.get_mut(written..)?)?;
        written += put_length(literals, to.get_mut(written..)?)?;
        to.get_mut(written..written + literals)?.copy_from_slice(&raw[at + zeros..][..literals]);
        (at, written) = (at + zeros + literals, written + literals);
    }
    Some(written)
}

pub(super) fn decode(mut stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    let mut raw = vec![0; raw_bytes];
    let mut rest = &mut raw[..];
    while !rest.is_empty() {
        let (zeros, literals) = (take_length(&mut stored)?, take_length(&mut stored)?);
        let (bytes, after) = stored.split_at_checked(literals).ok_or("it ends within literals")?;
        let to = rest.get_mut(zeros..zeros + literals).ok_or("it is longer than its block")?;
        if zeros + literals == 0 {
            return Err("a run is empty".into());
        }
        to.copy_from_slice(bytes);
        (stored, rest) = (after, &mut rest[zeros + literals..]);
    }
    if !stored.is_empty() {
        return Err(format!("{} bytes follow its end", stored.len()));
    }
    Ok(raw)
}

/// Returns the length of the zeros at the beginning; all of the block, or whole words (bytes).
fn zero_words(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    match words.iter().position(|word| *word != [0; WORD_BYTES]) {
        Some(words) => words * WORD_BYTES,
        None if rest.iter().all(|byte| *byte == 0) => bytes.len(),
        None => bytes.len() - rest.len(),
    }
}

/// Returns the length of what comes before the next word of zeros (bytes).
fn literal_words(bytes: &[u8]) -> usize {
    let words = bytes.as_chunks::<WORD_BYTES>().0;
    words.iter().position(|word| *word == [0; WORD_BYTES]).map_or(bytes.len(), |words| words * WORD_BYTES)
}

fn put_length(mut length: usize, to: &mut [u8]) -> Option<usize> {
    let mut bytes = 0;
    while length >= 0x80 {
        *to.get_mut(bytes)? = length as u8 | 0x80;
        (length, bytes) = (length >> 7, bytes + 1);
    }
    *to.get_mut(bytes)? = length as u8;
    Some(bytes + 1)
}

fn take_length(from: &mut &[u8]) -> Result<usize, String> {
    let mut length = 0;
    for number in 0..MAX_LENGTH_BYTES {
        let (byte, rest) = from.split_first().ok_or("it ends within a length")?;
        *from = rest;
        length |= ((byte & 0x7f) as usize) << (7 * number);
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err("a length is beyond every block".into())
}

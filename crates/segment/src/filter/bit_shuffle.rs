//! The bits of each plane of a shuffle, side by side: eight planes of bits, the lowest bits first. What is left of a
//! plane behind its last eight bytes stays as it is.

use super::{Layout, transpose};

/// Bytes of a plane that are turned over at a time.
const SQUARE_BYTES: usize = 64;

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    let plane_bytes = raw.len() / layout.unit_bytes;
    raw.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)).for_each(|(plane, to)| split(plane, to));
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    let plane_bytes = stored.len() / layout.unit_bytes;
    stored.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)).for_each(|(plane, to)| join(plane, to));
}

fn split(plane: &[u8], to: &mut [u8]) {
    let bit_plane_bytes = plane.len() / 8;
    let (squares, words) = plane[..bit_plane_bytes * 8].as_chunks::<SQUARE_BYTES>();
    for (number, square) in squares.iter().enumerate() {
        let words = *square.as_chunks::<8>().0.first_chunk::<8>().expect("a square is eight words");
        let planes = transpose::bytes(words.map(|word| transpose::bits(u64::from_le_bytes(word))));
        for (bit, bytes) in planes.into_iter().enumerate() {
            to[bit * bit_plane_bytes + number * 8..][..8].copy_from_slice(&bytes.to_le_bytes());
        }
    }
    for (number, word) in words.as_chunks::<8>().0.iter().enumerate() {
        for (bit, byte) in transpose::bits(u64::from_le_bytes(*word)).to_le_bytes().into_iter().enumerate() {
            to[bit * bit_plane_bytes + squares.len() * 8 + number] = byte;
        }
    }
    to[bit_plane_bytes * 8..].copy_from_slice(&plane[bit_plane_bytes * 8..]);
}

fn join(stored: &[u8], to: &mut [u8]) {
    let bit_plane_bytes = stored.len() / 8;
    let bit_planes = |at: usize| move |bit: usize| &stored[bit * bit_plane_bytes + at..(bit + 1) * bit_plane_bytes];
    let (squares, words) = to[..bit_plane_bytes * 8].as_chunks_mut::<SQUARE_BYTES>();
    for (number, square) in squares.iter_mut().enumerate() {
        let planes = std::array::from_fn(bit_planes(number * 8)).map(|plane| plane.first_chunk().expect("eight bytes"));
        let words = transpose::bytes(planes.map(|bytes| u64::from_le_bytes(*bytes)));
        for (to, word) in square.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = transpose::bits(word).to_le_bytes();
        }
    }
    let done = squares.len() * 8;
    for (number, word) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = std::array::from_fn(bit_planes(done + number)).map(|plane: &[u8]| plane[0]);
        *word = transpose::bits(u64::from_le_bytes(bits)).to_le_bytes();
    }
    to[bit_plane_bytes * 8..].copy_from_slice(&stored[bit_plane_bytes * 8..]);
}

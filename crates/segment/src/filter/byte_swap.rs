//! Each element's bytes in reverse order: what follows sees big-endian numbers as little-endian ones.

use super::Layout;

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    match layout.element_bytes {
        2 => reversed::<2>(raw, to),
        4 => reversed::<4>(raw, to),
        _ => reversed::<8>(raw, to),
    }
}

/// It undoes itself.
pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    encode(layout, stored, to);
}

fn reversed<const N: usize>(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *to = *from;
        to.reverse();
    }
}

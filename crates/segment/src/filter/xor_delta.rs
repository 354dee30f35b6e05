//! The bits in which neighbouring numbers differ: those of a float that moves little are mostly zeros at the top.

use super::Layout;
use super::neighbours::{differences, sums};

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    let distance = layout.unit_bytes / layout.element_bytes;
    match layout.element_bytes {
        1 => differences::<1>(raw, to, distance, differing),
        2 => differences::<2>(raw, to, distance, differing),
        4 => differences::<4>(raw, to, distance, differing),
        _ => differences::<8>(raw, to, distance, differing),
    }
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    let distance = layout.unit_bytes / layout.element_bytes;
    match layout.element_bytes {
        1 => sums::<1>(stored, to, distance, differing),
        2 => sums::<2>(stored, to, distance, differing),
        4 => sums::<4>(stored, to, distance, differing),
        _ => sums::<8>(stored, to, distance, differing),
    }
}

fn differing<const N: usize>(one: [u8; N], other: [u8; N]) -> [u8; N] {
    std::array::from_fn(|at| one[at] ^ other[at])
}

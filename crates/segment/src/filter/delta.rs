//! Differences of neighbouring numbers, wrapping: what grows evenly becomes a constant.
//!
//! Floats are treated as the integers with their bits, so that every difference can be undone.

use super::Layout;
use super::neighbours::{differences, sums};

macro_rules! wrapping {
    ($number:ident, $operation:ident) => {
        |now, other| $number::from_le_bytes(now).$operation($number::from_le_bytes(other)).to_le_bytes()
    };
}

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    let distance = layout.unit_bytes / layout.element_bytes;
    match layout.element_bytes {
        1 => differences(raw, to, distance, wrapping!(u8, wrapping_sub)),
        2 => differences(raw, to, distance, wrapping!(u16, wrapping_sub)),
        4 => differences(raw, to, distance, wrapping!(u32, wrapping_sub)),
        _ => differences(raw, to, distance, wrapping!(u64, wrapping_sub)),
    }
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    let distance = layout.unit_bytes / layout.element_bytes;
    match layout.element_bytes {
        1 => sums(stored, to, distance, wrapping!(u8, wrapping_add)),
        2 => sums(stored, to, distance, wrapping!(u16, wrapping_add)),
        4 => sums(stored, to, distance, wrapping!(u32, wrapping_add)),
        _ => sums(stored, to, distance, wrapping!(u64, wrapping_add)),
    }
}

//! Differences of neighbouring bytes within each plane of a shuffle: they need no carry from one plane to the next.

use super::Layout;
use super::neighbours::{differences, sums};

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    let plane_bytes = raw.len() / layout.unit_bytes;
    for (plane, to) in raw.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)) {
        differences(plane, to, 1, |[now], [before]: [u8; 1]| [now.wrapping_sub(before)]);
    }
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    let plane_bytes = stored.len() / layout.unit_bytes;
    for (plane, to) in stored.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)) {
        sums(plane, to, 1, |[now], [before]: [u8; 1]| [now.wrapping_add(before)]);
    }
}

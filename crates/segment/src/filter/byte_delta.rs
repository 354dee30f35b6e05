//! Each byte less the one before it in its plane.

pub(super) fn encode(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    let plane_bytes = (from.len() / record_bytes).max(1);
    for (from, to) in from.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)) {
        to[0] = from[0];
        for ((to, now), before) in to[1..].iter_mut().zip(&from[1..]).zip(from) {
            *to = now.wrapping_sub(*before);
        }
    }
}

pub(super) fn decode(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    let plane_bytes = (from.len() / record_bytes).max(1);
    for (from, to) in from.chunks_exact(plane_bytes).zip(to.chunks_exact_mut(plane_bytes)) {
        let mut before = 0u8;
        for (to, less) in to.iter_mut().zip(from) {
            before = before.wrapping_add(*less);
            *to = before;
        }
    }
}

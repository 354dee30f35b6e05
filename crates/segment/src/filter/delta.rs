//! Each element less the same element of the record before.

pub(super) fn encode(from: &[u8], record_bytes: usize, element_bytes: usize, to: &mut [u8]) {
    match element_bytes {
        2 => encode_elements(from, record_bytes, to, |now, before| {
            u16::from_le_bytes(now).wrapping_sub(u16::from_le_bytes(before)).to_le_bytes()
        }),
        4 => encode_elements(from, record_bytes, to, |now, before| {
            u32::from_le_bytes(now).wrapping_sub(u32::from_le_bytes(before)).to_le_bytes()
        }),
        8 => encode_elements(from, record_bytes, to, |now, before| {
            u64::from_le_bytes(now).wrapping_sub(u64::from_le_bytes(before)).to_le_bytes()
        }),
        _ => encode_elements(from, record_bytes, to, |[now], [before]| [now.wrapping_sub(before)]),
    }
}

pub(super) fn decode(from: &[u8], record_bytes: usize, element_bytes: usize, to: &mut [u8]) {
    match element_bytes {
        2 => decode_elements(from, record_bytes, to, |less, before| {
            u16::from_le_bytes(less).wrapping_add(u16::from_le_bytes(before)).to_le_bytes()
        }),
        4 => decode_elements(from, record_bytes, to, |less, before| {
            u32::from_le_bytes(less).wrapping_add(u32::from_le_bytes(before)).to_le_bytes()
        }),
        8 => decode_elements(from, record_bytes, to, |less, before| {
            u64::from_le_bytes(less).wrapping_add(u64::from_le_bytes(before)).to_le_bytes()
        }),
        _ => decode_elements(from, record_bytes, to, |[less], [before]| [less.wrapping_add(before)]),
    }
}

fn encode_elements<const W: usize>(
    from: &[u8],
    record_bytes: usize,
    to: &mut [u8],
    less: impl Fn([u8; W], [u8; W]) -> [u8; W],
) {
    let first = record_bytes.min(from.len());
    to[..first].copy_from_slice(&from[..first]);
    let (now, before) = (from[first..].as_chunks().0, from.as_chunks().0);
    for ((to, now), before) in to[first..].as_chunks_mut().0.iter_mut().zip(now).zip(before) {
        *to = less(*now, *before);
    }
}

/// Elements of the record before are decoded when those of the next one are.
fn decode_elements<const W: usize>(
    from: &[u8],
    record_bytes: usize,
    to: &mut [u8],
    and: impl Fn([u8; W], [u8; W]) -> [u8; W],
) {
    let first = record_bytes.min(from.len());
    to[..first].copy_from_slice(&from[..first]);
    let elements = first / W;
    let (from, to) = (from.as_chunks().0, to.as_chunks_mut().0);
    for at in elements..from.len() {
        to[at] = and(from[at], to[at - elements]);
    }
}

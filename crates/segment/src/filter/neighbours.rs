//! What is between each element and the one a distance before it, and the elements again.

/// Elements of records this long are added several at a time; those of shorter ones one by one.
const VECTOR: usize = 6;

/// Writes `between` each element of `N` bytes and the one `distance` elements before; the first ones as they are.
pub(super) fn differences<const N: usize>(
    raw: &[u8],
    to: &mut [u8],
    distance: usize,
    between: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (raw, to) = (raw.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    let distance = distance.min(raw.len());
    let (to_first, to_rest) = to.split_at_mut(distance);
    to_first.copy_from_slice(&raw[..distance]);
    let pairs = raw[distance..].iter().zip(raw);
    to_rest.iter_mut().zip(pairs).for_each(|(to, (now, before))| *to = between(*now, *before));
}

/// Reverses [`differences`]; `sum` of an element's difference and the one before is the element.
pub(super) fn sums<const N: usize>(
    stored: &[u8],
    to: &mut [u8],
    distance: usize,
    sum: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (stored, to) = (stored.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    if distance == 1 {
        // The last element stays in a register.
        let mut last = [0; N];
        for (to, difference) in to.iter_mut().zip(stored) {
            last = sum(*difference, last);
            *to = last;
        }
        return;
    }
    let distance = distance.min(stored.len());
    to[..distance].copy_from_slice(&stored[..distance]);
    if distance < VECTOR {
        for at in distance..stored.len() {
            to[at] = sum(stored[at], to[at - distance]);
        }
        return;
    }
    for (number, differences) in stored.chunks(distance).enumerate().skip(1) {
        let (done, rest) = to.split_at_mut(number * distance);
        let before = &done[(number - 1) * distance..];
        let pairs = differences.iter().zip(before);
        rest.iter_mut().zip(pairs).for_each(|(to, (difference, before))| *to = sum(*difference, *before));
    }
}

//! Bytes of the same position in all units, side by side: exponents with exponents, mantissas with mantissas.

use std::ops::Range;

use super::{Layout, transpose};

/// Units whose cache lines stay near while all their positions are gone through.
const TILE_UNITS: usize = 256;

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    match layout.unit_bytes {
        2 => split_pairs(raw, to),
        4 => split_fours(raw, to),
        8 => split_eights(raw, to),
        unit_bytes => split(unit_bytes, raw, to),
    }
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    match layout.unit_bytes {
        2 => join_pairs(stored, to),
        4 => join_fours(stored, to),
        8 => join_eights(stored, to),
        unit_bytes => join(unit_bytes, stored, to),
    }
}

fn split_pairs(raw: &[u8], to: &mut [u8]) {
    let (low, high) = to.split_at_mut(raw.len() / 2);
    let pairs = || raw.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    // Two passes, each of which compilers turn into vector instructions.
    low.iter_mut().zip(pairs()).for_each(|(to, pair)| *to = pair as u8);
    high.iter_mut().zip(pairs()).for_each(|(to, pair)| *to = (pair >> 8) as u8);
}

fn join_pairs(stored: &[u8], to: &mut [u8]) {
    let (low, high) = stored.split_at(stored.len() / 2);
    for (to, (low, high)) in to.as_chunks_mut::<2>().0.iter_mut().zip(low.iter().zip(high)) {
        *to = [*low, *high];
    }
}

/// Eight units at a time, as four words that hold unit i and unit i + 4.
fn split_fours(raw: &[u8], to: &mut [u8]) {
    let units = raw.len() / 4;
    let (eights, rest) = raw.as_chunks::<32>();
    let [a, b, c, d] = to
        .get_disjoint_mut([0..units, units..2 * units, 2 * units..3 * units, 3 * units..4 * units])
        .expect("four planes");
    let planes = eight_bytes(a).zip(eight_bytes(b)).zip(eight_bytes(c).zip(eight_bytes(d)));
    for (eight, ((a, b), (c, d))) in eights.iter().zip(planes) {
        let units = eight.as_chunks::<4>().0;
        let pair = |at: usize| u32::from_le_bytes(units[at]) as u64 | (u32::from_le_bytes(units[at + 4]) as u64) << 32;
        [*a, *b, *c, *d] = transpose::halves([pair(0), pair(1), pair(2), pair(3)]).map(u64::to_le_bytes);
    }
    split_one_by_one(4, units - rest.len() / 4, raw, to);
}

fn join_fours(stored: &[u8], to: &mut [u8]) {
    let units = stored.len() / 4;
    let plane = |number: usize| stored[number * units..(number + 1) * units].as_chunks::<8>().0;
    let planes = plane(0).iter().zip(plane(1)).zip(plane(2).iter().zip(plane(3)));
    for (eight, ((a, b), (c, d))) in to.as_chunks_mut::<32>().0.iter_mut().zip(planes) {
        let pairs = transpose::halves([*a, *b, *c, *d].map(u64::from_le_bytes));
        let units = eight.as_chunks_mut::<4>().0;
        for (at, pair) in pairs.into_iter().enumerate() {
            (units[at], units[at + 4]) = ((pair as u32).to_le_bytes(), ((pair >> 32) as u32).to_le_bytes());
        }
    }
    join_one_by_one(4, units / 8 * 8, stored, to);
}

fn split_eights(raw: &[u8], to: &mut [u8]) {
    let units = raw.len() / 8;
    let (squares, rest) = raw.as_chunks::<64>();
    let mut planes = to.chunks_exact_mut(units);
    let mut planes: [_; 8] = std::array::from_fn(|_| planes.next().expect("eight planes").as_chunks_mut::<8>().0);
    for (number, square) in squares.iter().enumerate() {
        let words = square.as_chunks::<8>().0;
        let turned = transpose::bytes(std::array::from_fn(|at| u64::from_le_bytes(words[at])));
        planes.iter_mut().zip(turned).for_each(|(plane, word)| plane[number] = word.to_le_bytes());
    }
    split_one_by_one(8, units - rest.len() / 8, raw, to);
}

fn join_eights(stored: &[u8], to: &mut [u8]) {
    let units = stored.len() / 8;
    let mut planes = stored.chunks_exact(units);
    let planes: [_; 8] = std::array::from_fn(|_| planes.next().expect("eight planes").as_chunks::<8>().0);
    for (number, square) in to.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let words = transpose::bytes(std::array::from_fn(|at| u64::from_le_bytes(planes[at][number])));
        square.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    }
    join_one_by_one(8, units / 8 * 8, stored, to);
}

fn eight_bytes(plane: &mut [u8]) -> impl Iterator<Item = &mut [u8; 8]> {
    plane.as_chunks_mut::<8>().0.iter_mut()
}

/// Squares of eight units and eight positions, tile by tile.
#[inline(always)]
fn split(unit_bytes: usize, raw: &[u8], to: &mut [u8]) {
    let units = raw.len() / unit_bytes;
    for (tile, position) in tiles(unit_bytes, units) {
        let raw = &raw[tile.start * unit_bytes..tile.end * unit_bytes];
        let mut planes = to[position * units..].chunks_exact_mut(units);
        let planes = std::array::from_fn(|_| &mut planes.next().expect("eight planes")[tile.clone()]);
        split_tile(unit_bytes, position, raw, planes);
    }
    split_one_by_one(unit_bytes, in_squares(unit_bytes, units), raw, to);
}

#[inline(always)]
fn split_tile(unit_bytes: usize, position: usize, raw: &[u8], planes: [&mut [u8]; 8]) {
    let mut planes = planes.map(|plane| plane.as_chunks_mut::<8>().0);
    for (number, square) in raw.chunks_exact(8 * unit_bytes).enumerate() {
        let row = |row: usize| square[row * unit_bytes + position..].first_chunk().expect("a unit has eight bytes");
        let words = transpose::bytes(std::array::from_fn(|number| u64::from_le_bytes(*row(number))));
        planes.iter_mut().zip(words).for_each(|(plane, word)| plane[number] = word.to_le_bytes());
    }
}

#[inline(always)]
fn join(unit_bytes: usize, stored: &[u8], to: &mut [u8]) {
    let units = stored.len() / unit_bytes;
    for (tile, position) in tiles(unit_bytes, units) {
        let to = &mut to[tile.start * unit_bytes..tile.end * unit_bytes];
        let plane = |number: usize| &stored[(position + number) * units..][tile.clone()];
        join_tile(unit_bytes, position, std::array::from_fn(plane), to);
    }
    join_one_by_one(unit_bytes, in_squares(unit_bytes, units), stored, to);
}

#[inline(always)]
fn join_tile(unit_bytes: usize, position: usize, planes: [&[u8]; 8], to: &mut [u8]) {
    let planes = planes.map(|plane| plane.as_chunks::<8>().0);
    for (number, square) in to.chunks_exact_mut(8 * unit_bytes).enumerate() {
        let words = transpose::bytes(planes.map(|plane| u64::from_le_bytes(plane[number])));
        for (row, word) in square.chunks_exact_mut(unit_bytes).zip(words) {
            row[position..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Returns the units and the first position of each row of squares. Where positions are no multiple of eight the last ones
/// overlap those before.
fn tiles(unit_bytes: usize, units: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let whole_units = in_squares(unit_bytes, units);
    let tiles = (0..whole_units).step_by(TILE_UNITS).map(move |first| first..whole_units.min(first + TILE_UNITS));
    let overlapping = (!unit_bytes.is_multiple_of(8)).then(|| unit_bytes.saturating_sub(8));
    let positions = move || (0..unit_bytes / 8).map(|number| number * 8).chain(overlapping);
    tiles.flat_map(move |tile| positions().map(move |position| (tile.clone(), position)))
}

/// Returns how many of the units lie in squares.
fn in_squares(unit_bytes: usize, units: usize) -> usize {
    if unit_bytes < 8 { 0 } else { units / 8 * 8 }
}

fn split_one_by_one(unit_bytes: usize, first_unit: usize, raw: &[u8], to: &mut [u8]) {
    for (position, plane) in to.chunks_exact_mut(raw.len() / unit_bytes).enumerate() {
        let bytes = raw[first_unit * unit_bytes..].iter().skip(position).step_by(unit_bytes);
        plane[first_unit..].iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    }
}

fn join_one_by_one(unit_bytes: usize, first_unit: usize, stored: &[u8], to: &mut [u8]) {
    for (position, plane) in stored.chunks_exact(stored.len() / unit_bytes).enumerate() {
        let bytes = to[first_unit * unit_bytes..].iter_mut().skip(position).step_by(unit_bytes);
        bytes.zip(&plane[first_unit..]).for_each(|(to, byte)| *to = *byte);
    }
}

//! Records to columns: an array of structures becomes a structure of arrays.

use super::Layout;

/// Records of one tile: all their cache lines are in the first-level cache while their columns are taken out.
const TILE_BYTES: usize = 16 << 10;

pub(super) fn encode(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    match layout.element_bytes {
        1 => to_columns::<1>(layout, raw, to),
        2 => to_columns::<2>(layout, raw, to),
        4 => to_columns::<4>(layout, raw, to),
        _ => to_columns::<8>(layout, raw, to),
    }
}

pub(super) fn decode(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    match layout.element_bytes {
        1 => to_records::<1>(layout, stored, to),
        2 => to_records::<2>(layout, stored, to),
        4 => to_records::<4>(layout, stored, to),
        _ => to_records::<8>(layout, stored, to),
    }
}

fn to_columns<const N: usize>(layout: &Layout, raw: &[u8], to: &mut [u8]) {
    let (raw, to, width) = (raw.as_chunks::<N>().0, to.as_chunks_mut::<N>().0, layout.unit_bytes / N);
    let (records, tile_records) = (raw.len() / width, tile_records(layout));
    for (number, tile) in raw.chunks(tile_records * width).enumerate() {
        for (column, to) in to.chunks_exact_mut(records).enumerate() {
            let elements = tile[column..].iter().step_by(width);
            to[number * tile_records..].iter_mut().zip(elements).for_each(|(to, element)| *to = *element);
        }
    }
}

fn to_records<const N: usize>(layout: &Layout, stored: &[u8], to: &mut [u8]) {
    let (stored, to, width) = (stored.as_chunks::<N>().0, to.as_chunks_mut::<N>().0, layout.unit_bytes / N);
    let (records, tile_records) = (stored.len() / width, tile_records(layout));
    for (number, tile) in to.chunks_mut(tile_records * width).enumerate() {
        for (column, elements) in stored.chunks_exact(records).enumerate() {
            let to = tile[column..].iter_mut().step_by(width);
            to.zip(&elements[number * tile_records..]).for_each(|(to, element)| *to = *element);
        }
    }
}

fn tile_records(layout: &Layout) -> usize {
    (TILE_BYTES / layout.unit_bytes).max(8)
}

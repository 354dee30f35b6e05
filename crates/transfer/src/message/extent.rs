//! Ranges of a file, and the whole segments they may be made of.
//!
//! A few extents can claim any number of segments: nothing is set aside for more than one frame could carry.

use format::MAX_PAYLOAD_BYTES;

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

impl Extent {
    /// Returns the sum of the extents' bytes; a sum beyond a number's range counts as the largest.
    pub fn total_bytes(extents: &[Extent]) -> u64 {
        extents.iter().fold(0, |sum: u64, extent| sum.saturating_add(extent.bytes))
    }

    /// Returns the sum of the extents' bytes up to the last byte that lies before `end`.
    pub fn bytes_until(extents: impl Iterator<Item = Extent>, end: u64) -> u64 {
        let (mut all, mut until) = (0, 0);
        for Extent { offset, bytes } in extents {
            if offset < end && bytes > 0 {
                until = all + bytes.min(end - offset);
            }
            all += bytes;
        }
        until
    }

    /// Returns where the segments begin that the extents are made of, in order. `None` when an extent is not made of
    /// whole ones, or all are more than one frame could carry.
    pub fn segments(extents: &[Extent], segment_bytes: u32) -> Option<Vec<u64>> {
        let unit = segment_bytes as u64;
        let is_whole =
            |extent: &Extent| extent.bytes.is_multiple_of(unit) && extent.offset.checked_add(extent.bytes).is_some();
        let is_too_much = Extent::total_bytes(extents) > MAX_PAYLOAD_BYTES as u64;
        if is_too_much || !extents.iter().all(is_whole) {
            return None;
        }
        let offsets = |extent: &Extent| (extent.offset..extent.offset + extent.bytes).step_by(segment_bytes as usize);
        Some(extents.iter().flat_map(offsets).collect())
    }

    /// Returns the extents that are made of the segments at these offsets, in the same order.
    pub fn of_segments(offsets: impl Iterator<Item = u64>, segment_bytes: u32) -> Vec<Extent> {
        let bytes = segment_bytes as u64;
        let mut extents: Vec<Extent> = Vec::new();
        for offset in offsets {
            match extents.last_mut() {
                Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
                _ => extents.push(Extent { offset, bytes }),
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_end_counts_only_before_something_that_does_not() {
        let until = |extents: &[(u64, u64)], end| {
            Extent::bytes_until(extents.iter().map(|(offset, bytes)| Extent { offset: *offset, bytes: *bytes }), end)
        };
        assert_eq!([5, 15, 25, 0].map(|end| until(&[(10, 10), (0, 10)], end)), [15, 20, 20, 0]);
        assert_eq!([5, 15, 25].map(|end| until(&[(0, 10), (10, 10)], end)), [5, 15, 20]);
    }

    #[test]
    fn extents_of_segments_tell_where_each_begins() {
        let offsets = [80, 96, 16, 32, 48, 0, 160];
        let extents = Extent::of_segments(offsets.into_iter(), 16);
        let expected = [(80, 32), (16, 48), (0, 16), (160, 16)];
        assert_eq!(extents, expected.map(|(offset, bytes)| Extent { offset, bytes }));
        assert_eq!(Extent::segments(&extents, 16).unwrap(), offsets);
    }

    #[test]
    fn extents_that_claim_too_much_or_half_segments_are_made_of_none() {
        let most = MAX_PAYLOAD_BYTES as u64;
        assert_eq!(Extent::segments(&[Extent { offset: 0, bytes: most }], 8192).unwrap().len() as u64, most / 8192);
        for extents in [
            vec![(0, most + 8192)],
            vec![(0, most), (most, 8192)],
            vec![(0, u64::MAX - 8191)],
            vec![(0, 1 << 63), (0, 1 << 63)],
            vec![(u64::MAX - 8191, 8192)],
            vec![(0, 8191)],
        ] {
            let extents: Vec<Extent> = extents.into_iter().map(|(offset, bytes)| Extent { offset, bytes }).collect();
            assert_eq!(Extent::segments(&extents, 8192), None, "{extents:?}");
        }
    }
}

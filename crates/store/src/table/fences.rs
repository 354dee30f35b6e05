//! The in-memory part of a slice of a run's entries: a filter, and the first key of every page.
//!
//! A slice is at most 2^20 entries, so that the memory for building a filter does not grow with the run.
//! A key is the first eight bytes of a prefix as a big-endian number: keys sort as prefixes do.

use format::{Reader, TABLE_PREFIX_BYTES, Writer};
use xorf::{BinaryFuse8, BinaryFuse8Ref, DmaSerializable, Filter, FilterRef};

/// Entries in one slice; at this size a filter takes 9.04 bits an entry.
pub const SLICE_ENTRIES: usize = 1 << 20;

/// Entries between two fences: what one look-up reads (4080 bytes).
pub const PAGE_ENTRIES: usize = 170;

pub fn key_of(prefix: &[u8; TABLE_PREFIX_BYTES]) -> u64 {
    u64::from_be_bytes(*prefix.first_chunk().expect("8 of 16 bytes"))
}

/// Seed (8 bytes), segment length, its mask, and the length of all segments but two (4 bytes each).
const SHAPE_BYTES: usize = BinaryFuse8::DESCRIPTOR_LEN;
const _: () = assert!(SHAPE_BYTES == 20);

pub struct Slice {
    shape: [u8; SHAPE_BYTES],
    /// The filter, one byte per slot.
    bytes: Box<[u8]>,
    /// The first key of each page.
    fences: Box<[u64]>,
}

impl Slice {
    /// Builds a slice; `keys` of the entries in order, at least one.
    pub fn build(mut keys: Vec<u64>) -> Self {
        let fences = keys.iter().step_by(PAGE_ENTRIES).copied().collect();
        keys.dedup();
        let filter = BinaryFuse8::try_from(&keys).expect("distinct keys make a filter within 1000 seeds");
        let mut shape = [0; SHAPE_BYTES];
        filter.dma_copy_descriptor_to(&mut shape);
        Slice { shape, bytes: filter.fingerprints, fences }
    }

    pub fn first_key(&self) -> u64 {
        self.fences[0]
    }

    pub fn contains(&self, key: u64) -> bool {
        BinaryFuse8Ref::from_dma(&self.shape, &self.bytes).contains(&key)
    }

    /// Returns the pages in which entries of this key lie, if there are any: mostly one.
    pub fn pages(&self, key: u64) -> std::ops::Range<usize> {
        let first = self.fences.partition_point(|&fence| fence < key).saturating_sub(1);
        let end = self.fences.partition_point(|&fence| fence <= key);
        first..end
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + self.fences.len() * size_of::<u64>()
    }

    pub fn write(&self, to: &mut Writer) {
        to.list(&self.fences, |to, &fence| {
            to.u64(fence);
        });
        to.put(&self.shape).blob(&self.bytes);
    }

    /// Reads a slice of `entries` entries.
    pub fn read(from: &mut Reader, entries: usize) -> format::Result<Self> {
        let fences = from.list(8, |from| from.u64())?;
        if fences.len() != entries.div_ceil(PAGE_ENTRIES) || fences.is_empty() || !fences.is_sorted() {
            return from.refuse("the fences do not fit the entries");
        }
        let shape = from.array()?;
        let bytes = from.blob()?;
        if !is_shape_of(&shape, bytes.len())? {
            return from.refuse("the filter's shape makes no sense");
        }
        Ok(Slice { shape, bytes: bytes.into(), fences: fences.into() })
    }
}

/// Returns whether a filter of this shape and length keeps its look-ups within its bytes.
fn is_shape_of(shape: &[u8; SHAPE_BYTES], filter_bytes: usize) -> format::Result<bool> {
    let mut from = Reader::new("filter shape", shape);
    let _seed = from.u64()?;
    let (segment, mask, all) = (from.u32()?, from.u32()?, from.u32()?);
    Ok(segment.is_power_of_two()
        && mask == segment - 1
        && all.is_multiple_of(segment)
        && all > 0
        && filter_bytes as u64 == all as u64 + 2 * segment as u64
        && filter_bytes <= u32::MAX as usize)
}

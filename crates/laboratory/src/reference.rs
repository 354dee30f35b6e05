//! Encodings that others use and that are not chosen from: what they give is for comparison.

use policy::Compression;

use crate::encoding_name::encoding_name;
use crate::measurement::measure_encoding;
use crate::{Measured, Total};

pub const REFERENCES: [Compression; 3] =
    [Compression::Lz4 { acceleration: 8 }, Compression::Lz4Hc { level: 9 }, Compression::Zlib { level: 6 }];

pub fn reference_name(reference: usize) -> String {
    encoding_name(&REFERENCES[reference].into())
}

/// Encodes and decodes a block with every reference.
pub fn measure_references(raw: &[u8]) -> [Measured; REFERENCES.len()] {
    REFERENCES.map(|compression| measure_encoding(raw, &compression.into()))
}

/// Returns the total of each reference over blocks of these lengths.
pub fn reference_totals(blocks: &[(usize, [Measured; REFERENCES.len()])]) -> [Total; REFERENCES.len()] {
    let mut totals = [Total::default(); REFERENCES.len()];
    for (raw_bytes, measured) in blocks {
        totals.iter_mut().zip(measured).for_each(|(total, measured)| total.add(*raw_bytes, measured));
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_measured() {
        let raw = b"the same words ".repeat(1000);
        let totals = reference_totals(&[(raw.len(), measure_references(&raw))]);
        assert!(totals.iter().all(|total| total.ratio() > 10.0), "{totals:?}");
        assert_eq!(reference_name(0), "lz4:fast");
    }
}

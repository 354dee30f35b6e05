//! What a store takes besides its blocks: indexes, manifests and names.
//!
//! Measured on our own stores, as docs/models.md says; with many short files it is a tenth of all that is stored.

/// Of each different segment, for the index of its container.
const SEGMENT_BYTES: f64 = 38.0;

/// Of each file, for its manifest and the journal's record of its name, compressed and not.
const FILE_BYTES: f64 = 165.0;
const UNCOMPRESSED_FILE_BYTES: f64 = 470.0;

/// Returns the bytes for so many different segments and files.
pub fn bytes(segments: f64, files: f64, is_compressed: bool) -> f64 {
    segments * SEGMENT_BYTES + files * if is_compressed { FILE_BYTES } else { UNCOMPRESSED_FILE_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `thalweg put --codec none` of /usr/include: 12 466 segments of 8241 files.
    #[test]
    fn short_files_take_what_was_measured() {
        let measured = 74_501_858.0 - 70_276_445.0;
        assert!((bytes(12_466.0, 8241.0, false) / measured - 1.0).abs() < 0.05);
        assert!(bytes(12_466.0, 8241.0, true) < measured / 2.0);
    }
}

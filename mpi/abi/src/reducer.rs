//! The reducer the client is given: the same digests and codecs that nodes use.

use format::{Block, BlockKind, Fingerprint, SegmentEntry, Settings};
use segment::{Numbers, encode_in_blocks, fingerprint, is_zero, names_digest};
use transfer::client::{Reducer, ZEROS};

pub struct SegmentReducer;

impl Reducer for SegmentReducer {
    fn fingerprint(&self, settings: &Settings, segment: &[u8]) -> Fingerprint {
        if is_zero(segment) { ZEROS } else { fingerprint(settings.fingerprint, segment) }
    }

    fn digest(&self, entries: &[SegmentEntry]) -> [u8; 32] {
        names_digest(entries)
    }

    fn use_model(&self, model: &[u8]) {
        // The model that came with this program serves then.
        let _ = segment::use_model(model);
    }

    fn encode(&self, settings: &Settings, segments: &[(Fingerprint, &[u8])]) -> Vec<Block> {
        encode_in_blocks(BlockKind::Data, segments.iter().copied(), Numbers::Unknown, settings.codec).collect()
    }
}

#[cfg(test)]
mod tests {
    use format::StoreId;

    use super::*;

    #[test]
    fn blocks_hold_the_segments_in_order() {
        let settings = Settings::new(StoreId::default());
        let segments: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; 8192]).collect();
        let named: Vec<(Fingerprint, &[u8])> = segments
            .iter()
            .map(|segment| (SegmentReducer.fingerprint(&settings, segment), segment.as_slice()))
            .collect();
        assert_eq!(named[0].0, ZEROS);
        let blocks = SegmentReducer.encode(&settings, &named[1..]);
        assert!(blocks.len() > 1);
        let decoded: Vec<u8> =
            blocks.iter().flat_map(|block| segment::decode_verified(block, settings.fingerprint).unwrap()).collect();
        assert!(decoded == segments[1..].concat());
    }
}

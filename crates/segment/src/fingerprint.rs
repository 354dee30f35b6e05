//! The digest that identifies a segment, the one content that needs none: zeros, and the digest of many fingerprints.

use format::{Fingerprint, FingerprintKind, SegmentEntry, Writer};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Fingerprints a segment. SHA-1 is for the papers' settings only; its 20 bytes are padded with zeros.
pub fn fingerprint(kind: FingerprintKind, bytes: &[u8]) -> Fingerprint {
    Fingerprint(match kind {
        FingerprintKind::Blake3 => *blake3::hash(bytes).as_bytes(),
        FingerprintKind::Sha256 => Sha256::digest(bytes).into(),
        FingerprintKind::Sha1 => {
            let mut padded = [0; Fingerprint::BYTES];
            padded[..20].copy_from_slice(&Sha1::digest(bytes));
            padded
        }
    })
}

/// Returns the digest by which many segments can be offered at once: BLAKE3 over the segment entries, in order.
pub fn names_digest(entries: &[SegmentEntry]) -> [u8; 32] {
    let mut named = Writer::new();
    entries.iter().for_each(|entry| entry.write(&mut named));
    *blake3::hash(&named.finish()).as_bytes()
}

/// Bytes checked between two decisions to go on: four cache lines, which compilers turn into vector instructions.
const STRIDE_BYTES: usize = 256;

/// Returns whether all bytes are zero; stops within a few cache lines of the first that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    let any = |bytes: &[u8]| bytes.iter().fold(0, |any, byte| any | byte);
    let strides = bytes.chunks_exact(STRIDE_BYTES);
    any(strides.remainder()) == 0 && strides.into_iter().all(|stride| any(stride) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_the_published_digests_of_abc() {
        let hex = |kind| fingerprint(kind, b"abc").to_string();
        assert_eq!(hex(FingerprintKind::Blake3), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
        assert_eq!(hex(FingerprintKind::Sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(hex(FingerprintKind::Sha1), format!("{sha1}{}", "0".repeat(24)));
    }

    #[test]
    fn names_have_the_digest_of_their_36_bytes_each_in_order() {
        let entry = |byte: u8, bytes: u32| SegmentEntry { fingerprint: Fingerprint([byte; 32]), bytes };
        let bytes = [&[7; 32][..], &[0, 0x20, 0, 0], &[9; 32], &[1, 0, 0, 0]].concat();
        let digest = names_digest(&[entry(7, 8192), entry(9, 1)]);
        assert_eq!(digest, *blake3::hash(&bytes).as_bytes());
        assert_ne!(digest, names_digest(&[entry(9, 1), entry(7, 8192)]));
    }

    #[test]
    fn a_single_bit_anywhere_is_not_zero() {
        for length in [0, 1, 15, 255, 256, 257, 1000] {
            let mut bytes = vec![0; length];
            assert!(is_zero(&bytes), "{length}");
            for at in 0..length {
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{at} of {length}");
                bytes[at] = 0;
            }
        }
    }
}

//! A block as a whole: from segments, and back to them.
//!
//! Nothing in a block is trusted before it is checked: a decoded block may have come over a network.

use format::{Block, BlockHeader, BlockKind, CodecChoice, CodecId, Fingerprint, FingerprintKind, Mode};

use policy::Encoding;

use crate::builder::BlockBuilder;
use crate::codec;
use crate::encoding::{codec_and_level, described, named};
use crate::error::{Error, Result, corrupt};
use crate::filter;
use crate::fingerprint::fingerprint;

/// Compresses segments together; [`BlockBuilder`] does the same for segments that come one by one.
///
/// Panics when they add up to more than [`crate::MAX_BLOCK_BYTES`].
pub fn encode(kind: BlockKind, segments: &[(Fingerprint, &[u8])], choice: CodecChoice, record_length: u32) -> Block {
    let mut builder = BlockBuilder::new(kind, record_length);
    segments.iter().for_each(|(fingerprint, bytes)| builder.push(*fingerprint, bytes));
    builder.finish(choice)
}

/// As [`encode`], with filters and all.
///
/// Panics as [`encode`] does, and when [`Encoding::check`] refuses the encoding.
pub fn encode_with(kind: BlockKind, segments: &[(Fingerprint, &[u8])], encoding: &Encoding) -> Block {
    let mut builder = BlockBuilder::new(kind, encoding.record_length);
    segments.iter().for_each(|(fingerprint, bytes)| builder.push(*fingerprint, bytes));
    builder.finish_with(encoding)
}

/// Encodes the segments of a block, which was decoded to `raw`, by another choice. A fixed codec has no filters of its own,
/// and is tried behind those of the block too.
pub fn encode_anew(block: &Block, raw: &[u8], choice: CodecChoice) -> Result<Block> {
    let (header, segments) = (&block.header, segments(block, raw).collect::<Vec<_>>());
    let encoded = encode(header.kind, &segments, choice, header.record_length);
    let named = match named(choice) {
        Some(named) if header.filters != [0; 4] => named,
        _ => return Ok(encoded),
    };
    let filtered = Encoding { compression: named.compression, ..described(header)? };
    if filtered.check().is_err() {
        return Ok(encoded);
    }
    let filtered = encode_with(header.kind, &segments, &filtered);
    Ok(if filtered.payload.len() < encoded.payload.len() { filtered } else { encoded })
}

/// Whether a block bears the codec and the level that the choice stands for. Of one that is chosen by its content nothing
/// shows that but in archives, whose codecs are used nowhere else.
pub fn is_encoded_by(header: &BlockHeader, choice: CodecChoice) -> bool {
    let found = (header.codec, header.level);
    match (choice, named(choice)) {
        (CodecChoice::Auto(Mode::Archival), _) => {
            matches!(found, (CodecId::Xz, _) | (CodecId::Zstd, 19..) | (CodecId::Pco, 12..))
        }
        (_, Some(named)) => found == codec_and_level(named.compression),
        _ => false,
    }
}

/// Returns the raw bytes of all segments, one after the other. Checks that the block is consistent in itself, but not
/// that the segments match their fingerprints.
pub fn decode(block: &Block) -> Result<Vec<u8>> {
    let encoding = checked_encoding(block)?;
    let mut raw = codec::decode(&encoding, &block.payload, block.header.raw_bytes as usize)?;
    filter::undo(&encoding, &mut raw);
    Ok(raw)
}

/// Returns how the block is encoded, once it is known to be consistent in itself.
fn checked_encoding(block: &Block) -> Result<Encoding> {
    let cipher = block.header.cipher;
    if cipher != 0 {
        return corrupt(format!("cipher {cipher} is unknown to this program; use a newer thalweg"));
    }
    block.check()?;
    described(&block.header)
}

/// As [`decode`], and checks that every segment matches its fingerprint; the error names the first that does not.
pub fn decode_verified(block: &Block, kind: FingerprintKind) -> Result<Vec<u8>> {
    let raw = decode(block)?;
    verify(block, &raw, kind)?;
    Ok(raw)
}

/// As [`decode_verified`]; takes the payload out of the block, without a copy where it is stored uncompressed.
pub fn take_verified(block: &mut Block, kind: FingerprintKind) -> Result<Vec<u8>> {
    let header = &block.header;
    let is_unfiltered = header.codec == CodecId::None && header.filters == [0; 4];
    if !is_unfiltered || header.raw_bytes != header.stored_bytes {
        return decode_verified(block, kind);
    }
    checked_encoding(block)?;
    verify(block, &block.payload, kind)?;
    Ok(std::mem::take(&mut block.payload))
}

fn verify(block: &Block, raw: &[u8], kind: FingerprintKind) -> Result<()> {
    for (number, (expected, bytes)) in segments(block, raw).enumerate() {
        if fingerprint(kind, bytes) != expected {
            let why = format!("its {} bytes do not match their fingerprint {expected}", bytes.len());
            return Err(Error::Corrupt { segment: Some(number), why });
        }
    }
    Ok(())
}

/// Returns the segments of a block that was decoded to `raw`, in order.
///
/// Panics when `raw` is shorter than the segments together, which [`decode`] excludes.
pub fn segments<'a>(block: &'a Block, raw: &'a [u8]) -> impl Iterator<Item = (Fingerprint, &'a [u8])> {
    let mut rest = raw;
    block.segments.iter().map(move |entry| {
        let (bytes, after) = rest.split_at(entry.bytes as usize);
        rest = after;
        (entry.fingerprint, bytes)
    })
}

#[cfg(test)]
mod tests {
    use format::checksum;
    use random::Random;

    use super::*;
    use crate::random::{field, random_bytes, text};

    const KINDS: [FingerprintKind; 3] = [FingerprintKind::Blake3, FingerprintKind::Sha256, FingerprintKind::Sha1];
    const CHOICES: [CodecChoice; 8] = [
        CodecChoice::AUTO,
        CodecChoice::None,
        CodecChoice::Lz4,
        CodecChoice::Lz4Fast,
        CodecChoice::Lz4Hc(9),
        CodecChoice::Zstd(3),
        CodecChoice::Zlib(6),
        CodecChoice::Xz(0),
    ];

    fn encoded(seed: u64, kind: FingerprintKind, choice: CodecChoice) -> (Vec<Vec<u8>>, Block) {
        let mut random = Random::new(seed);
        let contents = (0..random.index(12)).map(|_| {
            let (seed, length) = (random.next(), random.index(20_000));
            [text, random_bytes, field][random.index(3)](seed, length)
        });
        let contents: Vec<Vec<u8>> = contents.collect();
        let named: Vec<_> = contents.iter().map(|bytes| (fingerprint(kind, bytes), bytes.as_slice())).collect();
        let block = encode(BlockKind::Data, &named, choice, 8);
        (contents, block)
    }

    #[test]
    fn every_block_comes_back_segment_by_segment() {
        for seed in 0..60 {
            for (kind, choice) in KINDS.into_iter().flat_map(|kind| CHOICES.map(|choice| (kind, choice))) {
                let (contents, block) = encoded(seed, kind, choice);
                block.check().unwrap();
                let raw = decode_verified(&block, kind).unwrap();
                assert_eq!(take_verified(&mut block.clone(), kind).unwrap(), raw);
                let found: Vec<_> = segments(&block, &raw).map(|(_, bytes)| bytes.to_vec()).collect();
                assert_eq!(found, contents, "seed {seed}, {kind}, {choice}");
            }
        }
    }

    #[test]
    fn a_damaged_segment_is_named() {
        let contents = [text(1, 5000), text(2, 6000), text(3, 7000)];
        let mut names = contents.each_ref().map(|bytes| fingerprint(FingerprintKind::Blake3, bytes));
        names[1].0[31] ^= 1;
        let named = [0, 1, 2].map(|number| (names[number], contents[number].as_slice()));
        let block = encode(BlockKind::Data, &named, CodecChoice::AUTO, 0);
        assert!(decode(&block).is_ok());
        let error = decode_verified(&block, FingerprintKind::Blake3).unwrap_err();
        assert!(matches!(error, Error::Corrupt { segment: Some(1), .. }), "{error}");
        assert!(error.to_string().starts_with("block, segment 1, is damaged"), "{error}");
    }

    #[test]
    fn blocks_altered_on_the_way_are_refused() {
        let (_, good) = encoded(4, FingerprintKind::Blake3, CodecChoice::AUTO);
        let altered = |change: fn(&mut Block)| {
            let mut block = good.clone();
            change(&mut block);
            let decoded = decode_verified(&block, FingerprintKind::Blake3);
            assert_eq!(take_verified(&mut block, FingerprintKind::Blake3).is_ok(), decoded.is_ok());
            decoded
        };
        assert!(altered(|_| ()).is_ok());
        assert!(altered(|block| block.payload[7] ^= 1).is_err());
        assert!(altered(|block| block.segments[0].bytes += 1).is_err());
        assert!(altered(|block| block.header.raw_bytes -= 1).is_err());
        assert!(altered(|block| block.header.cipher = 1).is_err());
        assert!(altered(|block| block.header.filters[0] = 1).is_err());
        assert!(altered(|block| block.segments.truncate(1)).is_err());
    }

    #[test]
    fn a_forged_block_is_refused_although_its_checksum_fits() {
        for seed in 1..300 {
            let (_, mut block) = encoded(seed, FingerprintKind::Blake3, CodecChoice::Zstd(1));
            let Some(at) = Random::new(seed).next().checked_rem(block.payload.len() as u64) else { continue };
            block.payload[at as usize] ^= 1 << (seed % 8);
            block.header.checksum = checksum(&block.payload);
            let honest = encoded(seed, FingerprintKind::Blake3, CodecChoice::Zstd(1)).0.concat();
            if let Ok(raw) = decode_verified(&block, FingerprintKind::Blake3) {
                assert_eq!(raw, honest, "seed {seed}");
            }
        }
    }
}

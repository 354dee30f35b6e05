//! The golden blocks, one a codec, one a filter and one a kind, and mutations of them. A compressor's output may change with its
//! version, so those blocks are only read; the uncompressed ones are also made again.
//!
//! `THALWEG_WRITE_GOLDEN=1` writes them again, from the golden files of `format`, for those of `store`.

extern crate thalweg_segment as segment;

use std::ops::Range;
use std::path::PathBuf;

use format::{Block, BlockKind, CodecId, FingerprintKind, Writer};
use policy::Compression;
use policy::compression::{Encoding, Filters};
use segment::BlockBuilder;

#[path = "../../../fuzz/src/blocks.rs"]
mod blocks;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

const FINGERPRINT: FingerprintKind = FingerprintKind::Blake3;
/// A block's raw bytes at most, once; Zstandard's context and its copy of the input beside it.
const MAX_BYTES: usize = segment::MAX_BLOCK_BYTES + (4 << 20);

struct Golden {
    name: &'static str,
    kind: BlockKind,
    codec: CodecId,
    encoding: Encoding,
    /// Length of one record of the data; 0 when unknown.
    record_length: u32,
    /// Each segment's golden file and range in it.
    segments: Vec<(&'static str, Range<usize>)>,
}

fn all() -> [Golden; 8] {
    let data = |name, codec, encoding, record_length, ranges: &[Range<usize>]| {
        let segments = ranges.iter().map(|range| ("segments.bin", range.clone())).collect();
        Golden { name, kind: BlockKind::Data, codec, encoding, record_length, segments }
    };
    let whole = |name, kind, segments: &[(&'static str, usize)]| {
        let segments = segments.iter().map(|&(file, bytes)| (file, 0..bytes)).collect();
        Golden { name, kind, codec: CodecId::None, encoding: Compression::None.into(), record_length: 0, segments }
    };
    let text = [7000..9000, 9000..11_000, 11_000..13_000];
    let zstd = Compression::Zstd { level: 3 };
    let filtered = |name, filters| data(name, CodecId::Zstd, Encoding { filters, compression: zstd }, 0, &text);
    [
        data("none.bin", CodecId::None, Compression::None.into(), 8, &[0..1000, 1000..3000]),
        data("lz4.bin", CodecId::Lz4, Compression::Lz4.into(), 0, &[3000..4500, 4500..7000]),
        data("zstd.bin", CodecId::Zstd, zstd.into(), 0, &text),
        filtered("shuffle.bin", Filters::Shuffle { record_bytes: 7 }),
        filtered("byte-delta.bin", Filters::ShuffleByteDelta { record_bytes: 12 }),
        filtered("delta.bin", Filters::DeltaShuffle { record_bytes: 16, element_bytes: 4 }),
        whole("page.bin", BlockKind::Page, &[("page-leaf.bin", 288), ("page-interior.bin", 160)]),
        whole("journal.bin", BlockKind::Journal, &[("journal.bin", 1017)]),
    ]
}

fn read(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a block as bytes: header, segment entries, payload.
fn written(block: &Block) -> Vec<u8> {
    let mut to = Writer::new();
    block.header.write(&mut to);
    block.segments.iter().for_each(|segment| segment.write(&mut to));
    to.put(&block.payload).finish()
}

#[test]
fn golden_blocks_decode_to_the_golden_segments() {
    for golden in all() {
        let contents = golden.segments.iter().map(|(file, range)| read(file)[range.clone()].to_vec());
        let contents: Vec<Vec<u8>> = contents.collect();
        let named = contents.iter().map(|bytes| (segment::fingerprint(FINGERPRINT, bytes), bytes.as_slice()));
        let named: Vec<_> = named.collect();
        let mut builder = BlockBuilder::new(golden.kind, golden.record_length);
        named.iter().for_each(|(fingerprint, bytes)| builder.push(*fingerprint, bytes));
        let made = builder.finish_as(golden.encoding);
        let name = format!("blocks/{}", golden.name);
        if std::env::var_os("THALWEG_WRITE_GOLDEN").is_some() {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0");
            std::fs::write(folder.join(&name), written(&made)).expect("golden files can be written");
        }
        let kept = read(&name);
        let block = blocks::read(&kept).expect("a golden block is whole");
        assert_eq!((block.header.kind, block.header.codec), (golden.kind, golden.codec), "{name}");
        assert_eq!(block.header.filters, made.header.filters, "{name}");
        let raw = segment::decode_verified(&block, FINGERPRINT).expect("a golden block decodes");
        assert!(segment::segments(&block, &raw).eq(named), "{name}");
        if golden.codec == CodecId::None {
            assert!(kept == written(&made), "{name} is not what is written now");
        }
    }
}

#[test]
fn mutated_blocks_are_refused_or_decode_to_what_their_header_says() {
    mutation::fuzz(&["blocks"], mutation::INPUTS, MAX_BYTES, blocks::block);
}

//! The golden blocks, one a codec, one a filter and one a kind, and mutations of them. A compressor's output may change
//! with its version, so those blocks are only read; the uncompressed ones are also made again.
//!
//! `THALWEG_WRITE_GOLDEN=1` writes them again, from the golden files of `format`, for those of `store`.

extern crate thalweg_segment as segment;

use std::ops::Range;
use std::path::PathBuf;

use format::{Block, BlockKind, CodecChoice, CodecId, ElementId, FilterId, FingerprintKind, Writer};
use policy::{Compression, Element, Encoding, Filter};

#[path = "../../../fuzz/src/blocks.rs"]
mod blocks;
#[path = "../../../fuzz/src/chunks.rs"]
mod chunks;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

const FINGERPRINT: FingerprintKind = FingerprintKind::Blake3;
/// A block's raw bytes at most, twice: undoing a filter, and XZ's dictionary, take as much again. Beside it contexts, and
/// a chunk of Pcodec.
const MAX_BYTES: usize = 2 * segment::MAX_BLOCK_BYTES + (8 << 20);

struct Golden {
    name: &'static str,
    kind: BlockKind,
    codec: CodecId,
    filters: [u8; 4],
    encoding: Encoding,
    /// Each segment's golden file and range in it.
    segments: Vec<(&'static str, Range<usize>)>,
}

/// Blocks of text and noise, without filters.
fn plain() -> Vec<Golden> {
    let data = |name, codec, compression, record_length, ranges: &[Range<usize>]| {
        let segments = ranges.iter().map(|range| ("segments.bin", range.clone())).collect();
        let encoding = Encoding { record_length, ..Encoding::plain(compression) };
        Golden { name, kind: BlockKind::Data, codec, filters: [0; 4], encoding, segments }
    };
    let whole = |name, kind, segments: &[(&'static str, usize)]| {
        let segments = segments.iter().map(|&(file, bytes)| (file, 0..bytes)).collect();
        let encoding = Encoding::plain(Compression::None);
        Golden { name, kind, codec: CodecId::None, filters: [0; 4], encoding, segments }
    };
    vec![
        data("none.bin", CodecId::None, Compression::None, 8, &[0..1000, 1000..3000]),
        data("lz4.bin", CodecId::Lz4, Compression::LZ4, 0, &[3000..4500, 4500..7000]),
        data("lz4hc.bin", CodecId::Lz4, Compression::Lz4Hc { level: 9 }, 0, &[3000..4500, 4500..7000]),
        data("zstd.bin", CodecId::Zstd, Compression::Zstd { level: 3 }, 0, &[7000..9000, 9000..11_000, 11_000..13_000]),
        data("zlib.bin", CodecId::Zlib, Compression::Zlib { level: 6 }, 0, &[7000..9000, 9000..11_000, 11_000..13_000]),
        data("xz.bin", CodecId::Xz, Compression::Xz { level: 6 }, 0, &[7000..9000, 9000..11_000, 11_000..13_000]),
        whole("page.bin", BlockKind::Page, &[("page-leaf.bin", 288), ("page-interior.bin", 160)]),
        whole("journal.bin", BlockKind::Journal, &[("journal.bin", 1017)]),
    ]
}

/// Blocks of records that begin within a record and end within another.
fn filtered() -> Vec<Golden> {
    let data = |name, codec, compression, filters: &[(FilterId, Filter)]| {
        let mut encoding = Encoding {
            element: Element::F64,
            record_length: RECORD_BYTES as u32,
            phase: 16,
            ..Encoding::plain(compression)
        };
        encoding.filters.iter_mut().zip(filters).for_each(|(slot, (_, filter))| *slot = Some(*filter));
        let ids = std::array::from_fn(|at| filters.get(at).map_or(0, |(id, _)| *id as u8));
        let segments = vec![("records.bin", 40..3000), ("records.bin", 3000..5001)];
        Golden { name, kind: BlockKind::Data, codec, filters: ids, encoding, segments }
    };
    let zlib = |name, filters| data(name, CodecId::Zlib, Compression::Zlib { level: 6 }, filters);
    let shuffle = (FilterId::Shuffle, Filter::Shuffle);
    let columns = (FilterId::Columns, Filter::Columns);
    let xor_delta = (FilterId::XorDelta, Filter::XorDelta);
    vec![
        data("zero-run.bin", CodecId::ZeroRun, Compression::ZeroRun, &[xor_delta, shuffle]),
        data("pco.bin", CodecId::Pco, Compression::Pco { level: 8 }, &[columns]),
        zlib("shuffle.bin", &[shuffle]),
        zlib("bit-shuffle.bin", &[shuffle, (FilterId::BitShuffle, Filter::BitShuffle)]),
        zlib("delta.bin", &[(FilterId::Delta, Filter::Delta)]),
        zlib("xor-delta.bin", &[xor_delta]),
        zlib("byte-delta.bin", &[shuffle, (FilterId::ByteDelta, Filter::ByteDelta)]),
        zlib("columns.bin", &[columns, shuffle]),
        zlib("byte-swap.bin", &[(FilterId::ByteSwap, Filter::ByteSwap), columns, (FilterId::Delta, Filter::Delta)]),
    ]
}

/// A number, what grows evenly, waves, constants: seven doubles each.
const RECORD_BYTES: usize = 56;

fn records() -> Vec<u8> {
    let record = |number: u32| {
        let at = number as f64;
        [at, 1000.0 - at * 0.5, (at * at) / 64.0, (number % 7) as f64, 1.0, -0.0, at * 0.125]
            .map(f64::to_le_bytes)
            .concat()
    };
    (0..90).flat_map(record).collect()
}

#[test]
fn golden_blocks_of_records_are_made_of_these() {
    write_if_asked("records.bin", &records());
    assert!(read("records.bin") == records());
}

fn write_if_asked(name: &str, bytes: &[u8]) {
    if std::env::var_os("THALWEG_WRITE_GOLDEN").is_some() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0");
        std::fs::write(folder.join(name), bytes).expect("golden files can be written");
    }
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
    for golden in plain().into_iter().chain(filtered()) {
        let contents = golden.segments.iter().map(|(file, range)| read(file)[range.clone()].to_vec());
        let contents: Vec<Vec<u8>> = contents.collect();
        let named = contents.iter().map(|bytes| (segment::fingerprint(FINGERPRINT, bytes), bytes.as_slice()));
        let named: Vec<_> = named.collect();
        let made = segment::encode_with(golden.kind, &named, &golden.encoding);
        let name = format!("blocks/{}", golden.name);
        write_if_asked(&name, &written(&made));
        let kept = read(&name);
        let block = blocks::read(&kept).expect("a golden block is whole");
        let header = block.header;
        assert_eq!((header.kind, header.codec, header.filters), (golden.kind, golden.codec, golden.filters), "{name}");
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

#[test]
fn golden_blocks_that_are_chunks_decode_to_the_golden_records() {
    let raw = &records()[40..5001];
    for (name, choice) in [("chunks/none.bin", CodecChoice::None), ("chunks/zlib.bin", CodecChoice::Zlib(6))] {
        let known =
            segment::ChunkType { element: ElementId::F64, is_big_endian: false, record_length: RECORD_BYTES as u32 };
        let made = segment::encode_chunk(raw, known, choice);
        write_if_asked(name, &made);
        assert!(segment::decode_chunk(&read(name), raw.len()).expect("a golden chunk decodes") == raw, "{name}");
        assert!(choice != CodecChoice::None || read(name) == made, "{name} is not what is written now");
    }
}

#[test]
fn mutated_chunks_are_refused_or_decode_to_what_their_header_says() {
    mutation::fuzz(&["chunks", "blocks"], mutation::INPUTS, MAX_BYTES, chunks::chunk);
}

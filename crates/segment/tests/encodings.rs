//! Blocks come back as they were, whatever codec, filters, type of elements, length and phase: bit by bit, of floats too.

extern crate thalweg_segment as segment;

use format::{BlockKind, CodecId, FingerprintKind};
use policy::{Compression, Element, Encoding, Filter, MAX_FILTERS};
use random::Random;

const KIND: FingerprintKind = FingerprintKind::Blake3;

const CODECS: [Compression; 12] = [
    Compression::None,
    Compression::ZeroRun,
    Compression::LZ4,
    Compression::Lz4 { acceleration: 9 },
    Compression::Lz4Hc { level: 4 },
    Compression::Lz4Hc { level: 12 },
    Compression::Zstd { level: -5 },
    Compression::Zstd { level: 3 },
    Compression::Zlib { level: 6 },
    Compression::Xz { level: 1 },
    Compression::Pco { level: 3 },
    Compression::Pco { level: 8 },
];

const FILTERS: [&[Filter]; 12] = [
    &[],
    &[Filter::Shuffle],
    &[Filter::BitShuffle],
    &[Filter::Delta],
    &[Filter::XorDelta],
    &[Filter::Columns],
    &[Filter::Shuffle, Filter::BitShuffle],
    &[Filter::Delta, Filter::Shuffle],
    &[Filter::Columns, Filter::Delta],
    &[Filter::ByteSwap, Filter::Columns, Filter::Delta, Filter::Shuffle],
    &[Filter::Columns, Filter::Shuffle, Filter::ByteDelta],
    &[Filter::Columns, Filter::XorDelta, Filter::Shuffle, Filter::BitShuffle],
];

const ELEMENTS: [Element; 10] = [
    Element::U8,
    Element::U16,
    Element::U32,
    Element::U64,
    Element::I16,
    Element::I32,
    Element::I64,
    Element::F16,
    Element::F32,
    Element::F64,
];

fn encoding(compression: Compression, list: &[Filter], element: Element, record_length: u32, phase: u32) -> Encoding {
    let mut filters = [None; MAX_FILTERS];
    filters.iter_mut().zip(list).for_each(|(slot, filter)| *slot = Some(*filter));
    Encoding { compression, filters, element, record_length, phase }
}

/// Encodes, decodes and compares; returns whether the block was kept encoded.
fn comes_back(raw: &[u8], encoding: &Encoding) -> bool {
    let (first, second) = raw.split_at(raw.len() / 3);
    let named = [first, second].map(|bytes| (segment::fingerprint(KIND, bytes), bytes));
    let mut block = segment::encode_with(BlockKind::Data, &named, encoding);
    let header = block.header;
    assert_eq!((header.record_length, header.phase), (encoding.record_length, encoding.phase));
    let decoded = segment::decode_verified(&block, KIND).unwrap_or_else(|error| panic!("{encoding:?}: {error}"));
    assert!(decoded == raw, "{encoding:?}, {} bytes", raw.len());
    assert!(segment::take_verified(&mut block, KIND).is_ok_and(|taken| taken == raw), "{encoding:?}");
    let is_kept = header.codec != CodecId::None;
    assert!(is_kept || (header.filters == [0; 4] && header.stored_bytes == header.raw_bytes), "{header:?}");
    is_kept
}

/// Returns numbers that grow slowly, as bytes.
fn numbers(element: Element, length: usize, random: &mut Random) -> Vec<u8> {
    let offset = random.index(1000) as u64;
    let value = |at: u64| match element {
        Element::F64 => (offset as f64 + at as f64 * 0.25).to_le_bytes(),
        Element::F32 => u64::from((offset as f32 + at as f32 * 0.25).to_bits()).to_le_bytes(),
        _ => (offset + at * 3).to_le_bytes(),
    };
    let count = length.div_ceil(element.bytes()) as u64;
    let mut bytes: Vec<u8> = (0..count).flat_map(|at| value(at).into_iter().take(element.bytes())).collect();
    bytes.truncate(length);
    bytes
}

#[test]
fn every_codec_brings_back_every_type_behind_every_filter_at_any_length_and_phase() {
    let mut random = Random::new(11);
    let mut kept = 0;
    for (compression, list) in CODECS.into_iter().flat_map(|codec| FILTERS.map(|list| (codec, list))) {
        for (element, round) in ELEMENTS.into_iter().flat_map(|element| (0..6).map(move |round| (element, round))) {
            let record_length = (random.index(9) * element.bytes()) as u32;
            let mut encoding = encoding(compression, list, element, record_length, 0);
            encoding.phase = random.index(encoding.unit_bytes()) as u32;
            let length = random.index([8, 100, 5000][round % 3]);
            let raw = if round < 5 { numbers(element, length, &mut random) } else { random.bytes(length) };
            if encoding.check().is_ok() {
                kept += comes_back(&raw, &encoding) as usize;
            }
        }
    }
    assert!(kept > 1000, "{kept}");
}

#[test]
fn numbers_that_grow_slowly_are_kept_encoded_by_every_codec_behind_fitting_filters() {
    for element in ELEMENTS {
        let raw = numbers(element, 40_003, &mut Random::new(7));
        for compression in CODECS.into_iter().filter(|codec| *codec != Compression::None) {
            let list: &[Filter] = match (compression, element) {
                (Compression::Pco { .. }, Element::U8) => continue,
                (Compression::Pco { .. }, _) => &[],
                (_, Element::U8) => &[Filter::Delta, Filter::Delta],
                _ => &[Filter::Delta, Filter::Delta, Filter::Shuffle],
            };
            assert!(comes_back(&raw, &encoding(compression, list, element, 0, 0)), "{compression:?}, {element:?}");
        }
    }
}

/// Not-a-numbers with payloads, signalling ones too, both zeros, infinities and numbers below the normal ones.
#[test]
fn floats_come_back_bit_by_bit() {
    let doubles =
        [0, 1 << 63, 0x7ff0_0000_0000_0001, 0xfff8_dead_beef_0001, 0x7ff0_0000_0000_0000, 1, 0x3ff0_0000_0000_0000];
    let singles = [0, 1 << 31, 0x7f80_0001, 0xffc0_beef, 0xff80_0000, 1, 0x3f80_0000u32];
    let halves = [0, 1 << 15, 0x7c01, 0xfe0f, 0xfc00, 1, 0x3c00u16];
    let mut random = Random::new(5);
    let mut of =
        |bytes: &[Vec<u8>]| (0..9000).flat_map(|_| bytes[random.index(bytes.len())].clone()).collect::<Vec<u8>>();
    let cases = [
        (Element::F64, of(&doubles.map(|bits: u64| bits.to_le_bytes().to_vec()))),
        (Element::F32, of(&singles.map(|bits| bits.to_le_bytes().to_vec()))),
        (Element::F16, of(&halves.map(|bits| bits.to_le_bytes().to_vec()))),
    ];
    for (element, raw) in &cases {
        for compression in CODECS {
            let fits = |list: &&&[Filter]| encoding(compression, list, *element, 0, 0).check().is_ok();
            for list in FILTERS.iter().filter(fits) {
                comes_back(raw, &encoding(compression, list, *element, 0, 0));
            }
        }
    }
}

#[test]
fn columns_of_records_are_compressed_each_by_itself() {
    let record = |number: usize| [number as f64, 1e9 - number as f64 * 0.5, 7.25].map(f64::to_le_bytes).concat();
    let raw: Vec<u8> = (0..10_000).flat_map(record).collect();
    let stored = |list: &[Filter], record_length| {
        let encoding = encoding(Compression::Pco { level: 8 }, list, Element::F64, record_length, 0);
        assert!(comes_back(&raw, &encoding));
        let named = [(segment::fingerprint(KIND, &raw), &raw[..])];
        segment::encode_with(BlockKind::Data, &named, &encoding).payload.len()
    };
    let (mixed, apart) = (stored(&[], 0), stored(&[Filter::Columns], 24));
    assert!(apart < 2000 && apart * 10 < mixed, "{apart} apart, {mixed} mixed");
}

#[test]
fn a_block_of_more_numbers_than_a_chunk_holds_comes_back() {
    let raw = numbers(Element::U16, 1_400_001, &mut Random::new(3));
    assert!(comes_back(&raw, &encoding(Compression::Pco { level: 4 }, &[], Element::U16, 0, 1)));
    assert!(comes_back(&raw, &encoding(Compression::Pco { level: 4 }, &[Filter::Columns], Element::U16, 4, 3)));
}

#[test]
fn incompressible_bytes_are_stored_as_they_are_without_filters() {
    let raw = Random::new(9).bytes(60_000);
    for compression in CODECS {
        let list: &[Filter] = if matches!(compression, Compression::Pco { .. }) { &[] } else { &[Filter::Shuffle] };
        assert!(!comes_back(&raw, &encoding(compression, list, Element::F64, 0, 0)), "{compression:?}");
    }
}

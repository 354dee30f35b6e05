//! Prints what each codec and each filter makes of files, on one core, best of three: MB/s of raw bytes, and stored bytes
//! as a share of them.
//!
//! `cargo run --release -p thalweg-segment --example encoding_speed [FILE[,ELEMENT[,RECORD_LENGTH]]...]`, where ELEMENT is
//! `f64` (the default), `f32`, `u64`, `u32`, `u16` or `u8`; up to 16 MiB of each. Without files: zeros, which show
//! the filters' own speed, a smooth field of doubles, and records of seven doubles each.

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use format::{Block, BlockKind, Fingerprint};
use policy::{Compression, Element, Encoding, Filter, MAX_FILTERS};
use random::Random;
use thalweg_segment::{BLOCK_BYTES, BlockBuilder, decode};

const INPUT_BYTES: usize = 16 << 20;

const CODECS: [(&str, Compression); 16] = [
    ("zero-run", Compression::ZeroRun),
    ("lz4", Compression::LZ4),
    ("lz4:fast", Compression::Lz4 { acceleration: 8 }),
    ("lz4hc:4", Compression::Lz4Hc { level: 4 }),
    ("lz4hc:9", Compression::Lz4Hc { level: 9 }),
    ("zstd:-3", Compression::Zstd { level: -3 }),
    ("zstd:1", Compression::Zstd { level: 1 }),
    ("zstd:3", Compression::Zstd { level: 3 }),
    ("zstd:9", Compression::Zstd { level: 9 }),
    ("zlib:1", Compression::Zlib { level: 1 }),
    ("zlib:6", Compression::Zlib { level: 6 }),
    ("xz:1", Compression::Xz { level: 1 }),
    ("xz:6", Compression::Xz { level: 6 }),
    ("pco:2", Compression::Pco { level: 2 }),
    ("pco:4", Compression::Pco { level: 4 }),
    ("pco:8", Compression::Pco { level: 8 }),
];

/// Rows with filters: with a codec that is nearly free, for their own speed, and with those they are made for.
const FILTERED: [(&str, &[Filter]); 9] = [
    ("shuffle", &[Filter::Shuffle]),
    ("shuffle, bit shuffle", &[Filter::Shuffle, Filter::BitShuffle]),
    ("shuffle, byte delta", &[Filter::Shuffle, Filter::ByteDelta]),
    ("delta", &[Filter::Delta]),
    ("delta, shuffle", &[Filter::Delta, Filter::Shuffle]),
    ("xor delta, shuffle", &[Filter::XorDelta, Filter::Shuffle]),
    ("columns", &[Filter::Columns]),
    ("columns, shuffle", &[Filter::Columns, Filter::Shuffle]),
    ("columns, delta, shuffle", &[Filter::Columns, Filter::Delta, Filter::Shuffle]),
];

struct Input {
    name: String,
    bytes: Vec<u8>,
    element: Element,
    record_length: u32,
}

fn main() -> std::io::Result<()> {
    let inputs: Vec<Input> = std::env::args().skip(1).map(|argument| input(&argument)).collect::<Result<_, _>>()?;
    let inputs = if inputs.is_empty() { vec![zeros(), smooth_field(), records()] } else { inputs };
    println!("| data | filters | codec | stored | encode MB/s | decode MB/s |\n|---|---|---|---|---|---|");
    for input in &inputs {
        CODECS.iter().for_each(|(codec, compression)| row(input, "", &[], codec, *compression));
        for (filters, list) in FILTERED {
            for (codec, compression) in [("zero-run", CODECS[0].1), ("lz4", CODECS[1].1), ("zstd:1", CODECS[6].1)] {
                row(input, filters, list, codec, compression);
            }
        }
        row(input, "columns", &[Filter::Columns], "pco:4", CODECS[14].1);
    }
    Ok(())
}

/// Prints one row, unless the combination makes no sense for the data.
fn row(input: &Input, filters: &str, list: &[Filter], codec: &str, compression: Compression) {
    let mut encoding =
        Encoding { element: input.element, record_length: input.record_length, ..Encoding::plain(compression) };
    for (slot, filter) in encoding.filters.iter_mut().zip(list) {
        *slot = Some(*filter);
    }
    if list.len() > MAX_FILTERS || encoding.check().is_err() {
        return;
    }
    let mut blocks = Vec::new();
    encode_all(&input.bytes, &encoding, |block| blocks.push(block));
    let stored: usize = blocks.iter().map(|block| block.payload.len()).sum();
    let encode = speed(input.bytes.len(), || encode_all(&input.bytes, &encoding, |block| drop(black_box(block))));
    let decode = speed(input.bytes.len(), || {
        blocks.iter().map(|block| decode(block).expect("just encoded").len()).sum::<usize>()
    });
    let share = 100.0 * stored as f64 / input.bytes.len() as f64;
    println!("| {} | {filters} | {codec} | {share:.1} % | {encode:.0} | {decode:.0} |", input.name);
}

/// Passes on one block after the other, as a writer would that finishes each before the next.
fn encode_all(raw: &[u8], encoding: &Encoding, mut receive: impl FnMut(Block)) {
    let mut builder = BlockBuilder::new(BlockKind::Data, encoding.record_length);
    let unit_bytes = encoding.unit_bytes();
    for bytes in raw.chunks(BLOCK_BYTES / unit_bytes * unit_bytes) {
        builder.push(Fingerprint([0; 32]), bytes);
        receive(builder.finish_with(encoding));
    }
}

/// Returns MB/s of the best of three runs.
fn speed<T>(bytes: usize, run: impl Fn() -> T) -> f64 {
    let seconds = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    };
    bytes as f64 / (0..3).map(seconds).fold(f64::INFINITY, f64::min) / 1e6
}

fn input(argument: &str) -> std::io::Result<Input> {
    let mut parts = argument.split(',');
    let path = parts.next().expect("a split has a first part");
    let element = match parts.next() {
        Some("f32") => Element::F32,
        Some("u64") => Element::U64,
        Some("u32") => Element::U32,
        Some("u16") => Element::U16,
        Some("u8") => Element::U8,
        _ => Element::F64,
    };
    let record_length = parts.next().and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(INPUT_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(Input { name: path.rsplit('/').next().unwrap_or(path).to_owned(), bytes, element, record_length })
}

fn zeros() -> Input {
    Input { name: "zeros".into(), bytes: vec![0; INPUT_BYTES / 56 * 56], element: Element::F64, record_length: 56 }
}

fn smooth_field() -> Input {
    let mut random = Random::new(1);
    let cell = |cell: usize| 300.0 + 20.0 * (cell as f64 * 0.001).sin() + 1e-6 * (random.unit() * 1024.0).floor();
    let bytes = (0..INPUT_BYTES / 8).map(cell).flat_map(f64::to_le_bytes).collect();
    Input { name: "smooth field".into(), bytes, element: Element::F64, record_length: 0 }
}

/// Particles: a number, a place, a speed.
fn records() -> Input {
    let mut random = Random::new(2);
    let mut bytes = Vec::with_capacity(INPUT_BYTES);
    for number in 0..INPUT_BYTES / 56 {
        let at = number as f64 * 1e-3;
        let values =
            [number as f64, at.sin(), at.cos(), at, 1.0 + random.unit() * 1e-3, 2.0 - random.unit() * 1e-3, 0.5];
        bytes.extend(values.into_iter().flat_map(f64::to_le_bytes));
    }
    Input { name: "particles of 7 f64".into(), bytes, element: Element::F64, record_length: 56 }
}

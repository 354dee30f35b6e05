//! Prints how fast each stage of this crate is, on one core, best of five.
//!
//! `cargo run --release -p thalweg-segment --example segment_speed [FILE...]`: beside random bytes and an array of noisy
//! doubles, it encodes the files given, up to 32 MiB each.

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use format::{Block, BlockKind, ChunkerKind, CodecChoice, Fingerprint, FingerprintKind};
use random::Random;
use thalweg_segment::{BLOCK_BYTES, BlockBuilder, Cutter, decode, fingerprint, is_zero};

const INPUT_BYTES: usize = 32 << 20;
const SEGMENT_BYTES: usize = 8192;

fn main() -> std::io::Result<()> {
    let random = random_bytes();
    stations(&random);
    println!("\n{:36} {:>8} {:>8} {:>8}", "data, codec (GB/s of raw bytes)", "stored", "encode", "decode");
    codecs("random", &random);
    codecs("doubles, smooth with noise", &noisy_doubles());
    for path in std::env::args().skip(1) {
        let mut bytes = Vec::new();
        std::fs::File::open(&path)?.take(INPUT_BYTES as u64).read_to_end(&mut bytes)?;
        codecs(path.rsplit('/').next().unwrap_or(&path), &bytes);
    }
    Ok(())
}

fn stations(random: &[u8]) {
    let cut = || Cutter::new(ChunkerKind::Cdc, SEGMENT_BYTES as u32).cut_whole(random).len();
    println!("cut, 8 KiB mean        {:6.2} GB/s", speed(random.len(), cut));
    for kind in [FingerprintKind::Blake3, FingerprintKind::Sha256, FingerprintKind::Sha1] {
        let name = || random.chunks(SEGMENT_BYTES).map(|bytes| fingerprint(kind, bytes).low()).fold(0, |a, b| a ^ b);
        println!("{:22} {:6.2} GB/s", format!("{kind}, 8 KiB"), speed(random.len(), name));
    }
    let zeros = vec![0; BLOCK_BYTES];
    let all_zero = || (0..128).filter(|_| black_box(&zeros).chunks(SEGMENT_BYTES).all(is_zero)).count();
    println!("is_zero of zeros       {:6.2} GB/s", speed(128 * zeros.len(), all_zero));
    let none_zero = || random.chunks(SEGMENT_BYTES).filter(|bytes| is_zero(bytes)).count();
    println!("is_zero of random      {:6.2} GB/s", speed(random.len(), none_zero));
}

fn codecs(name: &str, raw: &[u8]) {
    for choice in [CodecChoice::None, CodecChoice::AUTO, CodecChoice::Lz4, CodecChoice::Zstd(1), CodecChoice::Zstd(3)] {
        let mut blocks = Vec::new();
        encode_all(raw, choice, |block| blocks.push(block));
        let stored: usize = blocks.iter().map(|block| block.payload.len()).sum();
        let encode_speed = speed(raw.len(), || encode_all(raw, choice, |block| drop(black_box(block))));
        let decode_all = || blocks.iter().map(|block| decode(block).expect("just encoded").len()).sum::<usize>();
        let share = 100.0 * stored as f64 / raw.len() as f64;
        let what = format!("{name}, {choice}");
        println!("{what:36} {share:7.1}% {encode_speed:8.3} {:8.3}", speed(raw.len(), decode_all));
    }
}

/// Passes on one block after the other, as a writer would that finishes each before the next.
fn encode_all(raw: &[u8], choice: CodecChoice, mut receive: impl FnMut(Block)) {
    let mut builder = BlockBuilder::new(BlockKind::Data, 0);
    for bytes in raw.chunks(BLOCK_BYTES) {
        bytes.chunks(SEGMENT_BYTES).for_each(|segment| builder.push(Fingerprint([0; 32]), segment));
        receive(builder.finish(choice));
    }
}

/// Returns GB/s of the best of five runs.
fn speed<T>(bytes: usize, run: impl Fn() -> T) -> f64 {
    let seconds = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    };
    bytes as f64 / (0..5).map(seconds).fold(f64::INFINITY, f64::min) / 1e9
}

fn random_bytes() -> Vec<u8> {
    Random::new(1).bytes(INPUT_BYTES)
}

fn noisy_doubles() -> Vec<u8> {
    let mut random = Random::new(1);
    let value = |cell| (300.0 + 20.0 * (cell as f64 * 0.001).sin() + 0.01 * random.unit()).to_le_bytes();
    (0..INPUT_BYTES / 8).flat_map(value).collect()
}

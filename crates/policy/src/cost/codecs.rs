//! Codecs as **Data Reduction** (Kuhn 2024) measured them on climate data.

/// What a codec makes of data: raw/stored bytes, and MB of raw bytes a second of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    pub name: &'static str,
    pub ratio: f64,
    pub compress_mb_per_s: f64,
    pub decompress_mb_per_s: f64,
}

/// No codec: bytes travel and rest as they are.
pub const NONE: Codec = codec("none", 1.0, f64::INFINITY, f64::INFINITY);
pub const LZ4_FAST: Codec = codec("lz4fast", 1.825, 2945.0, 6460.0);
pub const LZ4: Codec = codec("lz4", 1.923, 1796.0, 5178.0);
pub const ZSTD: Codec = codec("zstd", 2.326, 658.0, 2019.0);

/// All of the slide, in its order.
pub const LECTURE: [Codec; 7] = [
    LZ4_FAST,
    LZ4,
    codec("lz4hc", 2.0, 258.0, 4333.0),
    codec("lzo", 1.887, 380.0, 1938.0),
    codec("xz", 2.632, 26.0, 97.0),
    codec("zlib", 2.326, 95.0, 610.0),
    ZSTD,
];

const fn codec(name: &'static str, ratio: f64, compress_mb_per_s: f64, decompress_mb_per_s: f64) -> Codec {
    Codec { name, ratio, compress_mb_per_s, decompress_mb_per_s }
}

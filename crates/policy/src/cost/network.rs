//! What a link brings when bytes are compressed before it: **Data Reduction** (Kuhn 2024), its figures of FDR and QDR.

use super::codecs::Codec;

/// A kind of link: Gbit/s of payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub name: &'static str,
    pub gbit_per_s: f64,
}

/// InfiniBand of four lanes, and Ethernet beside it.
pub const LINKS: [Link; 6] = [
    Link { name: "1 GbE", gbit_per_s: 1.0 },
    Link { name: "10 GbE", gbit_per_s: 10.0 },
    Link { name: "QDR", gbit_per_s: 32.0 },
    FDR,
    Link { name: "EDR", gbit_per_s: 100.0 },
    Link { name: "HDR", gbit_per_s: 200.0 },
];
pub const FDR: Link = Link { name: "FDR", gbit_per_s: 54.0 };

/// Cores of a node that compress. The slide does not say how many; with 24, two processors of 12, zstd is the limit
/// from 54 Gbit/s on, as it says.
pub const NODE_CORES: f64 = 24.0;

/// Gbit/s of raw bytes from node to node: what the link carries, but no more than the sender's cores compress and the
/// receiver's decompress.
pub fn effective_gbit_per_s(link_gbit_per_s: f64, codec: &Codec, cores: f64) -> f64 {
    (link_gbit_per_s * codec.ratio).min(processor_gbit_per_s(codec, cores))
}

/// Gbit/s of the link from which on processors are the limit, so that a faster link gains nothing.
pub fn fastest_useful_link_gbit_per_s(codec: &Codec, cores: f64) -> f64 {
    processor_gbit_per_s(codec, cores) / codec.ratio
}

/// Gbit/s of raw bytes that the slower end's cores compress or decompress; a link that is faster than this does without
/// the codec.
pub fn processor_gbit_per_s(codec: &Codec, cores: f64) -> f64 {
    const GBIT_PER_MB: f64 = 8.0 / 1000.0;
    codec.compress_mb_per_s.min(codec.decompress_mb_per_s) * cores * GBIT_PER_MB
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::codecs::{LZ4_FAST, NONE, ZSTD};
    use crate::cost::printed::assert_printed;

    #[test]
    fn fdr_brings_100_gbit_with_lz4fast_and_125_with_zstd() {
        let over_fdr = |codec| effective_gbit_per_s(FDR.gbit_per_s, codec, NODE_CORES);
        assert_printed(over_fdr(&LZ4_FAST), 100.0, 5.0, "lz4fast over FDR");
        assert_printed(over_fdr(&ZSTD), 125.0, 5.0, "zstd over FDR");
        assert_eq!(over_fdr(&NONE), 54.0);
    }

    #[test]
    fn qdr_with_lz4fast_replaces_fdr() {
        assert!(effective_gbit_per_s(32.0, &LZ4_FAST, NODE_CORES) > FDR.gbit_per_s);
    }

    #[test]
    fn zstd_is_the_limit_above_54_gbit_and_slower_than_nothing_above_126() {
        assert_printed(fastest_useful_link_gbit_per_s(&ZSTD, NODE_CORES), 54.0, 1.0, "the slide's threshold");
        assert_printed(processor_gbit_per_s(&ZSTD, NODE_CORES), 126.0, 1.0, "the equation's");
        assert!(effective_gbit_per_s(100.0, &ZSTD, NODE_CORES) > 100.0);
        assert!(effective_gbit_per_s(200.0, &ZSTD, NODE_CORES) < 200.0);
    }

    #[test]
    fn the_slower_end_counts() {
        let slow_receiver = Codec { decompress_mb_per_s: 10.0, ..LZ4_FAST };
        assert!((effective_gbit_per_s(54.0, &slow_receiver, 1.0) - 0.08).abs() < 1e-12);
    }
}

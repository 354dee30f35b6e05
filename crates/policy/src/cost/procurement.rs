//! A storage system of 50 PB, bought with compression in mind: **Data Reduction** (Kuhn 2024), scenarios S1 and S2, after
//! Kuhn, Kunkel, Ludwig, "Data Compression for Climate Data" (2016).
//!
//! The slides print totals and no prices. Two prices follow from two of the totals, and the third total from them; cores
//! and throughput of a server are chosen to give the loss that the slide prints for zstd.

use super::codecs::Codec;

/// What is to be stored, in PB.
pub const CAPACITY_PB: f64 = 50.0;

/// What is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// S1: as many servers as the compressed capacity needs, each with all its disks: lower costs, lower throughput.
    FewServers,
    /// S2: the servers of the system without compression, with fewer disks: higher costs, higher throughput.
    AllServers,
}

/// A storage server and its disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    pub cost_eur: f64,
    /// Disks with their enclosures.
    pub disk_eur_per_tb: f64,
    pub max_pb: f64,
    pub gb_per_s: f64,
    pub cores: f64,
}

/// 50 of these with 1 PB each cost 6.0 M€; with lz4 3.5 M€ in S2.
pub const LECTURE: Server =
    Server { cost_eur: 16_000.0, disk_eur_per_tb: 104.0, max_pb: 1.0, gb_per_s: 5.66, cores: 8.0 };

/// A system as bought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purchase {
    pub servers: f64,
    pub disk_pb: f64,
    pub cost_million_eur: f64,
    pub gb_per_s: f64,
}

/// Returns what so many PB of raw data take in a scenario, if the servers compress all of it by `codec`.
pub fn purchase(scenario: Scenario, capacity_pb: f64, codec: &Codec, server: &Server) -> Purchase {
    let stored_pb = capacity_pb / codec.ratio;
    let (servers, disk_pb) = match scenario {
        Scenario::FewServers => {
            let servers = (stored_pb / server.max_pb).ceil();
            (servers, servers * server.max_pb)
        }
        Scenario::AllServers => ((capacity_pb / server.max_pb).ceil(), stored_pb),
    };
    let cost_eur = servers * server.cost_eur + disk_pb * 1000.0 * server.disk_eur_per_tb;
    let server_gb_per_s = server.gb_per_s.min(server.cores * codec.compress_mb_per_s / 1000.0);
    Purchase { servers, disk_pb, cost_million_eur: cost_eur / 1e6, gb_per_s: servers * server_gb_per_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::codecs::{LZ4, LZ4_FAST, NONE, ZSTD};
    use crate::cost::printed::assert_printed;

    fn bought(scenario: Scenario, codec: &Codec) -> Purchase {
        purchase(scenario, CAPACITY_PB, codec, &LECTURE)
    }

    #[test]
    fn costs_of_50_servers_are_those_of_the_slide() {
        for (codec, million_eur) in [(NONE, 6.0), (LZ4, 3.5), (ZSTD, 3.0)] {
            let purchase = bought(Scenario::AllServers, &codec);
            assert_printed(purchase.cost_million_eur, million_eur, 0.1, codec.name);
            assert_eq!(purchase.servers, 50.0);
        }
    }

    /// The slide gives 3.5 M€ for lz4 and lz4fast together, to half a million.
    #[test]
    fn lz4fast_costs_a_little_more_than_lz4() {
        let cost = bought(Scenario::AllServers, &LZ4_FAST).cost_million_eur;
        assert_printed(cost, 3.5, 0.5, "lz4fast");
        assert_printed(cost, 3.6, 0.1, "lz4fast");
    }

    #[test]
    fn zstd_loses_20_gb_per_s_of_throughput_and_lz4_none() {
        let plain = bought(Scenario::AllServers, &NONE).gb_per_s;
        let lost = |codec| plain - bought(Scenario::AllServers, codec).gb_per_s;
        assert_printed(lost(&ZSTD), 20.0, 1.0, "GB/s lost with zstd");
        assert_eq!((lost(&LZ4), lost(&LZ4_FAST)), (0.0, 0.0));
    }

    #[test]
    fn few_servers_cost_less_and_bring_less() {
        assert_eq!(bought(Scenario::FewServers, &NONE), bought(Scenario::AllServers, &NONE));
        for codec in [LZ4, LZ4_FAST, ZSTD] {
            let (few, all) = (bought(Scenario::FewServers, &codec), bought(Scenario::AllServers, &codec));
            assert!(few.cost_million_eur < all.cost_million_eur && few.gb_per_s < all.gb_per_s, "{few:?} {all:?}");
            assert!(few.disk_pb * codec.ratio >= CAPACITY_PB);
        }
    }
}

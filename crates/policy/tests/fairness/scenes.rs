//! The set-ups the tests share.

use thalweg_policy::fairness::{Depth, Kind, Settings};

use crate::simulator::*;

pub const LINK: Work = Work::Link { rate: 100.0 * MB_PER_S, latency_ns: 200_000 };
pub const BRICK: Work = Work::Link { rate: 25.0 * MB_PER_S, latency_ns: 200_000 };

/// A brick of `bench/gate`: blkio before a loop device, whose bytes go in bursts every 100 ms.
pub const BURSTS: Work = Work::Bursts { rate: 15.0 * MB_PER_S, slice_ns: 100 * MS, call_ns: 1_500_000 };

/// Clients behind FUSE.
pub const SLOW: Think = Think { min_ns: 500_000, max_ns: 3_000_000, hiccup_one_in: 0, hiccup_ns: 0 };

/// Turnarounds of clients that do little else, and of clients that are held up now and then.
pub const NORMAL: Think = Think { min_ns: 200_000, max_ns: 400_000, hiccup_one_in: 0, hiccup_ns: 0 };
pub const ROUGH: Think = Think { min_ns: 200_000, max_ns: 3_000_000, hiccup_one_in: 100, hiccup_ns: 15_000_000 };

pub fn settings(kind: Kind) -> Settings {
    Settings { kind, ..Settings::default() }
}

pub fn fixed(kind: Kind, depth_bytes: u64) -> Settings {
    Settings { kind, depth: Depth::Bytes(depth_bytes), ..Settings::default() }
}

/// One server, the anticipating scheduler, 20 s after 2 s of warm-up.
pub fn scene(weights: &[u32], clients: Vec<Client>) -> Scene {
    Scene {
        settings: settings(Kind::Anticipating),
        weights: weights.to_vec(),
        groups: Vec::new(),
        group_of: Vec::new(),
        servers: vec![LINK],
        changes: Vec::new(),
        clients,
        exchange_ns: 0,
        warm_up_ns: 2 * S,
        run_ns: 20 * S,
        give_back_ns: 0,
        seed: 1,
    }
}

/// Clients with a single request outstanding each.
pub fn crowd(application: usize, count: usize, bytes: u64, think: Think, servers: &[usize]) -> Vec<Client> {
    let one = Client { think, servers: servers.to_vec(), ..Client::new(application, 1, bytes) };
    vec![one; count]
}

/// `outstanding` requests kept at each server by one client of the application.
pub fn at_each(application: usize, outstanding: usize, bytes: u64, think: Think, servers: &[usize]) -> Vec<Client> {
    let client =
        |&server: &usize| Client { think, servers: vec![server], ..Client::new(application, outstanding, bytes) };
    servers.iter().map(client).collect()
}

//! The constants of the simulated cluster: the source's testbed, in one place, the same for every policy.
//!
//! docs/simulation.md has this table with the origin of each row.

use policy::placement::Costs;

/// Rates in bytes per second, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testbed {
    pub nodes: u32,
    pub cpus_per_node: u32,
    pub cache_bytes: u64,
    /// The shared store, all readers together.
    pub store_bytes_per_s: f64,
    /// The shared store to one reader.
    pub store_reader_bytes_per_s: f64,
    /// One reader from one peer.
    pub peer_bytes_per_s: f64,
    /// One reader from its node's own disk or memory.
    pub local_bytes_per_s: f64,
    /// One writer to its node's own disk or memory.
    pub local_write_bytes_per_s: f64,
    /// A node's interface, each way.
    pub link_bytes_per_s: f64,
    /// The slot time of a task beside reading and computing.
    pub dispatch_s: f64,
    /// A node asked for comes after a time drawn evenly from these.
    pub allocation_s: (f64, f64),
}

/// Gigabytes of cache a node when none are named.
pub const CACHE_GB: f64 = 4.0;

/// How nodes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// All from the start to the end.
    Static,
    Dynamic,
}

impl Testbed {
    /// ANL/UC TeraGrid as the monotonic workload met it: 64 nodes of 2, GPFS at 560 MB/s.
    pub fn monotonic() -> Self {
        Testbed {
            nodes: 64,
            cpus_per_node: 2,
            cache_bytes: (CACHE_GB * 1e9) as u64,
            store_bytes_per_s: 560e6,
            store_reader_bytes_per_s: 100e6,
            peer_bytes_per_s: 50e6,
            local_bytes_per_s: 100e6,
            local_write_bytes_per_s: 50e6,
            link_bytes_per_s: 125e6,
            dispatch_s: 0.0024,
            allocation_s: (30.0, 60.0),
        }
    }

    /// As the sine workload met it: 100 nodes of 2, 1000 MB/s, caches of 50 GB.
    pub fn sine() -> Self {
        Testbed { nodes: 100, cache_bytes: 50_000_000_000, store_bytes_per_s: 1000e6, ..Testbed::monotonic() }
    }

    /// For all pairs: the same nodes, as many as there are CPUs.
    pub fn all_pairs(cpus: u32) -> Self {
        let cpus_per_node = Testbed::monotonic().cpus_per_node;
        Testbed { nodes: cpus.div_ceil(cpus_per_node), ..Testbed::sine() }
    }

    pub fn slots(&self) -> u32 {
        self.nodes * self.cpus_per_node
    }

    pub fn costs(&self) -> Costs {
        Costs {
            store_bytes_per_s: self.store_bytes_per_s,
            store_reader_bytes_per_s: self.store_reader_bytes_per_s,
            peer_bytes_per_s: self.peer_bytes_per_s,
            local_bytes_per_s: self.local_bytes_per_s,
            link_bytes_per_s: self.link_bytes_per_s,
        }
    }
}

//! The machine that a plan is for: nodes that write, their network, the storage that they share, and what they run.
//!
//! The defaults are the lecture's system of 2015 (`system::LECTURE`) with the network that it had (`network::FDR`); what no
//! source gives is marked as assumed.

use super::network::{FDR, NODE_CORES};
use super::recomputation::EUR_PER_TB_YEAR;
use super::system::LECTURE;

/// A described or measured machine; all above 0 where nothing else is said. MB and GB are powers of ten.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Nodes that compute and write.
    pub nodes: f64,
    /// Cores of a node.
    pub cores: f64,
    /// Cores of a node that its program leaves alone; 0 where it takes all.
    pub idle_cores: f64,
    /// What a core cuts and fingerprints.
    pub fingerprint_mb_per_s: f64,
    /// What a core encodes, relative to a core of the machine that plans.
    pub core_speed: f64,
    /// A node with all that belongs to it, idle or not.
    pub node_watts: f64,
    /// A busy core, above an idle one.
    pub core_watts: f64,
    /// Network and storage for a stored byte.
    pub stored_nanojoules: f64,
    /// What a node sends.
    pub link_mb_per_s: f64,
    /// What a node receives.
    pub receive_mb_per_s: f64,
    /// What the storage takes of all nodes together.
    pub storage_mb_per_s: f64,
    /// What the storage takes of one node alone.
    pub node_storage_mb_per_s: f64,
    /// Data that are to be kept, before any reduction.
    pub kept_tb: f64,
    /// Today's price of storage.
    pub eur_per_tb_year: f64,
    pub program: Program,
}

/// What the nodes run: phases of computation, each followed by writing.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What a phase computes before it writes (s).
    pub compute_s: f64,
    /// What all nodes write in a phase.
    pub written_gb: f64,
    pub phases: f64,
}

impl Default for Machine {
    fn default() -> Self {
        let [_, system, ..] = LECTURE;
        Machine {
            nodes: system.nodes,
            cores: NODE_CORES,
            idle_cores: 0.0,
            // As `reduction::Conditions::UNKNOWN` has it.
            fingerprint_mb_per_s: 2000.0,
            core_speed: 1.0,
            node_watts: system.power_mw * 1e6 / system.nodes,
            // As mode `energy` has them.
            core_watts: 10.0,
            stored_nanojoules: 200.0,
            link_mb_per_s: FDR.gbit_per_s * 1000.0 / 8.0,
            receive_mb_per_s: FDR.gbit_per_s * 1000.0 / 8.0,
            storage_mb_per_s: system.storage_gb_per_s * 1000.0,
            // Assumed: a client of a parallel file system that writes alone.
            node_storage_mb_per_s: 1000.0,
            kept_tb: system.storage_pb * 1000.0,
            eur_per_tb_year: EUR_PER_TB_YEAR,
            // Assumed: half of the memory is written each hour, for a day.
            program: Program { compute_s: 3600.0, written_gb: system.memory_tb * 1000.0 / 2.0, phases: 24.0 },
        }
    }
}

impl Machine {
    pub fn written_mb(&self) -> f64 {
        self.program.written_gb * 1000.0
    }

    /// Returns the MB/s that the storage takes when so many nodes write at once.
    pub fn storage_mb_per_s_of(&self, writers: f64) -> f64 {
        (writers * self.node_storage_mb_per_s).min(self.storage_mb_per_s)
    }
}

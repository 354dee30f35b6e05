//! The cost of fetching, from the rates of store, peers and local disks; measured or known, all above zero.

/// Rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The shared store to all its readers together.
    pub store_bytes_per_s: f64,
    /// The shared store to one reader.
    pub store_reader_bytes_per_s: f64,
    /// One worker's cache to another worker.
    pub peer_bytes_per_s: f64,
    /// A worker's cache to itself.
    pub local_bytes_per_s: f64,
    /// A worker's link, shared by all it sends.
    pub link_bytes_per_s: f64,
}

/// This many times the readers that saturate the store: one's pause is another's work.
const STORE_CROWD: f64 = 2.0;

impl Costs {
    /// Returns how long a task of this input waits for a worker that has it: as long as running elsewhere would lose. A
    /// task that waits so loses at most twice what the best choice in hindsight loses (ski rental; Karlin et al. 1988).
    pub fn max_wait_s(&self, input_bytes: u64) -> f64 {
        input_bytes as f64 * (1.0 / self.peer_bytes_per_s - 1.0 / self.local_bytes_per_s).max(0.0)
    }

    /// More readers than this only slow each other down, and hold slots meanwhile.
    pub fn store_readers(&self) -> u32 {
        (self.store_bytes_per_s / self.store_reader_bytes_per_s * STORE_CROWD).ceil().max(1.0) as u32
    }

    /// Returns the readers a worker serves without their slowing each other down.
    pub fn peer_readers(&self) -> u32 {
        (self.link_bytes_per_s / self.peer_bytes_per_s).floor().max(1.0) as u32
    }
}

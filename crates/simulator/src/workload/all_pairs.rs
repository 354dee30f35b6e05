//! All pairs: every file of one set with every file of another, all known at once; files of 12 MB.

use policy::cache::ItemId;

use super::{Workload, WorkloadTask};

const FILE_BYTES: u64 = 12_000_000;

/// Two sets of `side` files; the source has 500 (100 ms or 1 s) and 1000 (4 s).
pub fn all_pairs(side: u32, compute_s: f64) -> Workload {
    let mut workload = Workload::new("all-pairs", vec![FILE_BYTES; 2 * side as usize]);
    workload.is_batch = true;
    for row in 0..side {
        for column in 0..side {
            let inputs = &[ItemId(row), ItemId(side + column)];
            workload.push(WorkloadTask { submitted_s: 0.0, compute_s, inputs, outputs: &[] });
        }
    }
    workload
}

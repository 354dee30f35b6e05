//! Image stacking: objects cut out of sky files, each object in one file of 2 MB (compressed FITS) and taking 100 ms. An
//! object list of locality L is its files replayed L times end to end, so that LRU below the whole set finds nothing.

use policy::cache::ItemId;

use super::{Workload, WorkloadTask};

/// Locality, objects, files: the source's table.
pub const STACKING: [(f64, u32, u32); 9] = [
    (1.0, 111_700, 111_700),
    (1.38, 154_345, 111_699),
    (2.0, 97_999, 49_000),
    (3.0, 88_857, 29_620),
    (4.0, 76_575, 19_145),
    (5.0, 60_590, 12_120),
    (10.0, 46_480, 4_650),
    (20.0, 40_460, 2_025),
    (30.0, 23_695, 790),
];

const FILE_BYTES: u64 = 2_000_000;
const COMPUTE_S: f64 = 0.1;

/// Returns the row of the table nearest to this locality.
pub fn stacking(locality: f64) -> Workload {
    let distance = |row: &(f64, u32, u32)| (row.0 - locality).abs();
    let nearest = STACKING.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let (_, objects, files) = nearest.expect("the table has rows");
    let mut workload = Workload::new("stacking", vec![FILE_BYTES; files as usize]);
    workload.is_batch = true;
    for object in 0..objects {
        let inputs = &[ItemId(object % files)];
        workload.push(WorkloadTask { submitted_s: 0.0, compute_s: COMPUTE_S, inputs, outputs: &[] });
    }
    workload
}

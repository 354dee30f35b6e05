//! Monotonically increasing: 1 task a second, every 60 s 1.3 times as many, rounded up, to 1000; 250 000 tasks that
//! read one of 10 000 files of 10 MB, drawn evenly, and compute for 10 ms. All are submitted after 1414.9 s.

use policy::cache::ItemId;

use super::{Workload, WorkloadTask};
use crate::Random;

const FILES: u32 = 10_000;
const FILE_BYTES: u64 = 10_000_000;
const COMPUTE_S: f64 = 0.01;
const STEP_S: f64 = 60.0;
const MAX_PER_S: f64 = 1000.0;

/// The source has 250 000 `tasks`.
pub fn monotonic(tasks: usize, seed: u64) -> Workload {
    let mut workload = Workload::new("monotonic", vec![FILE_BYTES; FILES as usize]);
    let mut random = Random::new(seed);
    let (mut per_s, mut step) = (1.0f64, 0.0);
    while workload.len() < tasks {
        let count = (per_s * STEP_S) as usize;
        for at in 0..count.min(tasks - workload.len()) {
            let submitted_s = step * STEP_S + at as f64 / per_s;
            let inputs = &[ItemId(random.below(FILES))];
            workload.push(WorkloadTask { submitted_s, compute_s: COMPUTE_S, inputs, outputs: &[] });
        }
        per_s = (per_s * 1.3).ceil().min(MAX_PER_S);
        step += 1.0;
    }
    workload
}

//! The scheduler's profile: tasks that read one of 100 000 files of one byte and write another, so that only decisions
//! cost anything.

use policy::cache::ItemId;

use super::{Workload, WorkloadTask};
use crate::Random;

const FILES: u32 = 100_000;

pub fn profile(tasks: usize, seed: u64) -> Workload {
    let mut workload = Workload::new("profile", vec![1; FILES as usize]);
    let mut random = Random::new(seed);
    for _ in 0..tasks {
        let (inputs, outputs) = (&[ItemId(random.below(FILES))], &[ItemId(random.below(FILES))]);
        workload.push(WorkloadTask { submitted_s: 0.0, compute_s: 0.0, inputs, outputs });
    }
    workload
}

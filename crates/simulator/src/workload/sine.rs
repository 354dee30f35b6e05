//! Sine wave: A(t) = min(1000, ⌊(sin(2.859678·√(t + 0.11)) + 1)·(t + 0.11)·5.705⌋) tasks a second, t in minutes,
//! computed each second; 2 million tasks that read one of 100 000 files of 10 MB and compute for 10 ms. The slide's
//! print of the formula is garbled; this form, of the release, gives the slide's ideal of 6505 s.

use policy::cache::ItemId;

use super::{Workload, WorkloadTask};
use crate::Random;

const FILES: u32 = 100_000;
const FILE_BYTES: u64 = 10_000_000;
const COMPUTE_S: f64 = 0.01;

/// The source has 2 000 000 `tasks`.
pub fn sine(tasks: usize, seed: u64) -> Workload {
    let mut workload = Workload::new("sine", vec![FILE_BYTES; FILES as usize]);
    let mut random = Random::new(seed);
    for second in 0.. {
        let count = per_second(f64::from(second) / 60.0);
        for at in 0..count.min(tasks - workload.len()) {
            let submitted_s = f64::from(second) + at as f64 / count as f64;
            let inputs = &[ItemId(random.below(FILES))];
            workload.push(WorkloadTask { submitted_s, compute_s: COMPUTE_S, inputs, outputs: &[] });
        }
        if workload.len() == tasks {
            break;
        }
    }
    workload
}

fn per_second(minutes: f64) -> usize {
    let t = minutes + 0.11;
    (((2.859678 * t.sqrt()).sin() + 1.0) * t * 5.705).floor().min(1000.0) as usize
}

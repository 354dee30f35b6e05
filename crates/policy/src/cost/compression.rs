//! What compression costs a whole system: **Data Reduction** (Kuhn 2024), its table of compression.

use super::deduplication::{Change, STORAGE_POWER_MW};
use super::system::System;

/// The lecture's ratio of lz4.
pub const LZ4_RATIO: f64 = 1.5;

/// More power of the storage, which the lecture calls pessimistic. Runtimes and processors stay as they are.
const ADDED_POWER_SHARE: f64 = 0.1;

/// A system's own figures, and what compression adds to each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub storage_pb: Change,
    pub power_mw: Change,
}

/// All of the system's storage is bought, and a ratio of raw to stored bytes adds to its capacity.
pub fn added_capacity(system: &System, ratio: f64) -> Outcome {
    Outcome {
        storage_pb: Change { bought: system.storage_pb, added: system.storage_pb * (ratio - 1.0) },
        power_mw: Change { bought: system.power_mw, added: STORAGE_POWER_MW * ADDED_POWER_SHARE },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;
    use crate::cost::system::LECTURE;

    #[test]
    fn added_capacity_is_that_of_the_slide() {
        let slide = [(2.8, 0.1), (22.5, 0.1), (135.0, 1.0), (800.0, 100.0)];
        for (system, (added_pb, digit)) in LECTURE.iter().zip(slide) {
            let outcome = added_capacity(system, LZ4_RATIO);
            assert_printed(outcome.storage_pb.added, added_pb, digit, "PB");
            assert_printed(outcome.power_mw.added, 0.025, 0.001, "MW");
            assert_eq!(outcome.storage_pb.bought, system.storage_pb);
        }
    }
}

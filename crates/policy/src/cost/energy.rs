//! Energy of a run with compression: **Data Reduction** (Kuhn 2024), the modified IOR benchmark.

/// Runtime and power relative to a run without compression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub codec: &'static str,
    pub runtime: f64,
    pub power: f64,
}

/// The slide's measurements.
pub const MODIFIED_IOR: [Run; 3] = [
    Run { codec: "none", runtime: 1.0, power: 1.0 },
    Run { codec: "lz4", runtime: 0.92, power: 1.01 },
    Run { codec: "gzip-1", runtime: 0.92, power: 1.10 },
];

impl Run {
    /// Returns the energy relative to a run without compression.
    pub fn energy(&self) -> f64 {
        self.runtime * self.power
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;

    #[test]
    fn energy_is_that_of_the_slide() {
        for (run, printed) in MODIFIED_IOR.iter().zip([1.0, 0.93, 1.01]) {
            assert_printed(run.energy(), printed, 0.01, run.codec);
        }
    }
}

//! A computing centre over the years: **Data Reduction** (Kuhn 2024), the table of hardware from 2009 to 2025, and how it
//! goes on if the last five years repeat themselves.

/// A system as it is bought in a year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    pub year: u16,
    pub performance_pf: f64,
    pub nodes: f64,
    pub node_performance_tf: f64,
    pub memory_tb: f64,
    pub storage_pb: f64,
    pub storage_gb_per_s: f64,
    pub disks: f64,
    pub archive_pb: f64,
    pub archive_gb_per_s: f64,
    pub power_mw: f64,
    pub cost_million_eur: f64,
}

/// The lecture's systems: 2009 and 2015 as bought, 2020 and 2025 as it extrapolates.
pub const LECTURE: [System; 4] = [
    System {
        year: 2009,
        performance_pf: 0.15,
        nodes: 264.0,
        node_performance_tf: 0.6,
        memory_tb: 20.0,
        storage_pb: 5.6,
        storage_gb_per_s: 30.0,
        disks: 7200.0,
        archive_pb: 53.0,
        archive_gb_per_s: 9.6,
        power_mw: 1.6,
        cost_million_eur: 30.0,
    },
    System {
        year: 2015,
        performance_pf: 3.0,
        nodes: 2500.0,
        node_performance_tf: 1.2,
        memory_tb: 170.0,
        storage_pb: 45.0,
        storage_gb_per_s: 400.0,
        disks: 8500.0,
        archive_pb: 335.0,
        archive_gb_per_s: 21.0,
        power_mw: 1.4,
        cost_million_eur: 30.0,
    },
    System {
        year: 2020,
        performance_pf: 60.0,
        nodes: 12_500.0,
        node_performance_tf: 4.8,
        memory_tb: 1500.0,
        storage_pb: 270.0,
        storage_gb_per_s: 2500.0,
        disks: 10_000.0,
        archive_pb: 1300.0,
        archive_gb_per_s: 57.0,
        power_mw: 1.4,
        cost_million_eur: 30.0,
    },
    System {
        year: 2025,
        performance_pf: 1200.0,
        nodes: 31_250.0,
        node_performance_tf: 38.4,
        memory_tb: 12_800.0,
        storage_pb: 1600.0,
        storage_gb_per_s: 15_000.0,
        disks: 12_000.0,
        archive_pb: 5400.0,
        archive_gb_per_s: 128.0,
        power_mw: 1.4,
        cost_million_eur: 30.0,
    },
];

/// Factors of ten years by the lecture: computation (after the TOP500), storage capacity, storage throughput.
pub const COMPUTATION_PER_DECADE: f64 = 300.0;
pub const CAPACITY_PER_DECADE: f64 = 100.0;
pub const THROUGHPUT_PER_DECADE: f64 = 20.0;

/// Returns how much something has grown after so many years.
pub fn growth(per_decade: f64, years: f64) -> f64 {
    per_decade.powf(years / 10.0)
}

impl System {
    /// Returns the lecture's four, then 2030 and 2035 as extrapolated.
    pub fn series() -> Vec<System> {
        LECTURE.into_iter().chain([2030, 2035].map(System::extrapolated)).collect()
    }

    /// Tells whether the lecture does not go so far.
    pub fn is_extrapolated(&self) -> bool {
        self.year > LECTURE[3].year
    }

    /// Returns a later year's system, if each figure goes on growing by its factor from 2020 to 2025.
    pub fn extrapolated(year: u16) -> System {
        let [.., before, last] = LECTURE;
        let periods = (f64::from(year) - f64::from(last.year)) / f64::from(last.year - before.year);
        let later = |of: fn(&System) -> f64| of(&last) * (of(&last) / of(&before)).powf(periods);
        System {
            year,
            performance_pf: later(|system| system.performance_pf),
            nodes: later(|system| system.nodes),
            node_performance_tf: later(|system| system.node_performance_tf),
            memory_tb: later(|system| system.memory_tb),
            storage_pb: later(|system| system.storage_pb),
            storage_gb_per_s: later(|system| system.storage_gb_per_s),
            disks: later(|system| system.disks),
            archive_pb: later(|system| system.archive_pb),
            archive_gb_per_s: later(|system| system.archive_gb_per_s),
            power_mw: later(|system| system.power_mw),
            cost_million_eur: later(|system| system.cost_million_eur),
        }
    }

    /// Returns all figures in the lecture's order.
    pub fn figures(&self) -> [f64; 11] {
        [
            self.performance_pf,
            self.nodes,
            self.node_performance_tf,
            self.memory_tb,
            self.storage_pb,
            self.storage_gb_per_s,
            self.disks,
            self.archive_pb,
            self.archive_gb_per_s,
            self.power_mw,
            self.cost_million_eur,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;

    #[test]
    fn factors_from_2009_to_2015_are_those_of_the_slide() {
        let printed = [20.0, 9.5, 2.0, 8.5, 8.0, 13.3, 1.2, 6.3, 2.2, 0.9, 1.0];
        let digit = [1.0, 0.1, 1.0, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 1.0];
        let (before, after) = (LECTURE[0].figures(), LECTURE[1].figures());
        for at in 0..printed.len() {
            assert_printed(after[at] / before[at], printed[at], digit[at], &format!("factor of row {at}"));
        }
    }

    #[test]
    fn a_nodes_performance_is_that_of_all_divided_by_their_number() {
        for system in LECTURE {
            let tf = system.performance_pf * 1000.0 / system.nodes;
            assert_printed(tf, system.node_performance_tf, 0.1, "TF/s a node");
        }
    }

    /// The other rows do not follow from the slide's factors: docs/models.md.
    #[test]
    fn the_slides_extrapolation_takes_its_factors_for_performance_memory_and_disks() {
        let [_, second, third, fourth] = LECTURE;
        assert_eq!((second.performance_pf * 20.0, third.performance_pf * 20.0), (60.0, 1200.0));
        assert_printed(third.memory_tb * 8.5, fourth.memory_tb, 100.0, "TB of memory in 2025");
        assert_printed(second.disks * 1.2, third.disks, 1000.0, "disks in 2020");
        assert_printed(third.disks * 1.2, fourth.disks, 1000.0, "disks in 2025");
        assert_printed(second.storage_pb * 6.0, third.storage_pb, 10.0, "storage grows sixfold, not eightfold");
        assert_printed(third.storage_pb * 6.0, fourth.storage_pb, 100.0, "storage in 2025");
        assert_printed(third.storage_gb_per_s * 6.0, fourth.storage_gb_per_s, 1000.0, "throughput grows sixfold");
    }

    #[test]
    fn the_extrapolation_repeats_the_last_five_years() {
        let [.., before, last] = LECTURE;
        assert_eq!(System::extrapolated(2025), last);
        let later = System::extrapolated(2030);
        assert!((later.storage_pb - last.storage_pb * last.storage_pb / before.storage_pb).abs() < 1e-6);
        assert_eq!((later.power_mw, later.cost_million_eur), (1.4, 30.0));
        assert!(later.is_extrapolated() && !last.is_extrapolated());
        let years: Vec<u16> = System::series().iter().map(|system| system.year).collect();
        assert_eq!(years, [2009, 2015, 2020, 2025, 2030, 2035]);
    }

    #[test]
    fn growth_of_a_decade_is_its_factor() {
        assert!((growth(CAPACITY_PER_DECADE, 10.0) - 100.0).abs() < 1e-9);
        assert!((growth(THROUGHPUT_PER_DECADE, 5.0).powi(2) - 20.0).abs() < 1e-9);
        assert!(growth(COMPUTATION_PER_DECADE, 3.0) > growth(CAPACITY_PER_DECADE, 3.0));
    }
}

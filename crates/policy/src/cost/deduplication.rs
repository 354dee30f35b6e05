//! What deduplication costs a whole system: **Data Reduction** (Kuhn 2024), its two tables of deduplication, after Kunkel,
//! Kuhn, Ludwig, "Exascale Storage Systems" (2014).

use super::dedup_table::Table;
use super::system::System;

/// The lecture's optimistic savings: bytes gained for each byte that is bought.
pub const SAVINGS: f64 = 0.3;

/// Shares of the system's first memory in its costs and in its power; they follow from the slides' figures.
const MEMORY_COST_SHARE: f64 = 0.05;
const MEMORY_POWER_SHARE: f64 = 0.09;

/// Storage's share of procurement costs, which follows from 28.27 M€; another slide says 20 % for all costs.
const STORAGE_COST_SHARE: f64 = 0.25;

/// What the storage takes in any year; the slide about compression gives it.
pub const STORAGE_POWER_MW: f64 = 0.25;

/// A system's own figures, and what deduplication adds to each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub storage_pb: Change,
    pub memory_tb: Change,
    pub power_mw: Change,
    pub cost_million_eur: Change,
}

/// A slide's `5.6 + 1.68`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub bought: f64,
    pub added: f64,
}

impl Change {
    pub fn total(&self) -> f64 {
        self.bought + self.added
    }
}

/// All of the system's storage is bought, and deduplication adds to its capacity.
pub fn added_capacity(system: &System, savings: f64, table: &Table) -> Outcome {
    outcome(system, system.storage_pb, (system.power_mw, system.cost_million_eur), savings, table)
}

/// So much less storage is bought that deduplication makes up for it.
pub fn same_capacity(system: &System, savings: f64, table: &Table) -> Outcome {
    let bought_pb = system.storage_pb / (1.0 + savings);
    let left_out = 1.0 - 1.0 / (1.0 + savings);
    let power_mw = system.power_mw - STORAGE_POWER_MW * left_out;
    let cost = system.cost_million_eur * (1.0 - STORAGE_COST_SHARE * left_out);
    outcome(system, bought_pb, (power_mw, cost), savings, table)
}

/// The table is for what is bought; its memory costs and takes as much as the system's first memory does.
fn outcome(system: &System, bought_pb: f64, (power, cost): (f64, f64), savings: f64, table: &Table) -> Outcome {
    let table_tb = table.memory_bytes(bought_pb * 1000.0);
    let more_memory = table_tb / system.memory_tb;
    let change = |bought, added| Change { bought, added };
    Outcome {
        storage_pb: change(bought_pb, bought_pb * savings),
        memory_tb: change(system.memory_tb, table_tb),
        power_mw: change(power, MEMORY_POWER_SHARE * system.power_mw * more_memory),
        cost_million_eur: change(cost, MEMORY_COST_SHARE * system.cost_million_eur * more_memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::dedup_table::{LECTURE as TABLE, OURS};
    use crate::cost::printed::assert_printed;
    use crate::cost::system::LECTURE;

    /// A slide's figure: bought, added, and what the last digit of each stands for.
    type Printed = [f64; 4];

    fn assert_change(change: Change, [bought, added, bought_digit, added_digit]: Printed, what: &str) {
        assert_printed(change.bought, bought, bought_digit, what);
        assert_printed(change.added, added, added_digit, what);
    }

    /// Storage in PB, memory in TB, power in MW and costs in M€.
    fn assert_slide(of: fn(&System, f64, &Table) -> Outcome, slide: [[Printed; 4]; 4]) {
        for (system, [storage, memory, power, cost]) in LECTURE.iter().zip(slide) {
            let outcome = of(system, SAVINGS, &TABLE);
            assert_change(outcome.storage_pb, storage, &format!("storage in {}", system.year));
            assert_change(outcome.memory_tb, memory, &format!("memory in {}", system.year));
            assert_change(outcome.power_mw, power, &format!("power in {}", system.year));
            assert_change(outcome.cost_million_eur, cost, &format!("costs in {}", system.year));
        }
    }

    #[test]
    fn added_capacity_is_that_of_the_slide() {
        assert_slide(
            added_capacity,
            [
                [[5.6, 1.68, 0.1, 0.01], [20.0, 33.6, 1.0, 0.1], [1.6, 0.24, 0.1, 0.01], [30.0, 2.52, 1.0, 0.01]],
                [[45.0, 13.5, 1.0, 0.1], [170.0, 270.0, 1.0, 1.0], [1.4, 0.20, 0.1, 0.01], [30.0, 2.38, 1.0, 0.01]],
                [[270.0, 81.0, 1.0, 1.0], [1500.0, 1620.0, 1.0, 10.0], [1.4, 0.14, 0.1, 0.01], [30.0, 1.62, 1.0, 0.01]],
                [
                    [1600.0, 480.0, 100.0, 10.0],
                    [12_800.0, 9600.0, 100.0, 100.0],
                    [1.4, 0.09, 0.1, 0.01],
                    [30.0, 1.13, 1.0, 0.01],
                ],
            ],
        );
    }

    #[test]
    fn the_same_capacity_is_that_of_the_slide() {
        assert_slide(
            same_capacity,
            [
                [[4.3, 1.3, 0.1, 0.1], [20.0, 25.8, 1.0, 0.1], [1.54, 0.19, 0.01, 0.01], [28.27, 1.94, 0.01, 0.01]],
                [[34.6, 10.4, 0.1, 0.1], [170.0, 207.7, 1.0, 0.1], [1.34, 0.15, 0.01, 0.01], [28.27, 1.83, 0.01, 0.01]],
                [
                    [207.7, 62.3, 0.1, 0.1],
                    [1500.0, 1200.0, 1.0, 100.0],
                    [1.34, 0.1, 0.01, 0.1],
                    [28.27, 1.25, 0.01, 0.01],
                ],
                [
                    [1200.0, 400.0, 100.0, 100.0],
                    [12_800.0, 7400.0, 100.0, 100.0],
                    [1.34, 0.07, 0.01, 0.01],
                    [28.27, 0.87, 0.01, 0.01],
                ],
            ],
        );
    }

    #[test]
    fn costs_drop_below_those_of_no_deduplication_from_2020_on_and_with_our_table_always() {
        let totals =
            |table: &Table| LECTURE.map(|system| same_capacity(&system, SAVINGS, table).cost_million_eur.total());
        assert_eq!(totals(&TABLE).map(|total| total < 30.0), [false, false, true, true]);
        assert!(totals(&OURS).iter().all(|total| *total < 28.4), "{:?}", totals(&OURS));
    }

    #[test]
    fn power_rises_by_at_most_8_percent_for_the_same_capacity() {
        let rise = |system: &System| same_capacity(system, SAVINGS, &TABLE).power_mw.total() / system.power_mw - 1.0;
        let most = LECTURE.iter().map(rise).fold(0.0, f64::max);
        assert_printed(100.0 * most, 8.0, 1.0, "percent more power");
    }
}

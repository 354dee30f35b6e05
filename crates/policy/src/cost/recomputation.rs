//! Recomputing a result instead of keeping it: **Data Reduction** (Kuhn 2024), "Recomputation", with the lecture's growth of
//! hardware as the fall of prices.
//!
//! A system costs the same whenever it is bought, so that a unit of capacity costs a hundredth, and one of computation a
//! three-hundredth, ten years later.

use super::system::{CAPACITY_PER_DECADE, COMPUTATION_PER_DECADE, growth};

/// The lecture's 50 PB for 6 M€, used for the six years between two of its systems.
pub const EUR_PER_TB_YEAR: f64 = 6e6 / 50e3 / 6.0;

/// The lecture's system of 2015 without its storage: 30 M€ less a fifth, for 2500 nodes and six years of 8766 hours.
pub const EUR_PER_NODE_HOUR: f64 = 30e6 * 0.8 / (2500.0 * 6.0 * 8766.0);

/// A result, what it needs, and today's prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultCosts {
    /// The result as stored.
    pub stored_tb: f64,
    /// What must be kept to recompute it and would not be kept otherwise.
    pub input_tb: f64,
    /// To compute it once, on today's nodes.
    pub node_hours: f64,
    pub reads_per_year: f64,
    pub eur_per_tb_year: f64,
    pub eur_per_node_hour: f64,
}

/// Euros to keep the result for so many years.
pub fn keeping_eur(costs: &ResultCosts, years: f64) -> f64 {
    costs.stored_tb * costs.eur_per_tb_year * falling_years(CAPACITY_PER_DECADE, years)
}

/// Euros to keep its inputs instead, and to compute it at each read.
pub fn recomputing_eur(costs: &ResultCosts, years: f64) -> f64 {
    let inputs_eur = costs.input_tb * costs.eur_per_tb_year * falling_years(CAPACITY_PER_DECADE, years);
    inputs_eur + costs.reads_per_year * yearly_reads_eur(costs, years)
}

/// Reads a year above which keeping is cheaper over so many years; 0 where the inputs alone cost more than the result.
pub fn break_even_reads_per_year(costs: &ResultCosts, years: f64) -> f64 {
    let saved_tb = costs.stored_tb - costs.input_tb;
    let saved_eur = saved_tb * costs.eur_per_tb_year * falling_years(CAPACITY_PER_DECADE, years);
    (saved_eur / yearly_reads_eur(costs, years)).max(0.0)
}

/// Euros over so many years if the result is computed once in each.
fn yearly_reads_eur(costs: &ResultCosts, years: f64) -> f64 {
    costs.node_hours * costs.eur_per_node_hour * falling_years(COMPUTATION_PER_DECADE, years)
}

/// Years at today's price that cost as much as `years` at falling ones: the integral of 1/growth.
fn falling_years(per_decade: f64, years: f64) -> f64 {
    let rate_per_year = per_decade.ln() / 10.0;
    (1.0 - 1.0 / growth(per_decade, years)) / rate_per_year
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;

    const COSTS: ResultCosts = ResultCosts {
        stored_tb: 10.0,
        input_tb: 0.5,
        node_hours: 1000.0,
        reads_per_year: 1.0,
        eur_per_tb_year: EUR_PER_TB_YEAR,
        eur_per_node_hour: EUR_PER_NODE_HOUR,
    };

    #[test]
    fn years_at_falling_prices_are_the_sum_of_small_steps() {
        let steps = 100_000;
        let step_years = 5.0 / f64::from(steps);
        let prices = (0..steps).map(|step| 1.0 / growth(100.0, step_years * (f64::from(step) + 0.5)));
        let sum = prices.sum::<f64>() * step_years;
        assert!((falling_years(100.0, 5.0) - sum).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn both_cost_the_same_at_the_break_even() {
        let reads_per_year = break_even_reads_per_year(&COSTS, 5.0);
        assert!((1.0..1.5).contains(&reads_per_year), "{reads_per_year}");
        let costs = ResultCosts { reads_per_year, ..COSTS };
        assert!((keeping_eur(&costs, 5.0) - recomputing_eur(&costs, 5.0)).abs() < 1e-9);
        let seldom = ResultCosts { reads_per_year: reads_per_year / 2.0, ..COSTS };
        assert!(recomputing_eur(&seldom, 5.0) < keeping_eur(&seldom, 5.0));
    }

    #[test]
    fn prices_are_those_of_the_lectures_systems() {
        assert_printed(EUR_PER_TB_YEAR, 20.0, 1.0, "euros a TB and year");
        assert_printed(EUR_PER_NODE_HOUR, 0.18, 0.01, "euros a node and hour");
    }

    #[test]
    fn recomputing_never_pays_where_the_inputs_are_larger() {
        assert_eq!(break_even_reads_per_year(&ResultCosts { input_tb: 11.0, ..COSTS }, 5.0), 0.0);
    }

    #[test]
    fn the_longer_it_is_kept_the_more_computation_has_become_cheaper() {
        assert!(break_even_reads_per_year(&COSTS, 20.0) > break_even_reads_per_year(&COSTS, 1.0));
    }
}

//! The absolute bound: values become multiples of one distance, a little below twice the bound.
//!
//! The distance has four bits, so that its multiples are floats without rounding, up to 2^20 of them in an `f32`. It is never
//! a power of two: of multiples of one Pcodec takes the mode for floats with fewer bits instead of the mode for multiples, and
//! stores up to 2.5 times as much. Larger values stay: a float has at most three bits below the distance there.

use super::step::Step;

/// Multiples of the distance up to which all have the distance's four bits to spare.
const F32_MULTIPLES: f64 = (1u64 << (f32::MANTISSA_DIGITS - 4)) as f64;
const F64_MULTIPLES: f64 = (1u64 << (f64::MANTISSA_DIGITS - 4)) as f64;

/// Below it a distance of four bits has no multiples among floats of the type.
const F32_LEAST: f64 = f32::MIN_POSITIVE as f64;
const F64_LEAST: f64 = f64::MIN_POSITIVE;

/// Added and taken away, it leaves the nearest whole number of what is below 2^51, the even one of two.
const WHOLE: f64 = (3u64 << 51) as f64;

#[derive(Clone, Copy, Debug)]
pub struct Grid {
    bound: f64,
    distance: f64,
    /// Larger multiples are not taken.
    multiples: f64,
}

impl Grid {
    pub fn f32(bound: f64) -> Self {
        Grid::of(bound, F32_MULTIPLES, F32_LEAST)
    }

    pub fn f64(bound: f64) -> Self {
        Grid::of(bound, F64_MULTIPLES, F64_LEAST)
    }

    fn of(bound: f64, multiples: f64, least: f64) -> Self {
        let distance = distance(bound);
        // Where the distance is too short or too long to compute with, nothing is rounded.
        let is_of_use = distance >= least && distance.is_finite();
        Grid { bound, distance, multiples: if is_of_use { multiples } else { -1.0 } }
    }
}

/// Returns the greatest distance of at most twice the bound that is 9 to 15 times a power of two.
fn distance(bound: f64) -> f64 {
    let power = f64::from_bits(bound.to_bits() & f64::INFINITY.to_bits());
    let eighths = (bound / power * 8.0).floor();
    let eighths = if eighths == 8.0 { 7.5 } else { eighths };
    eighths / 4.0 * power
}

impl Step for Grid {
    fn nearest(&self, value: f64) -> f64 {
        let multiple = (value / self.distance + WHOLE) - WHOLE;
        if multiple.abs() <= self.multiples { multiple * self.distance } else { value }
    }

    fn allows(&self, error: f64, _: f64) -> bool {
        error <= self.bound
    }

    fn measure(&self, error: f64, _: f64) -> f64 {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_near_twice_the_bound_and_no_power_of_two() {
        for tenths in 0..4000 {
            let bound = 1e-9 * 1.01f64.powi(tenths);
            let distance = distance(bound);
            assert!((0.83 * 2.0 * bound..=2.0 * bound).contains(&distance), "{bound}: {distance}");
            assert!(distance.to_bits() << 12 != 0 && distance.to_bits() << 15 == 0, "{bound}: {distance}");
        }
    }

    #[test]
    fn an_error_is_checked_against_the_bound_and_not_the_distance() {
        let grid = Grid::f64(1.0);
        assert!(grid.allows(1.0, 7.0) && !grid.allows(1f64.next_up(), 7.0) && !grid.allows(f64::NAN, 7.0));
    }

    #[test]
    fn values_stay_whose_multiples_would_not_be_exact() {
        let (grid, distance) = (Grid::f32(1.0), distance(1.0));
        let large = distance * F32_MULTIPLES + 0.3 * distance;
        assert_eq!(grid.nearest(large + distance), large + distance);
        assert_eq!(grid.nearest(large), distance * F32_MULTIPLES);
    }

    #[test]
    fn a_bound_without_a_distance_rounds_nothing() {
        for bound in [5e-324, 1e-309, f64::MAX] {
            assert_eq!(Grid::f64(bound).nearest(0.3), 0.3, "{bound}");
        }
        assert_eq!(Grid::f32(1e-40).nearest(1e-39), 1e-39);
    }
}

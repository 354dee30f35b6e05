//! The relative bound: values keep as many bits behind the first one as it needs, and are rounded to the nearest such value, of two
//! as near to the even one. Numbers below the least normal one have fewer bits, and stay.

use super::step::Step;

const STORED_BITS: i32 = f64::MANTISSA_DIGITS as i32 - 1;
const EXPONENT_BIAS: i32 = 1023;

#[derive(Clone, Copy, Debug)]
pub struct Mantissa {
    /// A unit in the last place less than the user's: the product with a value may be rounded up.
    bound: f64,
    dropped_bits: u32,
    least: f64,
}

impl Mantissa {
    pub fn f32(bound: f64) -> Self {
        Mantissa::of(bound, f32::MIN_POSITIVE.into())
    }

    pub fn f64(bound: f64) -> Self {
        Mantissa::of(bound, f64::MIN_POSITIVE)
    }

    fn of(bound: f64, least: f64) -> Self {
        // Half of the last bit that is kept is at most the bound.
        let exponent = (bound.to_bits() >> STORED_BITS) as i32 - EXPONENT_BIAS;
        let kept_bits = (-exponent - 1).clamp(0, STORED_BITS);
        Mantissa { bound: bound.next_down(), dropped_bits: (STORED_BITS - kept_bits) as u32, least }
    }
}

impl Step for Mantissa {
    fn nearest(&self, value: f64) -> f64 {
        let bits = value.to_bits();
        let dropped = (1 << self.dropped_bits) - 1;
        let is_odd = bits >> self.dropped_bits & 1;
        // Just below half of the last bit, and half where that makes it even; a carry goes into the exponent, as it should.
        let rounded = bits.wrapping_add((dropped >> 1) + is_odd) & !dropped;
        if dropped == 0 { value } else { f64::from_bits(rounded) }
    }

    fn allows(&self, error: f64, value: f64) -> bool {
        value.abs() >= self.least && error <= self.bound * value.abs()
    }

    fn measure(&self, error: f64, value: f64) -> f64 {
        error / value.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_bits_are_kept_than_the_bound_needs() {
        let kept = |bound| STORED_BITS as u32 - Mantissa::f64(bound).dropped_bits;
        assert_eq!([0.9, 0.5, 0.25, 1e-3, 2f64.powi(-10)].map(kept), [0, 0, 1, 9, 9]);
        assert_eq!([2f64.powi(-52), 2f64.powi(-60), 5e-324].map(kept), [51, 52, 52]);
    }

    #[test]
    fn an_error_is_checked_against_the_share() {
        let step = Mantissa::f64(0.25);
        assert!(step.allows(0.249, -1.0) && !step.allows(0.251, -1.0) && !step.allows(f64::NAN, 1.0));
        assert!(!step.allows(0.0, 0.0) && !step.allows(1e-320, 1e-310));
    }

    #[test]
    fn halves_become_even() {
        let step = Mantissa::f64(0.25);
        assert_eq!(
            [1.25, 1.75, 2.5, 3.5, -1.25, 1.2500001].map(|value| step.nearest(value)),
            [1.0, 2.0, 2.0, 4.0, -1.0, 1.5]
        );
    }
}

//! The range of values, and the absolute bound that a share of it is.

use format::{ErrorBound, FloatType, Rounding};

/// The least and the greatest of all finite values but the missing one.
#[derive(Clone, Copy, Debug)]
pub struct ValueRange {
    float: FloatType,
    missing: f64,
    least: f64,
    greatest: f64,
}

impl ValueRange {
    pub fn new(rounding: &Rounding) -> Self {
        let missing = super::missing(rounding);
        ValueRange { float: rounding.float, missing, least: f64::INFINITY, greatest: f64::NEG_INFINITY }
    }

    /// Takes more values in; bytes behind the last whole one do not count.
    pub fn add(&mut self, values: &[u8]) {
        match self.float {
            FloatType::F32 => self.add_each(values, |bytes| f32::from_le_bytes(bytes).into()),
            FloatType::F64 => self.add_each(values, f64::from_le_bytes),
            FloatType::F32Be => self.add_each(values, |bytes| f32::from_be_bytes(bytes).into()),
            FloatType::F64Be => self.add_each(values, f64::from_be_bytes),
        }
    }

    fn add_each<const N: usize>(&mut self, values: &[u8], read: impl Fn([u8; N]) -> f64) {
        for bytes in values.as_chunks::<N>().0 {
            let value = read(*bytes);
            if value.is_finite() && value != self.missing {
                self.least = self.least.min(value);
                self.greatest = self.greatest.max(value);
            }
        }
    }

    /// Returns the absolute bound that is this share of the range, at most; `None` where that is none, since all values are the same.
    pub fn bound(&self, share: f64) -> Option<ErrorBound> {
        // Not the share of a difference, which may be infinite; and a unit in the last place for each product.
        let error = share * self.greatest - share * self.least;
        let error = error.next_down().next_down();
        (error.is_finite() && error > 0.0).then_some(ErrorBound::Absolute(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(values: &[f32], missing: Option<f64>) -> ValueRange {
        let bound = ErrorBound::Range(0.1);
        let mut range = ValueRange::new(&Rounding { float: FloatType::F32Be, bound, missing });
        values.iter().for_each(|value| range.add(&value.to_be_bytes()));
        range
    }

    #[test]
    fn what_is_missing_or_no_number_does_not_count() {
        let values = [5.0, f32::NAN, 1e20, -5.0, f32::INFINITY];
        let Some(ErrorBound::Absolute(error)) = range(&values, Some(1e20)).bound(0.1) else { panic!() };
        assert!(error <= 1.0 && error > 0.999_999);
    }

    #[test]
    fn values_without_a_range_have_no_bound() {
        for values in [&[][..], &[7.0, 7.0], &[f32::NAN]] {
            assert_eq!(range(values, None).bound(0.1), None);
        }
        let mut widest =
            ValueRange::new(&Rounding { float: FloatType::F64, bound: ErrorBound::Range(0.1), missing: None });
        [f64::MAX, f64::MIN].iter().for_each(|value| widest.add(&value.to_le_bytes()));
        assert!(widest.bound(0.1).is_some());
    }
}

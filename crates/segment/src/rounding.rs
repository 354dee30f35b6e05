//! Rounds floats so that codecs store less of them, and no value changes by more than its user allows.
//!
//! Each value is rounded by itself, wherever it stands: equal data stay equal, so they are still deduplicated, and what was
//! rounded once is not changed by the same bound again. NaNs, infinities, zeros of either sign and the value for missing ones
//! keep their bits, as does every value whose rounding would break the bound.

mod grid;
mod mantissa;
mod range;
mod step;

pub use range::ValueRange;

use format::{ErrorBound, FloatType, Rounding};

use grid::Grid;
use mantissa::Mantissa;
use step::Step;

/// The result of a rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounded {
    /// Values that have other bits than before.
    pub altered: u64,
    /// Of all values; a share of the value where the bound is one.
    pub largest_error: f64,
}

impl Rounded {
    /// Adds the result of other values.
    pub fn add(&mut self, other: Rounded) {
        self.altered += other.altered;
        self.largest_error = self.largest_error.max(other.largest_error);
    }
}

/// Rounds values of one type to one bound.
#[derive(Clone, Copy, Debug)]
pub struct Rounder {
    float: FloatType,
    step: Steps,
    missing: f64,
}

/// Returns the value for missing ones as files of the type have it: NaN, which equals nothing, where there is none.
fn missing(rounding: &Rounding) -> f64 {
    let missing = rounding.missing.unwrap_or(f64::NAN);
    if rounding.float.bytes() == 4 { (missing as f32).into() } else { missing }
}

#[derive(Clone, Copy, Debug)]
enum Steps {
    Grid(Grid),
    Mantissa(Mantissa),
}

impl Rounder {
    /// Returns `None` for a bound by the range of values, which [`ValueRange::bound`] makes an absolute one.
    pub fn new(rounding: &Rounding) -> Option<Self> {
        let is_short = rounding.float.bytes() == 4;
        let step = match rounding.bound {
            ErrorBound::Absolute(error) => Steps::Grid(if is_short { Grid::f32(error) } else { Grid::f64(error) }),
            ErrorBound::Relative(share) => {
                Steps::Mantissa(if is_short { Mantissa::f32(share) } else { Mantissa::f64(share) })
            }
            ErrorBound::Range(_) => return None,
        };
        Some(Rounder { float: rounding.float, step, missing: missing(rounding) })
    }

    /// Rounds values in place. Bytes behind the last whole one stay.
    pub fn round(&self, values: &mut [u8]) -> Rounded {
        match &self.step {
            Steps::Grid(grid) => self.round_by(grid, values),
            Steps::Mantissa(mantissa) => self.round_by(mantissa, values),
        }
    }

    fn round_by(&self, step: &impl Step, values: &mut [u8]) -> Rounded {
        let missing = self.missing;
        match self.float {
            FloatType::F32 => each(values, missing, step, f32::from_le_bytes, f32::to_le_bytes),
            FloatType::F64 => each(values, missing, step, f64::from_le_bytes, f64::to_le_bytes),
            FloatType::F32Be => each(values, missing, step, f32::from_be_bytes, f32::to_be_bytes),
            FloatType::F64Be => each(values, missing, step, f64::from_be_bytes, f64::to_be_bytes),
        }
    }
}

/// A float of the file, which is computed with as a double: that holds every one of them exactly.
trait Float: Copy {
    fn double(self) -> f64;
    fn of(double: f64) -> Self;
}

impl Float for f32 {
    fn double(self) -> f64 {
        self.into()
    }

    fn of(double: f64) -> Self {
        double as f32
    }
}

impl Float for f64 {
    fn double(self) -> f64 {
        self
    }

    fn of(double: f64) -> Self {
        double
    }
}

fn each<F: Float, const N: usize>(
    values: &mut [u8],
    missing: f64,
    step: &impl Step,
    read: impl Fn([u8; N]) -> F,
    write: impl Fn(F) -> [u8; N],
) -> Rounded {
    let mut rounded = Rounded::default();
    for bytes in values.as_chunks_mut::<N>().0 {
        let value = read(*bytes).double();
        let nearest = F::of(step.nearest(value));
        // Differences of values that are so near each other are exact. NaNs fail every comparison.
        let error = (nearest.double() - value).abs();
        // No value that is there becomes one that is missing.
        let is_free = value != missing && nearest.double() != missing;
        let is_taken = error > 0.0 && step.allows(error, value) && is_free;
        *bytes = if is_taken { write(nearest) } else { *bytes };
        let met = if is_taken { step.measure(error, value) } else { 0.0 };
        rounded.altered += u64::from(is_taken);
        rounded.largest_error = rounded.largest_error.max(met);
    }
    rounded
}

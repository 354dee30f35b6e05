//! One way to round: how far the values that remain lie apart.

pub trait Step {
    /// Returns the nearest value that remains; anything for what is no finite number.
    fn nearest(&self, value: f64) -> f64;

    /// Returns whether the bound allows this error of the value; not for errors that are no numbers.
    fn allows(&self, error: f64, value: f64) -> bool;

    /// Returns the error in the bound's measure.
    fn measure(&self, error: f64, value: f64) -> f64;
}

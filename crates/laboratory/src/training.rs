//! Fits a model to measurements.

use policy::forest::{Example, FitOptions, Forest};
use segment::{OUTPUTS_PER_CANDIDATE, logarithms};

use crate::Measurement;

/// Few enough for a file of 400 KiB, since one comes with the command.
const OPTIONS: FitOptions =
    FitOptions { trees: 10, max_leaves: 240, min_leaf_examples: 1, features_per_split: 8, seed: 20_261_129 };

/// Returns a forest that predicts such measurements. Panics without any.
pub fn fit(measurements: &[Measurement]) -> Forest {
    let outputs: Vec<Vec<f32>> = measurements.iter().map(outputs).collect();
    let examples: Vec<Example> = measurements
        .iter()
        .zip(&outputs)
        .map(|(measurement, outputs)| Example { features: &measurement.features, outputs })
        .collect();
    Forest::fit(&examples, &OPTIONS)
}

/// Returns the logarithms that the model has of each candidate; not known where it has no meaning for the data.
fn outputs(measurement: &Measurement) -> Vec<f32> {
    let of_candidate = |candidate: usize| match measurement.outcome(candidate) {
        Some(outcome) => logarithms(&outcome),
        None => [f32::NAN; OUTPUTS_PER_CANDIDATE],
    };
    (0..measurement.measured.len()).flat_map(of_candidate).collect()
}

//! Seconds to fit a forest of the size the chooser of encodings has, microseconds of one prediction, and how far it is off.
//!
//! 30 000 examples of 24 features and 40 outputs, 24 trees of 256 leaves:
//! `cargo run --release -p thalweg-policy --example forest_speed`.

use std::time::Instant;

use random::Random;
use thalweg_policy::forest::{Estimate, Example, FitOptions, Forest};

const EXAMPLES: usize = 30_000;
const FEATURES: usize = 24;
const OUTPUTS: usize = 40;
const OPTIONS: FitOptions =
    FitOptions { trees: 24, max_leaves: 256, min_leaf_examples: 5, features_per_split: 8, seed: 1 };

fn main() {
    let mut random = Random::new(1);
    let features: Vec<f32> = (0..EXAMPLES * FEATURES).map(|_| random.unit() as f32).collect();
    let outputs: Vec<f32> = features.chunks(FEATURES).flat_map(outputs).collect();
    let rows = features.chunks(FEATURES).zip(outputs.chunks(OUTPUTS));
    let examples: Vec<_> = rows.map(|(features, outputs)| Example { features, outputs }).collect();
    let start = Instant::now();
    let forest = Forest::fit(&examples, &OPTIONS);
    println!("fit: {:.2} s", start.elapsed().as_secs_f64());
    predict(&forest, &examples);
}

/// Some output of three features each; one in eight is not known.
fn outputs(features: &[f32]) -> Vec<f32> {
    let one = |output: usize| {
        let [a, b, c] = [1, 5, 7].map(|step| features[(output * step) % FEATURES]);
        if output % 8 == 7 && c < 0.5 { f32::NAN } else { 4.0 * a * b + if c > 0.5 { 2.0 } else { 0.0 } }
    };
    (0..OUTPUTS).map(one).collect()
}

fn predict(forest: &Forest, examples: &[Example<'_>]) {
    let mut estimates = [Estimate::UNKNOWN; OUTPUTS];
    let (mut squares, mut deviations, mut count) = (0.0, 0.0, 0);
    let start = Instant::now();
    for example in examples {
        forest.predict(example.features, &mut estimates);
        std::hint::black_box(&estimates);
    }
    println!("predict: {:.2} µs", start.elapsed().as_secs_f64() * 1e6 / examples.len() as f64);
    for example in examples {
        forest.predict(example.features, &mut estimates);
        for (estimate, truth) in estimates.iter().zip(example.outputs).filter(|(_, truth)| !truth.is_nan()) {
            squares += (estimate.mean - truth).powi(2);
            deviations += estimate.spread;
            count += 1;
        }
    }
    println!("error: {:.3}, mean spread {:.3}", (squares / count as f32).sqrt(), deviations / count as f32);
}

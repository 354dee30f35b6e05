//! The choice for floats that were rounded within a bound. The model was fitted to what programs write, where no low bits are
//! zeros: it takes codecs for them that store up to three times as much as the best, and Pcodec for two or three times as slow as it is.
//! So a few candidates are tried, and what a trial gave is the prediction.

use super::candidates::{CANDIDATES, Candidate};
use super::choice::{Prediction, Predictions, Trials};
use super::{Compression, Mode};

/// Stored of no sample is less (share).
const MIN_SHARE: f32 = 1e-6;

/// What Pcodec takes of a rounded float (ns): measured of two smooth fields, in both types, at levels 8 and 12.
const PCO_ENCODE_NS: f32 = 27.0;
const PCO_THOROUGH_NS: f32 = 70.0;
const PCO_DECODE_NS: f32 = 4.0;

/// Returns predictions of the candidates that come into question for rounded floats of so many bytes: shares by trials; times are the
/// model's but for Pcodec's.
pub fn by_trials(predictions: &Predictions, float_bytes: usize, mode: Mode, trials: &mut impl Trials) -> Predictions {
    std::array::from_fn(|number| {
        let prediction = predictions[number].filter(|_| comes_into_question(&CANDIDATES[number], mode))?;
        match CANDIDATES[number].compression {
            Compression::None => Some(prediction),
            _ => {
                let log_share = trials.share(number).max(MIN_SHARE).log2();
                Some(Prediction { log_share, deviation: 0.0, ..timed(prediction, &CANDIDATES[number], float_bytes) })
            }
        }
    })
}

fn timed(prediction: Prediction, candidate: &Candidate, float_bytes: usize) -> Prediction {
    let encode_ns = match candidate.compression {
        Compression::Pco { level: 0..=8 } => PCO_ENCODE_NS,
        Compression::Pco { .. } => PCO_THOROUGH_NS,
        _ => return prediction,
    };
    let (encode_ns, decode_ns) = (encode_ns / float_bytes as f32, PCO_DECODE_NS / float_bytes as f32);
    Prediction { encode_ns, decode_ns, ..prediction }
}

fn comes_into_question(candidate: &Candidate, mode: Mode) -> bool {
    match candidate.compression {
        Compression::None | Compression::Zstd { level: 1 } | Compression::Pco { level: 8 } => true,
        Compression::Zstd { level: 19 } | Compression::Pco { level: 12 } => mode == Mode::Archival,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of which Pcodec leaves a tenth, and everything else a half.
    struct Sample(Vec<usize>);

    impl Trials for Sample {
        fn share(&mut self, candidate: usize) -> f32 {
            self.0.push(candidate);
            if matches!(CANDIDATES[candidate].compression, Compression::Pco { .. }) { 0.1 } else { 0.5 }
        }

        fn sampled(&self) -> f32 {
            0.125
        }

        fn raw_bytes(&self) -> usize {
            1 << 18
        }
    }

    #[test]
    fn a_trial_says_what_the_model_does_not_know() {
        let wrong = Some(Prediction { log_share: -0.1, deviation: 0.01, encode_ns: 3.0, decode_ns: 1.0 });
        let mut sample = Sample(Vec::new());
        let found = by_trials(&[wrong; CANDIDATES.len()], 8, Mode::Balanced, &mut sample);
        let shares = found.iter().flatten().map(|prediction| prediction.log_share.exp2());
        assert!(shares.clone().any(|share| (share - 0.1).abs() < 1e-3) && shares.count() > sample.0.len());
        let time_of = |candidate: usize| found[candidate].map(|prediction| prediction.encode_ns);
        let pco =
            CANDIDATES.iter().position(|candidate| matches!(candidate.compression, Compression::Pco { level: 8 }));
        assert_eq!((time_of(0), time_of(pco.unwrap())), (Some(3.0), Some(27.0 / 8.0)));
        let mut of_archive = Sample(Vec::new());
        by_trials(&[wrong; CANDIDATES.len()], 8, Mode::Archival, &mut of_archive);
        assert!(of_archive.0.len() > sample.0.len());
    }

    #[test]
    fn what_has_no_meaning_for_the_block_is_not_tried() {
        let mut sample = Sample(Vec::new());
        assert!(by_trials(&[None; CANDIDATES.len()], 4, Mode::Archival, &mut sample).iter().all(Option::is_none));
        assert!(sample.0.is_empty());
    }
}

//! What a codec makes of all blocks, by what it made of some.
//!
//! A slow codec encodes fewer blocks than a quick one. Those that both encoded show how one follows the other, and what the
//! quick one made of many more corrects what chance did to the few: a regression estimator (Cochran 1977, chapters 7 and 12).

/// What a codec made of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoded {
    /// The block's place among all.
    pub number: u64,
    pub raw_bytes: u64,
    pub stored_bytes: u64,
    /// Of a core.
    pub encode_ns: u64,
}

/// What a codec makes of all blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compressed {
    /// Stored for each raw byte.
    pub stored_share: f64,
    /// Two standard deviations of it; 0 where all blocks were encoded.
    pub error: f64,
    /// Raw bytes that a core encodes.
    pub mb_per_s: f64,
    /// Blocks that were encoded.
    pub blocks: usize,
}

impl Encoded {
    fn share(&self) -> f64 {
        self.stored_bytes as f64 / self.raw_bytes as f64
    }
}

/// Returns the estimate by blocks alone, which stand at equal distances and in order; none where there are none.
pub fn plain(encoded: &[Encoded], are_all: bool) -> Option<Compressed> {
    let raw: u64 = encoded.iter().map(|block| block.raw_bytes).sum();
    let stored: u64 = encoded.iter().map(|block| block.stored_bytes).sum();
    let ns: u64 = encoded.iter().map(|block| block.encode_ns).sum();
    let share = stored as f64 / raw as f64;
    let shares: Vec<f64> = encoded.iter().map(Encoded::share).collect();
    let error = if are_all { 0.0 } else { 2.0 * (variance_in_order(&shares) / shares.len() as f64).sqrt() };
    let mb_per_s = raw as f64 * 1e3 / ns.max(1) as f64;
    (raw > 0).then_some(Compressed { stored_share: share, error, mb_per_s, blocks: encoded.len() })
}

/// Returns the estimate with the help of a quick codec, which encoded these blocks and others.
pub fn with_quick(encoded: &[Encoded], quick: &[Encoded], are_all_quick: bool) -> Option<Compressed> {
    let alone = plain(encoded, false)?;
    let of_quick = plain(quick, are_all_quick)?;
    // Both are in order, and `quick` has all that `encoded` has.
    let mut others = quick.iter();
    let pair = |block: &Encoded| {
        let other = others.find(|other| other.number == block.number)?;
        Some((other.share(), block.share()))
    };
    let pairs: Vec<(f64, f64)> = encoded.iter().filter_map(pair).collect();
    let Some(Line { slope, mean_x, residual_variance }) = Line::through(&pairs) else { return Some(alone) };
    let stored_share = (alone.stored_share + slope * (of_quick.stored_share - mean_x)).max(f64::MIN_POSITIVE);
    let of_line = 4.0 * residual_variance / pairs.len() as f64;
    let error = (of_line + (slope * of_quick.error).powi(2)).sqrt();
    if error >= alone.error { Some(alone) } else { Some(Compressed { stored_share, error, ..alone }) }
}

/// The variance of values drawn at equal distances, by the differences of neighbours: what changes slowly along the data is
/// met evenly, and does not make the mean uncertain (Wolter 1984).
fn variance_in_order(values: &[f64]) -> f64 {
    let squares: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    squares / (2.0 * (values.len() as f64 - 1.0).max(1.0))
}

/// A line of least squares.
struct Line {
    slope: f64,
    mean_x: f64,
    residual_variance: f64,
}

/// Fewer blocks than this show no line.
const MIN_PAIRS: usize = 8;

impl Line {
    fn through(points: &[(f64, f64)]) -> Option<Line> {
        if points.len() < MIN_PAIRS {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        Some(Line { slope, mean_x, residual_variance: (yy - slope * xy).max(0.0) / (count - 2.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(shares: &[f64]) -> Vec<Encoded> {
        let of = |(number, share): (usize, &f64)| Encoded {
            number: number as u64,
            raw_bytes: 100_000,
            stored_bytes: (share * 1e5) as u64,
            encode_ns: 100_000,
        };
        shares.iter().enumerate().map(of).collect()
    }

    #[test]
    fn all_blocks_leave_no_error_and_none_no_estimate() {
        let found = plain(&encoded(&[0.25, 0.75]), true).unwrap();
        assert_eq!(found, Compressed { stored_share: 0.5, error: 0.0, mb_per_s: 1000.0, blocks: 2 });
        assert_eq!(plain(&[], false), None);
        assert_eq!(with_quick(&[], &[], true), None);
    }

    #[test]
    fn what_the_quick_codec_saw_corrects_the_slow_one() {
        let mut random = random::Random::new(5);
        let quick: Vec<f64> = (0..4000).map(|_| 0.2 + 0.8 * random.below(1000) as f64 / 1000.0).collect();
        let slow: Vec<f64> = quick.iter().map(|share| 0.1 + 0.7 * share).collect();
        let truth = slow.iter().sum::<f64>() / 4000.0;
        let some: Vec<Encoded> = encoded(&slow).into_iter().step_by(125).collect();
        let found = with_quick(&some, &encoded(&quick), true).unwrap();
        assert!((found.stored_share / truth - 1.0).abs() < 0.002 && found.error < 0.002, "{found:?}, {truth}");
        let alone = plain(&some, false).unwrap();
        assert!(alone.error > 0.03, "{alone:?}");
    }

    #[test]
    fn a_quick_codec_that_says_nothing_changes_nothing() {
        let mut random = random::Random::new(5);
        let mut shares = |count| (0..count).map(|_| random.below(1000) as f64 / 1000.0).collect::<Vec<_>>();
        let (quick, slow) = (vec![1.0; 64], shares(64));
        assert_eq!(with_quick(&encoded(&slow), &encoded(&quick), true), plain(&encoded(&slow), false));
    }

    #[test]
    fn the_truth_is_within_the_error_in_most_cases() {
        let mut within = 0;
        for seed in 0..100 {
            let mut random = random::Random::new(seed);
            let all: Vec<f64> = (0..3000).map(|_| if random.below(4) == 0 { 1.0 } else { 0.1 }).collect();
            let truth = all.iter().sum::<f64>() / 3000.0;
            let some: Vec<Encoded> = encoded(&all).into_iter().step_by(20).collect();
            let found = plain(&some, false).unwrap();
            within += usize::from((found.stored_share - truth).abs() <= found.error);
        }
        assert!(within >= 88, "{within} of 100");
    }
}

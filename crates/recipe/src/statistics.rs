//! Statistics of files of floats, and whether two files agree in them. Pure.

use format::{FloatType, RecipeStatistics, STATISTICS_STRETCHES};

/// Takes a file's bytes as they come.
pub struct Counting {
    element: FloatType,
    /// Values of one stretch.
    stretch: u64,
    /// Bytes of a value that has not come whole.
    rest: Vec<u8>,
    found: RecipeStatistics,
    finite: u64,
    /// Of the squared differences from the mean, as Welford sums them.
    squares: f64,
    stretches: Vec<Mean>,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    values: u64,
    mean: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.values += 1;
        // Each is divided first, since a difference may exceed the largest float.
        self.mean += value / self.values as f64 - self.mean / self.values as f64;
    }
}

impl Counting {
    /// Of a file of so many bytes.
    pub fn new(element: FloatType, bytes: u64) -> Self {
        let values = bytes / element.bytes() as u64;
        let stretch = values.div_ceil(STATISTICS_STRETCHES as u64).max(1);
        let (rest, found, stretches) = (Vec::new(), RecipeStatistics::default(), Vec::new());
        Counting { element, stretch, rest, found, finite: 0, squares: 0.0, stretches }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        let length = self.element.bytes();
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let values = rest.chunks_exact(length);
        self.rest.extend_from_slice(values.remainder());
        values.for_each(|value| self.value(float(self.element, value)));
    }

    fn value(&mut self, value: f64) {
        let at = (self.found.values / self.stretch) as usize;
        self.found.values += 1;
        if self.stretches.len() <= at {
            self.stretches.push(Mean::default());
        }
        if !value.is_finite() {
            self.found.non_finite += 1;
            return;
        }
        self.stretches[at].add(value);
        let is_first = self.finite == 0;
        self.finite += 1;
        let found = &mut self.found;
        found.minimum = if is_first { value } else { found.minimum.min(value) };
        found.maximum = if is_first { value } else { found.maximum.max(value) };
        let before = value - found.mean;
        found.mean += value / self.finite as f64 - found.mean / self.finite as f64;
        self.squares += before * (value - found.mean);
    }

    pub fn finish(mut self) -> RecipeStatistics {
        let variance = if self.finite == 0 { 0.0 } else { (self.squares / self.finite as f64).max(0.0) };
        self.found.deviation = bounded(variance.sqrt());
        self.found.mean = bounded(self.found.mean);
        self.found.means = self.stretches.iter().map(|stretch| bounded(stretch.mean)).collect();
        self.found
    }
}

/// Values near the largest float overflow when they are squared.
fn bounded(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::MAX }
}

fn float(element: FloatType, bytes: &[u8]) -> f64 {
    let eight = || bytes.try_into().expect("a value has eight bytes");
    let four = || bytes.try_into().expect("a value has four bytes");
    match element {
        FloatType::F64 => f64::from_le_bytes(eight()),
        FloatType::F64Be => f64::from_be_bytes(eight()),
        FloatType::F32 => f64::from(f32::from_le_bytes(four())),
        FloatType::F32Be => f64::from(f32::from_be_bytes(four())),
    }
}

/// Says in which statistic two files differ by more than this share of the largest value; none where they agree.
pub fn disagreement(then: &RecipeStatistics, now: &RecipeStatistics, relative: f64) -> Option<String> {
    if (then.values, then.non_finite) != (now.values, now.non_finite) {
        let (values, non_finite) = (then.values, then.non_finite);
        return Some(format!(
            "it had {values} values, {non_finite} of them not finite, and now {} and {}",
            now.values, now.non_finite
        ));
    }
    let largest = then.minimum.abs().max(then.maximum.abs());
    let named = [
        ("minimum", then.minimum, now.minimum),
        ("maximum", then.maximum, now.maximum),
        ("mean", then.mean, now.mean),
        ("standard deviation", then.deviation, now.deviation),
    ];
    let named = named.into_iter().map(|(name, then, now)| (name.to_owned(), then, now));
    let means = then.means.iter().zip(&now.means).enumerate();
    let means = means.map(|(at, (then, now))| (format!("mean of stretch {at}"), *then, *now));
    named.chain(means).find_map(|(name, then, now)| {
        let difference = (now - then).abs();
        let is_within = difference <= relative * largest;
        (!is_within).then(|| format!("its {name} was {then:e} and is {now:e}: {difference:e} apart"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[f64]) -> RecipeStatistics {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut counting = Counting::new(FloatType::F64, bytes.len() as u64);
        // In pieces that cut values.
        bytes.chunks(13).for_each(|part| counting.add(part));
        counting.finish()
    }

    #[test]
    fn statistics_are_those_of_the_textbook() {
        let values: Vec<f64> = (0..1000).map(|at| f64::from(at * 7919 % 1009) - 300.0).collect();
        let found = counted(&values);
        let mean = values.iter().sum::<f64>() / 1000.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1000.0;
        assert_eq!((found.values, found.non_finite, found.means.len()), (1000, 0, 63));
        assert!((found.mean - mean).abs() < 1e-9 && (found.deviation - variance.sqrt()).abs() < 1e-9);
        assert_eq!(found.minimum, values.iter().copied().fold(f64::INFINITY, f64::min));
        assert!((found.means[1] - values[16..32].iter().sum::<f64>() / 16.0).abs() < 1e-9);
    }

    #[test]
    fn no_values_and_values_that_are_no_numbers_have_finite_statistics() {
        for values in [&[][..], &[f64::NAN, f64::INFINITY], &[f64::MAX, -f64::MAX, f64::MAX]] {
            let found = counted(values);
            let all = [found.minimum, found.maximum, found.mean, found.deviation].into_iter().chain(found.means);
            assert!(all.into_iter().all(f64::is_finite), "{values:?}");
        }
    }

    #[test]
    fn files_disagree_where_one_statistic_does() {
        let values: Vec<f64> = (0..640).map(f64::from).collect();
        let then = counted(&values);
        assert_eq!(disagreement(&then, &then, 1e-12), None);
        let nudged: Vec<f64> = values.iter().map(|value| value + 1e-7).collect();
        assert_eq!(disagreement(&then, &counted(&nudged), 1e-6), None);
        assert!(disagreement(&then, &counted(&nudged), 1e-12).is_some());
        // The same numbers in another order: only the stretches tell.
        let turned: Vec<f64> = values.iter().rev().copied().collect();
        assert!(disagreement(&then, &counted(&turned), 1e-6).unwrap().contains("stretch 0"));
        assert!(disagreement(&then, &counted(&values[1..]), 1e-6).unwrap().contains("639"));
    }
}

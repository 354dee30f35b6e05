//! A mode's choices beside those of an oracle that tried every candidate on every block: same candidates, same headers,
//! same cost function.

use policy::compression::{CANDIDATES, Conditions, Mode, Outcome};

use crate::totals::HEADER_BYTES;
use crate::{Choice, Measured, Measurement, Regret, Total};

/// What a mode gave over all blocks.
#[derive(Clone, Debug)]
pub struct ModeComparison {
    pub mode: Mode,
    pub conditions: Conditions,
    /// The time to encode has that to choose in it; the time to decode is the candidates', measured apart.
    pub chosen: Total,
    pub choosing_ns: u64,
    pub oracle: Total,
    /// Of the mode's cost, by what the candidates took where they were measured: chance plays no part in it.
    pub cost_regret: Regret,
    /// The same with what choosing took.
    pub cost_regret_with_choosing: Regret,
    pub size_regret: Regret,
    /// The mode's cost, choosing included, beside that of storing blocks as they are: above 0 they were not worth it.
    pub over_uncompressed: Regret,
    /// Blocks by candidate, the most frequent first.
    pub choices: Vec<(usize, usize)>,
}

/// Compares what a mode chose, block by block, with what was measured of these blocks.
pub fn compare(mode: Mode, conditions: Conditions, measurements: &[Measurement], choices: &[Choice]) -> ModeComparison {
    assert_eq!(measurements.len(), choices.len(), "a choice for each block");
    let judge = |(measurement, choice)| Judged::new(mode, &conditions, measurement, choice);
    let judged: Vec<Judged> = measurements.iter().zip(choices).map(judge).collect();
    let regret = |of: fn(&Judged) -> f64| Regret::over(judged.iter().map(of).collect());
    ModeComparison {
        mode,
        conditions,
        chosen: total(measurements, judged.iter().map(|judged| judged.chosen)),
        choosing_ns: choices.iter().map(Choice::choosing_ns).sum(),
        oracle: total(measurements, judged.iter().map(|judged| judged.oracle)),
        cost_regret: regret(|judged| judged.cost / judged.oracle_cost - 1.0),
        cost_regret_with_choosing: regret(|judged| judged.cost_with_choosing / judged.oracle_cost - 1.0),
        size_regret: regret(Judged::size_regret),
        over_uncompressed: regret(|judged| judged.cost_with_choosing / judged.uncompressed_cost - 1.0),
        choices: counted(choices),
    }
}

/// Returns the candidate that costs least on what was measured.
pub fn oracle(mode: Mode, conditions: &Conditions, measurement: &Measurement) -> usize {
    let cost =
        |candidate: usize| Some((candidate, cost(mode, conditions, measurement, &measurement.measured[candidate]?)));
    let all = (0..CANDIDATES.len()).filter_map(cost);
    all.min_by(|one, other| one.1.total_cmp(&other.1)).expect("any block can be stored as it is").0
}

/// Returns the one encoding that costs least where all blocks must have the same.
pub fn best_single(mode: Mode, conditions: &Conditions, totals: &[Total]) -> usize {
    let cost = |number: &usize| mode.cost(&totals[*number].outcome(), conditions);
    (0..totals.len()).min_by(|one, other| cost(one).total_cmp(&cost(other))).expect("there are candidates")
}

/// One block.
struct Judged {
    chosen: Measured,
    oracle: Measured,
    cost: f64,
    cost_with_choosing: f64,
    oracle_cost: f64,
    uncompressed_cost: f64,
}

impl Judged {
    fn new(mode: Mode, conditions: &Conditions, measurement: &Measurement, choice: &Choice) -> Self {
        let measured = |candidate: usize| measurement.measured[candidate].expect("what was chosen was measured");
        let oracle = measured(oracle(mode, conditions, measurement));
        let unmeasured = Measured { stored_bytes: choice.stored_bytes, encode_ns: choice.encode_ns, decode_ns: 0 };
        let again = choice.candidate.map_or(unmeasured, measured);
        let with_choosing = Measured { encode_ns: again.encode_ns + choice.choosing_ns(), ..again };
        let cost = |measured: &Measured| cost(mode, conditions, measurement, measured);
        Judged {
            chosen: Measured { stored_bytes: choice.stored_bytes, encode_ns: choice.compress_ns, ..again },
            oracle,
            cost: cost(&again),
            cost_with_choosing: cost(&with_choosing),
            oracle_cost: cost(&oracle),
            uncompressed_cost: cost(&measured(0)),
        }
    }

    fn size_regret(&self) -> f64 {
        let stored = |measured: &Measured| (measured.stored_bytes + HEADER_BYTES) as f64;
        stored(&self.chosen) / stored(&self.oracle) - 1.0
    }
}

fn cost(mode: Mode, conditions: &Conditions, measurement: &Measurement, measured: &Measured) -> f64 {
    let each = |sum: f64| (sum / measurement.raw_bytes.max(1) as f64) as f32;
    let outcome = Outcome {
        share: each((measured.stored_bytes + HEADER_BYTES) as f64),
        encode_ns: each(measured.encode_ns as f64),
        decode_ns: each(measured.decode_ns as f64),
    };
    f64::from(mode.cost(&outcome, conditions))
}

fn total(measurements: &[Measurement], measured: impl Iterator<Item = Measured>) -> Total {
    let mut total = Total::default();
    measurements.iter().zip(measured).for_each(|(measurement, measured)| total.add(measurement.raw_bytes, &measured));
    total
}

fn counted(choices: &[Choice]) -> Vec<(usize, usize)> {
    let count = |candidate: usize| choices.iter().filter(|choice| choice.candidate == Some(candidate)).count();
    let mut all: Vec<_> = (0..CANDIDATES.len()).map(|candidate| (candidate, count(candidate))).collect();
    all.retain(|(_, blocks)| *blocks > 0);
    all.sort_unstable_by_key(|(candidate, blocks)| (std::cmp::Reverse(*blocks), *candidate));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::measurement;

    const RAW_BYTES: usize = 100_000;

    fn measurements() -> [Measurement; 2] {
        [
            measurement(RAW_BYTES, &[(0, RAW_BYTES), (3, 50_000), (17, 40_000)]),
            measurement(RAW_BYTES, &[(0, RAW_BYTES), (3, RAW_BYTES), (17, RAW_BYTES)]),
        ]
    }

    fn choice(candidate: usize, stored_bytes: usize) -> Choice {
        Choice { candidate: Some(candidate), stored_bytes, compress_ns: 9000, encode_ns: 5000 }
    }

    #[test]
    fn who_chooses_as_the_oracle_regrets_nothing() {
        let measurements = measurements();
        let conditions = Conditions::default();
        let best: Vec<usize> = measurements.iter().map(|one| oracle(Mode::Archival, &conditions, one)).collect();
        assert_eq!(best, [17, 0]);
        let found = compare(Mode::Archival, conditions, &measurements, &[choice(17, 40_000), choice(0, RAW_BYTES)]);
        assert_eq!((found.cost_regret, found.size_regret), (Regret::default(), Regret::default()));
        assert_eq!(found.chosen.stored_bytes, found.oracle.stored_bytes);
        assert_eq!((found.choosing_ns, found.chosen.encode_ns), (8000, 18_000));
        assert_eq!(found.choices, [(0, 1), (17, 1)]);
        assert!(found.cost_regret_with_choosing.worst > 0.0);
    }

    #[test]
    fn the_worse_choice_is_regretted_by_its_bytes() {
        let measurements = measurements();
        let chosen = [choice(3, 50_000), choice(0, RAW_BYTES)];
        let found = compare(Mode::Archival, Conditions::default(), &measurements, &chosen);
        let expected = (50_000 + HEADER_BYTES) as f64 / (40_000 + HEADER_BYTES) as f64 - 1.0;
        assert!((found.size_regret.worst - expected).abs() < 1e-9 && found.size_regret.mean < found.size_regret.worst);
        assert!((found.cost_regret.worst - expected).abs() < 0.01, "{:?}", found.cost_regret);
    }

    #[test]
    fn one_encoding_for_all_blocks_is_the_best_on_the_whole() {
        let totals = crate::candidate_totals(&measurements());
        assert_eq!(best_single(Mode::Archival, &Conditions::default(), &totals), 17);
        let fast = Conditions { bytes_per_second: 1e12, ..Conditions::default() };
        assert_eq!(best_single(Mode::Performance, &fast, &totals), 0);
    }

    #[test]
    fn the_oracle_of_performance_follows_the_link() {
        let slow = Conditions { bytes_per_second: 1e6, ..Conditions::default() };
        let fast = Conditions { bytes_per_second: 1e12, ..Conditions::default() };
        let [block, _] = measurements();
        assert_eq!(oracle(Mode::Performance, &slow, &block), 17);
        assert_eq!(oracle(Mode::Performance, &fast, &block), 0);
    }
}

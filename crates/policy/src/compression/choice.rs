//! Chooses a candidate for each block: by what a model predicts, corrected by what blocks like it gave.
//!
//! Blocks that look alike are a *class*. For each class it is remembered how far the candidates that were tried are from
//! their predictions. Trying costs time, which is earned by encoding: a share of it, and of a new class the time of one
//! block at once. What is uncertain and may be better is tried first, so that a class of many blocks settles on what is
//! best for it whatever the model thought, and what is predicted surely is never tried.

use super::candidates::CANDIDATES;
use super::mode::{Conditions, Mode, Outcome};

/// What a model predicts of one candidate on one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Base-2 logarithm of stored / raw bytes, and its standard deviation.
    pub log_share: f32,
    pub deviation: f32,
    /// By one core, a raw byte.
    pub encode_ns: f32,
    pub decode_ns: f32,
}

/// By candidate; `None` for those that have no meaning for the block.
pub type Predictions = [Option<Prediction>; CANDIDATES.len()];

/// What makes blocks alike: numbers of which a difference of 1 is a clear one, and what must be the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    pub same: [u32; 3],
    pub near: [f32; 4],
}

impl Likeness {
    fn is_like(&self, other: &Likeness) -> bool {
        let is_near = |(one, other): (&f32, &f32)| (one - other).abs() < 1.0;
        self.same == other.same && self.near.iter().zip(&other.near).all(is_near)
    }
}

/// Encodes a sample of the block; returns stored / raw bytes of it.
pub trait Trials {
    fn share(&mut self, candidate: usize) -> f32;

    /// The sample's length as a share of the block.
    fn sampled(&self) -> f32;
}

/// Classes that are remembered; the one not met for longest gives way.
const MAX_CLASSES: usize = 32;

/// Of the time of encoding, what is earned for trials. An archive may take half as long again.
const EARNED: f32 = 0.02;
const EARNED_FOR_ARCHIVES: f32 = 0.4;

/// What a new class may spend at once, in blocks; more than one would double the time of short files.
const FIRST_CREDIT_BLOCKS: f32 = 0.5;
/// Credit that is kept at most, in blocks.
const MAX_CREDIT_BLOCKS: f32 = 2.0;

/// A candidate is tried whose cost may be lower by as much as this, within its deviation.
const WORTH_A_TRIAL: f32 = 0.99;

/// How fast the difference between samples and whole blocks follows what is seen.
const FOLLOWING: f32 = 0.25;

/// After so many blocks of a class its trials are forgotten: data change.
const FORGOTTEN_AFTER_BLOCKS: u32 = 512;

#[derive(Clone, Debug)]
struct Class {
    likeness: Likeness,
    /// By candidate: base-2 logarithm of what a trial gave / what was predicted.
    tried: [Option<f32>; CANDIDATES.len()],
    /// The same of whole blocks / what was expected of them.
    bias: f32,
    /// Nanoseconds for each byte of a block.
    credit_ns: f32,
    blocks: u32,
    last_met: u64,
}

impl Class {
    fn new(likeness: Likeness) -> Self {
        Class { likeness, tried: [None; CANDIDATES.len()], bias: 0.0, credit_ns: f32::NAN, blocks: 0, last_met: 0 }
    }

    fn log_share(&self, candidate: usize, prediction: &Prediction) -> f32 {
        let correction = self.tried[candidate].map_or(0.0, |tried| tried + self.bias);
        (prediction.log_share + correction).min(0.0)
    }
}

/// A choice, and what is needed to learn from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    pub candidate: usize,
    /// Expected base-2 logarithm of stored / raw bytes.
    log_share: f32,
    likeness: Likeness,
}

/// What is known of the classes met so far.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    classes: Vec<Class>,
    blocks: u64,
}

impl Choices {
    /// Chooses for one block. Trials are asked for where the model is unsure and there is credit for them.
    pub fn choose(
        &mut self,
        likeness: Likeness,
        predictions: &Predictions,
        (mode, conditions): (Mode, &Conditions),
        trials: &mut impl Trials,
    ) -> Chosen {
        self.blocks += 1;
        let met = self.blocks;
        let class = self.class(likeness);
        class.last_met = met;
        let cost = |candidate: usize, log_share: f32| {
            let prediction = predictions[candidate].as_ref()?;
            Some(cost_of(prediction, log_share, mode, conditions))
        };
        class.earn(best(class, predictions, &cost), predictions, mode);
        while let Some(candidate) = class.worth_a_trial(predictions, &cost, trials.sampled()) {
            class.try_it(candidate, predictions, trials);
        }
        let candidate = best(class, predictions, &cost);
        let log_share = predictions[candidate].map_or(0.0, |prediction| class.log_share(candidate, &prediction));
        Chosen { candidate, log_share, likeness }
    }

    /// Learns what a choice gave: stored / raw bytes of the whole block.
    pub fn learn(&mut self, chosen: &Chosen, share: f32) {
        let Some(class) = self.classes.iter_mut().find(|class| class.likeness == chosen.likeness) else { return };
        let error = share.max(1e-6).log2() - chosen.log_share;
        match &mut class.tried[chosen.candidate] {
            Some(_) => class.bias += FOLLOWING * error,
            None => class.tried[chosen.candidate] = Some(error - class.bias),
        }
    }

    /// Returns the class of such blocks; blocks of a class bear its likeness from here on.
    fn class(&mut self, likeness: Likeness) -> &mut Class {
        if let Some(found) = self.classes.iter().position(|class| class.likeness.is_like(&likeness)) {
            self.classes[found].likeness = likeness;
            return &mut self.classes[found];
        }
        if self.classes.len() == MAX_CLASSES {
            let oldest = (0..MAX_CLASSES).min_by_key(|number| self.classes[*number].last_met);
            self.classes.swap_remove(oldest.expect("there are classes"));
        }
        self.classes.push(Class::new(likeness));
        self.classes.last_mut().expect("one was pushed")
    }
}

/// Returns the candidate of the least cost.
fn best(class: &Class, predictions: &Predictions, cost: &impl Fn(usize, f32) -> Option<f32>) -> usize {
    let expected = |candidate: usize| {
        let prediction = predictions[candidate].as_ref()?;
        Some((candidate, cost(candidate, class.log_share(candidate, prediction))?))
    };
    let all = (0..CANDIDATES.len()).filter_map(expected);
    all.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(candidate, _)| candidate)
}

impl Class {
    fn earn(&mut self, best: usize, predictions: &Predictions, mode: Mode) {
        let Some(prediction) = predictions[best] else { return };
        let share = if mode == Mode::Archival { EARNED_FOR_ARCHIVES } else { EARNED };
        if self.credit_ns.is_nan() {
            self.credit_ns = FIRST_CREDIT_BLOCKS * prediction.encode_ns;
        }
        let most = MAX_CREDIT_BLOCKS * prediction.encode_ns;
        self.credit_ns = (self.credit_ns + share * prediction.encode_ns).min(most);
        self.blocks += 1;
        if self.blocks.is_multiple_of(FORGOTTEN_AFTER_BLOCKS) {
            self.tried = [None; CANDIDATES.len()];
        }
    }

    /// Returns what is untried, on which the choice hangs, and can be paid for: the most promising one.
    fn worth_a_trial(
        &self,
        predictions: &Predictions,
        cost: &impl Fn(usize, f32) -> Option<f32>,
        sampled: f32,
    ) -> Option<usize> {
        let best = best(self, predictions, cost);
        let expected = |candidate: usize| cost(candidate, self.log_share(candidate, predictions[candidate].as_ref()?));
        let rivals = (0..CANDIDATES.len()).filter(|candidate| *candidate != best);
        let of_best = expected(best)?;
        let of_second = rivals.filter_map(expected).min_by(f32::total_cmp)?;
        let promise = |candidate: usize| {
            let prediction = predictions[candidate].as_ref()?;
            let is_open = self.tried[candidate].is_none() && prediction.deviation > 0.0;
            let is_paid = prediction.encode_ns * sampled <= self.credit_ns;
            let at =
                |deviations: f32| cost(candidate, (prediction.log_share + deviations * prediction.deviation).min(0.0));
            let hangs_on_it = match candidate == best {
                true => of_second < at(1.0)? * WORTH_A_TRIAL,
                false => at(-1.0)? < of_best * WORTH_A_TRIAL,
            };
            (is_open && is_paid && hangs_on_it).then_some((candidate, at(-1.0)?))
        };
        let promising = (0..CANDIDATES.len()).filter_map(promise);
        Some(promising.min_by(|one, other| one.1.total_cmp(&other.1))?.0)
    }

    fn try_it(&mut self, candidate: usize, predictions: &Predictions, trials: &mut impl Trials) {
        let prediction = predictions[candidate].expect("only what is predicted is worth a trial");
        self.credit_ns -= prediction.encode_ns * trials.sampled();
        let share = trials.share(candidate).max(1e-6);
        self.tried[candidate] = Some(share.log2() - prediction.log_share - self.bias);
    }
}

fn cost_of(prediction: &Prediction, log_share: f32, mode: Mode, conditions: &Conditions) -> f32 {
    let outcome = Outcome { share: log_share.exp2(), encode_ns: prediction.encode_ns, decode_ns: prediction.decode_ns };
    mode.cost(&outcome, conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKENESS: Likeness = Likeness { same: [8, 3, 0], near: [4.0, 1.0, 2.0, 3.0] };
    const PLAIN: usize = 3;
    const SHUFFLED: usize = 6;

    /// Returns predictions of two candidates, by the logarithm of their share and its deviation.
    fn predicted(plain: (f32, f32), shuffled: (f32, f32)) -> Predictions {
        let prediction = |(log_share, deviation)| Prediction { log_share, deviation, encode_ns: 2.0, decode_ns: 1.0 };
        let mut all = [None; CANDIDATES.len()];
        all[0] = Some(Prediction { log_share: 0.0, deviation: 0.0, encode_ns: 0.1, decode_ns: 0.1 });
        all[PLAIN] = Some(prediction(plain));
        all[SHUFFLED] = Some(prediction(shuffled));
        all
    }

    /// What trials give of each candidate, and which were asked for.
    struct Block<'a>(&'a dyn Fn(usize) -> f32, Vec<usize>);

    impl Trials for Block<'_> {
        fn share(&mut self, candidate: usize) -> f32 {
            self.1.push(candidate);
            (self.0)(candidate)
        }

        fn sampled(&self) -> f32 {
            0.125
        }
    }

    fn choose(choices: &mut Choices, predictions: &Predictions, block: &mut Block) -> Chosen {
        choices.choose(LIKENESS, predictions, (Mode::Balanced, &Conditions::default()), block)
    }

    #[test]
    fn a_sure_prediction_is_followed_without_a_trial() {
        let mut block = Block(&|_| panic!("tried"), Vec::new());
        let chosen = choose(&mut Choices::default(), &predicted((-0.5, 0.01), (-1.5, 0.01)), &mut block);
        assert_eq!(chosen.candidate, SHUFFLED);
    }

    #[test]
    fn a_trial_decides_where_the_model_is_unsure_and_is_remembered() {
        let mut choices = Choices::default();
        let predictions = predicted((-1.0, 0.5), (-1.1, 0.5));
        let shares = |candidate: usize| if candidate == PLAIN { 0.3 } else { 0.6 };
        let mut block = Block(&shares, Vec::new());
        assert_eq!(choose(&mut choices, &predictions, &mut block).candidate, PLAIN);
        assert!(block.1.contains(&PLAIN) && block.1.contains(&SHUFFLED));
        let mut later = Block(&|_| panic!("tried again"), Vec::new());
        assert_eq!(choose(&mut choices, &predictions, &mut later).candidate, PLAIN);
    }

    #[test]
    fn what_a_choice_gave_corrects_the_model() {
        let mut choices = Choices::default();
        let predictions = predicted((-1.0, 0.01), (-1.2, 0.01));
        let mut none = Block(&|_| panic!("tried"), Vec::new());
        for _ in 0..3 {
            let chosen = choose(&mut choices, &predictions, &mut none);
            choices.learn(&chosen, if chosen.candidate == SHUFFLED { 0.9 } else { 0.5 });
        }
        assert_eq!(choose(&mut choices, &predictions, &mut none).candidate, PLAIN);
    }

    #[test]
    fn trials_take_no_more_than_their_share() {
        let mut choices = Choices::default();
        let predictions = predicted((-1.0, 1.0), (-1.0, 1.0));
        let mut tried = 0;
        let blocks = 5000;
        for _ in 0..blocks {
            let mut block = Block(&|_| 0.5, Vec::new());
            choose(&mut choices, &predictions, &mut block);
            tried += block.1.len();
        }
        let spent = tried as f32 * 0.125 / blocks as f32;
        assert!(tried > 2 && spent <= EARNED * 1.1, "{tried} trials");
    }

    #[test]
    fn no_more_classes_are_kept_than_there_is_room_for() {
        let mut choices = Choices::default();
        for number in 0..100 {
            let likeness = Likeness { same: [number, 0, 0], ..LIKENESS };
            let predictions = predicted((-1.0, 0.0), (-0.5, 0.0));
            let mut block = Block(&|_| 0.5, Vec::new());
            choices.choose(likeness, &predictions, (Mode::Energy, &Conditions::default()), &mut block);
        }
        assert_eq!(choices.classes.len(), MAX_CLASSES);
    }
}

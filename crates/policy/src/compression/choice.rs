//! Chooses a candidate for each block: by what a model predicts, corrected by what blocks like it gave.
//!
//! Blocks that look alike are a *class*. For each class it is remembered how far the candidates that were tried are from
//! their predictions. Trying costs time, which is earned by encoding: a share of it, and of a new class the time of one
//! block at once. What is uncertain and may be better is tried first, so that a class of many blocks settles on what is
//! best for it whatever the model thought, and what is predicted surely is never tried.

use super::candidates::CANDIDATES;
use super::mode::{Conditions, Mode, Outcome};
use crate::encoding::Element;

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

/// Encodes a sample of the block.
pub trait Trials {
    /// Returns stored / raw bytes of the sample. Its time says nothing: it is short, and the machine may be busy.
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
const FIRST_CREDIT_BLOCKS: f32 = 0.4;
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
    /// By candidate, where one was tried or chosen: base-2 logarithm of what it gave / what was predicted.
    tried: [Option<f32>; CANDIDATES.len()],
    /// The same of whole blocks / what was expected of them.
    bias: f32,
    /// Nanoseconds for each byte of a block.
    credit_ns: f32,
    blocks: u32,
    blocks_since_look: u32,
    last_met: u64,
}

impl Class {
    fn new(likeness: Likeness) -> Self {
        Class {
            likeness,
            tried: [None; CANDIDATES.len()],
            bias: 0.0,
            credit_ns: 0.0,
            blocks: 0,
            blocks_since_look: 0,
            last_met: 0,
        }
    }

    fn log_share(&self, candidate: usize, prediction: &Prediction) -> f32 {
        let correction = self.tried[candidate].map_or(0.0, |tried| tried + self.bias);
        (prediction.log_share + correction).min(0.0)
    }

    /// Returns what is expected of a candidate, its share moved by so many deviations where it was not tried.
    fn outcome(&self, candidate: usize, prediction: &Prediction, deviations: f32) -> Outcome {
        let log_share = match self.tried[candidate] {
            Some(_) => self.log_share(candidate, prediction),
            None => (prediction.log_share + deviations * prediction.deviation).min(0.0),
        };
        let Prediction { encode_ns, decode_ns, .. } = *prediction;
        Outcome { share: log_share.exp2(), encode_ns, decode_ns }
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

/// What is seen of a block at the first look, which costs little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glance {
    pub mode: Mode,
    pub record_length: u32,
    pub element: Element,
    pub is_known: bool,
    /// Base-2 logarithm of the probe's.
    pub log_collisions: f32,
}

impl Glance {
    fn is_like(&self, other: &Glance) -> bool {
        let is_near = (self.log_collisions - other.log_collisions).abs() < NEAR_COLLISIONS;
        let same = |of: &Glance| (of.mode, of.record_length, of.element, of.is_known);
        same(self) == same(other) && is_near
    }
}

const NEAR_COLLISIONS: f32 = 0.2;

/// A choice that serves for blocks which look the same at a glance.
#[derive(Clone, Copy, Debug)]
struct Recent {
    glance: Glance,
    chosen: Chosen,
    /// For how many blocks more.
    left: u32,
}

const MAX_RECENT: usize = 8;
/// A class is known after so many blocks, and then looked at closely once in so many.
const KNOWN_AFTER_BLOCKS: u32 = 2;
const CLOSE_LOOK_EVERY: u32 = 16;
/// What is so far from what was expected is no longer like it (base-2 logarithm).
const UNEXPECTED: f32 = 0.25;

/// What is known of the classes met so far.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    classes: Vec<Class>,
    recent: Vec<Recent>,
    blocks: u64,
}

/// What is to be least, and under which conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    pub mode: Mode,
    pub conditions: Conditions,
}

impl Choices {
    /// Returns what was chosen lately for blocks like this one, without a closer look.
    pub fn recall(&mut self, glance: &Glance) -> Option<Chosen> {
        let recent = self.recent.iter_mut().find(|recent| recent.left > 0 && recent.glance.is_like(glance))?;
        recent.left -= 1;
        Some(recent.chosen)
    }

    /// Chooses for one block. Trials are asked for where the model is unsure and there is credit for them.
    pub fn choose(
        &mut self,
        (glance, likeness): (Glance, Likeness),
        predictions: &Predictions,
        goal: &Goal,
        trials: &mut impl Trials,
    ) -> Chosen {
        self.blocks += 1;
        let met = self.blocks;
        let class = self.class(likeness);
        class.last_met = met;
        let weighed = Weighed { predictions, goal };
        class.earn(&weighed);
        while let Some(candidate) = weighed.worth_a_trial(class, trials.sampled()) {
            class.try_it(candidate, predictions, trials);
        }
        let candidate = weighed.best(class);
        let log_share = predictions[candidate].map_or(0.0, |prediction| class.log_share(candidate, &prediction));
        let chosen = Chosen { candidate, log_share, likeness };
        let is_known = class.blocks >= KNOWN_AFTER_BLOCKS;
        self.remember(glance, chosen, if is_known { CLOSE_LOOK_EVERY - 1 } else { 0 });
        chosen
    }

    fn remember(&mut self, glance: Glance, chosen: Chosen, left: u32) {
        self.recent.retain(|recent| !recent.glance.is_like(&glance));
        if self.recent.len() == MAX_RECENT {
            self.recent.remove(0);
        }
        self.recent.push(Recent { glance, chosen, left });
    }

    /// Learns what a choice gave: stored / raw bytes of the whole block.
    pub fn learn(&mut self, chosen: &Chosen, share: f32) {
        let error = share.max(1e-6).log2() - chosen.log_share;
        if error.abs() > UNEXPECTED {
            self.recent.retain(|recent| recent.chosen != *chosen);
        }
        let Some(class) = self.classes.iter_mut().find(|class| class.likeness == chosen.likeness) else { return };
        class.blocks_since_look += 1;
        match &mut class.tried[chosen.candidate] {
            Some(_) => class.bias += FOLLOWING * error,
            none => *none = Some(error - class.bias),
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

/// A block's predictions, weighed by a goal.
struct Weighed<'a> {
    predictions: &'a Predictions,
    goal: &'a Goal,
}

impl Weighed<'_> {
    fn cost(&self, class: &Class, candidate: usize, deviations: f32) -> Option<f32> {
        let outcome = class.outcome(candidate, self.predictions[candidate].as_ref()?, deviations);
        Some(self.goal.mode.cost(&outcome, &self.goal.conditions))
    }

    /// Returns the candidate of the least expected cost among those that pass.
    fn least(&self, class: &Class, passes: impl Fn(usize) -> bool) -> Option<(usize, f32)> {
        let all = (0..CANDIDATES.len()).filter(|candidate| passes(*candidate));
        let costs = all.filter_map(|candidate| Some((candidate, self.cost(class, candidate, 0.0)?)));
        costs.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn best(&self, class: &Class) -> usize {
        self.least(class, |_| true).map_or(0, |(candidate, _)| candidate)
    }

    /// Returns what is untried, on which the choice hangs, and can be paid for: the most promising one.
    fn worth_a_trial(&self, class: &Class, sampled: f32) -> Option<usize> {
        let (best, of_best) = self.least(class, |_| true)?;
        let (_, of_second) = self.least(class, |candidate| candidate != best)?;
        let promise = |candidate: usize| {
            let prediction = self.predictions[candidate].as_ref()?;
            let is_open = class.tried[candidate].is_none() && prediction.deviation > 0.0;
            let is_paid = prediction.encode_ns * sampled <= class.credit_ns;
            let at_best = self.cost(class, candidate, -1.0)?;
            let hangs_on_it = match candidate == best {
                true => of_second < self.cost(class, candidate, 1.0)? * WORTH_A_TRIAL,
                false => at_best < of_best * WORTH_A_TRIAL,
            };
            (is_open && is_paid && hangs_on_it).then_some((candidate, at_best))
        };
        let promising = (0..CANDIDATES.len()).filter_map(promise);
        Some(promising.min_by(|one, other| one.1.total_cmp(&other.1))?.0)
    }
}

impl Class {
    /// Earns what the blocks since the last look are worth.
    fn earn(&mut self, weighed: &Weighed) {
        let Some(prediction) = weighed.predictions[weighed.best(self)] else { return };
        let share = if weighed.goal.mode == Mode::Archival { EARNED_FOR_ARCHIVES } else { EARNED };
        let blocks = std::mem::take(&mut self.blocks_since_look).max(1);
        if self.blocks == 0 {
            self.credit_ns = FIRST_CREDIT_BLOCKS * prediction.encode_ns;
        }
        let most = MAX_CREDIT_BLOCKS * prediction.encode_ns;
        self.credit_ns = (self.credit_ns + share * prediction.encode_ns * blocks as f32).min(most);
        self.blocks += blocks;
        if self.blocks >= FORGOTTEN_AFTER_BLOCKS {
            self.tried = [None; CANDIDATES.len()];
            self.blocks = KNOWN_AFTER_BLOCKS;
        }
    }

    fn try_it(&mut self, candidate: usize, predictions: &Predictions, trials: &mut impl Trials) {
        let prediction = predictions[candidate].expect("only what is predicted is worth a trial");
        self.credit_ns -= prediction.encode_ns * trials.sampled();
        let share = trials.share(candidate).max(1e-6);
        self.tried[candidate] = Some(share.log2() - prediction.log_share - self.bias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKENESS: Likeness = Likeness { same: [8, 3, 0], near: [4.0, 1.0, 2.0, 3.0] };
    const GLANCE: Glance =
        Glance { mode: Mode::Balanced, record_length: 8, element: Element::U64, is_known: false, log_collisions: 1.0 };
    const GOAL: Goal = Goal { mode: Mode::Balanced, conditions: Conditions { bytes_per_second: 500e6, cores: 1.0 } };
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
        choices.choose((GLANCE, LIKENESS), predictions, &GOAL, block)
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
            choices.choose((GLANCE, likeness), &predictions, &GOAL, &mut block);
        }
        assert_eq!(choices.classes.len(), MAX_CLASSES);
    }

    #[test]
    fn known_blocks_are_recalled_until_one_is_unexpected_or_a_closer_look_is_due() {
        let mut choices = Choices::default();
        let predictions = predicted((-1.0, 0.01), (-1.5, 0.01));
        let mut looks = 0;
        for _ in 0..400 {
            let chosen = choices.recall(&GLANCE).unwrap_or_else(|| {
                looks += 1;
                choose(&mut choices, &predictions, &mut Block(&|_| panic!("tried"), Vec::new()))
            });
            choices.learn(&chosen, 0.36);
        }
        assert!((20..50).contains(&looks), "{looks}");
        assert_eq!(choices.recall(&Glance { log_collisions: 3.0, ..GLANCE }), None);
        let chosen = choose(&mut choices, &predictions, &mut Block(&|_| panic!("tried"), Vec::new()));
        choices.learn(&chosen, 0.9);
        assert_eq!(choices.recall(&GLANCE), None);
    }
}

//! Chooses a candidate for each block: by what a model predicts, corrected by what blocks like it result.
//!
//! Blocks that look alike are a *class*. For each class it is remembered how far the candidates that were tried are from
//! their predictions. Trying costs time, which is earned by encoding: a share of it, and of a new class the time of one
//! block at once. What is uncertain and may be better is tried first, so that a class of many blocks settles on what is
//! best for it whatever the model thought, and what is predicted surely is never tried.

use super::allowance::Allowance;
use super::candidates::CANDIDATES;
use super::class::{Class, KNOWN_AFTER_BLOCKS, Likeness};
use super::credit::Credit;
use super::mode::{Conditions, Mode};
use crate::encoding::Element;

/// What a model predicts of one candidate on one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Base-2 logarithm of stored / raw bytes, and its standard deviation.
    pub log_share: f32,
    pub deviation: f32,
    /// By one core of the machine where the model's times were taken, a raw byte.
    pub encode_ns: f32,
    pub decode_ns: f32,
}

/// By candidate; `None` for those that have no meaning for the block.
pub type Predictions = [Option<Prediction>; CANDIDATES.len()];

/// Encodes a sample of the block.
pub trait Trials {
    /// Returns stored / raw bytes of the sample. Its time says nothing: it is short, and the machine may be busy.
    fn share(&mut self, candidate: usize) -> f32;

    /// The sample's length as a share of the block.
    fn sampled(&self) -> f32;

    /// Of the block.
    fn raw_bytes(&self) -> usize;
}

/// Classes that are remembered; the one not met for longest gives way.
const MAX_CLASSES: usize = 32;

/// A choice, and what is needed to learn from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    pub candidate: usize,
    /// Base-2 logarithm of stored / raw bytes as the model predicts it, uncorrected.
    predicted: f32,
    /// By one core of this machine, a raw byte, before the class corrects it.
    predicted_ns: f32,
    /// Number of its class.
    class: u64,
}

impl Chosen {
    /// Returns the base-2 logarithm of how many times as long as predicted the block took.
    fn log_slowness(&self, result: &EncodingResult) -> Option<f32> {
        let encode_ns = result.encode_ns.filter(|_| self.candidate >= FIRST_TIMED)?;
        Some((encode_ns / self.predicted_ns).clamp(MIN_SLOWNESS, MAX_SLOWNESS).log2())
    }
}

/// What encoding a whole block gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodingResult {
    /// Stored / raw bytes.
    pub share: f32,
    /// By one core, a raw byte; `None` where it was not measured.
    pub encode_ns: Option<f32>,
}

/// What is seen of a block at the first look, which costs little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glance {
    pub mode: Mode,
    pub record_length: u32,
    pub element: Element,
    pub is_known: bool,
    pub is_rounded: bool,
    /// Base-2 logarithm of the probe's.
    pub log_collisions: f32,
}

impl Glance {
    fn is_like(&self, other: &Glance) -> bool {
        let is_near = (self.log_collisions - other.log_collisions).abs() < NEAR_COLLISIONS;
        let same = |of: &Glance| (of.mode, of.record_length, of.element, of.is_known, of.is_rounded);
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
/// A known class is looked at closely once in so many blocks.
const CLOSE_LOOK_EVERY: u32 = 16;
/// Stored of no block is less (share).
pub(super) const MIN_SHARE: f32 = 1e-6;
/// What is so far from what was expected is no longer like it (base-2 logarithm).
const UNEXPECTED: f32 = 0.25;
/// Times vary more, with what else the machine does.
const UNEXPECTED_TIME: f32 = 0.5;
/// What is stored as it is, or but for runs of zeros, takes too little time to say how slow others are.
const FIRST_TIMED: usize = 2;
/// What seems faster or slower was not measured well (times as long as predicted).
const MIN_SLOWNESS: f32 = 0.125;
const MAX_SLOWNESS: f32 = 8.0;
/// How fast what new classes are taken for follows the times of all blocks (share).
const FOLLOWING_OF_TIMES: f32 = 1.0 / 16.0;

/// What is known of the classes met so far.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    classes: Vec<Class>,
    recent: Vec<Recent>,
    credit: Credit,
    /// Base-2 logarithm of how many times as long as predicted blocks take.
    log_slowness: f32,
    allowance: Allowance,
    /// Of whose predictions all this was learned.
    model: u64,
    /// That were looked at closely.
    blocks: u64,
}

/// What is to be least, and under which conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    pub mode: Mode,
    pub conditions: Conditions,
    /// How many times as long this machine encodes and decodes as the one where the model's times were taken.
    pub slowness: f32,
}

impl Choices {
    /// Forgets what was learned of another model's predictions.
    pub fn use_model(&mut self, number: u64) {
        if self.model != number {
            *self = Choices { model: number, allowance: self.allowance, ..Choices::default() };
        }
    }

    /// Pays for a first look at the next block, of so many bytes; returns `false` where mode `performance` has nothing left for one.
    pub fn take_first_look(&mut self, goal: &Goal, raw_bytes: usize) -> bool {
        self.allowance.take_first_look(goal, raw_bytes)
    }

    /// Counts what a block took and saved that was encoded without a choice.
    pub fn count(&mut self, goal: &Goal, result: &EncodingResult, raw_bytes: usize) {
        self.allowance.count(goal, result, raw_bytes);
    }

    /// Says how long a close look at a block took, its trials included (nanoseconds).
    pub fn pay_for_look(&mut self, goal: &Goal, took_ns: f32) {
        self.allowance.pay_for_look(goal, took_ns);
    }

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
        let mut credit = self.credit;
        let class = self.class(likeness, met);
        let is_new = class.blocks == 0;
        let blocks = class.begin_block();
        if let Some(best) = predictions[class.weigh(predictions, goal).best()] {
            credit.earn(goal.mode, best.encode_ns, trials.raw_bytes(), blocks, is_new);
        }
        let candidate = settle(class, predictions, goal, (trials, &mut credit));
        let prediction = predictions[candidate].expect("what is best was predicted");
        let (predicted, predicted_ns) = (prediction.log_share, prediction.encode_ns * goal.slowness);
        let chosen = Chosen { candidate, predicted, predicted_ns, class: class.number };
        // An archive looks at each block.
        let is_known = class.blocks >= KNOWN_AFTER_BLOCKS && goal.mode != Mode::Archival;
        self.credit = credit;
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

    /// Learns what a choice gave of a block of so many bytes.
    pub fn learn(&mut self, chosen: &Chosen, result: &EncodingResult, goal: &Goal, raw_bytes: usize) {
        if chosen.candidate > 0 {
            self.allowance.count(goal, result, raw_bytes);
        }
        let Some(class) = self.classes.iter_mut().find(|class| class.number == chosen.class) else { return };
        let log_share = result.share.max(MIN_SHARE).log2();
        let expected = class.log_share(chosen.candidate, chosen.predicted);
        class.learn(chosen.candidate, log_share - chosen.predicted);
        let mut is_unexpected = (log_share - expected).abs() > UNEXPECTED;
        match chosen.log_slowness(result) {
            Some(log_slowness) => {
                is_unexpected |= (log_slowness - class.log_slowness).abs() > UNEXPECTED_TIME;
                class.learn_slowness(log_slowness);
                self.log_slowness += FOLLOWING_OF_TIMES * (log_slowness - self.log_slowness);
            }
            // Nothing is measured any more: that it was slow once is forgotten.
            None => {
                class.log_slowness -= FOLLOWING_OF_TIMES * class.log_slowness;
                self.log_slowness -= FOLLOWING_OF_TIMES * self.log_slowness;
            }
        }
        if is_unexpected {
            self.recent.retain(|recent| recent.chosen != *chosen);
        }
    }

    /// Returns the class of such blocks, whose likeness follows them.
    fn class(&mut self, likeness: Likeness, met: u64) -> &mut Class {
        if let Some(found) = self.classes.iter().position(|class| class.likeness.is_like(&likeness)) {
            let class = &mut self.classes[found];
            (class.likeness, class.last_met) = (likeness, met);
            return class;
        }
        if self.classes.len() == MAX_CLASSES {
            let oldest = (0..MAX_CLASSES).min_by_key(|at| self.classes[*at].last_met).expect("there are classes");
            let forgotten = self.classes.swap_remove(oldest).number;
            self.recent.retain(|recent| recent.chosen.class != forgotten);
        }
        self.classes.push(Class::new(likeness, met, self.log_slowness));
        self.classes.last_mut().expect("one was pushed")
    }
}

/// Tries what is worth it, and returns what is best then.
fn settle(
    class: &mut Class,
    predictions: &Predictions,
    goal: &Goal,
    (trials, credit): (&mut impl Trials, &mut Credit),
) -> usize {
    let sampled_bytes = trials.sampled() * trials.raw_bytes() as f32;
    let price_ns = |prediction: &Prediction| prediction.encode_ns * sampled_bytes;
    loop {
        let weighed = class.weigh(predictions, goal);
        let is_payable = |candidate: usize| {
            predictions[candidate].as_ref().is_some_and(|prediction| credit.can_pay(goal.mode, price_ns(prediction)))
        };
        let Some(candidate) = weighed.worth_a_trial(is_payable) else { return weighed.best() };
        let prediction = predictions[candidate].expect("what has a weight is predicted");
        credit.spend(goal.mode, price_ns(&prediction));
        class.tried(candidate, &prediction, trials.share(candidate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKENESS: Likeness = Likeness { same: [1, 8, 3, 0], near: [4.0, 1.0, 2.0, 3.0] };
    const GLANCE: Glance = Glance {
        mode: Mode::Balanced,
        record_length: 8,
        element: Element::U64,
        is_known: false,
        is_rounded: false,
        log_collisions: 1.0,
    };
    const CONDITIONS: Conditions = Conditions { bytes_per_second: 500e6, cores: 1.0, core_watts: 10.0 };
    const GOAL: Goal = Goal { mode: Mode::Balanced, conditions: CONDITIONS, slowness: 1.0 };
    const BLOCK_BYTES: usize = 256 << 10;
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

        fn raw_bytes(&self) -> usize {
            BLOCK_BYTES
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
            choices.learn(
                &chosen,
                &EncodingResult { share: if chosen.candidate == SHUFFLED { 0.9 } else { 0.5 }, encode_ns: None },
                &GOAL,
                BLOCK_BYTES,
            );
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
        assert!(tried > 2 && spent <= crate::compression::credit::EARNED * 1.1, "{tried} trials");
    }

    #[test]
    fn what_all_blocks_are_wrong_by_is_learned_once_however_often_a_choice_is_recalled() {
        let mut choices = Choices::default();
        let predictions = predicted((-0.5, 0.01), (-1.0, 0.01));
        for block in 0..200 {
            let chosen = choices
                .recall(&GLANCE)
                .unwrap_or_else(|| choose(&mut choices, &predictions, &mut Block(&|_| 1.0, Vec::new())));
            assert_eq!(chosen.candidate, SHUFFLED, "block {block}");
            choices.learn(
                &chosen,
                &EncodingResult { share: if block < 3 { 0.5 } else { 0.59 }, encode_ns: None },
                &GOAL,
                BLOCK_BYTES,
            );
        }
    }

    #[test]
    fn an_earlier_choice_of_a_class_still_learns_when_the_likeness_has_followed_later_blocks() {
        let mut choices = Choices::default();
        let predictions = predicted((-1.0, 0.01), (-1.5, 0.01));
        let mut none = Block(&|_| panic!("tried"), Vec::new());
        let earlier = (0..3).map(|_| choose(&mut choices, &predictions, &mut none)).last().unwrap();
        let moved = Likeness { near: [4.5, 1.0, 2.0, 3.0], ..LIKENESS };
        let other = Glance { log_collisions: 2.0, ..GLANCE };
        choices.choose((other, moved), &predictions, &GOAL, &mut none);
        assert_eq!(choices.recall(&GLANCE), Some(earlier));
        let expected = choices.classes[0].log_share(SHUFFLED, -1.5);
        choices.learn(&earlier, &EncodingResult { share: 0.9, encode_ns: None }, &GOAL, BLOCK_BYTES);
        assert_eq!(choices.recall(&GLANCE), None);
        assert!(choices.classes[0].log_share(SHUFFLED, -1.5) > expected + 0.2);
    }

    #[test]
    fn new_kinds_of_blocks_are_tried_where_bytes_have_a_price_and_not_where_time_is_all() {
        for (mode, is_tried) in [(Mode::Balanced, true), (Mode::Performance, false), (Mode::Energy, false)] {
            let mut block = Block(&|_| 0.5, Vec::new());
            let goal = Goal { mode, ..GOAL };
            let predictions = predicted((-1.0, 0.5), (-1.1, 0.5));
            Choices::default().choose((GLANCE, LIKENESS), &predictions, &goal, &mut block);
            assert_eq!(!block.1.is_empty(), is_tried, "{mode:?}");
        }
    }

    #[test]
    fn an_encoding_that_takes_longer_than_predicted_is_left_where_time_is_all() {
        let goal = Goal {
            mode: Mode::Performance,
            conditions: Conditions { bytes_per_second: 200e6, cores: 1.0, ..Conditions::default() },
            slowness: 1.0,
        };
        for (encode_ns, is_left) in [(2.0, false), (9.0, true)] {
            let mut choices = Choices::default();
            let mut block = Block(&|_| 0.4, Vec::new());
            let mut last = 0;
            for _ in 0..100 {
                let chosen = choices.recall(&GLANCE).unwrap_or_else(|| {
                    choices.choose((GLANCE, LIKENESS), &predicted((-0.5, 0.01), (-1.2, 0.01)), &goal, &mut block)
                });
                let share = if chosen.candidate == SHUFFLED { 0.43 } else { 1.0 };
                choices.learn(&chosen, &EncodingResult { share, encode_ns: Some(encode_ns) }, &goal, BLOCK_BYTES);
                last = chosen.candidate;
            }
            assert_eq!(last == 0, is_left, "{encode_ns} ns a byte: {last}");
        }
    }

    #[test]
    fn what_was_slow_once_is_tried_again() {
        let conditions = Conditions { bytes_per_second: 200e6, ..CONDITIONS };
        let goal = Goal { mode: Mode::Performance, conditions, slowness: 1.0 };
        let mut choices = Choices::default();
        let mut last = 0;
        for number in 0..400 {
            let encode_ns = if number < 20 { 9.0 } else { 2.0 };
            let chosen = choices.recall(&GLANCE).unwrap_or_else(|| {
                let mut block = Block(&|_| 0.4, Vec::new());
                choices.choose((GLANCE, LIKENESS), &predicted((-0.5, 0.01), (-1.2, 0.01)), &goal, &mut block)
            });
            let share = if chosen.candidate == SHUFFLED { 0.43 } else { 1.0 };
            choices.learn(&chosen, &EncodingResult { share, encode_ns: Some(encode_ns) }, &goal, BLOCK_BYTES);
            last = chosen.candidate;
        }
        assert_eq!(last, SHUFFLED);
    }

    #[test]
    fn another_models_errors_are_forgotten() {
        let mut choices = Choices::default();
        choices.use_model(1);
        let mut none = Block(&|_| panic!("tried"), Vec::new());
        let chosen = choose(&mut choices, &predicted((-1.0, 0.01), (-1.2, 0.01)), &mut none);
        choices.learn(&chosen, &EncodingResult { share: 0.9, encode_ns: None }, &GOAL, BLOCK_BYTES);
        choices.use_model(1);
        assert_eq!(choices.classes.len(), 1);
        choices.use_model(2);
        assert_eq!(choose(&mut choices, &predicted((-1.0, 0.01), (-1.2, 0.01)), &mut none), chosen);
    }

    #[test]
    fn what_another_block_was_wrong_by_is_tried_before_it_decides_against_compression() {
        let mut choices = Choices::default();
        let mut predictions = predicted((-1.0, 0.01), (-1.2, 0.01));
        predictions[PLAIN] = None;
        let chosen = choose(&mut choices, &predictions, &mut Block(&|_| panic!("tried"), Vec::new()));
        choices.learn(&chosen, &EncodingResult { share: 1.0, encode_ns: None }, &GOAL, BLOCK_BYTES);
        let mut block = Block(&|_| 0.5, Vec::new());
        assert_eq!(choose(&mut choices, &predictions, &mut block).candidate, SHUFFLED);
        assert_eq!(block.1, [SHUFFLED]);
    }

    /// Returns how many candidates are tried on a new kind of block whose best is cheap and whose dear one is unsure.
    fn trials_of_cheap_blocks(choices: &mut Choices) -> usize {
        let goal = Goal { mode: Mode::Archival, ..GOAL };
        let mut predictions = predicted((-1.0, 0.01), (-0.9, 0.5));
        predictions[SHUFFLED].as_mut().unwrap().encode_ns = 150.0;
        let mut block = Block(&|_| 0.5, Vec::new());
        let likeness = Likeness { same: [2, 1, 0, 0], ..LIKENESS };
        choices.choose((GLANCE, likeness), &predictions, &goal, &mut block);
        block.1.iter().filter(|tried| **tried == SHUFFLED).count()
    }

    #[test]
    fn blocks_that_are_cheap_to_encode_are_tried_with_what_dear_ones_earned() {
        let mut choices = Choices::default();
        assert_eq!(trials_of_cheap_blocks(&mut choices), 0);
        let goal = Goal { mode: Mode::Archival, ..GOAL };
        let mut predictions = predicted((-1.0, 0.001), (-3.0, 0.001));
        predictions[SHUFFLED].as_mut().unwrap().encode_ns = 150.0;
        choices.choose((GLANCE, LIKENESS), &predictions, &goal, &mut Block(&|_| 0.5, Vec::new()));
        choices.classes.retain(|class| class.likeness == LIKENESS);
        assert_eq!(trials_of_cheap_blocks(&mut choices), 1);
    }

    #[test]
    fn an_archive_tries_each_block_and_other_modes_one_of_a_class() {
        for (mode, tried_anew) in [(Mode::Balanced, false), (Mode::Archival, true)] {
            let goal = Goal { mode, ..GOAL };
            let mut choices = Choices::default();
            let mut block = Block(&|_| 0.5, Vec::new());
            for _ in 0..20 {
                block.1.clear();
                choices.choose((GLANCE, LIKENESS), &predicted((-1.0, 0.5), (-1.0, 0.5)), &goal, &mut block);
            }
            assert_eq!(!block.1.is_empty(), tried_anew, "{mode:?}");
        }
    }

    #[test]
    fn no_more_classes_are_kept_than_there_is_room_for() {
        let mut choices = Choices::default();
        for number in 0..100 {
            let likeness = Likeness { same: [1, number, 0, 0], ..LIKENESS };
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
            choices.learn(&chosen, &EncodingResult { share: 0.36, encode_ns: None }, &GOAL, BLOCK_BYTES);
        }
        assert!((20..50).contains(&looks), "{looks}");
        assert_eq!(choices.recall(&Glance { log_collisions: 3.0, ..GLANCE }), None);
        let chosen = choose(&mut choices, &predictions, &mut Block(&|_| panic!("tried"), Vec::new()));
        choices.learn(&chosen, &EncodingResult { share: 0.9, encode_ns: None }, &GOAL, BLOCK_BYTES);
        assert_eq!(choices.recall(&GLANCE), None);
    }
}

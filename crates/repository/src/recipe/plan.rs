//! Which commands make dropped contents again, in which order, and where each finds its inputs.

use std::collections::HashMap;

use format::{ErrorCode, RecipeInput, VersionRecord, recipe_id};

use super::drop::cycle_of;
use super::order::{OrderRefusal, in_order};
use super::{DroppedContent, InputState, Recipe};
use crate::{Error, Repository, Result};

/// Commands to run: each stands behind those whose outputs it needs.
pub struct ComputePlan {
    pub steps: Vec<ComputeStep>,
    /// What was asked for, in that order.
    pub targets: Vec<ComputeTarget>,
}

/// A command to run once.
pub struct ComputeStep {
    pub recipe: Recipe,
    /// One for each input of the record.
    pub inputs: Vec<ComputeInput>,
}

/// Where a command's input is.
pub enum ComputeInput {
    /// In the recipe's file, from this byte on.
    Kept(u64),
    /// In the store, as a version of its own.
    Stored(VersionRecord),
    Made(ComputeTarget),
}

/// An output of a step, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputeTarget {
    pub step: usize,
    pub output: usize,
}

impl ComputePlan {
    /// Returns how long the commands took when they were recorded, together (nanoseconds).
    pub fn duration_ns(&self) -> u64 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.recipe.record.duration_ns))
    }

    /// Returns how much of the store they read (bytes).
    pub fn input_bytes(&self) -> u64 {
        let read = |(input, from): (&RecipeInput, &ComputeInput)| match from {
            ComputeInput::Made(_) => 0,
            ComputeInput::Kept(_) | ComputeInput::Stored(_) => input.bytes,
        };
        let of_step = |step: &ComputeStep| step.recipe.record.inputs.iter().zip(&step.inputs).map(read).sum::<u64>();
        self.steps.iter().map(of_step).sum()
    }
}

/// Recipes that were read, with what each needs.
struct Reading<'a> {
    repository: &'a Repository,
    recipes: HashMap<[u8; 32], (Recipe, Vec<Found>)>,
}

enum Found {
    Kept(u64),
    Stored(VersionRecord),
    Made(DroppedContent),
}

impl Repository {
    /// Plans to make these contents again. Refused where one of them needs what is gone.
    pub fn plan_compute(&self, contents: &[DroppedContent]) -> Result<ComputePlan> {
        let mut reading = Reading { repository: self, recipes: HashMap::new() };
        let wanted: Vec<[u8; 32]> = contents.iter().map(|content| content.recipe).collect();
        let order = in_order(&wanted, |digest| reading.needs(digest)).map_err(|no_order| match no_order {
            OrderRefusal::Failed(error) => error,
            OrderRefusal::Cycle(cycle) => refused(&cycle[0], cycle_of(&cycle)),
        })?;
        let steps: HashMap<[u8; 32], usize> = order.iter().enumerate().map(|(at, digest)| (*digest, at)).collect();
        let target =
            |content: &DroppedContent| ComputeTarget { step: steps[&content.recipe], output: content.output as usize };
        let targets: Vec<ComputeTarget> = contents.iter().map(target).collect();
        let mut planned = Vec::new();
        for digest in &order {
            let (recipe, found) = reading.recipes.remove(digest).expect("all in the order were read");
            let place = |found| match found {
                Found::Kept(start) => ComputeInput::Kept(start),
                Found::Stored(version) => ComputeInput::Stored(version),
                Found::Made(content) => ComputeInput::Made(target(&content)),
            };
            planned.push(ComputeStep { recipe, inputs: found.into_iter().map(place).collect() });
        }
        let plan = ComputePlan { steps: planned, targets };
        plan.check()?;
        Ok(plan)
    }
}

impl ComputePlan {
    /// Refuses outputs that recipes do not have: a manifest may say anything.
    fn check(&self) -> Result<()> {
        let made = self.steps.iter().flat_map(|step| &step.inputs).filter_map(|input| match input {
            ComputeInput::Made(target) => Some(target),
            _ => None,
        });
        for target in made.chain(&self.targets) {
            let recipe = &self.steps[target.step].recipe;
            if target.output >= recipe.record.outputs.len() {
                return Err(refused(&recipe.digest, format!("it has no output {}", target.output)));
            }
        }
        Ok(())
    }
}

impl Reading<'_> {
    fn needs(&mut self, digest: [u8; 32]) -> Result<Vec<[u8; 32]>> {
        let recipe = match self.repository.recipe(&digest)? {
            Some(Ok(recipe)) => recipe,
            Some(Err(why)) => return Err(refused(&digest, format!("it cannot be read: {why}"))),
            None => return Err(refused(&digest, "the store has no such recipe any more, and it is needed".into())),
        };
        if let Some(what) = recipe.record.inputs_not_kept.first() {
            return Err(refused(&digest, format!("it also needs what is not kept: {what}")));
        }
        let mut found = Vec::new();
        for (input, state) in recipe.record.inputs.iter().zip(&recipe.inputs) {
            found.push(match state {
                InputState::Kept(start) => Found::Kept(*start),
                InputState::Dropped(content) => match self.stored(input)? {
                    Some(version) => Found::Stored(version),
                    None => Found::Made(*content),
                },
            });
        }
        let needed = found.iter().filter_map(|found| match found {
            Found::Made(content) => Some(content.recipe),
            _ => None,
        });
        let needed = needed.collect();
        self.recipes.insert(digest, (recipe, found));
        Ok(needed)
    }

    /// Returns the version at an input's path, where it has the content and is kept: it was restored.
    fn stored(&self, input: &RecipeInput) -> Result<Option<VersionRecord>> {
        let head = self.repository.catalog.entry(&input.path)?.and_then(|entry| entry.head);
        Ok(head.map(|head| head.record).filter(|record| {
            let is_it = record.size == input.bytes && record.content == Some(input.digest);
            is_it && DroppedContent::of(record).is_none()
        }))
    }
}

fn refused(digest: &[u8; 32], why: String) -> Error {
    Error::Refused { code: ErrorCode::NotRecomputable, path: format!("recipe {}", recipe_id(digest)), why }
}

//! `thalweg recipes`: the recipes of a store, what keeping and recomputing their outputs cost, and what to drop.

mod description;

use std::ffi::OsString;

use anyhow::Context;
use format::StorePath;
use policy::cost::recomputation::{EUR_PER_NODE_HOUR, EUR_PER_TB_YEAR};
use policy::dropping::{self, Droppable};
use repository::{Access, OutputState, Recipe, RecipeDirectory, Repository};
use serde_json::{Value, json};

use super::COMMITTER;
use crate::error_code::fail;
use crate::failure::{Incomplete, misuse};
use crate::location::store_of_argument;
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{arguments, command_line, shown_duration};
use crate::{byte_size, shown};

/// List recipes, with what keeping and recomputing cost, and what to drop for a budget
#[derive(clap::Args)]
#[command(
    after_help = "Euros are those of docs/models.md: a year of keeping the outputs, and computing them once with all that this \
                  needs.\n\n\
                  Example: thalweg recipes /scratch/st --budget 10G"
)]
pub struct Arguments {
    /// The store (default: $THALWEG_STORE)
    store: Option<OsString>,
    /// Say which outputs to drop to free so much, the soonest computed for each byte first
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "remove")]
    budget: Option<u64>,
    /// Remove these recipes, which no dropped file may need, and stop keeping their inputs
    #[arg(long, value_name = "ID", num_args = 1..)]
    remove: Vec<String>,
    /// Show all that this recipe keeps: its command, programs, environment, inputs and outputs
    #[arg(long, value_name = "ID", conflicts_with_all = ["budget", "remove"])]
    show: Option<String>,
    /// With --show: print this program instead, which the recipe keeps
    #[arg(long, value_name = "NAME", requires = "show")]
    program: Option<String>,
}

fn size(text: &str) -> Result<u64, String> {
    byte_size::parse(text).filter(|size| *size > 0).ok_or_else(|| format!("{text:?} is no size; write 500M or 10G"))
}

/// A recipe with what is to be known of it now.
struct Listed<'a> {
    recipe: &'a Recipe,
    outputs: Vec<(&'a StorePath, u64, OutputState)>,
    /// Or why it cannot be computed again.
    chain_ns: Result<u64, String>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let access = if arguments.remove.is_empty() { Access::Read } else { Access::Remove };
    let repository = open_store(&store, access)?;
    if !arguments.remove.is_empty() {
        return remove(&repository, &arguments.remove, output);
    }
    if let Some(id) = &arguments.show {
        match &arguments.program {
            Some(program) if output.is_json() => {
                misuse!("--program {program} prints the file itself; --json has no meaning here")
            }
            Some(program) => description::print_program(&repository, id, program, output)?,
            None => description::describe(&repository, id, output)?,
        }
        return Ok(repository.close()?);
    }
    let found = repository.recipes()?;
    let listed = listed(&repository, &found)?;
    repository.close()?;
    match arguments.budget {
        Some(budget) => report_budget(&listed, budget, output)?,
        None => report(&listed, output)?,
    }
    found.unreadable.iter().for_each(|unreadable| output.note(unreadable));
    match found.unreadable.len() as u64 {
        0 => Ok(()),
        count => Err(Incomplete(format!("{} cannot be read", shown::count(count, "recipe"))).into()),
    }
}

fn remove(repository: &Repository, ids: &[String], output: &Output) -> anyhow::Result<()> {
    if let Some(id) =
        ids.iter().find(|id| id.contains('/') || StorePath::new(id.as_bytes()).map_or(true, |path| path.is_root()))
    {
        misuse!(NoSuchRecipe: "{id:?} is no recipe's name; `thalweg recipes STORE` lists them");
    }
    repository.remove_recipes(COMMITTER, ids)?;
    repository.close()?;
    output.document(&json!({ "removed": ids }))?;
    output.summary(format_args!("removed {}", shown::count(ids.len() as u64, "recipe")))
}

fn listed<'a>(repository: &Repository, found: &'a RecipeDirectory) -> anyhow::Result<Vec<Listed<'a>>> {
    let order = found.order();
    let directory = std::env::current_dir().context("this directory")?;
    let mut obstacle = recipe::obstacle(&directory);
    let mut listed = Vec::new();
    for recipe in &found.readable {
        let paths: Vec<StorePath> = recipe.record.outputs.iter().map(|output| output.path.clone()).collect();
        let entries = repository.entries(&paths).into_iter().collect::<Result<Vec<_>, _>>()?;
        let outputs = recipe.record.outputs.iter().zip(&entries);
        let outputs =
            outputs.map(|(output, entry)| (&output.path, output.bytes, OutputState::of(output, entry.as_ref())));
        let chain_ns = order.needed(recipe).and_then(|needed| {
            let hindered = needed.iter().find_map(|one| obstacle(&one.record));
            let sum = needed.iter().fold(0_u64, |sum, one| sum.saturating_add(one.record.duration_ns));
            hindered.map_or(Ok(sum), Err)
        });
        listed.push(Listed { recipe, outputs: outputs.collect(), chain_ns });
    }
    Ok(listed)
}

impl Listed<'_> {
    fn bytes(&self, wanted: OutputState) -> u64 {
        self.outputs.iter().filter(|(_, _, state)| *state == wanted).map(|(_, bytes, _)| bytes).sum()
    }

    fn state(&self) -> OutputState {
        let has = |wanted| self.outputs.iter().any(|(_, _, state)| *state == wanted);
        match (has(OutputState::Dropped), has(OutputState::Kept)) {
            (true, _) => OutputState::Dropped,
            (false, true) => OutputState::Kept,
            (false, false) => OutputState::Gone,
        }
    }

    fn keeping_eur(&self) -> f64 {
        let bytes: u64 = self.outputs.iter().map(|(_, bytes, _)| bytes).sum();
        bytes as f64 / 1e12 * EUR_PER_TB_YEAR
    }

    fn recomputing_eur(&self) -> Option<f64> {
        self.chain_ns.as_ref().ok().map(|chain_ns| *chain_ns as f64 / 3.6e12 * EUR_PER_NODE_HOUR)
    }

    fn line(&self) -> String {
        let bytes = self.outputs.iter().map(|(_, bytes, _)| bytes).sum();
        let (size, keeping) = (shown::size(bytes), self.keeping_eur());
        let recompute = match (&self.chain_ns, self.recomputing_eur()) {
            (Ok(chain_ns), Some(eur)) => format!("recompute {} ({eur:.2e} EUR)", shown_duration(*chain_ns)),
            (Err(why), _) => format!("not recomputable: {why}"),
            (Ok(_), None) => unreachable!("what takes a time has a price"),
        };
        let (id, state, command) = (&self.recipe.id, self.state().name(), command_line(self.recipe));
        format!("{id}  {state:<7}  {size:>10} ({keeping:.2e} EUR a year)  {recompute}  {command}")
    }

    fn fields(&self) -> Value {
        let record = &self.recipe.record;
        let output = |(path, bytes, state): &(&StorePath, u64, OutputState)| {
            let mut fields = shown::path_fields(path.as_bytes());
            fields.insert("bytes".into(), (*bytes).into());
            fields.insert("state".into(), state.name().into());
            Value::Object(fields)
        };
        let inputs = record.inputs.iter().map(|input| Value::Object(shown::path_fields(input.path.as_bytes())));
        json!({
            "id": self.recipe.id,
            "command": command_line(self.recipe),
            "arguments": arguments(self.recipe),
            "recorded": shown::exact_time(record.recorded),
            "host": record.host,
            "uid": record.uid,
            "state": self.state().name(),
            "outputs": self.outputs.iter().map(output).collect::<Vec<_>>(),
            "inputs": inputs.collect::<Vec<_>>(),
            "inputs_not_kept": record.inputs_not_kept,
            "recomputable": self.chain_ns.is_ok(),
            "why_not": self.chain_ns.as_ref().err(),
            "seconds": record.duration_ns as f64 / 1e9,
            "seconds_with_inputs": self.chain_ns.as_ref().ok().map(|chain_ns| *chain_ns as f64 / 1e9),
            "keeping_eur_per_year": self.keeping_eur(),
            "recomputing_eur": self.recomputing_eur(),
        })
    }
}

fn report(listed: &[Listed], output: &Output) -> anyhow::Result<()> {
    let mut array = output.array();
    for one in listed {
        array.push(&one.fields())?;
        output.line(one.line())?;
    }
    if listed.is_empty() {
        output.summary("no recipes")?;
    }
    array.finish()
}

/// Of each recipe its kept outputs can go.
fn report_budget(listed: &[Listed], budget: u64, output: &Output) -> anyhow::Result<()> {
    let able: Vec<&Listed> = listed.iter().filter(|one| one.chain_ns.is_ok()).collect();
    let droppable: Vec<Droppable> = able
        .iter()
        .map(|one| {
            let chain_ns = one.chain_ns.as_ref().copied().unwrap_or(0);
            Droppable { bytes: one.bytes(OutputState::Kept), seconds: chain_ns as f64 / 1e9 }
        })
        .collect();
    let Some(chosen) = dropping::choose(&droppable, budget) else {
        let all = droppable.iter().map(|one| one.bytes).sum();
        fail!(NothingChosen: "recipes make only {} again, not {}", shown::size(all), shown::size(budget));
    };
    let (mut paths, mut array) = (0, Vec::new());
    for at in &chosen {
        let one = able[*at];
        for (path, bytes, _) in one.outputs.iter().filter(|(_, _, state)| *state == OutputState::Kept) {
            let mut fields = shown::path_fields(path.as_bytes());
            fields.insert("bytes".into(), (*bytes).into());
            fields.insert("recipe".into(), one.recipe.id.clone().into());
            array.push(Value::Object(fields));
            output.line(format_args!("{}  {:>10}  {}", one.recipe.id, shown::size(*bytes), shown::path(path)))?;
            paths += 1;
        }
    }
    let bytes: u64 = chosen.iter().map(|at| droppable[*at].bytes).sum();
    let seconds: f64 = chosen.iter().map(|at| droppable[*at].seconds).sum();
    output.document(&json!({ "drop": array, "bytes": bytes, "seconds": seconds }))?;
    output.summary(format_args!(
        "dropping {} frees {}; computing all again takes {}",
        shown::count(paths, "file"),
        shown::size(bytes),
        shown_duration((seconds * 1e9) as u64)
    ))
}

//! One recipe with all that it keeps: what runs where it is computed again.

use format::{RecipeRecord, RecipeTolerance};
use repository::{InputState, Recipe, Repository};
use serde_json::{Map, Value, json};

use crate::error_code::fail;
use crate::get::{Range, print};
use crate::output::Output;
use crate::recipes::{arguments, command_line, origin, shown_duration};
use crate::shown;

/// Describes the recipe with this name.
pub fn describe(repository: &Repository, id: &str, output: &Output) -> anyhow::Result<()> {
    let recipe = find(repository, id)?;
    output.document(&fields(&recipe))?;
    if output.is_json() {
        return Ok(());
    }
    let record = &recipe.record;
    output.line(format_args!("recipe       {id}"))?;
    output.line(format_args!("command      {}", command_line(&recipe)))?;
    output.line(format_args!("recorded     {}, took {}", &origin(&recipe)[9..], shown_duration(record.duration_ns)))?;
    for program in &record.programs {
        let (name, size) = (shown::escaped(&program.name), shown::size(program.bytes));
        let kept = if program.is_kept { "kept" } else { "not kept" };
        output.line(format_args!("program      {name}  {size}  {kept}  {}", shown::base16(&program.digest)))?;
    }
    for (name, value) in &record.environment {
        output.line(format_args!("environment  {}={}", shown::escaped(name), shown::escaped(value)))?;
    }
    for (input, state) in record.inputs.iter().zip(&recipe.inputs) {
        let state = if matches!(state, InputState::Kept(_)) { "kept" } else { "made by another recipe" };
        output.line(format_args!(
            "input        {}  {}  {state}",
            place(&input.name, &input.path),
            shown::size(input.bytes)
        ))?;
    }
    record
        .inputs_not_kept
        .iter()
        .try_for_each(|what| output.line(format_args!("input        {}  not kept", shown::escaped(what.as_bytes()))))?;
    for made in &record.outputs {
        let tolerance = made.tolerance.as_ref().map(|tolerance| format!("  {}", bound(tolerance))).unwrap_or_default();
        output.line(format_args!(
            "output       {}  {}{tolerance}",
            place(&made.name, &made.path),
            shown::size(made.bytes)
        ))?;
    }
    Ok(())
}

/// Prints a program that the recipe keeps.
pub fn print_program(repository: &Repository, id: &str, name: &str, output: &Output) -> anyhow::Result<()> {
    let recipe = find(repository, id)?;
    let mut programs = recipe.record.programs.iter().zip(recipe.program_starts());
    let Some((program, start)) = programs.find(|(program, _)| program.name == name.as_bytes()) else {
        fail!(NoSuchPath: "recipe {id}: has no program {name:?}; `--show {id}` names them");
    };
    let Some(start) = start else {
        fail!(NoSuchPath: "recipe {id}: does not keep its program {name}, but its digest alone");
    };
    let range = Range::new(start, program.bytes);
    print(repository, recipe.version(), range, output)?;
    Ok(())
}

fn find(repository: &Repository, id: &str) -> anyhow::Result<Recipe> {
    let found = repository.recipes()?;
    if let Some(recipe) = found.readable.into_iter().find(|recipe| recipe.id == id) {
        return Ok(recipe);
    }
    match found.unreadable.into_iter().find(|recipe| recipe.id == id) {
        Some(unreadable) => fail!(NoSuchRecipe: "{unreadable}"),
        None => fail!(NoSuchRecipe: "{id}: no such recipe; `thalweg recipes STORE` lists them"),
    }
}

/// A file's name for the command, and its path where that is another.
fn place(name: &[u8], path: &format::StorePath) -> String {
    match name == path.as_bytes() {
        true => shown::path(path),
        false => format!("{} = {}", shown::escaped(name), shown::path(path)),
    }
}

fn bound(tolerance: &RecipeTolerance) -> String {
    format!("relative:{:e}:{}", tolerance.relative, tolerance.element)
}

fn fields(recipe: &Recipe) -> Value {
    let record = &recipe.record;
    json!({
        "id": recipe.id,
        "arguments": arguments(recipe),
        "recorded": shown::exact_time(record.recorded),
        "seconds": record.duration_ns as f64 / 1e9,
        "host": record.host,
        "uid": record.uid,
        "programs": programs(record),
        "environment": record.environment.iter().map(|(name, value)| (text(name), text(value).into())).collect::<Map<String, Value>>(),
        "inputs": inputs(recipe),
        "inputs_not_kept": record.inputs_not_kept,
        "outputs": outputs(record),
        "ignores_others": record.ignores_others,
    })
}

fn programs(record: &RecipeRecord) -> Vec<Value> {
    let fields = |program: &format::RecipeProgram| {
        json!({
            "name": text(&program.name),
            "bytes": program.bytes,
            "digest": shown::base16(&program.digest),
            "kept": program.is_kept,
        })
    };
    record.programs.iter().map(fields).collect()
}

fn inputs(recipe: &Recipe) -> Vec<Value> {
    let fields = |(input, state): (&format::RecipeInput, &InputState)| {
        let mut fields = shown::path_fields(input.path.as_bytes());
        fields.insert("name".into(), text(&input.name).into());
        fields.insert("bytes".into(), input.bytes.into());
        fields.insert("digest".into(), shown::base16(&input.digest).into());
        fields.insert("kept".into(), matches!(state, InputState::Kept(_)).into());
        Value::Object(fields)
    };
    recipe.record.inputs.iter().zip(&recipe.inputs).map(fields).collect()
}

fn outputs(record: &RecipeRecord) -> Vec<Value> {
    let fields = |output: &format::RecipeOutput| {
        let mut fields = shown::path_fields(output.path.as_bytes());
        fields.insert("name".into(), text(&output.name).into());
        fields.insert("bytes".into(), output.bytes.into());
        fields.insert("digest".into(), shown::base16(&output.digest).into());
        fields.insert("tolerance".into(), output.tolerance.as_ref().map(bound).into());
        Value::Object(fields)
    };
    record.outputs.iter().map(fields).collect()
}

/// As JSON has it: what is not UTF-8 is replaced.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

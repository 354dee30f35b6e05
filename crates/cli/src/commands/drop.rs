//! `thalweg drop`: frees the data of files that recipes make again, and keeps their names.

use std::ffi::OsString;

use anyhow::Context;
use recipe::ComputeOptions;
use repository::{Access, DropPlan, DropRequest, DroppedFile, Repository};
use serde_json::{Value, json};

use super::COMMITTER;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{RunArguments, dropped_content, failed, note_agreement, regular_files};
use crate::shown;
use crate::signals::Interruption;

/// Free the data of files that recipes make again; their names stay
#[derive(clap::Args)]
#[command(
    after_help = "A file is dropped only where a recipe made just this version and all that the recipe needs is kept, or is \
                  made again by other recipes; whether its command makes the same again is known with --check. `collect` frees the \
                  space; `recompute` brings the data back.\n\n\
                  Example: thalweg drop --recomputable /scratch/st::run1/mean.dat"
)]
pub struct Arguments {
    /// Files, or directories with all below them, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// Drop what recipes make again, and nothing else
    #[arg(long, required = true)]
    recomputable: bool,
    /// Say what would be dropped, and drop nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Run the recipes first, as you, and drop only if they make the same again
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    run: RunArguments,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    debug_assert!(arguments.recomputable);
    if !arguments.check {
        arguments.run.refuse_without("--check")?;
    }
    let locations = Location::parse_all(&arguments.locations)?;
    // Before the store's threads, which must not get the signals.
    let interruption = match arguments.check {
        true => Interruption::watch().context("starting the thread that waits for signals")?,
        false => Interruption::default(),
    };
    let access = if arguments.dry_run { Access::Read } else { Access::Write };
    let repository = open_store(&locations[0].store, access)?;
    let files = regular_files(&repository, &locations)?;
    let is_left = |entry: &catalog::FileEntry| {
        dropped_content(entry).is_none() && entry.head.as_ref().is_none_or(|head| head.record.size > 0)
    };
    // Those that are dropped already stay as they are; of directories also those that are empty, or no recipe makes.
    let is_named = |path: &format::StorePath| locations.iter().any(|location| location.path == *path);
    let wanted =
        files.iter().filter(|(path, entry)| dropped_content(entry).is_none() && (is_named(path) || is_left(entry)));
    let need = |path| if is_named(path) { DropRequest::Required } else { DropRequest::IfPossible };
    let paths: Vec<_> = wanted.map(|(path, _)| (path.clone(), need(path))).collect();
    let directory = std::env::current_dir().context("this directory")?;
    let mut obstacle = recipe::obstacle(&directory);
    let plan = repository.plan_drop(&paths, &mut |recipe| obstacle(&recipe.record))?;
    if arguments.check && !plan.files.is_empty() {
        check((&repository, &plan), arguments, &interruption, output)?;
    }
    if !arguments.dry_run && !plan.files.is_empty() {
        repository.drop_files(COMMITTER, &plan)?;
    }
    repository.close()?;
    report(&plan, arguments.dry_run, output)
}

/// Runs the commands of a plan; an error where one makes something else than what is there.
fn check(
    (repository, plan): (&Repository, &DropPlan),
    arguments: &Arguments,
    interruption: &Interruption,
    output: &Output,
) -> anyhow::Result<()> {
    let commands = repository.plan_compute(&plan.contents())?;
    let options = ComputeOptions {
        directory: std::env::current_dir().context("this directory")?,
        timeout: arguments.run.timeout(),
        run: arguments.run.options(output),
        ..ComputeOptions::default()
    };
    interruption.heed(true);
    let made = recipe::compute(repository, &commands, &options, &|line| output.note(line), &|| interruption.has_come());
    interruption.heed(false);
    let made = made.map_err(|error| failed(error, interruption))?;
    plan.files.iter().zip(&made.files).for_each(|(file, made)| note_agreement(&file.path, made.agreement, output));
    Ok(())
}

fn report(plan: &DropPlan, is_dry_run: bool, output: &Output) -> anyhow::Result<()> {
    let files = &plan.files;
    output.notes(&plan.left, |error| error.to_string(), |count| format!("{} left", shown::count(count as u64, "file")));
    let held: Vec<&DroppedFile> = files.iter().filter(|file| !file.snapshots.is_empty()).collect();
    let line = |file: &&DroppedFile| {
        let (path, snapshots) = (shown::path(&file.path), file.snapshots.join(", "));
        format!("{path}: snapshot {snapshots} has the data too, and keeps it (`thalweg forget --snapshot` drops it)")
    };
    output.notes(&held, line, |count| shown::count(count as u64, "file"));
    let fields = |file: &DroppedFile| {
        let mut fields = shown::path_fields(file.path.as_bytes());
        fields.insert("bytes".into(), file.bytes.into());
        fields.insert("recipe".into(), file.recipe_id.clone().into());
        fields.insert("snapshots".into(), file.snapshots.clone().into());
        Value::Object(fields)
    };
    let dropped: Vec<Value> = files.iter().map(fields).collect();
    let left: Vec<Value> = plan.left.iter().map(|error| json!({ "error": error.to_string() })).collect();
    output.document(&json!({ "dry_run": is_dry_run, "dropped": dropped, "left": left }))?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let (count, size) = (shown::count(files.len() as u64, "file"), shown::size(bytes));
    match is_dry_run {
        _ if files.is_empty() => output.summary("nothing to drop"),
        true => output.summary(format_args!("would drop {count} ({size})")),
        false => output.summary(format_args!("dropped {count} ({size}); `thalweg collect` frees the space")),
    }
}

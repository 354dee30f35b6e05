//! `thalweg recompute`: runs the recipes of dropped files again, and gives the files their data back.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use anyhow::Context;
use catalog::FileEntry;
use format::StorePath;
use recipe::{Agreement, ComputeOptions, Computed};
use repository::{Access, ComputePlan, ComputeStep};
use serde_json::{Value, json};

use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{
    RunArguments, arguments, claim_owners, command_line, dropped_content, failed, note_agreement, origin,
    regular_files, shown_duration,
};
use crate::shown;
use crate::signals::Interruption;

/// Run the recipes of dropped files, and give the files their data back
#[derive(clap::Args)]
#[command(
    after_help = "Each command runs once, behind those that make its inputs. What it makes is compared bit for bit, or within \
                  the tolerance that the recipe states; where it differs (but for --accept-different), or a command fails, the store stays as it is. A \
                  recipe is the program of the user who recorded it, and runs as you: -n names it first, and `recipes --show` shows its programs and environment.\n\n\
                  Example: thalweg recompute /scratch/st::run1/mean.dat"
)]
pub struct Arguments {
    /// Dropped files, or directories with all below them, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// Say what it would take, and run nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Commands that run at once
    #[arg(long, short, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,
    /// Take what commands make now, also where it is not what was dropped: the old content is lost then
    #[arg(long)]
    accept_different: bool,
    #[command(flatten)]
    run: RunArguments,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let locations = Location::parse_all(&arguments.locations)?;
    // Before the store's threads, which must not get the signals.
    let interruption = Interruption::watch().context("starting the thread that waits for signals")?;
    let access = if arguments.dry_run { Access::Read } else { Access::Write };
    let repository = open_store(&locations[0].store, access)?;
    let mut files = regular_files(&repository, &locations)?;
    files.retain(|(_, entry)| dropped_content(entry).is_some());
    let contents: Vec<_> = files.iter().filter_map(|(_, entry)| dropped_content(entry)).collect();
    let plan = repository.plan_compute(&contents)?;
    if arguments.dry_run {
        repository.close()?;
        note_obstacles(&plan, output)?;
        return report_plan(&plan, &files, output);
    }
    let options = ComputeOptions {
        directory: std::env::current_dir().context("this directory")?,
        jobs: arguments.jobs.get(),
        timeout: arguments.run.timeout(),
        run: arguments.run.options(output),
        accepts_different: arguments.accept_different,
    };
    interruption.heed(true);
    let note = |line: &str| output.note(line);
    let must_stop = || interruption.has_come();
    let computed = recipe::compute(&repository, &plan, &options, &note, &must_stop);
    let computed = computed.and_then(|computed| {
        recipe::restore(&repository, &computed, files.clone(), &claim_owners())?;
        Ok(computed)
    });
    interruption.heed(false);
    let computed = computed.map_err(|error| failed(error, &interruption))?;
    repository.close()?;
    report(&plan, &files, &computed, output)
}

fn report(
    plan: &ComputePlan,
    files: &[(StorePath, FileEntry)],
    computed: &Computed,
    output: &Output,
) -> anyhow::Result<()> {
    let restored = files.iter().zip(&computed.files).map(|((path, entry), file)| {
        let mut fields = shown::path_fields(path.as_bytes());
        note_agreement(path, file.agreement, output);
        fields.insert("bytes".into(), std::fs::metadata(&file.path).map_or(size_of(entry), |made| made.len()).into());
        fields.insert("exact".into(), (file.agreement == Agreement::Exact).into());
        fields.insert("accepted".into(), (file.agreement == Agreement::None).into());
        Value::Object(fields)
    });
    let restored: Vec<Value> = restored.collect();
    let commands = plan.steps.len() as u64;
    output.document(&json!({ "restored": restored, "commands": commands }))?;
    let (files, commands) = (shown::count(files.len() as u64, "file"), shown::count(commands, "command"));
    if computed.files.is_empty() {
        return output.summary("nothing to recompute");
    }
    output.summary(format_args!("restored {files} with {commands}"))
}

fn size_of(entry: &FileEntry) -> u64 {
    entry.head.as_ref().map_or(0, |head| head.record.size)
}

/// Says which programs are not there, or are others, and how that would end.
fn note_obstacles(plan: &ComputePlan, output: &Output) -> anyhow::Result<()> {
    let directory = std::env::current_dir().context("this directory")?;
    let mut obstacle = recipe::obstacle(&directory);
    for step in &plan.steps {
        if let Some(why) = obstacle(&step.recipe.record) {
            output.note(format_args!("recipe {}: {why}", step.recipe.id));
        }
    }
    Ok(())
}

/// Says what making these files again would take.
pub fn report_plan(plan: &ComputePlan, files: &[(StorePath, FileEntry)], output: &Output) -> anyhow::Result<()> {
    for step in &plan.steps {
        output.line(format_args!(
            "{}  {:>9}  {}  ({})",
            step.recipe.id,
            shown_duration(step.recipe.record.duration_ns),
            command_line(&step.recipe),
            origin(&step.recipe)
        ))?;
    }
    output.document(&json!({
        "dry_run": true,
        "commands": plan.steps.iter().map(step_fields).collect::<Vec<_>>(),
        "seconds": plan.duration_ns() as f64 / 1e9,
        "input_bytes": plan.input_bytes(),
        "files": files.len(),
    }))?;
    if files.is_empty() {
        return output.summary("nothing to recompute");
    }
    output.summary(format_args!(
        "would restore {} with {}, which took {} and read {}",
        shown::count(files.len() as u64, "file"),
        shown::count(plan.steps.len() as u64, "command"),
        shown_duration(plan.duration_ns()),
        shown::size(plan.input_bytes())
    ))
}

fn step_fields(step: &ComputeStep) -> Value {
    let record = &step.recipe.record;
    json!({
        "recipe": step.recipe.id,
        "command": command_line(&step.recipe),
        "arguments": arguments(&step.recipe),
        "seconds": record.duration_ns as f64 / 1e9,
        "host": record.host,
        "uid": record.uid,
    })
}

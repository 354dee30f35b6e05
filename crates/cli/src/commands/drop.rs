//! `thalweg drop`: frees the data of files that recipes make again, and keeps their names.

use std::ffi::OsString;

use anyhow::Context;
use repository::{Access, DroppedFile};
use serde_json::{Value, json};

use super::COMMITTER;
use crate::error_code::fail;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{dropped_content, regular_files};
use crate::shown;

/// Free the data of files that recipes make again; their names stay
#[derive(clap::Args)]
#[command(
    after_help = "A file is dropped only where a recipe made just this version and all that the recipe needs is kept, or is \
                  made again by other recipes. `collect` frees the space; `recompute` brings the data back.\n\n\
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
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    debug_assert!(arguments.recomputable);
    let locations = Location::parse_all(&arguments.locations)?;
    let access = if arguments.dry_run { Access::Read } else { Access::Write };
    let repository = open_store(&locations[0].store, access)?;
    let files = regular_files(&repository, &locations)?;
    let is_left = |entry: &catalog::FileEntry| {
        dropped_content(entry).is_none() && entry.head.as_ref().is_none_or(|head| head.record.size > 0)
    };
    // Of directories: those that are dropped already, or empty, stay as they are.
    let is_named = |path: &format::StorePath| locations.iter().any(|location| location.path == *path);
    let wanted = files.iter().filter(|(path, entry)| is_named(path) || is_left(entry));
    let paths: Vec<_> = wanted.map(|(path, _)| path.clone()).collect();
    if paths.is_empty() {
        fail!(NothingChosen: "nothing to drop: there are no files with data");
    }
    let directory = std::env::current_dir().context("this directory")?;
    let mut obstacle = recipe::obstacle(&directory);
    let plan = repository.plan_drop(&paths, &mut |recipe| obstacle(&recipe.record))?;
    if !arguments.dry_run {
        repository.drop_files(COMMITTER, &plan)?;
    }
    repository.close()?;
    report(&plan.files, arguments.dry_run, output)
}

fn report(files: &[DroppedFile], is_dry_run: bool, output: &Output) -> anyhow::Result<()> {
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
    output.document(&json!({ "dry_run": is_dry_run, "dropped": dropped }))?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let (count, size) = (shown::count(files.len() as u64, "file"), shown::size(bytes));
    match is_dry_run {
        true => output.summary(format_args!("would drop {count} ({size})")),
        false => output.summary(format_args!("dropped {count} ({size}); `thalweg collect` frees the space")),
    }
}

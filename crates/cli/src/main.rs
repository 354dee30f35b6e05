//! The `thalweg` command: one file per verb in `commands/`, and their shared parts beside it.
//!
//! Exit codes: 0 done; 1 failed, nothing half-done is visible; 2 wrong usage; 3 finished, but not everything was right,
//! and the failures have been named on standard error. Errors are one line that begins with `thalweg:`.

mod byte_size;
mod calendar;
mod clock;
mod commands;
mod configuration;
mod damages;
mod error_code;
mod failed_name;
mod failure;
mod get;
mod host_port;
mod location;
mod log;
mod moment;
mod name_patterns;
mod node;
mod opening;
mod output;
mod output_file;
mod pacing;
mod panics;
mod picture;
mod progress;
mod put;
mod rate_limits;
mod recipes;
mod retention;
mod run;
mod sampling;
mod shown;
mod signals;
mod snapshot_retention;
mod snapshots;
mod streams;
mod tree_view;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use format::{FORMAT_VERSION, PROTOCOL};

use crate::configuration::Configuration;
use crate::output::Output;

/// Says what a store's files and a node's frames have to match.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (format {FORMAT_VERSION}, protocol {PROTOCOL})", env!("CARGO_PKG_VERSION")));

#[derive(Parser)]
#[command(
    name = "thalweg",
    version = VERSION.as_str(),
    about = "Keeps every segment once, between parallel programs and the storage they share",
    after_help = "A place is written STORE::PATH: a store's directory or thalweg://HOST:PORT, and a path in it.\n\
                  With nothing before the `::`, the store is $THALWEG_STORE.\n\
                  An error ends with a code, as in [TW-203]; `thalweg explain TW-203` says what to do."
)]
struct Command {
    /// Print one JSON document on standard output instead of text
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// No progress and no summary: only results, notes and errors
    #[arg(long, short, global = true, display_order = 901)]
    quiet: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Init(commands::init::Arguments),
    Put(commands::put::Arguments),
    Get(commands::get::Arguments),
    #[command(disable_help_flag = true)]
    Ls(commands::ls::Arguments),
    Cat(commands::cat::Arguments),
    #[command(disable_help_flag = true)]
    Du(commands::du::Arguments),
    Find(commands::find::Arguments),
    Diff(commands::diff::Arguments),
    Stat(commands::stat::Arguments),
    Rm(commands::rm::Arguments),
    Mv(commands::mv::Arguments),
    Verify(commands::verify::Arguments),
    Repair(commands::repair::Arguments),
    Collect(commands::collect::Arguments),
    Dedup(commands::dedup::Arguments),
    Repack(commands::repack::Arguments),
    Forget(commands::forget::Arguments),
    Record(commands::record::Arguments),
    Drop(commands::drop::Arguments),
    Recompute(commands::recompute::Arguments),
    Recipes(commands::recipes::Arguments),
    Snapshots(commands::snapshots::Arguments),
    Tag(commands::tag::Arguments),
    Sessions(commands::sessions::Arguments),
    Recover(commands::recover::Arguments),
    Stats(commands::stats::Arguments),
    Train(commands::train::Arguments),
    Codecs(commands::codecs::Arguments),
    Plan(commands::plan::Arguments),
    Simulate(commands::simulate::Arguments),
    Secret(commands::secret::Arguments),
    /// Serve a store to programs and remote commands: the deduplication and storage server
    Node(node::command::Arguments),
    Gate(commands::gate::Arguments),
    /// Run a program whose files named SD:/path go through nodes into a store
    Run(run::command::Arguments),
    Explain(commands::explain::Arguments),
    Config(commands::config::Arguments),
    Completions(commands::completions::Arguments),
    #[command(hide = true)]
    Manual(commands::manual::Arguments),
}

fn main() -> ExitCode {
    signals::fail_beyond_file_limit();
    let (command, configuration) = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    // As long as the process: a node's absence is reported from any thread.
    let output: &Output = Box::leak(Box::new(Output::new(command.json, command.quiet)));
    transfer::report_absence(|report| output.note(report));
    let done = execute(command.verb, &configuration, output).and_then(|()| output.finish());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error, output),
    }
}

/// Returns the definition of all verbs, which is long: in one place, so that the program has it once.
#[inline(never)]
fn definition() -> clap::Command {
    Command::command()
}

/// Reads the command line and, for what it leaves open, the configuration file; and for `init` the file that it names.
fn parse() -> Result<(Command, Configuration), ExitCode> {
    let configuration = Configuration::load(&definition());
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let is_extended =
        configuration.as_ref().is_ok_and(|configuration| configuration.extend(&mut arguments, &definition()));
    let extended_from = configuration.as_ref().ok().and_then(Configuration::path).filter(|_| is_extended);
    let mut command = parsed(&arguments, extended_from)?;
    if let Verb::Init(commands::init::Arguments { config: Some(path), .. }) = &command.verb {
        let of_file = Configuration::of_file(path, "init", &definition()).map_err(failure::configuration)?;
        of_file.extend(&mut arguments, &definition());
        command = parsed(&arguments, of_file.path())?;
    }
    let configuration = configuration.map_err(failure::configuration)?;
    if !matches!(command.verb, Verb::Config(_)) {
        // SAFETY: no thread was started yet.
        unsafe { configuration.apply_settings() };
    }
    Ok((command, configuration))
}

/// Parses arguments, which may have options from a file; then an option may stand there twice.
#[inline(never)]
fn parsed(arguments: &[OsString], extended_from: Option<&Path>) -> Result<Command, ExitCode> {
    let is_extended = extended_from.is_some();
    let mut definition = definition().mut_subcommands(|verb| verb.args_override_self(is_extended));
    let matches = definition.try_get_matches_from_mut(arguments);
    let command = matches.and_then(|matches| Command::from_arg_matches(&matches)).and_then(with_enough_names);
    command.map_err(|error| failure::usage(error, extended_from))
}

/// Options may stand between names, so that clap cannot count them.
fn with_enough_names(command: Command) -> Result<Command, clap::Error> {
    let names = match &command.verb {
        Verb::Put(arguments) => arguments.paths.len(),
        Verb::Get(arguments) => arguments.paths.len(),
        Verb::Mv(arguments) => arguments.locations.len(),
        _ => return Ok(command),
    };
    if names < 2 {
        let why = "two names at least are required: what, and last where to\n";
        return Err(clap::Error::raw(clap::error::ErrorKind::TooFewValues, why));
    }
    Ok(command)
}

fn execute(verb: Verb, configuration: &Configuration, output: &Output) -> anyhow::Result<()> {
    match verb {
        Verb::Init(arguments) => commands::init::execute(arguments, output),
        Verb::Put(arguments) => commands::put::execute(arguments, output),
        Verb::Get(arguments) => commands::get::execute(arguments, output),
        Verb::Ls(arguments) => commands::ls::execute(arguments, output),
        Verb::Cat(arguments) => commands::cat::execute(&arguments, output),
        Verb::Du(arguments) => commands::du::execute(&arguments, output),
        Verb::Find(arguments) => commands::find::execute(&arguments, output),
        Verb::Diff(arguments) => commands::diff::execute(&arguments, output),
        Verb::Stat(arguments) => commands::stat::execute(arguments, output),
        Verb::Rm(arguments) => commands::rm::execute(arguments, output),
        Verb::Mv(arguments) => commands::mv::execute(arguments, output),
        Verb::Verify(arguments) => commands::verify::execute(arguments, output),
        Verb::Repair(arguments) => commands::repair::execute(&arguments, output),
        Verb::Collect(arguments) => commands::collect::execute(arguments, output),
        Verb::Dedup(arguments) => commands::dedup::execute(&arguments, output),
        Verb::Repack(arguments) => commands::repack::execute(&arguments, output),
        Verb::Forget(arguments) => commands::forget::execute(arguments, output),
        Verb::Record(arguments) => commands::record::execute(arguments, output),
        Verb::Drop(arguments) => commands::drop::execute(&arguments, output),
        Verb::Recompute(arguments) => commands::recompute::execute(&arguments, output),
        Verb::Recipes(arguments) => commands::recipes::execute(&arguments, output),
        Verb::Snapshots(arguments) => commands::snapshots::execute(&arguments, output),
        Verb::Tag(arguments) => commands::tag::execute(&arguments, output),
        Verb::Sessions(arguments) => commands::sessions::execute(arguments, output),
        Verb::Recover(arguments) => commands::recover::execute(arguments, output),
        Verb::Stats(arguments) => commands::stats::execute(arguments, output),
        Verb::Train(arguments) => commands::train::execute(arguments, output),
        Verb::Codecs(arguments) => commands::codecs::execute(&arguments, output),
        Verb::Plan(arguments) => commands::plan::execute(&arguments, output),
        Verb::Simulate(arguments) => commands::simulate::execute(arguments, output),
        Verb::Secret(arguments) => commands::secret::execute(&arguments, output),
        Verb::Node(arguments) => node::command::execute(&arguments, output),
        Verb::Gate(arguments) => commands::gate::execute(&arguments, output),
        Verb::Run(arguments) => run::command::execute(&arguments, output),
        Verb::Explain(arguments) => commands::explain::execute(&arguments, output),
        Verb::Config(arguments) => commands::config::execute(&arguments, configuration, output),
        Verb::Completions(arguments) => commands::completions::execute(&arguments, definition(), output),
        Verb::Manual(arguments) => commands::manual::execute(&arguments, definition()),
    }
}

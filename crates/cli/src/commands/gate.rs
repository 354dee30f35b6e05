//! `thalweg gate`: shares unmodified data servers between applications, by weight.

mod top;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::log::{self, LogArguments};
use crate::output::Output;
use crate::panics;

/// Stand before unmodified data servers and share them between applications by weight
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "The file is read again on SIGHUP and when it changes; docs/gate.md explains it.\n\n\
                        Example: thalweg gate --config gate.toml")]
pub struct Arguments {
    /// The configuration: addresses, the servers behind them, and how applications are distinguished
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Only check the file, and the certificates it names
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    log: LogArguments,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    Top(top::Arguments),
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    match (&arguments.verb, &arguments.config) {
        (Some(Verb::Top(arguments)), _) => top::execute(arguments, output),
        (None, Some(config)) if arguments.check => check(config, output),
        (None, Some(config)) => serve(config, &arguments.log),
        (None, None) => unreachable!("clap asks for --config where no verb is given"),
    }
}

fn check(config: &Path, output: &Output) -> anyhow::Result<()> {
    let checked = gate::check(config)?;
    output.summary(format_args!("{} is right", config.display()))?;
    output.document(&json!({ "listeners": checked.listens.len(), "applications": checked.applications.len() }))
}

fn serve(config: &Path, log: &LogArguments) -> anyhow::Result<()> {
    log::start(log, tracing::Level::INFO)?;
    panics::end_the_process();
    let ended = gate::run(config, announce, gate::termination_requested());
    log::flush();
    Ok(ended?)
}

/// In the log: standard output may be closed, and tests that start a gate wait for this line.
fn announce(addresses: &[SocketAddr]) {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    tracing::info!("listening on {}", addresses.join(", "));
}

//! `thalweg gate`: shares unmodified data servers between applications, by weight.

mod top;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::output::{Output, say};

/// Stand before unmodified data servers and share them between applications by weight
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "The file is read again on SIGHUP and when it changes; docs/gate.md explains it.\n\n\
                        Example: thalweg gate --config gate.toml")]
pub struct Arguments {
    /// What to listen to, which servers stand behind, who is who
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Only check the file, and the certificates it names
    #[arg(long)]
    check: bool,
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
        (None, Some(config)) => serve(config, arguments.check, output),
        (None, None) => unreachable!("clap asks for --config where no verb is given"),
    }
}

fn serve(config: &Path, check: bool, output: &Output) -> anyhow::Result<()> {
    if check {
        let checked = gate::check(config)?;
        output.summary(format_args!("{} is right", config.display()))?;
        return output
            .document(&json!({ "listeners": checked.listens.len(), "applications": checked.applications.len() }));
    }
    gate::run(config, announce, gate::told_to_end())?;
    Ok(())
}

/// On standard error: standard output may be closed, and who starts a gate in a test waits for this line.
fn announce(addresses: &[SocketAddr]) {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    say(format_args!("thalweg gate: listening on {}", addresses.join(", ")));
}

//! `thalweg gate`: shares unmodified data servers between applications, by weight.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::json;

use crate::output::Output;

/// Stand before unmodified data servers and share them between applications by weight
#[derive(clap::Args)]
#[command(after_help = "The file is read again on SIGHUP and when it changes; docs/gate.md explains it.\n\n\
                        Example: thalweg gate --config gate.toml")]
pub struct Arguments {
    /// What to listen to, which servers stand behind, who is who
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only check the file, and the certificates it names
    #[arg(long)]
    check: bool,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    if arguments.check {
        let config = gate::check(&arguments.config)?;
        output.summary(format_args!("{} is right", arguments.config.display()))?;
        return output
            .document(&json!({ "listeners": config.listens.len(), "applications": config.applications.len() }));
    }
    gate::run(&arguments.config, announce, gate::told_to_end())?;
    Ok(())
}

/// On standard error: standard output may be closed, and who starts a gate in a test waits for this line.
fn announce(addresses: &[SocketAddr]) {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    eprintln!("thalweg gate: listening on {}", addresses.join(", "));
}

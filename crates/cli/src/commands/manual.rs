//! `thalweg manual`: writes man pages, which packages carry.

use std::path::PathBuf;

use anyhow::Context;

/// Write the man pages of all verbs into a directory
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg manual /usr/local/share/man/man1")]
pub struct Arguments {
    /// The directory, which must exist
    directory: PathBuf,
}

pub fn execute(arguments: &Arguments, command: clap::Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &arguments.directory)
        .with_context(|| format!("writing man pages into {}", arguments.directory.display()))
}

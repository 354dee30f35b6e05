//! `thalweg secret`: makes the secret that a node and its clients share.

use std::path::PathBuf;

use serde_json::json;

use crate::output::Output;
use crate::shown;

/// Make a file with a new random secret, which a node and its clients share
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg secret ~/.thalweg-secret    (then: thalweg node … --secret-file \
                  ~/.thalweg-secret, and THALWEG_SECRET_FILE=~/.thalweg-secret for clients)")]
pub struct Arguments {
    /// The file, which must not exist; only its owner will be able to read it
    file: PathBuf,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    transfer::create_secret(&arguments.file)?;
    let shown = shown::local(&arguments.file);
    output.summary(format_args!("made a secret in {shown}; give copies only to those who may use the node"))?;
    output.document(&json!({ "file": arguments.file.to_string_lossy() }))
}

//! `thalweg completions`: prints a shell's completion script.

use clap_complete::Shell;

use crate::output::Output;

/// Print the script that completes verbs and options in a shell
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg completions bash > /etc/bash_completion.d/thalweg")]
pub struct Arguments {
    /// bash, zsh or fish (elvish and powershell are known too)
    shell: Shell,
}

pub fn execute(arguments: &Arguments, mut command: clap::Command, output: &Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "thalweg", &mut script);
    output.content(&script)
}

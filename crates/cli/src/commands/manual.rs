//! `thalweg manual`: writes man pages, which packages carry.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, line_break, roman};

/// Write the man pages of all verbs into a directory
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg manual /usr/local/share/man/man1")]
pub struct Arguments {
    /// The directory, which must exist
    directory: PathBuf,
}

pub fn execute(arguments: &Arguments, command: clap::Command) -> anyhow::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, &arguments.directory)
        .with_context(|| format!("writing man pages into {}", arguments.directory.display()))
}

fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, directory)?;
    }
    let man = Man::new(command.clone());
    std::fs::write(directory.join(man.get_filename()), page(&man, command.clone())?)
}

/// As clap_mangen's, but with the usage and examples as `--help` has them, a line each: its own have neither `--` nor the
/// values of options, and run examples together.
fn page(man: &Man, mut command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.render_usage().to_string();
    add_lines("SYNOPSIS", usage.trim_start_matches("Usage:"), &mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        let notes = notes.to_string();
        add_lines(if notes.starts_with("Example") { "EXAMPLES" } else { "NOTES" }, &notes, &mut page)?;
    }
    Ok(page)
}

fn add_lines(heading: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<Inline> = lines.flat_map(|line| [roman(line), line_break()]).collect();
    Roff::new().control("SH", [heading]).text(lines).to_writer(page)
}

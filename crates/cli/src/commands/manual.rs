//! `thalweg manual`: writes man pages, which packages carry.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, italic, roman};

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
    let man = titled(command.clone());
    std::fs::write(directory.join(man.get_filename()), page(&man, command.clone())?)
}

fn titled(command: clap::Command) -> Man {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_uppercase();
    let source = concat!("thalweg ", env!("CARGO_PKG_VERSION"));
    Man::new(command).title(name).source(source).manual("Thalweg")
}

/// As clap_mangen's, but with usage, arguments and examples as `--help` has them: its own usage has neither `--` nor the
/// values of options, its arguments stand among the options, and its examples run together.
fn page(man: &Man, mut command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.render_usage().to_string();
    Roff::new()
        .control("SH", ["SYNOPSIS"])
        .text([roman(usage.trim_start_matches("Usage:").trim())])
        .to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    add_arguments(&command, &mut page)?;
    let options = command.clone().mut_args(|argument| {
        let is_positional = argument.is_positional();
        argument.hide(is_positional)
    });
    titled(options).render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    add_notes(&notes, &mut page)?;
    Ok(page)
}

fn add_arguments(command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let arguments: Vec<_> = command.get_positionals().filter(|argument| !argument.is_hide_set()).collect();
    let mut section = Roff::new();
    if !arguments.is_empty() {
        section.control("SH", ["ARGUMENTS"]);
    }
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        section.control("TP", []).text([italic(argument.to_string())]).text([roman(help)]);
    }
    section.to_writer(page)
}

/// Paragraphs, and behind them examples: what follows `Example:`, and the lines below `Examples:`.
fn add_notes(notes: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let lines = notes.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut paragraphs, mut examples) = (Vec::new(), Vec::new());
    for line in lines {
        match line.strip_prefix("Example:").or(line.strip_prefix("Examples:")) {
            Some(example) => examples.push(example.trim()),
            None if examples.is_empty() => paragraphs.push(line),
            None => examples.push(line),
        }
    }
    let mut sections = Roff::new();
    if !paragraphs.is_empty() {
        sections.control("SH", ["NOTES"]);
    }
    for paragraph in paragraphs {
        sections.control("PP", []).text([roman(paragraph)]);
    }
    if !examples.is_empty() {
        // As they stand: a shell's line is not filled.
        sections.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.into_iter().filter(|line| !line.is_empty()) {
            sections.text([roman(line)]);
        }
        sections.control("fi", []);
    }
    sections.to_writer(page)
}

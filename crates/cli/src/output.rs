//! The user's output: results on standard output, notes and progress on standard error.
//!
//! With `--json` exactly one document goes to standard output, and no text. A reader that closed the pipe ends
//! the command quietly, as it does with other Unix tools.

use std::fmt::{self, Display};
use std::io::{BufWriter, IsTerminal, Stdout, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::MultiProgress;
use serde_json::Value;

use crate::error_code::fail;
use crate::progress::Progress;
use crate::{shown, streams};

pub struct Output {
    json: bool,
    quiet: bool,
    stdout: Mutex<BufWriter<Stdout>>,
    bars: MultiProgress,
}

/// Texts from a store, a node or a file system may be of any length; a path may be escaped.
const MAX_NOTE_BYTES: usize = 64 << 10;

/// Notes of one kind; more are counted.
const MAX_NOTES: usize = 50;

/// The reader of standard output is gone.
#[derive(Debug)]
pub struct Closed;

impl Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for Closed {}

/// Prints a line on standard error. One that cannot be written, to a full disk or a closed pipe, must not end the work
/// that it is about.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Output {
    pub fn new(json: bool, quiet: bool) -> Self {
        let stdout = Mutex::new(BufWriter::new(std::io::stdout()));
        Output { json, quiet, stdout, bars: MultiProgress::new() }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a line of the result; not with `--json`.
    pub fn line(&self, text: impl Display) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        self.write(|stdout| writeln!(stdout, "{text}"))
    }

    /// Prints a last word on what was done; not with `--json` or `--quiet`.
    pub fn summary(&self, text: impl Display) -> anyhow::Result<()> {
        // The result stands, with or without a reader.
        if self.quiet || !streams::can_write_output() { Ok(()) } else { self.line(text) }
    }

    /// Prints the result with `--json`.
    pub fn document(&self, document: &Value) -> anyhow::Result<()> {
        if !self.json {
            return Ok(());
        }
        self.write(|stdout| writeln!(stdout, "{document}"))
    }

    /// One element after the other of a long array, so that it need not be held: see [`Output::array`].
    pub fn array(&self) -> Array<'_> {
        Array { output: self, begun: false }
    }

    /// Writes the bytes of a file.
    pub fn content(&self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write(|stdout| stdout.write_all(bytes))
    }

    /// Prints a line on standard error, above the progress bar.
    pub fn note(&self, text: impl Display) {
        let mut line = shown::one_line(&text.to_string());
        if line.len() > MAX_NOTE_BYTES {
            let end = (0..=MAX_NOTE_BYTES).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            line.truncate(end);
            line.push_str(" …");
        }
        self.bars.suspend(|| say(format_args!("thalweg: {line}")));
    }

    /// Prints the first of many notes, and how many more there are.
    pub fn notes<T>(&self, items: &[T], line: impl Fn(&T) -> String, counted: impl Fn(usize) -> String) {
        items.iter().take(MAX_NOTES).for_each(|item| self.note(line(item)));
        if items.len() > MAX_NOTES {
            let all = if self.json { "the document on standard output has all" } else { "`--json` lists all" };
            self.note(format_args!("and more: {}; {all}", counted(items.len() - MAX_NOTES)));
        }
    }

    /// Makes a progress bar on a terminal; elsewhere nothing.
    pub fn progress(&self, verb: &'static str) -> Progress {
        let visible = !self.quiet && std::io::stderr().is_terminal();
        if visible { Progress::shown(&self.bars, verb) } else { Progress::hidden() }
    }

    /// Flushes everything printed so far.
    pub fn finish(&self) -> anyhow::Result<()> {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        stdout.flush().map_err(unwritten)
    }

    fn write(&self, body: impl FnOnce(&mut BufWriter<Stdout>) -> std::io::Result<()>) -> anyhow::Result<()> {
        if !streams::can_write_output() {
            fail!(StandardStream: "standard output is not open for writing, and the result goes there");
        }
        let mut stdout: MutexGuard<_> = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        body(&mut stdout).map_err(unwritten)
    }
}

fn unwritten(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Closed.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    }
}

/// A JSON array under way.
pub struct Array<'a> {
    output: &'a Output,
    begun: bool,
}

impl Array<'_> {
    pub fn push(&mut self, element: &Value) -> anyhow::Result<()> {
        if !self.output.json {
            return Ok(());
        }
        let before = if std::mem::replace(&mut self.begun, true) { ",\n" } else { "[" };
        self.output.write(|stdout| write!(stdout, "{before}{element}"))
    }

    pub fn finish(self) -> anyhow::Result<()> {
        if !self.output.json {
            return Ok(());
        }
        let after = if self.begun { "]" } else { "[]" };
        self.output.write(|stdout| writeln!(stdout, "{after}"))
    }
}

//! How a command ends when it does not end well: one line, and an exit code that says which kind it was.

use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use format::ErrorCode;

use crate::error_code;
use crate::output::{Closed, Output, say};
use crate::shown;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const INCOMPLETE: u8 = 3;
/// The exit code that a shell shows for a program that SIGPIPE ended.
const PIPE_CLOSED: u8 = 128 + 13;

/// The command finished, but not everything was right; the failures have been named already.
#[derive(Debug)]
pub struct Incomplete(pub String);

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Incomplete {}

/// Whether a node is away, or is another process now: other requests would meet the same. This one was repeated before.
pub fn is_of_an_absent_node(error: &repository::Error) -> bool {
    use repository::Error::{Catalog, Store};
    matches!(
        error,
        Store(store::Error::Unavailable { .. } | store::Error::Failed { .. } | store::Error::Replaced { .. })
            | Catalog(catalog::Error::Unavailable { .. } | catalog::Error::Replaced { .. })
    )
}

/// The command was written wrongly: whatever the store holds, it could not have been done.
#[derive(Debug)]
pub struct UsageError {
    pub code: ErrorCode,
    pub text: String,
}

impl UsageError {
    pub fn new(text: impl Into<String>) -> Self {
        UsageError { code: ErrorCode::Usage, text: text.into() }
    }
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for UsageError {}

/// A signal ended the command before it was done; the finished part has been reported.
#[derive(Debug)]
pub struct Interrupted {
    pub signal: i32,
    pub message: String,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Interrupted {}

/// `bail!` with a [`UsageError`], whose code is the general one unless another is named, as in
/// `misuse!(OutputFile: "{path}: is read")`.
macro_rules! misuse {
    ($code:ident: $($text:tt)*) => {
        return Err($crate::failure::UsageError { code: format::ErrorCode::$code, text: format!($($text)*) }.into())
    };
    ($($text:tt)*) => {
        return Err($crate::failure::UsageError::new(format!($($text)*)).into())
    };
}
pub(crate) use misuse;

/// Says what went wrong and chooses the exit code.
pub fn report(error: &anyhow::Error, output: &Output) -> ExitCode {
    if error.is::<Closed>() {
        return ExitCode::from(PIPE_CLOSED);
    }
    output.note(error_code::of(error).after(explained(error)));
    // Pending output is still printed; a failure of that is not worth a second error.
    let _ = output.finish();
    ExitCode::from(code_of(error))
}

fn code_of(error: &anyhow::Error) -> u8 {
    let is_misuse = error.is::<UsageError>() || matches!(error.downcast_ref(), Some(address::Error::Address(_)));
    if let Some(Interrupted { signal, .. }) = error.downcast_ref() {
        return 128_u8.saturating_add(*signal as u8);
    }
    match error.is::<Incomplete>() {
        true => INCOMPLETE,
        false if is_misuse => USAGE,
        false => FAILED,
    }
}

/// Returns the error and its causes in one line. Many errors name their cause themselves, and it is not repeated.
pub fn explained(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    let mut shown = line.clone();
    for cause in error.chain().skip(1).map(|cause| cause.to_string()) {
        if !shown.contains(&cause) {
            line = format!("{line}: {cause}");
        }
        shown = cause;
    }
    line
}

/// `--help` and `--version` as clap prints them; a mistake in one line, which may be in options of the configuration file.
pub fn usage(error: clap::Error, options_from: Option<&Path>) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE);
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (first, _) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut words: Vec<&str> = first.split_whitespace().collect();
    if is_command_without_dashes(&error) {
        words.push("(the program stands behind `--`: thalweg run -- CMD)");
    }
    let suggested = of_other_tools(&error).map(str::to_owned).or_else(|| suggestion(&error));
    words.extend(suggested.as_deref());
    let also = options_from.map(|path| format!(" (options are also taken from {})", shown::local(path)));
    let also = also.unwrap_or_default();
    let why = format!("thalweg: {}{also}; `--help` explains", shown::one_line(&words.join(" ")));
    say(ErrorCode::Usage.after(why));
    ExitCode::from(USAGE)
}

/// Returns our name for a verb or an option of restic, borg or rclone.
fn of_other_tools(error: &clap::Error) -> Option<&'static str> {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => Some(name.as_str()),
        _ => None,
    };
    if given(ContextKind::InvalidArg).is_some_and(|option| option.starts_with("--keep-")) {
        return Some("(rules choose what stays, as in --keep-snapshots last=3,daily=7)");
    }
    match given(ContextKind::InvalidSubcommand)? {
        "backup" | "create" | "upload" => Some("(that is `put`)"),
        "restore" | "extract" | "download" => Some("(that is `get`)"),
        "copy" | "sync" => Some("(`put` goes into a store, `get` comes out of it)"),
        "check" => Some("(that is `verify`)"),
        "prune" | "compact" | "gc" => Some("(that is `collect`)"),
        "mount" => Some("(there is none; `get`, `cat` and Python's fsspec read a store)"),
        _ => None,
    }
}

/// The name that a mistyped one was probably meant to be.
fn suggestion(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let first = |value: &ContextValue| match value {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    };
    let name = kinds.iter().find_map(|kind| first(error.get(*kind)?))?;
    Some(format!("(did you mean {name}?)"))
}

/// Whether `run` was given its program as if it were an argument of its own.
fn is_command_without_dashes(error: &clap::Error) -> bool {
    let holds = |kind, test: &dyn Fn(&str) -> bool| error.get(kind).is_some_and(|value| test(&value.to_string()));
    error.kind() == ErrorKind::UnknownArgument
        && holds(ContextKind::Usage, &|usage| usage.contains("thalweg run"))
        && holds(ContextKind::InvalidArg, &|argument| !argument.starts_with('-'))
}

/// A configuration file that cannot be used.
pub fn configuration(why: String) -> ExitCode {
    say(ErrorCode::ConfigurationFile.after(format_args!("thalweg: {}", shown::one_line(&why))));
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_an_error_names_itself_is_printed_once() {
        let source = std::io::Error::from_raw_os_error(17);
        let error = anyhow::Error::from(store::Error::Io { path: "containers/01".into(), source });
        assert_eq!(explained(&error), "containers/01: File exists (os error 17)");
        let error = error.context("putting a");
        assert_eq!(explained(&error), "putting a: containers/01: File exists (os error 17)");
    }
}

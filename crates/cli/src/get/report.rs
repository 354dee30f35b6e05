//! The result of each name that was fetched; shared by all threads.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use format::ErrorCode;
use serde_json::Value;

use super::attributes::LeftOut;
use super::file::NameState;
use crate::failed_name::FailedName;
use crate::output::Output;
use crate::progress::Progress;
use crate::shown;
use crate::signals::Interruption;

/// Where the reason lies that a file was not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The destination.
    Here,
    Store,
}

/// The result of a run (counts and bytes).
#[derive(Default)]
pub struct Summary {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub links: u64,
    /// Names that are no directories and that the user did not want.
    pub excluded: u64,
    /// Bytes of the files, holes included.
    pub bytes: u64,
    /// Not fetched, with the reason.
    pub lost: Vec<FailedName>,
    /// Fetched, except for attributes that the file system or our rights did not allow, or that were withheld.
    pub incomplete: Vec<(PathBuf, String)>,
    /// How many of each kind.
    pub left_out: BTreeMap<&'static str, u64>,
    /// With `--verbose --json`: what became of each name.
    pub names: Vec<Value>,
    /// Of those not fetched, how many for a reason here.
    pub lost_here: u64,
    /// The signal that ended the run before everything was fetched.
    pub interrupted: Option<i32>,
}

impl Summary {
    /// Nothing was there to fetch.
    pub fn is_empty(&self) -> bool {
        self.files + self.directories + self.symlinks + self.links == 0 && self.lost.is_empty()
    }

    /// No file, link or symlink was fetched, although some were wanted, and it was the destination's fault.
    pub fn is_nothing_written(&self) -> bool {
        let is_empty = self.files + self.symlinks + self.links == 0;
        is_empty && !self.lost.is_empty() && self.lost_here == self.lost.len() as u64
    }
}

pub struct Report<'a> {
    output: &'a Output,
    verbose: bool,
    pub progress: Progress,
    pub interruption: &'a Interruption,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    summary: Summary,
    failure: Option<anyhow::Error>,
}

impl<'a> Report<'a> {
    pub fn new(output: &'a Output, verbose: bool, progress: Progress, interruption: &'a Interruption) -> Self {
        Report { output, verbose, progress, interruption, inner: Mutex::default() }
    }

    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// With `--verbose`: a line for a name.
    pub fn list(&self, path: &Path, state: NameState, bytes: Option<u64>) {
        if !self.verbose {
            return;
        }
        if self.output.is_json() {
            let mut fields = shown::path_fields(path.as_os_str().as_encoded_bytes());
            fields.insert("state".into(), state.name().into());
            fields.insert("bytes".into(), bytes.into());
            return self.inner().summary.names.push(Value::Object(fields));
        }
        let size = bytes.map_or(String::new(), |bytes| format!(" ({})", shown::size(bytes)));
        if let Err(error) = self.output.line(format_args!("{:<9} {}{size}", state.name(), shown::local(path))) {
            self.failed(error);
        }
    }

    pub fn count(&self, add: impl FnOnce(&mut Summary)) {
        add(&mut self.inner().summary);
    }

    /// Reports a file as failed; the others go on.
    pub fn lost(&self, path: &Path, (why, code): (impl Display, ErrorCode), fault: Fault) {
        let failed = FailedName { path: path.to_owned(), why: why.to_string(), code };
        self.output.note(failed.line());
        let summary = &mut self.inner().summary;
        summary.lost.push(failed);
        summary.lost_here += (fault == Fault::Here) as u64;
    }

    /// This one is there without some of its attributes. The first of each kind is printed, the others are counted in
    /// the summary.
    pub fn incomplete(&self, path: &Path, missing: Vec<LeftOut>) {
        let mut inner = self.inner();
        for LeftOut { kind, why } in missing {
            let count = inner.summary.left_out.entry(kind).or_default();
            *count += 1;
            if *count == 1 {
                self.output.note(format_args!("{}: restored without {why}", shown::local(path)));
            }
            inner.summary.incomplete.push((path.to_owned(), why));
        }
    }

    /// Stops all work; the first reason counts.
    pub fn failed(&self, error: anyhow::Error) {
        self.inner().failure.get_or_insert(error);
    }

    pub fn take_failure(&self) -> Option<anyhow::Error> {
        self.inner().failure.take()
    }

    pub fn into_summary(self) -> Summary {
        let summary = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).summary;
        Summary { interrupted: self.interruption.signal(), ..summary }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

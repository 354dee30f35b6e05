//! Trees out of a store: one thread lists, as many as cores decode and write, the caller's finishes.
//!
//! Directories are made as they are listed, files by the workers, hard links and the directories' own attributes
//! at the end. A file appears under its name when it is whole. A file that cannot be read is named, and the
//! others go on. All is written through the descriptor of one directory: see `destination`.

mod attributes;
mod destination;
mod file;
mod filter;
mod leftovers;
mod listing;
mod preview;
mod range;
mod report;
mod sink;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use catalog::FileEntry;
use format::{FileKind, StorePath};
use repository::Repository;
use rustix::io::Errno;

pub use self::attributes::Withheld;
pub use self::destination::Destination;
use self::destination::explained;
use self::file::NameState;
pub use self::filter::Filter;
use self::listing::{Listing, MadeDirectories};
use self::preview::Preview;
pub use self::range::{Range, print};
pub use self::report::Summary;
use self::report::{Fault, Report};
use self::worker::Worker;
use crate::commands::list;
use crate::error_code::{self, Coded};
use crate::output::Output;
use crate::shown;
use crate::signals::Interruption;
use crate::tree_view::TreeView;

/// Units of work between the listing and the workers.
const QUEUED_UNITS: usize = 64;

/// The entries to fetch, and their destination.
pub struct Selection {
    pub path: StorePath,
    pub entry: FileEntry,
    /// Its new name, below the destination; empty: the destination itself.
    pub to: PathBuf,
}

#[derive(Clone, Copy)]
pub struct Options {
    /// Threads that decode and write.
    pub workers: usize,
    /// Leave holes where zeros were written, too.
    pub sparse: bool,
    /// Which part of each file.
    pub range: Range,
    pub withheld: Withheld,
    /// Only say what would be.
    pub dry_run: bool,
    /// A line for each name.
    pub verbose: bool,
}

/// Fetches everything wanted; once it is interrupted, nothing more. Fails when the store or the disk does.
pub fn get(
    repository: &Repository,
    destination: &Destination,
    (view, wanted, filter): (&TreeView, &[Selection], &Filter),
    options: Options,
    (output, interruption): (&Output, &Interruption),
) -> anyhow::Result<Summary> {
    let report = Report::new(output, options.verbose, output.progress("get"), interruption);
    let (units_in, units_out) = sync_channel(QUEUED_UNITS);
    let units_out = Arc::new(Mutex::new(units_out));
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        for _ in 0..if options.dry_run { 1 } else { options.workers } {
            let (units, report) = (units_out.clone(), &report);
            scope.spawn(move || match options.dry_run {
                true => Preview { destination, report, range: options.range }.run(&units),
                false => Worker::new(repository, destination, report, options).run(&units),
            });
        }
        // Only the workers hold the queue now: it closes with the last of them.
        drop(units_out);
        // For another time, each file's size takes a question; a snapshot is read only once.
        if report.progress.is_shown() && view.is_present() {
            scope.spawn(|| set_total(repository, (wanted, filter), &report, &done));
        }
        let made = Listing::new(view, destination, units_in, &report, (filter, options.dry_run)).run(wanted);
        done.store(true, Ordering::Relaxed);
        made
    });
    let failed = report.take_failure();
    if let Some(error) = failed {
        report.progress.finish();
        return Err(broken_off(&error, &report.into_summary()));
    }
    let made = made?;
    // The last steps, when all is there, may keep a second run out of a directory.
    if !interruption.has_come() {
        finish(made, destination, options, &report);
    }
    report.progress.finish();
    Ok(report.into_summary())
}

/// The error, and what there is all the same.
fn broken_off(error: &anyhow::Error, summary: &Summary) -> anyhow::Error {
    let (files, bytes) = (shown::count(summary.files, "file"), shown::size(summary.bytes));
    let text = format!("{error:#}; what was fetched until here is whole: {files} ({bytes})");
    Coded::new(error_code::of(error), text).into()
}

/// Hard links, then the directories' attributes, the deepest first.
fn finish(made: MadeDirectories, destination: &Destination, options: Options, report: &Report) {
    for (from, to) in &made.links {
        let before = state_of_link(destination, to);
        match if options.dry_run { before.map(drop) } else { link(destination, from, to) } {
            Ok(()) => {
                report.list(&destination.path(to), before.unwrap_or(NameState::New), None);
                report.count(|summary| summary.links += 1);
            }
            Err(error) => report.lost(&destination.path(to), (error, error_code::of_errno(error)), Fault::Here),
        }
    }
    if options.dry_run {
        return;
    }
    for (below, attributes) in made.directories.iter().rev() {
        let missing = match destination.directory(below) {
            Ok(directory) => attributes::apply_to_directory(&directory, attributes, options.withheld),
            Err(error) => vec![attributes::all_of_a_directory(explained(error))],
        };
        report.incomplete(&destination.path(below), missing);
    }
}

fn state_of_link(destination: &Destination, to: &Path) -> rustix::io::Result<NameState> {
    match destination.parent(to) {
        Err(Errno::NOENT) => Ok(NameState::New),
        parent => parent.and_then(|(directory, name)| file::state_of(&directory, &name)),
    }
}

fn link(destination: &Destination, from: &Path, to: &Path) -> rustix::io::Result<()> {
    let (from, to) = (destination.parent(from)?, destination.parent(to)?);
    file::link((&from.0, &from.1), (&to.0, &to.1))
}

/// A listing ahead of the one that works, for the time left.
fn set_total(repository: &Repository, (wanted, filter): (&[Selection], &Filter), report: &Report, done: &AtomicBool) {
    let mut total = 0;
    let size = |entry: &FileEntry| entry.head.as_ref().map_or(0, |head| head.record.size);
    for wanted in wanted {
        total += size(&wanted.entry);
        if wanted.entry.attributes.kind != FileKind::Directory {
            continue;
        }
        let listed = list(repository.catalog(), &wanted.path, true, |entries| {
            anyhow::ensure!(!done.load(Ordering::Relaxed), "no longer needed");
            let is_taken = |path: &StorePath| filter.takes(path.below(&wanted.path).unwrap_or_default(), false);
            total += entries.iter().filter(|(path, _)| is_taken(path)).map(|(_, entry)| size(entry)).sum::<u64>();
            Ok(())
        });
        if listed.is_err() {
            return;
        }
    }
    report.progress.set_total(total);
}

/// Everything written to the file system that `path` lies on is on disk.
pub fn sync(path: &Path) -> anyhow::Result<()> {
    let synced = std::fs::File::open(path).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    synced.with_context(|| crate::shown::local(path))
}

//! `thalweg du`: how large directories are.

use std::collections::HashSet;
use std::ffi::OsString;

use catalog::FileEntry;
use format::{FileId, FileKind, StorePath};
use repository::{Access, Repository};
use serde_json::Value;

use crate::location::Location;
use crate::opening::open_store;
use crate::output::{Array, Output};
use crate::shown;
use crate::tree_view::ViewArguments;

/// Show how many bytes the newest versions of files have, for each directory with all below it
#[derive(clap::Args)]
#[command(
    after_help = "Sizes are those of the files, before deduplication and compression (`thalweg stats` shows what a \
                        store holds). As in du of other systems, what lies in two of the places, \
                        or has several names, counts once, where it comes first.\n\nExample: thalweg du -h /scratch/st::run1"
)]
pub struct Arguments {
    /// Directories or files, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// KiB, MiB and so on instead of bytes
    #[arg(long, short = 'h')]
    human_readable: bool,
    /// Only the sum of each place
    #[arg(long, short)]
    summarize: bool,
    #[command(flatten)]
    view: ViewArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Sizes of directories of which names may still come. A walk goes by bytes: between `a` and `a/b` may come `a.txt` and all
/// of `a-x`.
struct Sums<'a> {
    arguments: &'a Arguments,
    output: &'a Output,
    array: Array<'a>,
    open: Vec<(StorePath, u64)>,
    counted: HashSet<FileId>,
    /// Places that were named earlier.
    finished: HashSet<StorePath>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let locations = Location::parse_all(&arguments.locations)?;
    let repository = open_store(&locations[0].store, Access::Read)?;
    let (counted, finished) = (HashSet::new(), HashSet::new());
    let mut sums = Sums { arguments, output, array: output.array(), open: Vec::new(), counted, finished };
    let done = locations.iter().try_for_each(|location| sums.location(&repository, location));
    repository.close()?;
    done?;
    sums.array.finish()
}

impl Sums<'_> {
    fn location(&mut self, repository: &Repository, location: &Location) -> anyhow::Result<()> {
        let view = self.arguments.view.open(repository, &location.path)?;
        let entry = view.expect(location)?;
        if self.is_counted(&location.path, &entry) {
            return Ok(());
        }
        self.open.push((location.path.clone(), 0));
        self.add(&location.path, &entry);
        if entry.attributes.kind == FileKind::Directory {
            view.list(&location.path, true, |entries| {
                entries.iter().try_for_each(|(path, entry)| self.step(path, entry))
            })?;
        }
        while !self.open.is_empty() {
            self.close()?;
        }
        self.finished.insert(location.path.clone());
        Ok(())
    }

    fn is_counted(&self, path: &StorePath, entry: &FileEntry) -> bool {
        let has_counted_name = entry.links > 1 && self.counted.contains(&entry.file);
        has_counted_name || self.is_within_finished(path)
    }

    fn is_within_finished(&self, path: &StorePath) -> bool {
        let above = |path: &StorePath| path.parent();
        !self.finished.is_empty()
            && std::iter::successors(Some(path.clone()), above).any(|path| self.finished.contains(&path))
    }

    fn step(&mut self, path: &StorePath, entry: &FileEntry) -> anyhow::Result<()> {
        if self.is_within_finished(path) {
            return Ok(());
        }
        while self.open.len() > 1 && self.open.last().is_some_and(|(directory, _)| is_past(directory, path)) {
            self.close()?;
        }
        if entry.attributes.kind == FileKind::Directory {
            self.open.push((path.clone(), 0));
        }
        self.add(path, entry);
        Ok(())
    }

    fn add(&mut self, path: &StorePath, entry: &FileEntry) {
        let is_new = entry.links < 2 || self.counted.insert(entry.file);
        if let (true, Some(head)) = (is_new, &entry.head) {
            self.add_bytes(path, head.record.size);
        }
    }

    /// To the innermost directory that has this path.
    fn add_bytes(&mut self, path: &StorePath, bytes: u64) {
        if let Some((_, sum)) = self.open.iter_mut().rfind(|(directory, _)| path.below(directory).is_some()) {
            *sum += bytes;
        }
    }

    /// Prints the directory that was opened last, and adds it to the one around it.
    fn close(&mut self) -> anyhow::Result<()> {
        let Some((path, bytes)) = self.open.pop() else { return Ok(()) };
        self.add_bytes(&path, bytes);
        if self.arguments.summarize && !self.open.is_empty() {
            return Ok(());
        }
        if self.output.is_json() {
            let mut fields = shown::path_fields(path.as_bytes());
            fields.insert("bytes".into(), bytes.into());
            return self.array.push(&Value::Object(fields));
        }
        let size = if self.arguments.human_readable { shown::size(bytes) } else { bytes.to_string() };
        let path = if path.is_root() { "/".into() } else { shown::path(&path) };
        self.output.line(format_args!("{size:>12}  {path}"))
    }
}

/// Whether no name below the directory can come after this one.
fn is_past(directory: &StorePath, path: &StorePath) -> bool {
    let below = [directory.as_bytes(), b"/"].concat();
    !path.as_bytes().starts_with(&below) && path.as_bytes() > &below[..]
}

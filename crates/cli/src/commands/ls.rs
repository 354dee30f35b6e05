//! `thalweg ls`: names, and what is being written under them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use catalog::{FileEntry, PathSession};
use format::{FileKind, StorePath};
use repository::{Access, Repository};
use serde_json::Value;

use super::checkpointed;
use crate::error_code::fail;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::{Array, Output};
use crate::shown;
use crate::tree_view::{TreeView, ViewArguments};

/// List a directory of a store
#[derive(clap::Args)]
#[command(
    after_help = "Paths are shown from the listed directory on; `(live)` and `(interrupted)` mark what a session has \
                        checkpointed and not committed.\n\nExample: thalweg ls -lR /scratch/st::run1"
)]
pub struct Arguments {
    /// A directory or file, STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    location: OsString,
    /// Mode, owner, size and time as well
    #[arg(long, short)]
    long: bool,
    /// With -l: KiB, MiB and so on instead of bytes
    #[arg(long, short = 'h')]
    human_readable: bool,
    /// Everything below, not only the directory's own names
    #[arg(long, short = 'R')]
    recursive: bool,
    #[command(flatten)]
    view: ViewArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

struct Listing<'a> {
    output: &'a Output,
    array: Array<'a>,
    arguments: &'a Arguments,
    repository: &'a Repository,
    view: &'a TreeView<'a>,
    /// Uncommitted sessions, by path; taken out as their names are listed.
    unfinished: BTreeMap<StorePath, PathSession>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let location = Location::parse(&arguments.location)?;
    let repository = open_store(&location.store, Access::Read)?;
    let view = arguments.view.open(&repository, &location.path)?;
    let sessions = if view.is_present() { repository.catalog().path_sessions()? } else { Vec::new() };
    let within = |path: &StorePath| match path.below(&location.path) {
        Some(rest) => arguments.recursive || !rest.contains(&b'/'),
        None => false,
    };
    let unfinished = sessions.into_iter().filter(|session| within(&session.path));
    let unfinished = unfinished.map(|session| (session.path.clone(), session)).collect();
    let (array, arguments, repository_) = (output.array(), &arguments, &*repository);
    let mut listing = Listing { output, array, arguments, repository: repository_, view: &view, unfinished };
    listing.run(&location)?;
    listing.array.finish()?;
    repository.close()?;
    Ok(())
}

impl Listing<'_> {
    fn run(&mut self, location: &Location) -> anyhow::Result<()> {
        let view = self.view;
        match self.base(&location.path)? {
            Some(entry) if entry.attributes.kind == FileKind::Directory => {
                view.list(&location.path, self.arguments.recursive, |entries| {
                    entries.iter().try_for_each(|(path, entry)| self.print(&location.path, path, entry))
                })?;
            }
            Some(_) => {
                // One without a version of that time is there, and has nothing to be listed.
                if let Some(entry) = view.entry(&location.path)? {
                    self.print(&location.path.parent().unwrap_or_default(), &location.path, &entry)?;
                }
            }
            None if self.unfinished.is_empty() => {
                fail!(NoSuchPath: "{location}: no such file or directory in the store")
            }
            None => {}
        }
        // Names that only a session knows of.
        for session in std::mem::take(&mut self.unfinished).into_values() {
            self.session(&location.path, &session)?;
        }
        Ok(())
    }

    /// The listed tree; of another time, as it is now.
    fn base(&self, path: &StorePath) -> anyhow::Result<Option<FileEntry>> {
        match self.view.is_snapshot() {
            true => self.view.entry(path),
            false => Ok(self.repository.catalog().entry(path)?),
        }
    }

    fn print(&mut self, base: &StorePath, path: &StorePath, entry: &FileEntry) -> anyhow::Result<()> {
        let session = self.unfinished.remove(path);
        if self.output.is_json() {
            let mut fields = shown::entry_fields(path, entry);
            if let Some(session) = &session {
                fields.insert("unfinished".into(), shown::state(session).into());
            }
            return self.array.push(&Value::Object(fields));
        }
        let mut line = String::new();
        if self.arguments.long {
            let attributes = &entry.attributes;
            let size = self.size(entry.head.as_ref().map_or(0, |head| head.record.size));
            let time = shown::file_time(attributes.times.modified);
            line =
                format!("{} {:>5} {:>5} {size:>12} {time} ", shown::mode(attributes), attributes.uid, attributes.gid);
        }
        line += &below(path, base);
        match entry.attributes.kind {
            FileKind::Directory => line.push('/'),
            FileKind::Symlink if self.arguments.long => {
                line += &format!(" -> {}", shown::escaped(&entry.attributes.target))
            }
            _ => {}
        }
        if let Some(session) = &session {
            line += &format!(" ({})", shown::state(session));
        }
        self.output.line(line)
    }

    fn size(&self, bytes: u64) -> String {
        if self.arguments.human_readable { shown::size(bytes) } else { bytes.to_string() }
    }

    fn session(&mut self, base: &StorePath, session: &PathSession) -> anyhow::Result<()> {
        let (size, checkpoints) = checkpointed(self.repository.catalog(), session)?;
        if self.output.is_json() {
            let mut fields = shown::session_fields(session, size, checkpoints);
            fields.insert("unfinished".into(), shown::state(session).into());
            return self.array.push(&Value::Object(fields));
        }
        let mut line = String::new();
        if self.arguments.long {
            let size = self.size(size);
            line = format!("?????????? {:>5} {:>5} {size:>12} {} ", "?", "?", shown::time(session.opened_ns));
        }
        self.output.line(format_args!("{line}{} ({})", below(&session.path, base), shown::state(session)))
    }
}

fn below(path: &StorePath, base: &StorePath) -> String {
    match path.below(base) {
        Some(rest) if !rest.is_empty() => shown::escaped(rest),
        _ => shown::escaped(path.name()),
    }
}

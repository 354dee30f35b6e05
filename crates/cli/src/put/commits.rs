//! The commits: gathers what is ready, commits it in batches, and counts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use format::{Attributes, Change, ContainerId, ErrorCode, FileKind, FileTime, StorePath, VersionRecord};
use repository::{DraftEntry, Packed, Repository, linked_name};
use segment::Rounded;
use serde_json::Value;

use super::outcome::{Outcome, Ready};
use super::rounding::{self, FileRounding};
use super::snapshot::SnapshotNames;
use crate::clock::now_ns;
use crate::commands::COMMITTER;
use crate::failed_name::FailedName;
use crate::output::Output;
use crate::shown;
use crate::signals::Interruption;

/// A batch is committed when it has this many changes, this many bytes, or is this old: the work that a broken run has
/// to do again.
const BATCH_CHANGES: usize = 16_384;
const BATCH_BYTES: u64 = 1 << 30;
const BATCH_AGE: Duration = Duration::from_secs(5);

/// The result of a run (counts and bytes).
#[derive(Default)]
pub struct Summary {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub links: u64,
    /// Files of which only attributes had changed.
    pub attributes: u64,
    pub unchanged: u64,
    /// Read from the sources.
    pub read_bytes: u64,
    /// Of those, the bytes read of files whose content was as before.
    pub compared_bytes: u64,
    pub unchanged_bytes: u64,
    /// Files that were rounded, and what that came to.
    pub rounded_files: u64,
    pub rounded: Rounded,
    pub commits: u64,
    /// Names that the user had passed over.
    pub excluded: u64,
    /// Of the tree.
    pub snapshot: Option<String>,
    /// Names that are no longer at the source, and left the place (a dry run: would leave it), in order.
    pub removed: Vec<StorePath>,
    /// The run was interrupted: the rest of the sources is not stored.
    pub interrupted: Option<i32>,
    /// Names that became something else, and the versions dropped with that.
    pub dropped: Vec<(PathBuf, String)>,
    /// Neither file, directory nor symlink, with what they are.
    pub skipped: Vec<(PathBuf, String)>,
    /// Not stored, with the reason.
    pub left: Vec<FailedName>,
    /// Stored, though they changed while being read.
    pub changing: Vec<PathBuf>,
    /// Stored without their extended attributes, or not as a hard link, with the reason.
    pub incomplete: Vec<(PathBuf, String)>,
    /// With `--verbose --json`: the outcome of each name.
    pub names: Vec<Value>,
}

impl Summary {
    /// Whether anything of the sources is in the store now.
    pub fn is_empty(&self) -> bool {
        self.files + self.directories + self.symlinks + self.links + self.attributes + self.unchanged == 0
    }
}

/// The commits of a command, in all its attempts.
#[derive(Default)]
pub struct Stored {
    /// Links, too.
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Stored {
    pub fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// How a run commits.
#[derive(Clone, Copy)]
pub struct CommitOptions {
    /// One commit at the end instead of one every few seconds.
    pub atomic: bool,
    /// Nothing is committed.
    pub dry_run: bool,
    /// Each name has a line.
    pub verbose: bool,
}

/// The outcome of a name, for its line.
struct Listed {
    state: &'static str,
    path: StorePath,
    /// Of a file.
    bytes: Option<u64>,
    rounded: Option<Rounded>,
}

impl Listed {
    /// Of a name whose content is not stored by this run.
    fn plain(state: &'static str, path: StorePath) -> Self {
        Listed { state, path, bytes: None, rounded: None }
    }
}

#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    references: BTreeSet<ContainerId>,
    bytes: u64,
    begun: Option<Instant>,
    /// Printed once it is committed.
    listed: Vec<Listed>,
    /// Of the snapshot: one for each version, in the order of the changes.
    unnumbered: Vec<DraftEntry>,
}

/// Another name of a file that may still be on its way.
struct PendingLink {
    path: StorePath,
    target: StorePath,
    replaces: bool,
    is_new: bool,
}

pub struct Commits<'a> {
    repository: &'a Repository,
    options: CommitOptions,
    output: &'a Output,
    batch: Batch,
    /// The sources' targets: directories above that are missing are made with the first commit.
    targets: Vec<StorePath>,
    links: Vec<PendingLink>,
    summary: Summary,
    stored: &'a Stored,
    snapshot: Option<SnapshotNames>,
}

impl<'a> Commits<'a> {
    pub fn new(
        repository: &'a Repository,
        targets: Vec<StorePath>,
        options: CommitOptions,
        stored: &'a Stored,
        output: &'a Output,
    ) -> Self {
        let (batch, summary) = (Batch::default(), Summary::default());
        Commits { repository, options, output, batch, targets, links: Vec::new(), summary, stored, snapshot: None }
    }

    /// Makes a snapshot of the names, in the end.
    pub fn with_snapshot(self, snapshot: Option<SnapshotNames>) -> Self {
        Commits { snapshot, ..self }
    }

    /// Commits outcomes until all senders are gone; when the run is interrupted, those that have come by then.
    pub fn run(mut self, outcomes: Receiver<Vec<Outcome>>, interruption: &Interruption) -> anyhow::Result<Summary> {
        loop {
            match outcomes.recv_timeout(BATCH_AGE) {
                Ok(found) => found.into_iter().try_for_each(|outcome| self.note(outcome))?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !self.options.atomic && self.batch.is_due() {
                self.commit()?;
            }
        }
        self.summary.interrupted = interruption.signal();
        match self.summary.interrupted {
            Some(_) if self.options.atomic => {
                return Ok(Summary { interrupted: self.summary.interrupted, ..Summary::default() });
            }
            // Their targets may no longer be on their way.
            Some(_) => self.links.clear(),
            None => self.link()?,
        }
        self.commit()?;
        // Of sources of which nothing could be put no snapshot is recorded: it would empty the place.
        let is_tree_seen = self.summary.interrupted.is_none() && !self.summary.is_empty();
        if let Some(snapshot) = self.snapshot.take().filter(|_| is_tree_seen) {
            self.record(snapshot)?;
        }
        Ok(self.summary)
    }

    fn record(&mut self, snapshot: SnapshotNames) -> anyhow::Result<()> {
        let removed = match self.options.dry_run {
            true => snapshot.names_to_remove(self.repository)?,
            false => {
                let missing = self.summary.left.len() as u64;
                let recorded = snapshot.record(self.repository, missing).context("everything else is stored")?;
                self.summary.snapshot = Some(recorded.id);
                recorded.removed
            }
        };
        removed.iter().try_for_each(|path| self.list_removed(path))?;
        self.summary.removed = removed;
        Ok(())
    }

    /// Commits one file.
    pub fn stream(
        mut self,
        path: StorePath,
        attributes: Attributes,
        (packed, rounding): (Packed<()>, Option<FileRounding>),
        is_new: bool,
    ) -> anyhow::Result<Summary> {
        let bytes = packed.built.length;
        let version = VersionRecord { root: packed.built.root, size: bytes, content: packed.content };
        let mut attributes = attributes;
        if let Some(rounding) = &rounding {
            rounding.note_in(&mut attributes.extended);
        }
        let change = Change::Write { path, attributes, version, base: None };
        let references = packed.built.references;
        let rounded = rounding.map(|rounding| rounding.met);
        self.take(Ready { change, replaces: false, is_new, known: None, references, bytes, rounded });
        self.commit()?;
        Ok(self.summary)
    }

    fn note(&mut self, outcome: Outcome) -> anyhow::Result<()> {
        match outcome {
            Outcome::Change(ready) => self.take(*ready),
            Outcome::Link { path, target, replaces, is_new } => {
                self.links.push(PendingLink { path, target, replaces, is_new })
            }
            Outcome::Planned { path, bytes, is_new } => self.plan(path, bytes, is_new),
            Outcome::Unchanged { path, bytes, read_bytes, known } => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.unchanged(&path, known);
                }
                self.list(Listed::plain("unchanged", path))?;
                self.summary.unchanged += 1;
                self.summary.unchanged_bytes += bytes;
                self.summary.read_bytes += read_bytes;
                self.summary.compared_bytes += read_bytes;
            }
            Outcome::Excluded { path } => {
                self.list(Listed::plain("excluded", path))?;
                self.summary.excluded += 1;
            }
            Outcome::Dropped { path, what } => {
                self.say(&path, &dropped(&what, self.options.dry_run));
                self.summary.dropped.push((path, what));
            }
            Outcome::Skipped { path, what } => {
                if !self.output.is_quiet() {
                    self.say(&path, &format!("skipped, it is {what}"));
                }
                self.summary.skipped.push((path, what.to_owned()));
            }
            Outcome::Left { failed, target } => {
                self.output.note(failed.line());
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.keep(target);
                }
                self.summary.left.push(failed);
            }
            Outcome::Changing { path } => {
                self.say(&path, "kept changing while it was read; stored as read last");
                self.summary.changing.push(path);
            }
            Outcome::Incomplete { path, why } => {
                self.say(&path, &why);
                self.summary.incomplete.push((path, why));
            }
            Outcome::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn say(&self, path: &Path, what: &str) {
        self.output.note(format_args!("{}: {what}", shown::local(path)));
    }

    fn take(&mut self, ready: Ready) {
        match &ready.change {
            Change::Write { .. } | Change::Attributes { .. } if ready.known.is_some() => self.summary.attributes += 1,
            Change::Write { .. } => self.summary.files += 1,
            Change::Make { attributes, .. } if attributes.kind == FileKind::Symlink => self.summary.symlinks += 1,
            Change::Make { .. } => self.summary.directories += 1,
            _ => {}
        }
        self.summary.read_bytes += ready.bytes;
        if ready.known.is_some() {
            self.summary.compared_bytes += ready.bytes;
        }
        if let Some(rounded) = ready.rounded {
            self.summary.rounded_files += 1;
            self.summary.rounded.add(rounded);
        }
        let batch = &mut self.batch;
        if self.options.verbose {
            let bytes = matches!(ready.change, Change::Write { .. }).then_some(ready.bytes);
            let (path, rounded) = (ready.change.path().clone(), ready.rounded);
            batch.listed.push(Listed { state: state(ready.is_new), path, bytes, rounded });
        }
        if let Some(snapshot) = &mut self.snapshot {
            batch.unnumbered.extend(snapshot.change(&ready.change, ready.known.as_deref()));
        }
        batch.begun.get_or_insert_with(Instant::now);
        if ready.replaces {
            batch.changes.push(Change::Remove { path: ready.change.path().clone(), recursive: true });
        }
        batch.changes.push(ready.change);
        batch.references.extend(ready.references);
        batch.bytes += ready.bytes;
    }

    /// A dry run's file.
    fn plan(&mut self, path: StorePath, bytes: u64, is_new: bool) {
        self.summary.files += 1;
        self.summary.read_bytes += bytes;
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.plan(&path);
        }
        if self.options.verbose {
            self.batch.begun.get_or_insert_with(Instant::now);
            self.batch.listed.push(Listed { state: state(is_new), path, bytes: Some(bytes), rounded: None });
        }
    }

    /// A dry run names what would go without being asked for all names.
    fn list_removed(&mut self, path: &StorePath) -> anyhow::Result<()> {
        match self.options.dry_run && !self.options.verbose {
            true => self.output.line(format_args!("would remove {}", shown::path(path))),
            false => self.list(Listed::plain("removed", path.clone())),
        }
    }

    fn list(&mut self, listed: Listed) -> anyhow::Result<()> {
        let Listed { state, path, bytes, rounded } = listed;
        if !self.options.verbose {
            return Ok(());
        }
        if self.output.is_json() {
            let mut fields = shown::path_fields(path.as_bytes());
            fields.insert("state".into(), state.into());
            fields.insert("bytes".into(), bytes.into());
            if let Some(rounded) = rounded {
                fields.insert("altered_values".into(), rounded.altered.into());
                fields.insert("largest_error".into(), rounded.largest_error.into());
            }
            self.summary.names.push(Value::Object(fields));
            return Ok(());
        }
        let size = bytes.map_or(String::new(), |bytes| format!(" ({})", shown::size(bytes)));
        let rounded = rounded.map_or(String::new(), |rounded| format!(", {}", rounding::shown(&rounded)));
        self.output.line(format_args!("{state:<9} {}{size}{rounded}", shown::path(&path)))
    }

    /// Links come last, when all they may point to is there or in the last batch.
    fn link(&mut self) -> anyhow::Result<()> {
        let coming: HashSet<StorePath> = self.batch.changes.iter().map(|change| change.path().clone()).collect();
        let links = std::mem::take(&mut self.links);
        let targets: BTreeMap<StorePath, StorePath> =
            links.iter().map(|link| (link.path.clone(), link.target.clone())).collect();
        for PendingLink { path, target, replaces, is_new } in links {
            // The name that was seen first may have become a link itself.
            let target = linked_name(&targets, &target).clone();
            // A name of this run may not have come.
            let replaces = replaces && (coming.contains(&path) || self.repository.catalog().entry(&path)?.is_some());
            if self.options.dry_run || coming.contains(&target) || self.repository.catalog().entry(&target)?.is_some() {
                self.summary.links += 1;
                self.take(Ready::plain(Change::Link { path, target }, replaces, is_new));
                continue;
            }
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.keep([path.clone()]);
            }
            let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
            let why = format!("its other name {} could not be stored", shown::path(&target));
            let failed = FailedName { path, why, code: ErrorCode::Incomplete };
            self.output.note(failed.line());
            self.summary.left.push(failed);
        }
        Ok(())
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let listed = std::mem::take(&mut batch.listed);
        if !self.options.dry_run && !batch.changes.is_empty() {
            self.store(batch)?;
        }
        listed.into_iter().try_for_each(|listed| self.list(listed))
    }

    fn store(&mut self, mut batch: Batch) -> anyhow::Result<()> {
        let mut above = Vec::new();
        for target in std::mem::take(&mut self.targets) {
            above.extend(self.repository.make_above(&target, FileTime::from_ns(now_ns()))?);
        }
        batch.changes.splice(0..0, above);
        let files = batch.files();
        if let Some(snapshot) = &mut self.snapshot {
            let (list, references) = snapshot.list(self.repository, &batch.changes)?;
            batch.changes.push(list);
            batch.references.extend(references);
        }
        let committed = self.repository.commit(COMMITTER, batch.changes, batch.references, Vec::new())?;
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.number(batch.unnumbered, committed.numbers);
        }
        self.stored.add(files, batch.bytes);
        self.summary.commits += 1;
        Ok(())
    }
}

fn state(is_new: bool) -> &'static str {
    if is_new { "new" } else { "changed" }
}

fn dropped(what: &str, dry_run: bool) -> String {
    match dry_run {
        true => format!("would take the place of {what}, which would be dropped"),
        false => format!("takes the place of {what}, which is dropped"),
    }
}

impl Batch {
    fn files(&self) -> u64 {
        let is_file = |change: &&Change| matches!(change, Change::Write { .. } | Change::Link { .. });
        self.changes.iter().filter(is_file).count() as u64
    }

    fn is_due(&self) -> bool {
        let is_old = self.begun.is_some_and(|begun| begun.elapsed() >= BATCH_AGE);
        self.changes.len() >= BATCH_CHANGES || self.bytes >= BATCH_BYTES || is_old
    }
}

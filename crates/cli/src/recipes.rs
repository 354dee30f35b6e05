//! What the verbs about recipes share: files as their command lines name them, and how commands run.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use catalog::FileEntry;
use format::{FileKind, StorePath};
use recipe::{Agreement, ComputeOptions, Computed, FilePlace, RunOptions};
use repository::{DroppedContent, Recipe, Repository};
use store::ClaimOwner;

use crate::commands::list;
use crate::error_code::fail;
use crate::failure::{Interrupted, misuse};
use crate::location::Location;
use crate::output::Output;
use crate::shown;
use crate::signals::Interruption;
use crate::tree_view::TreeView;

/// How commands of recipes run.
#[derive(clap::Args, Clone)]
pub struct RunArguments {
    /// End a command that takes longer (seconds)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Where commands have their directories (default: $TMPDIR)
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Let commands write outside of their directories, where the kernel could refuse it
    #[arg(long)]
    may_write_elsewhere: bool,
}

impl RunArguments {
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Refuses options about commands where none will run, since this option is not there.
    pub fn refuse_without(&self, option: &str) -> anyhow::Result<()> {
        if self.timeout.is_some() || self.scratch.is_some() || self.may_write_elsewhere {
            misuse!("--timeout, --scratch and --may-write-elsewhere are about the commands that {option} runs");
        }
        Ok(())
    }

    pub fn options(&self, output: &Output) -> RunOptions {
        let &RunArguments { ref scratch, may_write_elsewhere, .. } = self;
        RunOptions {
            scratch: scratch.clone(),
            may_write_elsewhere,
            prints_to_stderr: output.is_json(),
            ..RunOptions::default()
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("{text:?} is no number of seconds above 0"))
}

/// Reads `STORE::PATH`, or `NAME=STORE::PATH` where the command is to find or leave it elsewhere than at PATH.
pub fn place(written: &OsStr) -> anyhow::Result<(Location, FilePlace)> {
    let bytes = written.as_bytes();
    let name = match (bytes.iter().position(|byte| *byte == b'='), bytes.windows(2).position(|two| two == b"::")) {
        (Some(at), Some(separator)) if at < separator => Some(&bytes[..at]),
        _ => None,
    };
    let rest = name.map_or(bytes, |name| &bytes[name.len() + 1..]);
    let location = Location::parse(OsStr::from_bytes(rest))?;
    let mut place = FilePlace::from(location.path.clone());
    if let Some(name) = name {
        place.name = name.strip_suffix(b"/").unwrap_or(name).to_vec();
    }
    if place.name.is_empty() {
        misuse!("{location}: the whole store cannot be a command's file; name what lies in it, or a NAME=STORE::PATH");
    }
    Ok((location, place))
}

/// Reads several places, which must all be of one store.
pub fn places(written: &[OsString], first: Option<&Location>) -> anyhow::Result<Vec<(Location, FilePlace)>> {
    let places: Vec<_> = written.iter().map(|written| place(written)).collect::<anyhow::Result<_>>()?;
    let first = first.or(places.first().map(|(location, _)| location));
    if let (Some(first), Some((other, _))) =
        (first, places.iter().find(|(other, _)| first.is_some_and(|first| other.store != first.store)))
    {
        misuse!("{} and {} are two stores; a recipe has its inputs and outputs in one", first.store, other.store);
    }
    Ok(places)
}

/// Returns the regular files at these places, and below those that are directories.
pub fn regular_files(repository: &Repository, locations: &[Location]) -> anyhow::Result<Vec<(StorePath, FileEntry)>> {
    let mut files = Vec::new();
    for location in locations {
        let entry = repository.catalog().entry(&location.path)?;
        let Some(entry) = entry else { fail!(NoSuchPath: "{location}: no such file or directory in the store") };
        match entry.attributes.kind {
            FileKind::Directory => list(repository.catalog(), &location.path, true, |listed| {
                files.extend(listed.into_iter().filter(|(_, entry)| entry.head.is_some()));
                Ok(())
            })?,
            _ => files.push((location.path.clone(), entry)),
        }
    }
    // Of a file with several names, or named twice, the first counts.
    let mut seen = HashSet::new();
    files.retain(|(_, entry)| seen.insert(entry.file));
    Ok(files)
}

/// For verbs that read files.
#[derive(clap::Args)]
pub struct ReadArguments {
    /// Where data was dropped, run the recipes that make it again, as you, and read what they make; the store stays as it is
    #[arg(long)]
    recompute: bool,
    #[command(flatten)]
    run: RunArguments,
}

/// Files that a verb reads, and which of those below directories.
pub struct Reading<'a> {
    pub view: &'a TreeView<'a>,
    pub entries: Vec<(&'a StorePath, &'a FileEntry)>,
    /// Asked with a path from its directory on.
    pub is_read: &'a dyn Fn(&[u8]) -> bool,
}

impl ReadArguments {
    pub fn is_asked_for(&self) -> bool {
        self.recompute
    }

    /// Makes again what was dropped of these files, each once, if that is asked for. What was made is there as long as the
    /// returned value.
    pub fn compute(
        &self,
        repository: &Repository,
        reading: &[Reading],
        interruption: &Interruption,
        output: &Output,
    ) -> anyhow::Result<Option<Computed>> {
        if !self.recompute {
            self.run.refuse_without("--recompute")?;
            return Ok(None);
        }
        let mut dropped = BTreeMap::new();
        for one in reading {
            one.add_dropped(&mut dropped)?;
        }
        if dropped.is_empty() {
            return Ok(None);
        }
        let contents: Vec<DroppedContent> = dropped.values().map(|(content, _)| *content).collect();
        let plan = repository.plan_compute(&contents)?;
        let directory = std::env::current_dir().context("this directory")?;
        let run = RunOptions { prints_to_stderr: true, ..self.run.options(output) };
        let options = ComputeOptions { directory, jobs: 1, timeout: self.run.timeout(), run, accepts_different: false };
        interruption.heed(true);
        let computed =
            recipe::compute(repository, &plan, &options, &|line| output.note(line), &|| interruption.has_come());
        interruption.heed(false);
        let computed = computed.map_err(|error| failed(error, interruption))?;
        for ((content, path), file) in dropped.values().zip(&computed.files) {
            note_agreement(path, file.agreement, output);
            repository.provide(*content, file.path.clone());
        }
        Ok(Some(computed))
    }
}

/// Dropped contents, and of each the first file that consists of it.
type DroppedFiles = BTreeMap<([u8; 32], u32), (DroppedContent, StorePath)>;

impl Reading<'_> {
    fn add_dropped(&self, dropped: &mut DroppedFiles) -> anyhow::Result<()> {
        let mut add = |path: &StorePath, entry: &FileEntry| {
            if let Some(content) = dropped_content(entry) {
                dropped.entry((content.recipe, content.output)).or_insert_with(|| (content, path.clone()));
            }
        };
        for (path, entry) in &self.entries {
            add(path, entry);
            if entry.attributes.kind == FileKind::Directory {
                self.view.list(path, true, |listed| {
                    let read = listed.iter().filter(|(found, _)| (self.is_read)(found.below(path).unwrap_or_default()));
                    read.for_each(|(found, entry)| add(found, entry));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Says where a file that was made again is not the one that was dropped.
pub fn note_agreement(path: &StorePath, agreement: Agreement, output: &Output) {
    let path = shown::path(path);
    match agreement {
        Agreement::Exact => {}
        Agreement::Statistical => output.note(format_args!(
            "{path}: is not the same bit for bit, and agrees in its statistics as the recipe allows"
        )),
        Agreement::None => output.note(format_args!("{path}: is not what was dropped, and was accepted as it is now")),
    }
}

/// Returns what makes a file again, if its data was dropped.
pub fn dropped_content(entry: &FileEntry) -> Option<DroppedContent> {
    entry.head.as_ref().and_then(|head| DroppedContent::of(&head.record))
}

/// Gives each writer of a process its own number.
pub fn claim_owners() -> impl Fn() -> ClaimOwner {
    let next = AtomicU64::new(1);
    move || ClaimOwner(next.fetch_add(1, Ordering::Relaxed))
}

/// Describes who recorded a recipe.
pub fn origin(recipe: &Recipe) -> String {
    let record = &recipe.record;
    let (host, uid) = (shown::escaped(record.host.as_bytes()), record.uid);
    format!("recorded {} on {host} by user {uid}", shown::file_time(record.recorded))
}

/// Returns a command line for people: as a shell reads it, but for control characters.
pub fn command_line(recipe: &Recipe) -> String {
    let words: Vec<String> = recipe.record.arguments.iter().map(|word| quoted(&printable(word))).collect();
    words.join(" ")
}

/// Returns the words of a command as JSON has them.
pub fn arguments(recipe: &Recipe) -> Vec<String> {
    recipe.record.arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn printable(word: &[u8]) -> String {
    let shown = |one: char| if one.is_control() { format!("\\x{:02x}", one as u32) } else { one.to_string() };
    String::from_utf8_lossy(word).chars().map(shown).collect()
}

fn quoted(word: &str) -> String {
    let is_plain = |one: char| one.is_alphanumeric() || "_./=:,+@%-".contains(one);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Turns the errors of running commands into those of a verb.
pub fn failed(error: recipe::Error, interruption: &Interruption) -> anyhow::Error {
    match (&error, interruption.signal()) {
        (recipe::Error::Stopped, Some(signal)) => {
            Interrupted { signal, message: "interrupted: the command was ended, and the store is as before".into() }
                .into()
        }
        _ => error.into(),
    }
}

/// Returns a time that commands take, for people.
pub fn shown_duration(duration_ns: u64) -> String {
    let seconds = duration_ns as f64 / 1e9;
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.2} s"),
        seconds if seconds < 7200.0 => format!("{:.1} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

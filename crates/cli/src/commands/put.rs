//! `thalweg put`: files and trees into a store.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use format::{CodecChoice, ErrorBound, FloatType, MAX_TAGS, Mode, Rounding};
use repository::{Access, DedupMode, Repository};
use serde_json::{Value, json};

use crate::error_code::{self, Coded, fail};
use crate::failed_name::FailedName;
use crate::failure::{Incomplete, Interrupted, UsageError, explained, is_of_an_absent_node, misuse};
use crate::location::{Location, StoreAddress};
use crate::name_patterns::{NamePattern, PatternFile};
use crate::opening::open_store;
use crate::output::Output;
use crate::put::{
    CommitOptions, Exclusions, Options, SnapshotOptions, Source, Stored, Summary, measure_conditions, plan, put,
    put_stream, shown_rounding,
};
use crate::rate_limits::RateLimits;
use crate::signals::Interruption;
use crate::snapshots::{host, tag};
use crate::{shown, streams};

/// Store files, trees, or standard input
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg put [OPTIONS] <SRC>... <STORE::DIR/>",
    after_help = "With a slash at the end of the place, or several sources, each source keeps its name below it; \
                        otherwise the place is the one source's name there. Files that are as they were when put last \
                        are skipped. Sockets, pipes and devices are named and skipped. A run that breaks off keeps what \
                        it committed, and goes on cheaply when it is run again; one that is interrupted (Ctrl-C) commits what \
                        it has read first. Exits with 3 when some file could not be read, kept changing, or is a name whose \
                        versions only --replace drops.\n\n\
                        Where a directory is put, a snapshot of the sources is recorded (`thalweg snapshots`), and what has \
                        gone from the source since the one before leaves the place; `get --snapshot` fetches it.\n\n\
                        With --error-bound files of floats are rounded before they are stored, and `stat` says so: what `get` gives back \
                        differs from the source by no more than the bound.\n\n\
                        Example: thalweg put results/ notes.txt /scratch/st::run1/\n\
                        Example: thalweg put --type f32 --error-bound relative:1e-3 temperature.raw /scratch/st::run1/\n\
                        Example: thalweg put --exclude-file .gitignore --exclude-caches -x . /scratch/st::project"
)]
pub struct Arguments {
    /// Sources (`-`: standard input), then the destination: STORE::DIR/ or STORE::NAME
    #[arg(required = true, num_args = 1.., value_parser = PathBufValueParser::new().map(OsString::from), value_name = "SRC")]
    pub paths: Vec<OsString>,
    /// One commit at the end: everything appears at once, or nothing
    #[arg(long)]
    atomic: bool,
    /// Read every file again, also those that are as they were when put last, and what the store has of it: what is
    /// damaged there is stored again
    #[arg(long)]
    force: bool,
    /// Whether content that the store has already is looked up and stored once: without (`off`) a busy store pays no look-ups, and
    /// `thalweg dedup` removes the duplicates later
    #[arg(long, value_name = "WHEN", value_enum, default_value = "on")]
    dedup: Dedup,
    /// Choose the codecs of this data for what is to be least: performance (time), balanced, archival (bytes) or energy
    /// (default: as the store says)
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Round the values, all of --type, so that none changes by more: absolute:E (in the values' unit), relative:E (a share of each
    /// value) or range:E (a share of the greatest less the least one of the file)
    #[arg(long, value_name = "BOUND", requires = "float")]
    error_bound: Option<ErrorBound>,
    /// Of --error-bound: what the files consist of, from their first byte to their last: f32, f64, f32be or f64be (big-endian).
    /// Types of what is stored without loss are found
    #[arg(long = "type", id = "float", value_name = "TYPE", requires = "error_bound")]
    float: Option<FloatType>,
    /// Of --error-bound: leave values of this number, which stands for missing ones, as they are, and out of the range
    #[arg(long, value_name = "NUMBER", requires = "error_bound", allow_negative_numbers = true)]
    missing_value: Option<f64>,
    /// Where a name was a file or directory and is something else now, drop what the store has of it, with all versions
    #[arg(long)]
    replace: bool,
    /// Say what would be stored, and store nothing: names and sizes are compared, contents are not read
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// A line for each name: new, changed, unchanged or excluded, with its path in the store (--json: `names`)
    #[arg(long, short)]
    verbose: bool,
    /// Pass over names that match: `*.o` and `cache/` at any depth, `/build` and `a/*.o` below the source (repeatable)
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<NamePattern>,
    /// Pass over names as a file of patterns says, one a line as in `.gitignore`: `#` begins a comment, `!` takes back what an
    /// earlier line excluded (repeatable; a name is passed over if any file or --exclude says so)
    #[arg(long, value_name = "FILE")]
    exclude_file: Vec<PathBuf>,
    /// Of caches, which a `CACHEDIR.TAG` marks, put the directory and the tag alone
    #[arg(long)]
    exclude_caches: bool,
    /// Stay on the file system of each source: of mount points below it only the directory is put
    #[arg(long, short = 'x')]
    one_file_system: bool,
    /// Of the snapshot: a word to choose it by (repeatable)
    #[arg(long, value_name = "TAG", value_parser = tag)]
    tag: Vec<String>,
    /// Of the snapshot: the machine, instead of this one's name. Names leave the place that an earlier snapshot of the same
    /// sources on the same machine has and this one has not
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Option<String>,
    #[command(flatten)]
    rates: RateLimits,
}

/// `--dedup`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Dedup {
    On,
    Off,
}

impl From<Dedup> for DedupMode {
    fn from(dedup: Dedup) -> Self {
        match dedup {
            Dedup::On => DedupMode::On,
            Dedup::Off => DedupMode::Off,
        }
    }
}

/// How often a put begins again because its node was started again.
const MAX_ATTEMPTS: usize = 20;
/// How many of these may follow each other without a commit: a node may answer and yet never get anything done.
const MAX_FRUITLESS_ATTEMPTS: usize = 4;
/// How long a node that went away may take to come back, after the 15 s for which requests are repeated.
const NODE_TIMEOUT: Duration = Duration::from_secs(45);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let (to, sources) = arguments.paths.split_last().expect("the names were counted");
    let to = Location::parse(to)?;
    arguments.rates.apply(&to.store)?;
    let sources = plan(sources, &to)?;
    check_snapshot_options(&arguments, &sources)?;
    check_rounding(&arguments, &sources)?;
    let exclusions = exclusions(&arguments)?;
    if arguments.dry_run && sources.iter().any(|source| source.from.as_os_str() == "-") {
        misuse!("--dry-run compares files by their times, and standard input has none");
    }
    // Before the store's threads, which must not get the signals either.
    let interruption = Interruption::watch().context("starting the thread that waits for signals")?;
    let summary = put_again_after_restarts(sources, (&arguments, &exclusions), &to, &interruption, output)?;
    output.document(&fields(&summary, &arguments))?;
    output.summary(line(&summary, arguments.dry_run))?;
    judge(&summary, arguments.dry_run)
}

/// Refuses what is said of a snapshot where none will be recorded, and more tags than one can have.
fn check_snapshot_options(arguments: &Arguments, sources: &[Source]) -> anyhow::Result<()> {
    let is_said = arguments.host.is_some() || !arguments.tag.is_empty();
    // One that is missing is reported when it is read.
    let is_other = |source: &Source| source.is_there() && !source.is_tree();
    if is_said && sources.iter().all(is_other) {
        misuse!("--tag and --host are of a tree's snapshot, and no source is a directory");
    }
    if arguments.tag.len() > MAX_TAGS {
        misuse!(TooManyTags: "a snapshot has at most {MAX_TAGS} tags");
    }
    Ok(())
}

impl Arguments {
    fn rounding(&self) -> Option<Rounding> {
        let (float, bound) = self.float.zip(self.error_bound)?;
        Some(Rounding { float, bound, missing: self.missing_value })
    }
}

/// Refuses to round what is not a file of values.
fn check_rounding(arguments: &Arguments, sources: &[Source]) -> anyhow::Result<()> {
    let Some(rounding) = arguments.rounding() else { return Ok(()) };
    rounding.checked().map_err(|error| UsageError::new(error.to_string()))?;
    for source in sources {
        let from = shown::local(&source.from);
        if source.from.as_os_str() == "-" {
            if let ErrorBound::Range(_) = rounding.bound {
                misuse!("range:E reads a file twice, and standard input is read once; give absolute:E or relative:E");
            }
            continue;
        }
        let Ok(found) = source.from.symlink_metadata() else { continue };
        let what = match found.file_type() {
            kind if kind.is_file() => continue,
            kind if kind.is_dir() => "a directory",
            kind if kind.is_symlink() => "a symbolic link",
            _ => "no regular file",
        };
        misuse!("{from} is {what}, and --error-bound is for files of values of one type; name the files");
    }
    Ok(())
}

fn exclusions(arguments: &Arguments) -> anyhow::Result<Exclusions> {
    let files = arguments.exclude_file.iter().map(|path| PatternFile::read(path));
    Ok(Exclusions {
        patterns: arguments.exclude.clone(),
        files: files.collect::<anyhow::Result<_>>()?,
        caches: arguments.exclude_caches,
        one_file_system: arguments.one_file_system,
    })
}

/// A node that was started again has lost what was not yet durable. Beginning again costs a walk, since what was
/// committed is skipped. Standard input cannot be read again.
fn put_again_after_restarts(
    sources: Vec<Source>,
    arguments: (&Arguments, &Exclusions),
    to: &Location,
    interruption: &Interruption,
    output: &Output,
) -> anyhow::Result<Summary> {
    let is_remote = matches!(to.store, StoreAddress::Node(_));
    let is_stream = sources.iter().any(|source| source.from.as_os_str() == "-");
    let may_begin_again = is_remote && !is_stream;
    let access = if arguments.0.dry_run { Access::Read } else { Access::Write };
    let mut repository = open_store(&to.store, access)?;
    repository.refused_model.iter().for_each(|why| output.note(why));
    encode_by_mode(&repository, arguments.0);
    measure_conditions(&repository, &to.store);
    let stored = Stored::default();
    let (mut fruitless, mut committed) = (0, 0);
    for attempt in 1.. {
        let run = run(&repository, sources.clone(), arguments, to, interruption, &stored, output);
        fruitless = if stored.files() > committed { 0 } else { fruitless + 1 };
        committed = stored.files();
        match run.and_then(|summary| {
            repository.close()?;
            Ok(summary)
        }) {
            Err(error)
                if may_begin_again
                    && attempt < MAX_ATTEMPTS
                    && fruitless < MAX_FRUITLESS_ATTEMPTS
                    && is_of_a_restarted_node(&error)
                    && !interruption.has_come() =>
            {
                let why = format!("{error:#}");
                let why = without_advice(&why);
                let seconds = NODE_TIMEOUT.as_secs();
                output.note(format_args!(
                    "{why}; beginning again with what is not committed yet, once the node answers (for {seconds} s)"
                ));
                drop(repository);
                repository = open_when_back(&to.store, access).map_err(|error| broken_off(error, &stored))?;
                encode_by_mode(&repository, arguments.0);
            }
            Err(error) if may_begin_again && is_of_a_restarted_node(&error) => return Err(broken_off(error, &stored)),
            Err(error) if is_remote && is_stream && is_of_a_restarted_node(&error) => {
                let why = explained(&error);
                let why = without_advice(&why);
                fail!(StandardStream: "{why}; standard input cannot be read again, and nothing of it is known to be stored; run what writes it \
                     once more, or put a file"
                )
            }
            // Content read since the last commit has no name yet.
            Err(error) if !is_stream && is_of_a_full_disk(&error) => return Err(broken_off(error, &stored)),
            done => return done,
        }
    }
    unreachable!("the last attempt returns")
}

/// Returns the error, and which of the sources are stored all the same. Whether the last commit was carried out may not
/// be known.
fn broken_off(error: anyhow::Error, stored: &Stored) -> anyhow::Error {
    let stored = match stored.files() {
        0 => "nothing is known to be stored; run the same command again".to_owned(),
        files => format!(
            "at least {} ({}) of this run {} stored; run the same command again to go on",
            shown::count(files, "file"),
            shown::size(stored.bytes()),
            if files == 1 { "is" } else { "are" },
        ),
    };
    Coded::new(error_code::of(&error), format!("{}; {stored}", explained(&error))).into()
}

/// The error without its last words, where they ask for what is done at once.
fn without_advice(why: &str) -> &str {
    ["; begin again", "; run it again"].iter().find_map(|advice| why.strip_suffix(advice)).unwrap_or(why)
}

fn is_of_a_restarted_node(error: &anyhow::Error) -> bool {
    let lost_lease = |error: &_| matches!(error, repository::Error::Catalog(catalog::Error::LeaseLost { .. }));
    error.downcast_ref().is_some_and(|error| is_of_an_absent_node(error) || lost_lease(error))
}

fn is_of_a_full_disk(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(repository::Error::is_full)
}

fn encode_by_mode(repository: &Repository, arguments: &Arguments) {
    if let Some(mode) = arguments.mode {
        repository.encode_by(CodecChoice::Auto(mode));
    }
}

/// Opens the store again as soon as its node answers.
fn open_when_back(store: &StoreAddress, access: Access) -> anyhow::Result<Arc<Repository>> {
    let deadline = Instant::now() + NODE_TIMEOUT;
    loop {
        match open_store(store, access) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY_INTERVAL),
            opened => return Ok(opened?),
        }
    }
}

fn run(
    repository: &Repository,
    sources: Vec<Source>,
    (arguments, exclusions): (&Arguments, &Exclusions),
    to: &Location,
    interruption: &Interruption,
    stored: &Stored,
    output: &Output,
) -> anyhow::Result<Summary> {
    let &Arguments { atomic, dry_run, verbose, .. } = arguments;
    let commits = CommitOptions { atomic, dry_run, verbose };
    if let [source] = &sources[..] {
        refuse_onto_directory(repository, source, to)?;
        if source.from.as_os_str() == "-" {
            if !streams::can_read_input() {
                fail!(StandardStream: "standard input is not open for reading; nothing was put");
            }
            return put_stream(
                repository,
                std::io::stdin().lock(),
                source,
                (commits, arguments.dedup.into(), arguments.rounding()),
                stored,
                output,
            );
        }
    }
    let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let options = Options {
        commits,
        force: arguments.force,
        dedup: arguments.dedup.into(),
        rounding: arguments.rounding(),
        workers,
        avoid: own_directories(repository, &to.store),
        exclusions: exclusions.clone(),
        replace: arguments.replace,
        snapshot: SnapshotOptions { host: arguments.host.clone(), tags: arguments.tag.clone() },
        interruption: interruption.clone(),
    };
    interruption.heed(true);
    let summary = put(repository, sources, &options, stored, output);
    interruption.heed(false);
    summary
}

/// A lone file is not to take the place of a whole directory by a forgotten slash.
fn refuse_onto_directory(repository: &Repository, source: &Source, to: &Location) -> anyhow::Result<()> {
    let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_directory(&source.from) {
        return Ok(());
    }
    match repository.catalog().entry(&source.target)? {
        Some(entry) if entry.attributes.kind == format::FileKind::Directory => {
            let shown = shown::path(&source.target);
            fail!(IsDirectory: "{}::{shown} is a directory; write {}::{shown}/ to put the file into it", to.store, to.store)
        }
        _ => Ok(()),
    }
}

/// Returns device and inode of the store's directories, which must not be put into itself.
fn own_directories(repository: &Repository, store: &StoreAddress) -> HashSet<(u64, u64)> {
    let StoreAddress::Directory(path) = store else { return HashSet::new() };
    let state = repository.settings.state.as_ref().map(Path::new);
    let found = [Some(path.as_path()), state].into_iter().flatten().filter_map(|path| path.metadata().ok());
    found.map(|found| (found.dev(), found.ino())).collect()
}

fn fields(summary: &Summary, arguments: &Arguments) -> Value {
    let named = |list: &[(PathBuf, String)]| -> Vec<Value> {
        list.iter().map(|(path, why)| with_reason(path, Some(why))).collect()
    };
    let mut fields = json!({
        "dry_run": arguments.dry_run,
        "files": summary.files,
        "directories": summary.directories,
        "symlinks": summary.symlinks,
        "links": summary.links,
        "attributes": summary.attributes,
        "unchanged": summary.unchanged,
        "read_bytes": summary.read_bytes,
        "unchanged_bytes": summary.unchanged_bytes,
        "commits": summary.commits,
        "excluded": summary.excluded,
        "snapshot": summary.snapshot,
        "removed": summary.removed.len(),
        "removed_names": summary.removed.iter().map(|path| shown::path_fields(path.as_bytes())).collect::<Vec<_>>(),
        "interrupted": summary.interrupted.is_some(),
        "dropped": named(&summary.dropped),
        "skipped": named(&summary.skipped),
        "failed": summary.left.iter().map(FailedName::fields).collect::<Vec<_>>(),
        "incomplete": named(&summary.incomplete),
        "changing": summary.changing.iter().map(|path| with_reason(path, None)).collect::<Vec<_>>(),
    });
    if let Some(rounding) = arguments.rounding() {
        fields["rounding"] = json!({
            "type": rounding.float.to_string(),
            "error_bound": rounding.bound.to_string(),
            "missing_value": rounding.missing,
            "files": summary.rounded_files,
            "altered_values": summary.rounded.altered,
            "largest_error": summary.rounded.largest_error,
        });
    }
    if arguments.verbose {
        fields["names"] = summary.names.clone().into();
    }
    fields
}

fn with_reason(path: &Path, why: Option<&str>) -> Value {
    let mut fields = shown::path_fields(path.as_os_str().as_encoded_bytes());
    if let Some(why) = why {
        fields.insert("why".into(), why.into());
    }
    Value::Object(fields)
}

fn line(summary: &Summary, dry_run: bool) -> String {
    let new_bytes = summary.read_bytes - summary.compared_bytes;
    let (verb, to_read) = if dry_run { ("would put", " to read") } else { ("put", "") };
    let mut line = format!("{verb} {} ({}{to_read})", shown::count(summary.files, "file"), shown::size(new_bytes));
    for (number, what) in [
        (summary.directories, ["directory", "directories"]),
        (summary.symlinks, ["symlink", "symlinks"]),
        (summary.links, ["hard link", "hard links"]),
        (summary.attributes, ["with new attributes only"; 2]),
    ] {
        if number > 0 {
            line += &format!(", {number} {}", what[usize::from(number != 1)]);
        }
    }
    if summary.compared_bytes > 0 {
        line += &format!(" ({} read to compare)", shown::size(summary.compared_bytes));
    }
    for (number, what) in
        [(summary.unchanged, "unchanged"), (summary.excluded, "excluded"), (summary.removed.len() as u64, "removed")]
    {
        if number > 0 {
            line += &format!(", {number} {what}");
        }
    }
    if summary.rounded_files > 0 {
        line += &format!("; rounded: {}", shown_rounding(&summary.rounded));
    }
    if let Some(snapshot) = &summary.snapshot {
        line += &format!("; snapshot {snapshot}");
    }
    line
}

fn interrupted(summary: &Summary) -> String {
    let stored = summary.files + summary.attributes + summary.symlinks + summary.links;
    if summary.is_empty() {
        return "interrupted: nothing was stored; run the same command again".to_owned();
    }
    let unchanged = match summary.unchanged {
        0 => String::new(),
        unchanged => format!(" ({unchanged} were there already)"),
    };
    format!(
        "interrupted: {} stored{unchanged}, the rest is not; run the same command again to go on",
        shown::count(stored, "name")
    )
}

fn judge(summary: &Summary, dry_run: bool) -> anyhow::Result<()> {
    if let Some(signal) = summary.interrupted {
        let message =
            if dry_run { "interrupted: not everything was compared".to_owned() } else { interrupted(summary) };
        return Err(Interrupted { signal, message }.into());
    }
    let (left, changing) = (summary.left.len() as u64, summary.changing.len() as u64);
    if summary.is_empty() && !summary.skipped.is_empty() {
        fail!(NothingChosen: "nothing was put: no source is a file, directory or symlink");
    }
    if summary.is_empty() && left > 0 {
        return Err(
            Incomplete(format!("{} could not be put, and there was nothing else", shown::count(left, "file"))).into()
        );
    }
    let incomplete = summary.incomplete.len() as u64;
    let counts = [
        (left, format!("{} could not be put", shown::count(left, "file"))),
        // A dry run reads nothing that may change.
        (if dry_run { 0 } else { changing }, format!("{changing} kept changing")),
        (incomplete, format!("{} stored without something that is named above", shown::count(incomplete, "file"))),
    ];
    let failures: Vec<String> = counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    match (failures.is_empty(), dry_run) {
        (true, _) => Ok(()),
        (false, true) => Err(Incomplete(failures.join(" and ")).into()),
        (false, false) => Err(Incomplete(format!("{}; the rest is stored", failures.join(" and "))).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_of_a_put_that_broke_off_is_said_with_the_way_to_go_on() {
        let stored = Stored::default();
        let text_of = |stored| format!("{:#}", broken_off(anyhow::anyhow!("node:7420 does not answer"), stored));
        assert!(text_of(&stored).starts_with("node:7420 does not answer; nothing is known to be stored"));
        stored.add(67, 320 << 20);
        let text = text_of(&stored);
        assert!(
            text.contains("at least 67 files (320") && text.ends_with("run the same command again to go on"),
            "{text}"
        );
    }
}

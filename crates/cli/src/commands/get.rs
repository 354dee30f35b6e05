//! `thalweg get`: files and trees out of a store.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use address::{escaped, scheme_of};
use anyhow::Context;
use catalog::{FileEntry, Version};
use clap::builder::{PathBufValueParser, TypedValueParser};
use format::{Attributes, ErrorCode, FileKind, FileTime, FileTimes, VersionRecord};
use repository::{Access, Repository};
use serde_json::{Value, json};

use super::{COMMITTER, note_holes, refuse_without_data, sessions_of};
use crate::error_code::{Coded, fail};
use crate::failed_name::FailedName;
use crate::failure::{Incomplete, Interrupted, misuse};
use crate::get::{Destination, Filter, Options, Range, Selection, Summary, Withheld, get, print, sync};
use crate::location::{Location, is_location};
use crate::moment::{self, CutoffTime, with_version};
use crate::name_patterns::NamePattern;
use crate::opening::open_store;
use crate::output::Output;
use crate::rate_limits::RateLimits;
use crate::recipes::{ReadArguments, Reading};
use crate::shown;
use crate::signals::Interruption;
use crate::tree_view::TreeView;

/// Fetch files and trees, or part of a file
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg get [OPTIONS] <STORE::PATH>... <DEST>",
    after_help = "As with cp -a: into DEST if it is a directory, ends in a slash, or there are several sources, and \
                        otherwise under that name; what is there is replaced, each file at once when it is whole. A file \
                        that is damaged in the store is named and the others go on; the exit code is 3 then.\n\n\
                        Example: thalweg get /scratch/st::run1 copy\n\
                        Example: thalweg get --snapshot latest /scratch/st::run1 copy\n\
                        Example: thalweg get -nv /scratch/st::run1 copy\n\
                        Example: thalweg get --include '*.h5' --exclude tmp/ /scratch/st::run1 copy\n\
                        Example: thalweg get /scratch/st::run1/out.dat - --range 4096:512 | od -f"
)]
pub struct Arguments {
    /// Sources in the store, then the destination (`-`: standard output)
    #[arg(required = true, num_args = 1.., value_parser = PathBufValueParser::new().map(OsString::from), value_name = "STORE::PATH")]
    pub paths: Vec<OsString>,
    /// Only these bytes of a file; without LENGTH, to its end
    #[arg(long, value_name = "OFFSET:LENGTH")]
    range: Option<Range>,
    /// This version of a file instead of the newest
    #[arg(long, value_name = "N", conflicts_with = "unfinished", value_parser = clap::value_parser!(u64).range(1..))]
    version: Option<u64>,
    /// Files as they were then: 2026-11-21, 2026-11-21T02:10:07Z (UTC), or 12h for 12 hours ago; those without a version of
    /// that time are left out, and names are those of today
    #[arg(long, value_name = "TIME", conflicts_with_all = ["version", "unfinished"])]
    at: Option<CutoffTime>,
    /// As the snapshot of this name has it, `latest`: the newest of the place (`thalweg snapshots` lists them)
    #[arg(long, value_name = "ID", conflicts_with_all = ["version", "unfinished", "at"])]
    snapshot: Option<String>,
    /// Get what a live or interrupted session has checkpointed of a file, though it is not committed
    #[arg(long)]
    unfinished: bool,
    /// With --unfinished: also where none of the file's content was stored
    #[arg(long, requires = "unfinished")]
    force: bool,
    /// Of directories, only names that match and what lies below them: `*.dat`, `/d/*.h5`, as for `put --exclude` (repeatable)
    #[arg(long, value_name = "PATTERN")]
    include: Vec<NamePattern>,
    /// Of directories, all but names that match and what lies below them (repeatable)
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<NamePattern>,
    /// Say what would be fetched, and write nothing; contents are not read
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// A line for each name: new, or replaced in DEST (--json: `names`)
    #[arg(long, short)]
    verbose: bool,
    /// Leave holes also where zeros were written
    #[arg(long)]
    sparse: bool,
    /// Restore also setuid, setgid and sticky bits, file capabilities and other security and trusted attributes
    #[arg(long)]
    privileged: bool,
    /// Return when everything is on the disk
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    dropped: ReadArguments,
    #[command(flatten)]
    rates: RateLimits,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let (to, locations) = arguments.paths.split_last().expect("the names were counted");
    let locations = Location::parse_all(locations)?;
    if is_location(to) {
        misuse!("{}: the destination of get is a local path", shown::local(Path::new(to)));
    }
    if let Some(scheme) = scheme_of(to.as_bytes()) {
        let (to, scheme) = (shown::local(Path::new(to)), escaped(scheme));
        misuse!("{to}: the destination of get is a local path, not {scheme}:// (such a name is written ./{to})");
    }
    if to == "-" && (arguments.dry_run || arguments.verbose) {
        misuse!("--dry-run and --verbose are about names in a directory; with `-` there are none");
    }
    arguments.rates.apply(&locations[0].store)?;
    // Reading what is unfinished makes pages of a manifest for it.
    let access = if arguments.unfinished { Access::Write } else { Access::Read };
    // Before the store's threads, which must not get the signals either.
    let interruption = match to == "-" && !arguments.dropped.is_asked_for() {
        true => Interruption::default(),
        false => Interruption::watch().context("starting the thread that waits for signals")?,
    };
    let repository = open_store(&locations[0].store, access)?;
    let view = TreeView::of_snapshot(&repository, arguments.snapshot.as_deref(), &locations[0].path, arguments.at)?;
    let entries = entries(&view, &repository, &locations, &arguments, output)?;
    let filter = Filter { include: arguments.include.clone(), exclude: arguments.exclude.clone() };
    let named = locations.iter().map(|location| &location.path).zip(&entries);
    let named = named.filter(|_| !arguments.dry_run).collect();
    let reading = Reading { view: &view, entries: named, is_read: &|path| filter.takes(path, false) };
    let _computed = arguments.dropped.compute(&repository, &[reading], &interruption, output)?;
    let done = if to == "-" {
        print_all(&repository, &locations, &entries, &arguments, output)
    } else {
        let wanted = (locations, entries, &filter);
        fetch((&repository, &view), wanted, Path::new(to), &arguments, &interruption, output)
    };
    repository.close()?;
    done
}

/// Returns each location's entry, with the version to read as its head.
fn entries(
    view: &TreeView,
    repository: &Repository,
    locations: &[Location],
    arguments: &Arguments,
    output: &Output,
) -> anyhow::Result<Vec<FileEntry>> {
    let is_one_file = arguments.range.is_some() || arguments.version.is_some() || arguments.unfinished;
    if is_one_file && locations.len() > 1 {
        misuse!("--range, --version and --unfinished take one file at a time");
    }
    let entries = locations.iter().map(|location| entry(view, repository, location, arguments, output));
    let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    let other = locations.iter().zip(&entries).find(|(_, entry)| entry.attributes.kind != FileKind::Regular);
    match other {
        Some((location, _)) if is_one_file => {
            fail!(WrongKind: "{location}: --range, --version and --unfinished are for regular files")
        }
        _ => {}
    }
    for (location, head) in
        locations.iter().zip(&entries).filter_map(|(location, entry)| Some((location, entry.head.as_ref()?)))
    {
        let size = head.record.size;
        if arguments.range.is_some_and(|range| range.is_beyond(size)) {
            fail!(BeyondEnd: "{location}: the range begins behind the file's end; it has {}", shown::count(size, "byte"));
        }
    }
    Ok(entries)
}

fn entry(
    view: &TreeView,
    repository: &Repository,
    location: &Location,
    arguments: &Arguments,
    output: &Output,
) -> anyhow::Result<FileEntry> {
    if view.is_snapshot() {
        return view.expect(location);
    }
    let found = repository.catalog().entry(&location.path)?;
    if arguments.unfinished {
        return unfinished(repository, location, found, arguments.force, output);
    }
    let Some(entry) = found else {
        if sessions_of(repository.catalog(), &location.path)?.is_empty() {
            fail!(NoSuchPath: "{location}: no such file or directory in the store");
        }
        fail!(NothingCommitted: "{location}: nothing is committed yet; --unfinished reads what its session has checkpointed");
    };
    if let Some(number) = arguments.version {
        let versions = repository.catalog().versions(&location.path)?;
        let version = versions.into_iter().find(|version| version.number == number);
        let version = version.with_context(|| {
            let why = format!("{location}: there is no version {number}; `thalweg stat` lists them");
            Coded::new(ErrorCode::NoSuchVersion, why)
        })?;
        let is_newest = entry.head.as_ref().is_some_and(|head| head.number == number);
        if !is_newest && version.attributes.is_none() {
            output.note(format_args!(
                "{location}: the catalog of an earlier thalweg has not kept mode and times of version {number}; they are the \
                 newest's"
            ));
        }
        return Ok(with_version(entry, version));
    }
    match arguments.at {
        Some(at) => moment::expect(at.entry(repository.catalog(), &location.path, entry)?, location),
        None => Ok(entry),
    }
}

/// Returns the file as the newest session of its path would leave it, if it were committed now.
fn unfinished(
    repository: &Repository,
    location: &Location,
    found: Option<FileEntry>,
    is_forced: bool,
    output: &Output,
) -> anyhow::Result<FileEntry> {
    let Some(session) = sessions_of(repository.catalog(), &location.path)?.pop() else {
        fail!(NoSession: "{location}: no session has anything unfinished there");
    };
    if !is_forced {
        refuse_without_data(repository, &session, location, "`get --unfinished --force` fetches that many zeros")?;
    }
    let (root, size) = repository::unfinished(repository, COMMITTER, &session)?;
    note_holes(output, location, repository::data_bytes(repository, &root)?, size);
    let modified = FileTime::from_ns(session.opened_ns);
    let times = FileTimes { modified, ..FileTimes::default() };
    let attributes = Attributes { mode: 0o644, times, ..Attributes::default() };
    let mut entry = found.unwrap_or(FileEntry { file: Default::default(), attributes, head: None, links: 1 });
    let record = VersionRecord { root, size, content: None };
    // Its content of the session is at least as new as the session.
    let times = &mut entry.attributes.times;
    times.modified = times.modified.max(modified);
    entry.head = Some(Version { number: 0, committed_ns: 0, record, attributes: None });
    Ok(entry)
}

fn print_all(
    repository: &Repository,
    locations: &[Location],
    entries: &[FileEntry],
    arguments: &Arguments,
    output: &Output,
) -> anyhow::Result<()> {
    if output.is_json() {
        misuse!("--json and `-` both want standard output; give DEST a name");
    }
    for (location, entry) in locations.iter().zip(entries) {
        let Some(head) = &entry.head else { fail!(WrongKind: "{location}: only regular files go to standard output") };
        let range = arguments.range.unwrap_or(Range::WHOLE);
        print(repository, &head.record, range, output).with_context(|| location.to_string())?;
    }
    Ok(())
}

/// Most of their time they wait for a far store's answers, and each has files fetched ahead.
const FAR_WORKERS: usize = 8;

fn fetch(
    (repository, view): (&Repository, &TreeView),
    (locations, entries, filter): (Vec<Location>, Vec<FileEntry>, &Filter),
    to: &Path,
    arguments: &Arguments,
    interruption: &Interruption,
    output: &Output,
) -> anyhow::Result<()> {
    if !filter.is_empty() && entries.iter().all(|entry| entry.attributes.kind != FileKind::Directory) {
        misuse!("--include and --exclude choose from directories, and none is named");
    }
    let into = to.is_dir();
    let is_missing = !into && (locations.len() > 1 || to.as_os_str().as_bytes().ends_with(b"/"));
    if is_missing && !arguments.dry_run {
        std::fs::create_dir_all(to).with_context(|| shown::local(to))?;
    }
    let into = is_missing || to.is_dir();
    // Names are relative to one directory, which the user chose and which may be reached through links.
    let base = if into { to } else { parent(to) };
    let destination = match is_missing && arguments.dry_run {
        true => Destination::missing(base),
        false => Destination::open(base).map_err(std::io::Error::from).with_context(|| shown::local(base))?,
    };
    let wanted = locations.into_iter().zip(entries).map(|(location, entry)| wanted(location, entry, to, into));
    let wanted: Vec<_> = wanted.collect::<anyhow::Result<_>>()?;
    refuse_twins(&wanted, &destination)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let workers = if repository.is_far() { FAR_WORKERS } else { cores };
    let range = arguments.range.unwrap_or(Range::WHOLE);
    let withheld = if arguments.privileged { Withheld::Nothing } else { Withheld::Privileges };
    let &Arguments { sparse, dry_run, verbose, .. } = arguments;
    let options = Options { workers, sparse, range, withheld, dry_run, verbose };
    interruption.heed(true);
    let summary = get(repository, &destination, (view, &wanted, filter), options, (output, interruption));
    interruption.heed(false);
    let summary = summary?;
    if arguments.sync && !dry_run {
        sync(base)?;
    }
    output.document(&fields(&summary, arguments))?;
    output.summary(line(&summary, dry_run))?;
    if let Some(signal) = summary.interrupted {
        if dry_run {
            return Err(Interrupted { signal, message: "interrupted: not all names were compared".to_owned() }.into());
        }
        let begun = wanted.iter().find(|wanted| !into && wanted.entry.attributes.kind == FileKind::Directory);
        let message = interrupted(begun.map(|begun| destination.path(&begun.to)));
        return Err(Interrupted { signal, message }.into());
    }
    if !filter.include.is_empty() && summary.is_empty() {
        fail!(NothingChosen: "{}", if dry_run { "no name matches" } else { "nothing was fetched: no name matches" });
    }
    let lost = shown::count(summary.lost.len() as u64, "file");
    match summary.lost.len() {
        0 => Ok(()),
        _ if dry_run => Err(Incomplete(format!("{lost} would not be fetched")).into()),
        _ if summary.is_nothing_written() => {
            fail!(Incomplete: "{}: nothing was fetched; {lost} could not be written", shown::local(base))
        }
        _ if summary.files + summary.symlinks + summary.links == 0 => {
            Err(Incomplete(format!("{lost} could not be fetched, and there was nothing else")).into())
        }
        _ => Err(Incomplete(format!("{lost} could not be fetched; the rest is there")).into()),
    }
}

/// The root has no name of its own: its content goes into the destination.
fn wanted(location: Location, entry: FileEntry, to: &Path, into: bool) -> anyhow::Result<Selection> {
    let name = if into { Some(std::ffi::OsStr::from_bytes(location.path.name())) } else { to.file_name() };
    let name = name.with_context(|| {
        Coded::new(ErrorCode::InvalidName, format!("{}: not a name a file can have", shown::local(to)))
    })?;
    let there = if into { to.join(name) } else { to.to_owned() };
    if let Some(what) = special(&there) {
        misuse!(LocalNameTaken: "{}: is {what}, which get does not replace; `-` writes to standard output", shown::local(&there));
    }
    if entry.attributes.kind != FileKind::Directory && there.is_dir() && !there.is_symlink() {
        fail!(LocalNameTaken: "{}: is a directory, and {location} is not", shown::local(&there));
    }
    let to = name.into();
    Ok(Selection { path: location.path, entry, to })
}

/// Refuses two places whose content would be mixed, or the one replaced by the other.
fn refuse_twins(wanted: &[Selection], destination: &Destination) -> anyhow::Result<()> {
    for (at, one) in wanted.iter().enumerate() {
        if let Some(other) = wanted[..at].iter().find(|other| other.to == one.to && other.path != one.path) {
            let (other, one, to) = (shown::path(&other.path), shown::path(&one.path), destination.path(&one.to));
            misuse!(SameTarget: "{other} and {one} would both be {}; nothing was fetched; fetch them apart", shown::local(&to));
        }
    }
    Ok(())
}

/// `begun` is the directory that was made for one in the store: the same command would put the next one into it.
fn interrupted(begun: Option<PathBuf>) -> String {
    let again = match begun {
        Some(begun) => format!("remove {} and run the same command again", shown::local(&begun)),
        None => "run the same command again".to_owned(),
    };
    format!("interrupted: what is there is whole, the rest was not fetched; {again}")
}

/// Names what stands there, if a file must not take its place: replacing `/dev/null` would harm the whole machine.
fn special(path: &Path) -> Option<&'static str> {
    let kind = path.metadata().ok()?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Some("a device");
    }
    if kind.is_fifo() {
        return Some("a pipe");
    }
    kind.is_socket().then_some("a socket")
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn fields(summary: &Summary, arguments: &Arguments) -> Value {
    let named = |list: &[(PathBuf, String)]| -> Vec<Value> {
        let named = list.iter().map(|(path, why)| {
            let mut fields = shown::path_fields(path.as_os_str().as_encoded_bytes());
            fields.insert("why".into(), why.clone().into());
            Value::Object(fields)
        });
        named.collect()
    };
    let mut fields = json!({
        "dry_run": arguments.dry_run,
        "files": summary.files,
        "directories": summary.directories,
        "symlinks": summary.symlinks,
        "links": summary.links,
        "bytes": summary.bytes,
        "excluded": summary.excluded,
        "failed": summary.lost.iter().map(FailedName::fields).collect::<Vec<_>>(),
        "incomplete": named(&summary.incomplete),
        "left_out": summary.left_out,
        "interrupted": summary.interrupted.is_some(),
    });
    if arguments.verbose {
        fields["names"] = summary.names.clone().into();
    }
    fields
}

fn line(summary: &Summary, dry_run: bool) -> String {
    let verb = if dry_run { "would get" } else { "got" };
    let mut line = format!("{verb} {} ({})", shown::count(summary.files, "file"), shown::size(summary.bytes));
    for (number, what) in [
        (summary.directories, ["directory", "directories"]),
        (summary.symlinks, ["symlink", "symlinks"]),
        (summary.links, ["hard link", "hard links"]),
    ] {
        if number > 0 {
            line += &format!(", {number} {}", what[usize::from(number != 1)]);
        }
    }
    if summary.excluded > 0 {
        line += &format!(", {} excluded", summary.excluded);
    }
    if !summary.left_out.is_empty() {
        let kinds: Vec<_> = summary.left_out.iter().map(|(kind, number)| shown::count(*number, kind)).collect();
        line += &format!("; left out: {}", kinds.join(", "));
    }
    line
}

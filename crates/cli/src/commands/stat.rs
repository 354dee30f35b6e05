//! `thalweg stat`: everything known of one name.

use std::ffi::OsString;

use catalog::{FileEntry, PathSession, Version};
use format::{FileKind, rounding_note};
use repository::{Access, FileStatistics, Repository, file_statistics};
use serde_json::{Map, Value, json};

use super::{checkpointed, sessions_of};
use crate::error_code::fail;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;

/// Show a file's attributes, versions, segments, codecs and ratios
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg stat /scratch/st::run1/out.dat")]
pub struct Arguments {
    /// A file, directory or symlink, STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    location: OsString,
}

struct Seen {
    entry: Option<FileEntry>,
    versions: Vec<Version>,
    statistics: Option<FileStatistics>,
    /// With size and number of checkpoints.
    sessions: Vec<(PathSession, u64, usize)>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let location = Location::parse(&arguments.location)?;
    let repository = open_store(&location.store, Access::Read)?;
    let seen = look(&repository, &location)?;
    output.document(&Value::Object(fields(&location, &seen)))?;
    lines(&location, &seen).into_iter().try_for_each(|line| output.line(line))?;
    repository.close()?;
    Ok(())
}

fn look(repository: &Repository, location: &Location) -> anyhow::Result<Seen> {
    let catalog = repository.catalog();
    let mut sessions = Vec::new();
    for session in sessions_of(catalog, &location.path)? {
        let (size, checkpoints) = checkpointed(catalog, &session)?;
        sessions.push((session, size, checkpoints));
    }
    let entry = catalog.entry(&location.path)?;
    if entry.is_none() && sessions.is_empty() {
        fail!(NoSuchPath: "{location}: no such file or directory in the store");
    }
    let head = entry.as_ref().and_then(|entry| entry.head.as_ref());
    let statistics = head.map(|head| file_statistics(repository, &head.record.root)).transpose()?;
    let versions = if head.is_some() { catalog.versions(&location.path)? } else { Vec::new() };
    Ok(Seen { entry, versions, statistics, sessions })
}

fn fields(location: &Location, seen: &Seen) -> Map<String, Value> {
    let mut fields = match &seen.entry {
        Some(entry) => shown::entry_fields(&location.path, entry),
        None => shown::path_fields(location.path.as_bytes()),
    };
    if let Some(entry) = &seen.entry {
        let names = entry.attributes.extended.iter().map(|(name, _)| String::from_utf8_lossy(name));
        fields.insert("extended".into(), names.collect());
        let note = rounding_note(&entry.attributes.extended).map(String::from_utf8_lossy);
        fields.insert("rounded".into(), note.into());
    }
    if let Some(statistics) = &seen.statistics {
        fields.insert("versions".into(), seen.versions.iter().map(version_fields).collect());
        add_statistics(&mut fields, statistics);
    }
    let sessions = seen.sessions.iter();
    let sessions = sessions.map(|(session, size, checkpoints)| shown::session_fields(session, *size, *checkpoints));
    fields.insert("sessions".into(), sessions.map(Value::Object).collect());
    fields
}

fn version_fields(version: &Version) -> Value {
    json!({
        "version": version.number,
        "size": version.record.size,
        "committed_ns": version.committed_ns,
        "content_blake3": version.record.content.map(|digest| shown::base16(&digest)),
    })
}

fn add_statistics(fields: &mut Map<String, Value>, statistics: &FileStatistics) {
    fields.insert("segments".into(), statistics.segments.into());
    fields.insert("unique_segments".into(), statistics.unique_segments.into());
    fields.insert("unique_bytes".into(), statistics.unique_bytes.into());
    fields.insert("stored_bytes".into(), statistics.stored_bytes.into());
    fields.insert("zero_bytes".into(), statistics.zero_bytes.into());
    fields.insert("hole_bytes".into(), statistics.hole_bytes.into());
    fields.insert("dropped_bytes".into(), statistics.dropped_bytes.into());
    fields.insert("codecs".into(), json!(statistics.codecs));
    let size = fields["size"].as_u64().unwrap_or(0);
    fields.insert("deduplication_ratio".into(), shown::ratio(size, statistics.unique_bytes).into());
    fields.insert("compression_ratio".into(), shown::ratio(statistics.unique_bytes, statistics.stored_bytes).into());
}

fn lines(location: &Location, seen: &Seen) -> Vec<String> {
    let mut lines = vec![format!("     path  {location}")];
    if let Some(entry) = &seen.entry {
        lines.extend(entry_lines(entry));
    }
    if let (Some(entry), Some(statistics)) = (&seen.entry, &seen.statistics) {
        let size = entry.head.as_ref().map_or(0, |head| head.record.size);
        lines.extend(statistics_lines(size, statistics));
        lines.extend(seen.versions.iter().map(|version| {
            let (number, time) = (version.number, shown::time(version.committed_ns));
            format!("  version  {number}, committed {time}, {}", shown::count(version.record.size, "byte"))
        }));
    }
    lines.extend(seen.sessions.iter().map(|(session, size, checkpoints)| {
        let (id, state, opened) = (session.id, shown::state(session), shown::time(session.opened_ns));
        let (checkpoints, size) = (shown::count(*checkpoints as u64, "checkpoint"), shown::count(*size, "byte"));
        format!("  session  {id}, {state} since {opened}, {checkpoints}, {size}")
    }));
    lines
}

fn entry_lines(entry: &FileEntry) -> Vec<String> {
    let attributes = &entry.attributes;
    let mut lines = vec![
        format!("     kind  {}, {}", shown::kind(attributes.kind), shown::count(entry.links, "name")),
        format!("     mode  {:04o} {}", attributes.mode, shown::mode(attributes)),
        format!("    owner  {}:{}", attributes.uid, attributes.gid),
        format!(" modified  {}", shown::file_time(attributes.times.modified)),
    ];
    if attributes.kind == FileKind::Symlink {
        lines.push(format!("   target  {}", shown::escaped(&attributes.target)));
    }
    if let Some(note) = rounding_note(&attributes.extended) {
        lines.push(format!("  rounded  {}", shown::escaped(note)));
    }
    if !attributes.extended.is_empty() {
        let names: Vec<_> = attributes.extended.iter().map(|(name, _)| shown::escaped(name)).collect();
        lines.push(format!(" extended  {}", names.join(", ")));
    }
    lines
}

fn statistics_lines(size: u64, statistics: &FileStatistics) -> Vec<String> {
    let codecs: Vec<_> =
        statistics.codecs.iter().map(|(codec, bytes)| format!("{codec} {}", shown::size(*bytes))).collect();
    let deduplication = shown::ratio(size, statistics.unique_bytes);
    let compression = shown::ratio(statistics.unique_bytes, statistics.stored_bytes);
    let dropped = match statistics.dropped_bytes {
        0 => String::new(),
        bytes => format!("; {bytes} dropped: `thalweg recompute` makes them again"),
    };
    vec![
        format!("     size  {size} ({}){dropped}", shown::size(size)),
        format!(" segments  {}, {} of them unique", statistics.segments, statistics.unique_segments),
        format!("    zeros  {} written, {} in holes", statistics.zero_bytes, statistics.hole_bytes),
        format!("   unique  {} ({deduplication} : 1)", statistics.unique_bytes),
        format!("   stored  {} ({compression} : 1)", statistics.stored_bytes),
        format!("   codecs  {}", if codecs.is_empty() { "none needed".into() } else { codecs.join(", ") }),
    ]
}

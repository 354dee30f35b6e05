//! Numbers that replaying a journal needs before it begins, the highest that occur anywhere in it; and what is known of
//! records that are missing.
//!
//! A version may refer to a container that was not found; its number must not be given again all the same.

use format::{Change, ContainerId, EntryKind, FileId, JournalRecord, Page, Root, SessionId, TableEntry};

use crate::counters::Counters;
use crate::{ContainerRecord, Error, IssuedNumbers, SkippedRecord};

/// No catalog of ours ever gives a number as high as this; one that occurs is damage.
pub(crate) const LIMIT: u64 = 1 << 62;
/// Likewise of containers: half of what 40 bits in the table can hold, so that counting on from any accepted number
/// never reaches their end.
pub const CONTAINER_LIMIT: u64 = TableEntry::MAX_CONTAINER.div_ceil(2);

impl IssuedNumbers {
    /// Counts on above these. Numbers that no catalog gives do not count.
    pub(crate) fn raise(&self, counters: &mut Counters) {
        let raise = |counter: &mut u64, given: u64, limit: u64| {
            if given < limit {
                *counter = given.max(*counter);
            }
        };
        raise(&mut counters.sequence, self.sequence, LIMIT);
        raise(&mut counters.container, self.container, CONTAINER_LIMIT);
        raise(&mut counters.session, self.session, LIMIT);
        raise(&mut counters.versioned, self.file, LIMIT);
    }
}

/// Raises `counters` to the highest numbers that occur; `Err` describes an impossible record.
pub(crate) fn raise(
    counters: &mut Counters,
    containers: &[ContainerRecord],
    records: &[JournalRecord],
) -> Result<(), String> {
    for container in containers {
        raise_container(counters, container.id.0.max(container.physical.0))?;
    }
    records.iter().try_for_each(|record| raise_by(counters, record))
}

/// Returns why no catalog of ours can have written this record, if so.
pub fn impossible(record: &JournalRecord) -> Option<String> {
    raise_by(&mut Counters::new(), record).err()
}

fn raise_by(counters: &mut Counters, record: &JournalRecord) -> Result<(), String> {
    raise_to(&mut counters.sequence, record.sequence, "transaction")?;
    let SessionId(session) = record.session;
    raise_to(&mut counters.session, session, "session")?;
    for (file, version) in &record.numbers {
        raise_to(&mut counters.versioned, file.0, "file")?;
        raise_to(&mut 0, *version, "version")?;
    }
    let is_write = |change: &&Change| matches!(change, Change::Write { .. });
    if record.changes.iter().filter(is_write).count() != record.numbers.len() {
        return Err(format!("journal record {} does not number each of its writes", record.sequence));
    }
    for ContainerId(container) in record.changes.iter().filter_map(root_of).flat_map(containers_in) {
        raise_container(counters, container)?;
    }
    Ok(())
}

/// Returns the record of a change that was refused in replay. A missing name that was to be removed is no loss.
pub(crate) fn left_out(record: &JournalRecord, change: &Change, refusal: &Error) -> Option<SkippedRecord> {
    if matches!((change, refusal), (Change::Remove { .. }, Error::NotFound { .. })) {
        return None;
    }
    let (path, why) = match refusal {
        Error::NotFound { path } => (path, "the record that made it is missing".to_owned()),
        Error::Refused { path, why } => (path, why.to_string()),
        other => (change.path(), other.to_string()),
    };
    Some(SkippedRecord { sequence: record.sequence, path: path.clone(), why })
}

/// Returns the versions of a file that are missing between the last one `known` and the one that this change makes.
pub(crate) fn skipped_versions(
    record: &JournalRecord,
    change: &Change,
    number: Option<(FileId, u64)>,
    known: u64,
) -> Option<SkippedRecord> {
    let (_, number) = number?;
    let (first, last) = (known + 1, number.checked_sub(1)?);
    let why = match last.checked_sub(first)? {
        0 => format!("the record of its version {first} is missing"),
        _ => format!("the records of its versions {first} to {last} are missing"),
    };
    Some(SkippedRecord { sequence: record.sequence, path: change.path().clone(), why })
}

fn raise_container(counters: &mut Counters, number: u64) -> Result<(), String> {
    raise_below(CONTAINER_LIMIT, &mut counters.container, number, "container")
}

fn raise_to(counter: &mut u64, number: u64, what: &str) -> Result<(), String> {
    raise_below(LIMIT, counter, number, what)
}

fn raise_below(limit: u64, counter: &mut u64, number: u64, what: &str) -> Result<(), String> {
    if number >= limit {
        return Err(format!("the journal holds the {what} number {number:#x}, which no catalog gives"));
    }
    *counter = number.max(*counter);
    Ok(())
}

fn root_of(change: &Change) -> Option<&Root> {
    match change {
        Change::Write { version, .. } => Some(&version.root),
        Change::Manifest { root, .. } => Some(root),
        _ => None,
    }
}

/// Returns the containers a root names itself. An inline page that cannot be read names none.
fn containers_in(root: &Root) -> Vec<ContainerId> {
    match root {
        Root::Stored { address, .. } => vec![address.container],
        Root::Inline(bytes) => {
            let entries = Page::decode(bytes).map(|page| page.entries).unwrap_or_default();
            entries.iter().filter_map(|entry| container_of(&entry.kind)).collect()
        }
    }
}

fn container_of(kind: &EntryKind) -> Option<ContainerId> {
    match kind {
        EntryKind::Data { run, .. } => Some(run.container),
        EntryKind::Page { address, .. } => Some(address.container),
        EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => None,
    }
}

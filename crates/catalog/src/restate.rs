//! Journal records that state again a catalog's data at some paths, for a journal that has lost the records which made
//! it: replayed after all others, they give the same attributes and versions.

use std::collections::BTreeSet;

use format::{Change, FileKind, JournalRecord, SessionId, StorePath};

use crate::{FileEntry, Version};

/// Forgotten versions of a file that are given numbers again, so that replay does not miss them.
const MAX_GAP: u64 = 4096;

/// Returns a record that takes the place of a lost one.
pub(crate) fn empty_record(sequence: u64, session: SessionId, now_ns: i64) -> JournalRecord {
    JournalRecord { sequence, committed_ns: now_ns, session, numbers: Vec::new(), changes: Vec::new() }
}

/// Returns one record for each version, since a record has one time; and one for each path without versions, or without
/// a file. `sequence` gives numbers of transactions.
pub(crate) fn records(
    path: &StorePath,
    entry: Option<&FileEntry>,
    versions: &[Version],
    session: SessionId,
    now_ns: i64,
    mut sequence: impl FnMut() -> u64,
) -> Vec<JournalRecord> {
    let path = path.clone();
    let mut record = |committed_ns, numbers, changes| JournalRecord {
        sequence: sequence(),
        committed_ns,
        session,
        numbers,
        changes,
    };
    let Some(entry) = entry else {
        return vec![record(now_ns, Vec::new(), vec![Change::Remove { path, recursive: true }])];
    };
    let attributes = entry.attributes.clone();
    if attributes.kind != FileKind::Regular {
        return vec![record(now_ns, Vec::new(), vec![Change::Make { path, attributes }])];
    }
    let write = |version: &Version| {
        let attributes = version.attributes.as_deref().unwrap_or(&attributes).clone();
        let version = version.record.clone();
        Change::Write { path: path.clone(), attributes, version, base: None }
    };
    let (mut records, mut forgotten, mut next) = (Vec::new(), BTreeSet::new(), 1);
    for version in versions {
        let gap = next..version.number;
        let gap = if gap.end - gap.start > MAX_GAP { 0..0 } else { gap };
        forgotten.extend(gap.clone());
        let numbers: Vec<_> = gap.chain([version.number]).map(|number| (entry.file, number)).collect();
        let changes = vec![write(version); numbers.len()];
        records.push(record(version.committed_ns, numbers, changes));
        next = version.number + 1;
    }
    if !forgotten.is_empty() {
        let versions = forgotten.into_iter().collect();
        records.push(record(
            now_ns,
            Vec::new(),
            vec![Change::Forget { path: path.clone(), file: entry.file, versions }],
        ));
    }
    records
}

//! Copies of segments whose fingerprints are lost with their container, and that no table names: manifests hold a digest
//! over the fingerprints of each run, and one of each page, so that an equal run or page of another version is known for
//! what it is.

use std::collections::{HashMap, HashSet};

use format::{EntryKind, LostSegment, Page, Root, Run, SegmentAddress, SegmentEntry};

use crate::mismatch::UNKNOWN;
use crate::repair::{each_version, is_damage};
use crate::{Repository, Result};

/// A digest as manifests hold it, and how many segments it is over. A page's own digest is over its bytes.
type Key = ([u8; 32], u32, Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Run,
    Page,
}

/// Lets runs and pages that can be read stand in for equal ones that cannot.
pub(crate) fn heal_from_equal_runs(repository: &Repository) -> Result<()> {
    let lost = repository.catalog.lost()?.into_iter();
    let lost = lost.filter(|lost| lost.copy.is_none() && lost.fingerprint == UNKNOWN).map(|lost| lost.address);
    let lost: HashSet<SegmentAddress> = lost.collect();
    if lost.is_empty() {
        return Ok(());
    }
    let mut wanted = HashMap::<Key, HashSet<Run>>::new();
    visit_all(repository, &mut |key, run| {
        if run.addresses().any(|address| lost.contains(&address)) {
            wanted.entry(key).or_default().insert(run);
        }
        Ok(())
    })?;
    let mut healed = Vec::new();
    visit_all(repository, &mut |key, run| {
        if wanted.get(&key).is_some_and(|runs| !runs.contains(&run)) && is_readable(repository, run, key)? {
            let entries = repository.store.entries(run)?;
            for unreadable in wanted.remove(&key).unwrap_or_default() {
                healed.extend(pairs(unreadable, run, &entries).filter(|(pair, _)| lost.contains(&pair.address)));
            }
        }
        Ok(())
    })?;
    repository.local_store("repair")?.heal(&healed);
    Ok(())
}

fn pairs(lost: Run, copy: Run, entries: &[SegmentEntry]) -> impl Iterator<Item = (LostSegment, SegmentAddress)> {
    let named = |(address, entry): (SegmentAddress, &SegmentEntry)| LostSegment {
        address,
        fingerprint: entry.fingerprint,
        copy: None,
    };
    lost.addresses().zip(entries).map(named).zip(copy.addresses())
}

/// Whether the store has what the manifest names, and can read it.
fn is_readable(repository: &Repository, run: Run, (digest, _, kind): Key) -> Result<bool> {
    let read = match kind {
        Kind::Run => repository.checked_entries(run, &digest).and_then(|_| repository.segments(run)).map(drop),
        Kind::Page => repository.page(run.addresses().next().expect("a page is one segment"), &digest).map(drop),
    };
    match read {
        Ok(()) => Ok(true),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Every run and page that some version names and that can be reached.
fn visit_all(repository: &Repository, visit: &mut dyn FnMut(Key, Run) -> Result<()>) -> Result<()> {
    each_version(repository, &mut |_, version| {
        let root = &version.record.root;
        if let Root::Stored { address, digest } = root {
            visit((*digest, 1, Kind::Page), Run::single(*address))?;
        }
        match repository.root_page(root) {
            Ok(page) => visit_page(repository, &page, visit),
            Err(error) if is_damage(&error) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

fn visit_page(repository: &Repository, page: &Page, visit: &mut dyn FnMut(Key, Run) -> Result<()>) -> Result<()> {
    for entry in &page.entries {
        match &entry.kind {
            EntryKind::Data { run, digest, .. } => visit((*digest, run.count, Kind::Run), *run)?,
            EntryKind::Page { address, digest } => {
                visit((*digest, 1, Kind::Page), Run::single(*address))?;
                match repository.child(page, entry, *address, digest) {
                    Ok(child) => visit_page(repository, &child, visit)?,
                    Err(error) if is_damage(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            EntryKind::Zero | EntryKind::Hole => {}
        }
    }
    Ok(())
}

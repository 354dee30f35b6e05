//! New versions from old: edits laid over a base, whose untouched pages are shared.

use std::ops::Range;

use format::{ContainerId, Entry, EntryKind, Page, Root, Run};
use store::ClaimOwner;

use super::{Builder, BuiltManifest, Extents, entries_in, is_leaf_of_pages, narrow};
use crate::dedup::NewSegment;
use crate::{Repository, Result};

/// Returns the file that `edits` make of `base`, `size` bytes long.
pub(crate) fn splice(
    repository: &Repository,
    claim_owner: ClaimOwner,
    base: Option<(&Root, u64)>,
    edits: &Extents,
    size: u64,
) -> Result<BuiltManifest> {
    let mut builder = Builder::new(repository, claim_owner);
    let mut position = 0;
    for (offset, entry) in edits.iter() {
        if offset >= size {
            break;
        }
        copy(repository, base, position..offset, &mut builder)?;
        let length = entry.length.min(size - offset);
        push(&mut builder, narrow(repository, entry, 0, length)?)?;
        position = offset + length;
    }
    copy(repository, base, position..size, &mut builder)?;
    builder.finish()
}

/// Returns the file that has `first` and then `second`, each with its length; whole pages of both are shared.
pub(crate) fn join(
    repository: &Repository,
    claim_owner: ClaimOwner,
    first: (&Root, u64),
    second: (&Root, u64),
) -> Result<BuiltManifest> {
    let mut builder = Builder::new(repository, claim_owner);
    for part in [first, second] {
        copy(repository, Some(part), 0..part.1, &mut builder)?;
    }
    builder.finish()
}

/// Adds a file's content to the builder's; its whole pages are shared.
pub(crate) fn append(repository: &Repository, root: &Root, size: u64, builder: &mut Builder) -> Result<()> {
    copy(repository, Some((root, size)), 0..size, builder)
}

fn push(builder: &mut Builder, entry: Entry) -> Result<()> {
    match entry.kind {
        EntryKind::Zero => builder.zeros(entry.length),
        EntryKind::Hole => builder.hole(entry.length),
        _ => builder.entry(entry),
    }
}

/// Copies the base's content of a range; beyond its end there is a hole.
fn copy(repository: &Repository, base: Option<(&Root, u64)>, range: Range<u64>, builder: &mut Builder) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let end = base.map_or(0, |(_, length)| length).clamp(range.start, range.end);
    if let Some((root, _)) = base.filter(|_| end > range.start) {
        let page = repository.root_page(root)?;
        copy_page(repository, &page, 0, &(range.start..end), builder)?;
    }
    builder.hole(range.end - end)
}

fn copy_page(
    repository: &Repository,
    page: &Page,
    mut offset: u64,
    range: &Range<u64>,
    builder: &mut Builder,
) -> Result<()> {
    for entry in &page.entries {
        let (start, end) = (offset.max(range.start), (offset + entry.length).min(range.end));
        if start < end {
            let whole = end - start == entry.length;
            match &entry.kind {
                EntryKind::Page { .. } if whole && is_leaf_of_pages(page) => builder.leaf(*entry)?,
                EntryKind::Page { address, digest } => {
                    let child = repository.child(page, entry, *address, digest)?;
                    copy_page(repository, &child, offset, range, builder)?;
                }
                _ => push(builder, narrow(repository, *entry, start - offset, end - start)?)?,
            }
        }
        offset += entry.length;
    }
    Ok(())
}

/// Makes the same file with every segment that lies in `lost` put again, somewhere new.
pub(crate) fn rewrite(
    repository: &Repository,
    claim_owner: ClaimOwner,
    root: &Root,
    lost: &[ContainerId],
) -> Result<BuiltManifest> {
    let mut builder = Builder::anew(repository, claim_owner);
    entries_in(repository, root, 0..u64::MAX, &mut |_, entry| match entry.kind {
        EntryKind::Data { run, skip, digest } if lost.contains(&run.container) => {
            put_again(repository, claim_owner, (run, &digest), skip, entry.length, &mut builder)
        }
        _ => push(&mut builder, entry),
    })?;
    builder.finish()
}

/// Segments read and put in one go when a run moves.
const MOVED_AT_ONCE: usize = 128;

fn put_again(
    repository: &Repository,
    claim_owner: ClaimOwner,
    (run, digest): (Run, &[u8; 32]),
    skip: u32,
    length: u64,
    builder: &mut Builder,
) -> Result<()> {
    let mut left = length;
    let mut skip = skip;
    let mut first = run.first;
    for entries in repository.checked_entries(run, digest)?.chunks(MOVED_AT_ONCE) {
        let part = Run { container: run.container, first, count: entries.len() as u32 };
        first += part.count;
        let segments = repository.named_segments(part, entries)?;
        let new_segments: Vec<_> =
            segments.iter().map(|bytes| NewSegment { fingerprint: repository.fingerprint(bytes), bytes }).collect();
        let addresses = repository.keep_again(claim_owner, repository.data_blocks(), &new_segments)?;
        for (segment, address) in new_segments.iter().zip(addresses) {
            let bytes = (segment.bytes.len() as u64 - skip as u64).min(left) as u32;
            let to_its_end = skip as usize + bytes as usize == segment.bytes.len();
            builder.part(address, segment.fingerprint, skip, bytes, to_its_end)?;
            left -= bytes as u64;
            skip = 0;
        }
    }
    Ok(())
}

//! Statistics of a store and of a file.

use std::collections::{BTreeMap, HashMap};

use format::{EntryKind, Root, Run};

use crate::marks::{LiveBitmap, named};
use crate::tree::{PageSet, collect_new_runs, entries_in};
use crate::{LocalEngines, Recipe, Repository, Result, TreeSnapshot};

/// Roots fetched from the catalog at a time.
const ROOTS_AT_ONCE: usize = 4096;
/// Segments whose blocks are read together.
const SEGMENTS_AT_ONCE: usize = 256;

/// Figures of a whole store (bytes and counts); the keys of `thalweg stats --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StoreFigures {
    /// Sum of the sizes of all kept versions.
    pub logical_bytes: u64,
    /// Decoded length of the distinct segments that kept versions refer to.
    pub unique_bytes: u64,
    /// Length of the container files.
    pub stored_bytes: u64,
    /// References to segments in all kept versions.
    pub segments: u64,
    /// Distinct segments among them.
    pub unique_segments: u64,
    pub containers: u64,
    pub files: u64,
    /// Memory the fingerprint table takes in this process.
    pub table_memory_bytes: u64,
}

/// Figures of one version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileStatistics {
    pub segments: u64,
    pub unique_segments: u64,
    /// Decoded length of the distinct segments.
    pub unique_bytes: u64,
    /// Their share of the blocks they are stored in.
    pub stored_bytes: u64,
    pub zero_bytes: u64,
    pub hole_bytes: u64,
    /// Recipes make them again.
    pub dropped_bytes: u64,
    /// Decoded bytes by the codec of the block they lie in.
    pub codecs: BTreeMap<&'static str, u64>,
}

/// Figures of the whole store. Walks every kept manifest; reads no content.
pub fn store_statistics(repository: &Repository) -> Result<StoreFigures> {
    let known = repository.local_catalog()?.statistics()?;
    let own = own_files(repository)?;
    let by_root: HashMap<&[u8], &OwnFile> = own.iter().map(|file| (&file.root[..], file)).collect();
    let mut marks = LiveBitmap::default();
    let mut kept = KeptContents::default();
    let mut after = 0;
    loop {
        let roots = repository.local_catalog()?.roots(after, ROOTS_AT_ONCE)?;
        let Some((last, _)) = roots.last() else { break };
        after = *last;
        for (_, root) in &roots {
            let own = if by_root.is_empty() { None } else { by_root.get(&root.encode()[..]) };
            match own {
                Some(own) => kept.add(repository, root, own),
                None => mark_content(repository, root, &mut marks),
            }
            .map_err(|error| named(repository, root, error))?;
        }
    }
    let segments = marks.references;
    marks.add(&kept.runs, &kept.own);
    let mut figures = StoreFigures {
        logical_bytes: known.logical_bytes.saturating_sub(own.iter().map(|file| file.size).sum()),
        stored_bytes: known.container_bytes + open_bytes(repository)?,
        segments,
        containers: known.live_containers,
        files: known.files.saturating_sub(own.len() as u64),
        table_memory_bytes: repository.local.as_ref().map_or(0, |local| local.store.table_memory_bytes() as u64),
        ..StoreFigures::default()
    };
    let containers: Vec<_> = marks.containers().collect();
    for run in containers.into_iter().flat_map(|container| marks.runs(container)) {
        figures.unique_segments += run.count as u64;
        let entries = repository.store.entries(run)?;
        figures.unique_bytes += entries.iter().map(|entry| entry.bytes as u64).sum::<u64>();
    }
    Ok(figures)
}

/// A file that stands for none of a user's: a snapshot or a recipe.
struct OwnFile {
    root: Vec<u8>,
    size: u64,
    /// At its front: a listing, or a record and programs. The rest are contents of files.
    own_bytes: u64,
}

fn own_files(repository: &Repository) -> Result<Vec<OwnFile>> {
    let of_snapshot = |snapshot: TreeSnapshot| OwnFile {
        root: snapshot.root(),
        size: snapshot.size(),
        own_bytes: snapshot.facts.listing_bytes,
    };
    let of_recipe = |recipe: Recipe| OwnFile {
        root: recipe.version().root.encode(),
        size: recipe.version().size,
        own_bytes: recipe.own_bytes(),
    };
    let snapshots = repository.snapshots()?.into_files().into_iter().map(of_snapshot);
    Ok(snapshots.chain(repository.recipes()?.readable.into_iter().map(of_recipe)).collect())
}

/// The bytes that snapshots and recipes keep.
#[derive(Default)]
struct KeptContents {
    walked: PageSet,
    runs: LiveBitmap,
    own: LiveBitmap,
}

impl KeptContents {
    fn add(&mut self, repository: &Repository, root: &Root, file: &OwnFile) -> Result<()> {
        let runs = &mut self.runs;
        collect_new_runs(repository, root, &mut self.walked, &mut |run, is_page| {
            if !is_page {
                runs.mark(run);
            }
        })?;
        entries_in(repository, root, 0..file.own_bytes, &mut |_, entry| {
            if let EntryKind::Data { run, .. } = entry.kind {
                self.own.mark(run);
            }
            Ok(())
        })
    }
}

/// Returns the length of the containers that are being written now, which the catalog does not know yet (bytes).
fn open_bytes(repository: &Repository) -> Result<u64> {
    let Some(LocalEngines { store, catalog }) = &repository.local else { return Ok(0) };
    let mut bytes = 0;
    for record in catalog.containers()?.iter().filter(|record| record.segments == 0) {
        // One that has no whole part yet counts for nothing.
        bytes += store.index(record.id).map_or(0, |index| index.end_offset());
    }
    Ok(bytes)
}

/// Marks the content of a file, not the pages of its manifest.
fn mark_content(repository: &Repository, root: &Root, marks: &mut LiveBitmap) -> Result<()> {
    entries_in(repository, root, 0..u64::MAX, &mut |_, entry| {
        if let EntryKind::Data { run, .. } = entry.kind {
            marks.mark(run);
        }
        Ok(())
    })
}

/// Figures of one version. Reads the blocks' headers, and with them their payloads, but decodes nothing.
pub fn file_statistics(repository: &Repository, root: &Root) -> Result<FileStatistics> {
    let mut figures = FileStatistics::default();
    let mut marks = LiveBitmap::default();
    entries_in(repository, root, 0..u64::MAX, &mut |_, entry| {
        match entry.kind {
            EntryKind::Data { run, .. } => marks.mark(run),
            EntryKind::Zero => figures.zero_bytes += entry.length,
            EntryKind::Dropped { .. } => figures.dropped_bytes += entry.length,
            EntryKind::Hole | EntryKind::Page { .. } => figures.hole_bytes += entry.length,
        }
        Ok(())
    })?;
    figures.segments = marks.references;
    let containers: Vec<_> = marks.containers().collect();
    for run in containers.into_iter().flat_map(|container| marks.runs(container)) {
        figures.unique_segments += run.count as u64;
        figures.add_blocks(repository, run)?;
    }
    Ok(figures)
}

impl FileStatistics {
    fn add_blocks(&mut self, repository: &Repository, run: Run) -> Result<()> {
        let wanted = run.first..run.first + run.count;
        for first in wanted.clone().step_by(SEGMENTS_AT_ONCE) {
            let count = (wanted.end - first).min(SEGMENTS_AT_ONCE as u32);
            for placed in repository.store.get(Run { container: run.container, first, count })? {
                let header = placed.block.header;
                let within = first..first + count;
                let ours: u64 = placed
                    .addresses()
                    .zip(&placed.block.segments)
                    .filter(|(address, _)| address.container == run.container && within.contains(&address.ordinal))
                    .map(|(_, segment)| segment.bytes as u64)
                    .sum();
                self.unique_bytes += ours;
                self.stored_bytes += ours * header.stored_bytes as u64 / header.raw_bytes.max(1) as u64;
                *self.codecs.entry(header.codec.name()).or_default() += ours;
            }
        }
        Ok(())
    }
}

//! Blocks and entries by address: from memory until they are written, else from files.

use std::sync::Arc;

use format::{Label, Run, SegmentEntry};

use super::Shared;
use super::writing::{OpenContainer, QueuedPart, WriteState};
use crate::container::{BlockPlan, read_blocks};
use crate::files::File;
use crate::guard::lock;
use crate::{Error, Result, StoredBlock};

/// The data of a run in a container that this process is writing.
struct PendingRun {
    file: Arc<dyn File>,
    /// Blocks of parts that were cut, each with the queued part that still holds it, if one does.
    cut: Vec<(BlockPlan, Option<Arc<QueuedPart>>)>,
    /// Blocks of the part being assembled; they come after the others.
    assembled: Vec<StoredBlock>,
}

impl Shared {
    pub fn get(&self, run: Run) -> Result<Vec<StoredBlock>> {
        match self.get_as_stored(run) {
            Err(error) if error.is_damage() => self.get_around_damage(run, error),
            other => other,
        }
    }

    pub fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        match self.entries_as_stored(run) {
            Err(error) if error.is_damage() => self.entries_around_damage(run, error),
            other => other,
        }
    }

    /// As `get`, without copies of what is lost.
    pub fn get_as_stored(&self, run: Run) -> Result<Vec<StoredBlock>> {
        if run.count == 0 {
            return Ok(Vec::new());
        }
        let own = lock(&self.writing).find(run);
        match own {
            Some(found) => found?.read(),
            None => self.in_files(run, |file, index, ranges| {
                read_blocks(file, index.blocks_of(ranges).iter().map(|spot| index.describe(spot)).collect())
            }),
        }
    }

    pub fn entries_as_stored(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        if run.count == 0 {
            return Ok(Vec::new());
        }
        if let Some(entries) = lock(&self.writing).entries(run) {
            return entries;
        }
        self.in_files(run, |_, index, ranges| {
            let inside = ranges.iter().flat_map(|range| &index.segments()[range.start as usize..range.end as usize]);
            Ok(inside.copied().collect())
        })
    }
}

impl PendingRun {
    fn read(self) -> Result<Vec<StoredBlock>> {
        let mut blocks = Vec::with_capacity(self.cut.len() + self.assembled.len());
        let mut stored = Vec::new();
        for (plan, queued) in self.cut {
            // Parts reach their file in order: what is queued comes after what is stored.
            match queued {
                None => stored.push(plan),
                Some(part) => {
                    let (offset, bytes) = (plan.spot.file_offset, plan.spot.header.stored_bytes as usize);
                    let payload = part.stored(part.container, offset, bytes).expect("the part was chosen for it");
                    let payload = payload.to_vec();
                    blocks.push(plan.complete(payload).ok_or_else(|| changed_in_memory(&*self.file, offset))?);
                }
            }
        }
        let mut all = read_blocks(&*self.file, stored)?;
        all.extend(blocks);
        all.extend(self.assembled);
        Ok(all)
    }
}

/// Returns the error for a block whose payload does not match the checksum it was put with.
fn changed_in_memory(file: &dyn File, offset: u64) -> Error {
    let why = "a block that is still in memory does not match its checksum".to_owned();
    Error::Corrupt { path: file.path().to_owned(), offset, why }
}

impl WriteState {
    /// Returns the run's data; none when the container is not one of those being written.
    fn find(&mut self, run: Run) -> Option<Result<PendingRun>> {
        let end = run.first as u64 + run.count as u64;
        let container = self.container(run.container)?;
        if end > container.next_ordinal as u64 {
            return Some(Err(not_found(run)));
        }
        let cut_segments = container.index.segments().len() as u32;
        let mut plans = Vec::new();
        if run.first < cut_segments {
            let range = run.first..cut_segments.min(run.first + run.count);
            plans.extend(container.index.blocks_of(&[range]).iter().map(|spot| container.index.describe(spot)));
        }
        let (file, assembled) = (container.file.clone(), container.assembled(run));
        let cut = plans.into_iter().map(|plan| {
            let part = self.queue.iter().find(|part| {
                part.stored(run.container, plan.spot.file_offset, plan.spot.header.stored_bytes as usize).is_some()
            });
            let part = part.cloned();
            (plan, part)
        });
        Some(Ok(PendingRun { file, cut: cut.collect(), assembled }))
    }

    fn entries(&mut self, run: Run) -> Option<Result<Vec<SegmentEntry>>> {
        let container = self.container(run.container)?;
        if run.first as u64 + run.count as u64 > container.next_ordinal as u64 {
            return Some(Err(not_found(run)));
        }
        let assembled = container.part.blocks().flat_map(|(_, segments, _)| segments);
        let all = container.index.segments().iter().chain(assembled);
        Some(Ok(all.skip(run.first as usize).take(run.count as usize).copied().collect()))
    }
}

impl OpenContainer {
    /// Returns copies of the blocks of the unfinished part that hold some of the run.
    fn assembled(&self, run: Run) -> Vec<StoredBlock> {
        let mut first = self.index.segments().len() as u32;
        let mut blocks = Vec::new();
        for (header, segments, payload) in self.part.blocks() {
            let count = segments.len() as u32;
            if first < run.first + run.count && run.first < first + count {
                let labels = vec![Label { container: self.id, first, count }];
                let header = format::BlockHeader { offset: 0, ..*header };
                let block = format::Block { header, segments: segments.to_vec(), payload: payload.to_vec() };
                blocks.push(StoredBlock { labels, block });
            }
            first += count;
        }
        blocks
    }
}

fn not_found(run: Run) -> Error {
    Error::NotFound {
        what: format!(
            "segments {} to {} of container {}",
            run.first,
            run.first as u64 + run.count as u64,
            run.container
        ),
    }
}

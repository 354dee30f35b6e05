//! No container stays open for a disk that is full, since an open one cannot be collected: a container of which a part finds
//! no room ends with what is in its file, and the rest of it is dropped. Nothing is lost silently: the catalog then
//! refuses each commit that relies on an earlier address in it. An open container without a writer is closed, too.

use std::time::Instant;

use format::{ContainerId, Run, SegmentAddress};

use super::Shared;
use super::durability::unsynced;
use super::writing::WriteState;
use crate::container::{ContainerIndex, file_name};
use crate::files::File;
use crate::guard::lock;
use crate::{Error, Result};

/// The open container, when something was put into it last.
#[derive(Default)]
pub struct IdleState(Option<(ContainerId, u32, Instant)>);

impl Shared {
    /// Handles a failed write of a part: a full disk ends its container, and any other failure the store.
    pub fn failed_to_write(&self, container: ContainerId, error: Error) -> Error {
        if !matches!(error, Error::Full { .. }) {
            return self.fail_store(error);
        }
        // If it fails the part stays queued, and the next attempt to write it ends the container.
        let _ = self.truncate(container);
        error
    }

    /// Ends a container before the parts that are queued for it. The caller holds `turn`.
    fn truncate(&self, id: ContainerId) -> Result<()> {
        let unsynced = {
            let mut writing = lock(&self.writing);
            if writing.open.as_ref().is_some_and(|open| open.id == id) {
                writing.retire(self);
            }
            // Before the catalog moves on: later look-ups get no address of what is dropped.
            lock(&self.claims).forget(id);
            writing.container(id).and_then(|container| unsynced(container))
        };
        unsynced.map_or(Ok(()), |written| self.sync_container(written))?;
        // Before anything is dropped: a commit that was given its address must not pass in between.
        self.registrar.truncated(id)?;
        let mut writing = lock(&self.writing);
        let Some(kept) = writing.drop_unwritten(id) else { return Ok(()) };
        lock(&self.truncated).insert(id, kept);
        drop(writing);
        self.containers.forget(id);
        self.written.notify_all();
        if kept == 0 {
            // Best effort: collection removes it as well.
            let _ = self.files.remove(&file_name(id));
        }
        Ok(())
    }

    /// Whether the segment was in a container that a full disk ended before it.
    pub fn has_dropped(&self, address: SegmentAddress) -> bool {
        lock(&self.truncated).get(&address.container).is_some_and(|kept| address.ordinal >= *kept)
    }

    /// Runs `action` on the file that holds the run; the error says so where a full disk has dropped it.
    pub fn in_files<T>(
        &self,
        run: Run,
        action: impl Fn(&dyn File, &ContainerIndex, &[std::ops::Range<u32>]) -> Result<T>,
    ) -> Result<T> {
        self.containers.with_run(run, action).map_err(|error| {
            let last = SegmentAddress::new(run.container, run.first.saturating_add(run.count - 1));
            if self.has_dropped(last) { Error::Full { path: file_name(run.container) } } else { error }
        })
    }

    /// Closes the open container, if it has a part or more and nothing was put for long. Smaller ones stay: they hold little
    /// back, and a writer that stores a little now and then would make many.
    pub fn retire_when_idle(&self, last: &mut IdleState) {
        let mut writing = lock(&self.writing);
        let has_part = |open: &&super::writing::OpenContainer| open.written_segments > 0;
        let Some(open) = writing.open.as_ref().filter(has_part) else {
            *last = IdleState::default();
            return;
        };
        match last.0 {
            Some((id, segments, since)) if (id, segments) == (open.id, open.next_ordinal) => {
                if since.elapsed() >= self.options.idle_timeout {
                    writing.retire(self);
                }
            }
            _ => last.0 = Some((open.id, open.next_ordinal, Instant::now())),
        }
    }
}

impl WriteState {
    /// Drops what of the container is not in its file; returns how many segments are, and none where it is none of ours.
    fn drop_unwritten(&mut self, id: ContainerId) -> Option<u32> {
        self.queue.retain(|part| part.container != id);
        let at = self.retired.iter().position(|container| container.id == id)?;
        Some(self.retired.remove(at).written_segments)
    }
}

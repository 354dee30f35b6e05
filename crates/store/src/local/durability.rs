//! The steps from written to durable to sealed to published.
//!
//! Syncs are shared: a caller that arrives while one runs waits for the next, and that one serves all who wait. A
//! footer is written only after everything before it was synced. Only durable segments get table entries.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::{ContainerId, TableEntry};

use super::Shared;
use super::writing::{OpenContainer, WriteState};
use crate::container::{ContainerIndex, footer};
use crate::files::File;
use crate::guard::{lock, wait};
use crate::{Error, Result, SealedContainer};

/// The facts of a container without footer: the catalog keeps its length no more than that of one a killed writer left.
const NO_FOOTER: SealedContainer = SealedContainer { stored_bytes: 0, segments: 0 };

/// Rounds of syncing, counted.
#[derive(Default)]
pub struct Rounds {
    started: u64,
    finished: u64,
    running: bool,
}

/// A container with written segments that were not synced yet.
pub(super) struct Unsynced {
    id: ContainerId,
    name: String,
    file: Arc<dyn File>,
    named: bool,
    segments: u32,
    bytes: Range<u64>,
}

impl Shared {
    pub fn make_durable(&self) -> Result<()> {
        let mut rounds = lock(&self.rounds);
        // A running round may have begun before the last put.
        let needed = rounds.started + 1;
        loop {
            self.alive()?;
            if rounds.finished >= needed {
                return Ok(());
            }
            if rounds.running {
                rounds = wait(&self.round_over, rounds);
                continue;
            }
            rounds.running = true;
            rounds.started += 1;
            let this = rounds.started;
            drop(rounds);
            let outcome = self.sync_all();
            rounds = lock(&self.rounds);
            rounds.running = false;
            if outcome.is_ok() {
                rounds.finished = this;
            }
            self.round_over.notify_all();
            outcome?;
        }
    }

    pub fn close(&self) -> Result<()> {
        self.alive()?;
        lock(&self.writing).retire(self);
        self.seal_retired()?;
        self.publish();
        Ok(())
    }

    /// Seals full containers, publishes durable segments, merges runs.
    pub fn maintain(&self) -> Result<()> {
        self.alive()?;
        self.seal_retired()?;
        self.publish();
        // The table is a hint: a failure here is retried later.
        while self.options.merges_table && self.table.merge().unwrap_or(false) {}
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        lock(&self.writing).cut(self);
        self.drain()?;
        self.sync_written()?;
        self.check_presence(None)?;
        if self.options.background { Ok(()) } else { self.maintain() }
    }

    /// Syncs every container that was written to.
    fn sync_written(&self) -> Result<()> {
        let unsynced: Vec<Unsynced> = {
            let writing = lock(&self.writing);
            writing.retired.iter().chain(&writing.open).filter_map(unsynced).collect()
        };
        unsynced.into_iter().try_for_each(|container| self.sync_container(container))
    }

    pub(super) fn sync_container(&self, container: Unsynced) -> Result<()> {
        let named = if container.named { Ok(()) } else { self.files.sync_folder(&container.name) };
        let written = |bytes| {
            self.counts.synced_bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        let synced = container.file.sync_watched(container.bytes.clone(), &written);
        synced.and(named).map_err(|error| self.fail_store(error))?;
        self.check_presence(Some((&container.name, &*container.file)))?;
        lock(&self.writing).synced(&container);
        Ok(())
    }

    /// Fails the store if the containers' folder, or this open container, was removed or replaced: nobody would find
    /// there what a sync confirms.
    pub(super) fn check_presence(&self, open: Option<(&str, &dyn File)>) -> Result<()> {
        match self.files.displaced(open) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => {
                let why = format!(
                    "{why}; nothing that was not confirmed by now counts; end what uses the store, then `thalweg verify` \
                     says what is there"
                );
                let why = self.displaced.get_or_init(|| why).clone();
                Err(self.fail_store(Error::Failed { why }))
            }
            Err(error) => Err(self.fail_store(error)),
        }
    }

    /// Gives every full container its footer, and reports it to the catalog.
    pub fn seal_retired(&self) -> Result<()> {
        let _sealing = lock(&self.sealing);
        self.drain()?;
        while let Some((id, pending)) = self.next_retired() {
            if let Some(unsynced) = pending {
                self.sync_container(unsynced)?;
            }
            let facts = match self.write_footer(id) {
                // Its parts say what is in it, as in a file that a killed writer left.
                Err(Error::Full { .. }) => NO_FOOTER,
                written => written.map(|()| self.facts_of(id))?,
            };
            self.registrar.sealed(id, facts)?;
            let index = lock(&self.writing).take_sealed(id, facts.stored_bytes);
            self.containers.remember(index);
        }
        Ok(())
    }

    fn facts_of(&self, id: ContainerId) -> SealedContainer {
        let mut writing = lock(&self.writing);
        let container = writing.container(id).expect("only sealing takes whole containers away");
        SealedContainer { stored_bytes: container.file_bytes(), segments: container.next_ordinal as u64 }
    }

    fn next_retired(&self) -> Option<(ContainerId, Option<Unsynced>)> {
        let writing = lock(&self.writing);
        let container = writing.retired.first()?;
        // Retired after the queue was drained: the next call seals it.
        let whole = container.written_segments == container.next_ordinal;
        whole.then(|| (container.id, unsynced(container)))
    }

    fn write_footer(&self, id: ContainerId) -> Result<()> {
        let (file, offset, bytes) = {
            let mut writing = lock(&self.writing);
            let container = writing.container(id).expect("only sealing takes whole containers away");
            if container.has_footer {
                return Ok(());
            }
            (container.file.clone(), container.index.end_offset(), container.footer())
        };
        file.write_at(offset, &[&bytes]).map_err(|error| match error {
            Error::Full { .. } => error,
            other => self.fail_store(other),
        })?;
        file.sync().map_err(|error| self.fail_store(error))?;
        lock(&self.writing).container(id).expect("only sealing takes whole containers away").has_footer = true;
        Ok(())
    }

    /// Puts newly durable segments into the table. A failure is not retried: rebuilding finds them.
    pub fn publish(&self) {
        let (entries, sealed) = {
            let mut writing = lock(&self.writing);
            (std::mem::take(&mut writing.publishable), std::mem::take(&mut writing.sealed))
        };
        if entries.is_empty() && sealed.is_empty() {
            return;
        }
        let _ = self.table.publish(entries);
        lock(&self.claims).published(sealed.iter().map(|index| &**index));
    }
}

pub(super) fn unsynced(container: &OpenContainer) -> Option<Unsynced> {
    (container.written_segments > container.index.durable_segments()).then(|| Unsynced {
        id: container.id,
        name: container.name.clone(),
        file: container.file.clone(),
        named: container.named,
        segments: container.written_segments,
        bytes: container.synced_bytes..container.written_bytes,
    })
}

impl OpenContainer {
    fn footer(&self) -> Vec<u8> {
        footer(self.id, self.index.next_part(), self.index.end_offset(), self.index.parts())
    }

    /// Returns the length of the file with its footer (bytes).
    fn file_bytes(&self) -> u64 {
        self.index.end_offset() + self.footer().len() as u64
    }
}

impl WriteState {
    /// Notes that the container's first segments were synced; they may be published.
    fn synced(&mut self, Unsynced { id, segments, bytes, .. }: &Unsynced) {
        let (segments, Some(container)) = (*segments, self.container(*id)) else { return };
        container.named = true;
        container.synced_bytes = container.synced_bytes.max(bytes.end);
        let (from, to) = (container.index.durable_segments(), segments);
        container.index.made_durable(segments);
        let new = (from..to.max(from)).map(|ordinal| {
            let segment = &container.index.segments()[ordinal as usize];
            TableEntry::new(&segment.fingerprint, container.index.address_of(ordinal))
        });
        let new: Vec<TableEntry> = new.collect();
        self.publishable.extend(new);
    }

    /// Releases the container, which lies whole in its file: it is read from there now.
    fn take_sealed(&mut self, id: ContainerId, file_bytes: u64) -> Arc<ContainerIndex> {
        let at = self.retired.iter().position(|container| container.id == id).expect("a retired container was sealed");
        let mut index = self.retired.remove(at).index;
        if file_bytes > 0 {
            index.seal(file_bytes);
        }
        let index = Arc::new(index);
        self.sealed.push(index.clone());
        index
    }
}

//! The open container: blocks are copied into its part under a short lock; full parts are queued and written in order,
//! one at a time, by the thread that filled one. With two parts waiting, putters wait too. A part for which the disk
//! has no room ends its container.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use format::{Block, CONTAINER_HEADER_BYTES, ContainerHeader, ContainerId, Label, Run, SegmentAddress, TableEntry};

use super::Shared;
use crate::container::{ContainerIndex, FOLDER, PartBuilder, file_name};
use crate::files::File;
use crate::guard::{lock, wait_timeout};
use crate::{Error, Result};

/// Parts waiting to be written before putters wait.
const QUEUED_PARTS: usize = 2;

/// A putter that waits for a part to be written tries to write it itself after this long: the thread that tried first
/// may have failed for want of room.
const WRITTEN_TIMEOUT: Duration = Duration::from_millis(100);

/// Full containers waiting to be sealed before a putter seals them itself.
pub const RETIRED_CONTAINERS: usize = 2;

/// Room beyond `part_bytes` in a part's buffer: a part's last block exceeds the limit (bytes).
const OVERHANG_BYTES: usize = 1 << 20;

/// Data being written. Containers here are searched before files are.
#[derive(Default)]
pub struct WriteState {
    pub open: Option<OpenContainer>,
    /// Full, not yet sealed; oldest first.
    pub retired: Vec<OpenContainer>,
    /// Parts not yet in their files, oldest first.
    pub queue: VecDeque<Arc<QueuedPart>>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// Entries of durable segments not yet in the table.
    pub publishable: Vec<TableEntry>,
    /// Sealed containers whose last segments are not yet in the table.
    pub sealed: Vec<Arc<ContainerIndex>>,
}

/// A container of this process that may still grow, or has no footer yet.
pub struct OpenContainer {
    pub id: ContainerId,
    pub name: String,
    pub file: Arc<dyn File>,
    /// The index of all parts cut, written or not. Ordinals are indices here: a container as first written has one
    /// label.
    pub index: ContainerIndex,
    /// The part being assembled.
    pub part: PartBuilder,
    pub next_ordinal: u32,
    /// Segments whose parts are in the file.
    pub written_segments: u32,
    /// The end of the parts in the file (bytes), and how much of it is durable.
    pub written_bytes: u64,
    pub synced_bytes: u64,
    /// Whether the file's name was synced.
    pub named: bool,
    pub has_footer: bool,
}

/// A part waiting to be written to its file.
pub struct QueuedPart {
    pub container: ContainerId,
    file: Arc<dyn File>,
    offset: u64,
    /// The container's header, before the first part.
    lead: Vec<u8>,
    head: Vec<u8>,
    data: Vec<u8>,
    segments: u32,
}

impl QueuedPart {
    /// Returns the stored bytes at an offset of the file, if they are in this part's data.
    pub fn stored(&self, container: ContainerId, file_offset: u64, bytes: usize) -> Option<&[u8]> {
        let data_offset = self.offset + self.head.len() as u64;
        let start = usize::try_from(file_offset.checked_sub(data_offset)?).ok()?;
        (container == self.container).then(|| self.data.get(start..start + bytes)).flatten()
    }

    fn end(&self) -> u64 {
        self.offset + (self.head.len() + self.data.len()) as u64
    }

    fn write(&self) -> Result<()> {
        self.file.write_at(self.offset - self.lead.len() as u64, &[&self.lead, &self.head, &self.data])
    }
}

impl WriteState {
    /// Returns a container of this process by its number.
    pub fn container(&mut self, id: ContainerId) -> Option<&mut OpenContainer> {
        self.open.iter_mut().chain(&mut self.retired).find(|container| container.id == id)
    }

    /// Queues the part that the open container has assembled.
    pub fn cut(&mut self, shared: &Shared) {
        let Some(container) = self.open.as_mut().filter(|container| !container.part.is_empty()) else { return };
        let buffer = match self.spare.pop() {
            Some(buffer) => buffer,
            None => Vec::with_capacity(shared.options.part_bytes + OVERHANG_BYTES),
        };
        let assembled = std::mem::replace(&mut container.part, PartBuilder::with_buffer(buffer));
        let part = assembled.finish(container.id, container.index.next_part());
        let offset = container.index.end_offset();
        let first = offset == CONTAINER_HEADER_BYTES as u64;
        self.queue.push_back(Arc::new(QueuedPart {
            container: container.id,
            file: container.file.clone(),
            offset,
            lead: if first { shared.container_header(container.id) } else { Vec::new() },
            head: part.head,
            data: part.data,
            segments: part.index.header.segments,
        }));
        container.index.add_part(offset, part.index);
    }

    /// Closes the open container: it takes no more blocks.
    pub fn retire(&mut self, shared: &Shared) {
        self.cut(shared);
        self.retired.extend(self.open.take());
    }

    /// Notes that the part at the head of the queue is in its file.
    fn part_written(&mut self, limit: usize) {
        let Some(part) = self.queue.pop_front() else { return };
        if let Some(container) = self.container(part.container) {
            container.written_segments += part.segments;
            container.written_bytes = part.end();
        }
        // A reader may hold the part: then its buffer is not reused.
        if let Some(part) = Arc::into_inner(part)
            && self.spare.len() < QUEUED_PARTS
            && part.data.capacity() <= limit
        {
            self.spare.push(part.data);
        }
    }

    fn room_for(&self, block: &Block, container_bytes: u64) -> bool {
        let Some(open) = &self.open else { return false };
        let bytes = open.index.end_offset() + open.part.part_bytes() + block.payload.len() as u64;
        let ordinals = open.next_ordinal as u64 + block.segments.len() as u64;
        let fits = bytes <= container_bytes && ordinals <= TableEntry::MAX_ORDINAL as u64;
        fits || open.next_ordinal == 0
    }
}

impl Shared {
    pub fn put(&self, block: &Block) -> Result<Run> {
        check_shape(block)?;
        let mut writing = self.writing_with_room(block)?;
        let open = writing.open.as_mut().expect("a container was just opened");
        let run = Run { container: open.id, first: open.next_ordinal, count: block.segments.len() as u32 };
        open.part.append(&[Label { container: run.container, first: run.first, count: run.count }], block);
        open.next_ordinal += run.count;
        let full = open.part.data_bytes() >= self.options.part_bytes;
        if full {
            writing.cut(self);
        }
        self.resolve(block, run);
        self.note_put(block, run);
        let (due, crowded) = (!writing.queue.is_empty(), writing.retired.len() > RETIRED_CONTAINERS);
        drop(writing);
        if due {
            self.drain()?;
        }
        if crowded {
            // A failure to seal does not fail this put, unless a write failed.
            let _ = self.seal_retired();
            self.alive()?;
        }
        Ok(run)
    }

    /// Returns the write state, once the open container takes the block and its part can be queued.
    fn writing_with_room(&self, block: &Block) -> Result<MutexGuard<'_, WriteState>> {
        let mut writing = lock(&self.writing);
        loop {
            self.alive()?;
            if writing.queue.len() >= QUEUED_PARTS {
                let (waited, result) = wait_timeout(&self.written, writing, WRITTEN_TIMEOUT);
                writing = waited;
                if result.timed_out() {
                    drop(writing);
                    self.drain()?;
                    writing = lock(&self.writing);
                }
            } else if writing.room_for(block, self.options.container_bytes) {
                return Ok(writing);
            } else {
                drop(writing);
                self.open_container(block)?;
                writing = lock(&self.writing);
            }
        }
    }

    /// Opens another container, unless some thread has just done it. Only threads that need one wait for the catalog.
    fn open_container(&self, block: &Block) -> Result<()> {
        let _opening = lock(&self.opening);
        if lock(&self.writing).room_for(block, self.options.container_bytes) {
            return Ok(());
        }
        let container = self.begin_container()?;
        let mut writing = lock(&self.writing);
        writing.retire(self);
        writing.open = Some(container);
        Ok(())
    }

    /// Writes queued parts until none is left.
    pub fn drain(&self) -> Result<()> {
        let _turn = lock(&self.turn);
        loop {
            self.alive()?;
            let Some(part) = lock(&self.writing).queue.front().cloned() else { return Ok(()) };
            if let Err(error) = part.write() {
                return Err(self.failed_to_write(part.container, error));
            }
            drop(part);
            let mut writing = lock(&self.writing);
            writing.part_written(self.options.part_bytes + OVERHANG_BYTES);
            self.written.notify_all();
        }
    }

    pub fn container_header(&self, container: ContainerId) -> Vec<u8> {
        let header = ContainerHeader {
            store: self.store,
            container,
            fingerprint: self.fingerprint,
            cipher: 0,
            key_id: 0,
            group: 0,
            filters: [0; 4],
            record_length: 0,
        };
        header.encode().to_vec()
    }

    /// Opens a container, registered before its first byte.
    fn begin_container(&self) -> Result<OpenContainer> {
        self.check_presence(None)?;
        let id = self.registrar.open()?;
        let name = file_name(id);
        let file = self.files.create(&name).map_err(explain_existing)?;
        self.files.hold_folder(FOLDER);
        let buffer = Vec::with_capacity(self.options.part_bytes + OVERHANG_BYTES);
        Ok(OpenContainer {
            id,
            name,
            file,
            index: ContainerIndex::new(id, CONTAINER_HEADER_BYTES as u64),
            part: PartBuilder::with_buffer(buffer),
            next_ordinal: 0,
            written_segments: 0,
            written_bytes: 0,
            synced_bytes: 0,
            named: false,
            has_footer: false,
        })
    }

    fn resolve(&self, block: &Block, run: Run) {
        let mut claims = lock(&self.claims);
        let addresses = (run.first..).map(|ordinal| SegmentAddress::new(run.container, ordinal));
        let known = block.segments.iter().zip(addresses);
        let known = known.filter(|(segment, address)| claims.resolve(segment.fingerprint, *address)).count();
        drop(claims);
        self.resolved.notify_all();
        self.counts.segments_put.fetch_add(run.count as u64, Ordering::Relaxed);
        self.counts.stored_bytes.fetch_add(block.payload.len() as u64, Ordering::Relaxed);
        self.counts.duplicates_stored.fetch_add(known as u64, Ordering::Relaxed);
    }
}

/// Explains an existing file: a number that the catalog gives for the first time has none yet.
pub fn explain_existing(error: Error) -> Error {
    match error {
        Error::Io { path, source } if source.kind() == ErrorKind::AlreadyExists => {
            let why = "it is there already, although the catalog has just given its number: a container was copied \
                       there, or the catalog is older than its containers; `thalweg verify` says which, and what to do";
            Error::Io { path, source: std::io::Error::new(ErrorKind::AlreadyExists, why) }
        }
        other => other,
    }
}

/// Refuses a block that contradicts itself, which would make its whole part unreadable. Its content is not read.
fn check_shape(block: &Block) -> Result<()> {
    let header = &block.header;
    let raw_bytes: u64 = block.segments.iter().map(|segment| segment.bytes as u64).sum();
    let fits = header.segments as usize == block.segments.len()
        && header.stored_bytes as usize == block.payload.len()
        && header.raw_bytes as u64 == raw_bytes;
    if fits && !block.segments.is_empty() && block.segments.len() <= TableEntry::MAX_ORDINAL as usize {
        return Ok(());
    }
    let why = "its segments and payload do not fit its header".to_owned();
    Err(Error::Format(format::Error::Corrupt { what: "block", why }))
}

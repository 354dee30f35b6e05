//! Many files in: cuts, fingerprints and stores their content, small files sharing blocks.
//!
//! A packer is one thread's; it gathers about a megabyte of segments before it asks the store which are missing, so a
//! tree of small files costs few questions and few blocks. With [`BatchThreads`] it cuts the next batch meanwhile.

use std::collections::VecDeque;

use format::{CodecChoice, FloatType};
use segment::{Cutter, Numbers};
use store::ClaimOwner;

use crate::batches::{Batch, BatchThreads, StoredSegment};
use crate::byte_order;
use crate::dedup::{DedupMode, StoreOptions};
use crate::tree::{Builder, BuiltManifest};
use crate::{Repository, Result};

/// Segments gathered before a store on this machine is asked (bytes).
pub const BATCH_BYTES: usize = 1 << 20;
/// Bytes whose digest is worth starting a thread.
const DIGESTED_BESIDE_BYTES: usize = 512 << 10;
/// Holes of a file whose zeros go into its content digest (bytes): BLAKE3 of zeros costs as much as of anything else,
/// since it counts places, and a hole of a TiB would take minutes.
const MAX_DIGESTED_HOLE_BYTES: u64 = 1 << 30;
/// As many as BLAKE3 takes at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A file whose content is stored.
pub struct Packed<T> {
    /// The caller's tag of the file.
    pub tag: T,
    pub built: BuiltManifest,
    /// BLAKE3 of the content in order; none for a file with more than a GiB of holes.
    pub content: Option<[u8; 32]>,
}

/// Takes files one after the other; gives them back, in order, when their segments are stored.
pub struct Packer<'a, T> {
    repository: &'a Repository,
    claim_owner: ClaimOwner,
    options: StoreOptions,
    /// Segments waiting to be stored.
    batch: Batch,
    threads: Option<BatchThreads>,
    /// Whether batches go to a single thread; to several they always go.
    stores_beside: bool,
    drafts: VecDeque<Draft<'a, T>>,
    finished: Vec<Packed<T>>,
}

/// A file under way: its builder, and the parts to append once the batch has addresses.
struct Draft<'a, T> {
    builder: Builder<'a>,
    waiting: VecDeque<Item>,
    cutter: Cutter,
    /// Bytes given that are not yet a segment.
    tail: Vec<u8>,
    /// None once the holes are too long.
    hasher: Option<blake3::Hasher>,
    hole_bytes: u64,
    /// Whether it was given bytes.
    has_begun: bool,
    /// With the whole file given: the caller's tag.
    tag: Option<T>,
}

enum Item {
    Segment,
    Zeros(u64),
    Hole(u64),
}

impl<'a, T> Packer<'a, T> {
    /// `claim_owner` must be this packer's alone.
    pub fn new(repository: &'a Repository, claim_owner: ClaimOwner) -> Self {
        Packer {
            repository,
            claim_owner,
            options: StoreOptions::default(),
            batch: Batch::default(),
            threads: None,
            stores_beside: false,
            drafts: VecDeque::new(),
            finished: Vec::new(),
        }
    }

    /// Whether the packer looks segments up.
    pub fn with_dedup(mut self, mode: DedupMode) -> Self {
        self.options.dedup = mode;
        self
    }

    /// Encodes the content in another way than the repository's.
    pub fn with_codec(mut self, codec: CodecChoice) -> Self {
        self.options.codec = Some(codec);
        self
    }

    /// Says that the content is whole floats of this type, which were rounded: segments are cut between them, and blocks encoded
    /// for them.
    pub fn with_rounded(mut self, rounded: Option<FloatType>) -> Self {
        self.options.numbers = rounded.map_or(Numbers::Unknown, Numbers::Rounded);
        self
    }

    /// Gives the packer threads to store by; it uses a single one as [`Packer::store_beside`] says.
    pub fn with_threads(mut self, threads: BatchThreads) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Whether batches are stored by the packer's single thread from now on, if it has one: worth it while a core is idle.
    pub fn store_beside(&mut self, is_worth_it: bool) {
        self.stores_beside = is_worth_it;
    }

    pub fn begin(&mut self) {
        let settings = &self.repository.settings;
        let builder = match self.options.dedup {
            DedupMode::On => Builder::new(self.repository, self.claim_owner),
            DedupMode::Off => Builder::anew(self.repository, self.claim_owner),
        };
        self.drafts.push_back(Draft {
            builder,
            waiting: VecDeque::new(),
            cutter: Cutter::new(settings.chunker, settings.segment_bytes),
            tail: Vec::new(),
            hasher: Some(blake3::Hasher::new()),
            hole_bytes: 0,
            has_begun: false,
            tag: None,
        });
    }

    /// Adds the next bytes of the file begun last.
    pub fn data(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.current().hasher {
            hasher.update(bytes);
        }
        self.store_data(bytes)
    }

    /// As `data`, with the content digest on a thread of its own where the bytes are many.
    pub fn data_digested_beside(&mut self, bytes: &[u8]) -> Result<()> {
        let hasher = if bytes.len() < DIGESTED_BESIDE_BYTES { None } else { self.current().hasher.take() };
        let Some(mut hasher) = hasher else { return self.data(bytes) };
        std::thread::scope(|scope| {
            let digesting = scope.spawn(move || {
                hasher.update(bytes);
                hasher
            });
            let stored = self.store_data(bytes);
            let hasher = digesting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.current().hasher = Some(hasher);
            stored
        })
    }

    fn store_data(&mut self, bytes: &[u8]) -> Result<()> {
        if !std::mem::replace(&mut self.current().has_begun, true) {
            self.begin_numbers(bytes)?;
        }
        if self.current().tail.is_empty() {
            let used = self.cut(bytes, false)?;
            self.current().tail.extend_from_slice(&bytes[used..]);
        } else {
            let mut tail = std::mem::take(&mut self.current().tail);
            tail.extend_from_slice(bytes);
            let used = self.cut(&tail, false)?;
            tail.drain(..used);
            self.current().tail = tail;
        }
        Ok(())
    }

    /// Takes what is known of a file's numbers by its first bytes. Blocks of a batch are described together, so the batch before ends.
    fn begin_numbers(&mut self, beginning: &[u8]) -> Result<()> {
        let codec = self.options.codec.unwrap_or_else(|| self.repository.codec());
        let numbers = match self.options.numbers {
            rounded @ Numbers::Rounded(_) => rounded,
            _ => byte_order::numbers_of(beginning, codec),
        };
        if numbers != self.options.numbers && !self.batch.is_empty() {
            self.send()?;
        }
        self.options.numbers = numbers;
        Ok(())
    }

    /// Adds a hole to the file begun last; the content before it is cut here.
    pub fn hole(&mut self, length: u64) -> Result<()> {
        self.flush_tail()?;
        let draft = self.current();
        draft.digest_hole(length);
        draft.waiting.push_back(Item::Hole(length));
        Ok(())
    }

    /// Ends the file begun last, which is whole.
    pub fn end(&mut self, tag: T) -> Result<()> {
        self.flush_tail()?;
        self.current().tag = Some(tag);
        if self.batch.is_empty() {
            if !self.has_many_threads() {
                self.take_back()?;
            }
            self.checkpoint(Vec::new())?;
        }
        Ok(())
    }

    /// Gives up the file begun last; its stored content is garbage for collection.
    pub fn abandon(&mut self) -> Result<()> {
        self.flush()?;
        self.drafts.pop_back();
        Ok(())
    }

    /// Returns the files whose content is stored by now (in this process; durable with the commit).
    pub fn take_finished(&mut self) -> Vec<Packed<T>> {
        std::mem::take(&mut self.finished)
    }

    /// Stores what is gathered.
    pub fn flush(&mut self) -> Result<()> {
        if self.has_many_threads() && !self.batch.is_empty() {
            self.send()?;
        }
        while self.take_back()? {}
        if self.batch.is_empty() {
            return self.checkpoint(Vec::new());
        }
        let stored = self.batch.store(self.repository, self.claim_owner, self.options)?;
        self.batch.clear();
        self.checkpoint(stored)
    }

    /// Stores what is gathered, or has it stored beside: by a single thread not before the batch sent last and its pages
    /// are stored, so that a claim owner stores one thing at a time; by several as soon as one of them is done.
    fn send(&mut self) -> Result<()> {
        if !self.stores_beside && !self.has_many_threads() {
            return self.flush();
        }
        self.await_room()?;
        match &mut self.threads {
            Some(threads) => threads.send(&mut self.batch, self.options),
            None => self.flush()?,
        }
        Ok(())
    }

    /// Waits until another batch can be sent; takes what is stored by then.
    fn await_room(&mut self) -> Result<()> {
        while let Some(threads) = &mut self.threads {
            if let Some(stored) = threads.take_stored() {
                self.checkpoint(stored?)?;
                continue;
            }
            if !threads.are_busy() {
                break;
            }
            threads.await_any();
        }
        Ok(())
    }

    /// Waits for the batch that is stored beside, the oldest of several; false when there is none.
    fn take_back(&mut self) -> Result<bool> {
        let stored = self.threads.as_mut().and_then(BatchThreads::take_back);
        let is_some = stored.is_some();
        if let Some(stored) = stored {
            self.checkpoint(stored?)?;
        }
        Ok(is_some)
    }

    fn batch_bytes(&self) -> usize {
        self.threads.as_ref().map_or(BATCH_BYTES, BatchThreads::batch_bytes)
    }

    fn has_many_threads(&self) -> bool {
        self.threads.as_ref().is_some_and(BatchThreads::are_many)
    }

    fn current(&mut self) -> &mut Draft<'a, T> {
        self.drafts.back_mut().expect("begin comes first")
    }

    fn flush_tail(&mut self) -> Result<()> {
        let tail = std::mem::take(&mut self.current().tail);
        let used = self.cut(&tail, true)?;
        debug_assert_eq!(used, tail.len());
        let settings = &self.repository.settings;
        self.current().cutter = Cutter::new(settings.chunker, settings.segment_bytes);
        Ok(())
    }

    /// Takes segments off the front of `bytes`; returns how many bytes they are.
    fn cut(&mut self, bytes: &[u8], end: bool) -> Result<usize> {
        let mut used = 0;
        while used < bytes.len() {
            let Some(length) = self.current().cutter.next(&bytes[used..], end) else { break };
            let length = length.next_multiple_of(self.value_bytes()).min(bytes.len() - used);
            self.segment(&bytes[used..used + length])?;
            used += length;
        }
        Ok(used)
    }

    /// Returns the length that no segment divides: of a value, where it is known that there are values.
    fn value_bytes(&self) -> usize {
        match self.options.numbers {
            Numbers::Rounded(float) => float.bytes(),
            Numbers::Unknown | Numbers::BigEndian => 1,
        }
    }

    fn segment(&mut self, bytes: &[u8]) -> Result<()> {
        if segment::is_zero(bytes) {
            self.current().waiting.push_back(Item::Zeros(bytes.len() as u64));
            return Ok(());
        }
        if self.batch.bytes() + bytes.len() > self.batch_bytes() && !self.batch.is_empty() {
            self.send()?;
        }
        self.batch.push(self.repository.fingerprint(bytes), bytes);
        self.current().waiting.push_back(Item::Segment);
        Ok(())
    }

    /// Hands the places out to the files that wait for them, in order.
    fn checkpoint(&mut self, stored: Vec<StoredSegment>) -> Result<()> {
        let mut stored = stored.into_iter();
        while let Some(draft) = self.drafts.front_mut() {
            while let Some(item) = draft.waiting.front() {
                match item {
                    Item::Zeros(length) => draft.builder.zeros(*length)?,
                    Item::Hole(length) => draft.builder.hole(*length)?,
                    Item::Segment => match stored.next() {
                        Some((address, fingerprint, bytes)) => draft.builder.segment(address, fingerprint, bytes)?,
                        None => return Ok(()),
                    },
                }
                draft.waiting.pop_front();
            }
            let Some(tag) = draft.tag.take() else { return Ok(()) };
            let draft = self.drafts.pop_front().expect("it was the front");
            let content = draft.hasher.map(|hasher| *hasher.finalize().as_bytes());
            self.finished.push(Packed { tag, built: draft.builder.finish()?, content });
        }
        Ok(())
    }
}

impl<T> Draft<'_, T> {
    /// The content digest is of what a reader sees: zeros.
    fn digest_hole(&mut self, length: u64) {
        self.hole_bytes = self.hole_bytes.saturating_add(length);
        if self.hole_bytes > MAX_DIGESTED_HOLE_BYTES {
            self.hasher = None;
        }
        let Some(hasher) = &mut self.hasher else { return };
        let mut left = length;
        while left > 0 {
            let count = left.min(ZEROS.len() as u64);
            hasher.update(&ZEROS[..count as usize]);
            left -= count;
        }
    }
}

impl<T> Drop for Packer<'_, T> {
    fn drop(&mut self) {
        // Its claims are released below; whether it was stored does not matter any more.
        while self.threads.as_mut().and_then(BatchThreads::take_back).is_some() {}
        self.repository.store.release(self.claim_owner);
    }
}

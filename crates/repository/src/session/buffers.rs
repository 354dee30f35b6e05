//! The memory of segments that arrive: their bytes, by segment, and the senders of pieces not stored yet.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::sources::Source;

const MIN_SENDERS: usize = 8;

/// Bytes that stay as they are, whatever is written to the segment afterwards.
#[derive(Clone)]
pub(super) struct Slice {
    bytes: Arc<Vec<u8>>,
    at: usize,
    length: usize,
}

impl Slice {
    pub fn of(bytes: Arc<Vec<u8>>, range: Range<usize>) -> Self {
        Slice { bytes, at: range.start, length: range.len() }
    }
}

impl std::ops::Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.length]
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub source: Source,
    pub sequence: u64,
    pub stamp: u64,
}

/// One segment's bytes, as far as they have come. Which of them count, the content map says.
pub(super) struct Buffer {
    /// The segment's bytes: a slice of the payload they came in, or a copy of its own.
    bytes: Arc<Vec<u8>>,
    at: usize,
    /// Bytes that the map says are here, and those of them that are nowhere else.
    pub covered_bytes: u32,
    pub staged_bytes: u32,
    /// The senders of pieces that wait here for the rest of the segment: those pieces are not durable.
    senders: Vec<Sender>,
    /// Beyond this many, those all of whose bytes lie under later pieces are dropped from the list.
    max_senders: usize,
    /// The checkpoint that waits for the oldest piece here.
    pub generation: u64,
    /// It was whole, and is to be stored.
    pub is_due: bool,
    /// The number of the take it was last part of.
    pub taken: u64,
}

impl Buffer {
    fn new(generation: u64) -> Self {
        Buffer {
            bytes: Arc::default(),
            at: 0,
            covered_bytes: 0,
            staged_bytes: 0,
            senders: Vec::new(),
            max_senders: MIN_SENDERS,
            generation,
            is_due: false,
            taken: 0,
        }
    }

    /// Takes the whole segment from the payload.
    pub fn share(&mut self, payload: &Arc<Vec<u8>>, at: usize) {
        (self.bytes, self.at) = (payload.clone(), at);
    }

    /// Copies bytes in; threads that read or store the segment at the moment keep it as it was.
    pub fn copy(&mut self, within: usize, bytes: &[u8], segment_bytes: usize) {
        let is_own = self.at == 0 && self.bytes.len() == segment_bytes;
        match Arc::get_mut(&mut self.bytes).filter(|_| is_own) {
            Some(own) => own[within..within + bytes.len()].copy_from_slice(bytes),
            None => {
                let mut own = self.bytes.get(self.at..self.at + segment_bytes).map_or(Vec::new(), <[u8]>::to_vec);
                own.resize(segment_bytes, 0);
                own[within..within + bytes.len()].copy_from_slice(bytes);
                (self.bytes, self.at) = (Arc::new(own), 0);
            }
        }
    }

    pub fn slice(&self, within: Range<usize>) -> Slice {
        Slice::of(self.bytes.clone(), self.at + within.start..self.at + within.end)
    }

    /// Notes a piece some of which waits here. True when the list is full: [`Buffer::keep_senders`] is due.
    pub fn note(&mut self, sender: Sender, generation: u64) -> bool {
        if self.senders.is_empty() {
            self.generation = generation;
        }
        if self.senders.last() != Some(&sender) && !self.senders.contains(&sender) {
            self.senders.push(sender);
        }
        self.senders.len() > self.max_senders
    }

    pub fn keep_senders(&mut self, is_visible: impl Fn(u64) -> bool) {
        self.senders.retain(|sender| is_visible(sender.stamp));
        self.max_senders = MIN_SENDERS.max(2 * self.senders.len());
    }

    /// Releases the senders: the content is being stored, so its pieces are waited for, not held back.
    pub fn release_senders(&mut self) {
        self.senders.clear();
    }

    pub fn senders(&self) -> impl Iterator<Item = (Source, u64)> + '_ {
        self.senders.iter().map(|sender| (sender.source, sender.sequence))
    }
}

#[derive(Default)]
pub(super) struct Buffers {
    buffers: BTreeMap<u64, Buffer>,
}

impl Buffers {
    pub fn get(&self, index: u64) -> Option<&Buffer> {
        self.buffers.get(&index)
    }

    pub fn get_mut(&mut self, index: u64) -> Option<&mut Buffer> {
        self.buffers.get_mut(&index)
    }

    pub fn get_or_new(&mut self, index: u64, generation: u64) -> &mut Buffer {
        self.buffers.entry(index).or_insert_with(|| Buffer::new(generation))
    }

    pub fn remove(&mut self, index: u64) -> Option<Buffer> {
        self.buffers.remove(&index)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Buffer)> {
        self.buffers.iter().map(|(index, buffer)| (*index, buffer))
    }

    pub fn len(&self) -> usize {
        self.buffers.len()
    }
}

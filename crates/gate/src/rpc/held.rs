//! The bytes of one call, on their way from the client to the server: in chunks that are reserved as bytes arrive.

use std::io::{IoSlice, IoSliceMut};
use std::rc::Rc;

use super::budget::{CALL_BYTES, Part, Window};

pub const CHUNK_BYTES: usize = 64 << 10;

/// Gives its room back when dropped.
pub struct Held {
    /// All but the last are full.
    chunks: Vec<Vec<u8>>,
    bytes: usize,
    capacity_bytes: usize,
    charged_bytes: usize,
    is_whole: bool,
    number: u64,
    window: Rc<Window>,
    part: Rc<Part>,
}

impl Held {
    pub(super) fn new(window: Rc<Window>, part: Rc<Part>, number: u64) -> Self {
        Held {
            chunks: Vec::new(),
            bytes: 0,
            capacity_bytes: 0,
            charged_bytes: 0,
            is_whole: false,
            number,
            window,
            part,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns its first bytes: a whole chunk of them, if it has so many.
    pub fn head(&self) -> &[u8] {
        self.chunks.first().map_or(&[], |chunk| &chunk[..self.bytes.min(chunk.len())])
    }

    /// Returns the bytes that can be read into it now.
    pub fn room_bytes(&self) -> usize {
        self.capacity_bytes - self.bytes
    }

    /// Waits until there is room for so many bytes more, at most a chunk.
    pub async fn reserve(&mut self, bytes: usize) {
        let bytes = bytes.min(CHUNK_BYTES);
        let besides_bytes = if self.charged_bytes == 0 { CALL_BYTES } else { 0 };
        self.window.reserve(&self.part, self.number, bytes + besides_bytes).await;
        self.charged_bytes += bytes + besides_bytes;
        self.capacity_bytes += bytes;
        self.chunks.push(self.window.budget().chunk(bytes));
    }

    /// Returns the room there is, at most `most` bytes of it, to read into.
    pub fn room(&mut self, most: usize) -> Vec<IoSliceMut<'_>> {
        let (mut skipped, mut left) = (self.bytes, most);
        let mut room = Vec::new();
        for chunk in &mut self.chunks {
            let from = skipped.min(chunk.len());
            skipped -= from;
            let length = left.min(chunk.len() - from);
            if length > 0 {
                room.push(IoSliceMut::new(&mut chunk[from..from + length]));
                left -= length;
            }
        }
        room
    }

    /// Notes that so many bytes were read into the room.
    pub fn filled(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub fn copy(&mut self, mut bytes: &[u8]) {
        let count = bytes.len();
        for room in &mut self.room(count) {
            let (here, rest) = bytes.split_at(room.len());
            room.copy_from_slice(here);
            bytes = rest;
        }
        self.filled(count - bytes.len());
    }

    /// Returns all bytes from this one on, in pieces.
    pub fn pieces(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.chunks.iter().filter_map(move |chunk| {
            let (begin, end) = (from.clamp(at, at + chunk.len()), self.bytes.clamp(at, at + chunk.len()));
            let piece = (begin < end).then(|| &chunk[begin - at..end - at]);
            at += chunk.len();
            piece
        })
    }

    pub fn slices(&self, from: usize) -> impl Iterator<Item = IoSlice<'_>> {
        self.pieces(from).map(IoSlice::new)
    }

    /// Notes that it is whole: from now on it leaves by itself.
    pub fn finish(&mut self) {
        self.is_whole = true;
        self.window.budget().completed(&self.part, self.number, self.charged_bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let budget = self.window.budget();
        budget.ended(self.number);
        if self.is_whole {
            budget.left(&self.part, self.charged_bytes);
        }
        self.chunks.drain(..).for_each(|chunk| budget.keep(chunk));
        budget.release(&self.window, &self.part, self.charged_bytes);
    }
}

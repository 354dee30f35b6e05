//! Pieces of the program's memory, and walking through them stripe by stripe.

use std::ops::Range;

use format::{ErrorCode, MAX_FILE_BYTES};

use crate::{Error, Result};

/// One contiguous piece of a transfer, as `thalweg_piece`: bytes [offset, offset + bytes) of the file, at `memory`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    offset: u64,
    memory: *mut u8,
    bytes: u64,
}

// SAFETY: the maker of a piece guarantees that its memory may be used from any thread until the operation is done.
unsafe impl Send for Piece {}
// SAFETY: see above.
unsafe impl Sync for Piece {}

impl Piece {
    /// # Safety
    /// `memory` must be valid for `bytes` bytes, for reading when written from and for writing when read into, and
    /// not be touched otherwise, until the operation the piece is given to is done.
    pub unsafe fn new(offset: u64, memory: *mut u8, bytes: u64) -> Self {
        Piece { offset, memory, bytes }
    }

    /// Returns a piece of the file that has no place in memory, and is neither filled nor copied from.
    pub(super) fn without_memory(range: Range<u64>) -> Self {
        Piece { offset: range.start, memory: std::ptr::null_mut(), bytes: range.end - range.start }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the file offset where the piece ends.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns how many of its first bytes lie within a file of `size` bytes.
    pub fn bytes_within(&self, size: u64) -> u64 {
        size.saturating_sub(self.offset).min(self.bytes)
    }

    /// Returns the piece's bytes, to copy from.
    pub fn source(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the maker of the piece.
        unsafe { std::slice::from_raw_parts(self.memory, self.bytes as usize) }
    }

    /// Fills the piece from the start of `bytes`; returns the rest of them, and adds what they do not reach to
    /// `unfilled`.
    pub fn fill<'a>(&self, bytes: &'a [u8], unfilled: &mut Vec<Piece>) -> &'a [u8] {
        let (mine, rest) = bytes.split_at(bytes.len().min(self.bytes as usize));
        if !mine.is_empty() {
            // SAFETY: guaranteed by the maker of the piece; received buffers do not overlap the program's.
            unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), self.memory, mine.len()) };
        }
        let filled = mine.len() as u64;
        if filled < self.bytes {
            let memory = self.memory.wrapping_add(mine.len());
            unfilled.push(Piece { offset: self.offset + filled, memory, bytes: self.bytes - filled });
        }
        rest
    }

    /// Fills the piece with zeros.
    pub fn clear(&self) {
        if self.bytes > 0 {
            // SAFETY: guaranteed by the maker of the piece.
            unsafe { std::ptr::write_bytes(self.memory, 0, self.bytes as usize) };
        }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the part of the piece that lies in this range of the file, which must be within it.
    pub(super) fn within(&self, range: Range<u64>) -> Self {
        let memory = self.memory.wrapping_add((range.start - self.offset) as usize);
        Piece { offset: range.start, memory, bytes: range.end - range.start }
    }

    /// Returns the piece cut to at most its first `bytes`.
    pub(super) fn first(&self, bytes: u64) -> Self {
        Piece { bytes: self.bytes.min(bytes), ..*self }
    }
}

/// Refuses pieces that lie beyond any file.
pub(super) fn check(pieces: &[Piece]) -> Result<()> {
    let beyond = |piece: &&Piece| piece.offset.checked_add(piece.bytes).is_none_or(|end| end > MAX_FILE_BYTES);
    match pieces.iter().find(beyond) {
        None => Ok(()),
        Some(piece) => Err(Error::Refused(
            ErrorCode::CallRefused,
            format!(
                "a transfer of {} bytes at offset {} passes the end of the largest file",
                piece.bytes, piece.offset
            ),
        )),
    }
}

/// How far an operation has got in its pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    piece: usize,
    within: u64,
}

impl Cursor {
    /// Returns the next part: at most up to the end of a stripe.
    pub fn part(&mut self, pieces: &[Piece], stripe_bytes: u64) -> Option<Piece> {
        while pieces.get(self.piece)?.bytes == self.within {
            *self = Cursor { piece: self.piece + 1, within: 0 };
        }
        let piece = &pieces[self.piece];
        let offset = piece.offset + self.within;
        let bytes = (piece.bytes - self.within).min(stripe_bytes - offset % stripe_bytes);
        Some(Piece { offset, memory: piece.memory.wrapping_add(self.within as usize), bytes })
    }

    pub fn advance(&mut self, bytes: u64) {
        self.within += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_at_stripes_and_cover_everything() {
        let mut memory = [0u8; 64];
        let mut piece = |offset, at: usize, bytes| unsafe { Piece::new(offset, memory.as_mut_ptr().add(at), bytes) };
        let pieces = [piece(5, 0, 30), piece(7, 30, 0), piece(100, 30, 10)];
        let (mut cursor, mut parts) = (Cursor::default(), Vec::new());
        while let Some(part) = cursor.part(&pieces, 16) {
            parts.push((part.offset, part.bytes));
            cursor.advance(part.bytes);
        }
        assert_eq!(parts, [(5, 11), (16, 16), (32, 3), (100, 10)]);
    }

    #[test]
    fn pieces_beyond_the_largest_file_are_refused() {
        let piece = unsafe { Piece::new(u64::MAX - 3, std::ptr::null_mut(), 10) };
        assert!(check(&[piece]).is_err());
    }
}

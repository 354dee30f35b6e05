//! A file that is read sequentially in many small pieces, as the headers of many small parts are: larger reads go to
//! the system, and the pieces come from memory.

use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::files::File;

/// Size of one read from the system.
const AHEAD_BYTES: u64 = 64 << 10;
/// Pieces from this length on are read by themselves.
const MAX_PIECE_BYTES: usize = 16 << 10;

pub struct ReadAhead<'a> {
    file: &'a dyn File,
    length: u64,
    /// The window's offset in the file, and its bytes.
    window: Mutex<(u64, Vec<u8>)>,
}

impl<'a> ReadAhead<'a> {
    pub fn new(file: &'a dyn File, length: u64) -> Self {
        ReadAhead { file, length, window: Mutex::new((0, Vec::new())) }
    }
}

impl File for ReadAhead<'_> {
    fn path(&self) -> &str {
        self.file.path()
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(to.len() as u64);
        if to.len() >= MAX_PIECE_BYTES || end > self.length {
            return self.file.read_at(offset, to);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if offset < window.0 || end > window.0 + window.1.len() as u64 {
            *window = (offset, self.file.read(offset, AHEAD_BYTES.min(self.length - offset) as usize)?);
        }
        let at = (offset - window.0) as usize;
        to.copy_from_slice(&window.1[at..at + to.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[&[u8]]) -> Result<()> {
        self.file.write_at(offset, pieces)
    }

    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Files, Memory};

    #[test]
    fn every_piece_is_the_file_s() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let file = Memory::new().create("a").unwrap();
        file.write_at(0, &[&bytes]).unwrap();
        let ahead = ReadAhead::new(&*file, bytes.len() as u64);
        for (offset, length) in
            [(0, 96), (96, 3), (60_000, 10_000), (50, 7), (65_530, 20_000), (199_990, 10), (130_000, 5)]
        {
            assert_eq!(ahead.read(offset as u64, length).unwrap(), bytes[offset..offset + length]);
        }
        assert!(ahead.read(199_990, 11).is_err(), "beyond the end");
    }
}

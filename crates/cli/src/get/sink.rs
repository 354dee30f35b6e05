//! Pieces of a file onto the disk: small ones gathered, holes left out.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use repository::{FileReader, Piece};
use rustix::io::Errno;

use super::file::FailureSide;
use super::report::Report;

/// Gathered before they are written (bytes).
const WRITE_BYTES: usize = 256 << 10;
const ZEROS: [u8; 4096] = [0; 4096];

pub struct Sink<'a> {
    file: BorrowedFd<'a>,
    buffer: &'a mut Vec<u8>,
    sparse: bool,
    report: &'a Report<'a>,
    /// Where the buffer's first byte goes.
    offset: u64,
    /// The file ends here so far; beyond it, only holes came.
    written: u64,
}

impl<'a> Sink<'a> {
    pub fn new(file: BorrowedFd<'a>, buffer: &'a mut Vec<u8>, sparse: bool, report: &'a Report<'a>) -> Self {
        buffer.clear();
        Sink { file, buffer, sparse, report, offset: 0, written: 0 }
    }

    /// Writes a range of a file, from the start of this one on.
    pub fn fill(&mut self, reader: &FileReader, range: Range<u64>) -> Result<(), FailureSide> {
        let mut trouble = None;
        let read = reader.pieces(range, |piece| {
            let written = match self.report.interruption.has_come() {
                true => Err(FailureSide::Interrupted),
                false => self.piece(piece).map_err(FailureSide::from),
            };
            written.map_err(|error| {
                trouble = Some(error);
                repository::Error::Failed("the file could not be written".into())
            })
        });
        match trouble {
            Some(error) => return Err(error),
            None => read?,
        }
        Ok(self.end()?)
    }

    fn piece(&mut self, piece: Piece) -> Result<(), Errno> {
        match piece {
            Piece::Data(bytes) => self.data(bytes),
            Piece::Zeros(length) if self.sparse => self.hole(length),
            Piece::Zeros(length) => self.zeros(length),
            Piece::Hole(length) => self.hole(length),
        }
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn zeros(&mut self, mut length: u64) -> Result<(), Errno> {
        while length > 0 {
            let count = length.min(ZEROS.len() as u64) as usize;
            self.data(&ZEROS[..count])?;
            length -= count as u64;
        }
        Ok(())
    }

    fn hole(&mut self, length: u64) -> Result<(), Errno> {
        self.flush()?;
        self.offset += length;
        self.report.progress.add(length);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Errno> {
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            match rustix::io::pwrite(self.file, rest, self.offset) {
                Ok(count) => {
                    rest = &rest[count..];
                    self.offset += count as u64;
                    self.written = self.offset;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.report.progress.add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    fn end(&mut self) -> Result<(), Errno> {
        self.flush()?;
        if self.offset > self.written {
            rustix::fs::ftruncate(self.file, self.offset)?;
        }
        Ok(())
    }
}

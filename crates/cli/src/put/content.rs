//! A file's bytes and holes into a packer.

use std::os::fd::BorrowedFd;

use repository::Packer;
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;

use super::queue::WorkerSlot;
use super::rounding::FileRounding;
use crate::progress::Progress;
use crate::signals::Interruption;

/// Read at a time (bytes).
pub const READ_BYTES: usize = 1 << 20;

/// The side that failed.
pub enum FailureSide {
    Source(Errno),
    Store(repository::Error),
    /// The run was interrupted.
    Interrupted,
}

impl From<Errno> for FailureSide {
    fn from(error: Errno) -> Self {
        FailureSide::Source(error)
    }
}

impl From<repository::Error> for FailureSide {
    fn from(error: repository::Error) -> Self {
        FailureSide::Store(error)
    }
}

/// Hands the file over up to the size `stat` gave; returns how many bytes there were. A file whose blocks do not
/// add up to its size is asked for its holes, unless it is rounded: a hole may begin within a value.
pub fn pack<T>(
    file: BorrowedFd,
    stat: &Stat,
    packer: &mut Packer<T>,
    (buffer, rounding): (&mut [u8], Option<&mut FileRounding>),
    slot: &WorkerSlot,
    progress: &Progress,
    interruption: &Interruption,
) -> Result<u64, FailureSide> {
    let size = stat.st_size as u64;
    let is_rounded = rounding.is_some();
    let mut copy = Copy { file, packer, buffer, rounding, slot, progress, interruption };
    if is_rounded || (stat.st_blocks as u64).saturating_mul(512) >= size {
        // Some file systems give no size for files that they make up as they are read: such a file is read to its end.
        return copy.stretch(0, if size == 0 { u64::MAX } else { size });
    }
    let mut offset = 0;
    while offset < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data.min(size),
            Err(Errno::NXIO) => size,
            // No notion of holes here.
            Err(Errno::INVAL) => return copy.stretch(offset, size),
            Err(error) => return Err(error.into()),
        };
        if data > offset {
            copy.packer.hole(data - offset)?;
            progress.add(data - offset);
            offset = data;
            continue;
        }
        let end = rustix::fs::seek(file, SeekFrom::Hole(offset))?.clamp(offset + 1, size);
        let reached = copy.stretch(offset, end)?;
        if reached < end {
            return Ok(reached);
        }
        offset = end;
    }
    Ok(offset)
}

/// Fills the buffer from a place in the file; returns how many bytes there were, fewer at its end only.
pub fn fill(file: BorrowedFd, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

struct Copy<'a, 'b, T> {
    file: BorrowedFd<'a>,
    packer: &'a mut Packer<'b, T>,
    buffer: &'a mut [u8],
    rounding: Option<&'a mut FileRounding>,
    slot: &'a WorkerSlot<'a>,
    progress: &'a Progress,
    interruption: &'a Interruption,
}

impl<T> Copy<'_, '_, T> {
    /// Returns where the file or the stretch ended.
    fn stretch(&mut self, mut offset: u64, end: u64) -> Result<u64, FailureSide> {
        while offset < end {
            if self.interruption.has_come() {
                return Err(FailureSide::Interrupted);
            }
            let most = (end - offset).min(self.buffer.len() as u64) as usize;
            let count = fill(self.file, &mut self.buffer[..most], offset)?;
            if count == 0 {
                break;
            }
            if let Some(rounding) = &mut self.rounding {
                rounding.round(&mut self.buffer[..count]);
            }
            self.packer.store_beside(self.slot.is_another_idle());
            self.packer.data(&self.buffer[..count])?;
            self.progress.add(count as u64);
            offset += count as u64;
        }
        Ok(offset)
    }
}

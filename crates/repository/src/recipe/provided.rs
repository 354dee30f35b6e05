//! Dropped contents that this process has made again, in files: reading finds them there.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use format::ErrorCode;

use super::DroppedContent;
use crate::{Error, Piece, Repository, Result};

/// Read at a time (bytes).
const READ_BYTES: u64 = 1 << 20;

/// The files by what they hold.
#[derive(Default)]
pub(crate) struct LocalContent(Mutex<HashMap<DroppedContent, PathBuf>>);

impl Repository {
    /// Reads a dropped content from this file from now on, which holds all of it and stays as long as it is read.
    pub fn provide(&self, content: DroppedContent, file: PathBuf) {
        self.provided.0.lock().unwrap_or_else(PoisonError::into_inner).insert(content, file);
    }

    /// Hands over part of a dropped content, of `length` bytes in all, if it was provided.
    pub(crate) fn dropped_pieces(
        &self,
        content: DroppedContent,
        length: u64,
        range: Range<u64>,
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        let found = self.provided.0.lock().unwrap_or_else(PoisonError::into_inner).get(&content).cloned();
        match found {
            Some(path) => file_pieces(&path, length, range, take),
            None => Err(self.dropped(&content.recipe)),
        }
    }
}

fn file_pieces(
    path: &Path,
    length: u64,
    mut range: Range<u64>,
    take: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() != length {
        let why = "it has another length than the dropped file that it stands for".to_owned();
        return Err(Error::Refused { code: ErrorCode::DataDropped, path: path.display().to_string(), why });
    }
    let mut buffer = vec![0; (range.end - range.start).min(READ_BYTES) as usize];
    while range.start < range.end {
        let count = (range.end - range.start).min(READ_BYTES);
        let part = &mut buffer[..count as usize];
        file.read_exact_at(part, range.start).map_err(failed)?;
        take(Piece::Data(part))?;
        range.start += count;
    }
    Ok(())
}

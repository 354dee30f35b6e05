//! Part of a file: which bytes, and how they come onto standard output.

use std::str::FromStr;

use format::VersionRecord;
use repository::{Piece, Repository};

use crate::output::Output;

static ZEROS: [u8; 65536] = [0; 65536];

/// `OFFSET:LENGTH` in bytes; without LENGTH, to the file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    offset: u64,
    length: Option<u64>,
}

impl Range {
    pub const WHOLE: Range = Range { offset: 0, length: None };

    pub fn new(offset: u64, length: u64) -> Self {
        Range { offset, length: Some(length) }
    }

    /// Whether it begins behind the end of a file of `size` bytes.
    pub fn is_beyond(&self, size: u64) -> bool {
        self.offset > size
    }

    /// Returns the part of a file of `size` bytes that is in it.
    pub fn within(&self, size: u64) -> std::ops::Range<u64> {
        let start = self.offset.min(size);
        start..self.length.map_or(size, |length| start.saturating_add(length).min(size))
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || "OFFSET:LENGTH in bytes is needed, or OFFSET: for the rest of the file".to_owned();
        let (offset, length) = text.split_once(':').ok_or_else(refuse)?;
        let length = if length.is_empty() { None } else { Some(length.parse().map_err(|_| refuse())?) };
        Ok(Range { offset: offset.parse().map_err(|_| refuse())?, length })
    }
}

/// Writes the range to standard output; returns its length.
pub fn print(repository: &Repository, version: &VersionRecord, range: Range, output: &Output) -> anyhow::Result<u64> {
    let range = range.within(version.size);
    let length = range.end - range.start;
    let mut trouble = None;
    let read = repository.version_reader(version).pieces(range, |piece| {
        print_piece(piece, output).map_err(|error| {
            trouble = Some(error);
            repository::Error::Failed("standard output could not be written".into())
        })
    });
    match trouble {
        Some(error) => Err(error),
        None => Ok(read.map(|()| length)?),
    }
}

fn print_piece(piece: Piece, output: &Output) -> anyhow::Result<()> {
    let mut left = match piece {
        Piece::Data(bytes) => return output.content(bytes),
        Piece::Zeros(length) | Piece::Hole(length) => length,
    };
    while left > 0 {
        let count = left.min(ZEROS.len() as u64) as usize;
        output.content(&ZEROS[..count])?;
        left -= count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_files_end() {
        assert_eq!("2:3".parse::<Range>().unwrap().within(10), 2..5);
        assert_eq!("2:".parse::<Range>().unwrap().within(10), 2..10);
        assert_eq!("8:30".parse::<Range>().unwrap().within(10), 8..10);
        assert_eq!("99:1".parse::<Range>().unwrap().within(10), 10..10);
        assert_eq!(format!("1:{}", u64::MAX).parse::<Range>().unwrap().within(10), 1..10);
    }

    #[test]
    fn ranges_must_be_numbers() {
        for text in ["", "5", ":5", "a:5", "1:b", "-1:2", "1:2:3"] {
            assert!(text.parse::<Range>().is_err(), "{text:?}");
        }
    }
}

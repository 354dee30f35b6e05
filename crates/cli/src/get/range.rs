//! Part of one file, into a file or onto standard output.

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use format::{Attributes, Root};
use repository::{Piece, Repository};
use rustix::fs::{Mode, OFlags};

use super::attributes::inherits_acl;
use super::file::Draft;
use super::sink::Sink;
use super::worker::Directory;
use crate::output::Output;
use crate::progress::Progress;
use crate::shown;

const ZEROS: [u8; 65536] = [0; 65536];

/// `OFFSET:LENGTH` in bytes; without LENGTH, to the file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    offset: u64,
    length: Option<u64>,
}

impl Range {
    pub const WHOLE: Range = Range { offset: 0, length: None };

    /// What of a file of `size` bytes is in it.
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

/// Where part of a file goes.
pub enum Destination<'a> {
    File { to: &'a Path, attributes: &'a Attributes, sparse: bool },
    StandardOutput,
}

/// Writes the range; returns its length.
pub fn get_range(
    repository: &Repository,
    (root, size): (&Root, u64),
    range: Range,
    destination: Destination,
    output: &Output,
) -> anyhow::Result<u64> {
    let range = range.within(size);
    let length = range.end - range.start;
    let progress = output.progress("get");
    progress.set_total(length);
    match destination {
        Destination::StandardOutput => print(repository, root, size, range, output, &progress)?,
        Destination::File { to, attributes, sparse } => {
            let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(directory, flags, Mode::empty()).with_context(|| shown::local(directory))?;
            let inherits_acl = inherits_acl(&opened);
            let directory = Directory { opened, path: directory, inherits_acl };
            let fetched = save(repository, root, size, range, &directory, to, attributes, sparse, &progress);
            fetched.with_context(|| shown::local(to))?;
        }
    }
    progress.finish();
    Ok(length)
}

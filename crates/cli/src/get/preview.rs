//! A dry run of `get`: what each name would do in the destination. Nothing is written, and no content is read.

use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;

use catalog::FileEntry;
use format::{ErrorCode, FileKind};
use rustix::io::Errno;

use super::destination::{Destination, explained};
use super::file::{NameState, state_of};
use super::listing::Unit;
use super::range::Range;
use super::report::{Fault, Report};
use crate::error_code;

/// In the place of all workers: names come in the order of the listing.
pub struct Preview<'a> {
    pub destination: &'a Destination,
    pub report: &'a Report<'a>,
    pub range: Range,
}

impl Preview<'_> {
    pub fn run(self, units: &Mutex<Receiver<Unit>>) {
        loop {
            let unit = units.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(unit) = unit else { return };
            if !self.report.interruption.has_come() {
                self.unit(&unit);
            }
        }
    }

    fn unit(&self, unit: &Unit) {
        // One that is missing would have been made by then.
        let directory = match self.destination.directory(&unit.directory) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err((explained(error).to_string(), error_code::of_errno(error))),
        };
        for (name, entry) in &unit.files {
            let path = self.destination.path(&unit.directory).join(OsStr::from_bytes(name.to_bytes()));
            let state = directory.as_ref().map_err(Clone::clone).and_then(|opened| state(opened.as_ref(), name));
            match state {
                Ok(state) => self.count(&path, state, entry),
                Err(why) => self.report.lost(&path, why, Fault::Here),
            }
        }
    }

    fn count(&self, path: &std::path::Path, state: NameState, entry: &FileEntry) {
        let is_symlink = entry.attributes.kind == FileKind::Symlink;
        let range = self.range.within(entry.head.as_ref().map_or(0, |head| head.record.size));
        let bytes = (!is_symlink).then_some(range.end - range.start);
        self.report.list(path, state, bytes);
        self.report.count(|summary| match bytes {
            None => summary.symlinks += 1,
            Some(bytes) => {
                summary.files += 1;
                summary.bytes += bytes;
            }
        });
    }
}

fn state(directory: Option<&OwnedFd>, name: &CStr) -> Result<NameState, (String, ErrorCode)> {
    let state = directory.map_or(Ok(NameState::New), |directory| state_of(directory, name));
    state.map_err(|error| (std::io::Error::from(error).to_string(), error_code::of_errno(error)))
}

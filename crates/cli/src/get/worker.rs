//! A worker: fetches the files of one unit after the other.

use std::ffi::{CStr, OsStr};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use catalog::FileEntry;
use format::FileKind;
use repository::Repository;

use super::attributes::{LeftOut, inherits_acl};
use super::destination::{Destination, explained};
use super::file::{self, Draft, FailureSide};
use super::listing::Unit;
use super::report::{Fault, Report};
use super::sink::Sink;
use super::{Options, Range};
use crate::error_code::{self, Coded, fail};
use crate::failure::is_of_an_absent_node;
use crate::shown;

pub struct Worker<'a> {
    repository: &'a Repository,
    destination: &'a Destination,
    report: &'a Report<'a>,
    options: Options,
    /// Lent to one sink after the other.
    buffer: Vec<u8>,
}

/// Where a unit's files go.
pub struct Directory {
    pub opened: OwnedFd,
    /// For messages.
    pub path: PathBuf,
    /// New files get an ACL from it that is not theirs.
    pub inherits_acl: bool,
}

impl<'a> Worker<'a> {
    pub fn new(
        repository: &'a Repository,
        destination: &'a Destination,
        report: &'a Report<'a>,
        options: Options,
    ) -> Self {
        Worker { repository, destination, report, options, buffer: Vec::new() }
    }

    /// Works until the queue is empty and closed, or nothing more can be written.
    pub fn run(mut self, units: &Mutex<Receiver<Unit>>) {
        loop {
            let unit = units.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(unit) = unit else { return };
            // Units that come still are taken from the queue, which the listing would wait for.
            if self.report.interruption.has_come() {
                continue;
            }
            if let Err(error) = self.unit(unit) {
                return self.report.failed(error);
            }
        }
    }

    fn unit(&mut self, unit: Unit) -> anyhow::Result<()> {
        let path = self.destination.path(&unit.directory);
        let opened = match self.destination.directory(&unit.directory) {
            Ok(opened) => opened,
            Err(error) => {
                for (name, _) in &unit.files {
                    let why = (explained(error), error_code::of_errno(error));
                    self.report.lost(&path.join(OsStr::from_bytes(name.as_bytes())), why, Fault::Here);
                }
                return Ok(());
            }
        };
        if self.options.range == Range::WHOLE {
            let entries = unit.files.iter().map(|(_, entry)| entry);
            self.repository.fetch_ahead(entries, || !self.report.interruption.has_come());
        }
        let inherits_acl = inherits_acl(&opened);
        let directory = Directory { opened, path, inherits_acl };
        unit.files.iter().try_for_each(|(name, entry)| self.name(&directory, name, entry))
    }

    fn name(&mut self, directory: &Directory, name: &CStr, entry: &FileEntry) -> anyhow::Result<()> {
        if self.report.interruption.has_come() {
            return Ok(());
        }
        let path = || directory.path.join(OsStr::from_bytes(name.to_bytes()));
        let before = if self.report.is_verbose() { file::state_of(&directory.opened, name).ok() } else { None };
        let fetched = match entry.attributes.kind {
            FileKind::Symlink => self.symlink(directory, name, entry),
            _ => self.file(directory, name, entry),
        };
        match fetched {
            Ok(missing) => {
                if let Some(state) = before {
                    self.report.list(&path(), state, self.bytes(entry));
                }
                if !missing.is_empty() {
                    self.report.incomplete(&path(), missing);
                }
                Ok(())
            }
            Err(FailureSide::Interrupted) => Ok(()),
            // All others would meet the same.
            Err(FailureSide::Disk(error))
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                fail!(DiskFull: "{}: the disk is full", shown::local(&path()))
            }
            Err(FailureSide::Store(error)) if is_of_an_absent_node(&error) => {
                Err(Coded::new(error.code(), format!("{}: {error}", shown::local(&path()))).into())
            }
            Err(trouble) => {
                let fault = if let FailureSide::Disk(_) = trouble { Fault::Here } else { Fault::Store };
                let code = trouble.code();
                self.report.lost(&path(), (trouble, code), fault);
                Ok(())
            }
        }
    }

    /// Of what is fetched of a file.
    fn bytes(&self, entry: &FileEntry) -> Option<u64> {
        let range = self.options.range.within(entry.head.as_ref()?.record.size);
        Some(range.end - range.start)
    }

    fn symlink(&self, directory: &Directory, name: &CStr, entry: &FileEntry) -> Result<Vec<LeftOut>, FailureSide> {
        let missing = file::symlink(directory, name, &entry.attributes, self.options.withheld)?;
        self.report.count(|summary| summary.symlinks += 1);
        Ok(missing)
    }

    fn file(&mut self, directory: &Directory, name: &CStr, entry: &FileEntry) -> Result<Vec<LeftOut>, FailureSide> {
        let draft = Draft::new(directory)?;
        let mut size = 0;
        if let Some(head) = &entry.head {
            let range = self.options.range.within(head.record.size);
            size = range.end - range.start;
            let mut sink = Sink::new(draft.opened(), &mut self.buffer, self.options.sparse, self.report);
            sink.fill(&self.repository.version_reader(&head.record), range)?;
        }
        let missing = draft.finish(name, &entry.attributes, self.options.withheld)?;
        self.report.count(|summary| {
            summary.files += 1;
            summary.bytes += size;
        });
        Ok(missing)
    }
}

//! A worker: compares names, reads what is new, and packs it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::thread::Scope;

use catalog::FileEntry;
use format::{Attributes, Change, ErrorCode, FileKind, Rounding, StorePath, VersionRecord, is_rounded_as};
use policy::pipelining::Pipelining;
use repository::{BatchThreads, DedupMode, KnownDamage, Packed, Packer, Repository};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use segment::Rounded;
use store::ClaimOwner;

use super::content::{self, FailureSide};
use super::links::Links;
use super::observed;
use super::outcome::{Known, Outcome, Ready};
use super::queue::WorkerSlot;
use super::replacing::{Replacement, Replacing, refused};
use super::rounding::{FileRounding, not_whole};
use super::walk::{Directory, Name, Unit};
use crate::error_code;
use crate::failed_name::FailedName;
use crate::progress::Progress;
use crate::shown;
use crate::signals::Interruption;

/// How often a file that changes while it is read is read.
const ATTEMPTS: usize = 3;
/// A unit is shared with other workers when its files are not small.
const MUCH_BYTES: u64 = 1 << 20;
const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

pub struct Worker<'a> {
    packer: Packer<'a, Tag>,
    slot: WorkerSlot<'a>,
    shared: Shared<'a>,
    outcomes: SyncSender<Vec<Outcome>>,
    buffer: Vec<u8>,
    /// Of the unit under way, as are the bytes.
    found: Vec<Outcome>,
    unit_bytes: u64,
}

/// The state that all workers of a run share.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub repository: &'a Repository,
    pub again: &'a RereadReason,
    pub links: &'a Links,
    pub replacing: &'a Replacing<'a>,
    pub interruption: &'a Interruption,
    pub progress: &'a Progress,
    /// Files are opened, and not read.
    pub dry_run: bool,
    pub pipelining: Pipelining,
    pub dedup: DedupMode,
    pub rounding: Option<Rounding>,
}

/// The data that go with a file through the packer.
struct Tag {
    target: StorePath,
    attributes: Attributes,
    replaces: bool,
    is_new: bool,
    /// The file as the store has it.
    known: Option<Box<FileEntry>>,
    bytes: u64,
    rounded: Option<Rounded>,
}

/// Files that are read again although unchanged.
pub struct RereadReason {
    pub all: bool,
    /// Files whose newest version is known to be damaged.
    pub damage: Option<KnownDamage>,
}

/// The store failed, or the receiver is gone.
enum Stop {
    Failed(repository::Error),
    QueueClosed,
}

impl From<repository::Error> for Stop {
    fn from(error: repository::Error) -> Self {
        Stop::Failed(error)
    }
}

impl<'a> Worker<'a> {
    /// A second thread of it works in the scope when another worker is idle.
    pub fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        shared: Shared<'a>,
        slot: WorkerSlot<'a>,
        claim_owner: ClaimOwner,
        outcomes: SyncSender<Vec<Outcome>>,
    ) -> Self
    where
        'a: 'scope,
    {
        let buffer = vec![0; content::READ_BYTES];
        let Pipelining { batches, batch_bytes } = shared.pipelining;
        let threads = BatchThreads::start(scope, shared.repository, claim_owner, batches, batch_bytes);
        let float = shared.rounding.map(|rounding| rounding.float);
        let packer = Packer::new(shared.repository, claim_owner).with_threads(threads).with_dedup(shared.dedup);
        let packer = packer.with_rounded(float);
        Worker { packer, slot, shared, outcomes, buffer, found: Vec::new(), unit_bytes: 0 }
    }

    /// Whether a file is read although it is as it was when it was put.
    fn reads_again(&self, known: &FileEntry) -> bool {
        let Some(head) = &known.head else { return false };
        self.shared.again.all || self.is_damaged(&head.record)
    }

    fn is_damaged(&self, newest: &VersionRecord) -> bool {
        let damage = self.shared.again.damage.as_ref();
        damage.is_some_and(|damage| damage.affects(self.shared.repository, &newest.root))
    }

    /// Works until nothing more can come, or the run is over.
    pub fn run(mut self) {
        if let Err(Stop::Failed(error)) = self.work() {
            // The committing thread may be gone already.
            let _ = self.outcomes.send(vec![Outcome::Failed(error.into())]);
        }
    }

    fn work(&mut self) -> Result<(), Stop> {
        while let Some(unit) = self.slot.take() {
            self.unit(unit)?;
            self.hand_over()?;
        }
        self.packer.flush()?;
        self.hand_over()
    }

    /// Gives the rest back when much was read so far, for another core to take up.
    fn unit(&mut self, unit: Unit) -> Result<(), Stop> {
        let Unit { directory, names } = unit;
        let mut names = names.into_iter();
        self.unit_bytes = 0;
        while let Some(name) = names.next() {
            if self.shared.interruption.has_come() {
                return Ok(());
            }
            self.name(&directory, name)?;
            if self.unit_bytes >= MUCH_BYTES && names.len() > 0 {
                self.slot.give_back(Unit { directory, names: names.collect() });
                return Ok(());
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), Stop> {
        for packed in self.packer.take_finished() {
            self.found.push(outcome_of(packed));
        }
        if self.found.is_empty() {
            return Ok(());
        }
        self.outcomes.send(std::mem::take(&mut self.found)).map_err(|_| Stop::QueueClosed)
    }

    fn name(&mut self, directory: &Directory, name: Name) -> Result<(), Stop> {
        let path = || directory.path.join(OsStr::from_bytes(name.name.as_bytes()));
        if let Some(what) = observed::special(name.file_type) {
            self.found.push(Outcome::Skipped { path: path(), what });
            return Ok(());
        }
        match self.visit(directory, &name) {
            Ok(()) => Ok(()),
            Err(FailureSide::Source(error)) => {
                let failed = FailedName { path: path(), why: error.to_string(), code: error_code::of_errno(error) };
                self.found.push(Outcome::Left { failed, target: Some(name.target) });
                Ok(())
            }
            Err(FailureSide::Store(error)) => Err(Stop::Failed(error)),
            Err(FailureSide::Interrupted) => Ok(()),
        }
    }

    fn visit(&mut self, directory: &Directory, name: &Name) -> Result<(), FailureSide> {
        let is_symlink = name.file_type == FileType::Symlink;
        if name.known.is_none() && !is_symlink {
            return self.file(directory, name, false);
        }
        let stat = rustix::fs::statat(&directory.opened, &name.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let replaces = match replaces(&stat, name) {
            true => self.may_replace(directory, name, observed::kind(&stat))?,
            false => Some(false),
        };
        let Some(replaces) = replaces else { return Ok(()) };
        let is_same = |known: &FileEntry| {
            let rounding = self.shared.rounding.as_ref();
            let is_rounded_so = is_symlink || is_rounded_as(&known.attributes.extended, rounding);
            observed::is_as_put(&stat, known) && is_rounded_so && !self.reads_again(known)
        };
        let is_unchanged = name.known.as_ref().is_some_and(is_same);
        if self.is_another_name(directory, &stat, name, replaces, is_unchanged)? {
            return Ok(());
        }
        match &name.known {
            Some(_) if is_unchanged => {
                let bytes = if is_symlink { 0 } else { stat.st_size as u64 };
                self.shared.progress.add(bytes);
                let known = Known::of(name.known.as_ref());
                self.found.push(Outcome::Unchanged { path: name.target.clone(), bytes, read_bytes: 0, known });
                Ok(())
            }
            _ if observed::kind(&stat) == Some(FileKind::Symlink) => self.symlink(directory, name, &stat, replaces),
            _ => self.file(directory, name, replaces),
        }
    }

    /// Whether the store's entry under the name is to be removed first; none where it stays, which is printed.
    fn may_replace(
        &mut self,
        directory: &Directory,
        name: &Name,
        kind: Option<FileKind>,
    ) -> Result<Option<bool>, FailureSide> {
        let Some(known) = &name.known else { return Ok(Some(false)) };
        Ok(match self.shared.replacing.judge(&name.target, known, kind)? {
            Replacement::Append => Some(false),
            Replacement::Remove { dropped } => {
                self.drop_versions(directory, name, dropped);
                Some(true)
            }
            Replacement::Refused { what } => {
                self.leave(directory, name, refused(&what), ErrorCode::NameTaken)?;
                None
            }
        })
    }

    fn drop_versions(&mut self, directory: &Directory, name: &Name, dropped: Option<String>) {
        self.found.extend(dropped.map(|what| Outcome::Dropped { path: path(directory, name), what }));
    }

    /// Whether the file was seen under another name and becomes a link to that, unless it is one. The last name of another
    /// file with versions becomes none: it stays a file of its own.
    fn is_another_name(
        &mut self,
        directory: &Directory,
        stat: &Stat,
        name: &Name,
        replaces: bool,
        is_unchanged: bool,
    ) -> Result<bool, FailureSide> {
        let file = name.known.as_ref().filter(|_| !replaces).map(|known| known.file);
        let Some(first) = self.shared.links.seen_before(stat, &name.target, file) else { return Ok(false) };
        if first.path == name.target {
            return Ok(false);
        }
        if file.is_some() && file == first.file {
            let known = Known::SameAs(first.path);
            self.found.push(Outcome::Unchanged { path: name.target.clone(), bytes: 0, read_bytes: 0, known });
            return Ok(true);
        }
        let judged = match &name.known {
            Some(known) if !replaces => self.shared.replacing.judge(&name.target, known, None)?,
            _ => Replacement::Append,
        };
        let replaces = match judged {
            Replacement::Append => replaces,
            Replacement::Remove { dropped } => {
                self.drop_versions(directory, name, dropped);
                true
            }
            // Which of the two was seen first is chance: the new one becomes the link.
            Replacement::Refused { .. } if first.file.is_none() => {
                self.shared.links.keep(stat, &name.target, file);
                let (path, target) = (first.path, name.target.clone());
                self.found.push(Outcome::Link { path, target, replaces: true, is_new: true });
                return Ok(false);
            }
            Replacement::Refused { what } => {
                if !is_unchanged {
                    let why = format!(
                        "stored as a file of its own and not as a hard link to {}, since that would drop {what} \
                         (--replace drops them)",
                        shown::path(&first.path)
                    );
                    self.found.push(Outcome::Incomplete { path: path(directory, name), why });
                }
                return Ok(false);
            }
        };
        let (path, target, is_new) = (name.target.clone(), first.path, name.known.is_none());
        self.found.push(Outcome::Link { path, target, replaces, is_new });
        Ok(true)
    }

    fn symlink(&mut self, directory: &Directory, name: &Name, stat: &Stat, replaces: bool) -> Result<(), FailureSide> {
        let target = rustix::fs::readlinkat(&directory.opened, &name.name, Vec::new())?;
        let path = directory.path.join(OsStr::from_bytes(name.name.as_bytes()));
        let extended = self.extended(observed::extended_of_link(&path), path);
        let attributes = observed::attributes(stat, FileKind::Symlink, extended);
        let attributes = Attributes { target: target.into_bytes(), ..attributes };
        let change = Change::Make { path: name.target.clone(), attributes };
        self.found.push(Outcome::Change(Box::new(Ready::plain(change, replaces, name.known.is_none()))));
        Ok(())
    }

    fn file(&mut self, directory: &Directory, name: &Name, replaces: bool) -> Result<(), FailureSide> {
        for attempt in 1.. {
            let file = open(directory, name)?;
            let before = rustix::fs::fstat(&file)?;
            if observed::kind(&before) != Some(FileKind::Regular) {
                // Replaced since it was listed.
                let what = observed::special(FileType::from_raw_mode(before.st_mode)).unwrap_or("a directory by now");
                self.found.push(Outcome::Skipped { path: path(directory, name), what });
                return Ok(());
            }
            if name.known.is_none() && self.is_another_name(directory, &before, name, replaces, false)? {
                return Ok(());
            }
            if let Some(why) = self.not_whole(before.st_size as u64) {
                return self.leave(directory, name, why, ErrorCode::ErrorBound);
            }
            if self.shared.dry_run {
                let (path, bytes) = (name.target.clone(), before.st_size as u64);
                self.shared.progress.add(bytes);
                self.found.push(Outcome::Planned { path, bytes, is_new: name.known.is_none() });
                return Ok(());
            }
            if let Some(head) = name.known.as_ref().and_then(|known| known.head.as_ref())
                && attempt == 1
                && (self.shared.again.all || self.is_damaged(&head.record))
            {
                // Other damage in it, known or never read, would answer for the same content otherwise.
                self.shared.repository.record_damage(&head.record)?;
            }
            let (bytes, rounding) = self.read(&file, &before)?;
            let after = rustix::fs::fstat(&file)?;
            // Files that the file system makes up as they are read have size 0.
            let is_whole = bytes == before.st_size as u64 || before.st_size == 0;
            let is_stable = is_whole && observed::is_same(&before, &after);
            if !is_stable && attempt < ATTEMPTS {
                self.packer.abandon()?;
                continue;
            }
            if !is_stable {
                self.found.push(Outcome::Changing { path: path(directory, name) });
            }
            if let Some(why) = self.not_whole(bytes) {
                self.packer.abandon()?;
                return self.leave(directory, name, why, ErrorCode::ErrorBound);
            }
            return self.end(directory, name, (&file, &before), (bytes, rounding), replaces);
        }
        unreachable!("the last attempt returns")
    }

    fn not_whole(&self, bytes: u64) -> Option<String> {
        self.shared.rounding.and_then(|request| not_whole(&request, bytes))
    }

    fn leave(&mut self, directory: &Directory, name: &Name, why: String, code: ErrorCode) -> Result<(), FailureSide> {
        let failed = FailedName { path: path(directory, name), why, code };
        self.found.push(Outcome::Left { failed, target: Some(name.target.clone()) });
        Ok(())
    }

    /// Begins a file in the packer and gives it all bytes, rounded where that is asked for; nothing is left of it there on
    /// failure.
    fn read(&mut self, file: &OwnedFd, stat: &Stat) -> Result<(u64, Option<FileRounding>), FailureSide> {
        let Shared { progress, interruption, rounding, .. } = self.shared;
        let begin = |request| FileRounding::of_file(request, file.as_fd(), stat.st_size as u64, &mut self.buffer);
        let mut rounding = rounding.map(begin).transpose()?;
        self.packer.begin();
        let (packer, buffer, slot) = (&mut self.packer, &mut self.buffer, &self.slot);
        let through = (&mut buffer[..], rounding.as_mut());
        let read = content::pack(file.as_fd(), stat, packer, through, slot, progress, interruption);
        match &read {
            Ok(bytes) => self.unit_bytes += bytes,
            Err(FailureSide::Source(_) | FailureSide::Interrupted) => self.packer.abandon()?,
            Err(FailureSide::Store(_)) => {}
        }
        Ok((read?, rounding))
    }

    fn end(
        &mut self,
        directory: &Directory,
        name: &Name,
        (file, stat): (&OwnedFd, &Stat),
        (bytes, rounding): (u64, Option<FileRounding>),
        replaces: bool,
    ) -> Result<(), FailureSide> {
        let mut extended = self.extended(observed::extended_of(file), path(directory, name));
        if let Some(rounding) = &rounding {
            rounding.note_in(&mut extended);
        }
        let tag = Tag {
            target: name.target.clone(),
            attributes: observed::attributes(stat, FileKind::Regular, extended),
            replaces,
            is_new: name.known.is_none(),
            known: name.known.clone().map(Box::new),
            bytes,
            rounded: rounding.map(|rounding| rounding.met),
        };
        Ok(self.packer.end(tag)?)
    }

    /// A file is worth keeping without its extended attributes.
    fn extended(
        &mut self,
        found: rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>>,
        path: PathBuf,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        found.unwrap_or_else(|error| {
            let why = format!("stored without extended attributes: {error}");
            self.found.push(Outcome::Incomplete { path, why });
            Vec::new()
        })
    }
}

fn path(directory: &Directory, name: &Name) -> PathBuf {
    directory.path.join(OsStr::from_bytes(name.name.as_bytes()))
}

/// Reading should leave no trace in access times; only the owner may ask for that.
fn open(directory: &Directory, name: &Name) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat(&directory.opened, &name.name, OPEN_FILE | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(&directory.opened, &name.name, OPEN_FILE, Mode::empty()),
        opened => opened,
    }
}

/// Whether the store's entry under the name must go before it gets this file: it is of another kind, or it is another
/// file that shares its content with other names there.
fn replaces(stat: &Stat, name: &Name) -> bool {
    name.known.as_ref().is_some_and(|known| {
        let is_other_kind = observed::kind(stat) != Some(known.attributes.kind);
        is_other_kind || (known.links > 1 && known.attributes.inode != stat.st_ino)
    })
}

/// Makes the outcome of a file whose content is stored, as a change if there is one. With unchanged content a version
/// is made all the same when the file looks different: the one before keeps its attributes. Marks of a mere touch make
/// none.
fn outcome_of(packed: Packed<Tag>) -> Outcome {
    let Packed { tag, built, content } = packed;
    let Tag { target, attributes, replaces, is_new, known, bytes, rounded } = tag;
    let is_same = |known: &FileEntry| {
        known.head.as_ref().is_some_and(|head| head.record.root == built.root && head.record.size == built.length)
    };
    let known = known.filter(|known| !replaces && is_same(known));
    if let Some(known) = known.as_ref().filter(|known| known.attributes == attributes) {
        let known = Known::of(Some(known));
        return Outcome::Unchanged { path: target, bytes, read_bytes: bytes, known };
    }
    if known.as_ref().is_some_and(|known| observed::look_alike(&known.attributes, &attributes)) {
        let change = Change::Attributes { path: target, attributes };
        let ready = Ready { change, replaces, is_new, known, references: BTreeSet::new(), bytes, rounded };
        return Outcome::Change(Box::new(ready));
    }
    let version = VersionRecord { root: built.root, size: built.length, content };
    let change = Change::Write { path: target, attributes, version, base: None };
    Outcome::Change(Box::new(Ready { change, replaces, is_new, known, references: built.references, bytes, rounded }))
}

//! A file as a program uses it: the verbs of `thalweg.h`.
//!
//! Operations on one file take effect in the order they were started: as long as one waits, later ones queue behind it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
#[cfg(test)]
use std::time::Duration;

use format::{ErrorCode, HandleKey, MAX_FILE_BYTES, Mode, StorePath};

use super::closing::{DetachOrder, Others, may_leave};
use super::failed_files::FailedFile;
use super::oneshot::{Done, OneShot};
use super::operation::{Kind, Operation, Started, Unfinished};
use super::piece::{self, Cursor, Piece};
use super::process::Process;
use super::read_ahead::ReadAhead;
use super::session::Session;
use super::settings::Acknowledge;
use super::shared_pointer::{PointerStart, SharedPointer};
use super::stream::HeldLock;
use super::ticket::Ticket;
use super::{READ, WRITE};
use crate::message::{Reply, Request};
use crate::{Error, Result};

/// A process's handle of a session.
pub struct File(Arc<Handle>);

pub(super) struct Handle {
    name: String,
    flags: u32,
    /// The ticket's key: files of one process that share a session have one each.
    key: HandleKey,
    process: Arc<Process>,
    session: Arc<Session>,
    read_ahead: Arc<ReadAhead>,
    /// Operations that are not copied or sent yet.
    started: Mutex<VecDeque<Arc<Started>>>,
    unfinished: Arc<Unfinished>,
    held_lock: Mutex<Option<HeldLock>>,
    shared_pointer: SharedPointer,
    /// Why bytes possibly written are in no version, while they are not; empty when no reason is known here.
    uncommitted: Mutex<Option<String>>,
    path: StorePath,
    nodes: Vec<String>,
}

impl File {
    pub(super) fn attach(process: &Arc<Process>, ticket: &Ticket, flags: u32) -> Result<Self> {
        let session = process.join(ticket)?;
        let read_ahead = ReadAhead::new(&session);
        if flags & READ != 0 {
            session.add_reader(&read_ahead);
        }
        Ok(File(Arc::new(Handle {
            name: String::from_utf8_lossy(&ticket.name).into_owned(),
            flags,
            key: ticket.key,
            process: process.clone(),
            session,
            read_ahead,
            started: Mutex::default(),
            unfinished: Arc::default(),
            held_lock: Mutex::default(),
            shared_pointer: SharedPointer::default(),
            uncommitted: Mutex::new((flags & WRITE != 0).then(String::new)),
            path: ticket.session.path.clone(),
            nodes: ticket.session.nodes.clone(),
        })))
    }

    /// Writes the pieces, in order. Returns when they are copied, or, when the file is also open for reading, when
    /// the nodes hold them; blocks while the window is full.
    pub fn write(&self, pieces: &[Piece]) -> Result<()> {
        self.0.check(WRITE, pieces)?;
        if !self.0.started().is_empty() {
            return self.start_write(pieces)?.wait().map(drop);
        }
        let mut cursor = Cursor::default();
        while !self.0.session.copy(pieces, &mut cursor)? {
            self.0.process.make_room();
        }
        if self.0.flags & READ != 0 { self.0.session.flush() } else { Ok(()) }
    }

    /// Reads the pieces, in order; returns how many of their first bytes the file has.
    pub fn read(&self, pieces: &[Piece]) -> Result<u64> {
        self.start_read(pieces)?.wait()
    }

    /// As [`File::write`], without waiting; the pieces' memory must stay until the operation is done.
    pub fn start_write(&self, pieces: &[Piece]) -> Result<Operation> {
        self.0.check(WRITE, pieces)?;
        let through = self.0.flags & READ != 0;
        self.start(if through { Kind::WriteThrough } else { Kind::Write }, pieces)
    }

    /// As [`File::read`], without waiting.
    pub fn start_read(&self, pieces: &[Piece]) -> Result<Operation> {
        self.0.check(READ, pieces)?;
        self.start(Kind::Read, pieces)
    }

    fn start(&self, kind: Kind, pieces: &[Piece]) -> Result<Operation> {
        let started = Started::new(&self.0.session, &self.0.read_ahead, &self.0.unfinished, kind, pieces);
        self.0.started().push_back(started.clone());
        self.0.advance();
        Ok(Operation(started))
    }

    /// Says whether anything may be asked for ahead of this handle's reads. Where it may not, they see what the nodes have
    /// from now on.
    pub fn allow_read_ahead(&self, is_allowed: bool) {
        self.0.read_ahead.allow(is_allowed);
    }

    /// Sets the mode in which the file's blocks are encoded from now on; none: as the store's settings say, and as the nodes
    /// were asked before.
    pub fn encode_by(&self, mode: Option<Mode>) {
        self.0.session.encode_by(mode);
    }

    #[cfg(test)]
    pub(super) fn assume_round_trip(&self, round_trip: Duration) {
        self.0.read_ahead.assume_round_trip(round_trip);
    }

    /// Waits until the nodes hold everything this process wrote to the file.
    pub fn flush(&self) -> Result<()> {
        self.0.unfinished.wait_for_none();
        self.0.session.flush()
    }

    /// Checkpoints everything written; returns the number of the epoch that begins.
    pub fn checkpoint(&self) -> Result<u64> {
        self.flush()?;
        wait_for(|done| self.0.session.checkpoint_then(done))
    }

    /// Releases what was written in epochs before `epoch`, which is durable. Reads through this handle see what others
    /// wrote in them.
    pub fn set_epoch(&self, epoch: u64) -> Result<()> {
        self.0.read_ahead.renew();
        self.0.session.set_epoch(epoch, self.0.process.is_only_handle(self.0.session.id))
    }

    /// Makes the session's writes a version. With acknowledgement at `received` it goes on in the background, and
    /// [`super::Client::finalize`] reports its failure.
    pub fn commit(&self) -> Result<()> {
        self.flush().inspect_err(|error| self.0.note_commit(Some(error)))?;
        let handle = self.0.clone();
        if handle.process.settings.acknowledge == Acknowledge::Durable {
            let committed = wait_for(|done| handle.session.commit_then(handle.key, done));
            handle.note_commit(committed.as_ref().err());
            return committed;
        }
        handle.process.background.begin();
        handle.session.committing();
        self.0.session.commit_then(
            self.0.key,
            Box::new(move |result| {
                handle.note_commit(result.as_ref().err());
                handle.session.committed();
                handle.process.background.end(result.map_err(|error| handle.named(error)));
            }),
        );
        Ok(())
    }

    /// Returns the file's size (bytes), including what this process wrote.
    pub fn size(&self) -> Result<u64> {
        self.flush()?;
        wait_for(|done| self.0.session.size_then(done))
    }

    /// Truncates or extends the file.
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        self.0.check(WRITE, &[])?;
        if bytes > MAX_FILE_BYTES {
            let why = format!("{}: a file of {bytes} bytes is above the limit of {MAX_FILE_BYTES}", self.0.name);
            return Err(Error::Refused(ErrorCode::CallRefused, why));
        }
        self.flush()?;
        let set = wait_for(|done| self.0.session.set_size_then(bytes, done));
        self.0.session.renew_readers();
        set
    }

    /// Blocks until this process holds the file's lock. Reads through this handle see what was written under it before.
    pub fn lock(&self) -> Result<()> {
        let home = self.0.session.home();
        let held = wait_for(|done: Done<HeldLock>| {
            let (queue, streams) = (home.clone(), self.0.process.streams.clone());
            let request = Request::Lock { session: self.0.session.id };
            home.ask(request, Box::new(move |answer| done(answer.map(|_| streams.hold_lock(queue.attachments())))));
        })?;
        *self.0.held_lock.lock().expect("noting the lock does not panic") = Some(held);
        self.0.read_ahead.renew();
        Ok(())
    }

    /// Releases the lock; fails when it was lost with its connection meanwhile.
    pub fn unlock(&self) -> Result<()> {
        let home = self.0.session.home();
        let held = self.0.held_lock.lock().expect("noting the lock does not panic").take();
        let Some(held) = held else {
            return Err(Error::Refused(ErrorCode::CallRefused, format!("{}: the lock is not held", self.0.name)));
        };
        if held.over != home.attachments() {
            return Err(Error::Unavailable {
                peer: self.0.name.clone(),
                why: "the connection that held the file's lock broke; another process may have had it meanwhile".into(),
            });
        }
        let request = Request::Unlock { session: self.0.session.id };
        wait_for(|done: Done<Reply>| home.ask(request, Box::new(move |answer| done(answer.map(|answer| answer.reply)))))
            .map(drop)
    }

    /// Moves the shared file pointer of all processes that attached to the ticket; returns where it stood before.
    pub fn move_pointer(&self, start: &PointerStart, by: u64) -> Result<u64> {
        self.0.session.status.check()?;
        self.0.shared_pointer.advance(&self.0.session, self.0.key, start, by)
    }

    /// Releases the file, after started operations and once the nodes have made durable what is kept. `last_of`: of
    /// this many processes that attached all others have detached, and the ticket's handle leaves the session; 0 for
    /// the others. The nodes' answers are not awaited where no data depends on them; [`super::Client::finalize`] does.
    pub fn detach(self, last_of: u32) -> Result<()> {
        let flushed = self.flush();
        let handle = self.0;
        handle.read_ahead.allow(false);
        let is_settled = flushed.is_ok() && last_of > 0 && handle.is_settled();
        if handle.process.settings.acknowledge == Acknowledge::Durable && !is_settled {
            let ended: Arc<OneShot<Result<()>>> = OneShot::new();
            handle.close_then(last_of, ended.sender());
            return flushed.and(ended.wait());
        }
        handle.process.background.begin();
        let named = handle.clone();
        let end = move |closed: Result<()>| {
            // A node that does not answer any more costs the settled file nothing.
            let result = if is_settled { Ok(()) } else { closed.map_err(|error| named.named(error)) };
            named.process.background.end(result);
        };
        handle.close_then(last_of, Box::new(end));
        flushed
    }
}

impl Handle {
    /// Continues started operations, in order, as far as there is room.
    pub fn advance(self: &Arc<Self>) {
        let mut started = self.started();
        while let Some(next) = started.front() {
            if !next.advance() {
                // Room made between the first try and the note that more is wanted would go unnoticed.
                self.process.window.stall();
                if !next.advance() {
                    drop(started);
                    return self.process.stall(self);
                }
            }
            started.pop_front();
        }
    }

    /// Returns whether everything written through this handle is durable and in a version.
    fn is_settled(&self) -> bool {
        let is_committed = self.uncommitted.lock().expect("noting a failure does not panic").is_none();
        is_committed && self.session.is_settled()
    }

    fn close_then(self: &Arc<Self>, last_of: u32, done: Done<()>) {
        let handle = self.clone();
        let leave: Done<Others> = Box::new(move |closed| {
            if last_of == 0 {
                return done(closed.map(drop));
            }
            if !may_leave(&closed) {
                return handle.report_uncommitted_then(closed.map(drop), done);
            }
            let left = handle.clone();
            let leave = move |leaving| left.report_uncommitted_then(closed.and(leaving), done);
            handle.session.leave_then(handle.key, Box::new(leave));
        });
        if self.process.part(self.session.id) {
            self.session.close_then(self.key, self.order(last_of), leave);
        } else {
            self.session.after_commit(Box::new(move || leave(Ok(Others::Gone))));
        }
    }

    fn note_commit(&self, failure: Option<&Error>) {
        *self.uncommitted.lock().expect("noting a failure does not panic") = failure.map(Error::to_string);
        if failure.is_none() {
            self.process.failed_files.forget(&self.path);
        }
    }

    /// Sends the nodes the last process's report where its job's writes are in no version.
    fn report_uncommitted_then(&self, closed: Result<()>, done: Done<()>) {
        let uncommitted = self.uncommitted.lock().expect("noting a failure does not panic").take();
        let Some(mut why) = uncommitted else { return done(closed) };
        if why.is_empty() {
            let failure = self.session.status.failure().or(closed.as_ref().err().cloned());
            why = failure.map_or("another process of the job could not write it".into(), |error| error.to_string());
        }
        let failed = FailedFile { nodes: self.nodes.clone(), path: self.path.clone(), why };
        let is_away = matches!(closed, Err(Error::Unavailable { .. }));
        self.process.report_failed_then(failed, is_away, Box::new(move || done(closed)));
    }

    fn order(&self, last_of: u32) -> DetachOrder {
        match (last_of, self.process.settings.acknowledge) {
            (0, _) => DetachOrder::Early,
            (_, Acknowledge::Durable) => DetachOrder::Last,
            (processes, Acknowledge::Received) => DetachOrder::Together { processes },
        }
    }

    fn check(&self, flag: u32, pieces: &[Piece]) -> Result<()> {
        piece::check(pieces)?;
        if self.flags & flag == 0 {
            let wanted = if flag == READ { "reading" } else { "writing" };
            return Err(Error::Refused(
                ErrorCode::CallRefused,
                format!("{}: the file is not open for {wanted}", self.name),
            ));
        }
        self.session.status.check()
    }

    /// Adds the file's name to an error that is reported later than it occurred.
    fn named(&self, error: Error) -> Error {
        let about = |text: &str| format!("{}: {text}", self.name);
        match error {
            Error::Failed(mut failure) => {
                failure.text = about(&failure.text);
                Error::Failed(failure)
            }
            Error::Unavailable { peer, why } => Error::Unavailable { peer, why: about(&why) },
            other => other,
        }
    }

    fn started(&self) -> MutexGuard<'_, VecDeque<Arc<Started>>> {
        self.started.lock().expect("nothing panics while it holds the started operations")
    }
}

/// Waits for something that calls back.
fn wait_for<T: Send + 'static>(begin: impl FnOnce(Done<T>)) -> Result<T> {
    let outcome = OneShot::new();
    begin(outcome.sender());
    outcome.wait()
}

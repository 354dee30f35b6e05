//! Operations that were started: writes still to be copied, reads still to be answered.
//!
//! An operation holds addresses of the program's memory until it is done; the program must keep it valid that long.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::oneshot::{Answer, Completion};
use super::piece::{Cursor, Piece};
use super::session::Session;
use super::window::FRAME_BYTES;
use crate::message::{Extent, Reply, Request};
use crate::{Error, Result};

/// Extents asked for with one read request at most.
const MAX_EXTENTS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Done when copied.
    Write,
    /// Done when the nodes hold it.
    WriteThrough,
    Read,
}

/// A read or write that proceeds while the program does something else.
pub struct Operation(pub(super) Arc<Started>);

impl Operation {
    /// Returns whether [`Operation::wait`] would return at once.
    pub fn is_done(&self) -> bool {
        let state = self.0.state();
        let received =
            || self.0.session.queues().iter().zip(&state.marks).all(|(queue, mark)| queue.has_received(*mark));
        state.outcome.is_some() && (self.0.session.status.failure().is_some() || received())
    }

    /// Waits until it is done. Returns the bytes read or written.
    pub fn wait(&self) -> Result<u64> {
        self.0.wait()
    }
}

/// Counts the operations of a file that are not done.
#[derive(Default)]
pub(super) struct Unfinished {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Unfinished {
    pub fn wait_for_none(&self) {
        let count = self.count.lock().expect("counting does not panic");
        drop(self.ended.wait_while(count, |count| *count > 0).expect("counting does not panic"));
    }

    fn begin(&self) {
        *self.count.lock().expect("counting does not panic") += 1;
    }

    fn end(&self) {
        *self.count.lock().expect("counting does not panic") -= 1;
        self.ended.notify_all();
    }
}

pub(super) struct Started {
    unfinished: Arc<Unfinished>,
    session: Arc<Session>,
    pieces: Vec<Piece>,
    kind: Kind,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cursor: Cursor,
    outcome: Option<Result<u64>>,
    /// By send queue: the sequence up to which a write-through must be received.
    marks: Vec<u64>,
    unanswered: usize,
    failure: Option<Error>,
    /// The largest size that a node reported with its answer (bytes).
    size: u64,
    /// Parts that nodes left out because they lie beyond the end of the file as the nodes know it.
    left_out: Vec<Piece>,
}

/// One read request: what is asked of a send queue, and where the answer goes.
#[derive(Default)]
struct Part {
    extents: Vec<Extent>,
    targets: Vec<Piece>,
    bytes: u64,
}

impl Started {
    pub fn new(session: &Arc<Session>, unfinished: &Arc<Unfinished>, kind: Kind, pieces: &[Piece]) -> Arc<Self> {
        unfinished.begin();
        Arc::new(Started {
            unfinished: unfinished.clone(),
            session: session.clone(),
            pieces: pieces.to_vec(),
            kind,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Continues as far as possible without waiting; false when a write found the window full.
    pub fn advance(self: &Arc<Self>) -> bool {
        if self.kind == Kind::Read {
            self.ask();
            return true;
        }
        let mut cursor = self.state().cursor;
        let copied = self.session.copy(&self.pieces, &mut cursor);
        self.state().cursor = cursor;
        match copied {
            Ok(false) => return false,
            Ok(true) => self.copied(),
            Err(error) => self.end(Err(error)),
        }
        true
    }

    pub fn wait(&self) -> Result<u64> {
        let state = self.changed.wait_while(self.state(), |state| state.outcome.is_none());
        let state = state.expect("nothing panics while it holds an operation");
        let (outcome, marks) = (state.outcome.clone().expect("waited for"), state.marks.clone());
        drop(state);
        for (queue, mark) in self.session.queues().iter().zip(marks) {
            queue.wait_received(mark)?;
        }
        outcome
    }

    fn copied(&self) {
        if self.kind == Kind::WriteThrough {
            self.session.seal();
            self.state().marks = self.session.queues().iter().map(|queue| queue.last_sequence()).collect();
        }
        self.end(Ok(self.total_bytes()));
    }

    /// Sends the read requests; this process's earlier writes go ahead of them on the same streams.
    fn ask(self: &Arc<Self>) {
        self.session.seal();
        let parts = self.parts();
        if parts.is_empty() {
            return self.end(Ok(0));
        }
        self.state().unanswered = parts.len();
        for (queue, part) in parts {
            let queue = &self.session.queues()[queue];
            let request =
                Request::Read { session: self.session.id, stripe_set: queue.stripe_set, extents: part.extents };
            let (started, targets, bytes) = (self.clone(), part.targets, part.bytes);
            let completion: Completion = Box::new(move |answer| started.answered(&targets, bytes, answer));
            queue.ask(request, completion);
        }
    }

    /// Splits the pieces into requests of at most a frame's length, each to one send queue.
    fn parts(&self) -> Vec<(usize, Part)> {
        let mut open: Vec<Part> = Vec::new();
        open.resize_with(self.session.queues().len(), Part::default);
        let (mut cursor, mut parts) = (Cursor::default(), Vec::new());
        while let Some(stretch) = cursor.part(&self.pieces, self.session.routes.stripe_bytes) {
            let queue = self.session.routes.read(stretch.offset());
            let part = &mut open[queue];
            let target = stretch.first(FRAME_BYTES as u64 - part.bytes);
            part.extents.push(Extent { offset: target.offset(), bytes: target.bytes() });
            part.targets.push(target);
            part.bytes += target.bytes();
            cursor.advance(target.bytes());
            if part.bytes == FRAME_BYTES as u64 || part.extents.len() == MAX_EXTENTS {
                parts.push((queue, std::mem::take(part)));
            }
        }
        parts.extend(open.into_iter().enumerate().filter(|(_, part)| part.bytes > 0));
        parts
    }

    fn answered(self: &Arc<Self>, targets: &[Piece], bytes: u64, answer: Result<Answer>) {
        let mut left_out = Vec::new();
        let extents = targets.iter().map(|target| Extent { offset: target.offset(), bytes: target.bytes() });
        // Only what lies behind the end may be left out.
        let least = |size| Extent::bytes_until(extents, size);
        let read = answer.and_then(|answer| match answer.reply {
            Reply::Bytes { size } if (least(size)..=bytes).contains(&(answer.payload.len() as u64)) => {
                targets.iter().fold(&answer.payload[..], |rest, target| target.fill(rest, &mut left_out));
                Ok(size)
            }
            other => {
                let why = format!("message {:#x} with {} bytes, {bytes} asked for", other.kind(), answer.payload.len());
                let source = format::Error::Corrupt { what: "answer to a read", why };
                Err(Error::Protocol { peer: "the node".into(), source })
            }
        });
        let mut state = self.state();
        state.left_out.append(&mut left_out);
        match read {
            Ok(size) => state.size = state.size.max(size),
            Err(error) => drop(state.failure.get_or_insert(error)),
        }
        state.unanswered -= 1;
        if state.unanswered > 0 {
            return;
        }
        let (failure, size) = (state.failure.take(), state.size);
        drop(state);
        match failure {
            Some(error) => self.end(Err(error)),
            None => self.end_within(size),
        }
    }

    /// Ends the read once all bytes have arrived; how many of them the file has is known when the size is.
    fn end_within(self: &Arc<Self>, size: u64) {
        let end = self.pieces.iter().filter(|piece| piece.bytes() > 0).map(Piece::end).max().unwrap_or(0);
        if end <= size {
            self.clear_left_out(end);
            return self.end(Ok(self.total_bytes()));
        }
        // The nodes asked know of a shorter file; another one may know of a longer.
        let started = self.clone();
        self.session.size_then(Box::new(move |largest| {
            let size = largest.map(|largest| largest.max(size));
            let _ = size.as_ref().map(|size| started.clear_left_out(*size));
            started.end(size.map(|size| bytes_within(&started.pieces, size)));
        }));
    }

    /// Zeroes what one node left out and another node's longer file covers: it is a hole.
    fn clear_left_out(&self, size: u64) {
        let left_out = std::mem::take(&mut self.state().left_out);
        left_out.iter().for_each(|piece| piece.first(piece.bytes_within(size)).clear());
    }

    fn total_bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    fn end(&self, outcome: Result<u64>) {
        self.state().outcome = Some(outcome);
        self.changed.notify_all();
        self.unfinished.end();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds an operation")
    }
}

/// Returns how many of the first bytes of the pieces, taken together, lie within a file of `size` bytes.
fn bytes_within(pieces: &[Piece], size: u64) -> u64 {
    let mut got = 0;
    for piece in pieces {
        let there = piece.bytes_within(size);
        got += there;
        if there < piece.bytes() {
            break;
        }
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_ends_within_the_first_piece_that_passes_its_end() {
        let piece = |offset, bytes| unsafe { Piece::new(offset, std::ptr::null_mut(), bytes) };
        let pieces = [piece(0, 10), piece(90, 20), piece(0, 10)];
        assert_eq!(bytes_within(&pieces, 1000), 40);
        assert_eq!(bytes_within(&pieces, 100), 20);
        assert_eq!(bytes_within(&pieces, 5), 5);
        assert_eq!(bytes_within(&pieces, 0), 0);
    }
}

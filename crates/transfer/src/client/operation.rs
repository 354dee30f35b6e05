//! Operations that were started: writes still to be copied, reads still to be answered.
//!
//! An operation holds addresses of the program's memory until it is done; the program must keep it valid that long.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::oneshot::Answer;
use super::piece::{Cursor, Piece};
use super::read_ahead::{ReadAhead, ReadSources};
use super::read_ahead_ranges::ReadAheadPiece;
use super::read_parts::Part;
use super::session::Session;
use crate::{Error, Result};

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
    read_ahead: Arc<ReadAhead>,
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

impl Started {
    pub fn new(
        session: &Arc<Session>,
        read_ahead: &Arc<ReadAhead>,
        unfinished: &Arc<Unfinished>,
        kind: Kind,
        pieces: &[Piece],
    ) -> Arc<Self> {
        unfinished.begin();
        Arc::new(Started {
            unfinished: unfinished.clone(),
            session: session.clone(),
            read_ahead: read_ahead.clone(),
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

    /// Takes what was asked for ahead, and sends the read requests; this process's earlier writes go ahead of them on the
    /// same streams.
    fn ask(self: &Arc<Self>) {
        let ReadSources { taken, missing, ahead } = self.read_ahead.read(&self.pieces);
        self.session.seal();
        if missing.is_empty() && taken.is_empty() {
            return self.end(Ok(0));
        }
        self.state().unanswered = missing.len() + taken.len();
        self.send(missing);
        taken.into_iter().for_each(|taken| self.take(taken));
        self.read_ahead.send(ahead);
    }

    fn send(self: &Arc<Self>, parts: Vec<Part>) {
        for part in parts {
            let (queue, request) = (&self.session.queues()[part.queue], part.request(&self.session.routes));
            let started = self.clone();
            queue.ask(request, Box::new(move |answer| started.answered(&part, answer)));
        }
    }

    fn take(self: &Arc<Self>, taken: ReadAheadPiece) {
        let (started, ReadAheadPiece { request, at, target }) = (self.clone(), taken);
        request.then(Box::new(move |arrived| match arrived.and_then(|arrived| arrived.of(at, &target)) {
            Some(bytes) => {
                target.fill(bytes, &mut Vec::new());
                started.part_ended(Ok(target.end()));
            }
            None => started.ask_again(target),
        }));
    }

    /// Asks for what was asked for ahead and did not come.
    fn ask_again(self: &Arc<Self>, target: Piece) {
        let parts = self.read_ahead.split(&[target]);
        self.state().unanswered += parts.len() - 1;
        self.send(parts);
    }

    fn answered(self: &Arc<Self>, part: &Part, answer: Result<Answer>) {
        let size = answer.and_then(|answer| part.check(answer)).map(|read| {
            let mut left_out = Vec::new();
            part.targets.iter().fold(&read.bytes[..], |rest, target| target.fill(rest, &mut left_out));
            self.state().left_out.append(&mut left_out);
            self.read_ahead.learn_size(read.file_bytes);
            read.file_bytes
        });
        self.part_ended(size);
    }

    /// Notes that a part of the read is there, of a file of at least `size` bytes.
    fn part_ended(self: &Arc<Self>, size: Result<u64>) {
        let mut state = self.state();
        match size {
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

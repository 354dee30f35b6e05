//! Reading ahead of a program that reads a far file piece by piece: what it is expected to read next is asked for
//! meanwhile, and kept until it does.
//!
//! MPI lets a reader see what others write when it has synchronised after them, and no sooner. So what is kept is dropped
//! at the next sync and where the file's size is set, and where this process writes, whose own writes it must see. In
//! atomic mode nothing is kept. A request that fails fails no read: its bytes are asked for again.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use policy::read_ahead::Conditions;
use policy::streams::StreamPace;

use super::oneshot::Answer;
use super::piece::Piece;
use super::read_ahead_ranges::{ReadAheadPiece, ReadAheadRanges};
use super::read_parts::{self, Part};
use super::request_ahead::RequestAhead;
use super::session::Session;
use super::stream::READS_IN_FLIGHT;
use super::window::FRAME_BYTES;
use crate::{Result, rate_limit};

/// Of one file handle.
pub(super) struct ReadAhead {
    session: Arc<Session>,
    /// Origin of the seconds that the pace is given.
    made: Instant,
    state: Mutex<State>,
}

struct State {
    is_allowed: bool,
    round_trip: Duration,
    reads: policy::read_ahead::ReadAhead,
    pace: StreamPace,
    /// The largest size that a node has reported since everything was dropped.
    file_bytes: u64,
    kept: ReadAheadRanges,
}

/// What was found of a read.
#[derive(Default)]
pub(super) struct ReadSources {
    pub taken: Vec<ReadAheadPiece>,
    /// To be asked for.
    pub missing: Vec<Part>,
    /// To be asked for behind that.
    pub ahead: Vec<(Part, Arc<RequestAhead>)>,
}

impl ReadAhead {
    pub fn new(session: &Arc<Session>) -> Arc<Self> {
        let state = State {
            is_allowed: true,
            round_trip: session.round_trip(),
            reads: Default::default(),
            pace: StreamPace::default(),
            file_bytes: 0,
            kept: ReadAheadRanges::default(),
        };
        Arc::new(ReadAhead { session: session.clone(), made: Instant::now(), state: Mutex::new(state) })
    }

    /// Notes a read, and finds what is there of it. Writes that were copied before must be sealed before anything of it
    /// is sent.
    pub fn read(&self, wanted: &[Piece]) -> ReadSources {
        let mut state = self.state();
        let ranges = if state.is_allowed && state.is_far() { ranges_of(wanted) } else { Vec::new() };
        if ranges.is_empty() {
            return ReadSources { missing: self.split_over(&state, wanted), ..ReadSources::default() };
        }
        if !state.reads.read(&ranges) {
            state.kept.clear();
        }
        let mut missing = Vec::new();
        let taken: Vec<ReadAheadPiece> = wanted.iter().flat_map(|piece| state.kept.find(piece, &mut missing)).collect();
        wanted.iter().for_each(|piece| state.kept.drop_read(piece));
        if !missing.is_empty() || taken.iter().any(|taken| !taken.request.has_arrived()) {
            state.reads.waits();
        }
        ReadSources { taken, missing: self.split_over(&state, &missing), ahead: self.plan(&mut state) }
    }

    /// Splits the pieces into requests that suit the link.
    pub fn split(&self, pieces: &[Piece]) -> Vec<Part> {
        self.split_over(&self.state(), pieces)
    }

    fn split_over(&self, state: &State, pieces: &[Piece]) -> Vec<Part> {
        read_parts::split(pieces, &self.session.routes, state.is_far())
    }

    /// Decides what to ask for ahead. It is noted, and its way chosen, while the state is held: a write that was copied
    /// before goes ahead of it over the same stream, and one that is copied later drops it.
    fn plan(&self, state: &mut State) -> Vec<(Part, Arc<RequestAhead>)> {
        let memory = &self.session.process.read_ahead_memory;
        let conditions = Conditions {
            round_trip_s: state.round_trip.as_secs_f64(),
            bytes_per_s: state.pace.bytes_per_s(),
            file_bytes: state.file_bytes,
            room_bytes: memory.room_bytes().min(self.unasked_bytes(state)),
        };
        let pieces: Vec<Piece> = state.reads.ahead(&conditions).into_iter().map(Piece::without_memory).collect();
        let mut planned = Vec::new();
        for part in self.split_over(state, &pieces) {
            let Some(charge) = memory.charge(part.bytes) else { break };
            let request = RequestAhead::new(charge);
            state.kept.insert(&part.targets, &request);
            state.pace.given(part.bytes, self.seconds());
            planned.push((part, request));
        }
        planned
    }

    /// Returns how much more may be asked for so that half of the reads that a stream has under way are for what the
    /// program does not wait for.
    fn unasked_bytes(&self, state: &State) -> u64 {
        let most = self.session.queues().len() * READS_IN_FLIGHT / 2 * FRAME_BYTES;
        (most as u64).saturating_sub(state.pace.outstanding_bytes())
    }

    pub fn send(self: &Arc<Self>, ahead: Vec<(Part, Arc<RequestAhead>)>) {
        for (part, request) in ahead {
            let (queue, message) = (&self.session.queues()[part.queue], part.request(&self.session.routes));
            let (read_ahead, is_awaited) = (self.clone(), request.is_awaited.clone());
            let completion = Box::new(move |answer| read_ahead.answered(&part, &request, answer));
            queue.ask_ahead(message, is_awaited, completion);
        }
    }

    fn answered(&self, part: &Part, request: &RequestAhead, answer: Result<Answer>) {
        let read = answer.and_then(|answer| part.check(answer)).ok();
        let mut state = self.state();
        state.pace.received(part.bytes, self.seconds());
        state.file_bytes = state.file_bytes.max(read.as_ref().map_or(0, |read| read.file_bytes));
        drop(state);
        request.arrive(read);
    }

    /// Notes the file's size as a node knows it.
    pub fn learn_size(&self, file_bytes: u64) {
        let mut state = self.state();
        state.file_bytes = state.file_bytes.max(file_bytes);
    }

    /// Drops what this process has written over.
    pub fn written(&self, pieces: &[Piece]) {
        let mut state = self.state();
        if !state.kept.is_empty() {
            pieces.iter().for_each(|piece| state.kept.drop_overlapping(piece.offset()..piece.end()));
        }
    }

    /// Drops everything: later reads see what the nodes have from now on.
    pub fn renew(&self) {
        let mut state = self.state();
        state.kept.clear();
        state.reads = Default::default();
        state.file_bytes = 0;
    }

    /// Says whether anything may be asked for ahead from now on; where it may not, everything is dropped.
    pub fn allow(&self, is_allowed: bool) {
        self.state().is_allowed = is_allowed;
        if !is_allowed {
            self.renew();
        }
    }

    #[cfg(test)]
    pub fn assume_round_trip(&self, round_trip: Duration) {
        self.state().round_trip = round_trip;
    }

    fn seconds(&self) -> f64 {
        self.made.elapsed().as_secs_f64()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds what was read ahead")
    }
}

impl State {
    /// A near node answers soon, and where a limit of the user's is what reads wait for, asking ahead gains nothing.
    fn is_far(&self) -> bool {
        self.round_trip >= store::FAR && !rate_limit::receives_slowly()
    }
}

/// Returns the ranges of the file, with neighbours joined.
fn ranges_of(pieces: &[Piece]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.bytes() > 0) {
        match ranges.last_mut() {
            Some(last) if last.end == piece.offset() => last.end = piece.end(),
            _ => ranges.push(piece.offset()..piece.end()),
        }
    }
    ranges
}

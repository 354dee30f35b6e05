//! A session in this process: its lanes, where each byte of the file goes, and what is asked of all its nodes.
//!
//! Several files of the process may be handles of one session; they share its lanes, because nodes know the bytes of
//! a process by (stream, session, seat).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use format::SessionId;

use super::fate::Fate;
use super::handover::{Answer, Done, gather};
use super::lane::{Lane, LaneOf};
use super::piece::{Cursor, Piece};
use super::process::Process;
use super::ticket::Ticket;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::{Error, Result};

/// A node is not pressed more often than this.
const PRESS_PAUSE: Duration = Duration::from_millis(50);
/// Copied between two looks at how full the window is (bytes).
const LOOK_BYTES: u64 = 1 << 20;

type Next = Box<dyn FnOnce() + Send>;

pub(super) struct Session {
    pub id: SessionId,
    pub fate: Arc<Fate>,
    /// Streams of seat 0, then of seat 1, and so on.
    pub lanes: Vec<Arc<Lane>>,
    stripe_bytes: u64,
    streams: usize,
    epoch: Arc<AtomicU64>,
    pub process: Arc<Process>,
    pressed: Mutex<Option<Instant>>,
    /// While a commit goes on in the background: what is to follow it.
    after_commit: Mutex<Option<Vec<Next>>>,
    /// This process has made a version of what the session wrote.
    is_committed: AtomicBool,
}

impl Session {
    /// Returns when all nodes have let this process attach.
    pub fn attach(process: &Arc<Process>, ticket: &Ticket) -> Result<Arc<Self>> {
        let of = LaneOf {
            session: ticket.session.id,
            key: ticket.key,
            fate: Arc::default(),
            segment_bytes: process.reduces_here().then_some(ticket.segment_bytes),
            epoch: Arc::default(),
            high_sequence: process.high_sequence.clone(),
            patience: process.settings.patience,
        };
        let mut lanes = Vec::new();
        for seat in 0..ticket.session.nodes.len() {
            let mut nodes = ticket.session.nodes.clone();
            nodes.rotate_left(seat);
            lanes.extend(
                (0..process.settings.streams)
                    .map(|index| Lane::new(&of, seat as u32, index, nodes.clone(), &process.streams)),
            );
        }
        of.fate.bind(&lanes);
        lanes.iter().for_each(Lane::begin);
        let session = Arc::new(Session {
            id: of.session,
            fate: of.fate,
            lanes,
            stripe_bytes: ticket.session.stripe_bytes,
            streams: process.settings.streams as usize,
            epoch: of.epoch,
            process: process.clone(),
            pressed: Mutex::default(),
            after_commit: Mutex::default(),
            is_committed: AtomicBool::new(false),
        });
        match session.wait_attached() {
            Ok(()) => Ok(session),
            Err(error) => {
                session.lanes.iter().for_each(Lane::end);
                Err(error)
            }
        }
    }

    fn wait_attached(&self) -> Result<()> {
        for lane in &self.lanes {
            self.epoch.fetch_max(lane.wait_attached()?, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Who carries the byte at `offset`: stripes go round the seats, and a seat's stripes round its streams.
    pub fn lane_at(&self, offset: u64) -> usize {
        let (stripe, seats) = (offset / self.stripe_bytes, self.seats() as u64);
        (stripe % seats) as usize * self.streams + (stripe / seats % self.streams as u64) as usize
    }

    pub fn seats(&self) -> usize {
        self.lanes.len() / self.streams
    }

    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    pub fn home(&self) -> &Arc<Lane> {
        &self.lanes[0]
    }

    /// Copies pieces from the cursor on; false when the window is full before the end.
    pub fn copy(&self, pieces: &[Piece], cursor: &mut Cursor) -> Result<bool> {
        let mut unlooked_bytes = 0;
        while let Some(part) = cursor.part(pieces, self.stripe_bytes) {
            let lane = &self.lanes[self.lane_at(part.offset())];
            let copied = lane.append(&self.process.window, part.offset(), part.source()) as u64;
            cursor.advance(copied);
            unlooked_bytes += copied;
            if unlooked_bytes >= LOOK_BYTES || copied < part.bytes() {
                unlooked_bytes = 0;
                self.fate.check()?;
                self.press_early();
            }
            if copied < part.bytes() {
                return Ok(false);
            }
        }
        self.fate.check()?;
        self.press_early();
        Ok(true)
    }

    /// Asking before the window is full keeps the program writing while the nodes make things durable.
    fn press_early(&self) {
        if self.process.window.is_half_full() {
            self.press_again();
        }
    }

    pub fn seal(&self) {
        self.lanes.iter().for_each(Lane::seal);
    }

    /// Presses, unless it was done a moment ago.
    pub fn press_again(&self) {
        let now = Instant::now();
        let mut pressed = self.pressed.lock().expect("noting the time does not panic");
        if pressed.is_none_or(|last| last + PRESS_PAUSE <= now) {
            *pressed = Some(now);
            drop(pressed);
            self.press();
        }
    }

    /// Asks the nodes that hold bytes of this process to make them durable.
    pub fn press(&self) {
        for (seat, lanes) in self.lanes.chunks(self.streams).enumerate() {
            if lanes.iter().any(|lane| !lane.is_empty()) {
                let fate = self.fate.clone();
                // The answer that counts is `Durable`, which a seat that has failed never sends.
                let pressed = move |answer: Result<Answer>| match answer {
                    Err(Error::Failed(failure)) if failure.kind != FailureKind::Unavailable => {
                        fate.fail(Error::Failed(failure));
                    }
                    _ => {}
                };
                lanes[0].ask(Request::Press { session: self.id, seat: seat as u32 }, Box::new(pressed));
            }
        }
    }

    /// Waits until the nodes hold everything that was copied.
    pub fn flush(&self) -> Result<()> {
        self.seal();
        self.lanes.iter().try_for_each(|lane| lane.wait_received(lane.last_sequence()))?;
        self.fate.check()
    }

    /// The end of the last byte written, or set as the size, as all lanes together know it.
    pub fn size_then(&self, done: Done<u64>) {
        let largest = |replies: Vec<Reply>| {
            let size = |reply: &Reply| if let Reply::Size { size } = reply { *size } else { 0 };
            replies.iter().map(size).max().unwrap_or(0)
        };
        let done: Done<Vec<Reply>> = Box::new(move |replies| done(replies.map(largest)));
        // Every stream is asked: what was written over it before is counted then.
        self.ask(&self.lanes, |lane| Request::Size { session: self.id, seat: lane.seat }, done);
    }

    pub fn set_size_then(&self, size: u64, done: Done<()>) {
        let request = |lane: &Lane| Request::SetSize { session: self.id, seat: lane.seat, size };
        self.ask_seats(request, Box::new(move |replies| done(replies.map(drop))));
    }

    /// Everything received becomes durable; `done` gets the new epoch.
    pub fn settle_then(&self, done: Done<u64>) {
        let epoch = self.epoch.load(Ordering::SeqCst) + 1;
        let request = |lane: &Lane| Request::Settle { session: self.id, seat: lane.seat, epoch };
        self.ask_seats(request, Box::new(move |replies| done(replies.map(|_| epoch))));
    }

    /// A new epoch has begun: everything of the ones before is durable.
    ///
    /// Fails when a node was replaced and may not have had something when it settled. With several handles of the
    /// session in this process nothing is concluded: the others' frames may be newer than the settlement.
    pub fn set_epoch(&self, epoch: u64, only_handle: bool) -> Result<()> {
        self.epoch.fetch_max(epoch, Ordering::SeqCst);
        if !only_handle {
            return Ok(());
        }
        if let Some(lane) = self.lanes.iter().find(|lane| lane.is_sending_again()) {
            let text = format!(
                "a node was replaced while the file was synchronised, and seat {} may lack bytes written before; write \
                 them again",
                lane.seat
            );
            self.fate.fail(Error::Failed(Failure::new(FailureKind::Io, text)));
            return self.fate.check();
        }
        self.lanes.iter().for_each(|lane| lane.settled(epoch));
        self.fate.look();
        Ok(())
    }

    /// Everything written becomes a version.
    pub fn commit_then(self: &Arc<Self>, done: Done<()>) {
        let session = self.clone();
        self.settle_then(Box::new(move |settled| match settled {
            Err(error) => done(Err(error)),
            Ok(_) => {
                let (request, home) = (Request::CommitPath { session: session.id }, session.home().clone());
                let committed = move |answer: Result<Answer>| {
                    session.is_committed.fetch_or(answer.is_ok(), Ordering::SeqCst);
                    done(answer.map(drop));
                };
                home.ask(request, Box::new(committed));
            }
        }));
    }

    /// Whether what was committed may lack what other processes sent again afterwards, to a node that took a dead one's place.
    pub fn may_lack_bytes(&self) -> bool {
        self.is_committed.load(Ordering::SeqCst) && self.lanes.iter().any(|lane| lane.was_replaced())
    }

    /// A commit goes on in the background from now on, until [`Session::committed`].
    pub fn committing(&self) {
        *self.after_commit.lock().expect("noting what follows does not panic") = Some(Vec::new());
    }

    pub fn committed(&self) {
        let after = self.after_commit.lock().expect("noting what follows does not panic").take();
        after.into_iter().flatten().for_each(|next| next());
    }

    /// Calls `next` now, or when the commit in the background has ended.
    pub fn after_commit(&self, next: Next) {
        let mut after = self.after_commit.lock().expect("noting what follows does not panic");
        match after.as_mut() {
            Some(waiting) => waiting.push(next),
            None => {
                drop(after);
                next();
            }
        }
    }

    pub fn ask_seats(&self, request: impl Fn(&Lane) -> Request, done: Done<Vec<Reply>>) {
        self.ask(self.lanes.iter().step_by(self.streams), request, done);
    }

    fn ask<'a>(
        &self,
        lanes: impl IntoIterator<Item = &'a Arc<Lane>>,
        request: impl Fn(&Lane) -> Request,
        done: Done<Vec<Reply>>,
    ) {
        let lanes: Vec<&Arc<Lane>> = lanes.into_iter().collect();
        let completions = gather(lanes.len(), done);
        lanes.iter().zip(completions).for_each(|(lane, completion)| lane.ask(request(lane), completion));
    }
}

//! One node's share of a path's session: takes pieces in, answers reads, and knows what is not yet durable.
//!
//! Three layers lie over the path's head, the upper hiding the lower: staged bytes, segments stored since the
//! last settle, and what the seat's checkpoints list. Arrivals are stamped, so that a piece sent again after a
//! break never covers what was written after it.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use format::{Root, SegmentEntry, SessionId};

use super::layers::{Content, Fresh, Stretch};
use super::sources::{DurableUpTo, Source, Sources};
use super::staging::{Arrived, Staging};
use crate::tree::Extents;
use crate::{Error, Repository, Result};

/// How a seat is set up.
#[derive(Clone, Debug)]
pub struct SeatOptions {
    pub session: SessionId,
    pub seat: u32,
    /// The node process's number in the catalog.
    pub holder: u64,
    /// Length of the segments, which lie at multiples of it in the file.
    pub segment_bytes: u32,
    pub stripe_bytes: u64,
    /// Seats of the session: this one's stripes are those whose number leaves `seat` modulo this.
    pub seats: u32,
}

/// When a piece came, and from whom.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub source: Source,
    pub sequence: u64,
    /// 0, or what this seat (or one before it) answered when the piece came the first time.
    pub stamp: u64,
}

/// One node's share of a session. Safe to use from many threads.
pub struct Seat {
    pub(super) options: SeatOptions,
    pub(super) repository: Arc<Repository>,
    pub(super) state: Mutex<State>,
    /// Something was reduced, or the seat failed.
    pub(super) changed: Condvar,
    /// Settles go one after the other.
    pub(super) settling: Mutex<()>,
}

pub(super) struct State {
    pub staging: Staging,
    pub fresh: Fresh,
    pub settled: Extents,
    pub sources: Sources,
    /// The head the session was based on when the seat was taken.
    pub head: Option<(Root, u64)>,
    pub size: u64,
    /// The size was set, not only grown into.
    pub resized: bool,
    /// The size changed since the last checkpoint.
    pub size_is_new: bool,
    pub epoch: u64,
    pub last_stamp: u64,
    /// Nobody had the seat before: no piece can be one that came to another.
    pub is_first: bool,
    pub next_checkpoint: u64,
    pub unsettled_bytes: u64,
    /// The epoch before the store was first asked about what is in `fresh` and no checkpoint.
    pub relied_epoch: u64,
    pub failure: Option<Failure>,
}

/// Why a seat takes nothing any more.
#[derive(Clone)]
pub(super) enum Failure {
    NoRoom(String),
    /// Another node holds it now: whoever has pieces here sends them there.
    TakenOver,
    Other(String),
}

impl Failure {
    fn of(error: &Error) -> Self {
        match error {
            Error::Catalog(catalog::Error::SeatLost { .. }) => Failure::TakenOver,
            error if error.is_full() => Failure::NoRoom(error.to_string()),
            error => Failure::Other(error.to_string()),
        }
    }
}

impl Seat {
    pub fn options(&self) -> &SeatOptions {
        &self.options
    }

    /// Takes the extents' bytes, which stand one after the other in `payload`. Returns the arrival's stamp.
    pub fn write(&self, arrival: Arrival, extents: &[(u64, u64)], payload: Vec<u8>) -> Result<u64> {
        let total: u64 = extents.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        let beyond = extents.iter().any(|(offset, bytes)| offset.checked_add(*bytes).is_none_or(|end| end > MAX_SIZE));
        if total != payload.len() as u64 || beyond {
            return Err(Error::Failed("a write whose extents do not fit its bytes was refused".into()));
        }
        let mut state = self.usable()?;
        let stamp = match state.admit(&arrival) {
            Admitted::Known(stamp) => return Ok(stamp),
            Admitted::New(stamp) => stamp,
        };
        let (source, sequence) = (arrival.source, arrival.sequence);
        let arrived = Arrived { payload: Arc::new(payload), stamp, source, sequence };
        let mut at = 0;
        for (offset, bytes) in extents {
            state.stage(&arrived, at, *offset, *bytes, arrival.stamp != 0);
            at += *bytes as usize;
        }
        state.sources.received(source, sequence, stamp);
        state.unsettled_bytes += total;
        Ok(stamp)
    }

    /// A piece announced by name: whole segments at these offsets. Its content follows with [`Seat::supplied`].
    /// Returns its stamp, and whether it is known already, content and all.
    pub fn offered(&self, arrival: Arrival, offsets: &[u64]) -> Result<(u64, bool)> {
        let fits = |offset: &u64| offset.is_multiple_of(self.options.segment_bytes as u64) && *offset < MAX_SIZE;
        if !offsets.iter().all(fits) {
            return Err(Error::Failed("an offer of what are no whole segments of the file was refused".into()));
        }
        let mut state = self.usable()?;
        Ok(match state.admit(&arrival) {
            Admitted::Known(stamp) => (stamp, true),
            Admitted::New(stamp) => {
                state.sources.offered(arrival.source, arrival.sequence);
                (stamp, false)
            }
        })
    }

    /// The content of an offered piece is in the store, at these places (`None`: zeros).
    /// The store was asked about them since `epoch`.
    pub fn supplied(
        &self,
        arrival: Arrival,
        stamp: u64,
        epoch: u64,
        segments: &[(u64, SegmentEntry, Option<format::Place>)],
    ) -> Result<()> {
        let mut state = self.usable()?;
        state.rely_on(epoch);
        for (offset, segment, place) in segments {
            let content = match place {
                Some(place) => {
                    Content::Segment { place: *place, fingerprint: segment.fingerprint, bytes: segment.bytes, skip: 0 }
                }
                None => Content::Zero,
            };
            let stretch = Stretch { length: segment.bytes as u64, content, stamp };
            if state.staging.supersede(stamp, *offset) {
                state.lay_fresh(*offset, stretch);
                state.grow(offset + stretch.length);
            } else {
                let mut payload = vec![0; segment.bytes as usize];
                self.read_entry(stretch.entry(), 0, &mut payload)?;
                let payload = Arc::new(payload);
                let arrived = Arrived { payload, stamp, source: arrival.source, sequence: arrival.sequence };
                state.stage(&arrived, 0, *offset, stretch.length, true);
            }
            state.unsettled_bytes += stretch.length;
        }
        state.sources.received(arrival.source, arrival.sequence, stamp);
        Ok(())
    }

    /// Fills `into` from `offset` on, zeros where nobody wrote; returns the file's size as this seat knows it.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<u64> {
        let range = offset..offset.saturating_add(into.len() as u64);
        let (below, size, head) = {
            let state = self.usable()?;
            let gaps = state.staging.read(range.clone(), into);
            (state.below_staging(gaps), state.size, state.head.clone())
        };
        for (gap, entry) in below {
            let into = &mut into[(gap.start - offset) as usize..(gap.end - offset) as usize];
            match entry {
                Below::Entry(entry, from) => self.read_entry(entry, from, into)?,
                Below::Head => self.read_head(head.as_ref(), gap.start, into)?,
            }
        }
        let known = size.saturating_sub(offset).min(into.len() as u64) as usize;
        into[known..].fill(0);
        Ok(size)
    }

    fn read_entry(&self, entry: format::Entry, from: u64, into: &mut [u8]) -> Result<()> {
        let mut at = 0;
        self.repository.entry_pieces(entry, from..from + into.len() as u64, &mut |piece| {
            at += crate::read::fill(&mut into[at..], piece);
            Ok(())
        })
    }

    fn read_head(&self, head: Option<&(Root, u64)>, offset: u64, into: &mut [u8]) -> Result<()> {
        let read = match head {
            Some((root, size)) => self.repository.reader(root, *size).read_at(offset, into)?,
            None => 0,
        };
        into[read..].fill(0);
        Ok(())
    }

    pub fn size(&self) -> Result<u64> {
        Ok(self.usable()?.size)
    }

    /// Cuts or extends the file, as far as this seat's stripes go.
    pub fn set_size(&self, size: u64) -> Result<()> {
        if size > MAX_SIZE {
            return Err(Error::Failed(format!("a file of {size} bytes is beyond the limit of {MAX_SIZE}")));
        }
        let mut state = self.usable()?;
        let old = state.size;
        state.staging.cut(size);
        if size < old {
            // What stood there, in whatever layer, is hidden by zeros: growing again must not show it.
            let stamp = state.next_stamp();
            for range in self.own_ranges(size..old) {
                let zeros = Stretch { length: range.end - range.start, content: Content::Zero, stamp };
                state.lay_fresh(range.start, zeros);
            }
        }
        (state.size, state.resized, state.size_is_new) = (size, true, true);
        Ok(())
    }

    /// The parts of a range that lie in this seat's stripes.
    fn own_ranges(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let options = &self.options;
        if options.seats == 1 {
            return vec![range];
        }
        let stripe = options.stripe_bytes;
        let (first, last) = (range.start / stripe, range.end.div_ceil(stripe));
        (first..last)
            .filter(|number| number % options.seats as u64 == options.seat as u64)
            .map(|number| (number * stripe).max(range.start)..((number + 1) * stripe).min(range.end))
            .collect()
    }

    pub fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Bytes received since the last settle began.
    pub fn unsettled_bytes(&self) -> u64 {
        self.lock().unsettled_bytes
    }

    /// How far the source's pieces are durable: told again when it connects again, since it may have missed it.
    pub fn durable_up_to(&self, source: Source) -> Option<DurableUpTo> {
        self.lock().sources.told(source)
    }

    /// Whether anything received is in no checkpoint yet.
    pub fn has_unsettled(&self) -> bool {
        let state = self.lock();
        state.size_is_new || !state.fresh.is_empty() || !state.staging.is_durable()
    }

    /// Why the seat takes nothing any more, if so.
    pub fn failure(&self) -> Option<String> {
        self.usable().err().map(|error| error.to_string())
    }

    pub(super) fn fail(&self, error: &Error) {
        let mut state = self.lock();
        state.failure.get_or_insert_with(|| Failure::of(error));
        self.changed.notify_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }

    pub(super) fn usable(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        match &state.failure {
            Some(Failure::NoRoom(why)) => Err(Error::NoRoom(why.clone())),
            Some(Failure::Other(why)) => Err(Error::Failed(why.clone())),
            Some(Failure::TakenOver) => {
                let (session, seat) = (self.options.session, self.options.seat);
                Err(catalog::Error::SeatLost { session, seat }.into())
            }
            None => Ok(state),
        }
    }
}

/// The largest file (bytes): offsets stay well within signed 64 bits.
const MAX_SIZE: u64 = 1 << 62;

enum Admitted {
    /// It came before, with this stamp.
    Known(u64),
    New(u64),
}

/// Where a gap below the staged bytes is filled from.
enum Below {
    /// A stored entry, from this many bytes into it.
    Entry(format::Entry, u64),
    Head,
}

impl State {
    fn admit(&mut self, arrival: &Arrival) -> Admitted {
        if let Some(stamp) = self.sources.stamp_of(arrival.source, arrival.sequence) {
            return Admitted::Known(stamp.max(arrival.stamp));
        }
        if arrival.stamp != 0 {
            self.last_stamp = self.last_stamp.max(arrival.stamp);
            return Admitted::New(arrival.stamp);
        }
        Admitted::New(self.next_stamp())
    }

    pub fn next_stamp(&mut self) -> u64 {
        self.last_stamp += 1;
        self.last_stamp
    }

    fn stage(&mut self, arrived: &Arrived, at: usize, offset: u64, bytes: u64, again: bool) {
        self.grow(offset + bytes);
        if !again {
            return self.staging.take(arrived, at, offset, bytes);
        }
        for part in self.stored_older_than(arrived.stamp, offset..offset + bytes) {
            let at = at + (part.start - offset) as usize;
            self.staging.take(arrived, at, part.start, part.end - part.start);
        }
    }

    /// The parts of the range over which nothing stored is newer than the stamp.
    fn stored_older_than(&self, stamp: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let newer = |range: Range<u64>| {
            let settled = self.settled.overlapping(range.clone()).filter(|(_, _, at)| *at > stamp);
            super::layers::gaps_between(range, settled.map(|(offset, entry, _)| offset..offset + entry.length))
        };
        self.fresh.older_than(stamp, range).into_iter().flat_map(newer).collect()
    }

    /// Lays a stored stretch, except where something later is stored already.
    pub fn lay_fresh(&mut self, offset: u64, stretch: Stretch) {
        self.fresh.lay(offset, stretch);
    }

    /// What is laid rests on answers of the store since this epoch.
    pub fn rely_on(&mut self, epoch: u64) {
        self.relied_epoch = self.relied_epoch.min(epoch);
    }

    fn grow(&mut self, end: u64) {
        if end > self.size {
            (self.size, self.size_is_new) = (end, true);
        }
    }

    /// Fills gaps from the layers below staging: pieces in order, each from one place.
    fn below_staging(&self, gaps: Vec<Range<u64>>) -> Vec<(Range<u64>, Below)> {
        let mut found = Vec::new();
        for gap in gaps {
            let mut at = gap.start;
            for (offset, stretch) in self.fresh.overlapping(gap.clone()) {
                let part = offset.max(gap.start)..(offset + stretch.length).min(gap.end);
                self.below_fresh(at..part.start, &mut found);
                at = part.end;
                let from = part.start - offset;
                found.push((part, Below::Entry(stretch.entry(), from)));
            }
            self.below_fresh(at..gap.end, &mut found);
        }
        found
    }

    fn below_fresh(&self, gap: Range<u64>, found: &mut Vec<(Range<u64>, Below)>) {
        let mut at = gap.start;
        for (offset, entry, _) in self.settled.overlapping(gap.clone()) {
            let part = offset.max(gap.start)..(offset + entry.length).min(gap.end);
            if at < part.start {
                found.push((at..part.start, Below::Head));
            }
            at = part.end;
            let from = part.start - offset;
            found.push((part, Below::Entry(entry, from)));
        }
        if at < gap.end {
            found.push((at..gap.end, Below::Head));
        }
    }
}

//! The state of one stripe set, without locks, I/O or a clock: events come in as calls, and work to do goes out as
//! values.
//!
//! Every piece is stamped when it first arrives, and [`ContentMap`] keeps the newest content of every byte. Staged
//! content is stored by [`super::storing`], and becomes durable by [`super::checkpoint_steps`]. Input from the wire is
//! checked here: a refused event changes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use format::{Entry, EntryKind, Root, Run, SegmentAddress, SegmentEntry, run_digest};

use super::buffers::{Buffers, Sender, Slice};
use super::checkpoint_steps::CheckpointRun;
use super::content_map::{Change, Content, ContentMap, Extent, StoredSegment};
use super::sources::{PieceState, Source, Sources};
use super::{StripeOwnerOptions, WriteOrigin};
use crate::{Error, Result};

/// The largest file (bytes): offsets stay well within signed 64 bits.
pub(super) const MAX_SIZE: u64 = 1 << 62;
/// A stream that sends a million pieces a second gets here after nine years.
const MAX_SEQUENCE: u64 = 1 << 48;
/// Pieces of one stream that are offered and not supplied.
const MAX_OPEN_OFFERS: usize = 1 << 14;
/// A stamp is the number of the stripe set's taking, and in these lower bits the number of the arrival.
const ARRIVAL_BITS: u32 = 40;
/// Stamps are counts, and stay below this as all counts of the protocol do: about four million takings of a stripe set.
const STAMP_BITS: u32 = 62;
/// The charge for each extent of staged bytes, besides the segments' buffers (bytes).
const EXTENT_BYTES: u64 = 96;

pub(super) struct WriteSession {
    pub options: StripeOwnerOptions,
    pub map: ContentMap,
    pub buffers: Buffers,
    pub sources: Sources,
    /// Bytes that are in buffers alone.
    pub staged_bytes: u64,
    /// Segments that are whole, or were, to be stored.
    pub ready: VecDeque<u64>,
    /// How many segments are due or being stored, by generation.
    pub obligations: BTreeMap<u64, usize>,
    /// Checkpoints begun so far: each waits for the pieces that came before it.
    pub generation: u64,
    /// How often bytes were taken out for storing.
    pub takes: u64,
    /// Where stored content was laid that no checkpoint lists yet.
    pub changed: Vec<Range<u64>>,
    pub checkpoint: Option<CheckpointRun>,
    /// Counts what brings a checkpoint nearer to its end.
    pub progress: u64,
    /// The head the session was based on when the stripe set was taken.
    pub head: Option<(Root, u64)>,
    pub size: u64,
    /// Where the furthest piece ends that ever came or was announced.
    reach: u64,
    /// The size was set, not only grown into.
    pub resized: bool,
    /// The size changed since the last checkpoint.
    pub size_is_new: bool,
    pub epoch: u64,
    /// Stamps up to here were given by takings before this one: such pieces may come again in any order.
    pub first_stamp: u64,
    last_stamp: u64,
    pub next_checkpoint: u64,
    pub uncheckpointed_bytes: u64,
    /// The epoch before the store was first asked about what no checkpoint lists.
    pub relied_epoch: u64,
    failure: Option<Failure>,
    change: Change,
}

/// Why a stripe set takes nothing any more.
#[derive(Clone)]
pub(super) enum Failure {
    NoRoom(String),
    /// Another node owns it now: clients with pieces here send them there.
    TakenOver,
    Other(String),
}

/// The class of an arriving piece.
enum Admittance {
    /// It came before, with this stamp.
    Known(u64),
    /// To be taken in, with this stamp.
    New(u64),
}

/// Where to read a range from, as it was at one moment.
pub(super) struct ReadPlan {
    pub size: u64,
    pub head: Option<(Root, u64)>,
    pub parts: Vec<(Range<u64>, ReadFrom)>,
}

pub(super) enum ReadFrom {
    Buffer(Slice),
    /// A stored entry, from this many bytes into it.
    Entry(Entry, u64),
    Zeros,
    Head,
}

impl WriteSession {
    /// `number` is that of the stripe set's taking: every later one has a higher, so its stamps are above those given before.
    pub fn new(options: StripeOwnerOptions, number: u64) -> Result<Self> {
        if number >> (STAMP_BITS - ARRIVAL_BITS) != 0 {
            let why = format!(
                "session {}: stripe set {} was taken or checkpointed too often",
                options.session, options.stripe_set
            );
            return Err(Error::Failed(format!("{why}; commit the session and open the file again")));
        }
        let first_stamp = number << ARRIVAL_BITS;
        Ok(WriteSession {
            options,
            map: ContentMap::default(),
            buffers: Buffers::default(),
            sources: Sources::default(),
            staged_bytes: 0,
            ready: VecDeque::new(),
            obligations: BTreeMap::new(),
            generation: 0,
            takes: 0,
            changed: Vec::new(),
            checkpoint: None,
            progress: 0,
            head: None,
            size: 0,
            reach: 0,
            resized: false,
            size_is_new: false,
            epoch: 0,
            first_stamp,
            last_stamp: first_stamp,
            next_checkpoint: number,
            uncheckpointed_bytes: 0,
            relied_epoch: u64::MAX,
            failure: None,
            change: Change::default(),
        })
    }

    /// Takes in a piece: the extents' bytes stand one after the other in `payload`. Returns its stamp.
    pub fn write(&mut self, arrival: WriteOrigin, extents: &[(u64, u64)], payload: Vec<u8>) -> Result<u64> {
        let total = extents.iter().try_fold(0u64, |sum, (_, bytes)| sum.checked_add(*bytes));
        if total != Some(payload.len() as u64) || !extents.iter().all(|extent| self.is_own(extent)) {
            return Err(refused("a write whose extents do not fit its bytes or this node's stripes"));
        }
        let stamp = match self.admit(&arrival)? {
            Admittance::Known(stamp) => return Ok(stamp),
            Admittance::New(stamp) => stamp,
        };
        let payload = Arc::new(payload);
        let sender = Sender { source: arrival.source, sequence: arrival.sequence, stamp };
        let (mut rest, mut at) = (extents, 0);
        while !rest.is_empty() {
            let taken = match self.group(rest) {
                1 => 0,
                count => self.stage_group(&rest[..count], &payload, at, sender),
            };
            if taken == 0 {
                self.stage(rest[0].0..rest[0].0 + rest[0].1, &payload, at, sender);
            }
            let (done, further) = rest.split_at(taken.max(1));
            at += done.iter().map(|(_, bytes)| *bytes as usize).sum::<usize>();
            rest = further;
        }
        self.sources.received(arrival.source, arrival.sequence, stamp);
        self.uncheckpointed_bytes += payload.len() as u64;
        Ok(stamp)
    }

    /// Takes in an offered piece: whole segments at these offsets, whose content follows with
    /// [`WriteSession::supplied`]. Returns its stamp, and whether it is known already, content and all.
    pub fn offered(&mut self, arrival: WriteOrigin, offsets: &[u64]) -> Result<(u64, bool)> {
        if !offsets.iter().all(|offset| self.is_own_segment(*offset)) {
            return Err(refused("an offer of what are no whole segments of this node's stripes"));
        }
        let stamp = match self.admit(&arrival)? {
            Admittance::Known(stamp) => return Ok((stamp, true)),
            Admittance::New(stamp) => stamp,
        };
        if self.sources.open_offers(arrival.source) >= MAX_OPEN_OFFERS {
            return Err(refused("an offer of a stream that has too many without their content"));
        }
        let end = offsets.iter().max().map_or(0, |last| last + self.segment_bytes());
        self.reach = self.reach.max(end);
        self.sources.offered(arrival.source, arrival.sequence, stamp);
        Ok((stamp, false))
    }

    /// Notes that the content of an offered piece is in the store, at these places (`None`: zeros). The store was asked
    /// about them since `epoch`.
    pub fn supplied(
        &mut self,
        arrival: WriteOrigin,
        stamp: u64,
        epoch: u64,
        segments: &[(u64, SegmentEntry, Option<SegmentAddress>)],
    ) -> Result<()> {
        match self.sources.seen(arrival.source, arrival.sequence) {
            PieceState::Received(_) => return Ok(()),
            PieceState::Offered(given) if given == stamp => {}
            _ => return Err(refused("the content of a piece that was not offered")),
        }
        let fits = |(offset, entry, _): &(u64, SegmentEntry, _)| {
            self.is_own_segment(*offset) && entry.bytes as u64 == self.segment_bytes()
        };
        if !segments.iter().all(fits) {
            return Err(refused("content that is not made of whole segments of this node's stripes"));
        }
        self.rely_on(epoch);
        for (offset, entry, address) in segments {
            let content = match address {
                Some(address) => {
                    let (address, fingerprint, bytes) = (*address, entry.fingerprint, entry.bytes);
                    Content::Segment { segment: Arc::new(StoredSegment { address, fingerprint, bytes }), skip: 0 }
                }
                None => Content::Zeros,
            };
            self.lay_stored(*offset..offset + self.segment_bytes(), content, stamp);
        }
        self.uncheckpointed_bytes += segments.len() as u64 * self.segment_bytes();
        self.sources.received(arrival.source, arrival.sequence, stamp);
        Ok(())
    }

    /// Cuts or extends the file. Content beyond the new size, in whatever state, is hidden by zeros: growing again must
    /// not show it.
    pub fn set_size(&mut self, size: u64) -> Result<()> {
        if size > MAX_SIZE {
            return Err(Error::Failed(format!("a file of {size} bytes is beyond the limit of {MAX_SIZE}")));
        }
        let (stamp, end) = (self.next_stamp()?, self.reach.max(self.size));
        if size < end {
            // One interval, over other stripe sets' stripes too: a publication lays it below all data.
            self.lay_stored(size..end, Content::Zeros, stamp);
        }
        (self.size, self.resized, self.size_is_new) = (size, true, true);
        Ok(())
    }

    /// Plans a read: says where its bytes are. Beyond the file's end there are none.
    pub fn read(&self, offset: u64, bytes: u64) -> ReadPlan {
        let end = offset.saturating_add(bytes).min(self.size);
        let mut parts = Vec::new();
        if offset < end {
            self.map.pieces(offset..end, |range, extent| self.plan(range, extent, &mut parts));
        }
        ReadPlan { size: self.size, head: self.head.clone(), parts }
    }

    fn plan(&self, range: Range<u64>, extent: Option<(u64, &Extent)>, parts: &mut Vec<(Range<u64>, ReadFrom)>) {
        let Some((start, extent)) = extent else {
            return parts.push((range, ReadFrom::Head));
        };
        if extent.is_buffered {
            for (index, part) in self.by_segment(range) {
                let buffer = self.buffers.get(index).expect("buffered bytes have a buffer");
                let slice = buffer.slice(self.within(index, &part));
                parts.push((part, ReadFrom::Buffer(slice)));
            }
            return;
        }
        let from = range.start - start;
        parts.push(match &extent.content {
            Content::Staged => unreachable!("staged bytes are buffered"),
            Content::Zeros => (range, ReadFrom::Zeros),
            Content::Segment { segment, skip } => (range, ReadFrom::Entry(segment.entry(), *skip as u64 + from)),
            Content::Entry { entry, from: skipped } => (range, ReadFrom::Entry(**entry, skipped + from)),
        });
    }

    /// Ends the session: nothing more is taken, and every later call says why. Held pieces are given up: their senders
    /// have them still.
    pub fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            self.map = ContentMap::default();
            self.buffers = Buffers::default();
            self.ready.clear();
            self.obligations.clear();
            self.changed.clear();
            (self.staged_bytes, self.uncheckpointed_bytes, self.size_is_new) = (0, 0, false);
            self.checkpoint = None;
        }
    }

    pub fn failure(&self) -> Option<Error> {
        self.failure.as_ref().map(|failure| match failure {
            Failure::NoRoom(why) => Error::NoRoom(why.clone()),
            Failure::Other(why) => Error::Failed(why.clone()),
            Failure::TakenOver => {
                let (session, stripe_set) = (self.options.session, self.options.stripe_set);
                catalog::Error::StripeSetLost { session, stripe_set }.into()
            }
        })
    }

    /// Whether anything received is in no checkpoint yet.
    pub fn has_uncheckpointed(&self) -> bool {
        self.size_is_new || self.staged_bytes > 0 || !self.changed.is_empty() || self.is_recording()
    }

    /// Returns the memory of staged bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.buffers.len() as u64 * self.segment_bytes() + self.map.staged_extents() as u64 * EXTENT_BYTES
    }

    /// Notes that laid extents rest on answers of the store since this epoch.
    pub fn rely_on(&mut self, epoch: u64) {
        self.relied_epoch = self.relied_epoch.min(epoch);
    }

    /// Whether this is the stripe set's first owner, so there are no resends from an earlier one.
    pub fn is_first(&self) -> bool {
        self.first_stamp == 1 << ARRIVAL_BITS
    }

    fn admit(&mut self, arrival: &WriteOrigin) -> Result<Admittance> {
        if arrival.sequence == 0 || arrival.sequence > MAX_SEQUENCE {
            return Err(refused(&format!("a piece with sequence {}, which cannot be,", arrival.sequence)));
        }
        let is_given = arrival.stamp >> ARRIVAL_BITS != 0
            && arrival.stamp & ((1 << ARRIVAL_BITS) - 1) != 0
            && arrival.stamp <= self.last_stamp;
        if arrival.stamp != 0 && !is_given {
            return Err(refused(&format!("a piece with stamp {:#x}, which was never given out,", arrival.stamp)));
        }
        Ok(match self.sources.seen(arrival.source, arrival.sequence) {
            PieceState::Received(stamp) => Admittance::Known(stamp.max(arrival.stamp)),
            // Its place is that of its first arrival.
            PieceState::Offered(stamp) => Admittance::New(stamp),
            PieceState::Never if arrival.stamp != 0 => Admittance::New(arrival.stamp),
            PieceState::Never => Admittance::New(self.next_stamp()?),
        })
    }

    fn next_stamp(&mut self) -> Result<u64> {
        let next = self.last_stamp + 1;
        if next >> ARRIVAL_BITS != self.first_stamp >> ARRIVAL_BITS {
            let why = "a node took in 2^40 pieces of one file; close it and open it again";
            return Err(Error::Failed(why.into()));
        }
        self.last_stamp = next;
        Ok(next)
    }

    /// Returns how many of the extents at the front lie in one segment, in order. At least one.
    fn group(&self, extents: &[(u64, u64)]) -> usize {
        let end = extents[0].0 / self.segment_bytes() * self.segment_bytes() + self.segment_bytes();
        let goes_on = |pair: &&[(u64, u64)]| {
            let ((offset, bytes), (next, next_bytes)) = (pair[0], pair[1]);
            offset + bytes <= next && next + next_bytes <= end && bytes > 0 && next_bytes > 0
        };
        1 + extents.windows(2).take_while(goes_on).count()
    }

    /// Takes small pieces of one segment in together, as far as nothing lies there yet. Returns how many.
    fn stage_group(&mut self, group: &[(u64, u64)], payload: &[u8], mut at: usize, sender: Sender) -> usize {
        let count = self.map.lay_free(group, &Extent::new(Content::Staged, sender.stamp, self.takes));
        let group = &group[..count];
        if count == 0 {
            return 0;
        }
        let (index, segment_bytes) = (group[0].0 / self.segment_bytes(), self.options.segment_bytes as usize);
        let generation = self.generation;
        let buffer = self.buffers.get_or_new(index, generation);
        let mut total = 0;
        for (offset, bytes) in group {
            let piece = &payload[at..at + *bytes as usize];
            buffer.copy((offset - index * segment_bytes as u64) as usize, piece, segment_bytes);
            at += piece.len();
            total += piece.len() as u32;
        }
        self.filled(index, total, sender);
        self.grow_to(group.last().map_or(0, |(offset, bytes)| offset + bytes));
        count
    }

    /// Takes bytes in, where nothing newer lies.
    fn stage(&mut self, range: Range<u64>, payload: &Arc<Vec<u8>>, at: usize, sender: Sender) {
        self.reach = self.reach.max(range.end);
        let mut change = std::mem::take(&mut self.change);
        self.map.lay(range.clone(), Extent::new(Content::Staged, sender.stamp, self.takes), &mut change);
        self.uncover(&change);
        for laid in &change.laid {
            for (index, part) in self.by_segment(laid.clone()) {
                let at = at + (part.start - range.start) as usize;
                self.fill(index, part, payload, at, sender);
            }
        }
        self.grow(&change);
        self.drop_empty(&change);
        self.reuse(change);
    }

    fn fill(&mut self, index: u64, part: Range<u64>, payload: &Arc<Vec<u8>>, at: usize, sender: Sender) {
        let (within, bytes) = (self.within(index, &part), (part.end - part.start) as u32);
        let segment_bytes = self.options.segment_bytes;
        let generation = self.generation;
        let buffer = self.buffers.get_or_new(index, generation);
        match bytes == segment_bytes {
            true => buffer.share(payload, at),
            false => buffer.copy(within.start, &payload[at..at + bytes as usize], segment_bytes as usize),
        }
        self.filled(index, bytes, sender);
    }

    /// Notes that bytes were put into a segment's buffer.
    fn filled(&mut self, index: u64, bytes: u32, sender: Sender) {
        let (generation, segment_bytes) = (self.generation, self.options.segment_bytes);
        self.staged_bytes += bytes as u64;
        let Some(buffer) = self.buffers.get_mut(index) else { return };
        buffer.covered_bytes += bytes;
        buffer.staged_bytes += bytes;
        if buffer.is_due {
            return;
        }
        let is_full = buffer.note(sender, generation);
        if buffer.covered_bytes == segment_bytes {
            self.make_due(index, bytes < segment_bytes);
        } else if is_full {
            self.forget_hidden_senders(index);
        }
    }

    /// While a segment is not whole its extents have the stamps of their pieces: whose stamp is gone has nothing there.
    fn forget_hidden_senders(&mut self, index: u64) {
        let mut visible = Vec::new();
        let staged = self.map.overlapping(self.range_of(index)).filter(|(_, extent)| extent.is_staged());
        visible.extend(staged.map(|(_, extent)| extent.stamp));
        visible.sort_unstable();
        if let Some(buffer) = self.buffers.get_mut(index) {
            buffer.keep_senders(|stamp| visible.binary_search(&stamp).is_ok());
        }
    }

    /// Lays what the store has (or zeros), where nothing newer lies.
    fn lay_stored(&mut self, range: Range<u64>, content: Content, stamp: u64) {
        let mut change = std::mem::take(&mut self.change);
        self.map.lay(range, Extent::new(content, stamp, self.takes), &mut change);
        self.uncover(&change);
        self.drop_empty(&change);
        self.grow(&change);
        change.laid.iter().for_each(|laid| self.note_changed(laid.clone()));
        self.reuse(change);
    }

    /// Only what shows makes the file longer: a piece that comes again after the file was cut does not.
    fn grow(&mut self, change: &Change) {
        self.grow_to(change.laid.last().map_or(0, |laid| laid.end));
    }

    fn grow_to(&mut self, end: u64) {
        self.reach = self.reach.max(end);
        if end > self.size {
            (self.size, self.size_is_new) = (end, true);
        }
    }

    fn uncover(&mut self, change: &Change) {
        for covered in &change.covered {
            for (index, part) in self.by_segment(covered.range.clone()) {
                let bytes = (part.end - part.start) as u32;
                let buffer = self.buffers.get_mut(index).expect("buffered bytes have a buffer");
                buffer.covered_bytes -= bytes;
                if covered.was_staged {
                    buffer.staged_bytes -= bytes;
                    self.staged_bytes -= bytes as u64;
                }
            }
        }
    }

    fn drop_empty(&mut self, change: &Change) {
        for covered in &change.covered {
            for (index, _) in self.by_segment(covered.range.clone()) {
                self.drop_if_empty(index);
            }
        }
    }

    fn reuse(&mut self, mut change: Change) {
        change.laid.clear();
        change.covered.clear();
        self.change = change;
    }

    /// Notes that stored content lies there which no checkpoint lists.
    pub fn note_changed(&mut self, range: Range<u64>) {
        match self.changed.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.changed.push(range),
        }
    }

    /// Whether nothing can still arrive that would come between what has these two stamps: then the newer may stand
    /// for both.
    pub fn are_alike(&self, one: u64, other: u64) -> bool {
        let (low, high) = (one.min(other), one.max(other));
        low == high || (low > self.first_stamp && !self.sources.has_offer_between(low, high))
    }

    pub fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes as u64
    }

    pub fn range_of(&self, index: u64) -> Range<u64> {
        index * self.segment_bytes()..(index + 1) * self.segment_bytes()
    }

    fn within(&self, index: u64, part: &Range<u64>) -> Range<usize> {
        let start = index * self.segment_bytes();
        (part.start - start) as usize..(part.end - start) as usize
    }

    /// Returns the segments a range touches, each with its part of it.
    fn by_segment(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let unit = self.segment_bytes();
        let indices = range.start / unit..range.end.div_ceil(unit);
        indices.map(move |index| (index, range.start.max(index * unit)..range.end.min((index + 1) * unit)))
    }

    fn is_own_segment(&self, offset: u64) -> bool {
        offset.is_multiple_of(self.segment_bytes()) && self.is_own(&(offset, self.segment_bytes()))
    }

    /// Whether the extent lies within the file's bounds and one stripe of this stripe set.
    fn is_own(&self, (offset, bytes): &(u64, u64)) -> bool {
        let Some(end) = offset.checked_add(*bytes).filter(|end| *end <= MAX_SIZE) else { return false };
        let (stripe, stripe_sets) = (self.options.stripe_bytes, self.options.stripe_sets as u64);
        let number = offset / stripe;
        stripe_sets == 1
            || *bytes == 0
            || (number % stripe_sets == self.options.stripe_set as u64 && (end - 1) / stripe == number)
    }

    /// The stripe set is taken over the head of the path.
    pub fn base_on(&mut self, head: Option<(Root, u64)>) {
        self.size = head.as_ref().map_or(0, |(_, size)| *size);
        self.head = head;
    }

    /// Restores a checkpoint of the stripe set: its entries lie over those of earlier ones. Where it says nothing of
    /// stamps, nothing older can come any more.
    pub fn restore(&mut self, checkpoint: &catalog::Checkpoint, entries: Vec<(u64, Entry)>) {
        self.size = if checkpoint.resized { checkpoint.size } else { self.size.max(checkpoint.size) };
        for (offset, entry) in entries {
            let range = offset..offset + entry.length;
            self.reach = self.reach.max(range.end);
            self.map.replace(range, Extent::recorded(entry));
        }
        for (offset, length, stamp) in &checkpoint.stamps {
            self.map.update(*offset..offset + length, |_, extent| extent.stamp = *stamp);
        }
        for (client, stream, sequence) in &checkpoint.frontier {
            self.sources.restored(Source { client: *client, stream: *stream }, *sequence);
        }
    }
}

impl StoredSegment {
    pub fn entry(&self) -> Entry {
        let kind = EntryKind::Data { run: Run::single(self.address), skip: 0, digest: run_digest([&self.fingerprint]) };
        Entry { length: self.bytes as u64, kind }
    }
}

fn refused(what: &str) -> Error {
    Error::Failed(format!("{what} was refused"))
}

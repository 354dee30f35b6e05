//! Staged content on its way into the store: handed out as it is at that moment, and replaced by the stored segment
//! unless something newer has come over it meanwhile. Readers find the staged bytes until then.

use std::ops::Range;
use std::sync::Arc;

use super::buffers::Slice;
use super::checkpoint_steps::joined;
use super::content_map::{CheckpointState, Content, Extent, StoredSegment};
use super::write_session::WriteSession;

/// Bytes of one segment to be stored.
pub(super) struct StoreWork {
    index: u64,
    /// Pieces that came at or after this take are not among them.
    number: u64,
    /// The whole segment; else its parts are stored each by itself and stay in the buffer, for the rest to come.
    is_whole: bool,
    /// The checkpoint that waits for it, when it was due.
    generation: Option<u64>,
    pub pieces: Vec<(Range<u64>, Slice)>,
}

impl WriteSession {
    /// Marks the segment to be stored: it is whole. `joined` when it came in several pieces.
    pub(super) fn make_due(&mut self, index: u64, joined: bool) {
        let Some(buffer) = self.buffers.get_mut(index) else { return };
        buffer.is_due = true;
        buffer.release_senders();
        *self.obligations.entry(buffer.generation).or_default() += 1;
        self.ready.push_back(index);
        if joined {
            self.join(self.range_of(index), Some(index));
        }
    }

    /// Takes up to `limit` segments to be stored; [`WriteSession::stored`] must follow for each.
    pub fn take_work(&mut self, limit: usize) -> Vec<StoreWork> {
        self.takes += 1;
        let mut works = Vec::new();
        while works.len() < limit {
            let Some(index) = self.ready.pop_front() else { break };
            let Some(buffer) = self.buffers.get_mut(index).filter(|buffer| buffer.is_due) else { continue };
            buffer.is_due = false;
            let generation = buffer.generation;
            match self.take(index, Some(generation)) {
                Some(work) => works.push(work),
                None => self.discharge(generation),
            }
        }
        works
    }

    /// Takes the content of segments that are not whole and not stored yet. It stays in memory too, for the rest to
    /// come.
    pub fn take_fragments(&mut self) -> Vec<StoreWork> {
        self.takes += 1;
        let staged = self.buffers.iter().filter(|(_, buffer)| !buffer.is_due && buffer.staged_bytes > 0);
        let indices: Vec<u64> = staged.map(|(index, _)| index).collect();
        indices.into_iter().filter_map(|index| self.take(index, None)).collect()
    }

    fn take(&mut self, index: u64, generation: Option<u64>) -> Option<StoreWork> {
        let (range, number) = (self.range_of(index), self.takes);
        let buffer = self.buffers.get_mut(index).filter(|buffer| buffer.staged_bytes > 0)?;
        buffer.taken = number;
        buffer.release_senders();
        let is_whole = buffer.covered_bytes as u64 == range.end - range.start;
        let mut parts = Vec::new();
        if is_whole {
            parts.push(range.clone());
        } else {
            let staged = self.map.overlapping(range.clone()).filter(|(_, extent)| extent.is_staged());
            let staged = staged.map(|(start, extent)| start.max(range.start)..extent.end.min(range.end));
            parts.extend(joined(staged.collect()));
        }
        let slice = |part: Range<u64>| {
            let within = (part.start - range.start) as usize..(part.end - range.start) as usize;
            (part, buffer.slice(within))
        };
        let pieces = parts.into_iter().map(slice).collect();
        Some(StoreWork { index, number, is_whole, generation, pieces })
    }

    /// Notes that the works' pieces are in the store, one after the other as these (`None`: zeros). The store was asked
    /// about them since `epoch`.
    pub fn stored(&mut self, works: Vec<StoreWork>, stored: Vec<Option<Arc<StoredSegment>>>, epoch: u64) {
        self.progress += 1;
        self.rely_on(epoch);
        let mut stored = stored.into_iter();
        for work in works {
            for (range, _) in &work.pieces {
                let stored = stored.next().expect("every piece was stored");
                self.replace_staged(&work, range.clone(), stored);
            }
            if let Some(generation) = work.generation {
                self.discharge(generation);
            }
        }
    }

    fn replace_staged(&mut self, work: &StoreWork, range: Range<u64>, stored: Option<Arc<StoredSegment>>) {
        let (mut unstaged, mut released) = (0, 0);
        self.map.update(range.clone(), |start, extent| {
            let was_taken = extent.is_buffered && extent.takes < work.number;
            if !was_taken || !(work.is_whole || extent.is_staged()) {
                return;
            }
            unstaged += if extent.is_staged() { extent.end - start } else { 0 };
            released += if work.is_whole { extent.end - start } else { 0 };
            extent.is_buffered = !work.is_whole;
            extent.listing = CheckpointState::Pending;
            extent.content = match &stored {
                Some(segment) => Content::Segment { segment: segment.clone(), skip: (start - range.start) as u32 },
                None => Content::Zeros,
            };
        });
        if let Some(buffer) = self.buffers.get_mut(work.index) {
            buffer.staged_bytes -= unstaged as u32;
            buffer.covered_bytes -= released as u32;
            self.staged_bytes -= unstaged;
        }
        self.drop_if_empty(work.index);
        if unstaged + released > 0 {
            self.note_changed(range.clone());
        }
        self.join(range, Some(work.index));
    }

    /// Gives up the memory of segments that are not whole but stored, in fragments, as far as they have come.
    pub fn evict(&mut self) {
        let stored = self.buffers.iter().filter(|(_, buffer)| !buffer.is_due && buffer.staged_bytes == 0);
        let indices: Vec<u64> = stored.map(|(index, _)| index).collect();
        for index in indices {
            self.map.update(self.range_of(index), |_, extent| extent.is_buffered = false);
            self.buffers.remove(index);
        }
    }

    /// Whether everything that was whole before the generation ended is in the store.
    pub fn is_stored(&self, generation: u64) -> bool {
        self.obligations.range(..=generation).next().is_none()
    }

    pub(super) fn drop_if_empty(&mut self, index: u64) {
        let is_empty = self.buffers.get(index).is_some_and(|buffer| buffer.covered_bytes == 0);
        if is_empty
            && let Some(buffer) = self.buffers.remove(index)
            && buffer.is_due
        {
            self.discharge(buffer.generation);
        }
    }

    fn discharge(&mut self, generation: u64) {
        if let Some(count) = self.obligations.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                self.obligations.remove(&generation);
            }
        }
    }

    /// Joins the extents in the range and at its ends into as few as there can be. Extents taken out for storing and
    /// later ones stay apart: `takes` of a joined extent would be wrong for one of them. Within the segment `index` it
    /// is known which is which.
    pub(super) fn join(&mut self, range: Range<u64>, index: Option<u64>) {
        let segment = index.map_or(0..0, |index| self.range_of(index));
        let taken = index.and_then(|index| self.buffers.get(index)).map_or(0, |buffer| buffer.taken);
        let mut map = std::mem::take(&mut self.map);
        let same_takes = |start: u64, one: &Extent, other: &Extent| {
            let is_within = segment.start <= start && other.end <= segment.end;
            one.takes == other.takes || (is_within && (one.takes < taken) == (other.takes < taken))
        };
        let is_alike = |start: u64, one: &Extent, other: &Extent| {
            self.are_alike(one.stamp, other.stamp) && (!one.is_buffered || same_takes(start, one, other))
        };
        map.join(range.start.saturating_sub(1)..range.end + 1, is_alike);
        self.map = map;
    }
}

#[cfg(test)]
mod tests {
    use format::{ContainerId, Fingerprint, SegmentAddress, SessionId};

    use super::super::sources::Source;
    use super::super::{StripeOwnerOptions, WriteOrigin};
    use super::*;

    const SEGMENT_BYTES: u32 = 1024;

    fn session() -> WriteSession {
        let session = SessionId(1);
        let segment_bytes = SEGMENT_BYTES;
        let options = StripeOwnerOptions {
            session,
            stripe_set: 0,
            owner: 1,
            segment_bytes,
            stripe_bytes: 1 << 16,
            stripe_sets: 1,
        };
        WriteSession::new(options, 1).unwrap()
    }

    /// The segment comes in two halves.
    fn write_halves(session: &mut WriteSession, index: u64, sequence: u64) {
        let half = SEGMENT_BYTES as u64 / 2;
        for part in 0..2 {
            let source = Source { client: 7, stream: part as u32 };
            let extents = [(index * SEGMENT_BYTES as u64 + part * half, half)];
            session.write(WriteOrigin { source, sequence, stamp: 0 }, &extents, vec![3; half as usize]).unwrap();
        }
    }

    fn stored_whole(session: &mut WriteSession, works: Vec<StoreWork>) {
        let address = SegmentAddress { container: ContainerId(1), ordinal: 0 };
        let fingerprint = Fingerprint([0; 32]);
        let segment = Some(Arc::new(StoredSegment { address, fingerprint, bytes: SEGMENT_BYTES }));
        let stored = works.iter().map(|_| segment.clone()).collect();
        session.stored(works, stored, 1);
    }

    #[test]
    fn pieces_that_touch_are_one_fragment_across_sources() {
        let mut session = session();
        for (sequence, offset) in [(1, 40), (2, 0), (3, 80), (4, 200)] {
            let source = Source { client: sequence, stream: 0 };
            session.write(WriteOrigin { source, sequence, stamp: 0 }, &[(offset, 40)], vec![1; 40]).unwrap();
        }
        let works = session.take_fragments();
        let pieces: Vec<_> = works[0].pieces.iter().map(|(range, _)| range.clone()).collect();
        assert_eq!(pieces, [0..120, 200..240]);
    }

    #[test]
    fn what_is_being_stored_leaves_memory_though_its_neighbour_came_meanwhile() {
        let mut session = session();
        write_halves(&mut session, 0, 1);
        let first = session.take_work(8);
        assert_eq!(first.len(), 1);
        write_halves(&mut session, 1, 2);
        stored_whole(&mut session, first);
        assert_eq!(session.staged_bytes, SEGMENT_BYTES as u64);
        let second = session.take_work(8);
        stored_whole(&mut session, second);
        assert_eq!(session.staged_bytes, 0);
        assert!(session.take_fragments().is_empty());
    }
}

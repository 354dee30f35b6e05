//! Frames of written bytes: under construction in a [`Builder`], then kept as [`Frame`]s until they are durable.
//!
//! Bytes are copied once, from the program's memory into the payload; sending and sending again read them there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::reduce::{self, Whole};
use super::send_queue::SendQueue;
use super::window::{FRAME_BYTES, Payload, Window};
use crate::message::{Extent, Request};
use crate::node_connection::head;

/// Extents in one frame at most.
const MAX_EXTENTS: usize = 4096;
/// Memory of an extent or a frame besides its bytes, as charged to the window (bytes).
const EXTENT_OVERHEAD_BYTES: usize = 16;
const FRAME_OVERHEAD_BYTES: usize = 512;

/// The frame a send queue's next bytes go into.
#[derive(Default)]
pub(super) struct Builder {
    extents: Vec<Extent>,
    payload: Option<Payload>,
}

impl Builder {
    /// Copies as much of `source`, which goes to `offset` of the file, as this frame takes. Returns the bytes
    /// copied, or `None` when the window is full.
    pub fn append(&mut self, window: &Arc<Window>, offset: u64, source: &[u8]) -> Option<usize> {
        let held_bytes = self.payload.as_ref().map_or(0, |payload| payload.bytes().len());
        let taken = &source[..source.len().min(FRAME_BYTES - held_bytes)];
        let follows = self.extents.last().is_some_and(|last| last.offset + last.bytes == offset);
        let overhead_bytes = match (self.extents.is_empty(), follows) {
            (true, _) => FRAME_OVERHEAD_BYTES + EXTENT_OVERHEAD_BYTES,
            (false, true) => 0,
            (false, false) => EXTENT_OVERHEAD_BYTES,
        };
        if !self.payload.get_or_insert_with(|| Payload::new(window)).append(taken, overhead_bytes) {
            return None;
        }
        match self.extents.last_mut() {
            Some(last) if follows => last.bytes += taken.len() as u64,
            _ => self.extents.push(Extent { offset, bytes: taken.len() as u64 }),
        }
        Some(taken.len())
    }

    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.extents.len() >= MAX_EXTENTS
            || self.payload.as_ref().is_some_and(|payload| payload.bytes().len() >= FRAME_BYTES)
    }

    /// Returns what was built as the content of one frame, or of two: whole segments apart from the rest. Only what must
    /// be divided for that asks `reduces_here`: of other segments it is decided when they are sent.
    pub fn finish(&mut self, segment_bytes: u32, reduces_here: Option<&dyn Fn() -> bool>) -> Vec<Content> {
        let extents = std::mem::take(&mut self.extents);
        let Some(payload) = self.payload.take() else { return Vec::new() };
        match reduces_here {
            Some(reduces_here) if reduce::are_whole(&extents, segment_bytes) || reduces_here() => {
                reduce::divide(extents, payload, segment_bytes)
            }
            _ => vec![Content::Raw { extents, payload: payload.fit() }],
        }
    }
}

pub(super) enum Content {
    Raw {
        extents: Vec<Extent>,
        payload: Payload,
    },
    /// May be offered by fingerprint: then only what the node is missing is sent.
    Whole(Whole),
}

/// Written bytes that are kept until durable.
pub(super) struct Frame {
    pub sequence: u64,
    pub epoch: u64,
    pub content: Content,
    /// The node's stamp from the first receipt, 0 before; sent along when the frame is sent again.
    stamp: AtomicU64,
    was_received: AtomicBool,
}

impl Frame {
    pub fn new(sequence: u64, epoch: u64, content: Content) -> Self {
        Frame { sequence, epoch, content, stamp: AtomicU64::new(0), was_received: AtomicBool::new(false) }
    }

    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    pub fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Notes that a node has received it. Returns whether that is new: it may have been sent again.
    pub fn set_received(&self) -> bool {
        !self.was_received.swap(true, Ordering::Relaxed)
    }

    /// Switches from the digest to the full list of fingerprints. False when it was switched already.
    pub fn send_full_list(&self) -> bool {
        self.offered().is_some_and(Whole::send_full_list)
    }

    /// Returns the segments that are offered by fingerprint; none of a frame whose bytes are written as they are.
    pub fn offered(&self) -> Option<&Whole> {
        match &self.content {
            Content::Whole(whole) if whole.is_offered() => Some(whole),
            _ => None,
        }
    }

    /// Returns the program's bytes in it.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::Raw { payload, .. } => payload.bytes().len() as u64,
            Content::Whole(whole) => whole.bytes(),
        }
    }

    /// Returns the bulk bytes that travel with the first message about this frame.
    pub fn payload(&self) -> &[u8] {
        match &self.content {
            Content::Raw { payload, .. } => payload.bytes(),
            Content::Whole(whole) if whole.is_offered() => &[],
            Content::Whole(whole) => whole.raw_bytes(),
        }
    }

    /// Returns header and body of the message that brings this frame to its node.
    pub fn head(&self, queue: &SendQueue, number: u64) -> Vec<u8> {
        let (session, stripe_set, mode) = (queue.session, queue.stripe_set, queue.mode.get());
        let (sequence, stamp, epoch) = (self.sequence, self.stamp(), self.epoch);
        let write = |extents| Request::Write { session, stripe_set, sequence, stamp, epoch, mode, extents };
        let request = match &self.content {
            Content::Raw { extents, .. } => write(extents.clone()),
            Content::Whole(whole) if !whole.is_offered() => write(whole.extents()),
            Content::Whole(whole) => {
                let extents = whole.extents();
                match whole.digest() {
                    Some(names) => Request::OfferDigest { session, stripe_set, sequence, stamp, epoch, extents, names },
                    None => {
                        let fingerprints = whole.fingerprints();
                        Request::OfferFingerprints {
                            session,
                            stripe_set,
                            sequence,
                            stamp,
                            epoch,
                            extents,
                            fingerprints,
                        }
                    }
                }
            }
        };
        head(&request, number, &[self.payload()])
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self.payload()
    }
}

#[cfg(test)]
mod tests {
    use super::super::waker::Waker;
    use super::*;

    #[test]
    fn pieces_that_follow_each_other_become_one_extent() {
        let window = Arc::new(Window::new(8 << 20, Arc::new(Waker::new().unwrap())));
        let mut builder = Builder::default();
        for (offset, bytes) in [(100, &b"ab"[..]), (102, b"cd"), (200, b"e")] {
            assert_eq!(builder.append(&window, offset, bytes), Some(bytes.len()));
        }
        let contents = builder.finish(8192, None);
        let Content::Raw { extents, payload } = &contents[0] else { panic!("nothing was to be reduced") };
        assert_eq!(payload.bytes(), b"abcde");
        assert_eq!(extents, &[Extent { offset: 100, bytes: 4 }, Extent { offset: 200, bytes: 1 }]);
        assert!(builder.is_empty());
    }

    #[test]
    fn a_full_frame_takes_no_more() {
        let window = Arc::new(Window::new(8 << 20, Arc::new(Waker::new().unwrap())));
        let mut builder = Builder::default();
        let bytes = vec![1; FRAME_BYTES + 10];
        assert_eq!(builder.append(&window, 0, &bytes), Some(FRAME_BYTES));
        assert!(builder.is_full());
    }
}

//! A read as the nodes are asked for it: requests of at most a frame's length, each to one send queue.
//!
//! Over a far link a read is divided among all streams, by `policy::streams`.

use policy::streams::request_bytes;

use super::oneshot::Answer;
use super::piece::{Cursor, Piece};
use super::stripe_streams::StripeStreams;
use super::window;
use crate::message::{Extent, Reply, Request};
use crate::{Error, Result};

const FRAME_BYTES: u64 = window::FRAME_BYTES as u64;
/// Extents asked for with one read request at most.
const MAX_EXTENTS: usize = 4096;

/// One read request: what is asked of a send queue, and where the answer goes.
#[derive(Default)]
pub(super) struct Part {
    /// Index of the send queue.
    pub queue: usize,
    pub targets: Vec<Piece>,
    pub bytes: u64,
}

/// A node's answer to a read: the first of the bytes asked for, and the file's size as the node knows it.
pub(super) struct ReadBytes {
    pub bytes: Vec<u8>,
    pub file_bytes: u64,
}

impl ReadBytes {
    /// Returns the bytes for the piece, which begin at `at`, where the file has all of them.
    pub fn of(&self, at: usize, piece: &Piece) -> Option<&[u8]> {
        let is_within = piece.end() <= self.file_bytes;
        self.bytes.get(at..at + piece.bytes() as usize).filter(|_| is_within)
    }
}

/// Splits the pieces into requests.
pub(super) fn split(pieces: &[Piece], routes: &StripeStreams, is_far: bool) -> Vec<Part> {
    let all_bytes = pieces.iter().map(Piece::bytes).sum();
    let most_bytes = if is_far { request_bytes(all_bytes, routes.queues.len(), FRAME_BYTES) } else { FRAME_BYTES };
    let empty = |queue| Part { queue, ..Part::default() };
    let mut open: Vec<Part> = (0..routes.queues.len()).map(empty).collect();
    let (mut cursor, mut parts) = (Cursor::default(), Vec::new());
    while let Some(stretch) = cursor.part(pieces, routes.stripe_bytes) {
        let queue = routes.read(stretch.offset(), most_bytes);
        let part = &mut open[queue];
        let to_next_stream = if is_far { most_bytes - stretch.offset() % most_bytes } else { most_bytes };
        let target = stretch.first(to_next_stream.min(most_bytes - part.bytes));
        part.targets.push(target);
        part.bytes += target.bytes();
        cursor.advance(target.bytes());
        if part.bytes == most_bytes || part.targets.len() == MAX_EXTENTS {
            parts.push(std::mem::replace(part, empty(queue)));
        }
    }
    parts.extend(open.into_iter().filter(|part| part.bytes > 0));
    parts
}

impl Part {
    pub fn request(&self, routes: &StripeStreams) -> Request {
        let queue = &routes.queues[self.queue];
        Request::Read { session: queue.session, stripe_set: queue.stripe_set, extents: self.extents().collect() }
    }

    /// Checks that the answer brings all that the file has of the part: only what lies behind its end may be left out.
    pub fn check(&self, answer: Answer) -> Result<ReadBytes> {
        let least = |size| Extent::bytes_until(self.extents(), size);
        match answer.reply {
            Reply::Bytes { size } if (least(size)..=self.bytes).contains(&(answer.payload.len() as u64)) => {
                Ok(ReadBytes { bytes: answer.payload, file_bytes: size })
            }
            other => {
                let why = format!(
                    "message {:#x} with {} bytes, {} asked for",
                    other.kind(),
                    answer.payload.len(),
                    self.bytes
                );
                let source = format::Error::Corrupt { what: "answer to a read", why };
                Err(Error::Protocol { peer: "the node".into(), source })
            }
        }
    }

    fn extents(&self) -> impl Iterator<Item = Extent> {
        self.targets.iter().map(|target| Extent { offset: target.offset(), bytes: target.bytes() })
    }
}

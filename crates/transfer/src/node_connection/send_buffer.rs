//! Messages on their way into the socket: heads, and payloads read where they lie.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use format::{FRAME_HEADER_BYTES, FrameHeader};

use super::socket::Socket;
use crate::message::Request;

/// Taken from a program's log at a time, so that urgent messages need not wait behind a whole window (bytes).
const QUEUE_BYTES: usize = 4 << 20;
/// Messages in one system call.
const MESSAGES_AT_ONCE: usize = 16;

/// A message's payload.
pub(crate) enum Bulk {
    None,
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Own(Vec<u8>),
    /// So many bytes, which the caller passes to each [`SendBuffer::send`] until all is sent. One message at a time
    /// may have such.
    Lent(usize),
}

struct Message {
    head: Vec<u8>,
    bulk: Bulk,
}

#[derive(Default)]
pub(super) struct SendBuffer {
    messages: VecDeque<Message>,
    queued_bytes: usize,
    /// Bytes of the first message already sent.
    sent_bytes: usize,
}

impl SendBuffer {
    pub fn has_room(&self) -> bool {
        self.queued_bytes < QUEUE_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn push(&mut self, head: Vec<u8>, bulk: Bulk) {
        let message = Message { head, bulk };
        self.queued_bytes += message.bytes();
        self.messages.push_back(message);
    }

    /// Sends until the queue is empty or the socket takes no more; returns whether it took anything.
    pub fn send(&mut self, socket: &Socket, lent: &[&[u8]]) -> io::Result<bool> {
        let mut has_sent = false;
        while !self.messages.is_empty() {
            let mut buffers = Vec::with_capacity(2 * MESSAGES_AT_ONCE);
            for message in self.messages.iter().take(MESSAGES_AT_ONCE) {
                buffers.push(IoSlice::new(&message.head));
                match &message.bulk {
                    Bulk::None => {}
                    Bulk::Shared(bytes) => buffers.push(IoSlice::new((**bytes).as_ref())),
                    Bulk::Own(bytes) => buffers.push(IoSlice::new(bytes)),
                    Bulk::Lent(_) => buffers.extend(lent.iter().map(|piece| IoSlice::new(piece))),
                }
            }
            let mut unsent = &mut buffers[..];
            IoSlice::advance_slices(&mut unsent, self.sent_bytes);
            match socket.send(unsent)? {
                0 => break,
                bytes => self.advance(bytes),
            }
            has_sent = true;
        }
        Ok(has_sent)
    }

    fn advance(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        while let Some(first) = self.messages.front() {
            let first_bytes = first.bytes();
            if self.sent_bytes < first_bytes {
                break;
            }
            self.sent_bytes -= first_bytes;
            self.queued_bytes -= first_bytes;
            self.messages.pop_front();
        }
    }
}

impl Message {
    fn bytes(&self) -> usize {
        self.head.len()
            + match &self.bulk {
                Bulk::None => 0,
                Bulk::Shared(bytes) => (**bytes).as_ref().len(),
                Bulk::Own(bytes) => bytes.len(),
                Bulk::Lent(bytes) => *bytes,
            }
    }
}

/// Returns header and body of a request; the payload is sent from where it lies.
pub(crate) fn head(request: &Request, number: u64, payload: &[&[u8]]) -> Vec<u8> {
    head_of(request.kind(), number, &request.encode(), payload)
}

pub(super) fn head_of(kind: u16, number: u64, body: &[u8], payload: &[&[u8]]) -> Vec<u8> {
    let mut head = Vec::with_capacity(FRAME_HEADER_BYTES + body.len());
    head.extend_from_slice(&FrameHeader::of_pieces(kind, number, body, payload).encode());
    head.extend_from_slice(body);
    head
}

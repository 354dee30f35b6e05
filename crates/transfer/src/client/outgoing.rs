//! Messages on their way into the socket: heads, and payloads read where they lie.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::frame::Frame;
use super::socket::Socket;

/// Taken from the log at a time, so that urgent messages need not wait behind a whole window (bytes).
const QUEUE_BYTES: usize = 4 << 20;
/// Messages in one system call.
const MESSAGES_AT_ONCE: usize = 16;

pub(super) enum Bulk {
    None,
    Frame(Arc<Frame>),
    Own(Vec<u8>),
}

struct Message {
    head: Vec<u8>,
    bulk: Bulk,
}

#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    queued_bytes: usize,
    /// Bytes of the first message already sent.
    sent_bytes: usize,
}

impl Outgoing {
    pub fn clear(&mut self) {
        *self = Outgoing::default();
    }

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

    /// Sends until the queue is empty or the socket takes no more.
    pub fn send(&mut self, socket: &Socket) -> io::Result<()> {
        while !self.messages.is_empty() {
            let mut buffers = Vec::with_capacity(2 * MESSAGES_AT_ONCE);
            let messages = self.messages.iter().take(MESSAGES_AT_ONCE);
            buffers.extend(messages.flat_map(|message| [IoSlice::new(&message.head), IoSlice::new(message.bulk())]));
            let mut unsent = &mut buffers[..];
            IoSlice::advance_slices(&mut unsent, self.sent_bytes);
            match socket.send(unsent)? {
                0 => break,
                bytes => self.advance(bytes),
            }
        }
        Ok(())
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
    fn bulk(&self) -> &[u8] {
        match &self.bulk {
            Bulk::None => &[],
            Bulk::Frame(frame) => frame.payload(),
            Bulk::Own(bytes) => bytes,
        }
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.bulk().len()
    }
}

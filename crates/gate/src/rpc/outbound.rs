//! Calls on their way out to the server: whole records, one after the other, many to a system call.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use tokio::net::TcpStream;

use super::budget::Held;

/// The most records that one system call takes.
const MAX_PIECES: usize = 64;

#[derive(Default)]
pub struct Outbound {
    records: VecDeque<Held>,
    /// How much of the first has left (bytes).
    sent_bytes: usize,
}

pub enum Flushed {
    All,
    /// The socket takes no more for now.
    Blocked,
}

impl Outbound {
    pub fn push(&mut self, record: Held) {
        self.records.push_back(record);
    }

    /// Sends until nothing is left or the socket is full.
    pub fn flush(&mut self, server: &TcpStream) -> io::Result<Flushed> {
        while !self.records.is_empty() {
            let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
            let count = self.records.len().min(MAX_PIECES);
            for (piece, record) in pieces.iter_mut().zip(&self.records) {
                *piece = IoSlice::new(record.bytes());
            }
            pieces[0].advance(self.sent_bytes);
            match server.try_write_vectored(&pieces[..count]) {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Flushed::Blocked),
                Err(error) => return Err(error),
            }
        }
        Ok(Flushed::All)
    }

    fn advance(&mut self, sent: usize) {
        self.sent_bytes += sent;
        while let Some(first) = self.records.front()
            && self.sent_bytes >= first.bytes().len()
        {
            self.sent_bytes -= first.bytes().len();
            self.records.pop_front();
        }
    }
}

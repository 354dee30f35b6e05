//! Calls on their way out to the server: whole records, one after the other, many to a system call.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use tokio::net::TcpStream;

use super::held::Held;

/// The most pieces of records that one system call takes.
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

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Sends until nothing is left or the socket is full.
    pub fn flush(&mut self, server: &TcpStream) -> io::Result<Flushed> {
        while !self.records.is_empty() {
            let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
            let slices = self.records.iter().enumerate();
            let slices = slices.flat_map(|(at, record)| record.slices(if at == 0 { self.sent_bytes } else { 0 }));
            let count = pieces.iter_mut().zip(slices).map(|(piece, slice)| *piece = slice).count();
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
            && self.sent_bytes >= first.bytes()
        {
            self.sent_bytes -= first.bytes();
            self.records.pop_front();
        }
    }
}

//! Takes whole calls from a client's stream.
//!
//! Short ones come many to a system call, through a small buffer; a long one is read straight into the memory it waits
//! in, once there is room for it. What is not read stays in the client's socket: that is how a client is held back.

use std::io::{self, ErrorKind, IoSliceMut};
use std::rc::Rc;

use tokio::net::TcpStream;

use crate::socket;

use super::budget::{COUNTED_FROM_BYTES, Held, Window};
use super::connection::{Ending, Result};
use super::record::{self, Extent, Malformed};

const BUFFER_BYTES: usize = 8 << 10;
/// Waiting for the rest of a call at once pays above this, and is kept below what a socket surely holds (bytes).
const LEAST_WAITED_BYTES: usize = 16 << 10;
const MOST_WAITED_BYTES: usize = 256 << 10;
/// The room for a long call in several fragments, whose length shows only at its end (bytes).
const FRAGMENTED_BYTES: usize = 2 << 20;
const FRAGMENTED_TOO_LONG: Malformed = Malformed("a record of several fragments above 2 MiB");

pub struct Intake {
    buffer: Vec<u8>,
    /// What was read and not taken yet.
    start: usize,
    end: usize,
}

impl Intake {
    pub fn new() -> Self {
        Intake { buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    /// The next call, or none when the client has ended; one that it has not finished by then is dropped.
    pub async fn next(&mut self, client: &TcpStream, window: &Rc<Window>) -> Result<Option<Held>> {
        loop {
            let waiting = &self.buffer[self.start..self.end];
            match record::extent(waiting).map_err(|why| Ending::Malformed { from: "client", why })? {
                Extent::Whole(bytes) if bytes <= waiting.len() => {
                    return Ok(Some(self.take_short(bytes, window).await?));
                }
                Extent::Whole(bytes) if bytes > BUFFER_BYTES => {
                    return self.take_long(bytes, bytes, client, window).await;
                }
                Extent::MoreThan(bytes) if bytes > BUFFER_BYTES => {
                    return self.take_long(bytes, FRAGMENTED_BYTES, client, window).await;
                }
                _ if !self.read_more(client).await? => return Ok(None),
                _ => {}
            }
        }
    }

    async fn take_short(&mut self, bytes: usize, window: &Rc<Window>) -> Result<Held> {
        let record = if bytes < COUNTED_FROM_BYTES {
            Held::short(&self.buffer[self.start..][..bytes])
        } else {
            let mut held = room(window, bytes).await?;
            held.bytes_mut().copy_from_slice(&self.buffer[self.start..][..bytes]);
            held
        };
        self.start += bytes;
        Ok(record)
    }

    /// `needed` bytes surely belong to the call, and it has at most `most`.
    async fn take_long(
        &mut self,
        mut needed: usize,
        most: usize,
        client: &TcpStream,
        window: &Rc<Window>,
    ) -> Result<Option<Held>> {
        let mut held = room(window, most).await?;
        let mut filled = self.end - self.start;
        held.bytes_mut()[..filled].copy_from_slice(&self.buffer[self.start..self.end]);
        (self.start, self.end) = (0, 0);
        loop {
            if needed > most {
                return Err(Ending::Malformed { from: "client", why: FRAGMENTED_TOO_LONG });
            }
            let mut is_first = true;
            while filled < needed {
                // What has come is taken at once; then one wake-up for the rest, not one for each segment of it.
                let is_waited_for = !is_first && needed - filled > LEAST_WAITED_BYTES;
                is_first = false;
                if is_waited_for {
                    socket::wake_at(client, (needed - filled).min(MOST_WAITED_BYTES))?;
                }
                // The next call mostly follows: what has come of it is read along when it surely is the next.
                let beyond = if needed == most { BUFFER_BYTES } else { 0 };
                let rest = &mut held.bytes_mut()[filled..needed];
                let rest_bytes = rest.len();
                let count = read(client, &mut [rest, &mut self.buffer[..beyond]].map(IoSliceMut::new)).await?;
                if count == 0 {
                    return Ok(None);
                }
                if is_waited_for {
                    socket::wake_at(client, 1)?;
                }
                filled += count.min(rest_bytes);
                self.end = count.saturating_sub(rest_bytes);
            }
            match record::extent(&held.bytes()[..filled]).map_err(|why| Ending::Malformed { from: "client", why })? {
                Extent::Whole(bytes) if bytes == filled => {
                    held.shorten(bytes);
                    return Ok(Some(held));
                }
                Extent::Whole(bytes) | Extent::MoreThan(bytes) => needed = bytes,
            }
        }
    }

    async fn read_more(&mut self, client: &TcpStream) -> Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = read(client, &mut [IoSliceMut::new(&mut self.buffer[self.end..])]).await?;
        self.end += count;
        Ok(count > 0)
    }
}

async fn room(window: &Rc<Window>, bytes: usize) -> Result<Held> {
    let limit_bytes = window.limit_bytes();
    if bytes > limit_bytes {
        return Err(Ending::TooLong { bytes, limit_bytes });
    }
    Ok(window.hold(bytes).await)
}

async fn read(client: &TcpStream, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    loop {
        client.readable().await?;
        match client.try_read_vectored(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

//! Takes whole calls from a client's stream.
//!
//! Short ones come many to a system call, through a small buffer; a long one is read straight into the memory it waits
//! in, which is reserved as its bytes arrive. Unread bytes stay in the client's socket, which holds the client back.
//! The beginning of a call says which application pays for it.

use std::io::{ErrorKind, IoSliceMut};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::socket;

use super::budget::{Part, Window};
use super::connection::{Ending, Result};
use super::held::{CHUNK_BYTES, Held};
use super::pace::{Pace, RECORD_TIMEOUT};
use super::record::{self, Extent, Malformed, Passing};

const BUFFER_BYTES: usize = 8 << 10;
/// As much of a long call is read before its application is asked for: credentials stand at its beginning.
const HEAD_BYTES: usize = 2 << 10;
/// Waiting for the rest of a call at once pays above this, and is kept below what a socket surely holds (bytes).
const MIN_WAITED_BYTES: usize = 16 << 10;
const MAX_WAITED_BYTES: usize = 256 << 10;

/// The intake's questions to its connection.
pub trait Owner {
    /// Returns the application that pays for the call that begins so.
    fn part(&self, beginning: &[u8]) -> Rc<Part>;
    /// Returns how long to wait for the next call now; none if that is no question yet.
    fn idle_timeout(&self) -> Option<Duration>;
}

pub struct Intake<'a> {
    client: &'a TcpStream,
    window: &'a Rc<Window>,
    buffer: Vec<u8>,
    /// The first byte not yet taken.
    start: usize,
    end: usize,
    pace: Pace,
}

impl<'a> Intake<'a> {
    pub fn new(client: &'a TcpStream, window: &'a Rc<Window>) -> Self {
        Intake { client, window, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, pace: Pace::default() }
    }

    /// Returns the next call, or none when the client has ended; one that it has not finished by then is dropped.
    pub async fn next(&mut self, owner: &impl Owner) -> Result<Option<Held>> {
        self.pace = Pace::default();
        loop {
            let waiting = &self.buffer[self.start..self.end];
            match record::extent(waiting).map_err(malformed)? {
                Extent::Whole(bytes) if bytes <= waiting.len() => {
                    return Ok(Some(self.take_short(bytes, owner).await?));
                }
                Extent::Whole(bytes) | Extent::MoreThan(bytes)
                    if bytes > BUFFER_BYTES && waiting.len() >= HEAD_BYTES =>
                {
                    return self.take_long(bytes, owner).await;
                }
                _ if !self.read_more(owner).await? => return Ok(None),
                _ => {}
            }
        }
    }

    async fn take_short(&mut self, bytes: usize, owner: &impl Owner) -> Result<Held> {
        self.check_length(bytes)?;
        let call = &self.buffer[self.start..][..bytes];
        let mut held = self.window.begin(&owner.part(call));
        held.reserve(bytes).await;
        held.copy(call);
        held.finish();
        self.start += bytes;
        Ok(held)
    }

    /// `needed` bytes surely belong to the call, more than have come.
    async fn take_long(&mut self, mut needed: usize, owner: &impl Owner) -> Result<Option<Held>> {
        self.check_length(needed)?;
        let begun = &self.buffer[self.start..self.end];
        let mut held = self.window.begin(&owner.part(begun));
        held.reserve(needed.min(CHUNK_BYTES)).await;
        held.copy(begun);
        let mut passing = Passing::default();
        passing.follow(begun, |_| ()).map_err(malformed)?;
        (self.start, self.end) = (0, 0);
        while !passing.at_boundary() {
            needed = held.bytes() + passing.needed_bytes();
            self.check_length(needed)?;
            if !self.read_rest(&mut held, needed, &mut passing).await? {
                return Ok(None);
            }
        }
        held.finish();
        Ok(Some(held))
    }

    /// Reads until there are so many bytes of the call, all of which surely belong to it.
    async fn read_rest(&mut self, held: &mut Held, needed: usize, passing: &mut Passing) -> Result<bool> {
        let mut is_first = true;
        while held.bytes() < needed {
            let left = needed - held.bytes();
            // The bytes at hand are taken at once; then one wake-up for the rest, not one for each segment of it.
            let is_waited_for = !is_first && left > MIN_WAITED_BYTES;
            is_first = false;
            if is_waited_for {
                socket::wake_at(self.client, left.min(MAX_WAITED_BYTES))?;
            }
            let timeout = self.pace.left(held.bytes());
            until_readable(self.client, timeout, &mut self.pace).await?;
            let arrived = socket::available(self.client).clamp(1, left);
            while held.room_bytes() < arrived.min(MAX_WAITED_BYTES) {
                held.reserve(left - held.room_bytes()).await;
            }
            let taken = held.room_bytes().min(left);
            // The next call mostly follows: its bytes are read too when they surely are the next call's.
            let beyond = if taken == left && passing.is_last(left) { BUFFER_BYTES } else { 0 };
            let from = held.bytes();
            let mut room = held.room(taken);
            room.push(IoSliceMut::new(&mut self.buffer[..beyond]));
            let read = self.client.try_read_vectored(&mut room);
            drop(room);
            if is_waited_for {
                socket::wake_at(self.client, 1)?;
            }
            match read {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    held.filled(count.min(taken));
                    self.end = count.saturating_sub(taken);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            for piece in held.pieces(from) {
                passing.follow(piece, |_| ()).map_err(malformed)?;
            }
        }
        Ok(true)
    }

    async fn read_more(&mut self, owner: &impl Owner) -> Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.end {
                0 => self.until_next(owner).await?,
                begun => until_readable(self.client, self.pace.left(begun), &mut self.pace).await?,
            }
            match self.client.try_read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => {
                    let count = read?;
                    self.end += count;
                    return Ok(count > 0);
                }
            }
        }
    }

    /// Waits for a call to begin.
    async fn until_next(&self, owner: &impl Owner) -> Result<()> {
        loop {
            // Checked again: calls under way may have ended meanwhile.
            let idle = owner.idle_timeout();
            match timeout(idle.unwrap_or(RECORD_TIMEOUT), self.client.readable()).await {
                Ok(readable) => return Ok(readable?),
                Err(_elapsed) if idle.is_some_and(|_| owner.idle_timeout().is_some_and(|left| left.is_zero())) => {
                    return Err(Ending::Idle);
                }
                Err(_elapsed) => {}
            }
        }
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        let limit_bytes = self.window.budget().max_record_bytes();
        if bytes > limit_bytes {
            return Err(Ending::TooLong { bytes, limit_bytes });
        }
        Ok(())
    }
}

/// Waits for more of a record, no longer than the record may take.
async fn until_readable(client: &TcpStream, left: Duration, pace: &mut Pace) -> Result<()> {
    let began = Instant::now();
    let readable = timeout(left, client.readable()).await;
    pace.waited_since(began);
    match readable {
        Ok(readable) => Ok(readable?),
        Err(_elapsed) => Err(Ending::TooSlow),
    }
}

fn malformed(why: Malformed) -> Ending {
    Ending::Malformed { from: "client", why }
}

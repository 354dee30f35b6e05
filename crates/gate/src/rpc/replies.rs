//! From the server to the client: replies pass in the pieces they are read in, not one is assembled.
//!
//! The exception is a reply that is to be changed (an NFS server's offer of transfer sizes): while one is expected, a
//! record that has begun waits until it is whole.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::budget::{Part, ReplyRoom};
use super::connection::{Connection, Ending, Result, shut_sending};
use super::nfs;
use super::record::{self, Extent, Malformed, Passing};

/// The most that is read at once (bytes).
const READ_BYTES: usize = 64 << 10;
/// The most that is read without memory for a client that may not take it; each connection has so much of its own.
const MIN_READ_BYTES: usize = 4 << 10;
/// The part of the budget that pays for replies that wait for their clients.
const REPLIES: &str = "replies";
/// A reply that is to be changed is short; longer records pass as they are (bytes).
const CHANGED_BYTES: usize = 1 << 10;

thread_local! {
    /// Where replies are read to: in use only between two waits, so one does for all connections of a thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

pub struct Replies<'a> {
    connection: &'a Connection,
    part: Rc<Part>,
    passing: Passing,
    /// The beginning of a record that may have to be changed.
    begun: Vec<u8>,
}

/// The result of one read.
enum Step {
    Passed,
    /// The client took not all of it.
    Left(Vec<u8>, Option<ReplyRoom>),
    NothingYet,
    Ended,
}

impl<'a> Replies<'a> {
    pub fn new(connection: &'a Connection) -> Self {
        let part = connection.window.budget().part(&REPLIES.into());
        Replies { connection, part, passing: Passing::default(), begun: Vec::new() }
    }

    /// Passes replies until the server has ended.
    pub async fn pass(mut self) -> Result<()> {
        loop {
            self.connection.server.readable().await?;
            match BUFFER.with_borrow_mut(|buffer| self.step(buffer))? {
                Step::Left(bytes, _room) => self.give(&bytes).await?,
                Step::Passed | Step::NothingYet => {}
                Step::Ended => break,
            }
        }
        self.give(&self.begun).await?;
        shut_sending(&self.connection.client)
    }

    fn step(&mut self, buffer: &mut [u8]) -> Result<Step> {
        let begun = self.begun.len();
        let room = self.connection.window.reply_room(&self.part, READ_BYTES);
        let most = if room.is_some() { READ_BYTES } else { MIN_READ_BYTES };
        let filled = match self.connection.server.try_read(&mut buffer[begun..most]) {
            Ok(0) => return Ok(Step::Ended),
            Ok(count) => begun + count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::NothingYet),
            Err(error) => return Err(error.into()),
        };
        buffer[..begun].copy_from_slice(&self.begun);
        let ready = self.change(&mut buffer[..filled])?;
        self.begun.clear();
        self.begun.extend_from_slice(&buffer[ready..filled]);
        let bytes = &buffer[..ready];
        self.passing.follow(bytes, |passed| self.connection.answered(passed)).map_err(malformed)?;
        self.connection.moved.set(Instant::now());
        self.connection.owed_since.set(Instant::now());
        let given = try_give(&self.connection.client, bytes)?;
        Ok(if given == bytes.len() { Step::Passed } else { Step::Left(bytes[given..].to_vec(), room) })
    }

    /// Changes the expected replies among the bytes. Says how many may pass: not the beginning of what may be one.
    fn change(&self, bytes: &mut [u8]) -> Result<usize> {
        let mut expected = self.connection.to_change.borrow_mut();
        let limit = self.connection.listener.listen.max_transfer_bytes;
        let mut at = if self.passing.at_boundary() { 0 } else { self.passing.left_bytes().unwrap_or(bytes.len()) };
        while !expected.is_empty() && at < bytes.len() {
            let here = &mut bytes[at..];
            match record::extent(here).map_err(malformed)? {
                Extent::Whole(length) if length <= here.len() => {
                    let xid = here[..length].get(4..8).map(|word| u32::from_be_bytes(word.try_into().expect("four")));
                    if let Some(found) = expected.iter().position(|expected| Some(*expected) == xid) {
                        expected.swap_remove(found);
                        nfs::lower_transfer(&mut here[..length], limit);
                    }
                    at += length;
                }
                Extent::Whole(length) | Extent::MoreThan(length) if length <= CHANGED_BYTES => return Ok(at),
                _ => break,
            }
        }
        Ok(bytes.len())
    }

    async fn give(&self, mut bytes: &[u8]) -> Result<()> {
        let client = &self.connection.client;
        while !bytes.is_empty() {
            let given = try_give(client, bytes)?;
            bytes = &bytes[given..];
            if !bytes.is_empty() {
                self.connection.until_it_moves(client.writable()).await?;
            }
        }
        Ok(())
    }
}

/// Gives the client as much as it takes now.
fn try_give(client: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match client.try_write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        done => done,
    }
}

fn malformed(why: Malformed) -> Ending {
    Ending::Malformed { from: "server", why }
}

//! A node's pending messages to one client: a bounded queue, and the thread that empties it.
//!
//! The thread that reads the client's requests sends its own answers itself, after what is queued, and may wait for the
//! client. Every other thread (a checkpoint that announces, a lock that passes on, a commit that answers) never waits for
//! a client that does not read: it sends what is short and fits, and queues the rest. The writer thread lives while there
//! is something to send, and a little longer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::message::Reply;
use crate::{Error, Result};

/// Most bytes queued for one client: announcements and late answers are short, so that a client that reads at all never
/// has this much waiting.
pub(crate) const MAX_QUEUED_BYTES: usize = 4 << 20;
/// A message of so many bytes fits wherever a socket has room at all.
const MAX_SHORT_BYTES: usize = 1 << 10;
/// How long a writer without work stays: announcements come about once a second.
const WRITER_IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// A sender that waits for its turn checks again after this long; the sends before it end within 30 s each.
const TURN_INTERVAL: Duration = Duration::from_secs(1);
/// Memory of a queued message besides its bytes (bytes).
const MESSAGE_OVERHEAD_BYTES: usize = 96;

pub(crate) struct Outgoing {
    connection: Arc<Connection>,
    state: Mutex<State>,
    /// Something was queued, sent or answered, or the connection is over.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// The thread that reads the client's requests now.
    reader: Option<ThreadId>,
    queue: VecDeque<Message>,
    queued_bytes: usize,
    /// A message is on its way to the socket; the next must not overtake it.
    is_sending: bool,
    has_writer: bool,
    is_over: bool,
    unanswered: usize,
}

struct Message {
    kind: u16,
    request: u64,
    body: Vec<u8>,
    payload: Vec<u8>,
}

impl Message {
    fn bytes(&self) -> usize {
        self.body.len() + self.payload.len() + MESSAGE_OVERHEAD_BYTES
    }
}

impl Outgoing {
    pub fn new(connection: Arc<Connection>) -> Arc<Self> {
        let (state, moved) = (Mutex::default(), Condvar::new());
        Arc::new(Outgoing { connection, state, moved })
    }

    /// Notes that from now on this thread reads the client's requests.
    pub fn read_here(&self) {
        self.lock().reader = Some(thread::current().id());
    }

    /// Notes that no thread reads the client's requests for now.
    pub fn read_nowhere(&self) {
        self.lock().reader = None;
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub fn peer(&self) -> &str {
        self.connection.peer()
    }

    pub fn send(self: &Arc<Self>, request: u64, reply: &Reply, payload: &[&[u8]]) -> Result<()> {
        let body = reply.encode();
        self.connection.check_size(&body, payload)?;
        if self.lock().reader == Some(thread::current().id()) {
            return self.send_in_turn(reply.kind(), request, &body, payload);
        }
        let message = Message { kind: reply.kind(), request, body, payload: payload.concat() };
        match message.bytes() <= MAX_SHORT_BYTES {
            true => self.send_now(&message).unwrap_or_else(|| self.queue(message)),
            false => self.queue(message),
        }
    }

    /// Sends a short message unless something else is under way or the socket has no room: then none.
    fn send_now(&self, message: &Message) -> Option<Result<()>> {
        let mut state = self.lock();
        if state.is_over || state.is_sending || !state.queue.is_empty() {
            return None;
        }
        state.is_sending = true;
        drop(state);
        if !self.connection.has_room() {
            self.lock().is_sending = false;
            self.moved.notify_all();
            return None;
        }
        let sent = self.connection.send(message.kind, message.request, &message.body, &[&message.payload]);
        drop(self.sent(&sent));
        Some(sent)
    }

    /// Sends from where the payload lies, after everything queued before.
    fn send_in_turn(&self, kind: u16, request: u64, body: &[u8], payload: &[&[u8]]) -> Result<()> {
        let mut state = self.lock();
        while !state.is_over && (state.is_sending || !state.queue.is_empty()) {
            state = self.moved.wait_timeout(state, TURN_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_over {
            return Err(self.over());
        }
        state.is_sending = true;
        drop(state);
        let sent = self.connection.send(kind, request, body, payload);
        drop(self.sent(&sent));
        sent
    }

    /// Sends a heartbeat if nothing else is under way and the socket has room: a client that has something to read
    /// needs none.
    pub fn heartbeats(&self, alive: &Reply) {
        let message = Message { kind: alive.kind(), request: 0, body: alive.encode(), payload: Vec::new() };
        // One that is lost is noticed by those who send and receive.
        let _ = self.send_now(&message);
    }

    fn queue(self: &Arc<Self>, message: Message) -> Result<()> {
        let mut state = self.lock();
        if state.is_over {
            return Err(self.over());
        }
        if !state.queue.is_empty() && state.queued_bytes + message.bytes() > MAX_QUEUED_BYTES {
            drop(self.give_up(state));
            return Err(self.over());
        }
        state.queued_bytes += message.bytes();
        state.queue.push_back(message);
        let needs_writer = !std::mem::replace(&mut state.has_writer, true);
        drop(state);
        self.moved.notify_all();
        if needs_writer {
            let outgoing = self.clone();
            let writer = thread::Builder::new().name("writer".into()).spawn(move || outgoing.write_queued());
            if writer.is_err() {
                drop(self.give_up(self.lock()));
                return Err(self.over());
            }
        }
        Ok(())
    }

    /// Runs the writer: sends what is queued until there is nothing to do for a while.
    fn write_queued(&self) {
        let mut state = self.lock();
        loop {
            let next = if state.is_sending { None } else { state.queue.pop_front() };
            if let Some(message) = next {
                state.queued_bytes -= message.bytes();
                state.is_sending = true;
                drop(state);
                let Message { kind, request, body, payload } = message;
                let sent = self.connection.send(kind, request, &body, &[&payload]);
                state = self.sent(&sent);
                continue;
            }
            let waited = self.moved.wait_timeout(state, WRITER_IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if state.is_over || (waited.1.timed_out() && state.queue.is_empty()) {
                state.has_writer = false;
                return;
            }
        }
    }

    fn sent(&self, sent: &Result<()>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.is_sending = false;
        if matches!(sent, Err(Error::Unavailable { .. })) {
            // Half a frame may have left: nothing after it could be decoded.
            return self.give_up(state);
        }
        self.moved.notify_all();
        state
    }

    /// Ends the connection; its reader notices.
    fn give_up<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_over = true;
        state.queue.clear();
        state.queued_bytes = 0;
        self.connection.shut();
        self.moved.notify_all();
        state
    }

    /// Stops sending: what is queued is dropped, and the writer ends.
    pub fn end(&self) {
        drop(self.give_up(self.lock()));
    }

    fn over(&self) -> Error {
        let why = "the client is gone, or has not read for too long".to_owned();
        Error::Unavailable { peer: self.connection.peer().to_owned(), why }
    }

    pub fn owe_answer(&self) {
        self.lock().unanswered += 1;
    }

    pub fn answered(&self) {
        self.lock().unanswered -= 1;
        self.moved.notify_all();
    }

    pub fn unanswered(&self) -> usize {
        self.lock().unanswered
    }

    pub fn wait_for_answers(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.is_over && (state.unanswered > 0 || state.is_sending || !state.queue.is_empty()) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::node_and_client;

    #[test]
    fn a_client_that_does_not_read_never_delays_the_thread_that_announces() {
        let (node, _client) = node_and_client();
        let outgoing = Outgoing::new(node);
        let announcing = thread::spawn(move || {
            let begun = Instant::now();
            let bytes = vec![7; 64 << 10];
            // More than the sockets hold and the queue may.
            let refused = (0..4000).position(|_| outgoing.send(0, &Reply::Size { size: 1 }, &[&bytes]).is_err());
            (begun.elapsed(), refused)
        });
        let (took, refused) = announcing.join().unwrap();
        assert!(refused.is_some(), "the queue has a bound");
        assert!(took < Duration::from_secs(20), "announcing took {took:?}; a send to a deaf client takes 30 s");
    }

    #[test]
    fn messages_of_all_threads_arrive_whole_and_each_thread_s_in_order() {
        let (node, client) = node_and_client();
        let outgoing = Outgoing::new(node);
        outgoing.read_here();
        let others: Vec<_> = (0..3u64)
            .map(|thread| {
                let outgoing = outgoing.clone();
                thread::spawn(move || {
                    for number in 0..200 {
                        outgoing.send(thread, &Reply::Size { size: number }, &[&[3; 999]]).unwrap();
                    }
                })
            })
            .collect();
        let reading = thread::spawn(move || {
            let mut next = [0; 4];
            for _ in 0..800 {
                let frame = client.receive().unwrap().unwrap();
                let reply = Reply::decode(frame.header.kind, &frame.body).unwrap();
                let thread = frame.header.request as usize;
                assert_eq!(reply, Reply::Size { size: next[thread] });
                next[thread] += 1;
            }
        });
        (0..200).for_each(|number| outgoing.send(3, &Reply::Size { size: number }, &[&[3; 999]]).unwrap());
        others.into_iter().for_each(|other| other.join().unwrap());
        reading.join().unwrap();
    }
}

//! Memory for long answers, from when they are made until they are sent: bounded in total, however slowly clients read.
//!
//! An answer's first 64 KiB are not counted, so that short answers never wait. Long ones wait for their turn, and leave
//! the last quarter to shorter ones. When nothing was released for 2 s while an answer waits, the connections of all
//! clients that take their answers too slowly are ended: answers that the node is still making, or that are read, are
//! waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame_memory::{FREE_BYTES, WAIT_INTERVAL};
use crate::connection::Connection;

const STALL_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BYTES: u64 = 256 << 20;
/// An answer above this takes no memory beyond three quarters of the bound.
const SHORT_BYTES: u64 = 2 << 20;

pub(crate) struct AnswerMemory {
    max_bytes: u64,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    held_bytes: u64,
    answers: BTreeMap<u64, Answer>,
    /// Long answers waiting for their turn.
    waiting: BTreeSet<u64>,
    begun: u64,
    released_at: Option<Instant>,
}

struct Answer {
    connection: Arc<Connection>,
    bytes: u64,
    is_given_up: bool,
}

/// The memory one answer holds, until it is dropped.
pub struct AnswerCharge {
    memory: Arc<AnswerMemory>,
    number: u64,
}

impl AnswerMemory {
    pub fn new() -> Arc<Self> {
        Self::with_limit(MAX_BYTES)
    }

    fn with_limit(max_bytes: u64) -> Arc<Self> {
        Arc::new(AnswerMemory { max_bytes, state: Mutex::default(), released: Condvar::new() })
    }

    /// Charges an answer of at most this many bytes: waits until there is memory for it.
    pub fn charge(self: &Arc<Self>, connection: &Arc<Connection>, bytes: u64) -> AnswerCharge {
        let long_bytes = self.max_bytes / 4 * 3;
        // An answer longer than any may be is refused once its length is known.
        let bytes = bytes.saturating_sub(FREE_BYTES).min(long_bytes);
        let is_long = bytes > SHORT_BYTES;
        let limit = if is_long { long_bytes } else { self.max_bytes };
        let begun = Instant::now();
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        if is_long {
            state.waiting.insert(number);
        }
        while bytes > 0 && !state.may_take(number, bytes, limit) {
            let slow = state.slow_readers(begun);
            if !slow.is_empty() {
                drop(state);
                slow.iter().for_each(|slow| slow.cut_off("it does not read an answer whose memory others wait for"));
                state = self.lock();
                continue;
            }
            state = self.released.wait_timeout(state, WAIT_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.remove(&number);
        state.held_bytes += bytes;
        state.answers.insert(number, Answer { connection: connection.clone(), bytes, is_given_up: false });
        AnswerCharge { memory: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_take(&self, number: u64, bytes: u64, limit: u64) -> bool {
        let is_turn = !self.waiting.contains(&number) || self.waiting.first() == Some(&number);
        is_turn && self.held_bytes + bytes <= limit
    }

    /// Returns the connections to end so that others go on. `waiting_since`: since when one of them waits.
    fn slow_readers(&mut self, waiting_since: Instant) -> Vec<Arc<Connection>> {
        let now = Instant::now();
        let since = self.released_at.map_or(waiting_since, |at| at.max(waiting_since));
        if now < since + STALL_TIMEOUT {
            return Vec::new();
        }
        let is_slow = |answer: &&mut Answer| !answer.is_given_up && answer.connection.sends_slowly();
        let slow = self.answers.values_mut().filter(is_slow).map(|answer| {
            answer.is_given_up = true;
            answer.connection.clone()
        });
        slow.collect()
    }
}

impl AnswerCharge {
    /// Shrinks the charge: the answer is made, and shorter than it might have been.
    pub fn shrink_to(&self, bytes: u64) {
        let mut state = self.memory.lock();
        let Some(answer) = state.answers.get_mut(&self.number) else { return };
        let excess = answer.bytes.saturating_sub(bytes);
        answer.bytes -= excess;
        state.held_bytes -= excess;
        drop(state);
        self.memory.released.notify_all();
    }
}

impl Drop for AnswerCharge {
    fn drop(&mut self) {
        let mut state = self.memory.lock();
        if let Some(answer) = state.answers.remove(&self.number) {
            state.held_bytes -= answer.bytes;
            state.released_at = Some(Instant::now());
        }
        drop(state);
        self.memory.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::connection::tests::node_and_client;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_client_that_does_not_read_is_given_up_for_one_that_waits_for_its_memory() {
        let memory = AnswerMemory::with_limit(64 * MIB);
        let ((deaf, _client), (honest, _other)) = (node_and_client(), node_and_client());
        let sending = {
            let (memory, deaf) = (memory.clone(), deaf.clone());
            thread::spawn(move || {
                let charge = memory.charge(&deaf, 40 * MIB);
                let sent = deaf.send(1, 1, &[], &[&vec![7; 40 << 20]]);
                drop(charge);
                sent
            })
        };
        while memory.lock().held_bytes == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // Short answers do not wait.
        drop(memory.charge(&honest, MIB));
        let begun = Instant::now();
        drop(memory.charge(&honest, 40 * MIB));
        assert!(begun.elapsed() >= STALL_TIMEOUT, "it was not given up at once");
        assert!(sending.join().unwrap().is_err());
        assert_eq!(memory.lock().held_bytes, 0);
    }

    #[test]
    fn answers_that_are_being_made_are_waited_for_and_long_ones_come_in_turn() {
        let memory = AnswerMemory::with_limit(64 * MIB);
        let (connection, _client) = node_and_client();
        let first = memory.charge(&connection, 40 * MIB);
        let (ended, order) = mpsc::channel();
        let mut threads = Vec::new();
        for (name, bytes) in [("second", 48 * MIB), ("third", 4 * MIB)] {
            let (memory, connection, ended) = (memory.clone(), connection.clone(), ended.clone());
            let waiting = memory.lock().waiting.len();
            threads.push(thread::spawn({
                let memory = memory.clone();
                move || {
                    let _charge = memory.charge(&connection, bytes);
                    ended.send(name).unwrap();
                }
            }));
            while memory.lock().waiting.len() == waiting {
                thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(order.recv_timeout(STALL_TIMEOUT + Duration::from_millis(500)).is_err(), "the first is not sent yet");
        first.shrink_to(8 * MIB);
        assert!(order.recv_timeout(Duration::from_millis(300)).is_err(), "the third does not overtake the second");
        drop(first);
        assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["second", "third"]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(connection.is_quiet(), "no connection was given up");
    }
}

//! Memory for the frames that clients send: taken as their bytes arrive, bounded in total, and released when the
//! request was handled.
//!
//! A frame's first 64 KiB are not counted, so that short requests never wait. Beyond the bound a connection is not read
//! from, which is no slowness of its peer. Two rules keep frames moving. The oldest unfinished frame always gets its
//! memory, so that one can be finished whatever the others hold. And when nothing was released for 2 s, connections are
//! ended: those that do not read the answers to their frames; else, while unfinished frames hold most of the memory, that of
//! the one that has cost most (bytes × seconds).

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Connection;

/// Bytes of each frame and each answer that are not counted.
pub(super) const FREE_BYTES: u64 = 64 << 10;
/// How often a waiting connection checks again.
pub(super) const WAIT_INTERVAL: Duration = Duration::from_millis(200);
/// The oldest frame is spared as long as it is not silent, and keeps this pace after a while.
const OLDEST_TIMEOUT: Duration = Duration::from_secs(30);
const OLDEST_BYTES_PER_S: u64 = 256 << 10;

#[derive(Clone, Copy)]
pub(super) struct FrameLimits {
    /// Bound on all frames together (bytes); the oldest may exceed it, by no more than a frame.
    pub max_bytes: u64,
    /// A frame above this takes no memory beyond three quarters of the bound: the rest is for short ones.
    pub short_bytes: u64,
    /// When nothing was released for this long, a slow frame is given up.
    pub stall_timeout: Duration,
    /// The oldest frame is slow when nothing of it has arrived for this long.
    pub silence_timeout: Duration,
}

impl Default for FrameLimits {
    fn default() -> Self {
        FrameLimits {
            max_bytes: 256 << 20,
            short_bytes: 2 << 20,
            stall_timeout: Duration::from_secs(2),
            silence_timeout: Duration::from_secs(10),
        }
    }
}

#[derive(Default)]
pub(super) struct FrameMemory {
    limits: FrameLimits,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes held, of finished frames too.
    held_bytes: u64,
    unfinished_bytes: u64,
    /// Unfinished frames, the oldest first.
    unfinished: BTreeMap<u64, Unfinished>,
    /// Frames whose requests are being handled, or answered.
    finished: BTreeMap<u64, Arc<Connection>>,
    begun: u64,
    released_at: Option<Instant>,
}

struct Unfinished {
    connection: Arc<Connection>,
    held_bytes: u64,
    begun: Instant,
    /// How long it was not read because there was no memory.
    waited: Duration,
    /// The bytes it waits for.
    wanted_bytes: Option<u64>,
    is_given_up: bool,
}

impl Unfinished {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun).saturating_sub(self.waited)
    }

    fn cost(&self, now: Instant) -> u128 {
        u128::from(self.held_bytes) * self.age(now).as_millis()
    }

    fn is_oldest_slow(&self, age: Duration, limits: &FrameLimits) -> bool {
        let spared = OLDEST_TIMEOUT + Duration::from_secs(self.held_bytes / OLDEST_BYTES_PER_S);
        age >= spared || age.min(self.connection.silence()) >= limits.silence_timeout
    }

    /// Returns whether it waits for its peer.
    fn is_receiving(&self) -> bool {
        self.wanted_bytes.is_none() && !self.is_given_up
    }
}

impl FrameMemory {
    #[cfg(test)]
    fn with_limits(limits: FrameLimits) -> Self {
        FrameMemory { limits, ..FrameMemory::default() }
    }

    /// Makes a charge for the next frame of the connection.
    pub fn charge<'a>(&'a self, connection: &'a Arc<Connection>) -> FrameCharge<'a> {
        FrameCharge { memory: self, connection, begun: None, bytes: 0, held_bytes: 0, number: None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes memory; returns how long it waited.
    fn take(&self, number: u64, wanted_bytes: u64) -> Duration {
        let begun = Instant::now();
        let mut state = self.lock();
        while !state.may_take(&self.limits, number, wanted_bytes) {
            let frame = state.unfinished.get_mut(&number).expect("who takes has begun");
            if frame.wanted_bytes.replace(wanted_bytes).is_none() {
                frame.connection.pause_frame();
            }
            if let Some(given_up) = state.give_up_when_stalled(&self.limits, begun) {
                drop(state);
                given_up.end();
                state = self.lock();
                continue;
            }
            state = self.released.wait_timeout(state, WAIT_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.held_bytes += wanted_bytes;
        state.unfinished_bytes += wanted_bytes;
        let frame = state.unfinished.get_mut(&number).expect("who takes has begun");
        frame.held_bytes += wanted_bytes;
        if frame.wanted_bytes.take().is_none() {
            return Duration::ZERO;
        }
        let waited = begun.elapsed();
        frame.waited += waited;
        waited
    }
}

impl State {
    fn may_take(&self, limits: &FrameLimits, number: u64, wanted_bytes: u64) -> bool {
        let frame = &self.unfinished[&number];
        if frame.is_given_up {
            return true;
        }
        let fits = |frame: &Unfinished, wanted_bytes| {
            let is_short = frame.held_bytes + wanted_bytes <= limits.short_bytes;
            let max_bytes = if is_short { limits.max_bytes } else { limits.max_bytes / 4 * 3 };
            self.held_bytes + wanted_bytes <= max_bytes
        };
        let mut older = self.unfinished.range(..number).map(|(_, frame)| frame).filter(|frame| !frame.is_given_up);
        let Some(oldest) = older.next() else {
            // The hard bound: frames that were the oldest may still be held, finished.
            return self.held_bytes + wanted_bytes <= limits.max_bytes + Connection::MAX_FRAME_BYTES;
        };
        // Released memory goes to frames that have waited longer.
        let waits = |older: &Unfinished| older.wanted_bytes.is_some_and(|wanted_bytes| fits(older, wanted_bytes));
        fits(frame, wanted_bytes) && !waits(oldest) && !older.any(waits)
    }

    /// Returns the connections to end so that others go on. `waiting_since`: since when one of them waits.
    fn give_up_when_stalled(&mut self, limits: &FrameLimits, waiting_since: Instant) -> Option<Abandoned> {
        let now = Instant::now();
        let since = self.released_at.map_or(waiting_since, |at| at.max(waiting_since));
        if now < since + limits.stall_timeout {
            return None;
        }
        let mut slow = Vec::new();
        self.finished.retain(|_, connection| {
            let is_slow = connection.sends_slowly();
            slow.extend(is_slow.then(|| connection.clone()));
            !is_slow
        });
        if !slow.is_empty() {
            return Some(Abandoned::Readers(slow));
        }
        // Where mostly finished frames hold the memory it is the node that is slow.
        if self.unfinished_bytes < limits.max_bytes / 2 {
            return None;
        }
        let oldest = self.unfinished.iter().find(|(_, frame)| !frame.is_given_up).map(|(number, _)| *number);
        let is_slow = |number: u64, frame: &Unfinished| {
            let age = frame.age(now);
            frame.is_receiving()
                && match Some(number) == oldest {
                    true => frame.is_oldest_slow(age, limits),
                    false => age >= limits.stall_timeout,
                }
        };
        let slow = self.unfinished.iter_mut().filter(|(number, frame)| is_slow(**number, frame));
        let (_, frame) = slow.max_by_key(|(_, frame)| frame.cost(now))?;
        frame.is_given_up = true;
        self.released_at = Some(now);
        Some(Abandoned::Sender(frame.connection.clone(), frame.held_bytes))
    }

    fn finish(&mut self, number: u64) {
        if let Some(frame) = self.unfinished.remove(&number) {
            self.unfinished_bytes -= frame.held_bytes;
            self.finished.insert(number, frame.connection);
        }
    }
}

/// Connections that are to be ended.
enum Abandoned {
    /// It has not sent its frame, which holds this many bytes, to the end.
    Sender(Arc<Connection>, u64),
    /// They do not read the answers.
    Readers(Vec<Arc<Connection>>),
}

impl Abandoned {
    fn end(self) {
        match self {
            Abandoned::Sender(connection, bytes) => {
                connection
                    .give_up(format!("its unfinished message held {bytes} bytes of memory that others waited for"));
            }
            Abandoned::Readers(slow) => {
                let why = "it does not read the answer to a message that holds memory others wait for";
                slow.iter().for_each(|connection| connection.cut_off(why));
            }
        }
    }
}

/// The memory one frame holds, until it is dropped.
pub(super) struct FrameCharge<'a> {
    memory: &'a FrameMemory,
    connection: &'a Arc<Connection>,
    /// When its header arrived.
    begun: Option<Instant>,
    bytes: u64,
    held_bytes: u64,
    number: Option<u64>,
}

impl FrameCharge<'_> {
    /// Charges more bytes of the frame that are about to be received: waits until there is memory for them, and returns
    /// how long.
    pub fn grow(&mut self, more_bytes: u64) -> Duration {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.bytes += more_bytes;
        let wanted_bytes = self.bytes.saturating_sub(FREE_BYTES).saturating_sub(self.held_bytes);
        if wanted_bytes == 0 {
            return Duration::ZERO;
        }
        let number = self.number.unwrap_or_else(|| self.begin(begun));
        let waited = self.memory.take(number, wanted_bytes);
        self.held_bytes += wanted_bytes;
        waited
    }

    fn begin(&mut self, begun: Instant) -> u64 {
        let connection = self.connection.clone();
        let frame = Unfinished {
            connection,
            held_bytes: 0,
            begun,
            waited: Duration::ZERO,
            wanted_bytes: None,
            is_given_up: false,
        };
        let mut state = self.memory.lock();
        state.begun += 1;
        let number = state.begun;
        state.unfinished.insert(number, frame);
        self.number = Some(number);
        number
    }

    /// Notes that the frame has arrived: how long it is held now is up to the node.
    pub fn finish(&mut self) {
        if let Some(number) = self.number {
            self.memory.lock().finish(number);
            self.memory.released.notify_all();
        }
    }
}

impl Drop for FrameCharge<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.memory.lock();
        state.finish(number);
        state.finished.remove(&number);
        state.held_bytes -= self.held_bytes;
        state.released_at = Some(Instant::now());
        drop(state);
        self.memory.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::connection::tests::node_and_client;

    const KIB: u64 = 1 << 10;

    fn memory() -> FrameMemory {
        FrameMemory::with_limits(FrameLimits {
            max_bytes: 4096 * KIB,
            short_bytes: 512 * KIB,
            stall_timeout: Duration::from_millis(200),
            silence_timeout: Duration::from_millis(400),
        })
    }

    fn is_given_up(connection: &Connection) -> bool {
        matches!(connection.receive(), Err(error) if error.to_string().contains("memory that others waited for"))
    }

    fn held_bytes(memory: &FrameMemory) -> u64 {
        memory.lock().held_bytes
    }

    #[test]
    fn half_frames_that_stay_are_given_up_one_by_one_and_short_frames_never_wait_for_them() {
        let memory = memory();
        let greedy: Vec<_> = (0..4).map(|_| node_and_client()).collect();
        let (honest, _client) = node_and_client();
        let given_up = AtomicUsize::new(0);
        thread::scope(|scope| {
            for (connection, _) in &greedy {
                let (memory, given_up) = (&memory, &given_up);
                scope.spawn(move || {
                    let mut charge = memory.charge(connection);
                    for _ in 0..12 {
                        charge.grow(256 * KIB);
                    }
                    // Its peer sends nothing more.
                    given_up.fetch_add(is_given_up(connection).into(), Ordering::SeqCst);
                });
            }
            for _ in 0..50 {
                let mut charge = memory.charge(&honest);
                charge.grow(FREE_BYTES + 256 * KIB);
                charge.finish();
                assert!(held_bytes(&memory) <= 4096 * KIB + Connection::MAX_FRAME_BYTES);
            }
            let deadline = Instant::now() + Duration::from_secs(60);
            while given_up.load(Ordering::SeqCst) < greedy.len() - 1 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
            // No frame waits for the memory of the last.
            greedy.iter().for_each(|(connection, _)| connection.shut());
        });
        assert_eq!(given_up.into_inner(), greedy.len() - 1);
        assert_eq!(held_bytes(&memory), 0, "what a frame held is released with it");
    }

    #[test]
    fn the_oldest_frame_gets_its_memory_whatever_others_hold() {
        let memory = memory();
        let ((oldest, _client), (other, _other_client)) = (node_and_client(), node_and_client());
        let (mut first, mut second) = (memory.charge(&oldest), memory.charge(&other));
        first.grow(FREE_BYTES + 1024 * KIB);
        second.grow(FREE_BYTES + 2048 * KIB);
        thread::scope(|scope| {
            scope.spawn(|| {
                second.grow(1024 * KIB);
                second.finish();
            });
            thread::sleep(Duration::from_millis(50));
            first.grow(8192 * KIB);
            first.finish();
            drop(first);
        });
        assert_eq!(held_bytes(&memory), 3072 * KIB);
    }

    #[test]
    fn a_client_that_does_not_read_the_answer_to_its_frame_is_given_up_for_one_that_waits() {
        let memory = memory();
        let ((deaf, _client), (honest, _other), (half, _third)) =
            (node_and_client(), node_and_client(), node_and_client());
        // So that the frame that waits is not the oldest, which always gets its memory.
        let mut oldest = memory.charge(&half);
        oldest.grow(FREE_BYTES + KIB);
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut charge = memory.charge(&deaf);
                charge.grow(FREE_BYTES + 3000 * KIB);
                charge.finish();
                deaf.send(1, 1, &[], &[&vec![7; 40 << 20]])
            });
            while held_bytes(&memory) < 3000 * KIB {
                thread::sleep(Duration::from_millis(1));
            }
            let mut charge = memory.charge(&honest);
            charge.grow(FREE_BYTES + 1024 * KIB);
            assert!(sending.join().unwrap().is_err());
        });
        assert!(half.is_quiet() && honest.is_quiet(), "others stand");
    }

    #[test]
    fn no_connection_is_given_up_while_the_node_is_slow() {
        let memory = memory();
        let pairs: Vec<_> = (0..3).map(|_| node_and_client()).collect();
        let [handled, half, waiting] = [0, 1, 2].map(|at| &pairs[at].0);
        let mut finished = memory.charge(handled);
        finished.grow(FREE_BYTES + 2800 * KIB);
        finished.finish();
        let mut oldest = memory.charge(half);
        oldest.grow(FREE_BYTES + KIB);
        let mut slow = memory.charge(half);
        slow.grow(FREE_BYTES + 200 * KIB);
        thread::scope(|scope| {
            let went_on = scope.spawn(|| memory.charge(waiting).grow(FREE_BYTES + 1024 * KIB));
            // A few stall timeouts.
            thread::sleep(Duration::from_secs(1));
            assert!(!went_on.is_finished());
            drop(finished);
            assert!(went_on.join().unwrap() >= Duration::from_millis(500), "the wait is no lateness of the peer");
        });
        assert!(half.is_quiet(), "the half frame's connection stands");
    }
}

//! The memory that calls and replies may hold: one budget for all connections, divided by application and connection.
//!
//! An application may hold twice what is still free, and each of its connections what that leaves (the dynamic
//! thresholds of Choudhury and Hahne, 1998): a few busy ones use nearly all, many share it evenly, and one that comes
//! later finds room. The largest holder is the first that is no longer read from. Memory is reserved as bytes arrive,
//! so records under way could fill an application's part and all wait for each other: then one of them at a time may
//! use the quarter that is kept back for this. Replies never wait here, since they are what frees the memory.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::abandoned::MAX_UNREAD_ROOMS;
use super::held::{CHUNK_BYTES, Held};

/// The limit of one connection (bytes).
pub const MAX_WINDOW_BYTES: usize = 16 << 20;
/// The cost of a call besides its bytes: its entries in queues and tables, and the task that waits for its grant.
pub const CALL_BYTES: usize = 1 << 10;
/// The cost of a connection by itself: a buffer for short calls, the rest of a reply, tables.
pub const CONNECTION_BYTES: usize = 16 << 10;
/// The limit on unused chunks that are kept.
const MAX_SPARE_CHUNKS: usize = 64;
/// An application may hold so many times what is free.
const THRESHOLD: usize = 2;
const MIN_COMPLETION_BYTES: usize = 2 << 20;

pub struct Budget {
    limit_bytes: Cell<usize>,
    used_bytes: Cell<usize>,
    connections: Cell<usize>,
    /// The record that may use what is kept back for completing one.
    completing: Cell<Option<u64>>,
    records: Cell<u64>,
    parts: RefCell<HashMap<Rc<str>, Rc<Part>>>,
    released: Notify,
    spare: RefCell<Vec<Vec<u8>>>,
    /// Records that wait for memory, and when one did last.
    waiting: Cell<usize>,
    waited_at: Cell<Option<Instant>>,
    /// Clients that the kernel may be made to take unread bytes of.
    pub(super) unread_rooms: Semaphore,
}

/// The memory that one application holds.
#[derive(Default)]
pub struct Part {
    held_bytes: Cell<usize>,
    /// Of that, calls that have come whole: they leave by themselves.
    whole_bytes: Cell<usize>,
}

impl Budget {
    pub fn new(limit_bytes: usize) -> Rc<Self> {
        Rc::new(Budget {
            limit_bytes: Cell::new(limit_bytes),
            used_bytes: Cell::new(0),
            connections: Cell::new(0),
            completing: Cell::new(None),
            records: Cell::new(0),
            parts: RefCell::default(),
            released: Notify::new(),
            spare: RefCell::default(),
            waiting: Cell::new(0),
            waited_at: Cell::new(None),
            unread_rooms: Semaphore::new(MAX_UNREAD_ROOMS),
        })
    }

    /// Sets the limit from now on; held memory stays.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.set(limit_bytes);
        self.released.notify_waiters();
    }

    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.get()
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Returns the most connections that may be open: by themselves they cost as much as the budget again.
    pub fn max_connections(&self) -> usize {
        self.limit_bytes.get() / CONNECTION_BYTES
    }

    /// Returns the longest record that can be held: a longer one might wait for ever beside others.
    pub fn max_record_bytes(&self) -> usize {
        self.limit_bytes.get() / 2
    }

    /// Whether a record had to wait for memory within this time.
    pub(super) fn was_short_within(&self, time: Duration) -> bool {
        self.waiting.get() > 0 || self.waited_at.get().is_some_and(|at| at.elapsed() < time)
    }

    fn wait(&self) -> Shortage<'_> {
        self.waiting.set(self.waiting.get() + 1);
        Shortage { budget: self }
    }

    /// Returns an application's part, by its name.
    pub fn part(&self, application: &Rc<str>) -> Rc<Part> {
        self.parts.borrow_mut().entry(application.clone()).or_default().clone()
    }

    /// Returns the room that only the record that completes may use besides.
    fn completion_bytes(&self) -> usize {
        let limit_bytes = self.limit_bytes.get();
        (limit_bytes / 4).max(MIN_COMPLETION_BYTES).min(limit_bytes / 2)
    }

    fn has_room(&self, window: &Window, part: &Part, bytes: usize) -> bool {
        let ordinary_bytes = self.limit_bytes.get() - self.completion_bytes();
        let Some(free_bytes) = ordinary_bytes.checked_sub(self.used_bytes.get() + bytes) else { return false };
        let part_bytes = THRESHOLD * free_bytes;
        let Some(left_bytes) = part_bytes.checked_sub(part.held_bytes.get() + bytes) else { return false };
        let held_bytes = window.held_bytes.get();
        held_bytes == 0 || held_bytes + bytes <= left_bytes.min(MAX_WINDOW_BYTES)
    }

    /// Whether this record, of which more is to come, may go on although there is no room: when nothing else of its
    /// application leaves by itself, and no other record does so now.
    fn may_complete(&self, part: &Part, record: u64, bytes: usize) -> bool {
        let is_first = self.completing.get().is_none_or(|completing| completing == record);
        is_first && part.whole_bytes.get() == 0 && self.used_bytes.get() + bytes <= self.limit_bytes.get()
    }

    fn charge(&self, window: &Window, part: &Part, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get() + bytes);
        part.held_bytes.set(part.held_bytes.get() + bytes);
        window.held_bytes.set(window.held_bytes.get() + bytes);
    }

    pub(super) fn release(&self, window: &Window, part: &Part, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get() - bytes);
        part.held_bytes.set(part.held_bytes.get() - bytes);
        window.held_bytes.set(window.held_bytes.get() - bytes);
        self.released.notify_waiters();
    }

    /// Notes that the record is whole: it leaves by itself.
    pub(super) fn completed(&self, part: &Part, record: u64, bytes: usize) {
        part.whole_bytes.set(part.whole_bytes.get() + bytes);
        self.ended(record);
    }

    /// Notes that a record that was whole has left.
    pub(super) fn left(&self, part: &Part, bytes: usize) {
        part.whole_bytes.set(part.whole_bytes.get() - bytes);
    }

    /// Notes that no more comes of this record.
    pub(super) fn ended(&self, record: u64) {
        if self.completing.get() == Some(record) {
            self.completing.set(None);
            self.released.notify_waiters();
        }
    }

    /// Returns memory whose first bytes are not cleared.
    pub(super) fn chunk(&self, bytes: usize) -> Vec<u8> {
        let spare = if bytes == CHUNK_BYTES { self.spare.borrow_mut().pop() } else { None };
        spare.unwrap_or_else(|| vec![0; bytes])
    }

    pub(super) fn keep(&self, chunk: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if chunk.len() == CHUNK_BYTES && spare.len() < MAX_SPARE_CHUNKS {
            spare.push(chunk);
        }
    }
}

/// One connection's part of the budget.
pub struct Window {
    budget: Rc<Budget>,
    held_bytes: Cell<usize>,
    /// How many parts of the connection wait for others to leave, so that its client is not read from.
    waits: Cell<usize>,
    began_waiting: Notify,
}

impl Window {
    /// None when there are as many connections as may be.
    pub fn open(budget: &Rc<Budget>) -> Option<Rc<Self>> {
        if budget.connections.get() >= budget.max_connections() {
            return None;
        }
        budget.connections.set(budget.connections.get() + 1);
        Some(Rc::new(Window {
            budget: budget.clone(),
            held_bytes: Cell::new(0),
            waits: Cell::new(0),
            began_waiting: Notify::new(),
        }))
    }

    pub fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    /// Begins a record; it holds nothing yet.
    pub fn begin(self: &Rc<Self>, part: &Rc<Part>) -> Held {
        let number = self.budget.records.get() + 1;
        self.budget.records.set(number);
        Held::new(self.clone(), part.clone(), number)
    }

    /// Waits until a record under way may hold so much more.
    pub(super) async fn reserve(&self, part: &Part, record: u64, bytes: usize) {
        let budget = &self.budget;
        let mut wait = None;
        loop {
            let released = budget.released.notified();
            if budget.has_room(self, part, bytes) {
                return budget.charge(self, part, bytes);
            }
            if budget.may_complete(part, record, bytes) {
                budget.completing.set(Some(record));
                return budget.charge(self, part, bytes);
            }
            wait.get_or_insert_with(|| (self.wait(), budget.wait()));
            released.await;
        }
    }

    /// Marks the client as not read from until the result is dropped.
    pub fn wait(&self) -> Wait<'_> {
        self.waits.set(self.waits.get() + 1);
        self.began_waiting.notify_one();
        Wait { window: self }
    }

    pub fn is_waiting(&self) -> bool {
        self.waits.get() > 0
    }

    /// Returns when the client is not read from; at once if that is so now.
    pub async fn until_it_waits(&self) {
        while !self.is_waiting() {
            self.began_waiting.notified().await;
        }
    }

    /// Returns room for a piece of a reply, or none at once: replies do not wait.
    pub fn reply_room(self: &Rc<Self>, part: &Rc<Part>, bytes: usize) -> Option<ReplyRoom> {
        if !self.budget.has_room(self, part, bytes) {
            return None;
        }
        self.budget.charge(self, part, bytes);
        Some(ReplyRoom { window: self.clone(), part: part.clone(), bytes })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.budget.connections.set(self.budget.connections.get() - 1);
    }
}

/// The client is not read from as long as this lives.
pub struct Wait<'a> {
    window: &'a Window,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.window.waits.set(self.window.waits.get() - 1);
    }
}

/// A record waits for memory as long as this lives.
struct Shortage<'a> {
    budget: &'a Budget,
}

impl Drop for Shortage<'_> {
    fn drop(&mut self) {
        self.budget.waiting.set(self.budget.waiting.get() - 1);
        self.budget.waited_at.set(Some(Instant::now()));
    }
}

/// The memory held for a reply that the client does not take. Released when dropped.
pub struct ReplyRoom {
    window: Rc<Window>,
    part: Rc<Part>,
    bytes: usize,
}

impl Drop for ReplyRoom {
    fn drop(&mut self) {
        self.window.budget.release(&self.window, &self.part, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MIB: usize = 1 << 20;

    struct Client {
        window: Rc<Window>,
        part: Rc<Part>,
    }

    impl Client {
        fn of(budget: &Rc<Budget>, application: &str) -> Self {
            Client { window: Window::open(budget).unwrap(), part: budget.part(&application.into()) }
        }

        /// As much of a record as is given without waiting.
        fn hold(&self, bytes: usize) -> Held {
            let mut record = self.window.begin(&self.part);
            grow(&mut record, bytes);
            record
        }

        fn whole(&self, bytes: usize) -> Option<Held> {
            let mut record = self.window.begin(&self.part);
            grow(&mut record, bytes).then(|| {
                record.finish();
                record
            })
        }
    }

    fn grow(record: &mut Held, bytes: usize) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        while record.room_bytes() + record.bytes() < bytes {
            let left_bytes = bytes - record.bytes() - record.room_bytes();
            let Poll::Ready(()) = Box::pin(record.reserve(left_bytes.min(CHUNK_BYTES))).as_mut().poll(&mut context)
            else {
                return false;
            };
        }
        record.filled(bytes - record.bytes());
        true
    }

    #[test]
    fn an_application_that_takes_all_it_can_leaves_room_to_others() {
        let budget = Budget::new(64 * MIB);
        let greedy: Vec<Client> = (0..200).map(|_| Client::of(&budget, "greedy")).collect();
        let all: Vec<Held> = (0..100).flat_map(|_| &greedy).filter_map(|client| client.whole(256 << 10)).collect();
        let held_bytes = budget.part(&"greedy".into()).held_bytes.get();
        assert!((24 * MIB..=32 * MIB).contains(&held_bytes), "{held_bytes}");
        let late = Client::of(&budget, "late");
        let taken: Vec<Held> = (0..8).map_while(|_| late.whole(MIB)).collect();
        assert_eq!(taken.len(), 8);
        drop((all, taken));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_connection_holds_its_window_and_a_later_one_of_the_same_application_finds_room() {
        let budget = Budget::new(64 * MIB);
        let (first, late) = (Client::of(&budget, "one"), Client::of(&budget, "one"));
        let all: Vec<Held> = (0..100).map_while(|_| first.whole(MIB)).collect();
        assert!((12..=16).contains(&all.len()), "{}", all.len());
        assert!(late.whole(MIB).is_some());
    }

    #[test]
    fn records_under_way_that_fill_their_part_come_to_their_end_one_by_one() {
        let budget = Budget::new(8 * MIB);
        let clients: Vec<Client> = (0..100).map(|_| Client::of(&budget, "one")).collect();
        let mut records: Vec<Held> = clients.iter().map(|client| client.hold(64 << 10)).collect();
        let others = Client::of(&budget, "other");
        assert!(others.whole(256 << 10).is_some(), "another application has its part");
        let mut rounds = 0;
        while !records.is_empty() {
            records.retain_mut(|record| {
                let is_whole = grow(record, MIB);
                if is_whole {
                    record.finish();
                }
                !is_whole
            });
            rounds += 1;
            assert!(rounds <= 200, "{} of 100 wait for each other", records.len());
            assert!(budget.used_bytes() <= 8 * MIB);
        }
    }

    #[test]
    fn chunks_are_used_again_and_few_are_kept() {
        let budget = Budget::new(64 * MIB);
        let client = Client::of(&budget, "one");
        drop(client.whole(8 * MIB).unwrap());
        assert_eq!(budget.spare.borrow().len(), MAX_SPARE_CHUNKS);
    }

    #[test]
    fn connections_are_as_many_as_their_own_memory_allows() {
        let budget = Budget::new(4 * MIB);
        let all: Vec<_> = std::iter::from_fn(|| Window::open(&budget)).collect();
        assert_eq!(all.len(), 256);
        drop(all);
        assert_eq!(budget.connections(), 0);
    }
}

//! The seats this node holds, and who listens to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use format::SessionId;
use repository::{DurableUpTo, Result, Seat, Source};
use transfer::Outbox;
use transfer::message::Reply;

use super::Node;

/// A seat with its listeners.
pub(crate) struct Slot {
    pub seat: Seat,
    /// By connection: of two connections of one stream, the end of the old one must not silence the new one.
    listeners: Mutex<HashMap<ConnectionId, (Source, Outbox)>>,
    /// How many connections attached and did not detach, and since when there are none.
    users: Mutex<(usize, Instant)>,
    /// A settle is under way or asked for.
    pub settling: AtomicBool,
    /// A client's window is full: do not wait for segments to become whole.
    pub pressed: AtomicBool,
    pub settled_at: Mutex<Instant>,
    /// When segments that are not whole were last stored too.
    pub completed_at: Mutex<Instant>,
    /// The listeners have been sent the seat's failure.
    failure_sent: AtomicBool,
}

/// A connection's own number at this node.
pub(crate) type ConnectionId = u64;

/// A connection that uses a seat.
pub(crate) struct User {
    pub connection: ConnectionId,
    pub source: Source,
    pub outbox: Outbox,
}

type Key = (SessionId, u32);

#[derive(Default)]
pub(crate) struct Seats {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Seats {
    pub fn get(&self, session: SessionId, seat: u32) -> Option<Arc<Slot>> {
        self.slots.lock().expect("no panic holds it").get(&(session, seat)).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().expect("no panic holds it").values().cloned().collect()
    }

    /// The seat, taken if this node does not hold it yet, with one more user. One that failed stays as long as it has
    /// users: what they sent is in it, and all of them must hear of the failure.
    fn use_seat(&self, key: Key, user: User, take: impl FnOnce() -> Result<Seat>) -> Result<Arc<Slot>> {
        let mut slots = self.slots.lock().expect("no panic holds it");
        let slot = match slots.get(&key) {
            Some(slot) => slot.clone(),
            None => Arc::new(Slot::new(take()?)),
        };
        slot.add_user(user);
        slots.insert(key, slot.clone());
        Ok(slot)
    }

    /// Lets go of a seat that nobody uses and that holds nothing that is not durable (or has failed).
    fn remove_unused(&self, slot: &Arc<Slot>) {
        let key = (slot.seat.options().session, slot.seat.options().seat);
        let mut slots = self.slots.lock().expect("no panic holds it");
        let is_done = slot.idle_for().is_some() && (slot.seat.failure().is_some() || !slot.seat.has_unsettled());
        if is_done && slots.get(&key).is_some_and(|held| Arc::ptr_eq(held, slot)) {
            slots.remove(&key);
        }
    }
}

impl Slot {
    fn new(seat: Seat) -> Self {
        Slot {
            seat,
            listeners: Mutex::default(),
            users: Mutex::new((0, Instant::now())),
            settling: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            settled_at: Mutex::new(Instant::now()),
            completed_at: Mutex::new(Instant::now()),
            failure_sent: AtomicBool::new(false),
        }
    }

    /// Tells each stream how far its pieces are durable.
    fn announce(&self, moved: Vec<DurableUpTo>) {
        let options = self.seat.options();
        let listeners = self.listeners();
        for DurableUpTo { source, sequence, held } in moved {
            let durable = Reply::Durable { session: options.session, seat: options.seat, sequence, held };
            for (_, outbox) in listeners.iter().filter(|(listening, _)| *listening == source) {
                // A client that is gone hears it again when it attaches anew and sends what it still keeps.
                let _ = outbox.push(&durable, &[]);
            }
        }
    }

    /// Sends the seat's failure, if it has failed, to every connection that uses it: some wait for nothing but `Durable`.
    /// Connections that attach later get it as their answer.
    pub fn announce_failure(&self) {
        let Err(error) = self.seat.size() else { return };
        if self.failure_sent.swap(true, Ordering::AcqRel) {
            return;
        }
        let options = self.seat.options();
        let failed =
            Reply::SeatFailed { session: options.session, seat: options.seat, failure: super::failure::of(error) };
        for (_, outbox) in self.listeners() {
            // A client that is gone gets it when it attaches anew.
            let _ = outbox.push(&failed, &[]);
        }
    }

    /// A copy, so that nothing is sent while the lock is held.
    fn listeners(&self) -> Vec<(Source, Outbox)> {
        self.listeners.lock().expect("no panic holds it").values().cloned().collect()
    }

    fn add_user(&self, user: User) {
        self.users.lock().expect("no panic holds it").0 += 1;
        self.listeners.lock().expect("no panic holds it").insert(user.connection, (user.source, user.outbox));
    }

    /// A connection is done with the seat, or gone.
    pub fn drop_user(&self, connection: ConnectionId) {
        self.listeners.lock().expect("no panic holds it").remove(&connection);
        let mut users = self.users.lock().expect("no panic holds it");
        *users = (users.0 - 1, Instant::now());
    }

    /// For how long nobody has used the seat.
    pub fn idle_for(&self) -> Option<Duration> {
        let users = self.users.lock().expect("no panic holds it");
        (users.0 == 0).then(|| users.1.elapsed())
    }
}

impl Node {
    /// The stream will use the seat: it is taken if need be, and its durable pieces are announced there.
    pub(crate) fn attach(&self, session: SessionId, seat: u32, user: User) -> Result<Arc<Slot>> {
        let source = user.source;
        let slot = self.seats.use_seat((session, seat), user, || {
            let (repository, budget) = (self.repository.clone(), self.budget.clone());
            Seat::take(repository, budget, session, seat, self.holder, MPI_SEGMENT_BYTES)
        })?;
        // One that failed says so when it is asked for its size, which attaching does next.
        slot.announce(slot.seat.durable_up_to(source).ok().flatten().into_iter().collect());
        Ok(slot)
    }

    /// The connection is done with the seat; the last one's going settles and frees it.
    pub(crate) fn detach(&self, slot: &Arc<Slot>, connection: ConnectionId) -> Result<()> {
        slot.drop_user(connection);
        if slot.idle_for().is_some() { self.free(slot) } else { Ok(()) }
    }

    /// Makes what the seat holds durable and lets go of it; whoever comes next takes it again.
    pub(crate) fn free(&self, slot: &Arc<Slot>) -> Result<()> {
        let settled = if slot.seat.failure().is_none() { self.settle(slot, true, None) } else { Ok(()) };
        self.seats.remove_unused(slot);
        settled
    }

    /// Settles and tells the senders.
    pub(crate) fn settle(&self, slot: &Slot, fragments: bool, epoch: Option<u64>) -> Result<()> {
        slot.pressed.store(false, Ordering::Relaxed);
        let settled = slot.seat.settle(self.new_claimant(), fragments, epoch);
        if settled.is_err() {
            slot.announce_failure();
        }
        let moved = settled?;
        *slot.settled_at.lock().expect("no panic holds it") = Instant::now();
        if fragments {
            *slot.completed_at.lock().expect("no panic holds it") = Instant::now();
        }
        slot.announce(moved);
        Ok(())
    }
}

/// MPI writes are cut at multiples of this (bytes): DDiHA's default.
pub(crate) const MPI_SEGMENT_BYTES: u32 = 8192;

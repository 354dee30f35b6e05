//! The seats this node holds, and who listens to them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use format::SessionId;
use repository::{Result, Seat, Source};
use transfer::message::Reply;
use transfer::Outbox;

use super::Node;

/// A seat with its listeners.
pub(crate) struct Slot {
    pub seat: Seat,
    listeners: Mutex<HashMap<Source, Outbox>>,
    users: Mutex<HashSet<u64>>,
    /// In the workers' queue.
    pub queued: AtomicBool,
    /// A settle is under way or asked for.
    pub settling: AtomicBool,
    /// A client's window is full: do not wait for segments to become whole.
    pub pressed: AtomicBool,
    pub settled_at: Mutex<Instant>,
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

    pub fn of_session(&self, session: SessionId) -> Vec<Arc<Slot>> {
        self.all().into_iter().filter(|slot| slot.seat.options().session == session).collect()
    }

    /// The seat, taken if this node does not hold it yet.
    fn get_or_take(&self, key: Key, take: impl FnOnce() -> Result<Seat>) -> Result<Arc<Slot>> {
        let mut slots = self.slots.lock().expect("no panic holds it");
        if let Some(slot) = slots.get(&key).filter(|slot| slot.seat.failure().is_none()) {
            return Ok(slot.clone());
        }
        let slot = Arc::new(Slot::new(take()?));
        slots.insert(key, slot.clone());
        Ok(slot)
    }

    fn remove(&self, slot: &Arc<Slot>) {
        let key = (slot.seat.options().session, slot.seat.options().seat);
        let mut slots = self.slots.lock().expect("no panic holds it");
        if slots.get(&key).is_some_and(|held| Arc::ptr_eq(held, slot)) {
            slots.remove(&key);
        }
    }
}

impl Slot {
    fn new(seat: Seat) -> Self {
        Slot {
            seat,
            listeners: Mutex::default(),
            users: Mutex::default(),
            queued: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            settled_at: Mutex::new(Instant::now()),
        }
    }

    /// Tells each stream how far its pieces are durable.
    fn announce(&self, moved: &[(Source, u64)]) {
        let options = self.seat.options();
        let listeners = self.listeners.lock().expect("no panic holds it");
        for (source, sequence) in moved {
            if let Some(outbox) = listeners.get(source) {
                let durable = Reply::Durable { session: options.session, seat: options.seat, sequence: *sequence };
                outbox.push(&durable);
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.users.lock().expect("no panic holds it").is_empty()
    }
}

impl Node {
    /// The stream will use the seat: it is taken if need be, and its durable pieces are announced there.
    pub(crate) fn attach(&self, session: SessionId, seat: u32, source: Source, outbox: Outbox) -> Result<Arc<Slot>> {
        let slot = self.seats.get_or_take((session, seat), || {
            let (repository, budget) = (self.repository.clone(), self.budget.clone());
            Seat::take(repository, budget, session, seat, self.holder, MPI_SEGMENT_BYTES)
        })?;
        slot.users.lock().expect("no panic holds it").insert(source.client);
        slot.listeners.lock().expect("no panic holds it").insert(source, outbox);
        Ok(slot)
    }

    /// The client is done with the seat; the last one's going settles and frees it.
    pub(crate) fn detach(&self, slot: &Arc<Slot>, client: u64) -> Result<()> {
        slot.listeners.lock().expect("no panic holds it").retain(|source, _| source.client != client);
        let last = {
            let mut users = slot.users.lock().expect("no panic holds it");
            users.remove(&client) && users.is_empty()
        };
        if last && slot.seat.failure().is_none() {
            self.settle(slot, true, None)?;
        }
        slot.seat.forget_client(client);
        if slot.is_idle() {
            self.seats.remove(slot);
        }
        Ok(())
    }

    /// Settles and tells the senders.
    pub(crate) fn settle(&self, slot: &Slot, fragments: bool, epoch: Option<u64>) -> Result<()> {
        slot.pressed.store(false, Ordering::Relaxed);
        let moved = slot.seat.settle(self.new_claimant(), fragments, epoch)?;
        *slot.settled_at.lock().expect("no panic holds it") = Instant::now();
        slot.announce(&moved);
        Ok(())
    }
}

/// MPI writes are cut at multiples of this (bytes): DDiHA's default.
pub(crate) const MPI_SEGMENT_BYTES: u32 = 8192;

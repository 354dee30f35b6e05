//! The seats this node holds, and who listens to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use format::{HandleKey, SessionId};
use repository::{DurableUpTo, Result, Seat, Source};
use transfer::message::Reply;
use transfer::{Outbox, Replier};

use super::Node;
use super::company::{self, Company, Due};
use super::traffic::ApplicationTraffic;

/// A seat with its listeners.
pub(crate) struct Slot {
    pub seat: Seat,
    users: Mutex<Users>,
    /// A settle is under way or asked for.
    pub settling: AtomicBool,
    /// A client's window is full: do not wait for segments to become whole.
    pub pressed: AtomicBool,
    pub settled_at: Mutex<Instant>,
    /// When segments that are not whole were last stored too.
    pub completed_at: Mutex<Instant>,
    /// A user came since it was last looked at whether there is any.
    is_touched: AtomicBool,
    /// The listeners have been sent the seat's failure.
    failure_sent: AtomicBool,
    /// Of the connection for which the seat was taken: what is stored counts as its.
    application: Arc<ApplicationTraffic>,
}

/// The connections that attached and did not detach.
struct Users {
    /// By connection: of two connections of one stream, the end of the old one must not silence the new one.
    listeners: HashMap<ConnectionId, (Source, Outbox)>,
    /// When the last one went.
    none_since: Instant,
    company: Company,
}

/// A connection's own number at this node.
pub(crate) type ConnectionId = u64;

/// A connection that uses a seat.
pub(crate) struct User {
    pub connection: ConnectionId,
    pub source: Source,
    /// Of the handle it attached with.
    pub key: HandleKey,
    pub outbox: Outbox,
    pub application: Arc<ApplicationTraffic>,
}

type Key = (SessionId, u32);

/// The map is locked for moments only; whoever takes a seat asks the catalog and reads manifests under that seat's own lock.
#[derive(Default)]
pub(crate) struct Seats {
    entries: Mutex<HashMap<Key, Arc<Entry>>>,
}

/// A seat of this node, or one that is being taken.
#[derive(Default)]
struct Entry {
    slot: OnceLock<Arc<Slot>>,
    taking: Mutex<()>,
    /// Connections on their way to become users; changed under the map's lock.
    attaching: Mutex<usize>,
}

impl Seats {
    pub fn all(&self) -> Vec<Arc<Slot>> {
        self.entries().values().filter_map(|entry| entry.slot.get().cloned()).collect()
    }

    /// The seat, taken if this node does not hold it yet, with one more user. One that failed stays as long as it has
    /// users: what they sent is in it, and all of them must hear of the failure.
    fn use_seat(&self, key: Key, user: User, take: impl FnOnce() -> Result<Seat>) -> Result<Arc<Slot>> {
        let entry = {
            let mut entries = self.entries();
            let entry = entries.entry(key).or_default().clone();
            *entry.attaching() += 1;
            entry
        };
        let taken = entry.slot_or_take(&user.application, take);
        if let Ok(slot) = &taken {
            slot.add_user(user);
        }
        let mut entries = self.entries();
        *entry.attaching() -= 1;
        if entry.slot.get().is_none() && *entry.attaching() == 0 {
            entries.remove(&key);
        }
        drop(entries);
        taken
    }

    /// Removes a seat that nobody uses and that holds nothing that is not durable (or has failed).
    fn remove_unused(&self, slot: &Arc<Slot>) {
        // What has no users receives nothing: this stays true until the map is locked, unless somebody comes.
        slot.is_touched.store(false, Ordering::SeqCst);
        if slot.idle_for().is_none() || (slot.seat.failure().is_none() && slot.seat.has_unsettled()) {
            return;
        }
        let key = (slot.seat.options().session, slot.seat.options().seat);
        let mut entries = self.entries();
        let Some(entry) = entries.get(&key) else { return };
        let is_it = entry.slot.get().is_some_and(|held| Arc::ptr_eq(held, slot));
        let is_unused = *entry.attaching() == 0 && slot.idle_for().is_some();
        // Somebody may have come, and gone, since it was looked at.
        if is_it && is_unused && !slot.is_touched.load(Ordering::SeqCst) {
            entries.remove(&key);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Arc<Entry>>> {
        self.entries.lock().expect("no panic holds it")
    }
}

impl Entry {
    fn slot_or_take(
        &self,
        application: &Arc<ApplicationTraffic>,
        take: impl FnOnce() -> Result<Seat>,
    ) -> Result<Arc<Slot>> {
        if let Some(slot) = self.slot.get() {
            return Ok(slot.clone());
        }
        let _taking = self.taking.lock().expect("no panic holds it");
        if let Some(slot) = self.slot.get() {
            return Ok(slot.clone());
        }
        let slot = Arc::new(Slot::new(take()?, application.clone()));
        Ok(self.slot.get_or_init(|| slot).clone())
    }

    fn attaching(&self) -> MutexGuard<'_, usize> {
        self.attaching.lock().expect("no panic holds it")
    }
}

impl Slot {
    fn new(seat: Seat, application: Arc<ApplicationTraffic>) -> Self {
        Slot {
            seat,
            users: Mutex::new(Users {
                listeners: HashMap::new(),
                none_since: Instant::now(),
                company: Company::default(),
            }),
            is_touched: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            settled_at: Mutex::new(Instant::now()),
            completed_at: Mutex::new(Instant::now()),
            failure_sent: AtomicBool::new(false),
            application,
        }
    }

    /// To be called after something was reduced or settled.
    pub fn count_stored(&self) {
        self.application.stored(self.seat.take_stored_bytes());
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

    /// Sends the seat's failure to every connection that uses it: some wait for nothing but `Durable`.
    /// Connections that attach later get it as their answer.
    fn announce_failure(&self, error: repository::Error) {
        if self.failure_sent.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!("storing what was received for a file failed, and its writers are sent why: {error}");
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
        self.users().listeners.values().cloned().collect()
    }

    fn add_user(&self, user: User) {
        let mut users = self.users();
        users.company.came(user.source, user.key);
        users.listeners.insert(user.connection, (user.source, user.outbox));
        self.is_touched.store(true, Ordering::SeqCst);
    }

    /// A connection is gone, and may come back.
    pub fn drop_user(&self, connection: ConnectionId) {
        let mut users = self.users();
        users.listeners.remove(&connection);
        users.none_since = Instant::now();
        let unanswered = users.company.forget(connection);
        drop(users);
        unanswered.into_iter().for_each(Replier::withhold);
    }

    /// A connection is done with the seat.
    fn end_use(&self, connection: ConnectionId) {
        let mut users = self.users();
        if let Some((source, _)) = users.listeners.get(&connection).cloned() {
            users.company.went(source);
        }
        drop(users);
        self.drop_user(connection);
        self.answer_the_last();
    }

    /// Answers when the connection's process is the last of so many that use the seat with its handle, or when the others
    /// stay idle, or away.
    pub fn await_others(&self, of: (ConnectionId, Source), processes: u32, replier: Replier) {
        let refused = self.users().company.wait(of, processes, Instant::now(), replier);
        refused.map_or_else(|| self.answer_the_last(), company::too_many);
    }

    /// Answers those who waited to be the last, or have waited long enough.
    pub fn answer_the_last(&self) {
        if !self.users().company.is_awaited() {
            return;
        }
        let has_unsettled = self.seat.has_unsettled();
        let due = self.users().company.due(has_unsettled, Instant::now());
        due.into_iter().for_each(Due::send);
    }

    /// For how long nobody has used the seat.
    pub fn idle_for(&self) -> Option<Duration> {
        let users = self.users();
        users.listeners.is_empty().then(|| users.none_since.elapsed())
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().expect("no panic holds it")
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
        slot.end_use(connection);
        if slot.idle_for().is_some() { self.free(slot) } else { Ok(()) }
    }

    /// Makes what the seat holds durable and lets go of it; whoever comes next takes it again.
    pub(crate) fn free(&self, slot: &Arc<Slot>) -> Result<()> {
        let settled = if slot.seat.failure().is_none() { self.settle(slot, true, None) } else { Ok(()) };
        self.seats.remove_unused(slot);
        settled
    }

    /// Sends the seat's failure, if it has one, to those who use it.
    pub(crate) fn report_failure(&self, slot: &Slot) {
        let Err(error) = slot.seat.size() else { return };
        // Where the node's own lease is lost, the node begins anew and the clients ask it then. Where that is not known
        // yet, the keeper comes back to the seat.
        if self.repository.lease().explains_now(&error.to_string()) == Some(false) {
            slot.announce_failure(error);
        }
    }

    pub(crate) fn report_failures(&self) {
        self.seats.all().iter().for_each(|slot| self.report_failure(slot));
    }

    /// Settles and tells the senders.
    pub(crate) fn settle(&self, slot: &Slot, fragments: bool, epoch: Option<u64>) -> Result<()> {
        slot.pressed.store(false, Ordering::Relaxed);
        let settled = slot.seat.settle(self.new_claimant(), fragments, epoch);
        slot.count_stored();
        if settled.is_err() {
            self.report_failure(slot);
        }
        let moved = settled?;
        self.advance();
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

//! The stripe sets this node owns, and their users.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use format::{HandleKey, SessionId};
use repository::{DurableUpTo, Result, Source, StripeOwner};
use transfer::message::Reply;
use transfer::{ClientSender, Replier};

use super::Node;
use super::detach_waiters::{self, DetachWaiters, Due};
use super::shared_pointers::SharedPointers;
use super::traffic::ApplicationTraffic;

/// A stripe set with its listeners.
pub(crate) struct OwnerEntry {
    pub owner: StripeOwner,
    users: Mutex<Users>,
    /// A checkpoint is under way or asked for.
    pub checkpoint_steps: AtomicBool,
    /// A client's window is full: do not wait for segments to become whole.
    pub hinted: AtomicBool,
    pub checkpointed_at: Mutex<Instant>,
    /// When segments that are not whole were last stored too.
    pub completed_at: Mutex<Instant>,
    /// A user came since the last check for users.
    is_touched: AtomicBool,
    /// The listeners have been sent the stripe set's failure.
    failure_sent: AtomicBool,
    pub(super) shared_pointers: SharedPointers,
    /// Of the connection for which the stripe set was taken: stored bytes count as its.
    application: Arc<ApplicationTraffic>,
}

/// The connections that attached and did not detach.
struct Users {
    /// By connection: of two connections of one stream, the end of the old one must not silence the new one.
    listeners: HashMap<ConnectionId, (Source, ClientSender)>,
    /// When the last one went.
    none_since: Instant,
    detach_waiters: DetachWaiters,
}

/// A connection's own number at this node.
pub(crate) type ConnectionId = u64;

/// A connection that uses a stripe set.
pub(crate) struct User {
    pub connection: ConnectionId,
    pub source: Source,
    /// Of the handle it attached with.
    pub key: HandleKey,
    pub outbox: ClientSender,
    pub application: Arc<ApplicationTraffic>,
}

type Key = (SessionId, u32);

/// The map is locked for moments only; taking a stripe set reads catalog and manifests under that stripe set's own
/// lock.
#[derive(Default)]
pub(crate) struct StripeOwners {
    entries: Mutex<HashMap<Key, Arc<OwnerCell>>>,
}

/// A stripe set of this node, or one that is being taken.
#[derive(Default)]
struct OwnerCell {
    entry: OnceLock<Arc<OwnerEntry>>,
    taking: Mutex<()>,
    /// Connections on their way to become users; changed under the map's lock.
    attaching: Mutex<usize>,
}

impl StripeOwners {
    pub fn all(&self) -> Vec<Arc<OwnerEntry>> {
        self.entries().values().filter_map(|cell| cell.entry.get().cloned()).collect()
    }

    /// Returns the stripe set, taken if this node does not hold it yet, with one more user. One that failed stays as
    /// long as it has users: their pieces are in it, and all of them must get the failure.
    fn use_stripe_set(
        &self,
        key: Key,
        user: User,
        take: impl FnOnce() -> Result<StripeOwner>,
    ) -> Result<Arc<OwnerEntry>> {
        let cell = {
            let mut entries = self.entries();
            let cell = entries.entry(key).or_default().clone();
            *cell.attaching() += 1;
            cell
        };
        let taken = cell.slot_or_take(&user.application, take);
        if let Ok(entry) = &taken {
            entry.add_user(user);
        }
        let mut entries = self.entries();
        *cell.attaching() -= 1;
        if cell.entry.get().is_none() && *cell.attaching() == 0 {
            entries.remove(&key);
        }
        drop(entries);
        taken
    }

    /// Forgets the shared file pointer of a handle that was taken off its session.
    pub fn forget_pointer(&self, session: SessionId, key: &HandleKey) {
        let cell = self.entries().get(&(session, HOME_STRIPE_SET)).cloned();
        if let Some(entry) = cell.and_then(|cell| cell.entry.get().cloned()) {
            entry.shared_pointers.forget(key);
        }
    }

    /// Removes a stripe set without users that holds nothing that is not durable (or has failed).
    fn remove_unused(&self, entry: &Arc<OwnerEntry>) {
        // Without users it receives nothing: this stays true until the map is locked, unless a user comes.
        entry.is_touched.store(false, Ordering::SeqCst);
        if entry.idle_for().is_none() || (entry.owner.failure().is_none() && entry.owner.has_uncheckpointed()) {
            return;
        }
        let key = (entry.owner.options().session, entry.owner.options().stripe_set);
        let mut entries = self.entries();
        let Some(cell) = entries.get(&key) else { return };
        let is_it = cell.entry.get().is_some_and(|held| Arc::ptr_eq(held, entry));
        let is_unused = *cell.attaching() == 0 && entry.idle_for().is_some();
        // A user may have come, and gone, since the check.
        if is_it && is_unused && !entry.is_touched.load(Ordering::SeqCst) {
            entries.remove(&key);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Arc<OwnerCell>>> {
        self.entries.lock().expect("no panic holds it")
    }
}

impl OwnerCell {
    fn slot_or_take(
        &self,
        application: &Arc<ApplicationTraffic>,
        take: impl FnOnce() -> Result<StripeOwner>,
    ) -> Result<Arc<OwnerEntry>> {
        if let Some(entry) = self.entry.get() {
            return Ok(entry.clone());
        }
        let _taking = self.taking.lock().expect("no panic holds it");
        if let Some(entry) = self.entry.get() {
            return Ok(entry.clone());
        }
        let entry = Arc::new(OwnerEntry::new(take()?, application.clone()));
        Ok(self.entry.get_or_init(|| entry).clone())
    }

    fn attaching(&self) -> MutexGuard<'_, usize> {
        self.attaching.lock().expect("no panic holds it")
    }
}

impl OwnerEntry {
    fn new(owner: StripeOwner, application: Arc<ApplicationTraffic>) -> Self {
        OwnerEntry {
            owner,
            users: Mutex::new(Users {
                listeners: HashMap::new(),
                none_since: Instant::now(),
                detach_waiters: DetachWaiters::default(),
            }),
            is_touched: AtomicBool::new(false),
            checkpoint_steps: AtomicBool::new(false),
            hinted: AtomicBool::new(false),
            checkpointed_at: Mutex::new(Instant::now()),
            completed_at: Mutex::new(Instant::now()),
            failure_sent: AtomicBool::new(false),
            shared_pointers: SharedPointers::default(),
            application,
        }
    }

    /// To be called after something was reduced or checkpointed.
    pub fn count_stored(&self) {
        self.application.stored(self.owner.take_stored_bytes());
    }

    /// Notifies each stream how far its pieces are durable.
    fn announce(&self, moved: Vec<DurableUpTo>) {
        let options = self.owner.options();
        let listeners = self.listeners();
        for DurableUpTo { source, sequence, held } in moved {
            let durable = Reply::Durable { session: options.session, stripe_set: options.stripe_set, sequence, held };
            for (_, outbox) in listeners.iter().filter(|(listening, _)| *listening == source) {
                // A client that is gone learns it when it reattaches and sends the pieces it still keeps.
                let _ = outbox.push(&durable, &[]);
            }
        }
    }

    /// Sends the stripe set's failure to every connection that uses it: some wait for nothing but `Durable`.
    /// Connections that attach later get it as their answer.
    fn announce_failure(&self, error: repository::Error) {
        if self.failure_sent.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!("storing what was received for a file failed, and its writers are sent why: {error}");
        let options = self.owner.options();
        let failed = Reply::StripeSetFailed {
            session: options.session,
            stripe_set: options.stripe_set,
            failure: super::failure::of(error),
        };
        for (_, outbox) in self.listeners() {
            // A client that is gone gets it when it reattaches.
            let _ = outbox.push(&failed, &[]);
        }
    }

    /// A copy, so that nothing is sent while the lock is held.
    fn listeners(&self) -> Vec<(Source, ClientSender)> {
        self.users().listeners.values().cloned().collect()
    }

    fn add_user(&self, user: User) {
        let mut users = self.users();
        users.detach_waiters.came(user.source, user.key);
        users.listeners.insert(user.connection, (user.source, user.outbox));
        self.is_touched.store(true, Ordering::SeqCst);
    }

    /// Notes that a connection is gone, and may come back.
    pub fn drop_user(&self, connection: ConnectionId) {
        let mut users = self.users();
        users.listeners.remove(&connection);
        users.none_since = Instant::now();
        let unanswered = users.detach_waiters.forget(connection);
        drop(users);
        unanswered.into_iter().for_each(Replier::withhold);
    }

    /// Notes that a connection is done with the stripe set.
    fn end_use(&self, connection: ConnectionId) {
        let mut users = self.users();
        if let Some((source, _)) = users.listeners.get(&connection).cloned() {
            users.detach_waiters.went(source);
        }
        drop(users);
        self.drop_user(connection);
        self.answer_the_last();
    }

    /// Answers when the connection's process is the last of so many that use the stripe set with its handle, or when the others
    /// stay idle, or away.
    pub fn await_others(&self, of: (ConnectionId, Source), processes: u32, replier: Replier) {
        let refused = self.users().detach_waiters.wait(of, processes, Instant::now(), replier);
        refused.map_or_else(|| self.answer_the_last(), detach_waiters::too_many);
    }

    /// Answers users that waited to be the last, or have waited long enough.
    pub fn answer_the_last(&self) {
        if !self.users().detach_waiters.is_awaited() {
            return;
        }
        let has_uncheckpointed = self.owner.has_uncheckpointed();
        let due = self.users().detach_waiters.due(has_uncheckpointed, Instant::now());
        due.into_iter().for_each(Due::send);
    }

    /// Returns how long the stripe set has had no users.
    pub fn idle_for(&self) -> Option<Duration> {
        let users = self.users();
        users.listeners.is_empty().then(|| users.none_since.elapsed())
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().expect("no panic holds it")
    }
}

impl Node {
    /// Attaches the stream to the stripe set: it is taken if need be, and its durable pieces are announced there.
    pub(crate) fn attach(&self, session: SessionId, stripe_set: u32, user: User) -> Result<Arc<OwnerEntry>> {
        let source = user.source;
        let entry = self.stripe_sets.use_stripe_set((session, stripe_set), user, || {
            let (repository, budget) = (self.repository.clone(), self.budget.clone());
            StripeOwner::take(repository, budget, session, stripe_set, self.incarnation, MPI_SEGMENT_BYTES)
        })?;
        // One that failed says so when it is asked for its size, which attaching does next.
        entry.announce(entry.owner.durable_up_to(source).ok().flatten().into_iter().collect());
        Ok(entry)
    }

    /// The connection is done with the stripe set; the last one's going checkpoints and frees it.
    pub(crate) fn detach(&self, entry: &Arc<OwnerEntry>, connection: ConnectionId) -> Result<()> {
        entry.end_use(connection);
        if entry.idle_for().is_some() { self.free(entry) } else { Ok(()) }
    }

    /// Makes the stripe set's content durable and releases it; the next user takes it again.
    pub(crate) fn free(&self, entry: &Arc<OwnerEntry>) -> Result<()> {
        let checkpointed = if entry.owner.failure().is_none() { self.checkpoint(entry, true, None) } else { Ok(()) };
        self.stripe_sets.remove_unused(entry);
        checkpointed
    }

    /// Sends the stripe set's failure, if it has one, to its users.
    pub(crate) fn report_failure(&self, entry: &OwnerEntry) {
        let Err(error) = entry.owner.size() else { return };
        // Where the node's own lease is lost, the node restarts and the clients ask it then. Where that is not known
        // yet, the maintenance loop comes back to the stripe set.
        if self.repository.lease().explains_now(&error.to_string()) == Some(false) {
            entry.announce_failure(error);
        }
    }

    pub(crate) fn report_failures(&self) {
        self.stripe_sets.all().iter().for_each(|entry| self.report_failure(entry));
    }

    /// Checkpoints and notifies the senders.
    pub(crate) fn checkpoint(&self, entry: &OwnerEntry, fragments: bool, epoch: Option<u64>) -> Result<()> {
        entry.hinted.store(false, Ordering::Relaxed);
        let checkpointed = entry.owner.checkpoint(self.new_claim_owner(), fragments, epoch);
        entry.count_stored();
        if checkpointed.is_err() {
            self.report_failure(entry);
        }
        let moved = checkpointed?;
        self.advance();
        *entry.checkpointed_at.lock().expect("no panic holds it") = Instant::now();
        if fragments {
            *entry.completed_at.lock().expect("no panic holds it") = Instant::now();
        }
        entry.announce(moved);
        Ok(())
    }
}

/// Its owner, the home node, keeps what a session has once.
pub(crate) const HOME_STRIPE_SET: u32 = 0;
/// MPI writes are cut at multiples of this (bytes): DDiHA's default.
pub(crate) const MPI_SEGMENT_BYTES: u32 = 8192;

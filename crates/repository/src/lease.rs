//! A session in the catalog, kept alive while its owner lives.
//!
//! A command relies on the store's answers until it ends. A process that stays (Python) relies on it only while
//! something is open or under way: it takes a [`EpochPin`] for that, and the lease moves on between holds, so that an
//! idle process keeps nothing from being collected.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catalog::{Names, Purpose, Session};
use format::SessionId;

use crate::{Error, Result};

/// How long a lease lasts without renewal (ms): the longest that a dead writer holds collection back.
pub const LEASE_MS: u64 = 30_000;

const RENEW_INTERVAL: Duration = Duration::from_millis(LEASE_MS / 3);
/// After a failure: a lease that was lost while the catalog was out of reach is noticed before others rely on it.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Sessions count from 1; the catalog refuses commits of this one.
const NO_SESSION: SessionId = SessionId(0);

/// Held by every process that writes or reads; renewed in the background, ended on drop.
pub struct Lease {
    session: SessionId,
    epoch: Arc<AtomicU64>,
    catalog: Arc<dyn Names>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    awaited: Mutex<WakeReason>,
    wake: Condvar,
    /// The catalog said that the session has ended.
    is_lost: AtomicBool,
    /// The holder relies on none of the store's earlier answers: the next renewal moves the epoch on.
    refresh: AtomicBool,
    /// Set with the first hold; before it, the owner relies on everything.
    is_held_in_parts: AtomicBool,
    holds: AtomicUsize,
    /// When the catalog was last asked, without saying that the session has ended.
    checked: Mutex<Option<Instant>>,
    /// Locked while the epoch moves on: a hold that begins meanwhile must not rely on the old one.
    moving: Mutex<()>,
}

/// The reason to wake the thread that renews.
#[derive(Default)]
struct WakeReason {
    stopped: bool,
    renewal: bool,
}

/// While it lives, the store's answers hold: nothing that was referred to since is deleted.
pub struct EpochPin {
    state: Arc<State>,
}

impl Drop for EpochPin {
    fn drop(&mut self) {
        self.state.holds.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Lease {
    /// Begins a session and a thread that renews it every third of its term.
    pub fn begin(catalog: Arc<dyn Names>, purpose: Purpose) -> Result<Self> {
        let session = catalog.begin(purpose, LEASE_MS)?;
        let mut lease = Self::unattended(catalog.clone(), session);
        let (epoch, state, id) = (lease.epoch.clone(), lease.state.clone(), session.id);
        let thread = std::thread::Builder::new().name("thalweg-lease".into());
        // Without a thread the lease simply is not renewed: commits fail with LeaseLost, nothing is lost silently.
        lease.thread = thread.spawn(move || renew_until_stopped(&*catalog, id, &epoch, &state)).ok();
        Ok(lease)
    }

    /// As `begin`, for reading, which goes on where no session can be recorded: in a store that may only be read, on a
    /// full disk. Collection does not wait for such a reader; [`Lease::is_recorded`] says so.
    pub fn begin_reading(catalog: Arc<dyn Names>) -> Result<Self> {
        match Self::begin(catalog.clone(), Purpose::Read) {
            Err(Error::Catalog(
                catalog::Error::Full { .. }
                | catalog::Error::ReadOnly { .. }
                | catalog::Error::Io { .. }
                | catalog::Error::Node { .. },
            )) => Ok(Self::unrecorded(catalog)),
            begun => begun,
        }
    }

    /// Makes a lease that the catalog does not know, for reading a catalog that nothing may be written to.
    pub(crate) fn unrecorded(catalog: Arc<dyn Names>) -> Self {
        let lease = Self::unattended(catalog, Session { id: NO_SESSION, epoch: 0 });
        lease.state.awaited().stopped = true;
        lease
    }

    /// Whether the catalog knows this session, so that nothing it may read is deleted.
    pub fn is_recorded(&self) -> bool {
        self.session != NO_SESSION
    }

    /// Makes a lease that is never renewed, for one-thread histories on virtual clocks.
    pub fn unattended(catalog: Arc<dyn Names>, session: Session) -> Self {
        let epoch = Arc::new(AtomicU64::new(session.epoch));
        let state = Arc::new(State::default());
        *state.checked() = Some(Instant::now());
        Lease { session: session.id, epoch, catalog, state, thread: None }
    }

    /// Returns the session's epoch. A change that rests on an answer of the store is committed with the epoch as it was
    /// *before* the store was asked.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub(crate) fn epoch_cell(&self) -> Arc<AtomicU64> {
        self.epoch.clone()
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Says that no earlier answer of the store is relied on any more, so that collection may go on.
    pub fn refresh(&self) {
        self.state.refresh.store(true, Ordering::Relaxed);
    }

    /// As `refresh`, at once.
    pub fn refresh_now(&self) -> Result<()> {
        self.epoch.store(self.catalog.renew(self.session, LEASE_MS, true)?.epoch, Ordering::SeqCst);
        Ok(())
    }

    /// Takes a hold. From the first one on, the owner relies on answers only while it has one. May wait for the
    /// catalog.
    pub fn hold(&self) -> EpochPin {
        let _moving = self.state.moving.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.is_held_in_parts.store(true, Ordering::SeqCst);
        self.state.holds.fetch_add(1, Ordering::SeqCst);
        EpochPin { state: self.state.clone() }
    }

    /// Whether the lease ran out and a collection ended the session. None of the store's answers to its owner may be
    /// relied on any more, for good: the owner starts again, with another lease.
    pub fn is_lost(&self) -> bool {
        self.state.is_lost.load(Ordering::SeqCst)
    }

    /// Whether a failure with this text is one of the lease's own loss, or comes after that. Where the lease may have run
    /// out since the catalog was last asked (the process stood still), it is asked now.
    pub fn explains(&self, failure: &str) -> bool {
        self.is_named_lost(failure);
        if !self.is_lost() && self.is_doubtful() {
            renew(&*self.catalog, self.session, &self.epoch, &self.state);
        }
        self.is_lost()
    }

    /// As [`Lease::explains`], without waiting; none when the catalog has to be asked first, which is then done in the
    /// background.
    pub fn explains_now(&self, failure: &str) -> Option<bool> {
        self.is_named_lost(failure);
        if !self.is_lost() && self.is_doubtful() {
            self.renew_soon();
            return None;
        }
        Some(self.is_lost())
    }

    /// Nothing says of a lease that it is lost but the catalog.
    fn is_named_lost(&self, failure: &str) {
        if failure.contains(&catalog::Error::LeaseLost { session: self.session }.to_string()) {
            self.state.is_lost.store(true, Ordering::SeqCst);
        }
    }

    fn is_doubtful(&self) -> bool {
        let checked = *self.state.checked();
        self.is_recorded() && checked.is_none_or(|checked| checked.elapsed() >= Duration::from_millis(LEASE_MS))
    }

    /// Has the lease renewed now, in the background: something suggests that it is lost.
    pub fn renew_soon(&self) {
        self.state.awaited().renewal = true;
        self.state.wake.notify_all();
    }

    pub fn end(&self) {
        if !std::mem::replace(&mut self.state.awaited().stopped, true) {
            self.state.wake.notify_all();
            // A catalog that cannot be reached lets the lease run out by itself.
            let _ = self.catalog.end(self.session);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn checked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, WakeReason> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn renew_until_stopped(catalog: &dyn Names, session: SessionId, epoch: &AtomicU64, state: &State) {
    let mut interval = RENEW_INTERVAL;
    loop {
        let awaited = state.awaited();
        let waited = state.wake.wait_timeout_while(awaited, interval, |awaited| !awaited.stopped && !awaited.renewal);
        let mut awaited = waited.unwrap_or_else(PoisonError::into_inner).0;
        awaited.renewal = false;
        if awaited.stopped {
            return;
        }
        // The catalog may take its time: a thread that ends the lease meanwhile does not wait for that.
        drop(awaited);
        interval = if renew(catalog, session, epoch, state) { RENEW_INTERVAL } else { RETRY_INTERVAL };
    }
}

/// Returns whether the catalog answered.
fn renew(catalog: &dyn Names, session: SessionId, epoch: &AtomicU64, state: &State) -> bool {
    let moving = state.moving.lock().unwrap_or_else(PoisonError::into_inner);
    let is_idle = state.is_held_in_parts.load(Ordering::SeqCst) && state.holds.load(Ordering::SeqCst) == 0;
    let refresh = state.refresh.swap(false, Ordering::Relaxed) || is_idle;
    // Threads that hold already do not block others.
    let _moving = is_idle.then_some(moving);
    let asked = Instant::now();
    let renewed = catalog.renew(session, LEASE_MS, refresh);
    if !matches!(renewed, Err(catalog::Error::LeaseLost { .. })) {
        *state.checked() = Some(asked);
    }
    match renewed {
        Ok(renewed) => epoch.store(renewed.epoch, Ordering::SeqCst),
        Err(catalog::Error::LeaseLost { .. }) => state.is_lost.store(true, Ordering::SeqCst),
        // A catalog that cannot be reached now is asked again; if for too long, the lease is lost.
        Err(_) => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use catalog::{LocalCatalog, MemoryCatalog};

    use super::*;

    #[test]
    fn a_lease_that_a_collection_ended_is_noticed_at_the_next_renewal() {
        let catalog: Arc<dyn Names> = Arc::new(MemoryCatalog::default());
        let lease = Lease::begin(catalog.clone(), Purpose::Write).unwrap();
        assert!(!lease.is_lost());
        catalog.end(lease.session()).unwrap();
        lease.renew_soon();
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !lease.is_lost() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_failure_that_names_the_lease_or_comes_after_it_is_explained_by_its_loss() {
        let catalog: Arc<dyn Names> = Arc::new(MemoryCatalog::default());
        let begin = || Lease::unattended(catalog.clone(), catalog.begin(Purpose::Write, LEASE_MS).unwrap());
        let (lease, other) = (begin(), begin());
        let lost = |lease: &Lease| catalog::Error::LeaseLost { session: lease.session() }.to_string();
        assert!(!lease.explains(&lost(&other)), "another's loss");
        assert_eq!(lease.explains_now("the disk is full"), Some(false));
        catalog.end(lease.session()).unwrap();
        assert!(!lease.explains("something"), "it was renewed a moment ago, and cannot have run out");
        *lease.state.checked() = None;
        assert_eq!(lease.explains_now("something"), None, "the catalog is to be asked first");
        assert!(lease.explains("something"), "asked now, the catalog says so");
        assert_eq!(lease.explains_now("something"), Some(true));
        assert!(other.explains(&format!("storing a segment: {}", lost(&other))));
        assert!(other.is_lost());
    }

    #[test]
    fn the_epoch_moves_on_only_between_holds() {
        let catalog: Arc<dyn LocalCatalog> = Arc::new(MemoryCatalog::default());
        let session = catalog.begin(Purpose::Write, LEASE_MS).unwrap();
        let lease = Lease::unattended(catalog.clone(), session);
        let renewed = || {
            renew(&*catalog, session.id, &lease.epoch, &lease.state);
            lease.epoch()
        };
        let condemn = || {
            let container = catalog.open_container(session.id).unwrap();
            catalog.seal_container(container, 1, 1).unwrap();
            catalog.condemn(catalog.snapshot().unwrap(), &[container]).unwrap();
        };
        let first = lease.epoch();
        condemn();
        assert_eq!(renewed(), first, "without holds everything is relied on");
        let hold = lease.hold();
        condemn();
        assert_eq!(renewed(), first);
        drop(hold);
        assert!(renewed() > first);
    }
}

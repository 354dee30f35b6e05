//! A session in the catalog, kept alive while its owner lives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use catalog::{Catalog, Purpose};
use format::SessionId;

use crate::Result;

/// How long a lease lasts when nobody renews it (ms): what a dead writer can hold back.
pub const LEASE_MS: u64 = 30_000;

/// Held by every process that writes or reads; renewed in the background, ended on drop.
pub struct Lease {
    session: SessionId,
    catalog: Arc<dyn Catalog>,
    state: Arc<State>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    stopped: Mutex<bool>,
    wake: Condvar,
    /// The holder relies on nothing the store told it before: the next renewal moves the epoch on.
    refresh: AtomicBool,
}

impl Lease {
    /// Begins a session and a thread that renews it every third of its term.
    pub fn begin(catalog: Arc<dyn Catalog>, purpose: Purpose) -> Result<Self> {
        let session = catalog.begin(purpose, LEASE_MS)?.id;
        Ok(Self::adopt(catalog, session))
    }

    /// As `begin`, for a session that was begun already.
    pub fn adopt(catalog: Arc<dyn Catalog>, session: SessionId) -> Self {
        let state = Arc::new(State::default());
        let keeper = {
            let (catalog, state) = (catalog.clone(), state.clone());
            std::thread::Builder::new().name("thalweg-lease".into()).spawn(move || keep(&*catalog, session, &state))
        };
        // Without a thread the lease simply is not renewed: commits fail with LeaseLost, nothing is lost silently.
        Lease { session, catalog, state, keeper: keeper.ok() }
    }

    /// A lease that nobody renews, for one-thread histories on virtual clocks.
    pub fn unattended(catalog: Arc<dyn Catalog>, session: SessionId) -> Self {
        Lease { session, catalog, state: Arc::default(), keeper: None }
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Says that no earlier answer of the store is relied on any more, so that collection may go on.
    pub fn refresh(&self) {
        self.state.refresh.store(true, Ordering::Relaxed);
    }

    /// Moves the epoch on at once: after a commit was refused and its segments are to be put again.
    pub(crate) fn refresh_now(&self) -> Result<()> {
        self.catalog.renew(self.session, LEASE_MS, true)?;
        Ok(())
    }

    pub fn end(&self) {
        let mut stopped = self.state.stopped.lock().expect("no panic holds it");
        if !std::mem::replace(&mut *stopped, true) {
            self.state.wake.notify_all();
            // A catalog that cannot be reached lets the lease run out by itself.
            let _ = self.catalog.end(self.session);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

fn keep(catalog: &dyn Catalog, session: SessionId, state: &State) {
    let mut stopped = state.stopped.lock().expect("no panic holds it");
    while !*stopped {
        let term = Duration::from_millis(LEASE_MS / 3);
        let (guard, waited) = state.wake.wait_timeout(stopped, term).expect("no panic holds it");
        stopped = guard;
        if waited.timed_out() && !*stopped {
            // A lost lease shows at the next commit, where something can be done about it.
            let _ = catalog.renew(session, LEASE_MS, state.refresh.swap(false, Ordering::Relaxed));
        }
    }
}

//! One lock per session, for MPI's atomic mode: held by a connection, freed with it.
//!
//! A client says at least every 2 s that it lives while it holds one. A connection that holds a lock for which others wait,
//! and is silent for long, counts as dead and is ended.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use format::SessionId;
use transfer::message::Reply;
use transfer::{ClientSender, Replier};

use super::maintenance::TICK;

/// A holder that sends nothing for so long is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// Counted in ticks, so that time in which this process itself did not run does not count.
const MAX_SILENT_TICKS: u32 = (SILENCE_TIMEOUT.as_millis() / TICK.as_millis()) as u32;

/// A connection's requests so far.
#[derive(Default)]
pub(super) struct Activity {
    requests: AtomicU64,
    /// Its thread is at a request, and reads nothing meanwhile.
    is_busy: AtomicBool,
}

impl Activity {
    pub fn begin(&self) {
        self.is_busy.store(true, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }
}

/// The connection that holds or waits.
pub(super) struct Owner {
    /// Its own number.
    pub connection: u64,
    pub outbox: ClientSender,
    pub activity: Arc<Activity>,
}

struct Holder {
    owner: Owner,
    requests: u64,
    silent_ticks: u32,
}

#[derive(Default)]
struct Lock {
    holder: Option<Holder>,
    waiting: VecDeque<(Owner, Replier)>,
}

#[derive(Default)]
pub(crate) struct Locks {
    locks: Mutex<HashMap<SessionId, Lock>>,
}

impl Locks {
    /// Answers at once when the lock is free, and otherwise when it is granted.
    pub fn lock(&self, session: SessionId, owner: Owner, replier: Replier) {
        let next = {
            let mut locks = self.table();
            let lock = locks.entry(session).or_default();
            lock.waiting.push_back((owner, replier));
            lock.pass_on()
        };
        grant(next);
    }

    pub fn unlock(&self, session: SessionId, connection: u64) {
        let next = {
            let mut locks = self.table();
            let Some(lock) = locks.get_mut(&session) else { return };
            let next = lock.release(connection);
            if lock.holder.is_none() {
                locks.remove(&session);
            }
            next
        };
        grant(next);
    }

    /// Forgets a connection: its locks pass on, its waiting requests are dropped.
    pub fn forget(&self, connection: u64) {
        let (mut given_up, mut next) = (Vec::new(), Vec::new());
        {
            let mut locks = self.table();
            for lock in locks.values_mut() {
                let waiting = std::mem::take(&mut lock.waiting);
                let (own, others): (VecDeque<_>, _) =
                    waiting.into_iter().partition(|(waiting, _)| waiting.connection == connection);
                lock.waiting = others;
                given_up.push(own);
                next.extend(lock.release(connection));
            }
            locks.retain(|_, lock| lock.holder.is_some());
        }
        next.into_iter().for_each(|replier| grant(Some(replier)));
    }

    /// To be called every [`TICK`]: ends connections that hold what others wait for, and are silent.
    pub fn end_silent_holders(&self) {
        let silent: Vec<ClientSender> = self.table().values_mut().filter_map(Lock::silent_holder).collect();
        for outbox in silent {
            let seconds = SILENCE_TIMEOUT.as_secs();
            tracing::warn!(
                peer = outbox.peer(),
                "held a file's lock and sent nothing for {seconds} s: its connection is ended, and the lock passes on"
            );
            outbox.end();
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Lock>> {
        self.locks.lock().expect("no panic holds it")
    }
}

/// Notifies the next holder, without the table's lock: an answer goes over a connection.
fn grant(next: Option<Replier>) {
    if let Some(replier) = next {
        replier.reply(Reply::Done {});
    }
}

impl Lock {
    /// Returns the next owner's replier.
    #[must_use]
    fn release(&mut self, connection: u64) -> Option<Replier> {
        if self.holder.as_ref().is_none_or(|holder| holder.owner.connection != connection) {
            return None;
        }
        self.holder = None;
        self.pass_on()
    }

    #[must_use]
    fn pass_on(&mut self) -> Option<Replier> {
        if self.holder.is_some() {
            return None;
        }
        let (owner, replier) = self.waiting.pop_front()?;
        self.holder = Some(Holder { owner, requests: 0, silent_ticks: 0 });
        Some(replier)
    }

    /// Counts a tick of silence; the holder's connection when that was one too many.
    fn silent_holder(&mut self) -> Option<ClientSender> {
        let holder = self.holder.as_mut()?;
        let requests = holder.owner.activity.requests.load(Ordering::Relaxed);
        let is_busy = holder.owner.activity.is_busy.load(Ordering::Relaxed);
        if is_busy || self.waiting.is_empty() || std::mem::replace(&mut holder.requests, requests) != requests {
            holder.silent_ticks = 0;
            return None;
        }
        holder.silent_ticks += 1;
        (holder.silent_ticks == MAX_SILENT_TICKS).then(|| holder.owner.outbox.clone())
    }
}

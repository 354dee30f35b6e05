//! One lock per session, for MPI's atomic mode: held by a connection, freed with it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use format::SessionId;
use transfer::Replier;
use transfer::message::Reply;

/// Who holds or waits: a connection's own number.
type Owner = u64;

#[derive(Default)]
struct Lock {
    holder: Option<Owner>,
    waiting: VecDeque<(Owner, Replier)>,
}

#[derive(Default)]
pub(crate) struct Locks {
    locks: Mutex<HashMap<SessionId, Lock>>,
}

impl Locks {
    /// Answers at once when the lock is free, and otherwise when its turn comes.
    pub fn lock(&self, session: SessionId, owner: Owner, replier: Replier) {
        let next = {
            let mut locks = self.table();
            let lock = locks.entry(session).or_default();
            lock.waiting.push_back((owner, replier));
            lock.pass_on()
        };
        grant(next);
    }

    pub fn unlock(&self, session: SessionId, owner: Owner) {
        let next = {
            let mut locks = self.table();
            let Some(lock) = locks.get_mut(&session) else { return };
            let next = lock.release(owner);
            if lock.holder.is_none() {
                locks.remove(&session);
            }
            next
        };
        grant(next);
    }

    /// The connection is gone: what it held passes on, what it waited for is forgotten.
    pub fn forget(&self, owner: Owner) {
        let (mut given_up, mut next) = (Vec::new(), Vec::new());
        {
            let mut locks = self.table();
            for lock in locks.values_mut() {
                let waiting = std::mem::take(&mut lock.waiting);
                let (own, others): (VecDeque<_>, _) = waiting.into_iter().partition(|(waiting, _)| *waiting == owner);
                lock.waiting = others;
                given_up.push(own);
                next.extend(lock.release(owner));
            }
            locks.retain(|_, lock| lock.holder.is_some());
        }
        next.into_iter().for_each(|replier| grant(Some(replier)));
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Lock>> {
        self.locks.lock().expect("no panic holds it")
    }
}

/// Tells the next holder, without the table's lock: an answer goes over a connection.
fn grant(next: Option<Replier>) {
    if let Some(replier) = next {
        replier.reply(Reply::Done {});
    }
}

impl Lock {
    /// Whom to tell that it is his now.
    #[must_use]
    fn release(&mut self, owner: Owner) -> Option<Replier> {
        if self.holder != Some(owner) {
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
        self.holder = Some(owner);
        Some(replier)
    }
}

//! One lock per session, for MPI's atomic mode: held by a connection, freed with it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

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
        let mut locks = self.locks.lock().expect("no panic holds it");
        let lock = locks.entry(session).or_default();
        lock.waiting.push_back((owner, replier));
        lock.pass_on();
    }

    pub fn unlock(&self, session: SessionId, owner: Owner) {
        let mut locks = self.locks.lock().expect("no panic holds it");
        if let Some(lock) = locks.get_mut(&session) {
            lock.let_go(owner);
            if lock.holder.is_none() {
                locks.remove(&session);
            }
        }
    }

    /// The connection is gone: what it held passes on, what it waited for is forgotten.
    pub fn forget(&self, owner: Owner) {
        let mut locks = self.locks.lock().expect("no panic holds it");
        for lock in locks.values_mut() {
            lock.waiting.retain(|(waiting, _)| *waiting != owner);
            lock.let_go(owner);
        }
        locks.retain(|_, lock| lock.holder.is_some());
    }
}

impl Lock {
    fn let_go(&mut self, owner: Owner) {
        if self.holder == Some(owner) {
            self.holder = None;
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if self.holder.is_some() {
            return;
        }
        if let Some((owner, replier)) = self.waiting.pop_front() {
            self.holder = Some(owner);
            replier.reply(Reply::Done {});
        }
    }
}

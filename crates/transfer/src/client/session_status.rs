//! A session's status in this process: whether it failed, and whether something is still kept for it.
//!
//! A failure is for ever: bytes were given up, and no later call may pretend otherwise.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::oneshot::Done;
use super::send_queue::SendQueue;
use crate::{Error, Result};

#[derive(Default)]
pub(super) struct SessionStatus {
    failure: OnceLock<Error>,
    queues: OnceLock<Vec<Weak<SendQueue>>>,
    /// Called once nothing is kept any more, or on failure.
    watcher: Mutex<Option<Done<()>>>,
}

impl SessionStatus {
    /// Sets the send queues that share this status; called once.
    pub fn bind(&self, queues: &[Arc<SendQueue>]) {
        let bound = self.queues.set(queues.iter().map(Arc::downgrade).collect());
        bound.expect("a session binds its send queues once");
    }

    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    pub fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Gives up everything kept; all waiting callers get the error. The first failure stays.
    pub fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
        let error = self.failure().expect("just set");
        self.queues().for_each(|queue| queue.abandon(&error));
        self.look();
    }

    /// Calls `watcher` when all that is kept has become durable.
    pub fn when_empty(&self, watcher: Done<()>) {
        *self.watcher.lock().expect("setting the watcher does not panic") = Some(watcher);
        self.look();
    }

    /// Returns whether a caller waits for everything to become durable.
    pub fn is_awaited(&self) -> bool {
        self.watcher.lock().expect("setting the watcher does not panic").is_some()
    }

    /// Calls the watcher if it is due; called after something was released, without any lock held.
    pub fn look(&self) {
        let due = self.failure.get().is_some() || self.queues().all(|queue| queue.is_empty());
        let watcher = if due { self.watcher.lock().expect("setting the watcher does not panic").take() } else { None };
        if let Some(watcher) = watcher {
            watcher(self.check());
        }
    }

    fn queues(&self) -> impl Iterator<Item = Arc<SendQueue>> {
        self.queues.get().into_iter().flatten().filter_map(Weak::upgrade)
    }
}

//! What has become of a session in this process: whether it failed, and whether something is still kept for it.
//!
//! A failure is for ever: bytes were given up, and no later call may pretend otherwise.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::handover::Done;
use super::lane::Lane;
use crate::{Error, Result};

#[derive(Default)]
pub(super) struct Fate {
    failure: OnceLock<Error>,
    lanes: OnceLock<Vec<Weak<Lane>>>,
    /// Waits until nothing is kept any more, or until the failure.
    watcher: Mutex<Option<Done<()>>>,
}

impl Fate {
    /// Which lanes share this fate; told once.
    pub fn bind(&self, lanes: &[Arc<Lane>]) {
        let bound = self.lanes.set(lanes.iter().map(Arc::downgrade).collect());
        bound.expect("a session binds its lanes once");
    }

    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    pub fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Gives up everything kept; everyone waiting learns why. The first failure stays.
    pub fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
        let error = self.failure().expect("just set");
        self.lanes().for_each(|lane| lane.abandon(&error));
        self.look();
    }

    /// Calls `watcher` when all that is kept has become durable.
    pub fn when_empty(&self, watcher: Done<()>) {
        *self.watcher.lock().expect("setting the watcher does not panic") = Some(watcher);
        self.look();
    }

    /// Whether someone waits for everything to become durable.
    pub fn is_awaited(&self) -> bool {
        self.watcher.lock().expect("setting the watcher does not panic").is_some()
    }

    /// Something was let go: is the watcher due? Called without any lock held.
    pub fn look(&self) {
        let due = self.failure.get().is_some() || self.lanes().all(|lane| lane.is_empty());
        let watcher = if due { self.watcher.lock().expect("setting the watcher does not panic").take() } else { None };
        if let Some(watcher) = watcher {
            watcher(self.check());
        }
    }

    fn lanes(&self) -> impl Iterator<Item = Arc<Lane>> {
        self.lanes.get().into_iter().flatten().filter_map(Weak::upgrade)
    }
}

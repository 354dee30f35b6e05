//! The background thread: runs once a second, and when containers wait for their footer.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use super::full_disk::IdleState;
use super::{PACE, Shared};
use crate::guard::lock;
use crate::{Error, Result};

/// Rounds between checks for files that others removed.
const ROUNDS_PER_LOOK: u32 = 10;

pub struct BackgroundMerge {
    wake_signal: Arc<WakeSignal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct WakeSignal {
    state: Mutex<Wake>,
    changed: Condvar,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Wake {
    #[default]
    Quiet,
    Work,
    Stop,
}

impl BackgroundMerge {
    pub fn start(shared: Arc<Shared>) -> Result<Self> {
        let wake_signal = Arc::new(WakeSignal::default());
        let heard = wake_signal.clone();
        let thread = std::thread::Builder::new().name("thalweg-store".into()).spawn(move || {
            let mut idle = IdleState::default();
            for round in 1_u32.. {
                let stop = heard.wait() == Wake::Stop;
                shared.retire_when_idle(&mut idle);
                // A failure stops the store, and every caller gets it; or the next round retries.
                let _ = shared.maintain();
                if round.is_multiple_of(ROUNDS_PER_LOOK) {
                    shared.containers.drop_removed();
                }
                if stop {
                    return;
                }
            }
        });
        let thread = thread.map_err(|source| Error::Io { path: "a thread of the store".into(), source })?;
        Ok(BackgroundMerge { wake_signal, thread: Some(thread) })
    }

    /// Wakes the thread if containers are full, so that they are sealed at once and do not pile up.
    pub fn wake_if_needed(&self, shared: &Shared) {
        if !lock(&shared.writing).retired.is_empty() {
            self.wake_signal.ring(Wake::Work);
        }
    }
}

impl Drop for BackgroundMerge {
    fn drop(&mut self) {
        self.wake_signal.ring(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _ = thread.join();
        }
    }
}

impl WakeSignal {
    fn ring(&self, what: Wake) {
        let mut state = lock(&self.state);
        if *state != Wake::Stop {
            *state = what;
        }
        self.changed.notify_all();
    }

    fn wait(&self) -> Wake {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, PACE, |state| *state == Wake::Quiet);
        let (mut state, _) = waited.expect("no thread panicked while it held this lock");
        let heard = *state;
        if heard == Wake::Work {
            *state = Wake::Quiet;
        }
        heard
    }
}

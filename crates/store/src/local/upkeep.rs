//! The thread that keeps house: once a second, and when containers wait for their footer.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use super::{PACE, Shared};
use crate::guard::lock;
use crate::{Error, Result};

/// Rounds between looking for files that others removed.
const ROUNDS_PER_LOOK: u32 = 10;

pub struct Upkeep {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Bell {
    state: Mutex<Rung>,
    rung: Condvar,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Rung {
    #[default]
    Quiet,
    Work,
    Stop,
}

impl Upkeep {
    pub fn start(shared: Arc<Shared>) -> Result<Self> {
        let bell = Arc::new(Bell::default());
        let heard = bell.clone();
        let thread = std::thread::Builder::new().name("thalweg-store".into()).spawn(move || {
            for round in 1_u32.. {
                let stop = heard.wait() == Rung::Stop;
                // What fails stops the store, and then every caller is told; or the next round does it.
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
        Ok(Upkeep { bell, thread: Some(thread) })
    }

    /// Containers that are full are sealed at once, so that they do not pile up.
    pub fn wake_if_needed(&self, shared: &Shared) {
        if !lock(&shared.writing).retired.is_empty() {
            self.bell.ring(Rung::Work);
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.bell.ring(Rung::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

impl Bell {
    fn ring(&self, what: Rung) {
        let mut state = lock(&self.state);
        if *state != Rung::Stop {
            *state = what;
        }
        self.rung.notify_all();
    }

    fn wait(&self) -> Rung {
        let state = lock(&self.state);
        let waited = self.rung.wait_timeout_while(state, PACE, |state| *state == Rung::Quiet);
        let (mut state, _) = waited.expect("no thread panicked while it held this lock");
        let heard = *state;
        if heard == Rung::Work {
            *state = Rung::Quiet;
        }
        heard
    }
}

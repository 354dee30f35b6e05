//! The threads that serve clients: as many as there are connections with something to do, not as many as there are
//! connections. A request may wait (for memory, for the disk), so that there is no bound below that.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::client_connection::ClientConnection;

/// How long a thread without a connection stays.
const FREE_TIMEOUT: Duration = Duration::from_secs(3);
/// Threads started at a time: most connections that wait are soon taken by threads that become free.
const MAX_STARTS: usize = 32;

#[derive(Default)]
pub(super) struct ThreadPool {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ClientConnection>,
    /// Threads that wait for a connection.
    free: usize,
}

impl ThreadPool {
    /// Has connections served that have something to do, each by a thread that is free or will be.
    pub fn serve(&self, clients: Vec<ClientConnection>) {
        let count = clients.len();
        self.state().waiting.extend(clients);
        (0..count).for_each(|_| self.arrived.notify_one());
    }

    /// Returns whether connections wait and all threads are busy.
    pub fn are_short(&self) -> bool {
        self.state().missing() > 0
    }

    /// Starts some threads if there are too few. `leave` gets connections that have nothing to do any more.
    pub fn start_missing(
        self: &Arc<Self>,
        leave: impl Fn(ClientConnection) + Clone + Send + 'static,
    ) -> io::Result<()> {
        let missing = self.state().missing().min(MAX_STARTS);
        for _ in 0..missing {
            let (threads, leave) = (self.clone(), leave.clone());
            let run = move || {
                while let Some(client) = threads.next() {
                    client.serve().into_iter().for_each(&leave);
                }
            };
            thread::Builder::new().name("client".into()).spawn(run)?;
        }
        Ok(())
    }

    /// Returns the connection that has waited longest; none when no one has come for a while.
    fn next(&self) -> Option<ClientConnection> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.free += 1;
            let is_waiting = |state: &mut State| state.waiting.is_empty();
            let waited = self.arrived.wait_timeout_while(state, FREE_TIMEOUT, is_waiting);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.free -= 1;
        }
        state.waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn missing(&self) -> usize {
        self.waiting.len().saturating_sub(self.free)
    }
}

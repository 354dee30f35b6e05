//! Connections with nothing to do: they wait in one `epoll` set until something arrives, and hold no thread.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::client_connection::ClientConnection;

/// Connections taken out at a time.
const MAX_EVENTS: usize = 256;

pub(super) struct IdleConnections {
    epoll: OwnedFd,
    /// By their numbers, which are also in the events.
    connections: Mutex<HashMap<u64, ClientConnection>>,
}

impl IdleConnections {
    pub fn new() -> io::Result<Self> {
        Ok(IdleConnections { epoll: epoll::create(CreateFlags::CLOEXEC)?, connections: Mutex::default() })
    }

    /// Keeps a connection until [`IdleConnections::wait`] returns it. Gives it back when the kernel cannot watch it.
    pub fn add(&self, client: ClientConnection) -> Result<(), ClientConnection> {
        let (number, connection) = (client.number(), client.connection().clone());
        // First: from the next step on it can be taken out.
        self.connections().insert(number, client);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        match epoll::add(&self.epoll, &*connection, EventData::new_u64(number), flags) {
            Ok(()) => Ok(()),
            Err(_) => self.connections().remove(&number).map_or(Ok(()), Err),
        }
    }

    /// Waits until some connections have something to read, have ended, or are late with their first message, and
    /// returns these; after the timeout none.
    pub fn wait(&self, timeout: Duration) -> Vec<ClientConnection> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        let mut events = [MaybeUninit::<Event>::uninit(); MAX_EVENTS];
        let numbers: Vec<u64> = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
            // A signal; they are found the next time.
            Err(_) => Vec::new(),
        };
        let numbers = if numbers.is_empty() { self.late() } else { numbers };
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    fn late(&self) -> Vec<u64> {
        let connections = self.connections();
        connections.iter().filter(|(_, client)| client.is_late()).map(|(number, _)| *number).collect()
    }

    fn take(&self, number: u64) -> Option<ClientConnection> {
        let client = self.connections().remove(&number)?;
        // It is in the set: a connection in the map gets there before `add` returns, and one that is late has been long.
        let _ = epoll::delete(&self.epoll, &**client.connection());
        Some(client)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, ClientConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

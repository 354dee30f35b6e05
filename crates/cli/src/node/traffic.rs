//! The clients' traffic, by application and by connection, for the node's metrics.
//!
//! Counting costs a few additions for a request, on counters that the connection already holds.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use transfer::{ClientSender, Hello};

/// Names come from clients; those beyond this number count as one, unless others that are gone can be forgotten.
const MAX_APPLICATIONS: usize = 1000;
/// Clients that name no application, or one too many.
pub(super) const OTHER: &str = "other";

#[derive(Default)]
pub(crate) struct Traffic {
    applications: Mutex<HashMap<String, Arc<ApplicationTraffic>>>,
    connections: Mutex<HashMap<u64, Arc<ConnectionTraffic>>>,
}

/// Bytes since the node began; all only grow.
#[derive(Default)]
pub(crate) struct Counters {
    /// Content of files, before anything is reduced. Of what is sent again after a break, again.
    written: AtomicU64,
    /// Content and blocks as they came.
    received: AtomicU64,
    /// New blocks.
    stored: AtomicU64,
    /// Content and blocks as they were sent.
    sent: AtomicU64,
    requests: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub written_bytes: u64,
    pub received_bytes: u64,
    pub stored_bytes: u64,
    pub sent_bytes: u64,
    pub requests: u64,
}

pub(crate) struct ApplicationTraffic {
    pub name: String,
    counters: Counters,
}

pub(crate) struct ConnectionTraffic {
    pub application: Arc<ApplicationTraffic>,
    pub peer: SocketAddr,
    pub job: String,
    pub since: Instant,
    outbox: ClientSender,
    counters: Counters,
}

/// A connection's place among those that are open; dropped with it.
pub(crate) struct CountedConnection {
    traffic: Arc<Traffic>,
    number: u64,
    counted: Arc<ConnectionTraffic>,
}

impl Traffic {
    pub fn connected(self: &Arc<Self>, number: u64, hello: &Hello, outbox: &ClientSender) -> CountedConnection {
        let counted = Arc::new(ConnectionTraffic {
            application: self.application(&hello.application),
            peer: hello.peer,
            job: hello.job.clone(),
            since: Instant::now(),
            outbox: outbox.clone(),
            counters: Counters::default(),
        });
        lock(&self.connections).insert(number, counted.clone());
        CountedConnection { traffic: self.clone(), number, counted }
    }

    pub fn applications(&self) -> Vec<Arc<ApplicationTraffic>> {
        lock(&self.applications).values().cloned().collect()
    }

    pub fn connections(&self) -> Vec<Arc<ConnectionTraffic>> {
        lock(&self.connections).values().cloned().collect()
    }

    fn application(&self, name: &str) -> Arc<ApplicationTraffic> {
        let name = if name.is_empty() { OTHER } else { name };
        let mut applications = lock(&self.applications);
        if !applications.contains_key(name) && applications.len() >= MAX_APPLICATIONS {
            // Only the map has it: no connection and no file.
            applications.retain(|_, application| Arc::strong_count(application) > 1);
        }
        let has_room = applications.len() < MAX_APPLICATIONS || applications.contains_key(name);
        let name = if has_room { name } else { OTHER };
        let new = || Arc::new(ApplicationTraffic { name: name.to_owned(), counters: Counters::default() });
        applications.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

impl Counters {
    fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            written_bytes: read(&self.written),
            received_bytes: read(&self.received),
            stored_bytes: read(&self.stored),
            sent_bytes: read(&self.sent),
            requests: read(&self.requests),
        }
    }
}

impl ApplicationTraffic {
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    pub fn stored(&self, bytes: u64) {
        self.counters.stored.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl ConnectionTraffic {
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Returns the requests that have no answer yet.
    pub fn unanswered(&self) -> u64 {
        self.outbox.unanswered() as u64
    }
}

impl CountedConnection {
    pub fn application(&self) -> &Arc<ApplicationTraffic> {
        &self.counted.application
    }

    /// Notes that a request came, with so long a payload.
    pub fn received(&self, payload_bytes: usize) {
        self.add(|counters| &counters.requests, 1);
        self.add(|counters| &counters.received, payload_bytes as u64);
    }

    pub fn written(&self, bytes: u64) {
        self.add(|counters| &counters.written, bytes);
    }

    pub fn stored(&self, bytes: u64) {
        self.add(|counters| &counters.stored, bytes);
    }

    pub fn sent(&self, bytes: u64) {
        self.add(|counters| &counters.sent, bytes);
    }

    fn add(&self, which: impl Fn(&Counters) -> &AtomicU64, number: u64) {
        for counters in [&self.counted.counters, &self.counted.application.counters] {
            which(counters).fetch_add(number, Ordering::Relaxed);
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        lock(&self.traffic.connections).remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_are_bounded_and_those_in_use_keep_their_counts() {
        let traffic = Traffic::default();
        let kept = traffic.application("climate");
        kept.stored(7);
        let strangers: Vec<_> = (0..MAX_APPLICATIONS - 1).map(|n| traffic.application(&n.to_string())).collect();
        assert_eq!(traffic.application("one too many").name, OTHER);
        assert!(traffic.applications().len() <= MAX_APPLICATIONS + 1);
        drop(strangers);
        assert_eq!(traffic.application("one more").name, "one more");
        assert_eq!(traffic.application("climate").counts().stored_bytes, 7);
        assert_eq!(traffic.application("").name, OTHER);
    }
}

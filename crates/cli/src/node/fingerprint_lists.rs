//! Lists of fingerprints that clients have sent in full, by their digest, so that equal data of many is listed once.
//!
//! Only lists from an offer are remembered, under the digest computed here: an offered digest never yields more than
//! its client could have sent in full itself. While one client is asked for a list, others that offer the same digest
//! wait for it, without threads and not for ever: its connection's end, or their timeout, makes them asked too.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::{SEGMENT_ENTRY_BYTES, SegmentEntry};
use segment::names_digest;
use store::{ClaimOwner, Lru};

use super::work_queue::{OF_NODE, WorkQueue};

/// An offered digest waits at most this long for a list that another client was asked for.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Offered digests that wait or were answered "unknown" a moment ago; beyond, clients are asked at once and not noted.
const MAX_ASKED: usize = 1024;
/// The memory of a list besides its fingerprints (bytes).
const OVERHEAD_BYTES: usize = 160;

type Digest = [u8; 32];
pub(super) type Entries = Arc<[SegmentEntry]>;
/// Continues once the list is known, or, with `None`, must be sent in full. Called once, without any lock held.
pub(super) type Continuation = Box<dyn FnOnce(Option<Entries>) + Send>;

pub(crate) struct FingerprintLists {
    max_bytes: usize,
    state: Mutex<State>,
}

struct State {
    known: Lru<Digest, Entries>,
    asked: HashMap<Digest, Asked>,
}

/// A connection that was asked for the full list, and others that wait for it.
struct Asked {
    connection: ClaimOwner,
    since: Instant,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    connection: ClaimOwner,
    since: Instant,
    go_on: Continuation,
}

impl FingerprintLists {
    /// Remembers at most this much, and forgets first what was not offered for longest.
    pub fn new(max_bytes: usize) -> Self {
        let state = State { known: Lru::new(max_bytes), asked: HashMap::new() };
        FingerprintLists { max_bytes, state: Mutex::new(state) }
    }

    /// Calls `go_on` now, with the list if it is known, or when it has come, or need not be waited for any longer.
    pub fn offer_digest(&self, digest: Digest, connection: ClaimOwner, now: Instant, go_on: Continuation) {
        let mut state = self.lock();
        let known = state.known.get(digest);
        if known.is_none() && !state.must_send_full_list(digest, connection, now) {
            let asked = state.asked.get_mut(&digest).expect("a client was asked");
            asked.waiting.push_back(Waiting { connection, since: now, go_on });
            return;
        }
        drop(state);
        go_on(known);
    }

    /// Remembers an offer's full list. Returns those that waited for it.
    #[must_use]
    pub fn learn(&self, entries: &Entries) -> Vec<Continuation> {
        let digest = names_digest(entries);
        let mut state = self.lock();
        let bytes = held_bytes(entries);
        if bytes <= self.max_bytes {
            state.known.insert(digest, entries.clone(), bytes);
        }
        let asked = state.asked.remove(&digest);
        asked.into_iter().flat_map(|asked| asked.waiting).map(|waiting| waiting.go_on).collect()
    }

    /// Ends a connection. Returns the waiters: one to be asked instead of it, and those that waited on it.
    #[must_use]
    pub fn forget(&self, connection: ClaimOwner) -> Vec<Continuation> {
        let mut unlisted = Vec::new();
        self.lock().asked.retain(|_, asked| asked.forget(connection, &mut unlisted));
        unlisted
    }

    /// Returns those that have waited for too long.
    #[must_use]
    pub fn expire(&self, now: Instant) -> Vec<Continuation> {
        let mut unlisted = Vec::new();
        self.lock().asked.retain(|_, asked| asked.expire(now, &mut unlisted));
        unlisted
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }
}

/// Lets them go on, in the background: each asks the store.
pub(super) fn go_on(waits: &WorkQueue, waiting: Vec<Continuation>, names: Option<Entries>) {
    if waiting.is_empty() {
        return;
    }
    // Without room, the clients get an error.
    waits.run(OF_NODE, move || waiting.into_iter().for_each(|go_on| go_on(names.clone())), || ());
}

impl State {
    /// Whether this connection is the one to ask; then it is noted.
    fn must_send_full_list(&mut self, digest: Digest, connection: ClaimOwner, now: Instant) -> bool {
        let count: usize = self.asked.values().map(|asked| 1 + asked.waiting.len()).sum();
        if count >= MAX_ASKED {
            return true;
        }
        if self.asked.contains_key(&digest) {
            return false;
        }
        self.asked.insert(digest, Asked { connection, since: now, waiting: VecDeque::new() });
        true
    }
}

fn held_bytes(entries: &Entries) -> usize {
    entries.len() * SEGMENT_ENTRY_BYTES + OVERHEAD_BYTES
}

impl Asked {
    /// Returns false when no connection is asked any more.
    fn forget(&mut self, connection: ClaimOwner, unlisted: &mut Vec<Continuation>) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        let (gone, stay): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|waiting| waiting.connection == connection);
        self.waiting = stay;
        unlisted.extend(gone.into_iter().map(|waiting| waiting.go_on));
        if self.connection != connection {
            return true;
        }
        let Some(next) = self.waiting.pop_front() else { return false };
        (self.connection, self.since) = (next.connection, Instant::now());
        unlisted.push(next.go_on);
        true
    }

    /// Returns false when the connection asked has been silent for long and none waits.
    fn expire(&mut self, now: Instant, unlisted: &mut Vec<Continuation>) -> bool {
        while self.waiting.front().is_some_and(|first| first.since + TIMEOUT <= now) {
            let first = self.waiting.pop_front().expect("it was just seen");
            (self.connection, self.since) = (first.connection, now);
            unlisted.push(first.go_on);
        }
        !self.waiting.is_empty() || now < self.since + TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use format::Fingerprint;

    use super::*;

    fn names(first: u8) -> Entries {
        (first..first + 10).map(|byte| SegmentEntry { fingerprint: Fingerprint([byte; 32]), bytes: 8192 }).collect()
    }

    /// The connection that offered the digest, and the list if it was known.
    type Delivered = (u64, Option<Entries>);

    /// Lists, and the answers to those that offered their digests.
    struct Scene {
        names: FingerprintLists,
        begun: Instant,
        delivered: (Sender<Delivered>, Receiver<Delivered>),
    }

    impl Scene {
        fn new(max_bytes: usize) -> Self {
            Scene { names: FingerprintLists::new(max_bytes), begun: Instant::now(), delivered: channel() }
        }

        fn offer_digest(&self, entries: &Entries, connection: u64, after_ms: u64) {
            let (delivered, now) = (self.delivered.0.clone(), self.begun + Duration::from_millis(after_ms));
            let go_on = Box::new(move |names| delivered.send((connection, names)).unwrap());
            self.names.offer_digest(names_digest(entries), ClaimOwner(connection), now, go_on);
        }

        fn expire(&self, after_ms: u64) {
            let expired = self.names.expire(self.begun + Duration::from_millis(after_ms));
            expired.into_iter().for_each(|go_on| go_on(None));
        }

        fn forget(&self, connection: u64) {
            self.names.forget(ClaimOwner(connection)).into_iter().for_each(|go_on| go_on(None));
        }

        fn learn(&self, entries: &Entries) {
            self.names.learn(entries).into_iter().for_each(|go_on| go_on(Some(entries.clone())));
        }

        /// Returns the answers since the last call.
        fn delivered(&self) -> Vec<Delivered> {
            self.delivered.1.try_iter().collect()
        }

        fn holds(&self, entries: &Entries) -> bool {
            self.offer_digest(entries, 99, 0);
            self.forget(99);
            self.delivered()[0].1.as_ref() == Some(entries)
        }
    }

    #[test]
    fn the_first_is_asked_and_the_others_wait_for_its_offer() {
        let scene = Scene::new(1 << 20);
        (1..=3).for_each(|connection| scene.offer_digest(&names(0), connection, 0));
        scene.offer_digest(&names(7), 4, 0);
        assert_eq!(scene.delivered(), [(1, None), (4, None)]);
        scene.learn(&names(0));
        assert_eq!(scene.delivered(), [(2, Some(names(0))), (3, Some(names(0)))]);
        scene.offer_digest(&names(0), 5, 0);
        assert_eq!(scene.delivered(), [(5, Some(names(0)))]);
        assert_eq!(scene.names.lock().asked.len(), 1);
    }

    #[test]
    fn when_the_asked_connection_ends_the_next_is_asked() {
        let scene = Scene::new(1 << 20);
        (1..=4).for_each(|connection| scene.offer_digest(&names(0), connection, 0));
        scene.forget(2);
        scene.delivered();
        scene.forget(1);
        assert_eq!(scene.delivered(), [(3, None)], "only one is asked");
        scene.forget(3);
        assert_eq!(scene.delivered(), [(4, None)]);
        scene.forget(4);
        assert!(scene.delivered().is_empty() && scene.names.lock().asked.is_empty());
    }

    #[test]
    fn waits_end_after_a_second_and_skip_silent_connections() {
        let scene = Scene::new(1 << 20);
        scene.offer_digest(&names(0), 1, 0);
        scene.offer_digest(&names(0), 2, 400);
        scene.offer_digest(&names(0), 3, 900);
        scene.delivered();
        scene.expire(1399);
        assert!(scene.delivered().is_empty());
        scene.expire(1400);
        assert_eq!(scene.delivered(), [(2, None)]);
        scene.expire(1900);
        assert_eq!(scene.delivered(), [(3, None)]);
        scene.expire(2900);
        scene.offer_digest(&names(0), 4, 2900);
        assert_eq!(scene.delivered(), [(4, None)], "a client that was asked a second ago keeps no others waiting");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_not_used_for_longest_goes_first() {
        let one = held_bytes(&names(0));
        let scene = Scene::new(3 * one);
        (0..3).for_each(|first| scene.learn(&names(first)));
        scene.learn(&names(0));
        assert!((0..3).all(|first| scene.holds(&names(first))));
        scene.learn(&names(3));
        assert!(!scene.holds(&names(0)) && (1..=3).all(|first| scene.holds(&names(first))));
        let huge: Entries = (0..50).flat_map(|_| names(0).to_vec()).collect();
        scene.learn(&huge);
        assert!(!scene.holds(&huge) && scene.holds(&names(1)));
        assert_eq!(scene.names.lock().known.keys().len(), 3);
    }

    #[test]
    fn of_very_many_digest_offers_none_is_kept_waiting() {
        let scene = Scene::new(1 << 20);
        (0..2 * MAX_ASKED as u64).for_each(|connection| scene.offer_digest(&names(0), connection, 0));
        assert_eq!(scene.delivered().len(), MAX_ASKED + 1);
        assert_eq!(scene.names.lock().asked[&names_digest(&names(0))].waiting.len(), MAX_ASKED - 1);
    }
}

//! The other users of a stripe set, for the last process of a handle: it ends the session when they are done with it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use format::HandleKey;
use repository::Source;
use transfer::Replier;
use transfer::message::{Failure, FailureKind, Reply};

use super::stripe_owners::ConnectionId;

/// Others that have had nothing to make durable for so long may use the stripe set for another handle, or were done
/// with it at an earlier node process: they are not waited for.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most requests waiting at one stripe set; a session has few handles.
const MAX_WAITING: usize = 64;

/// Answers are given by the caller that takes them out of here, so that nothing is sent under the stripe set's lock.
#[derive(Default)]
pub(super) struct DetachWaiters {
    /// Streams that attached and have not detached, broken ones too: they come back. Each with its handle's key: processes
    /// that close a file may open it again before the last has closed it.
    streams: HashMap<Source, HandleKey>,
    /// The processes that attached here with a key, as long as one of them has not detached: one that has sent nothing
    /// to this node process yet may still be on its way to it, with bytes that its predecessor lost.
    came: Vec<(HandleKey, HashSet<u64>)>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    connection: ConnectionId,
    client: u64,
    key: HandleKey,
    /// Of the key, this one included.
    processes: usize,
    /// When the others last had something to make durable.
    idle_since: Instant,
    replier: Replier,
}

/// An answer that is due.
#[must_use]
pub(super) struct Due {
    replier: Replier,
    streams: u32,
}

impl Due {
    pub fn send(self) {
        self.replier.reply(Reply::Others { streams: self.streams });
    }
}

impl DetachWaiters {
    pub fn came(&mut self, source: Source, key: HandleKey) {
        self.streams.insert(source, key);
        match self.came.iter_mut().find(|(known, _)| *known == key) {
            Some((_, came)) => drop(came.insert(source.client)),
            None => self.came.push((key, HashSet::from([source.client]))),
        }
    }

    pub fn went(&mut self, source: Source) {
        let Some(key) = self.streams.remove(&source) else { return };
        if !self.streams.values().any(|other| *other == key) {
            self.came.retain(|(known, _)| *known != key);
        }
    }

    /// Gives the replier back when too many wait.
    pub fn wait(
        &mut self,
        (connection, source): (ConnectionId, Source),
        processes: u32,
        now: Instant,
        replier: Replier,
    ) -> Option<Replier> {
        let Some(key) = self.streams.get(&source).copied().filter(|_| self.waiting.len() < MAX_WAITING) else {
            return Some(replier);
        };
        let (client, processes) = (source.client, processes as usize);
        self.waiting.push(Waiting { connection, client, key, processes, idle_since: now, replier });
        None
    }

    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the requests that need not wait any longer; to be called often while one waits.
    pub fn due(&mut self, has_uncheckpointed: bool, now: Instant) -> Vec<Due> {
        let (mut due, mut waiting) = (Vec::new(), Vec::new());
        for mut entry in std::mem::take(&mut self.waiting) {
            if has_uncheckpointed {
                entry.idle_since = now;
            }
            let is_other = |(source, key): &(&Source, &HandleKey)| source.client != entry.client && **key == entry.key;
            let streams = self.streams.iter().filter(is_other).count() as u32;
            let have_all_come = self.came.iter().any(|(key, came)| *key == entry.key && came.len() >= entry.processes);
            if (streams == 0 && have_all_come) || now >= entry.idle_since + IDLE_TIMEOUT {
                due.push(Due { replier: entry.replier, streams });
            } else {
                waiting.push(entry);
            }
        }
        self.waiting = waiting;
        due
    }

    /// Drops a connection that is gone; it asks again over its next one.
    pub fn forget(&mut self, connection: ConnectionId) -> Vec<Replier> {
        let (gone, waiting) = self.waiting.drain(..).partition(|entry| entry.connection == connection);
        self.waiting = waiting;
        let gone: Vec<Waiting> = gone;
        gone.into_iter().map(|entry| entry.replier).collect()
    }
}

pub(super) fn too_many(replier: Replier) {
    let text = format!("{MAX_WAITING} processes wait already until they are the last at this file; try again later");
    replier.fail(Failure::new(FailureKind::Unavailable, text));
}

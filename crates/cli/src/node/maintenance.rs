//! The maintenance loop checkpoints stripe sets in good time; beside it, leases are renewed, dead clients expire, and
//! the sync scheduler runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::clients::REATTACH_TIMEOUT;
use super::stripe_owners::OwnerEntry;
use super::{Node, fingerprint_lists};

pub(super) const TICK: Duration = Duration::from_millis(50);
/// Received pieces are made durable within this time, so that their senders may forget them.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Under pressure it goes faster, but every checkpoint costs a flush of the disk.
const HINTED_INTERVAL: Duration = Duration::from_millis(250);
/// Under pressure, segments that stay incomplete for this long are stored in fragments, so that writers that wait for
/// each other go on.
const FRAGMENTS_TIMEOUT: Duration = Duration::from_secs(5);
/// The automatic checkpoint, which also stores segments that are not whole (design, rule 8).
const FULL_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);
/// How often leases of sessions are renewed; they last `repository::LEASE_MS`.
const RENEW_INTERVAL: Duration = Duration::from_secs(8);

/// Runs the maintenance loop of stripe sets. It waits for no disk and no catalog.
pub(super) fn keep(node: &Arc<Node>) {
    while !node.is_stopping() {
        std::thread::sleep(TICK);
        for entry in node.stripe_sets.all() {
            node.checkpoint_when_due(&entry);
            entry.answer_the_last();
        }
        fingerprint_lists::go_on(&node.waits, node.names.expire(Instant::now()), None);
        node.locks.end_silent_holders();
    }
}

/// Runs the maintenance loop of leases, which waits for the catalog when that is busy.
pub(super) fn keep_leases(node: &Arc<Node>) {
    let mut renewed = Instant::now();
    while !node.is_stopping() {
        std::thread::sleep(TICK);
        if renewed.elapsed() >= RENEW_INTERVAL {
            renewed = Instant::now();
            node.renew_leases();
            node.expire_clients();
        }
    }
}

impl Node {
    fn checkpoint_when_due(self: &Arc<Self>, entry: &Arc<OwnerEntry>) {
        if entry.owner.failure().is_some() {
            return self.report_failure(entry);
        }
        let age = entry.checkpointed_at.lock().expect("no panic holds it").elapsed();
        let hinted = entry.hinted.load(Ordering::Relaxed) || self.budget.used_bytes() > self.options.staging_bytes / 2;
        let incomplete = entry.completed_at.lock().expect("no panic holds it").elapsed();
        let uncheckpointed = entry.owner.uncheckpointed_bytes();
        if incomplete >= FULL_CHECKPOINT_INTERVAL && entry.owner.has_uncheckpointed() {
            self.checkpoint_soon(entry, true);
        } else if hinted && age >= HINTED_INTERVAL && entry.owner.has_uncheckpointed() {
            self.checkpoint_soon(entry, incomplete >= FRAGMENTS_TIMEOUT);
        } else if uncheckpointed >= self.options.checkpoint_bytes || (uncheckpointed > 0 && age >= CHECKPOINT_INTERVAL)
        {
            self.checkpoint_soon(entry, false);
        }
    }

    fn renew_leases(&self) {
        let entries = self.stripe_sets.all();
        for entry in &entries {
            // A session that ended meanwhile needs no lease; a catalog out of reach is tried again.
            let _ = self.repository.catalog().renew(entry.owner.options().session, repository::LEASE_MS, false);
        }
        // A file that has failed commits nothing any more.
        let relies = |entry: &Arc<OwnerEntry>| entry.owner.has_uncheckpointed() && entry.owner.failure().is_none();
        if !entries.iter().any(relies) {
            self.repository.lease().refresh();
        }
    }

    fn expire_clients(&self) {
        for entry in self.stripe_sets.all() {
            if entry.idle_for().is_some_and(|idle| idle > REATTACH_TIMEOUT)
                && let Err(error) = self.free(&entry)
            {
                tracing::warn!("storing what clients that are gone had sent: {error}");
            }
        }
        for handles in self.clients.take_dead() {
            for (session, key) in handles {
                self.leave(session, &key);
            }
        }
    }
}

/// Stripe sets that are checkpointed at a time.
const CHECKPOINTS: usize = 8;

/// Runs the sync scheduler: while applications share the node, it makes their writes durable, round after round.
pub(super) fn schedule_syncs(node: &Arc<Node>) {
    while !node.is_stopping() {
        if node.ingest.begin_round() {
            let began = Instant::now();
            node.make_all_durable();
            node.ingest.end_round(began.elapsed());
        }
    }
}

impl Node {
    /// Makes all received pieces durable. A failure stays with the stripe set or the store; the next call of a client
    /// reports it.
    fn make_all_durable(&self) {
        let entries: Vec<_> =
            self.stripe_sets.all().into_iter().filter(|entry| entry.owner.uncheckpointed_bytes() > 0).collect();
        for some in entries.chunks(CHECKPOINTS) {
            std::thread::scope(|threads| {
                for entry in some {
                    threads.spawn(|| self.checkpoint(entry, false, None));
                }
            });
        }
        let _ = self.repository.store().make_durable();
    }
}

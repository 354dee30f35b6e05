//! The keeper has seats settled in good time; beside it, leases are renewed, and what clients that died left is tidied up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Node;
use super::clients::GRACE;
use super::names;
use super::seats::Slot;

pub(super) const TICK: Duration = Duration::from_millis(50);
/// What was received is made durable within this time, so that its senders may forget it.
const SETTLE_AFTER: Duration = Duration::from_secs(1);
/// Under pressure it goes faster, but every settle costs a flush of the disk.
const PRESSED_AFTER: Duration = Duration::from_millis(250);
/// Under pressure, segments that stay incomplete for this long are stored in fragments, so that writers that wait for
/// each other go on.
const COMPLETE_AFTER: Duration = Duration::from_secs(5);
/// The automatic checkpoint, which also stores segments that are not whole (design, rule 8).
const CHECKPOINT_AFTER: Duration = Duration::from_secs(60);
/// How often leases of sessions are renewed; they last `repository::LEASE_MS`.
const RENEW_EVERY: Duration = Duration::from_secs(8);

/// The maintenance loop of seats. It waits for no disk and no catalog.
pub(super) fn keep(node: &Arc<Node>) {
    while !node.is_stopping() {
        std::thread::sleep(TICK);
        for slot in node.seats.all() {
            node.settle_when_due(&slot);
            slot.answer_the_last();
        }
        names::go_on(&node.waits, node.names.expire(Instant::now()), None);
        node.locks.end_silent_holders();
    }
}

/// The maintenance loop of leases, which waits for the catalog when that is busy.
pub(super) fn keep_leases(node: &Arc<Node>) {
    let mut renewed = Instant::now();
    while !node.is_stopping() {
        std::thread::sleep(TICK);
        if renewed.elapsed() >= RENEW_EVERY {
            renewed = Instant::now();
            node.renew_leases();
            node.bury_dead_clients();
        }
    }
}

impl Node {
    fn settle_when_due(self: &Arc<Self>, slot: &Arc<Slot>) {
        if slot.seat.failure().is_some() {
            return self.report_failure(slot);
        }
        let age = slot.settled_at.lock().expect("no panic holds it").elapsed();
        let pressed = slot.pressed.load(Ordering::Relaxed) || self.budget.used_bytes() > self.options.staging_bytes / 2;
        let incomplete = slot.completed_at.lock().expect("no panic holds it").elapsed();
        let unsettled = slot.seat.unsettled_bytes();
        if incomplete >= CHECKPOINT_AFTER && slot.seat.has_unsettled() {
            self.settle_soon(slot, true);
        } else if pressed && age >= PRESSED_AFTER && slot.seat.has_unsettled() {
            self.settle_soon(slot, incomplete >= COMPLETE_AFTER);
        } else if unsettled >= self.options.settle_bytes || (unsettled > 0 && age >= SETTLE_AFTER) {
            self.settle_soon(slot, false);
        }
    }

    fn renew_leases(&self) {
        let slots = self.seats.all();
        for slot in &slots {
            // A session that ended meanwhile needs no lease; a catalog out of reach is tried again.
            let _ = self.repository.catalog().renew(slot.seat.options().session, repository::LEASE_MS, false);
        }
        if slots.iter().all(|slot| !slot.seat.has_unsettled()) {
            self.repository.lease().refresh();
        }
    }

    fn bury_dead_clients(&self) {
        for slot in self.seats.all() {
            if slot.idle_for().is_some_and(|idle| idle > GRACE)
                && let Err(error) = self.free(&slot)
            {
                tracing::warn!("storing what clients that are gone had sent: {error}");
            }
        }
        for handles in self.clients.take_dead() {
            for (session, key) in handles {
                // What it had checkpointed stays, marked interrupted.
                let _ = self.repository.catalog().leave(session, &key);
            }
        }
    }
}

//! The workers: they take whole segments of whichever seat has some, and reduce them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::seats::Slot;

/// How long a worker sleeps at most before it looks around (it is woken when there is work).
const NAP: Duration = Duration::from_millis(200);

/// A worker's life.
pub(super) fn work(node: &Node) {
    let claimant = node.new_claimant();
    while !node.is_stopping() {
        let mut worked = false;
        for slot in node.seats.all() {
            // One round each, so that no seat waits behind another's backlog. A failure is the seat's: it
            // remembers it, and all who use it are sent it.
            worked |= slot.seat.reduce(claimant).unwrap_or_else(|_| {
                slot.announce_failure();
                false
            });
        }
        if !worked {
            node.wait_for_bell();
        }
    }
}

impl Node {
    /// Wakes the workers.
    pub(crate) fn ring(&self) {
        *self.rung.lock().expect("no panic holds it") = true;
        self.bell.notify_all();
    }

    fn wait_for_bell(&self) {
        let rung = self.rung.lock().expect("no panic holds it");
        let (mut rung, _) = self.bell.wait_timeout_while(rung, NAP, |rung| !*rung).expect("no panic holds it");
        *rung = false;
    }

    /// Settles in a thread of its own, unless one is at it.
    pub(crate) fn settle_soon(self: &Arc<Self>, slot: &Arc<Slot>, fragments: bool) {
        if slot.settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, held) = (self.clone(), slot.clone());
        let spawned = std::thread::Builder::new().name("settle".into()).spawn(move || {
            // A failure stays with the seat; the next call of a client reports it.
            let _ = node.settle(&held, fragments, None);
            held.settling.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            slot.settling.store(false, Ordering::Release);
        }
    }
}

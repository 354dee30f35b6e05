//! The workers: they take whole segments of whichever seat has some, and reduce them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::seats::Slot;
use super::work_queue::OF_NODE;

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
            let reduced = slot.seat.reduce(claimant).unwrap_or_else(|_| {
                node.report_failure(&slot);
                false
            });
            if reduced {
                slot.count_stored();
                node.advance();
            }
            worked |= reduced;
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

    /// Settles in the background, unless that is under way or asked for.
    pub(crate) fn settle_soon(self: &Arc<Self>, slot: &Arc<Slot>, fragments: bool) {
        if slot.settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, held, untaken) = (self.clone(), slot.clone(), slot.clone());
        let settle = move || {
            // A failure stays with the seat, and is sent to all who use it.
            let _ = node.settle(&held, fragments, None);
            held.settling.store(false, Ordering::Release);
        };
        self.settles.run(OF_NODE, settle, move || untaken.settling.store(false, Ordering::Release));
    }
}

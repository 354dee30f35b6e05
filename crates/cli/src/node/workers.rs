//! The workers: they take whole segments of whichever stripe set has some, and reduce them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::stripe_owners::OwnerEntry;
use super::work_queue::OF_NODE;

/// How long a worker sleeps at most before it looks around (it is woken when there is work).
const NAP: Duration = Duration::from_millis(200);

/// Runs a worker.
pub(super) fn work(node: &Node) {
    let claim_owner = node.new_claim_owner();
    while !node.is_stopping() {
        let mut worked = false;
        for entry in node.stripe_sets.all() {
            // One round each, so that no stripe set waits behind another's backlog. A failure is the stripe set's: it
            // remembers it, and all who use it are sent it.
            let reduced = entry.owner.reduce(claim_owner).unwrap_or_else(|_| {
                node.report_failure(&entry);
                false
            });
            if reduced {
                entry.count_stored();
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

    /// Checkpoints in the background, unless that is under way or asked for.
    pub(crate) fn checkpoint_soon(self: &Arc<Self>, entry: &Arc<OwnerEntry>, fragments: bool) {
        if entry.checkpoint_steps.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, held, untaken) = (self.clone(), entry.clone(), entry.clone());
        let checkpoint = move || {
            // A failure stays with the stripe set, and is sent to all who use it.
            let _ = node.checkpoint(&held, fragments, None);
            held.checkpoint_steps.store(false, Ordering::Release);
        };
        self.checkpoints.run(OF_NODE, checkpoint, move || untaken.checkpoint_steps.store(false, Ordering::Release));
    }
}

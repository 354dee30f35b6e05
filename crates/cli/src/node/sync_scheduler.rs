//! The sync scheduler: while applications share the node, it makes their writes durable, round after round.

use std::sync::Arc;
use std::time::Instant;

use super::Node;

/// Stripe sets that are checkpointed at a time.
const CHECKPOINTS: usize = 8;

/// Runs the sync scheduler.
pub(super) fn attend(node: &Arc<Node>) {
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

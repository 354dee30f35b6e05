//! The steward: while applications share the node, it makes what was taken in durable, round after round.

use std::sync::Arc;
use std::time::Instant;

use super::Node;

/// Seats that are settled at a time.
const SETTLES: usize = 8;

/// The steward's life.
pub(super) fn attend(node: &Arc<Node>) {
    while !node.is_stopping() {
        if node.shares.begin_round() {
            let began = Instant::now();
            node.make_all_durable();
            node.shares.end_round(began.elapsed());
        }
    }
}

impl Node {
    /// All that was received. A failure stays with the seat or the store; the next call of a client reports it.
    fn make_all_durable(&self) {
        let slots: Vec<_> = self.seats.all().into_iter().filter(|slot| slot.seat.unsettled_bytes() > 0).collect();
        for some in slots.chunks(SETTLES) {
            std::thread::scope(|threads| {
                for slot in some {
                    threads.spawn(|| self.settle(slot, false, None));
                }
            });
        }
        let _ = self.repository.store().make_durable();
    }
}

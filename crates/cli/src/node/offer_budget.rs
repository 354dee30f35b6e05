//! The memory of offers awaiting content, bounded for each connection and for the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transfer::message::{Failure, FailureKind};

/// A window of 64 MiB in segments of 8 KiB takes less than 1 MiB of this.
const MAX_CONNECTION_BYTES: u64 = 16 << 20;
const MAX_NODE_BYTES: u64 = 256 << 20;
/// Of an offer by itself.
const OFFER_BYTES: u64 = 512;
/// Of each segment: offset, fingerprint, length, and where it lies.
const SEGMENT_BYTES: u64 = 80;

pub(crate) struct OfferBudget {
    used_bytes: AtomicU64,
    max_bytes: u64,
    /// The node's, for a connection.
    whole: Option<Arc<OfferBudget>>,
}

/// An offer's part of the budget, given back with it.
pub(super) struct Charge {
    budget: Arc<OfferBudget>,
    bytes: u64,
}

impl OfferBudget {
    pub fn for_node() -> Arc<Self> {
        Arc::new(OfferBudget { used_bytes: AtomicU64::new(0), max_bytes: MAX_NODE_BYTES, whole: None })
    }

    pub fn for_connection(self: &Arc<Self>) -> Arc<Self> {
        let whole = Some(self.clone());
        Arc::new(OfferBudget { used_bytes: AtomicU64::new(0), max_bytes: MAX_CONNECTION_BYTES, whole })
    }

    /// Beyond its own bound a connection is refused; beyond the node's it is to come again later.
    pub fn charge(self: &Arc<Self>, segments: usize) -> Result<Charge, Failure> {
        let bytes = OFFER_BYTES + SEGMENT_BYTES * segments as u64;
        if !self.take(bytes) {
            let text =
                format!("offers awaiting content take more than {MAX_CONNECTION_BYTES} bytes of this connection");
            return Err(Failure::new(FailureKind::Refused, text));
        }
        let charge = Charge { budget: self.clone(), bytes };
        match &self.whole {
            Some(whole) if !whole.take(bytes) => {
                // The drop of the charge gives back what was not taken there, too.
                whole.used_bytes.fetch_add(bytes, Ordering::Relaxed);
                let text =
                    format!("offers awaiting content take more than {MAX_NODE_BYTES} bytes of the node's memory");
                Err(Failure::new(FailureKind::Unavailable, text))
            }
            _ => Ok(charge),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let wanted = used.saturating_add(bytes);
            (wanted <= self.max_bytes).then_some(wanted)
        });
        taken.is_ok()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(whole) = &self.budget.whole {
            whole.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(charged: Result<Charge, Failure>) -> Option<FailureKind> {
        charged.err().map(|failure| failure.kind)
    }

    #[test]
    fn offers_are_bounded_for_each_connection_and_for_the_node_and_given_back() {
        let node = OfferBudget::for_node();
        let segments = 100_000;
        let fill = |connection: &Arc<OfferBudget>| -> Vec<Charge> {
            std::iter::from_fn(|| connection.charge(segments).ok()).collect()
        };
        let first = node.for_connection();
        let held = fill(&first);
        assert_eq!(held.len(), 2);
        assert_eq!(kind(first.charge(segments)), Some(FailureKind::Refused));
        drop(held);
        assert_eq!((first.used_bytes.load(Ordering::Relaxed), node.used_bytes.load(Ordering::Relaxed)), (0, 0));
        let others: Vec<_> = (0..20).map(|_| node.for_connection()).collect();
        let held: Vec<_> = others.iter().map(fill).collect();
        assert_eq!(kind(first.charge(segments)), Some(FailureKind::Unavailable));
        drop(held);
        assert!(first.charge(segments).is_ok());
        assert_eq!(node.used_bytes.load(Ordering::Relaxed), 0);
    }
}

//! The catalog's clock. Leases run by it and versions are dated by it; nothing else depends on the time.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970. Tests and simulations give their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The machine's clock. All processes that share a catalog on disk share this one too.
pub fn system_clock() -> Clock {
    Arc::new(|| match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    })
}

/// When a lease given now runs out. It is held while the clock shows less than this.
pub(crate) fn lease_end_ns(now_ns: i64, lease_ms: u64) -> i64 {
    let lease_ns = i64::try_from(lease_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    now_ns.saturating_add(lease_ns)
}

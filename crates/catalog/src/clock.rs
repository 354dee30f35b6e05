//! The catalog's two clocks: versions are dated by the machine's time, which people and programs set; leases run by a
//! clock that is never set and never jumps.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since 1970. Tests and simulations pass their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Returns the machine's clock. All processes that share a catalog on disk share this one too.
pub fn system_clock() -> Clock {
    Arc::new(|| match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    })
}

/// Returns when a lease given now expires. It is held while the clock shows less than this.
pub(crate) fn lease_end_ns(now_ns: i64, lease_ms: u64) -> i64 {
    let lease_ns = i64::try_from(lease_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    now_ns.saturating_add(lease_ns)
}

/// The times of a lease clock: milliseconds since the machine started in the low bits, a number of that start above
/// them. Times of different starts cannot be compared: every earlier lease ended with its machine's run.
pub(crate) mod lease_time {
    use super::*;

    /// 2^41 ms are 69 years.
    const MS_BITS: u32 = 41;
    const MAX_MS: i64 = (1 << MS_BITS) - 1;
    /// The rest of 63 bits.
    const START_BITS: u32 = 22;

    /// Returns a clock that runs while the machine does: a machine that sleeps costs no session its lease, since all
    /// who share the catalog sleep with it.
    pub fn system_clock() -> Clock {
        let start = start_number() << MS_BITS;
        Arc::new(move || {
            let now = clock_gettime(ClockId::Monotonic);
            start | (now.tv_sec.saturating_mul(1000) + now.tv_nsec / 1_000_000).min(MAX_MS)
        })
    }

    /// Returns the lease clock of a test, which shows the test clock's time.
    pub fn of_clock(clock: Clock) -> Clock {
        Arc::new(move || (clock() / 1_000_000).clamp(0, MAX_MS))
    }

    /// Returns when a lease given now expires.
    pub fn end(now: i64, lease_ms: u64) -> i64 {
        let left_ms = (MAX_MS - (now & MAX_MS)) as u64;
        now + lease_ms.min(left_ms) as i64
    }

    /// Returns a number that distinguishes this start of the machine from all but one in four million others; where the
    /// system has none, all starts count as one, and a lease from before a restart may last as long as the machine ran
    /// before.
    fn start_number() -> i64 {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // FNV-1a: any hash does.
        let hash = id
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        (hash >> (64 - START_BITS)) as i64
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_lease_clock_counts_milliseconds_and_its_ends_never_reach_another_start() {
            let clock = system_clock();
            let first = clock();
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert!((25..5000).contains(&(clock() - first)));
            assert_eq!(end(first, 30_000), first + 30_000);
            assert_eq!(end(first, u64::MAX) >> MS_BITS, first >> MS_BITS);
        }
    }
}

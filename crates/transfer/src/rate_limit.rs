//! How fast this process may send to nodes and receive from them: one token bucket a direction, for all connections.
//!
//! A bucket holds what a fifth of a second may carry. Bytes pass in small steps and are paid for afterwards, so that a
//! connection that waits is never silent for long.

use std::io::IoSlice;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Slower than this, signs of life would be late behind data (bytes per second).
pub const MIN_RATE: u64 = 64 << 10;
/// Below this, a window that many connections shared would not be read in time: their peer gives them up after 30 s
/// (bytes per second).
const SLOW_RATE: u64 = 4 << 20;
/// The capacity of a bucket.
const BURST: Duration = Duration::from_millis(200);
const MIN_STEP_BYTES: usize = 4 << 10;

static UPLOAD: OnceLock<TokenBucket> = OnceLock::new();
static DOWNLOAD: OnceLock<TokenBucket> = OnceLock::new();

/// Limits what this process sends to nodes, and what it receives from them (bytes per second, at least [`MIN_RATE`]).
/// Call it once, before the first connection.
pub fn limit_rates(upload: Option<u64>, download: Option<u64>) {
    for (bucket, rate) in [(&UPLOAD, upload), (&DOWNLOAD, download)] {
        if let Some(rate) = rate {
            assert!(bucket.set(TokenBucket::new(rate)).is_ok(), "rates are limited once");
        }
    }
}

/// Returns what of the first piece may be sent at once; none where nothing is limited.
pub(crate) fn upload_step<'a>(pieces: &'a [IoSlice]) -> Option<&'a [u8]> {
    let bucket = UPLOAD.get()?;
    let first = pieces.iter().find(|piece| !piece.is_empty())?;
    Some(&first[..first.len().min(bucket.step_bytes())])
}

/// Waits until so many sent bytes are paid for.
pub(crate) fn pay_upload(bytes: usize) {
    if let Some(bucket) = UPLOAD.get() {
        bucket.pay(bytes);
    }
}

/// How many of so many bytes may be received at a time.
pub(crate) fn download_step(bytes: usize) -> usize {
    DOWNLOAD.get().map_or(bytes, |bucket| bytes.min(bucket.step_bytes()))
}

/// Waits until so many received bytes are paid for; returns how long.
pub(crate) fn pay_download(bytes: usize) -> Duration {
    DOWNLOAD.get().map_or(Duration::ZERO, |bucket| bucket.pay(bytes))
}

/// Whether a user's limit is what answers wait for, and not the link.
pub(crate) fn receives_slowly() -> bool {
    DOWNLOAD.get().is_some_and(|bucket| bucket.rate < SLOW_RATE)
}

/// Those who ask pay in turn: each waits behind those before it.
struct TokenBucket {
    rate: u64,
    /// Up to when the rate is used up.
    paid_until: Mutex<Option<Instant>>,
}

impl TokenBucket {
    fn new(rate: u64) -> Self {
        TokenBucket { rate: rate.max(1), paid_until: Mutex::new(None) }
    }

    /// A quarter of the capacity.
    fn step_bytes(&self) -> usize {
        let burst = (self.rate as f64 * BURST.as_secs_f64() / 4.0) as usize;
        burst.max(MIN_STEP_BYTES)
    }

    fn pay(&self, bytes: usize) -> Duration {
        let wait = self.take(bytes, Instant::now());
        std::thread::sleep(wait);
        wait
    }

    /// How long to wait after `now` with so many bytes.
    fn take(&self, bytes: usize, now: Instant) -> Duration {
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        // A full bucket has been paid for up to a burst ago.
        let full = now.checked_sub(BURST).unwrap_or(now);
        let begin = paid_until.map_or(full, |until| until.max(full));
        let end = begin + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        *paid_until = Some(end);
        end.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_the_rate() {
        let bucket = TokenBucket::new(1_000_000);
        let begun = Instant::now() + Duration::from_secs(10);
        let mut now = begun;
        assert_eq!(bucket.take(200_000, now), Duration::ZERO);
        for _ in 0..100 {
            now += bucket.take(50_000, now);
        }
        assert_eq!((now - begun).as_millis(), 5000, "5 MB at 1 MB/s behind the burst");
        now += Duration::from_secs(60);
        assert_eq!(bucket.take(200_000, now), Duration::ZERO, "an idle minute earns one burst");
        assert_eq!(bucket.take(100_000, now).as_millis(), 100);
    }

    #[test]
    fn those_who_share_a_bucket_wait_in_turn() {
        let bucket = TokenBucket::new(1_000_000);
        let now = Instant::now() + Duration::from_secs(10);
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(100_000, now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
    }
}

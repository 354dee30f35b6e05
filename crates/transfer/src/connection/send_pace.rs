//! How fast a peer takes what is being sent to it, as other threads than the sending one may see it.
//!
//! A message is handed to the kernel in steps. How long the step at hand has taken shows how fast the peer reads now,
//! whatever the kernel took at first.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const STEP_BYTES: usize = 256 << 10;
/// A peer that takes longer for a step reads less than 128 KiB a second.
const SLOW_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct SendPace {
    made: Instant,
    /// When the step at hand was begun, in ms since `made`; 0 when there is none.
    begun_ms: AtomicU64,
}

impl SendPace {
    pub fn new() -> Self {
        SendPace { made: Instant::now(), begun_ms: AtomicU64::new(0) }
    }

    /// Sends a step from the beginning of the pieces.
    pub fn step(&self, pieces: &[IoSlice], send: impl FnOnce(&[IoSlice]) -> io::Result<usize>) -> io::Result<usize> {
        let mut bytes = 0;
        let fits = |piece: &&IoSlice| {
            bytes += piece.len();
            bytes <= STEP_BYTES
        };
        let whole = pieces.iter().take_while(fits).count();
        self.begun_ms.store((self.made.elapsed().as_millis() as u64).max(1), Ordering::Relaxed);
        let sent = if whole > 0 { send(&pieces[..whole]) } else { send(&[IoSlice::new(&pieces[0][..STEP_BYTES])]) };
        self.begun_ms.store(0, Ordering::Relaxed);
        sent
    }

    pub fn is_slow(&self) -> bool {
        let begun_ms = self.begun_ms.load(Ordering::Relaxed);
        begun_ms != 0 && self.made.elapsed() >= Duration::from_millis(begun_ms) + SLOW_TIMEOUT
    }
}

//! How many watts a busy core takes above an idle one where all are busy, by the processors' counters of energy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use segment::EnergyCounters;

/// Long enough that the first moments, in which clocks change, are a small part of it.
const PERIOD: Duration = Duration::from_millis(500);

/// Returns what a busy core takes above an idle one (W): all cores idle for half a second, and then busy. `None` where nothing counts
/// energy that this process may read.
pub fn core_watts(cores: usize) -> Option<f64> {
    let counters = EnergyCounters::of_machine()?;
    let idle = counters.watts(&|| sleep(PERIOD))?;
    let busy = counters.watts(&|| keep_busy(cores))?;
    Some((busy - idle) / cores as f64).filter(|watts| *watts > 0.0)
}

/// Keeps so many cores busy with what stores do most: cutting and fingerprinting.
fn keep_busy(cores: usize) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    laboratory::fingerprint_mb_per_s();
                }
            });
        }
        sleep(PERIOD);
        is_over.store(true, Ordering::Relaxed);
    });
}

//! Runs that are on their way from the far store, so that none is fetched by two at once: many ranks open one file.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use format::Run;

/// Who has waited for so long fetches for himself.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct InFlight {
    runs: Mutex<Vec<Run>>,
    landed: Condvar,
}

/// While it lives, others wait for the run.
pub(super) struct FetchGuard<'a> {
    in_flight: &'a InFlight,
    run: Run,
}

impl InFlight {
    /// None where some of the run is on its way.
    pub fn begin(&self, run: Run) -> Option<FetchGuard<'_>> {
        let mut runs = self.runs();
        if runs.iter().any(|other| overlap(other, &run)) {
            return None;
        }
        runs.push(run);
        Some(FetchGuard { in_flight: self, run })
    }

    /// Waits until none of the run is on its way; false when that takes too long.
    pub fn wait(&self, run: Run) -> bool {
        let is_under_way = |runs: &mut Vec<Run>| runs.iter().any(|other| overlap(other, &run));
        let waited = self.landed.wait_timeout_while(self.runs(), FETCH_TIMEOUT, is_under_way);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut runs = self.in_flight.runs();
        if let Some(at) = runs.iter().position(|run| *run == self.run) {
            runs.swap_remove(at);
        }
        self.in_flight.landed.notify_all();
    }
}

fn overlap(one: &Run, other: &Run) -> bool {
    let end = |run: &Run| u64::from(run.first) + u64::from(run.count);
    one.container == other.container && u64::from(one.first) < end(other) && u64::from(other.first) < end(one)
}

#[cfg(test)]
mod tests {
    use format::ContainerId;

    use super::*;

    #[test]
    fn a_run_is_fetched_by_one_at_a_time() {
        let run = |first, count| Run { container: ContainerId(1), first, count };
        let in_flight = InFlight::default();
        let turn = in_flight.begin(run(10, 10)).unwrap();
        assert!(in_flight.begin(run(19, 1)).is_none() && in_flight.begin(run(0, 11)).is_none());
        assert!(in_flight.begin(run(20, 5)).is_some() && in_flight.begin(run(0, 10)).is_some());
        assert!(in_flight.begin(Run { container: ContainerId(2), ..run(10, 10) }).is_some());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| in_flight.wait(run(15, 1)));
            drop(turn);
            assert!(waiting.join().unwrap());
        });
        assert!(in_flight.begin(run(10, 10)).is_some());
    }
}

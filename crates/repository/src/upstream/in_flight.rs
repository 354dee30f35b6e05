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

    /// Returns a guard for each part of the run that is not on its way.
    pub fn begin_parts(&self, run: Run) -> Vec<FetchGuard<'_>> {
        let mut runs = self.runs();
        let mut busy: Vec<_> = runs.iter().filter(|other| overlap(other, &run)).copied().collect();
        busy.sort_unstable_by_key(|other| other.first);
        let parts = gaps(run, &busy);
        runs.extend(&parts);
        parts.into_iter().map(|run| FetchGuard { in_flight: self, run }).collect()
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

impl FetchGuard<'_> {
    pub fn run(&self) -> Run {
        self.run
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

/// Returns the parts of the run that none of the others, which are in order, has.
pub(super) fn gaps(run: Run, others: &[Run]) -> Vec<Run> {
    let end = run.first.saturating_add(run.count);
    let (mut next, mut parts) = (run.first, Vec::new());
    for other in others {
        if other.first > next {
            parts.push(Run { first: next, count: other.first.min(end) - next, ..run });
        }
        next = next.max(other.first.saturating_add(other.count)).min(end);
    }
    if next < end {
        parts.push(Run { first: next, count: end - next, ..run });
    }
    parts
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
    fn what_is_free_of_a_run_can_be_begun() {
        let run = |first, count| Run { container: ContainerId(1), first, count };
        let in_flight = InFlight::default();
        let _others = [in_flight.begin(run(20, 10)), in_flight.begin(run(5, 10)), in_flight.begin(run(45, 10))];
        let begun: Vec<_> = in_flight.begin_parts(run(10, 40)).iter().map(FetchGuard::run).collect();
        assert_eq!(begun, [run(15, 5), run(30, 15)]);
        assert!(in_flight.begin_parts(run(46, 4)).is_empty());
        let parts = in_flight.begin_parts(run(10, 40));
        assert!(parts.len() == 2 && in_flight.begin(run(16, 1)).is_none());
    }

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

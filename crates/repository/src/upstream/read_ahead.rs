//! Which segments of a far container are fetched before they are asked for: a file's lie mostly one behind another, and a
//! client that takes the node for near asks for few at a time.

use std::collections::VecDeque;

use format::{ContainerId, Run};

/// Containers that are read in order at a time, at most.
const MAX_CONTAINERS: usize = 64;
/// So near to the last request (segments) a request goes on from it: several threads of a client read one file.
const SLACK: u32 = 2048;
/// The window is at most so many times what it is at first.
const MAX_GROWTH: u32 = 8;

/// A container that is being read.
struct Reading {
    container: ContainerId,
    /// Where the requests have come to.
    end: u32,
    /// Fetched up to here.
    ahead: u32,
    window: u32,
    /// The container has no segment from here on, as far as is known.
    limit: u32,
}

pub(super) struct ReadAhead {
    /// Segments; none where they are too long for that.
    first_window: u32,
    /// The one used last is the last.
    readings: VecDeque<Reading>,
}

impl ReadAhead {
    pub fn new(first_window: u32) -> Self {
        ReadAhead { first_window, readings: VecDeque::new() }
    }

    /// Notes a request; returns what is to be fetched ahead of the next ones.
    pub fn requested(&mut self, run: Run) -> Option<Run> {
        let end = run.first.saturating_add(run.count);
        let known = self.readings.iter().position(|reading| reading.container == run.container);
        let mut reading = known.and_then(|at| self.readings.remove(at)).unwrap_or(Reading {
            container: run.container,
            end: run.first,
            ahead: end,
            window: 0,
            limit: u32::MAX,
        });
        let goes_on = run.first.abs_diff(reading.end) <= SLACK;
        reading.window = match reading.window {
            _ if !goes_on || known.is_none() => 0,
            // It asks once more.
            window if end <= reading.end => window,
            0 => self.first_window,
            window => window.saturating_mul(2).min(self.first_window * MAX_GROWTH),
        };
        (reading.end, reading.ahead) = match goes_on {
            true => (reading.end.max(end), reading.ahead.max(end)),
            false => (end, end),
        };
        let wanted = reading.end.saturating_add(reading.window).min(reading.limit);
        let is_rest = wanted == reading.limit;
        let due = wanted > reading.ahead && (is_rest || wanted - reading.ahead >= reading.window / 2);
        let next = due.then(|| Run { first: reading.ahead, count: wanted - reading.ahead, ..run });
        reading.ahead = if due { wanted } else { reading.ahead };
        self.readings.push_back(reading);
        if self.readings.len() > MAX_CONTAINERS {
            self.readings.pop_front();
        }
        next
    }

    /// Notes that the container has no segment from `limit` on.
    pub fn ended(&mut self, container: ContainerId, limit: u32) {
        if let Some(reading) = self.readings.iter_mut().find(|reading| reading.container == container) {
            reading.limit = limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> Run {
        Run { container: ContainerId(1), first, count }
    }

    #[test]
    fn a_container_read_in_order_is_fetched_once_and_further_each_time() {
        let mut ahead = ReadAhead::new(512);
        let (mut first, mut fetched_to) = (0, 64);
        assert_eq!(ahead.requested(run(0, 64)), None);
        for _ in 0..200 {
            first += 64;
            if let Some(next) = ahead.requested(run(first, 64)) {
                assert_eq!(next.first, fetched_to.max(first + 64));
                fetched_to = next.first + next.count;
            }
        }
        assert!(fetched_to >= first + 64 + 512 * MAX_GROWTH / 2, "{fetched_to} at {first}");
    }

    #[test]
    fn requests_here_and_there_fetch_nothing_ahead() {
        let mut ahead = ReadAhead::new(512);
        for at in [0, 100_000, 50_000, 200_000, 10_000] {
            assert_eq!([ahead.requested(run(at, 8)), ahead.requested(run(at, 8))], [None, None]);
        }
    }

    #[test]
    fn nothing_is_fetched_behind_the_end_of_a_container() {
        let mut ahead = ReadAhead::new(512);
        ahead.requested(run(0, 64));
        assert_eq!(ahead.requested(run(64, 64)), Some(run(128, 512)));
        ahead.ended(ContainerId(1), 700);
        assert_eq!(ahead.requested(run(128, 256)), Some(run(640, 60)));
        assert_eq!(ahead.requested(run(384, 256)), None);
    }

    #[test]
    fn few_containers_are_remembered() {
        let mut ahead = ReadAhead::new(512);
        for container in 0..1000 {
            ahead.requested(Run { container: ContainerId(container), ..run(0, 1) });
        }
        assert_eq!(ahead.readings.len(), MAX_CONTAINERS);
    }
}

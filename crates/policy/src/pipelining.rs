//! How many batches a client stores at once, and how long they are: enough for the link to be busy while questions and
//! answers are under way.
//!
//! A batch is under way for two round trips: its fingerprints are asked for, then what is missing is sent and answered.
//! Each has a connection meanwhile, which idles for a round trip between two batches and then begins slowly: a few long
//! batches fill a far link better than many short ones.

use std::time::Duration;

/// The link is taken to bring no more: one that is faster and as far is not filled.
const BYTES_PER_S: f64 = 125e6;
/// Of a worker: one file may be all there is, so that one worker alone should fill the link.
const MAX_BATCHES: usize = 16;
/// Of all workers together: each has a thread and, while it sends, a connection.
const MAX_BATCHES_IN_ALL: usize = 32;
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Of all workers together.
const MAX_BYTES: usize = 256 << 20;
/// Within a machine room a second batch at once gains nothing.
const NEAR: Duration = Duration::from_millis(2);
/// The two of a batch, and one for what a connection that idled sends slowly.
const ROUND_TRIPS: f64 = 3.0;

/// Batches that each worker stores at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipelining {
    pub batches: usize,
    pub batch_bytes: usize,
}

impl Pipelining {
    /// For a store whose answers take `round_trip`; no batch is shorter than `near_bytes`, which suits a near store.
    pub fn over(round_trip: Duration, near_bytes: usize, workers: usize) -> Self {
        if round_trip < NEAR {
            return Pipelining { batches: 1, batch_bytes: near_bytes };
        }
        let under_way_bytes = round_trip.as_secs_f64() * ROUND_TRIPS * BYTES_PER_S;
        let most = (MAX_BATCHES_IN_ALL / workers.max(1)).clamp(1, MAX_BATCHES);
        let most_bytes = (MAX_BYTES / workers.max(1) / most).clamp(near_bytes, MAX_BATCH_BYTES.max(near_bytes));
        let batch_bytes = ((under_way_bytes / most as f64) as usize).clamp(near_bytes, most_bytes);
        let wanted = (under_way_bytes / batch_bytes as f64).ceil() as usize;
        Pipelining { batches: wanted.clamp(1, most), batch_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_stores_are_sent_several_long_batches_at_once_and_near_ones_one() {
        let at = |ms: u64, workers| {
            let Pipelining { batches, batch_bytes } = Pipelining::over(Duration::from_millis(ms), 1 << 20, workers);
            (batches, batch_bytes >> 20)
        };
        assert_eq!([at(0, 2), at(1, 2), at(10, 2), at(180, 2)], [(1, 1), (1, 1), (4, 1), (16, 4)]);
        assert_eq!([at(180, 1), at(180, 16), at(180, 64), at(180, 1000)], [(16, 4), (2, 4), (1, 4), (1, 1)]);
    }

    #[test]
    fn all_workers_together_hold_a_bounded_number_of_bytes() {
        for (ms, workers) in [(3, 1), (20, 7), (180, 2), (180, 31), (600, 200)] {
            let Pipelining { batches, batch_bytes } = Pipelining::over(Duration::from_millis(ms), 1 << 20, workers);
            assert!(batches * batch_bytes * workers <= MAX_BYTES, "{batches} of {batch_bytes} at {ms} ms");
        }
    }
}

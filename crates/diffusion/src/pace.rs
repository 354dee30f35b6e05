//! How long tasks and transfers take, and the two numbers that follow: how far ahead of its slots a worker should know
//! its tasks, and how many may read from the store at once.

use policy::placement::Costs;

/// Weight of the newest in the running means.
const WEIGHT: f64 = 1.0 / 16.0;
/// A report and its answer are under way this long at most, as a rule.
const ROUND_TRIP_S: f64 = 0.1;
/// Transfers are begun early enough to end before their task begins, but not earlier than this.
const LOOK_AHEAD_S: f64 = 5.0;
/// Tasks known ahead, a slot.
const MAX_AHEAD: f64 = 64.0;
/// The window over which the store's bytes are counted, while it is read all the time.
const WINDOW_S: f64 = 1.0;
/// The weight of the store's best second, by which it fades with each newer one.
const FADING: f64 = 0.99;
/// Times the readers that use up the store, by its rate so far. If it can give more, each of them is still as fast as
/// the fastest was, the measured total grows with their number, and so does the number: at first fast, but by little
/// once they slow each other down, by what BBR probes with (Cardwell et al. 2016). For inputs that are read at once
/// come together, so each reader too many makes all late.
const GROWTH: f64 = 1.5;
const CROWD: f64 = 1.25;
/// Readers that have less than this share of the fastest one's rate slow each other down.
const CROWDED: f64 = 0.9;

#[derive(Default)]
pub(crate) struct Pace {
    task_s: Option<f64>,
    transfer_s: Option<f64>,
    peer_bytes_per_s: Option<f64>,
    /// The rates of the fastest reader, of the mean one, and of all together in the best window.
    reader_bytes_per_s: Option<f64>,
    mean_reader_bytes_per_s: Option<f64>,
    store_bytes_per_s: Option<f64>,
    window: Window,
}

/// The store's bytes while it was read.
#[derive(Default)]
struct Window {
    busy_s: f64,
    bytes: u64,
    /// When it was last counted, if the store has been read since.
    since_s: Option<f64>,
}

fn mix(mean: &mut Option<f64>, newest: f64) {
    *mean = Some(mean.map_or(newest, |mean| mean + (newest - mean) * WEIGHT));
}

fn raise(most: &mut Option<f64>, newest: f64, fading: f64) {
    *most = Some(most.map_or(newest, |most| newest.max(most * fading)));
}

impl Pace {
    pub fn task(&mut self, seconds: f64) {
        mix(&mut self.task_s, seconds.max(1e-5));
    }

    pub fn read_from_peer(&mut self, bytes: u64, seconds: f64) {
        mix(&mut self.transfer_s, seconds);
        mix(&mut self.peer_bytes_per_s, rate(bytes, seconds));
    }

    /// Notes that a read from the store begins.
    pub fn reads_from_store(&mut self, now_s: f64) {
        self.window.since_s.get_or_insert(now_s);
    }

    /// `seconds` since it was ordered; `is_last` when there is no other read.
    pub fn read_from_store(&mut self, now_s: f64, bytes: u64, seconds: f64, is_last: bool) {
        mix(&mut self.transfer_s, seconds);
        // Were the fastest forgotten in a crowd, the crowd would grow for ever.
        raise(&mut self.reader_bytes_per_s, rate(bytes, seconds), 1.0);
        mix(&mut self.mean_reader_bytes_per_s, rate(bytes, seconds));
        let since_s = self.window.since_s.take().unwrap_or(now_s);
        self.window.since_s = (!is_last).then_some(now_s);
        self.window.busy_s += now_s - since_s;
        self.window.bytes += bytes;
        if self.window.busy_s >= WINDOW_S {
            raise(&mut self.store_bytes_per_s, rate(self.window.bytes, self.window.busy_s), FADING);
            (self.window.busy_s, self.window.bytes) = (0.0, 0);
        }
    }

    /// None before the first task has ended.
    pub fn task_s(&self) -> Option<f64> {
        self.task_s
    }

    /// Returns the tasks a worker should have beside those in its slots, a slot; one at least.
    pub fn ahead(&self) -> u32 {
        let Some(task_s) = self.task_s else { return 1 };
        let horizon_s = self.transfer_s.map_or(0.0, |transfer_s| 2.0 * transfer_s).clamp(ROUND_TRIP_S, LOOK_AHEAD_S);
        (horizon_s / task_s).ceil().clamp(1.0, MAX_AHEAD) as u32
    }

    /// Readers of the store at once; each worker may have one, and `unmeasured` before anything is known.
    pub fn store_readers(&self, workers: usize, unmeasured: usize, store_bytes_per_s: Option<f64>) -> usize {
        let Some(reader) = self.reader_bytes_per_s else { return unmeasured };
        // Before a window has passed: each that began was as fast.
        let total = store_bytes_per_s.or(self.store_bytes_per_s).unwrap_or(unmeasured as f64 * reader);
        let is_crowded = self.mean_reader_bytes_per_s.is_some_and(|mean| mean < CROWDED * reader);
        let times = if is_crowded { CROWD } else { GROWTH };
        ((times * total / reader).ceil() as usize).max(workers)
    }

    /// Returns the rates of `costs`, as far as they were measured.
    pub fn corrected(&self, costs: Costs) -> Costs {
        let peer_bytes_per_s = self.peer_bytes_per_s.unwrap_or(costs.peer_bytes_per_s);
        Costs {
            store_reader_bytes_per_s: self.reader_bytes_per_s.unwrap_or(costs.store_reader_bytes_per_s),
            peer_bytes_per_s,
            local_bytes_per_s: costs.local_bytes_per_s.max(peer_bytes_per_s),
            ..costs
        }
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes.max(1) as f64 / seconds.max(1e-4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of `total` bytes a second, `reader` to each, as `read_from_store` sees it.
    fn settled(total: f64, reader: f64) -> usize {
        let mut pace = Pace::default();
        let mut now_s = 0.0;
        for _ in 0..2000 {
            let readers = pace.store_readers(4, 4, None) as f64;
            let seconds = 100.0 / reader.min(total / readers);
            now_s += seconds / readers;
            pace.read_from_store(now_s, 100, seconds, false);
        }
        pace.store_readers(4, 4, None)
    }

    #[test]
    fn a_pause_of_all_readers_does_not_count_as_a_slow_store() {
        let mut pace = Pace::default();
        for begun_s in [100.0, 200.0] {
            pace.reads_from_store(begun_s);
            (0..10).for_each(|at| pace.read_from_store(begun_s + 0.1 * f64::from(at), 100, 0.1, at == 9));
        }
        let readers = pace.store_readers(1, 4, None);
        assert!((1..=2).contains(&readers), "1000 bytes a second, of which one reader has all: {readers}");
        assert!(pace.store_bytes_per_s.is_some_and(|total| total > 900.0), "{:?}", pace.store_bytes_per_s);
    }

    #[test]
    fn so_many_read_from_the_store_as_use_it_up_and_not_many_more() {
        let readers = settled(4000.0, 100.0);
        assert!((40..=120).contains(&readers), "{readers}");
        assert!(settled(200.0, 100.0) <= 8);
    }
}

//! How long tasks and transfers take, and so how far ahead of its slots a worker should know its tasks.

use policy::placement::Costs;

/// Weight of the newest in the running means.
const WEIGHT: f64 = 1.0 / 16.0;
/// A report and its answer are under way this long at most, as a rule.
const ROUND_TRIP_S: f64 = 0.1;
/// Transfers are begun early enough to end before their task's turn, but not earlier than this.
const LOOK_AHEAD_S: f64 = 5.0;
/// Tasks known ahead, a slot.
const MOST_AHEAD: f64 = 64.0;

#[derive(Default)]
pub(crate) struct Pace {
    task_s: Option<f64>,
    transfer_s: Option<f64>,
    store_bytes_per_s: Option<f64>,
    peer_bytes_per_s: Option<f64>,
}

fn mix(mean: &mut Option<f64>, newest: f64) {
    *mean = Some(mean.map_or(newest, |mean| mean + (newest - mean) * WEIGHT));
}

impl Pace {
    pub fn task(&mut self, seconds: f64) {
        mix(&mut self.task_s, seconds.max(1e-5));
    }

    pub fn transfer(&mut self, is_from_peer: bool, bytes: u64, seconds: f64) {
        let seconds = seconds.max(1e-4);
        mix(&mut self.transfer_s, seconds);
        let rate = if is_from_peer { &mut self.peer_bytes_per_s } else { &mut self.store_bytes_per_s };
        mix(rate, bytes.max(1) as f64 / seconds);
    }

    /// Nobody knows before the first has ended.
    pub fn task_s(&self) -> Option<f64> {
        self.task_s
    }

    /// Tasks a worker should have beside those in its slots, a slot; one at least.
    pub fn ahead(&self) -> u32 {
        let Some(task_s) = self.task_s else { return 1 };
        let horizon_s = self.transfer_s.map_or(0.0, |transfer_s| 2.0 * transfer_s).clamp(ROUND_TRIP_S, LOOK_AHEAD_S);
        (horizon_s / task_s).ceil().clamp(1.0, MOST_AHEAD) as u32
    }

    /// The rates of `costs`, as far as they were measured.
    pub fn corrected(&self, costs: Costs) -> Costs {
        let peer_bytes_per_s = self.peer_bytes_per_s.unwrap_or(costs.peer_bytes_per_s);
        Costs {
            store_reader_bytes_per_s: self.store_bytes_per_s.unwrap_or(costs.store_reader_bytes_per_s),
            peer_bytes_per_s,
            local_bytes_per_s: costs.local_bytes_per_s.max(peer_bytes_per_s),
            ..costs
        }
    }
}

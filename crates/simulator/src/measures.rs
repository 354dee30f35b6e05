//! The results of a run: totals, response times, and its course from moment to moment.

use crate::testbed::Testbed;
use crate::workload::Workload;

/// Length of a moment in seconds.
pub const MOMENT_S: f64 = 10.0;

/// The events of ten seconds, and the state at their end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    pub at_s: f64,
    /// Input of the tasks submitted.
    pub demand_bytes: f64,
    pub local_bytes: f64,
    pub peer_bytes: f64,
    pub store_bytes: f64,
    /// Inputs by where they were found.
    pub local_hits: u64,
    pub peer_hits: u64,
    pub misses: u64,
    pub nodes: u32,
    pub busy_slots: u32,
    pub waiting: u64,
}

/// Times in seconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub tasks: usize,
    /// From the first submission's clock, 0, to the last task's end.
    pub makespan_s: f64,
    /// With all input local and no other cost: the last submission, or all work over all CPUs.
    pub ideal_s: f64,
    pub response_mean_s: f64,
    pub response_p95_s: f64,
    pub response_p99_s: f64,
    pub cpu_hours: f64,
    pub bytes_local: f64,
    pub bytes_peer: f64,
    pub bytes_store: f64,
    pub hits_local: u64,
    pub hits_peer: u64,
    pub misses: u64,
    /// Speed-up over first-available from the store, a fluid estimate, by CPU-hour.
    pub performance_index: f64,
    pub moments: Vec<Moment>,
}

impl Report {
    pub fn efficiency(&self) -> f64 {
        self.ideal_s / self.makespan_s
    }

    /// Returns the share of inputs found on the task's own node.
    pub fn local_hit_ratio(&self) -> f64 {
        self.hits_local as f64 / (self.hits_local + self.hits_peer + self.misses).max(1) as f64
    }
}

#[derive(Default)]
pub struct Measures {
    now: Moment,
    total: Moment,
    moments: Vec<Moment>,
    responses_s: Vec<f32>,
    last_end_s: f64,
}

impl Measures {
    pub fn submitted(&mut self, input_bytes: f64) {
        self.now.demand_bytes += input_bytes;
    }

    pub fn read_local(&mut self, bytes: f64) {
        self.now.local_bytes += bytes;
        self.now.local_hits += 1;
    }

    pub fn read_peer(&mut self, bytes: f64) {
        self.now.peer_bytes += bytes;
        self.now.peer_hits += 1;
    }

    /// A node that leaves gave it to one that stays: no task asked for it.
    pub fn handed_over(&mut self, bytes: f64) {
        self.now.peer_bytes += bytes;
    }

    pub fn read_store(&mut self, bytes: f64) {
        self.now.store_bytes += bytes;
        self.now.misses += 1;
    }

    pub fn wrote_local(&mut self, bytes: f64) {
        self.now.local_bytes += bytes;
    }

    pub fn ended(&mut self, now_s: f64, submitted_s: f64) {
        self.responses_s.push((now_s - submitted_s) as f32);
        self.last_end_s = now_s;
    }

    pub fn ended_tasks(&self) -> usize {
        self.responses_s.len()
    }

    /// Notes that a moment is over.
    pub fn moment(&mut self, at_s: f64, nodes: u32, busy_slots: u32, waiting: u64) {
        let moment = Moment { at_s, nodes, busy_slots, waiting, ..std::mem::take(&mut self.now) };
        self.total.local_bytes += moment.local_bytes;
        self.total.peer_bytes += moment.peer_bytes;
        self.total.store_bytes += moment.store_bytes;
        self.total.local_hits += moment.local_hits;
        self.total.peer_hits += moment.peer_hits;
        self.total.misses += moment.misses;
        self.moments.push(moment);
    }

    pub fn last_end_s(&self) -> f64 {
        self.last_end_s
    }

    pub fn report(mut self, workload: &Workload, testbed: &Testbed, cpu_hours: f64) -> Report {
        let tasks = self.responses_s.len();
        let response_mean_s = self.responses_s.iter().map(|&s| f64::from(s)).sum::<f64>() / tasks as f64;
        self.responses_s.sort_unstable_by(f32::total_cmp);
        let percentile = |share: f64| f64::from(self.responses_s[((tasks - 1) as f64 * share) as usize]);
        Report {
            tasks,
            makespan_s: self.last_end_s,
            ideal_s: ideal_s(workload, testbed),
            response_mean_s,
            response_p95_s: percentile(0.95),
            response_p99_s: percentile(0.99),
            cpu_hours,
            bytes_local: self.total.local_bytes,
            bytes_peer: self.total.peer_bytes,
            bytes_store: self.total.store_bytes,
            hits_local: self.total.local_hits,
            hits_peer: self.total.peer_hits,
            misses: self.total.misses,
            performance_index: first_available_s(workload, testbed) / self.last_end_s / cpu_hours,
            moments: self.moments,
        }
    }
}

fn ideal_s(workload: &Workload, testbed: &Testbed) -> f64 {
    let work_s = |task| {
        let read_s = workload.input_bytes(&task) as f64 / testbed.local_bytes_per_s;
        let written: u64 = task.outputs.iter().map(|file| workload.file_bytes[file.0 as usize]).sum();
        read_s + written as f64 / testbed.local_write_bytes_per_s + task.compute_s + testbed.dispatch_s
    };
    let all_s: f64 = workload.tasks().map(work_s).sum();
    let last_s = workload.tasks().last().map_or(0.0, |task| task.submitted_s);
    last_s.max(all_s / f64::from(testbed.slots()))
}

/// Returns the time of first-available with all nodes, as a fluid: tasks in order, each at the rate of store or CPUs.
pub fn first_available_s(workload: &Workload, testbed: &Testbed) -> f64 {
    workload.tasks().fold(0.0, |free_s: f64, task| {
        let bytes = workload.input_bytes(&task) as f64;
        let slot_s = bytes / testbed.store_reader_bytes_per_s + task.compute_s + testbed.dispatch_s;
        free_s.max(task.submitted_s) + (bytes / testbed.store_bytes_per_s).max(slot_s / f64::from(testbed.slots()))
    })
}

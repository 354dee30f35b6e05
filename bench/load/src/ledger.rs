//! Bytes moved by time, and how long requests took. Times are from the plan's beginning. Shared by all clients: a cell
//! is an atomic sum, so no thread waits for another.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::plan::{Operation, Plan};

pub struct Ledger {
    beginning: Instant,
    interval: Duration,
    /// Answers that began and ended within are counted among the latencies.
    window: (Duration, Duration),
    accounts: Vec<Account>,
}

struct Account {
    /// Bytes moved in each interval from the beginning; the last also takes what comes after the end.
    series: Vec<AtomicU64>,
    failures: AtomicU64,
    first_failure: Mutex<Option<String>>,
    /// In µs, by operation and size.
    latencies: Mutex<BTreeMap<(&'static str, usize), Vec<u32>>>,
}

#[derive(Serialize)]
pub struct Report<'a> {
    interval_ms: u64,
    warm_ms: u64,
    measured_ms: u64,
    /// Of this process.
    cpu_s: f64,
    applications: Vec<ApplicationReport<'a>>,
}

#[derive(Serialize)]
struct ApplicationReport<'a> {
    name: &'a str,
    bytes: Vec<u64>,
    failures: u64,
    first_failure: Option<String>,
    requests: Vec<RequestReport>,
}

/// Of one operation and size, answered within the measured time.
#[derive(Serialize)]
struct RequestReport {
    operation: &'static str,
    bytes: usize,
    answered: usize,
    p50_us: u32,
    p95_us: u32,
    p99_us: u32,
    most_us: u32,
}

impl Ledger {
    pub fn new(plan: &Plan, beginning: Instant) -> Ledger {
        let columns = plan.length().as_millis() as usize / plan.interval_ms as usize + 2;
        let account = || Account {
            series: (0..columns).map(|_| AtomicU64::new(0)).collect(),
            failures: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            latencies: Mutex::new(BTreeMap::new()),
        };
        Ledger {
            beginning,
            interval: Duration::from_millis(plan.interval_ms),
            window: (Duration::from_millis(plan.warm_ms), plan.length()),
            accounts: plan.applications.iter().map(|_| account()).collect(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.beginning.elapsed()
    }

    pub fn moved(&self, application: usize, bytes: usize, now: Duration) {
        let series = &self.accounts[application].series;
        let column = (now.as_nanos() / self.interval.as_nanos()) as usize;
        series[column.min(series.len() - 1)].fetch_add(bytes as u64, Relaxed);
    }

    pub fn answered(&self, application: usize, operation: Operation, bytes: usize, began: Duration, now: Duration) {
        if began < self.window.0 || now > self.window.1 {
            return;
        }
        let name = match operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        let took_us = u32::try_from((now - began).as_micros()).unwrap_or(u32::MAX);
        let mut latencies = self.accounts[application].latencies.lock().expect("no client panics");
        latencies.entry((name, bytes)).or_default().push(took_us);
    }

    pub fn failed(&self, application: usize, what: String) {
        let account = &self.accounts[application];
        account.failures.fetch_add(1, Relaxed);
        account.first_failure.lock().expect("no client panics").get_or_insert(what);
    }

    pub fn report<'a>(&self, plan: &'a Plan) -> Report<'a> {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Report {
            interval_ms: plan.interval_ms,
            warm_ms: plan.warm_ms,
            measured_ms: plan.measured_ms,
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            applications: plan
                .applications
                .iter()
                .zip(&self.accounts)
                .map(|(a, account)| account.report(&a.name))
                .collect(),
        }
    }
}

impl Account {
    fn report<'a>(&self, name: &'a str) -> ApplicationReport<'a> {
        let mut latencies = self.latencies.lock().expect("no client panics");
        ApplicationReport {
            name,
            bytes: self.series.iter().map(|cell| cell.load(Relaxed)).collect(),
            failures: self.failures.load(Relaxed),
            first_failure: self.first_failure.lock().expect("no client panics").clone(),
            requests: latencies
                .iter_mut()
                .map(|(&(operation, bytes), took)| RequestReport::of(operation, bytes, took))
                .collect(),
        }
    }
}

impl RequestReport {
    fn of(operation: &'static str, bytes: usize, took_us: &mut [u32]) -> RequestReport {
        took_us.sort_unstable();
        let quantile = |share: f64| took_us[((took_us.len() - 1) as f64 * share).round() as usize];
        let (p50_us, p95_us, p99_us, most_us) = (quantile(0.5), quantile(0.95), quantile(0.99), quantile(1.0));
        RequestReport { operation, bytes, answered: took_us.len(), p50_us, p95_us, p99_us, most_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let mut took: Vec<u32> = (1..=101).rev().collect();
        let report = RequestReport::of("read", 4096, &mut took);
        assert_eq!((report.p50_us, report.p99_us, report.most_us, report.answered), (51, 100, 101, 101));
    }
}

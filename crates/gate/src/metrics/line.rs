//! The line a minute in the log: each application's target share, its achieved share, its rate and its waits.

use std::fmt::Write;

use super::status::Status;

/// More are only counted.
const MAX_NAMED: usize = 8;

/// Returns the line, or none when nothing happened: an idle gate is silent.
pub fn line(status: &Status) -> Option<String> {
    let mut busy: Vec<_> = status.applications.iter().filter(|application| application.achieved > 0.0).collect();
    busy.sort_by(|a, b| b.achieved.total_cmp(&a.achieved).then_with(|| a.name.cmp(&b.name)));
    let bytes_per_s: f64 = busy.iter().map(|a| a.recent.up_bytes_per_s + a.recent.down_bytes_per_s).sum();
    let mut line = format!("{:.0} s, {}", status.window_s, speed(bytes_per_s));
    for application in busy.iter().take(MAX_NAMED) {
        let recent = &application.recent;
        // Writing to a string does not fail, here and below.
        let _ = write!(
            line,
            "; {} {:.1} % of {:.1} %, {} read, {} written",
            application.name,
            application.achieved * 100.0,
            application.wanted * 100.0,
            speed(recent.down_bytes_per_s),
            speed(recent.up_bytes_per_s),
        );
        if let Some(p99) = recent.p99 {
            let _ = write!(line, ", p99 {:.1} ms", p99.as_secs_f64() * 1e3);
        }
        if recent.late > 0 {
            let _ = write!(line, ", {} late", recent.late);
        }
    }
    if busy.len() > MAX_NAMED {
        let _ = write!(line, "; {} more", busy.len() - MAX_NAMED);
    }
    (!busy.is_empty()).then_some(line)
}

fn speed(bytes_per_s: f64) -> String {
    format!("{:.1} MB/s", bytes_per_s / 1e6)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::status::tests::application;
    use super::super::status::{ApplicationStatus, ExchangeStatus};
    use super::super::window::Recent;
    use super::*;

    fn busy(name: &str, achieved: f64) -> ApplicationStatus {
        let p99 = Some(Duration::from_micros(12_300));
        let recent = Recent { up_bytes_per_s: achieved * 100e6, down_bytes_per_s: 1e6, p99, ..Recent::default() };
        ApplicationStatus { achieved, wanted: 0.5, recent, ..application(name, 1) }
    }

    fn status(applications: Vec<ApplicationStatus>) -> Status {
        let exchange = ExchangeStatus { live_peers: 0, traffic: Default::default() };
        let (up, window_s) = (Duration::ZERO, 60.0);
        let (process, call_memory, servers) = Default::default();
        Status { up, window_s, process, applications, servers, call_memory, exchange }
    }

    #[test]
    fn the_busiest_come_first_and_the_idle_not_at_all() {
        let line = line(&status(vec![application("idle", 1), busy("genome", 0.25), busy("climate", 0.75)])).unwrap();
        let expected = "60 s, 102.0 MB/s; \
                        climate 75.0 % of 50.0 %, 1.0 MB/s read, 75.0 MB/s written, p99 12.3 ms; \
                        genome 25.0 % of 50.0 %, 1.0 MB/s read, 25.0 MB/s written, p99 12.3 ms";
        assert_eq!(line, expected);
    }

    #[test]
    fn who_missed_deadlines_is_named() {
        let mut climate = busy("climate", 1.0);
        climate.recent.late = 3;
        assert!(line(&status(vec![climate])).unwrap().ends_with(", p99 12.3 ms, 3 late"));
    }

    #[test]
    fn an_idle_gate_is_silent_and_a_crowd_is_counted() {
        assert_eq!(line(&status(vec![application("idle", 1)])), None);
        let crowd = (0..20).map(|number| busy(&number.to_string(), 0.05)).collect();
        assert!(line(&status(crowd)).unwrap().ends_with("; 12 more"));
    }
}

//! The Prometheus page. Names are `thalweg_gate_…` with the unit last; an application is a label. Histograms have a bucket
//! a doubling from 64 µs to half an hour, a quarter of what the gate itself keeps.

use std::time::Duration;

use monitoring::Exposition;

use super::status::{ApplicationStatus, Distribution, ServerStatus, Status};

const SHORTEST_BUCKET: Duration = Duration::from_micros(64);
const DOUBLINGS: u32 = 25;

pub fn page(status: &Status) -> Exposition {
    let mut page = Page(Exposition::new("thalweg_gate_"));
    page.totals(status);
    page.present(status);
    page.distributions(status);
    page.servers(status);
    page.call_memory(status);
    page.exchange(status);
    page.0.process(status.up.as_secs_f64(), status.process);
    page.0
}

struct Page(Exposition);

impl Page {
    fn totals(&mut self, status: &Status) {
        self.0.family("bytes_total", "counter", "Bytes of bodies and calls that passed, by application and direction.");
        for application in &status.applications {
            for (direction, bytes) in [("written", application.up_bytes), ("read", application.down_bytes)] {
                self.0.sample("bytes_total", &[("application", &*application.name), ("direction", direction)], bytes);
            }
        }
        let applications = |page: &mut Self, name, kind, help, value: fn(&ApplicationStatus) -> f64| {
            page.by_application(status, name, kind, help, value);
        };
        applications(self, "charged_bytes_total", "counter", "Bytes counted against shares.", |a| {
            a.charged_bytes as f64
        });
        applications(self, "requests_total", "counter", "Operations begun.", |a| a.requests as f64);
        applications(self, "deadlines_missed_total", "counter", "Turns complete after their deadline.", |a| {
            a.late as f64
        });
    }

    fn present(&mut self, status: &Status) {
        self.by_application(status, "queued_turns", "gauge", "Turns waited for now.", |a| a.queued as f64);
        self.by_application(status, "served_turns", "gauge", "Turns taken and not complete now.", |a| {
            a.in_service as f64
        });
        let help = "Requests sent to a server and not answered now (of NFS and GlusterFS: reads and writes).";
        self.by_application(status, "unanswered_requests", "gauge", help, |a| a.unanswered as f64);
        let help = "Time since the oldest request that is not answered was sent.";
        self.by_application(status, "oldest_unanswered_seconds", "gauge", help, |a| a.oldest_unanswered.as_secs_f64());
        self.by_application(status, "weight", "gauge", "Weight, within the group if there is one.", |a| {
            a.weight.into()
        });
        self.by_application(status, "worst_delay_seconds", "gauge", "Longest delay past a deadline so far.", |a| {
            a.worst_late.as_secs_f64()
        });
        let help = "Part of the bandwidth due by the weights of those that wanted some in the last seconds.";
        self.by_application(status, "share_wanted_ratio", "gauge", help, |a| a.wanted);
        let help = "Part of the bandwidth that was achieved in the last seconds.";
        self.by_application(status, "share_achieved_ratio", "gauge", help, |a| a.achieved);
    }

    fn by_application(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&ApplicationStatus) -> f64,
    ) {
        self.0.family(name, kind, help);
        for application in &status.applications {
            self.0.sample(name, &[("application", &*application.name)], value(application));
        }
    }

    fn distributions(&mut self, status: &Status) {
        self.0.family("request_seconds", "histogram", "From an operation's beginning until its answer had passed.");
        for application in &status.applications {
            self.histogram("request_seconds", &application.name, &application.latencies);
        }
        self.0.family("wait_seconds", "histogram", "From asking for a turn until it began.");
        for application in &status.applications {
            self.histogram("wait_seconds", &application.name, &application.waits);
        }
    }

    fn histogram(&mut self, name: &str, application: &str, distribution: &Distribution) {
        let mut buckets = distribution.buckets.iter().peekable();
        let mut count = 0;
        let bucket = format!("{name}_bucket");
        for doubling in 0..=DOUBLINGS {
            let end = SHORTEST_BUCKET * (1 << doubling);
            while let Some((_, more)) = buckets.next_if(|(upper_end, _)| *upper_end <= end) {
                count += more;
            }
            let end = end.as_secs_f64().to_string();
            self.0.sample(&bucket, &[("application", application), ("le", &end)], count);
        }
        count += buckets.map(|(_, more)| more).sum::<u64>();
        self.0.sample(&bucket, &[("application", application), ("le", "+Inf")], count);
        self.0.sample(&format!("{name}_sum"), &[("application", application)], distribution.total.as_secs_f64());
        self.0.sample(&format!("{name}_count"), &[("application", application)], count);
    }

    fn servers(&mut self, status: &Status) {
        self.by_server(status, "depth_bytes", "Most bytes that are to be outstanding at a server.", |s| s.depth_bytes);
        self.by_server(status, "in_flight_bytes", "Bytes outstanding at a server.", |s| s.in_flight_bytes);
        let help = "Most S3 uploads above 1 MiB that are to be under way at a server.";
        self.by_server(status, "long_uploads_limit", help, |s| s.uploads.limit);
        let help = "S3 uploads above 1 MiB that are under way, without those that are waited for no longer.";
        self.by_server(status, "long_uploads", help, |s| s.uploads.under_way);
        let help = "S3 uploads above 1 MiB that wait to begin.";
        self.by_server(status, "long_uploads_waiting", help, |s| s.uploads.waiting);
    }

    fn by_server(&mut self, status: &Status, name: &str, help: &str, value: fn(&ServerStatus) -> u64) {
        self.0.family(name, "gauge", help);
        for server in &status.servers {
            self.0.sample(name, &[("server", &*server.name)], value(server));
        }
    }

    fn call_memory(&mut self, status: &Status) {
        let memory = &status.call_memory;
        self.0.family(
            "call_memory_limit_bytes",
            "gauge",
            "Most bytes that calls and replies of NFS and GlusterFS hold.",
        );
        self.0.sample("call_memory_limit_bytes", &[], memory.limit_bytes);
        self.0.family("call_memory_bytes", "gauge", "Bytes that calls and replies of NFS and GlusterFS hold.");
        self.0.sample("call_memory_bytes", &[], memory.used_bytes);
        self.0.family("call_connections", "gauge", "Connections of NFS and GlusterFS clients.");
        self.0.sample("call_connections", &[], memory.connections);
    }

    fn exchange(&mut self, status: &Status) {
        let traffic = &status.exchange.traffic;
        self.0.family("exchange_live_peers", "gauge", "Other gates heard of within a second.");
        self.0.sample("exchange_live_peers", &[], status.exchange.live_peers);
        self.0.family("exchange_packets_total", "counter", "Packets between gates.");
        for (outcome, count) in [("sent", traffic.sent), ("received", traffic.received), ("refused", traffic.refused)] {
            self.0.sample("exchange_packets_total", &[("outcome", outcome)], count);
        }
        self.0.family("exchange_sent_bytes_total", "counter", "Bytes of packets to other gates.");
        self.0.sample("exchange_sent_bytes_total", &[], traffic.sent_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::super::histogram::Histogram;
    use super::super::status::ExchangeStatus;
    use super::super::status::tests::application;
    use super::*;
    use crate::upstream_scheduler::UploadCounts;

    fn status() -> Status {
        let latencies = Histogram::default();
        [1, 70, 70, 5_000, 3_000_000_000_000].iter().for_each(|us| latencies.note(Duration::from_micros(*us)));
        let mut climate = application("climate", 16);
        climate.latencies = Distribution { buckets: latencies.buckets().collect(), total: Duration::from_millis(6) };
        climate.up_bytes = 1 << 60;
        Status {
            up: Duration::from_secs(7),
            window_s: 5.0,
            process: Default::default(),
            applications: vec![climate, application("a \"b\" \\ c\nd", 1)],
            servers: vec![ServerStatus {
                name: "127.0.0.1:9000".into(),
                depth_bytes: 1,
                in_flight_bytes: 0,
                uploads: UploadCounts { limit: 2, under_way: 1, waiting: 3 },
            }],
            call_memory: Default::default(),
            exchange: ExchangeStatus { live_peers: 1, traffic: Default::default() },
        }
    }

    /// Returns the name with labels, and value, of a line; as strict as Prometheus about names, labels and numbers.
    fn sample(line: &str) -> (&str, &str, f64) {
        let (series, value) = line.rsplit_once(' ').expect("a value behind a blank");
        let name = series.split('{').next().expect("split gives one at least");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        let labels = series[name.len()..].trim_start_matches('{').trim_end_matches('}');
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (label, text) = label.split_once("=\"").expect("label and value");
            assert!(label.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
            assert!(!text.contains('\n'), "{line}");
        }
        (name, series, value.parse().expect("a number"))
    }

    fn family<'a>(name: &'a str, kinds: &HashMap<&str, &str>) -> &'a str {
        let ends = ["_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
        ends.into_iter().find(|base| kinds.get(base) == Some(&"histogram")).unwrap_or(name)
    }

    #[test]
    fn every_sample_follows_its_own_family_and_no_series_comes_twice() {
        let page = page(&status()).into_text();
        let (mut kinds, mut current, mut seen) = (HashMap::new(), "", HashSet::new());
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("name and kind");
                assert!(kinds.insert(name, kind).is_none(), "{name} comes twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
                current = name;
            } else if !line.starts_with("# HELP ") {
                let (name, series, value) = sample(line);
                assert_eq!(family(name, &kinds), current, "{line}");
                assert!(seen.insert(series), "{series} comes twice");
                assert!(value >= 0.0);
            }
        }
        assert!(kinds.len() >= 15 && page.ends_with('\n'));
    }

    #[test]
    fn buckets_only_grow_and_the_last_has_all() {
        let page = page(&status()).into_text();
        let is_climate = |line: &&str| line.starts_with("thalweg_gate_request_seconds_bucket{application=\"climate\"");
        let counts: Vec<f64> = page.lines().filter(is_climate).map(|line| sample(line).2).collect();
        assert!(counts.is_sorted() && counts.len() == DOUBLINGS as usize + 2, "{counts:?}");
        assert_eq!((counts[0], counts[1], counts[counts.len() - 2], counts[counts.len() - 1]), (1.0, 3.0, 4.0, 5.0));
        assert!(page.contains("thalweg_gate_request_seconds_count{application=\"climate\"} 5\n"));
    }

    #[test]
    fn long_uploads_are_shown_with_their_limit() {
        let page = page(&status()).into_text();
        for (name, value) in [("long_uploads_limit", 2), ("long_uploads", 1), ("long_uploads_waiting", 3)] {
            let line = format!("thalweg_gate_{name}{{server=\"127.0.0.1:9000\"}} {value}\n");
            assert!(page.contains(&line), "{page}");
        }
    }

    #[test]
    fn large_counters_keep_every_byte_and_odd_names_are_escaped() {
        let page = page(&status()).into_text();
        assert!(page.contains("{application=\"climate\",direction=\"written\"} 1152921504606846976\n"), "{page}");
        assert!(page.contains(r#"thalweg_gate_weight{application="a \"b\" \\ c\nd"} 1"#));
    }
}

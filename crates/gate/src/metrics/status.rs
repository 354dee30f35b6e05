//! Everything that is shown of a gate, at one moment; the pages, the log and `thalweg gate top` are made of it.

use std::rc::Rc;
use std::time::Duration;

use policy::fairness::target_shares::{Claim, target_shares};
use serde_json::{Value, json};

use super::window::{Recent, Window};
use crate::exchange::Traffic;
use crate::upstream_scheduler::UploadCounts;
use monitoring::Process;

pub struct Status {
    pub up: Duration,
    /// The span of the recent figures.
    pub window_s: f64,
    pub process: Process,
    pub applications: Vec<ApplicationStatus>,
    pub servers: Vec<ServerStatus>,
    pub call_memory: CallMemoryStatus,
    pub exchange: ExchangeStatus,
}

pub struct ApplicationStatus {
    pub name: Rc<str>,
    pub weight: u32,
    /// With the group's weight.
    pub group: Option<(Rc<str>, u32)>,
    /// Since the gate began: bytes from clients to servers, and back.
    pub up_bytes: u64,
    pub down_bytes: u64,
    pub charged_bytes: u64,
    pub requests: u64,
    pub queued: u64,
    pub in_service: u64,
    /// Requests sent and not answered, and the age of the oldest.
    pub unanswered: u64,
    pub oldest_unanswered: Duration,
    /// Turns complete after their deadline, and the worst delay past one.
    pub late: u64,
    pub worst_late: Duration,
    pub latencies: Distribution,
    pub waits: Distribution,
    pub recent: Recent,
    /// Parts of a whole of 1, over the window. All are zero while nothing is charged.
    pub wanted: f64,
    pub achieved: f64,
}

/// A histogram as it is now: upper ends of buckets, and their counts.
pub struct Distribution {
    pub buckets: Vec<(Duration, u64)>,
    pub total: Duration,
}

pub struct ServerStatus {
    pub name: Rc<str>,
    pub depth_bytes: u64,
    pub in_flight_bytes: u64,
    pub uploads: UploadCounts,
}

/// The memory held by calls and replies of NFS and GlusterFS.
#[derive(Default)]
pub struct CallMemoryStatus {
    pub limit_bytes: usize,
    pub used_bytes: usize,
    pub connections: usize,
}

pub struct ExchangeStatus {
    pub live_peers: usize,
    pub traffic: Traffic,
}

/// An application with something outstanding for this part of the time counts as wanting all that it can get.
const EAGER: f64 = 0.5;

/// Fills in each application's achieved and target share in the window.
pub(super) fn share_out(applications: &mut [ApplicationStatus], window: &Window) {
    for application in applications.iter_mut() {
        application.recent = window.recent(&application.name);
    }
    let whole: u64 = applications.iter().map(|application| application.recent.charged_bytes).sum();
    if whole == 0 {
        return;
    }
    for application in applications.iter_mut() {
        application.achieved = application.recent.charged_bytes as f64 / whole as f64;
    }
    let claims: Vec<Claim> = applications.iter().map(ApplicationStatus::claim).collect();
    for (application, part) in applications.iter_mut().zip(target_shares(&claims)) {
        application.wanted = part;
    }
}

impl ApplicationStatus {
    fn claim(&self) -> Claim {
        let is_eager = self.recent.outstanding >= EAGER;
        let demand = if is_eager { None } else { Some(self.achieved) };
        Claim { weight: self.weight, group: self.group.clone(), demand }
    }

    fn to_json(&self) -> Value {
        let recent = &self.recent;
        json!({
            "name": *self.name,
            "weight": self.weight,
            "group": self.group.as_ref().map(|(name, _)| &**name),
            "wanted": self.wanted,
            "achieved": self.achieved,
            "outstanding": recent.outstanding,
            "read_bytes_per_s": recent.down_bytes_per_s,
            "written_bytes_per_s": recent.up_bytes_per_s,
            "requests_per_s": recent.requests_per_s,
            "queued": self.queued,
            "in_service": self.in_service,
            "unanswered": self.unanswered,
            "oldest_unanswered_s": self.oldest_unanswered.as_secs_f64(),
            "p50_ms": milliseconds(recent.p50),
            "p99_ms": milliseconds(recent.p99),
            "read_bytes": self.down_bytes,
            "written_bytes": self.up_bytes,
            "charged_bytes": self.charged_bytes,
            "requests": self.requests,
            "late": self.late,
            "worst_late_ms": self.worst_late.as_secs_f64() * 1e3,
        })
    }
}

fn milliseconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| duration.as_secs_f64() * 1e3)
}

impl Status {
    /// Returns `/status.json`, which `thalweg gate top` reads.
    pub fn to_json(&self) -> Value {
        let Traffic { sent, sent_bytes, received, refused } = self.exchange.traffic;
        let servers = self.servers.iter().map(|server| {
            json!({
                "name": *server.name,
                "depth_bytes": server.depth_bytes,
                "in_flight_bytes": server.in_flight_bytes,
                "long_uploads": {
                    "limit": server.uploads.limit,
                    "under_way": server.uploads.under_way,
                    "waiting": server.uploads.waiting,
                },
            })
        });
        json!({
            "up_s": self.up.as_secs_f64(),
            "window_s": self.window_s,
            "cpu_s": self.process.cpu.as_secs_f64(),
            "resident_bytes": self.process.resident_bytes,
            "applications": self.applications.iter().map(ApplicationStatus::to_json).collect::<Vec<_>>(),
            "servers": servers.collect::<Vec<_>>(),
            "call_memory": {
                "limit_bytes": self.call_memory.limit_bytes,
                "used_bytes": self.call_memory.used_bytes,
                "connections": self.call_memory.connections,
            },
            "exchange": {
                "live_peers": self.exchange.live_peers,
                "packets_sent": sent,
                "bytes_sent": sent_bytes,
                "packets_received": received,
                "packets_refused": refused,
            },
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::histogram::Histogram;
    use super::super::window::Reading;
    use super::*;

    pub fn application(name: &str, weight: u32) -> ApplicationStatus {
        let distribution = || Distribution { buckets: Histogram::default().buckets().collect(), total: Duration::ZERO };
        ApplicationStatus {
            name: name.into(),
            weight,
            group: None,
            up_bytes: 0,
            down_bytes: 0,
            charged_bytes: 0,
            requests: 0,
            queued: 0,
            in_service: 0,
            unanswered: 0,
            oldest_unanswered: Duration::ZERO,
            late: 0,
            worst_late: Duration::ZERO,
            latencies: distribution(),
            waits: distribution(),
            recent: Recent::default(),
            wanted: 0.0,
            achieved: 0.0,
        }
    }

    fn window(charged: &[(&str, u64, bool)]) -> Window {
        let mut window = Window::new(1);
        let names: Vec<Rc<str>> = charged.iter().map(|(name, ..)| (*name).into()).collect();
        window.mark(Duration::ZERO, names.iter().map(|name| (name.clone(), Reading::default())));
        window.glance(names.iter().zip(charged).filter(|(_, (.., busy))| *busy).map(|(name, _)| name));
        let readings = names
            .iter()
            .zip(charged)
            .map(|(name, (_, bytes, _))| (name.clone(), Reading { charged_bytes: *bytes, ..Reading::default() }));
        window.mark(Duration::from_secs(1), readings);
        window
    }

    #[test]
    fn who_is_always_waiting_wants_its_weight_and_who_is_not_what_it_got() {
        let mut applications = [application("climate", 3), application("genome", 1), application("login", 8)];
        share_out(&mut applications, &window(&[("climate", 500, true), ("genome", 400, true), ("login", 100, false)]));
        let upstream = applications.map(|application| (application.wanted, application.achieved));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let expected = [(0.675, 0.5), (0.225, 0.4), (0.1, 0.1)];
        assert!(upstream.iter().zip(&expected).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1)), "{upstream:?}");
    }

    #[test]
    fn while_nothing_is_charged_shares_are_zero() {
        let mut applications = [application("climate", 3)];
        share_out(&mut applications, &window(&[("climate", 0, true)]));
        assert_eq!((applications[0].wanted, applications[0].achieved), (0.0, 0.0));
    }
}

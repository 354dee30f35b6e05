//! The live page of a gate.

use std::time::Duration;

use monitoring::{Cell, Health, History, Kind, Plot, Table, View};

use super::status::{ApplicationStatus, ServerStatus, Status};

pub fn view(status: &Status, health: Health, history: &History) -> View {
    let total = history.total();
    let peers = status.exchange.live_peers as u64;
    let memory = &status.call_memory;
    View {
        title: format!("Gate on {}", rustix::system::uname().nodename().to_string_lossy()),
        health,
        facts: vec![
            ("up", Kind::Seconds, Cell::Number(Some(status.up.as_secs_f64()))),
            ("processor time", Kind::Seconds, Cell::Number(Some(status.process.cpu.as_secs_f64()))),
            ("memory", Kind::Bytes, Cell::count(status.process.resident_bytes)),
            ("calls hold", Kind::Bytes, Cell::count(memory.used_bytes as u64)),
            ("other gates", Kind::Count, Cell::count(peers)),
        ],
        plots: vec![Plot { title: "Written", values: total.written }, Plot { title: "Read", values: total.read }],
        tables: vec![applications(status, history), servers(&status.servers)],
    }
}

fn applications(status: &Status, history: &History) -> Table {
    let columns = vec![
        ("application", Kind::Text),
        ("weight", Kind::Count),
        ("target share", Kind::Share),
        ("achieved share", Kind::Share),
        ("written", Kind::Rate),
        ("read", Kind::Rate),
        ("written, last minutes", Kind::Plot),
        ("read, last minutes", Kind::Plot),
        ("queued", Kind::Count),
        ("at the server", Kind::Count),
        ("unanswered", Kind::Count),
        ("oldest", Kind::Seconds),
        ("p99", Kind::Text),
        ("written in all", Kind::Bytes),
        ("read in all", Kind::Bytes),
    ];
    let mut all: Vec<&ApplicationStatus> = status.applications.iter().collect();
    all.sort_by(|a, b| b.achieved.total_cmp(&a.achieved).then_with(|| a.name.cmp(&b.name)));
    Table { title: "Applications", columns, rows: all.into_iter().map(|one| application(one, history)).collect() }
}

fn application(application: &ApplicationStatus, history: &History) -> Vec<Cell> {
    let (recent, rates) = (&application.recent, history.rates(&application.name));
    let number = |number| Cell::Number(Some(number));
    vec![
        Cell::text(&application.name),
        Cell::count(application.weight.into()),
        number(application.wanted),
        number(application.achieved),
        number(recent.up_bytes_per_s),
        number(recent.down_bytes_per_s),
        Cell::Plot(rates.written),
        Cell::Plot(rates.read),
        Cell::count(application.queued),
        Cell::count(application.in_service),
        Cell::count(application.unanswered),
        number(application.oldest_unanswered.as_secs_f64()),
        Cell::text(recent.p99.map_or("–".into(), milliseconds)),
        Cell::count(application.up_bytes),
        Cell::count(application.down_bytes),
    ]
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn servers(servers: &[ServerStatus]) -> Table {
    let columns = vec![("server", Kind::Text), ("outstanding", Kind::Bytes), ("at most", Kind::Bytes)];
    let row = |server: &ServerStatus| {
        vec![Cell::text(&server.name), Cell::count(server.in_flight_bytes), Cell::count(server.depth_bytes)]
    };
    Table { title: "Servers", columns, rows: servers.iter().map(row).collect() }
}

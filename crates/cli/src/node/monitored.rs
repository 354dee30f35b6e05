//! The pages of the node's metrics address: `/metrics`, `/health` and those that the live page polls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

use monitoring::{Cell, Exposition, Health, History, Kind, Monitored, Plot, Process, Table, View};
use transfer::Server;

use super::Node;
use super::traffic::{ApplicationTraffic, ConnectionTraffic, Counts};

/// The data of the pages; only their thread has it.
struct Shown {
    node: Arc<Node>,
    server: Server,
    began: Instant,
    history: RefCell<History>,
}

/// An application as it is now.
struct Application {
    name: String,
    counts: Counts,
    connections: u64,
    unanswered: u64,
    waiting_bytes: u64,
    weight: u32,
}

/// Serves the pages until the process ends.
pub(super) fn serve(listener: TcpListener, node: Arc<Node>, server: Server) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    monitoring::spawn(listener, Shown { node, server, began: Instant::now(), history: RefCell::default() })?;
    Ok(address)
}

impl Monitored for Shown {
    fn metrics(&self) -> Exposition {
        let mut page = Exposition::new("thalweg_node_");
        self.of_applications(&mut page);
        self.of_node(&mut page);
        page.process(self.began.elapsed().as_secs_f64(), Process::now());
        page
    }

    fn health(&self) -> Health {
        let repository = &self.node.repository;
        if self.node.is_asked_to_stop() {
            return Err("the node is stopping".into());
        }
        let broken = repository.displaced().map(|why| format!("the node ends: {why}"));
        let broken = broken.or_else(|| repository.reopen_reason().map(|why| format!("the node restarts: {why}")));
        broken.map_or(Ok(()), Err)
    }

    fn view(&self) -> View {
        let total = self.history.borrow().total();
        let process = Process::now();
        let queued: usize = self.queues().iter().map(|(_, jobs)| jobs).sum();
        View {
            title: format!("Node {}", self.server.local_address()),
            health: self.health(),
            facts: vec![
                ("up", Kind::Seconds, Cell::Number(Some(self.began.elapsed().as_secs_f64()))),
                ("processor time", Kind::Seconds, Cell::Number(Some(process.cpu.as_secs_f64()))),
                ("memory", Kind::Bytes, Cell::count(process.resident_bytes)),
                ("held for programs", Kind::Bytes, Cell::count(self.node.budget.used_bytes())),
                ("files being written", Kind::Count, Cell::count(self.node.stripe_sets.all().len() as u64)),
                ("queued jobs", Kind::Count, Cell::count(queued as u64)),
                ("connections", Kind::Count, Cell::count(self.server.connections() as u64)),
            ],
            plots: vec![Plot { title: "Received", values: total.written }, Plot { title: "Sent", values: total.read }],
            tables: vec![self.applications_table(), self.connections_table()],
        }
    }

    fn mark(&self) {
        let applications = self.node.traffic.applications();
        let counts = applications.iter().map(|one| (one.name.as_str(), one.counts()));
        let readings = counts.map(|(name, counts)| (name, [counts.received_bytes, counts.sent_bytes]));
        self.history.borrow_mut().mark(self.began.elapsed(), readings);
    }
}

impl Shown {
    /// By name.
    fn applications(&self) -> Vec<Application> {
        let mut own: HashMap<String, (u64, u64)> = HashMap::new();
        for connection in self.node.traffic.connections() {
            let (count, unanswered) = own.entry(connection.application.name.clone()).or_default();
            *count += 1;
            *unanswered += connection.unanswered();
        }
        let waiting = self.node.ingest.waiting_bytes();
        let weights = self.node.options.weights.as_ref();
        let application = |one: Arc<ApplicationTraffic>| {
            let (connections, unanswered) = own.get(&one.name).copied().unwrap_or_default();
            Application {
                counts: one.counts(),
                connections,
                unanswered,
                waiting_bytes: waiting.get(&one.name).copied().unwrap_or(0),
                weight: weights.and_then(|weights| weights.get(&one.name).copied()).unwrap_or(1),
                name: one.name.clone(),
            }
        };
        let mut all: Vec<_> = self.node.traffic.applications().into_iter().map(application).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn of_applications(&self, page: &mut Exposition) {
        let all = self.applications();
        let mut family = |name: &str, kind: &str, help: &str, value: fn(&Application) -> u64| {
            page.family(name, kind, help);
            all.iter().for_each(|one| page.sample(name, &[("application", &one.name)], value(one)));
        };
        let help = "Bytes of files' content that clients wrote.";
        family("written_bytes_total", "counter", help, |one| one.counts.written_bytes);
        let help = "Bytes of content and blocks that came from clients.";
        family("received_bytes_total", "counter", help, |one| one.counts.received_bytes);
        let help = "Bytes of new blocks that the store took.";
        family("stored_bytes_total", "counter", help, |one| one.counts.stored_bytes);
        let help = "Bytes of content and blocks that were sent to clients.";
        family("sent_bytes_total", "counter", help, |one| one.counts.sent_bytes);
        family("requests_total", "counter", "Requests of clients.", |one| one.counts.requests);
        family("unanswered_requests", "gauge", "Requests without an answer now.", |one| one.unanswered);
        let help = "Bytes that wait for their application's turn now.";
        family("waiting_bytes", "gauge", help, |one| one.waiting_bytes);
        family("connections", "gauge", "Connections of clients now.", |one| one.connections);
        family("weight", "gauge", "Weight among applications that write at once.", |one| one.weight.into());
    }

    fn of_node(&self, page: &mut Exposition) {
        let help = "Bytes that are held for programs that outrun the node.";
        page.single("staged_bytes", "gauge", help, self.node.budget.used_bytes());
        let help = "Most bytes that are held for programs that outrun the node.";
        page.single("staging_limit_bytes", "gauge", help, self.node.options.staging_bytes);
        page.single("open_files", "gauge", "Files being written.", self.node.stripe_sets.all().len());
        if let Some(upstream) = self.node.repository.upstream() {
            let figures = upstream.figures();
            let help = "Blocks that wait to be sent to the store upstream.";
            page.single("upstream_waiting_blocks", "gauge", help, figures.waiting_blocks);
            let help = "Bytes of blocks that were sent to the store upstream.";
            page.single("upstream_sent_bytes_total", "counter", help, figures.sent_bytes);
            let help = "Bytes of blocks that came from the store upstream.";
            page.single("upstream_fetched_bytes_total", "counter", help, figures.fetched_bytes);
            let help = "Bytes of its blocks that were answered from here.";
            page.single("upstream_cached_bytes_total", "counter", help, figures.cached_bytes);
        }
        page.family("queued_jobs", "gauge", "Syncs, commits and waits that wait for a thread.");
        self.queues().iter().for_each(|(queue, jobs)| page.sample("queued_jobs", &[("queue", queue)], jobs));
    }

    fn queues(&self) -> [(&'static str, usize); 3] {
        let Node { checkpoints, commits, waits, .. } = &*self.node;
        [("checkpoint", checkpoints.len()), ("commit", commits.len()), ("wait", waits.len())]
    }

    fn applications_table(&self) -> Table {
        let columns = vec![
            ("application", Kind::Text),
            ("weight", Kind::Count),
            ("connections", Kind::Count),
            ("written", Kind::Bytes),
            ("stored", Kind::Bytes),
            ("ratio", Kind::Ratio),
            ("receiving", Kind::Rate),
            ("last minutes", Kind::Plot),
            ("sending", Kind::Rate),
            ("last minutes", Kind::Plot),
            ("sent", Kind::Bytes),
            ("unanswered", Kind::Count),
            ("waiting", Kind::Bytes),
        ];
        let mut all = self.applications();
        all.sort_by_key(|one| std::cmp::Reverse(one.counts.received_bytes + one.counts.sent_bytes));
        let history = self.history.borrow();
        Table { title: "Applications", columns, rows: all.iter().map(|one| one.row(&history)).collect() }
    }

    fn connections_table(&self) -> Table {
        let columns = vec![
            ("connection", Kind::Text),
            ("application", Kind::Text),
            ("job", Kind::Text),
            ("open for", Kind::Seconds),
            ("written", Kind::Bytes),
            ("received", Kind::Bytes),
            ("sent", Kind::Bytes),
            ("requests", Kind::Count),
            ("unanswered", Kind::Count),
        ];
        let mut all: Vec<_> = self.node.traffic.connections().into_iter().map(|one| (one.counts(), one)).collect();
        all.sort_by_key(|(counts, _)| std::cmp::Reverse(counts.received_bytes + counts.sent_bytes));
        let rows = all.iter().map(|(counts, one)| connection(counts, one)).collect();
        Table { title: "Connections", columns, rows }
    }
}

impl Application {
    fn row(&self, history: &History) -> Vec<Cell> {
        let (counts, rates) = (&self.counts, history.rates(&self.name));
        vec![
            Cell::text(&self.name),
            Cell::count(self.weight.into()),
            Cell::count(self.connections),
            Cell::count(counts.written_bytes),
            Cell::count(counts.stored_bytes),
            Cell::ratio(counts.written_bytes, counts.stored_bytes),
            Cell::Number(rates.written.last().copied()),
            Cell::Plot(rates.written),
            Cell::Number(rates.read.last().copied()),
            Cell::Plot(rates.read),
            Cell::count(counts.sent_bytes),
            Cell::count(self.unanswered),
            Cell::count(self.waiting_bytes),
        ]
    }
}

fn connection(counts: &Counts, one: &ConnectionTraffic) -> Vec<Cell> {
    vec![
        Cell::text(one.peer.to_string()),
        Cell::text(&one.application.name),
        Cell::text(&one.job),
        Cell::Number(Some(one.since.elapsed().as_secs_f64())),
        Cell::count(counts.written_bytes),
        Cell::count(counts.received_bytes),
        Cell::count(counts.sent_bytes),
        Cell::count(counts.requests),
        Cell::count(one.unanswered()),
    ]
}

//! Counters of the serving gate and their presentation: pages for Prometheus and `thalweg gate top`, and a line a
//! minute on standard error.
//!
//! The code that moves bytes adds to an application's counters (`applications.rs`); nothing here is on its way. Ten
//! times a second the outstanding requests are sampled, once a second the counters are marked.

pub mod histogram;
mod line;
mod page;
mod status;
mod view;
mod window;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use monitoring::{Exposition, Health, History, Monitored, Page, Process, View};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::MissedTickBehavior;

pub use histogram::Histogram;
use status::{ApplicationStatus, CallMemoryStatus, Distribution, ExchangeStatus, ServerStatus, Status, share_out};
use window::{Reading, Window};

use crate::applications::{Application, Applications};
use crate::error::{Error, Result};
use crate::exchange::Link;
use crate::rpc::Budget;
use crate::upstream_scheduler::UpstreamScheduler;

const GLANCE: Duration = Duration::from_millis(100);
const GLANCES_A_MARK: u32 = 10;
/// The span of recent figures, in marks.
const LIVE_MARKS: usize = 5;
const LINE: Duration = Duration::from_secs(60);

/// Lives as long as the gate; the schedulers it watches may change.
pub(crate) struct Metrics {
    began: Instant,
    applications: Rc<Applications>,
    link: Rc<Link>,
    call_memory: Rc<Budget>,
    upstream: RefCell<Vec<Weak<UpstreamScheduler>>>,
    live: RefCell<Window>,
    minute: RefCell<Window>,
    history: RefCell<History>,
    served: RefCell<Option<Served>>,
    /// The task that looks and marks, once it has begun.
    is_recording: Cell<bool>,
}

/// Where pages are served. Dropping it ends that.
struct Served {
    /// As the file has it.
    asked: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address that is to be served; nothing has changed yet.
pub(crate) enum PendingBind {
    Same,
    Other(Option<(SocketAddr, TcpListener)>),
}

impl Metrics {
    pub fn new(applications: Rc<Applications>, link: Rc<Link>, call_memory: Rc<Budget>) -> Rc<Self> {
        Rc::new(Metrics {
            began: Instant::now(),
            applications,
            link,
            call_memory,
            upstream: RefCell::default(),
            live: RefCell::new(Window::new(LIVE_MARKS)),
            minute: RefCell::new(Window::new(1)),
            history: RefCell::default(),
            served: RefCell::default(),
            is_recording: Cell::new(false),
        })
    }

    /// Binds the address of the pages, or none: the part of a change that can fail.
    pub fn bind(&self, asked: Option<SocketAddr>) -> Result<PendingBind> {
        if self.served.borrow().as_ref().map(|served| served.asked) == asked {
            return Ok(PendingBind::Same);
        }
        let Some(asked) = asked else { return Ok(PendingBind::Other(None)) };
        let failed = |error| Error::Listen { address: asked.to_string(), error };
        let listener = std::net::TcpListener::bind(asked).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        Ok(PendingBind::Other(Some((asked, listener))))
    }

    /// Watches these servers, and shows what is behind this door. Must be called within a `LocalSet`.
    pub fn serve(self: &Rc<Self>, pending_bind: PendingBind, upstream: &[Rc<UpstreamScheduler>]) {
        *self.upstream.borrow_mut() = upstream.iter().map(Rc::downgrade).collect();
        if !self.is_recording.replace(true) {
            spawn_local(self.clone().record_for_ever());
        }
        let PendingBind::Other(listener) = pending_bind else { return };
        let monitored = Rc::new(Shown(self.clone()));
        *self.served.borrow_mut() = listener.map(|(asked, listener)| {
            let address = listener.local_addr().unwrap_or(asked);
            tracing::info!("metrics at http://{address}/");
            Served { asked, task: spawn_local(monitoring::serve(listener, monitored)) }
        });
    }

    async fn record_for_ever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(GLANCE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut line_due = self.began;
        loop {
            for _ in 0..GLANCES_A_MARK {
                ticks.tick().await;
                self.glance();
            }
            let readings = self.readings();
            let at = self.began.elapsed();
            let passed = readings.iter().map(|(name, reading)| (&**name, [reading.up_bytes, reading.down_bytes]));
            self.history.borrow_mut().mark(at, passed);
            self.live.borrow_mut().mark(at, readings.iter().cloned());
            if Instant::now() >= line_due {
                line_due = Instant::now() + LINE;
                self.minute.borrow_mut().mark(at, readings);
                let said = line::line(&self.status(&self.minute.borrow()));
                said.iter().for_each(|line| tracing::info!("{line}"));
            }
        }
    }

    fn glance(&self) {
        let all = self.applications.all();
        let is_busy = |a: &&Rc<Application>| a.counters.queued.get() + a.counters.in_service.get() > 0;
        let busy: Vec<&Rc<str>> = all.iter().filter(is_busy).map(|application| application.name()).collect();
        self.live.borrow_mut().glance(busy.iter().copied());
        self.minute.borrow_mut().glance(busy);
    }

    fn readings(&self) -> Vec<(Rc<str>, Reading)> {
        let read = |application: &Rc<Application>| {
            let counters = &application.counters;
            let reading = Reading {
                charged_bytes: counters.charged_bytes.get(),
                up_bytes: counters.up_bytes.get(),
                down_bytes: counters.down_bytes.get(),
                requests: counters.requests.get(),
                late: counters.late.get(),
                latencies: counters.latencies.counts(),
            };
            (application.name().clone(), reading)
        };
        self.applications.all().iter().map(read).collect()
    }

    /// Returns the schedulers of servers in use.
    fn upstream(&self) -> Vec<Rc<UpstreamScheduler>> {
        self.upstream.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    fn status(&self, window: &Window) -> Status {
        let all = self.applications.all();
        let mut applications: Vec<_> = all.iter().map(|application| self.application_status(application)).collect();
        share_out(&mut applications, window);
        let mut servers: Vec<ServerStatus> = self.upstream().iter().map(|upstream| server_status(upstream)).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Status {
            up: self.began.elapsed(),
            window_s: window.seconds(),
            process: Process::now(),
            applications,
            servers,
            call_memory: call_memory_status(&self.call_memory),
            exchange: ExchangeStatus { live_peers: self.link.live_peers(), traffic: self.link.traffic() },
        }
    }

    fn application_status(&self, application: &Application) -> ApplicationStatus {
        let counters = &application.counters;
        let group = application.group();
        ApplicationStatus {
            name: application.name().clone(),
            weight: application.weight(),
            group: group.map(|group| (group.clone(), self.applications.group_weight(&group))),
            up_bytes: counters.up_bytes.get(),
            down_bytes: counters.down_bytes.get(),
            charged_bytes: counters.charged_bytes.get(),
            requests: counters.requests.get(),
            queued: counters.queued.get(),
            in_service: counters.in_service.get(),
            unanswered: counters.outstanding.count(),
            oldest_unanswered: counters.outstanding.oldest_age(),
            late: counters.late.get(),
            worst_late: counters.worst_late.get(),
            latencies: distribution(&counters.latencies),
            waits: distribution(&counters.waits),
            recent: Default::default(),
            wanted: 0.0,
            achieved: 0.0,
        }
    }
}

/// The pages of a gate.
struct Shown(Rc<Metrics>);

impl Shown {
    fn status(&self) -> Status {
        self.0.status(&self.0.live.borrow())
    }
}

impl Monitored for Shown {
    fn metrics(&self) -> Exposition {
        page::page(&self.status())
    }

    /// A gate is well when all its servers are.
    fn health(&self) -> Health {
        let unreachable = |upstream: &Rc<UpstreamScheduler>| {
            let why = upstream.reachability.unreachable()?;
            Some(format!("{}: {why}", upstream.server()))
        };
        let mut unreachable: Vec<String> = self.0.upstream().iter().filter_map(unreachable).collect();
        unreachable.sort();
        if unreachable.is_empty() { Ok(()) } else { Err(unreachable.join("; ")) }
    }

    fn view(&self) -> View {
        view::view(&self.status(), self.health(), &self.0.history.borrow())
    }

    /// Returns the pages of `thalweg gate top`.
    fn other(&self, path: &str) -> Option<Page> {
        let json = || Page::new("application/json", format!("{}\n", self.status().to_json()));
        (path == "/status.json").then(json)
    }
}

fn distribution(histogram: &Histogram) -> Distribution {
    Distribution { buckets: histogram.buckets().collect(), total: histogram.total() }
}

fn server_status(upstream: &UpstreamScheduler) -> ServerStatus {
    let (depth_bytes, in_flight_bytes) = upstream.depth_bytes();
    ServerStatus { name: upstream.server().into(), depth_bytes, in_flight_bytes, uploads: upstream.upload_counts() }
}

fn call_memory_status(budget: &Budget) -> CallMemoryStatus {
    CallMemoryStatus {
        limit_bytes: budget.limit_bytes(),
        used_bytes: budget.used_bytes(),
        connections: budget.connections(),
    }
}

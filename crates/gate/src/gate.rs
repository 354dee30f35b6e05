//! The whole gate: its applications, the upstream scheduler of each server, its listeners, and their changes by a
//! reload.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use policy::fairness::Settings;

use crate::applications::Applications;
use crate::client_connections::ClientConnections;
use crate::clock::Clock;
use crate::config::Config;
use crate::error::Result;
use crate::exchange::{Bound, Exchanging};
use crate::listener::Listener;
use crate::metrics::{Metrics, PendingBind};
use crate::open_files::{self, ConnectionPool};
use crate::rpc::Budget;
use crate::s3;
use crate::tls::TlsEnds;
use crate::upstream_scheduler::UpstreamScheduler;

pub(crate) struct Gate {
    clock: Rc<Clock>,
    pub applications: Rc<Applications>,
    exchanging: Exchanging,
    metrics: Rc<Metrics>,
    /// The memory that RPC calls may hold while they wait, at all listeners together.
    pub call_memory: Rc<Budget>,
    /// Of NFS and GlusterFS, at all listeners together, as their memory is; those of S3 belong to listeners.
    pub rpc_clients: ClientConnections,
    /// Of all protocols, at all listeners together.
    pub pool: ConnectionPool,
    state: RefCell<State>,
}

struct State {
    settings: Settings,
    operation_bytes: u64,
    /// By upstream, as the file names it. Those of servers that a reload took out end with their last connection.
    upstream: HashMap<String, Weak<UpstreamScheduler>>,
    listeners: Vec<Listener>,
}

impl Gate {
    /// Listens everywhere the file says. Must be called within a `LocalSet`.
    pub fn open(config: &Config) -> Result<Rc<Gate>> {
        let clock = Clock::new()?;
        tokio::task::spawn_local(clock.clone().run());
        let state = State {
            settings: config.settings.clone(),
            operation_bytes: config.operation_bytes,
            upstream: HashMap::new(),
            listeners: Vec::new(),
        };
        let applications = Rc::new(Applications::new(config));
        let exchanging = Exchanging::new()?;
        let call_memory = Budget::new(config.call_memory_bytes);
        let metrics = Metrics::new(applications.clone(), exchanging.link().clone(), call_memory.clone());
        let (rpc_clients, state) = (ClientConnections::default(), RefCell::new(state));
        let pool = ConnectionPool::of_open_files(open_files::raise_limit());
        let gate = Gate { clock, applications, exchanging, metrics, call_memory, rpc_clients, pool, state };
        let gate = Rc::new(gate);
        let (bound, pending_bind) =
            (gate.exchanging.bind(config.exchange.as_ref())?, gate.metrics.bind(config.metrics)?);
        gate.listen(config)?;
        gate.limit_clients(config);
        gate.warn_of_few_open_files();
        gate.observe(config, bound, pending_bind);
        Ok(gate)
    }

    /// Takes over another configuration whole, or, when it cannot listen somewhere, nothing of it. Connections stay.
    pub fn apply(self: &Rc<Self>, config: &Config) -> Result<()> {
        let (bound, pending_bind) =
            (self.exchanging.bind(config.exchange.as_ref())?, self.metrics.bind(config.metrics)?);
        self.listen(config)?;
        self.applications.apply(config);
        self.call_memory.set_limit(config.call_memory_bytes);
        self.limit_clients(config);
        let mut state = self.state.borrow_mut();
        state.settings = config.settings.clone();
        state.operation_bytes = config.operation_bytes;
        state.upstream.retain(|_, upstream| upstream.strong_count() > 0);
        drop(state);
        self.all_upstreams().iter().for_each(|upstream| upstream.apply(&config.settings, config.operation_bytes));
        self.observe(config, bound, pending_bind);
        Ok(())
    }

    fn limit_clients(&self, config: &Config) {
        let limit = config.connections_per_client;
        self.state.borrow().listeners.iter().for_each(|listener| listener.limit_clients(limit));
        self.rpc_clients.set_limit(limit);
        self.pool.limit_clients(limit);
    }

    fn warn_of_few_open_files(&self) {
        if self.pool.most() < s3::MAX_CONNECTIONS {
            tracing::warn!(
                "the limit of open files allows {} connections in all, and a listener could have {}: raise it (LimitNOFILE)",
                self.pool.most(),
                s3::MAX_CONNECTIONS
            );
        }
    }

    /// Passes the present servers to the exchange and the metrics.
    fn observe(&self, config: &Config, bound: Bound, pending_bind: PendingBind) {
        let upstream = self.all_upstreams();
        let names: Vec<Rc<str>> = self.applications.all().iter().map(|one| one.name().clone()).collect();
        self.exchanging.serve(config.exchange.as_ref(), bound, &upstream, &names);
        self.metrics.serve(pending_bind, &upstream);
    }

    /// Returns where the gate listens, in the order of the file.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.state.borrow().listeners.iter().map(Listener::address).collect()
    }

    /// Returns one for each server in use, shared by the listeners before it.
    pub fn all_upstreams(&self) -> Vec<Rc<UpstreamScheduler>> {
        self.state.borrow().upstream.values().filter_map(Weak::upgrade).collect()
    }

    /// Opens new listeners first, so that a failure changes nothing; then closes those that the file no longer has.
    fn listen(self: &Rc<Self>, config: &Config) -> Result<()> {
        let ends = config.listens.iter().map(TlsEnds::load).collect::<Result<Vec<_>>>()?;
        let mut known = std::mem::take(&mut self.state.borrow_mut().listeners);
        let mut kept = Vec::with_capacity(config.listens.len());
        let mut added = Vec::new();
        for (listen, ends) in config.listens.iter().zip(ends) {
            let found = known.iter().position(|known| known.named() == listen.address);
            match found {
                Some(at) => kept.push((known.remove(at), listen, ends)),
                None => added.push((listen, ends)),
            }
        }
        let opened: Result<Vec<_>> = added.iter().map(|(listen, _)| Listener::bind(&listen.address)).collect();
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                known.extend(kept.into_iter().map(|(listener, ..)| listener));
                self.state.borrow_mut().listeners = known;
                return Err(error);
            }
        };
        let opened = opened.into_iter().zip(added).map(|(listener, (listen, ends))| (listener, listen, ends));
        let mut listeners = Vec::new();
        for (mut listener, listen, ends) in kept.into_iter().chain(opened) {
            listener.serve(self, listen, ends, self.upstream_of(&listen.upstream));
            listeners.push(listener);
        }
        let place = |listener: &Listener| config.listens.iter().position(|listen| listen.address == listener.named());
        listeners.sort_by_key(place);
        self.state.borrow_mut().listeners = listeners;
        Ok(())
    }

    fn upstream_of(&self, server: &str) -> Rc<UpstreamScheduler> {
        let mut state = self.state.borrow_mut();
        let State { settings, operation_bytes, upstream, .. } = &mut *state;
        if let Some(known) = upstream.get(server).and_then(Weak::upgrade) {
            return known;
        }
        let made =
            UpstreamScheduler::new(server, self.applications.clone(), settings, *operation_bytes, self.clock.clone());
        upstream.insert(server.to_owned(), Rc::downgrade(&made));
        made
    }
}

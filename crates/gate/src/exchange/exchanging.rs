//! The exchange as a part of the gate: its socket and its task, which a reload replaces.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::{Rc, Weak};

use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, spawn_local};

use super::Charged;
use super::link::{Link, Server, Servers, Settings};
use super::packet::{GateId, Key};
use crate::config;
use crate::error::{Error, Result};
use crate::upstream_scheduler::UpstreamScheduler;

impl Server for UpstreamScheduler {
    fn charged(&self) -> Charged {
        UpstreamScheduler::charged(self)
    }

    fn served_at_other_servers(&self, application: &str, bytes: u64) {
        UpstreamScheduler::served_at_other_servers(self, application, bytes);
    }
}

/// Lives as long as the gate; received counters last through reloads.
pub(crate) struct Exchanging {
    link: Rc<Link>,
    socket: RefCell<Option<(SocketAddr, Rc<UdpSocket>)>>,
    task: RefCell<Option<JoinHandle<Infallible>>>,
}

/// The socket of another configuration, bound first since this may fail; nothing has changed yet.
pub(crate) type Bound = Option<(SocketAddr, Rc<UdpSocket>)>;

impl Exchanging {
    pub fn new() -> Result<Self> {
        let mut number = [0; 8];
        let flags = rustix::rand::GetRandomFlags::empty();
        let failed = |error: rustix::io::Errno| Error::System { what: "drawing a random number", error: error.into() };
        rustix::rand::getrandom(&mut number, flags).map_err(failed)?;
        let link = Rc::new(Link::new(GateId(u64::from_le_bytes(number))));
        Ok(Exchanging { link, socket: RefCell::default(), task: RefCell::default() })
    }

    pub fn link(&self) -> &Rc<Link> {
        &self.link
    }

    /// Binds the socket of the configuration: the one in use if it is at this address.
    pub fn bind(&self, config: Option<&config::Exchange>) -> Result<Bound> {
        let Some(config) = config else { return Ok(None) };
        if let Some((address, socket)) = self.socket.borrow().as_ref().filter(|(known, _)| *known == config.address) {
            return Ok(Some((*address, socket.clone())));
        }
        let failed = |error| Error::Listen { address: config.address.to_string(), error };
        let socket = std::net::UdpSocket::bind(config.address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let socket = UdpSocket::from_std(socket).map_err(failed)?;
        Ok(Some((config.address, Rc::new(socket))))
    }

    /// Exchanges so from now on. Must be called within a `LocalSet`.
    pub fn serve(
        &self,
        config: Option<&config::Exchange>,
        bound: Bound,
        upstream: &[Rc<UpstreamScheduler>],
        names: &[Rc<str>],
    ) {
        self.stop();
        let server = |upstream: &Rc<UpstreamScheduler>| {
            let weak: Weak<UpstreamScheduler> = Rc::downgrade(upstream);
            (upstream.server().into(), weak as Weak<dyn Server>)
        };
        let servers: Servers = upstream.iter().map(server).collect();
        self.link.serve(servers, names);
        let link = self.link.clone();
        let task = match (config.map(settings), &bound) {
            (Some(settings), Some((_, socket))) => {
                let socket = socket.clone();
                spawn_local(async move { link.talk(&socket, &settings).await })
            }
            _ => spawn_local(async move { link.tick_alone().await }),
        };
        *self.task.borrow_mut() = Some(task);
        *self.socket.borrow_mut() = bound;
    }

    fn stop(&self) {
        self.task.borrow_mut().take().inspect(JoinHandle::abort);
    }
}

impl Drop for Exchanging {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A peer whose name is not known now is left out until the file is read again.
fn settings(config: &config::Exchange) -> Settings {
    let mut peers = Vec::new();
    for name in &config.peers {
        match name.to_socket_addrs() {
            Ok(found) => peers.extend(found.take(1)),
            Err(error) => tracing::warn!(peer = %name, "exchange: {error}; left out until the next reload"),
        }
    }
    Settings { peers, interval: config.interval, key: config.key.as_deref().map(Key::from_secret) }
}

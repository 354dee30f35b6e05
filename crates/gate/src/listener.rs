//! One address: accepts clients and gives each a task that speaks the listener's protocol.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};

use crate::client_connections::ClientConnections;
use crate::config::{Listen, Protocol};
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::rpc;
use crate::s3::{self, Connections};
use crate::tls::TlsEnds;
use crate::upstream_scheduler::UpstreamScheduler;

/// How long accepting rests after it failed: mostly there are too many open files.
const REST: Duration = Duration::from_millis(50);
const BACKLOG: u32 = 4096;

/// Dropping it ends accepting; connections stay.
pub(crate) struct Listener {
    named: String,
    address: SocketAddr,
    socket: Rc<TcpListener>,
    s3_clients: Rc<ClientConnections>,
    accepting: Option<JoinHandle<()>>,
}

/// The context that all connections of a listener share.
pub(crate) struct ListenerContext {
    pub gate: Rc<Gate>,
    pub listen: Listen,
    pub ends: TlsEnds,
    pub upstream: Rc<UpstreamScheduler>,
    pub connections: Connections,
    pub s3_clients: Rc<ClientConnections>,
    /// Clients that are being refused.
    pub refused: Connections,
}

impl Listener {
    pub fn bind(named: &str) -> Result<Listener> {
        let failed = |error| Error::Listen { address: named.to_owned(), error };
        let socket = bind(named).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let (socket, s3_clients) = (Rc::new(socket), Rc::default());
        Ok(Listener { named: named.to_owned(), address, socket, s3_clients, accepting: None })
    }

    /// As the file writes it.
    pub fn named(&self) -> &str {
        &self.named
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets how many connections one client may have here.
    pub fn limit_clients(&self, limit: Option<usize>) {
        self.s3_clients.set_limit(limit);
    }

    /// Serves clients that come from now on so.
    pub fn serve(&mut self, gate: &Rc<Gate>, listen: &Listen, ends: TlsEnds, upstream: Rc<UpstreamScheduler>) {
        self.stop();
        let listener = Rc::new(ListenerContext {
            gate: gate.clone(),
            listen: listen.clone(),
            ends,
            upstream,
            connections: Connections::default(),
            s3_clients: self.s3_clients.clone(),
            refused: Connections::default(),
        });
        self.accepting = Some(spawn_local(accept_for_ever(self.socket.clone(), listener)));
    }

    fn stop(&mut self) {
        self.accepting.take().inspect(JoinHandle::abort);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bind(named: &str) -> std::io::Result<TcpListener> {
    let socket = std::net::TcpListener::bind(named)?;
    // Asked again, only the length of the queue changes.
    rustix::net::listen(&socket, BACKLOG as i32)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

async fn accept_for_ever(socket: Rc<TcpListener>, listener: Rc<ListenerContext>) {
    loop {
        match socket.accept().await {
            Ok((client, peer)) => drop(spawn_local(serve(listener.clone(), client, peer))),
            Err(error) => {
                tracing::error!(peer = %listener.listen.address, "cannot take more connections now: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn serve(listener: Rc<ListenerContext>, client: TcpStream, peer: SocketAddr) {
    tracing::debug!(peer = %peer, "connection to {} accepted", listener.listen.upstream);
    let _permit = match listener.gate.pool.admit(peer.ip()) {
        Ok(permit) => permit,
        Err(why) => {
            // Without it the kernel keeps the connection for a while.
            let _ = client.set_zero_linger();
            return tracing::warn!(peer = %peer, "connection to {} closed: {why}", listener.listen.address);
        }
    };
    match listener.listen.protocol {
        Protocol::S3 => s3::serve(&listener, client, peer).await,
        Protocol::Nfs | Protocol::Gluster => rpc::serve(&listener, client, peer).await,
    }
    tracing::debug!(peer = %peer, "connection to {} ended", listener.listen.upstream);
}

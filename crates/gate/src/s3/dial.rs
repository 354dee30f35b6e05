//! The connection to the server. It is made when the client's first request has its grant: servers with few workers
//! accept a connection and wait for its request, so one whose request waits in the gate keeps a worker from all others.

use std::cell::OnceCell;
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;

use crate::listener::ListenerContext;
use crate::reachability::note_dial;
use crate::s3::connection::{Connection, End};
use crate::s3::limits::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT};
use crate::s3::request_grant::RequestGrant;
use crate::socket;
use crate::wire::Wire;

/// A server that has not accepted by then is busy with other connections: they need the depth.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(200);

/// The server's side of a connection, once it is there.
#[derive(Default)]
pub(crate) struct ServerWire {
    wire: OnceCell<Wire>,
    dialled: Notify,
}

impl ServerWire {
    pub fn is_dialled(&self) -> bool {
        self.wire.get().is_some()
    }

    /// Returns when the connection has been made.
    pub async fn dialled(&self) {
        let dialled = self.dialled.notified();
        if !self.is_dialled() {
            dialled.await;
        }
    }

    pub fn into_inner(self) -> Option<Wire> {
        self.wire.into_inner()
    }

    fn set(&self, wire: Wire) {
        // Only one task dials.
        let _ = self.wire.set(wire);
        self.dialled.notify_waiters();
    }
}

impl Deref for ServerWire {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        self.wire.get().expect("bytes move after the server was dialled")
    }
}

impl Connection {
    /// Connects to the server for a request that has its grant, unless that was done. The grant no longer counts when
    /// the server takes long to accept.
    pub(super) async fn dial_for(&self, request_grant: &mut RequestGrant) -> Result<(), End> {
        let mut dialling = pin!(self.dial());
        tokio::select! {
            biased;
            dialled = &mut dialling => return dialled,
            () = self.upstream().clock().sleep_about(ACCEPT_TIMEOUT) => request_grant.forgo_depth(),
        }
        dialling.await
    }

    /// Connects to the server, unless that was done.
    pub(super) async fn dial(&self) -> Result<(), End> {
        if self.server.is_dialled() {
            return Ok(());
        }
        let dialled = connect(&self.listener).await;
        note_dial(&self.listener, &dialled);
        self.server.set(dialled.map_err(|_| End::Unreachable)?);
        Ok(())
    }
}

pub(crate) async fn connect(listener: &ListenerContext) -> io::Result<Wire> {
    let server = tokio::time::timeout(CONNECT_TIMEOUT, socket::connect(&listener.listen.upstream)).await??;
    match &listener.ends.server {
        Some((connector, name)) => {
            let agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, connector.connect(name.clone(), server)).await?;
            agreed.map(Wire::tls)
        }
        None => Ok(Wire::with_acknowledgements(server)),
    }
}

//! ONC RPC (RFC 5531): NFS version 3 and the bricks of GlusterFS, whose calls are scheduled one by one.
//!
//! READ and WRITE wait for a grant in their application's queue, everything else passes. Decoders ([`record`],
//! [`call`], [`nfs`], [`gluster`]) are pure; [`connection`] moves the bytes. `docs/gate.md` says what is scheduled, how
//! applications are distinguished, and the limits.

mod abandoned;
mod budget;
pub mod call;
mod connection;
pub mod gluster;
mod held;
mod in_service;
mod intake;
pub mod nfs;
pub mod operation;
mod outbound;
mod pace;
pub mod record;
mod replies;
mod request_queues;
mod server_side;
mod write_order;
mod xdr;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::listener::ListenerContext;
use crate::reachability::note_dial;
use crate::socket;

pub(crate) use budget::Budget;
use budget::Window;
use connection::{Connection, Ending, Result};
use request_queues::RequestQueues;

/// A client that connects has something to say, and says it within this time.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that does not take a connection for so long is taken for down.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one client to its end; says in one line why, if that was no proper one.
pub(crate) async fn serve(listener: &Rc<ListenerContext>, client: TcpStream, address: SocketAddr) {
    match connect_and_serve(listener, client, address).await {
        // Clients and servers come and go.
        Ok(()) | Err(Ending::Idle | Ending::Unreached) => {}
        Err(Ending::Broken(error)) if is_a_peer_gone(&error) => {}
        Err(ending) => {
            tracing::warn!(peer = %address, "connection to {} closed: {ending} [{}]", listener.listen.upstream, ending.code())
        }
    }
}

async fn connect_and_serve(listener: &Rc<ListenerContext>, client: TcpStream, address: SocketAddr) -> Result<()> {
    socket::prepare(&client)?;
    let budget = &listener.gate.call_memory;
    let _own = match listener.gate.rpc_clients.admit(address.ip(), budget.max_connections()) {
        Ok(admitted) => admitted,
        Err(why) => {
            client.set_zero_linger()?;
            return Err(why.into());
        }
    };
    let Some(window) = Window::open(budget) else {
        client.set_zero_linger()?;
        return Err(Ending::TooMany { open: budget.connections() });
    };
    // A client that calls nothing costs the server no connection.
    if !calls(&client).await? {
        return Ok(());
    }
    let Some(server) = dial(listener, address).await else {
        // The client sees what it would see of a server that is not there.
        client.set_zero_linger()?;
        return Err(Ending::Unreached);
    };
    Connection::serve(listener.clone(), window, RequestQueues::new(listener.clone(), address.ip()), client, server)
        .await
}

/// Waits for the client's first bytes. False when it ends without any.
async fn calls(client: &TcpStream) -> Result<bool> {
    let seen = timeout(FIRST_CALL_TIMEOUT, client.peek(&mut [0])).await;
    Ok(seen.map_err(|_elapsed| Ending::Idle)?? > 0)
}

async fn dial(listener: &Rc<ListenerContext>, client: SocketAddr) -> Option<TcpStream> {
    let dialled = timeout(DIAL_TIMEOUT, connect(&listener.listen.upstream, client)).await;
    let dialled = dialled.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()));
    note_dial(listener, &dialled);
    dialled.ok()
}

async fn connect(server: &str, client: SocketAddr) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the server's name has no address");
    for server in lookup_host(server).await? {
        match server_side::connect(server, client).await {
            Ok(stream) => return socket::prepare(&stream).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_a_peer_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}

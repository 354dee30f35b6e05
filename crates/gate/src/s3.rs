//! The proxy for S3: HTTP/1.1 byte for byte, one connection to the server for each of a client's.
//!
//! Heads are read, never written anew, so that signatures hold; bodies pass in slices, each at its application's turn.
//! What is not understood passes as it is, scheduled all the same. Begin with `connection.rs`; `requests.rs` and
//! `responses.rs` are its two directions.

mod ahead;
pub mod body;
pub mod chunks;
mod connection;
mod download;
mod drain;
mod grant;
pub mod head;
mod identity;
mod limits;
mod pass;
mod pending;
mod requests;
mod responses;
mod upload;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::listener::Door;
use crate::socket;
use crate::wire::Wire;
use connection::Connection;
pub(crate) use limits::Connections;
use limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT};

/// A peer that has not agreed on TLS by then is gone.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves one client until it or the server ends.
pub(crate) async fn serve(door: &Rc<Door>, client: TcpStream, peer: SocketAddr) {
    let Some(_admitted) = door.connections.admit() else {
        let to = &door.listen.address;
        return door.complaints.say(&format_args!("{peer} to {to}: closed: too many connections"));
    };
    let Ok(client) = with_client(door, client).await else { return };
    // A client that asks for nothing costs the server no connection.
    if tokio::time::timeout(IDLE_TIMEOUT, client.holds(1)).await.is_err() {
        return;
    }
    match with_server(door).await {
        Ok(server) => Connection::new(door.clone(), client, server, peer.ip()).run().await,
        // The nearest to being refused that is left: the client has a connection already.
        Err(error) => {
            let server = &door.listen.upstream;
            door.complaints.say(&format_args!("{server} cannot be reached: {error}; its clients are reset"));
            client.reset();
        }
    }
}

async fn with_client(door: &Door, client: TcpStream) -> io::Result<Wire> {
    socket::prepare(&client)?;
    match &door.ends.client {
        Some(acceptor) => tokio::time::timeout(HANDSHAKE, acceptor.accept(client)).await?.map(Wire::tls),
        None => Ok(Wire::plain(client)),
    }
}

async fn with_server(door: &Door) -> io::Result<Wire> {
    let server = tokio::time::timeout(CONNECT_TIMEOUT, socket::connect(&door.listen.upstream)).await??;
    match &door.ends.server {
        Some((connector, name)) => {
            let agreed = tokio::time::timeout(HANDSHAKE, connector.connect(name.clone(), server)).await?;
            agreed.map(Wire::tls)
        }
        None => Ok(Wire::telling(server)),
    }
}

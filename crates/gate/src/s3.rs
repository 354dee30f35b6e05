//! The proxy for S3: HTTP/1.1 byte for byte, one connection to the server for each of a client's.
//!
//! Heads are read, never rewritten, so that signatures hold; bodies pass in slices, each with a grant. Unknown requests
//! pass unchanged, scheduled all the same. Begin with `connection.rs`; `requests.rs` and `responses.rs` are its two
//! directions.

pub mod body;
pub mod chunks;
mod client_timeout;
mod connection;
mod dial;
mod download;
pub mod head;
mod identity;
mod limits;
mod pass;
mod pending;
mod request_grant;
mod requests;
mod responses;
mod send_window;
mod server_reads;
mod slice_grants;
mod unanswered;
mod upload;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::listener::ListenerContext;
use crate::socket::{self, SLICE};
use crate::wire::{Seen, Wire};
pub(crate) use client_timeout::ClientTimeout;
use connection::Connection;
pub(crate) use dial::connect;
pub(crate) use limits::{ConnectionPermit, Connections, MAX_CONNECTIONS};
use limits::{HANDSHAKE_TIMEOUT, IDLE_TIMEOUT};

/// How long a client that is refused may take to read it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// More are closed without a word.
const MAX_REFUSALS: usize = 64;
const REFUSAL: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>\
    <Message>This client has as many connections to the gate as one may have.</Message></Error>";

/// Serves one client until it or the server ends.
pub(crate) async fn serve(listener: &Rc<ListenerContext>, client: TcpStream, peer: SocketAddr) {
    let to = &listener.listen.address;
    let Some(_admitted) = listener.connections.admit() else {
        return tracing::warn!(peer = %peer, "connection to {to} closed: too many connections");
    };
    let _own = match listener.s3_clients.admit(peer.ip(), MAX_CONNECTIONS) {
        Ok(admitted) => admitted,
        Err(why) => {
            tracing::warn!(peer = %peer, "connection to {to} refused: {why}");
            return refuse(listener, client).await;
        }
    };
    let Ok(client) = with_client(listener, client).await else { return };
    // A client that asks for nothing costs the server no connection.
    if tokio::time::timeout(IDLE_TIMEOUT, client.holds(1)).await.is_err() {
        return;
    }
    Connection::new(listener.clone(), client, peer.ip()).run().await;
}

/// Says why, as servers of S3 say that they have enough to do: their clients know to come again later. With TLS nothing
/// can be said before a handshake, which is not spent on it.
async fn refuse(listener: &ListenerContext, client: TcpStream) {
    let Some(_refusing) = listener.refused.admit_up_to(MAX_REFUSALS).filter(|_| listener.ends.client.is_none()) else {
        return;
    };
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, say_refusal(client)).await;
}

async fn say_refusal(client: TcpStream) -> io::Result<()> {
    let length = REFUSAL.len();
    let head = format!("HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n");
    let answer = format!("{head}Retry-After: 1\r\nConnection: close\r\n\r\n{REFUSAL}");
    let client = Wire::plain(client);
    client.write_all(answer.as_bytes()).await?;
    client.finish().await;
    // Closing with its request unread would take the answer from it.
    loop {
        client.holds(1).await?;
        if let Seen::End = client.look(SLICE, |bytes| (bytes.len(), ())).await? {
            return Ok(());
        }
    }
}

async fn with_client(listener: &ListenerContext, client: TcpStream) -> io::Result<Wire> {
    socket::prepare(&client)?;
    match &listener.ends.client {
        Some(acceptor) => tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(client)).await?.map(Wire::tls),
        None => Ok(Wire::plain(client)),
    }
}

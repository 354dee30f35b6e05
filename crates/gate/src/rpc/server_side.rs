//! The gate's own connection to the server, one for each client's.
//!
//! Many NFS servers take only clients that call from a privileged port (below 1024), as a sign that root vouches for the
//! uid in the call. A client that does so is answered for by the same sign, if the gate may give it.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

/// As clients choose them: below are the ports of services.
const PRIVILEGED: std::ops::Range<u16> = 665..1024;

thread_local! {
    /// Where the search for a free port goes on.
    static NEXT: Cell<u16> = const { Cell::new(PRIVILEGED.end - 1) };
}

pub async fn connect(server: SocketAddr, client: SocketAddr) -> io::Result<TcpStream> {
    if client.port() < PRIVILEGED.end {
        for _ in PRIVILEGED {
            match connect_from(server, next_port()).await {
                Ok(queue) => return Ok(queue),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
                // The port is taken, or was in use between the same ends just now.
                Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
                Err(error) => return Err(error),
            }
        }
    }
    TcpStream::connect(server).await
}

fn next_port() -> u16 {
    let port = NEXT.get();
    NEXT.set(if port == PRIVILEGED.start { PRIVILEGED.end - 1 } else { port - 1 });
    port
}

async fn connect_from(server: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let (socket, any) = match server {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, SocketAddr::from(([0, 0, 0, 0], port))),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, SocketAddr::from(([0u16; 8], port))),
    };
    socket.bind(any)?;
    socket.connect(server).await
}

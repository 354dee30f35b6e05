//! The proxy for S3: HTTP/1.1, byte for byte.

use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::TcpStream;

use crate::listener::Door;

/// Serves one client until it or the server ends.
pub(crate) async fn serve(door: &Rc<Door>, mut client: TcpStream, _peer: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(&door.listen.upstream).await else { return };
    // Either end's failure ends both; there is nobody to tell.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

//! A nonblocking TCP socket: connecting, and sending many buffers at once without copying them together.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

/// An idle connection is probed by the kernel. Whether one that is in use still stands is told by the node's messages of
/// life alone: a kernel that may not send, because the node holds its clients back, would call that silence.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);

pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Begins to connect; the socket becomes writable when that is decided.
    pub fn connect(peer: &SocketAddr) -> io::Result<Self> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(2))?;
        match net::connect(&socket, peer) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(Socket(socket)),
            Err(error) => Err(error.into()),
        }
    }

    /// After it became writable: whether the connection stands.
    pub fn connected(&self) -> io::Result<()> {
        sockopt::socket_error(&self.0)?.map_err(io::Error::from)
    }

    /// Bytes sent, 0 when the socket takes no more for now.
    pub fn send(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match net::sendmsg(&self.0, buffers, &mut Default::default(), flags) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Bytes received, `None` when there are none for now. A closed connection is an error.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match net::recv(&self.0, room, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Ok((0, _)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the node closed the connection")),
            received => Ok(Some(received?.0)),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

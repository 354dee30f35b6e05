//! A nonblocking TCP socket: connecting, and sending many buffers at once without copying them together.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::connection::{MAX_PIECES, probe_silent_peer};
use crate::rate_limit;
use crate::tls::TlsStream;

pub(super) struct Socket {
    fd: OwnedFd,
    tls: Option<TlsStream>,
}

impl Socket {
    /// Begins to connect; the socket becomes writable when the outcome is known.
    pub fn connect(peer: &SocketAddr, tls: Option<TlsStream>) -> io::Result<Self> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        // The kernel probes an idle connection. Whether one in use still stands is judged by the node's heartbeats alone:
        // a kernel that may not send, because the node holds its clients back, would call that silence.
        probe_silent_peer(&socket)?;
        match net::connect(&socket, peer) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(Socket { fd: socket, tls }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns, once the socket became writable, whether the connection stands.
    pub fn connected(&self) -> io::Result<()> {
        sockopt::socket_error(&self.fd)?.map_err(io::Error::from)
    }

    /// Returns the bytes taken, 0 when it takes no more for now.
    pub fn send(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.write(buffers, |bytes| self.send_raw(&[IoSlice::new(bytes)])),
            None => self.send_raw(buffers),
        }
    }

    /// Returns whether encrypted bytes wait for the socket.
    pub fn wants_to_send(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsStream::wants_to_send)
    }

    fn send_raw(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        let Some(step) = rate_limit::upload_step(buffers) else {
            return self.send_now(&buffers[..buffers.len().min(MAX_PIECES)]);
        };
        let sent = self.send_now(&[IoSlice::new(step)])?;
        rate_limit::pay_upload(sent);
        Ok(sent)
    }

    /// Uses `sendmsg` rather than `writev`: the host process may be a program in which SIGPIPE is deadly.
    fn send_now(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match net::sendmsg(&self.fd, buffers, &mut Default::default(), flags) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Returns the bytes received, `None` when there are none for now. A closed connection is an error. Without
    /// `from_socket` it takes only what the socket does not hold any more.
    pub fn receive(&self, room: &mut [u8], from_socket: bool) -> io::Result<Option<usize>> {
        let receive = |room: &mut [u8]| match from_socket {
            true => Ok(net::recv(&self.fd, room, RecvFlags::DONTWAIT)?.0),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        let received = match &self.tls {
            Some(tls) => tls.read(room, receive),
            None => receive(room),
        };
        // Answers of a handshake are sent on the way.
        if let Some(tls) = &self.tls {
            tls.flush(|bytes| self.send_raw(&[IoSlice::new(bytes)]))?;
        }
        match received {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the node closed the connection")),
            received => received.map(Some),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernel_does_not_give_up_a_node_that_holds_its_client_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::connect(&listener.local_addr().unwrap(), None).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&socket.fd).unwrap(), 0);
    }
}

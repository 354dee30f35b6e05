//! The gate's questions to the kernel about a TCP connection: how much is on its way, how much has arrived; and queues
//! so small that requests wait in the gate, where they are scheduled, and not in the kernel.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::net::{RecvFlags, sockopt};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

/// The most bytes moved with one grant.
pub(crate) const SLICE: usize = 64 << 10;
/// The slices that a client may send ahead, where slices are waited for.
const WINDOW_SLICES: usize = 3;
/// The bytes that a server may send before they are granted: the kernel doubles it, and takes half for its overhead.
const RECEIVE_BUFFER: usize = 2 * SLICE;
/// A server's kernel queues ten segments and more for each connection; those of the loopback are 64 KiB, so that it
/// would take more than a megabyte of an object from the server before any grant. Others are smaller anyway.
const LARGEST_SEGMENT: u32 = 8 << 10;
/// Room for the bytes in service on one connection. The kernel doubles the figure, for its overhead.
const SEND_BUFFER: usize = 10 * SLICE;
/// Unsent bytes beyond which a socket takes no more: enough for the next wake-up to be in time.
const UNSENT_BYTES: u32 = 256 << 10;
/// A peer that does not answer for two minutes is gone.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 4;
/// A client that has ended is served as long as its server answers it within this time. Above GlusterFS's ping timeout
/// (42 s): a client that still expects replies has given the server up by then.
pub(crate) const ENDED_TIMEOUT: Duration = Duration::from_secs(60);
/// The figures of SO_MEMINFO (include/uapi/linux/sock_diag.h): the receive queue's use, its limit, and more.
const MEMORY_FIGURES: usize = 9;
/// States of the kernel's (include/net/tcp_states.h): of a connection that is open both ways, and of none.
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;

/// Connects to `host:port` with queues of the gate's size.
pub(crate) async fn connect(server: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in resolve(server).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Before connecting, since the window's scale is agreed on then.
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
        sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, LARGEST_SEGMENT)?;
        match socket.connect(address).await {
            Ok(stream) => return prepare(&stream).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn resolve(server: &str) -> io::Result<Vec<SocketAddr>> {
    match server.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => Ok(lookup_host(server).await?.collect()),
    }
}

/// Sets the options of every connection of the gate.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_BYTES)
}

/// Returns the bytes written that the other end's kernel has not acknowledged.
pub(crate) fn unacknowledged(stream: &TcpStream) -> u64 {
    asked(stream, libc::TIOCOUTQ)
}

/// The fields of TCP_INFO (include/uapi/linux/tcp.h), as far as they are used.
#[repr(C)]
struct Information {
    before: [u8; 120],
    acknowledged: u64,
    between: [u8; 100],
    window: u32,
}

/// Returns the bytes that the other end's kernel has ever acknowledged, and those it takes beyond: 0 if our kernel does not
/// say.
pub(crate) fn acknowledged_and_window(stream: &TcpStream) -> (u64, u64) {
    let mut information = Information { before: [0; 120], acknowledged: 0, between: [0; 100], window: 0 };
    let mut length = size_of::<Information>() as libc::socklen_t;
    let place = (&raw mut information).cast();
    // SAFETY: the kernel writes at most `length` bytes to `place`, which has so many.
    unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut length) };
    (information.acknowledged, information.window.into())
}

/// Returns at most a slice, in whole pairs of segments: their receiver acknowledges every second full one at once (RFC
/// 9293, section 3.8.6.3), while a part of one may wait for 40 ms, and its grant with it.
pub(crate) fn whole_slice(stream: &TcpStream) -> usize {
    let pair = 2 * segment_bytes(stream);
    if (1..SLICE).contains(&pair) { SLICE - SLICE % pair } else { SLICE }
}

/// Returns the largest segment that is sent now; 0 if the kernel does not say.
fn segment_bytes(stream: &TcpStream) -> usize {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let place = (&raw mut bytes).cast();
    // SAFETY: the kernel writes at most `length` bytes to `place`, which has so many.
    unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, place, &mut length) };
    usize::try_from(bytes).unwrap_or(0)
}

/// Returns the bytes that can be read now.
pub(crate) fn available(stream: &TcpStream) -> usize {
    asked(stream, libc::FIONREAD) as usize
}

/// Whether something has come, and the rest of `want` bytes cannot come before it is taken.
///
/// The kernel joins the segments that wait to be read into one buffer of up to the whole receive buffer, and frees it
/// only when its last byte is taken. Of what a fast server sends the last bytes are mostly less than a slice: waited for
/// in vain, while the window is closed.
pub(crate) fn has_no_room_for(stream: &TcpStream, want: usize) -> bool {
    let available = available(stream);
    if available == 0 || available >= want {
        return false;
    }
    let mut figures = [0_u32; MEMORY_FIGURES];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    let place = figures.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes to `place`, which has so many.
    let status =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, place, &mut length) };
    let [used_bytes, room_bytes, ..] = figures.map(|figure| figure as usize);
    status == 0 && used_bytes + (want - available) > room_bytes
}

/// Asks not to be woken before so many bytes have arrived; the end of the connection always wakes.
///
/// The kernel makes its window as large as it is asked to wait for, and no larger until the sender has filled it in one
/// round trip. A window of one slice never fills: a sender holds back what does not fit whole segments. So several are
/// asked for first.
pub(crate) fn wake_at(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let least = |bytes: usize| {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        set_option(stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
    };
    if bytes > SLICE / 2 {
        least(WINDOW_SLICES * bytes)?;
    }
    least(bytes)
}

/// Makes the kernel take so many bytes more unread (at most half of what net.ipv4.tcp_rmem allows). Wake-ups come no
/// later than before.
pub(crate) fn make_room_unread(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set_option(stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)?;
    set_option(stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1)
}

/// Announces room for the other end's bytes at once, not when it asks the next time: the kernel announces its window
/// after reading, and peeking at a byte is reading.
pub(crate) fn offer_room(stream: &TcpStream) {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // Without a byte there, nothing keeps the window closed.
    let _ = rustix::net::recv(stream, &mut [0; 1], flags);
}

/// Whether the kernel has forgotten the connection: both sides closed it, or one reset it.
pub(crate) fn is_closed(stream: &TcpStream) -> bool {
    state(stream) == Some(TCP_CLOSE)
}

/// Whether the other end has shut down sending, or is gone.
pub(crate) fn has_ended(stream: &TcpStream) -> bool {
    state(stream).is_some_and(|state| state != TCP_ESTABLISHED)
}

fn state(stream: &TcpStream) -> Option<u8> {
    // SAFETY: tcp_info is plain numbers, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let place = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `length` bytes to `place`, which has so many.
    let status = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut length) };
    (status == 0).then_some(info.tcpi_state)
}

/// A closed connection has nothing on its way.
fn asked(stream: &TcpStream, request: libc::Ioctl) -> u64 {
    let mut answer: libc::c_int = 0;
    // SAFETY: both requests write one int, and `answer` outlives the call.
    let status = unsafe { libc::ioctl(stream.as_raw_fd(), request, &mut answer) };
    if status == 0 { u64::try_from(answer).unwrap_or(0) } else { 0 }
}

pub(crate) fn set_option(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    let value = value as libc::c_int;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to an int that outlives the call, and the length is its size.
    let status = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_whole_pairs_of_segments() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (segment, slice) = runtime.block_on(async {
            let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let stream = connect(&server.local_addr().expect("its address").to_string()).await.expect("a connection");
            (segment_bytes(&stream), whole_slice(&stream))
        });
        assert!((1..=LARGEST_SEGMENT as usize).contains(&segment), "segments of {segment} bytes");
        assert_eq!(slice % (2 * segment), 0);
        assert!(slice <= SLICE && slice + 2 * segment > SLICE, "{slice} bytes");
    }
}

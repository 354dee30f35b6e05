//! One TCP connection as a sequence of frames, received and sent by threads that wait: a node's end.
//!
//! A frame is received only after its header was checked against the limits, and handed on only after its checksum was:
//! the layers above never see damaged bytes. Payloads are sent from where they lie and received into memory that was
//! not zeroed first. One thread may receive while another sends.

use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use format::{ErrorCode, FRAME_HEADER_BYTES, FrameHeader, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::frame_pace::FramePace;
use crate::resolve;
use crate::tls::{TlsRefusal, TlsServer, TlsStream};
use crate::{CONNECT_TIMEOUT, Error, Result};

mod send_pace;
#[cfg(test)]
pub(crate) mod tests;

use send_pace::SendPace;

/// The kernel probes a silent peer after this long, then again at each interval.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
/// How far a frame that has begun may fall behind its pace. Programs may be stopped for a while in the midst of a frame;
/// where its memory is needed, the frame is given up earlier (server/frame_memory.rs).
const FRAME_TIMEOUT: Duration = Duration::from_secs(600);
/// Memory for a frame is taken in such steps (bytes): the first one for all short frames, the others as bytes arrive.
const FIRST_STEP_BYTES: usize = 64 << 10;
const STEP_BYTES: usize = 1 << 20;
/// A client that reads nothing for so long is dropped by the node.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest frame of a peer that is not welcome yet (bytes).
const MAX_GREETING_BYTES: u32 = 16 << 10;
/// The most pieces one system call takes.
pub(crate) const MAX_PIECES: usize = 1024;
/// How many bytes are still read from a connection that is being closed, and for how long.
const LINGER_BYTES: u64 = 256 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// One message on the wire: see [`format::FrameHeader`].
#[derive(Debug, PartialEq)]
pub struct Frame {
    pub header: FrameHeader,
    pub body: Vec<u8>,
    pub payload: Vec<u8>,
}

pub struct Connection {
    stream: TcpStream,
    peer: String,
    /// How far behind its pace the peer may fall with a frame that it has begun.
    frame_timeout: Duration,
    /// When the frame being received is late, in ms since the connection was made; 0 when there is none.
    frame_deadline_ms: AtomicU64,
    /// When something last arrived, in the same units.
    heard_ms: AtomicU64,
    made: Instant,
    send_pace: SendPace,
    /// Whether the peer has introduced itself (at a node's end).
    is_welcome: AtomicBool,
    /// Why nothing more is received.
    given_up: OnceLock<String>,
    /// Set after the handshake, where both ends use TLS.
    tls: OnceLock<TlsStream>,
}

impl Connection {
    /// Opens a client's end, to `host:port`, for tests and to see whether a node takes connections; clients have a
    /// `NodeConnection`. Ends within some seconds, whatever the resolver and the address do.
    pub fn open(address: &str) -> Result<Self> {
        let unavailable = |why: String| Error::Unavailable { peer: address.to_owned(), why };
        let mut why = "the name has no address".to_owned();
        for candidate in resolve::candidates(address)? {
            match TcpStream::connect_timeout(&candidate, CONNECT_TIMEOUT) {
                Ok(stream) => return Self::over(stream, address.to_owned(), None),
                Err(error) => why = format!("no server answers ({error}); is `thalweg node` running there?"),
            }
        }
        Err(unavailable(why))
    }

    /// Wraps a node's end. Sending fails when the peer reads nothing for 30 s.
    pub fn accepted(stream: TcpStream, peer: SocketAddr) -> Result<Self> {
        let connection = Self::over(stream, peer.to_string(), Some(NODE_TIMEOUT))?;
        let set = connection.stream.set_write_timeout(Some(NODE_TIMEOUT));
        set.map_err(|error| connection.broken("setting up the connection", error))?;
        Ok(connection)
    }

    fn over(stream: TcpStream, peer: String, timeout: Option<Duration>) -> Result<Self> {
        let connection = Connection {
            stream,
            peer,
            frame_timeout: FRAME_TIMEOUT,
            frame_deadline_ms: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            made: Instant::now(),
            send_pace: SendPace::new(),
            is_welcome: AtomicBool::new(false),
            given_up: OnceLock::new(),
            tls: OnceLock::new(),
        };
        let set = connection.set_options(timeout);
        set.map_err(|error| connection.broken("setting up the connection", error))?;
        Ok(connection)
    }

    /// Shakes hands as a node.
    pub(crate) fn accept_tls(&self, server: &TlsServer, deadline: Instant) -> Result<()> {
        self.shake_hands(server.stream()?, deadline)
    }

    fn shake_hands(&self, tls: TlsStream, deadline: Instant) -> Result<()> {
        const WHAT: &str = "shaking hands for TLS";
        let receive = |into: &mut [u8]| self.receive_before(deadline, into);
        let shaken = tls.shake_hands(receive, |bytes| self.put_raw(&[IoSlice::new(bytes)], SendFlags::NOSIGNAL));
        if let Err(error) = shaken {
            return Err(match TlsRefusal::of(&error) {
                Some(refusal) => Error::Refused(ErrorCode::TlsRefused, format!("{}: {refusal}", self.peer)),
                None => self.broken(WHAT, error),
            });
        }
        self.stream.set_read_timeout(None).map_err(|error| self.broken(WHAT, error))?;
        assert!(self.tls.set(tls).is_ok(), "hands are shaken once");
        Ok(())
    }

    fn set_options(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        probe_silent_peer(&self.stream)?;
        // Keep-alive sleeps while sent bytes wait to be confirmed; this limits that wait. A client has no such limit: the
        // kernel takes a node that holds its client back for a silent one.
        if let Some(timeout) = timeout {
            sockopt::set_tcp_user_timeout(&self.stream, timeout.as_millis() as u32)?;
        }
        Ok(())
    }

    /// Waits for something to receive, or for the end; false when nothing has come for so long.
    pub(crate) fn wait_to_receive(&self, timeout: Duration) -> bool {
        if self.tls.get().is_some_and(TlsStream::has_received) {
            return true;
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // A connection that cannot be waited for is read from, which returns the reason.
        !matches!(poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout)), Ok(0))
    }

    /// Returns the peer's address, as errors name it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Returns the next frame, or none when the peer closed the connection between two. Call it from one thread at a
    /// time.
    pub fn receive(&self) -> Result<Option<Frame>> {
        self.receive_charged(&mut |_| Duration::ZERO)
    }

    /// As [`Connection::receive`]; `charge` is called before each step of this many bytes takes memory. It may wait,
    /// and returns how long: a peer that is not read from is not slow.
    pub(crate) fn receive_charged(&self, charge: &mut dyn FnMut(u64) -> Duration) -> Result<Option<Frame>> {
        let mut pace = PacedReader { connection: self, pace: FramePace::new(self.frame_timeout) };
        let Some(header) = self.receive_header(&mut pace)? else { return Ok(None) };
        let body = self.take(header.body_bytes as usize, "a frame's body", &mut pace, charge)?;
        let payload = self.take(header.payload_bytes as usize, "a frame's payload", &mut pace, charge)?;
        header.check(&body, &payload).map_err(|source| self.damaged(source))?;
        Ok(Some(Frame { header, body, payload }))
    }

    /// The largest frame (bytes).
    pub(crate) const MAX_FRAME_BYTES: u64 = (MAX_BODY_BYTES as u64) + (MAX_PAYLOAD_BYTES as u64);

    /// Pauses the frame at hand: it is not read for a while, and cannot be late meanwhile.
    pub(crate) fn pause_frame(&self) {
        self.frame_deadline_ms.store(0, Ordering::Relaxed);
    }

    /// Returns how long nothing has arrived.
    pub(crate) fn silence(&self) -> Duration {
        self.made.elapsed().saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed)))
    }

    /// Ends the connection if the frame at hand is late; for another thread than the one that receives, which may be
    /// waiting for bytes.
    pub(crate) fn give_up_if_late(&self) {
        let deadline_ms = self.frame_deadline_ms.load(Ordering::Relaxed);
        if deadline_ms != 0 && self.made.elapsed().as_millis() as u64 > deadline_ms {
            self.give_up(FramePace::why(self.frame_timeout));
        }
    }

    /// Ends the connection: the thread that receives gets this error, whatever comes.
    pub(crate) fn give_up(&self, why: String) {
        if self.given_up.set(why.clone()).is_ok() {
            tracing::warn!(peer = self.peer, "connection given up: {why}");
            self.shut_receiving();
        }
    }

    /// Ends the connection for the sending thread, too: its peer does not read.
    pub(crate) fn cut_off(&self, why: &str) {
        self.give_up(why.to_owned());
        self.shut();
    }

    /// Returns whether a message is being sent that the peer takes too slowly.
    pub(crate) fn sends_slowly(&self) -> bool {
        self.send_pace.is_slow()
    }

    pub(crate) fn welcome(&self) {
        self.is_welcome.store(true, Ordering::Relaxed);
    }

    /// Returns for how long the peer has not introduced itself, if it has not.
    pub(crate) fn is_unknown_for(&self) -> Option<Duration> {
        (!self.is_welcome.load(Ordering::Relaxed)).then(|| self.made.elapsed())
    }

    /// As [`Connection::receive`], for a peer that is not known yet: a small frame without payload, whole before the
    /// deadline, however slowly it trickles in.
    pub(crate) fn receive_greeting(&self, deadline: Instant) -> Result<Option<Frame>> {
        let mut start = [0; FRAME_HEADER_BYTES];
        let mut held = 0;
        while held < start.len() {
            match self.read_before(deadline, &mut start[held..])? {
                0 if held == 0 => return Ok(None),
                0 => return Err(self.cut_short("a greeting", held, start.len())),
                count => held += count,
            }
            FrameHeader::check_start(&start[..held]).map_err(|source| self.damaged(source))?;
        }
        let header = FrameHeader::decode(&start).map_err(|source| self.damaged(source))?;
        if header.body_bytes > MAX_GREETING_BYTES || header.payload_bytes > 0 {
            let why =
                format!("a greeting of {} + {} bytes is above the limit", header.body_bytes, header.payload_bytes);
            return Err(self.damaged(format::Error::Corrupt { what: "frame header", why }));
        }
        let mut body = vec![0; header.body_bytes as usize];
        let mut held = 0;
        while held < body.len() {
            match self.read_before(deadline, &mut body[held..])? {
                0 => return Err(self.cut_short("a greeting", held, body.len())),
                count => held += count,
            }
        }
        header.check(&body, &[]).map_err(|source| self.damaged(source))?;
        Ok(Some(Frame { header, body, payload: Vec::new() }))
    }

    fn read_before(&self, deadline: Instant, into: &mut [u8]) -> Result<usize> {
        let read = match self.tls.get() {
            Some(tls) => tls.read(into, |room| self.receive_before(deadline, room)),
            None => self.receive_before(deadline, into),
        };
        read.map_err(|error| self.broken("waiting for a greeting", error))
    }

    /// Reads bytes from the socket until the deadline, however slowly they trickle in.
    fn receive_before(&self, deadline: Instant, into: &mut [u8]) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        loop {
            match (&self.stream).read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(_) if Instant::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
                read => return read,
            }
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.tls.get() {
            Some(tls) => tls.read(into, |room| (&self.stream).read(room)),
            None => (&self.stream).read(into),
        }
    }

    /// Sends one frame, its payload from the pieces one after the other. Call it from one thread at a time; after
    /// an error other than [`Error::Refused`] the connection is of no use, since half a frame may have left.
    pub fn send(&self, kind: u16, request: u64, body: &[u8], payload: &[&[u8]]) -> Result<()> {
        self.check_size(body, payload)?;
        let header = FrameHeader::of_pieces(kind, request, body, payload).encode();
        let mut pieces = pieces(&header, body, payload);
        self.put_all(&mut pieces).map_err(|error| self.broken("sending", error))
    }

    /// Refuses sizes that no frame holds.
    pub(crate) fn check_size(&self, body: &[u8], payload: &[&[u8]]) -> Result<()> {
        check_size(&self.peer, body, payload)
    }

    fn put_raw_now(&self, pieces: &[IoSlice]) -> io::Result<usize> {
        match self.put_raw(pieces, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            sent => sent,
        }
    }

    /// Uses `sendmsg` rather than `writev`: the host process may be a program in which SIGPIPE is deadly.
    fn put_raw(&self, pieces: &[IoSlice], flags: SendFlags) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(MAX_PIECES)];
        Ok(sendmsg(&self.stream, pieces, &mut SendAncillaryBuffer::default(), flags)?)
    }

    /// Returns whether a short message can be sent without waiting.
    pub(crate) fn has_room(&self) -> bool {
        let mut polled = [PollFd::new(&self.stream, PollFlags::OUT)];
        poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::OUT)
    }

    fn put_all(&self, mut pieces: &mut [IoSlice]) -> io::Result<()> {
        // Skips empty pieces, so that a count of zero below means that nothing could be sent.
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let send = |pieces: &[IoSlice]| self.put_raw(pieces, SendFlags::NOSIGNAL);
            let put = self.send_pace.step(pieces, |step| match self.tls.get() {
                Some(tls) => tls.write(step, |bytes| send(&[IoSlice::new(bytes)])),
                None => send(step),
            });
            match put {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut pieces, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads a header; none when the peer closed before its first byte. Checks the bytes as they arrive: a foreign peer
    /// may send less than a header and then wait.
    fn receive_header(&self, from: &mut PacedReader) -> Result<Option<FrameHeader>> {
        const WHAT: &str = "a frame's header";
        let mut header = [0; FRAME_HEADER_BYTES];
        let mut held = 0;
        while held < header.len() {
            match from.read(&mut header[held..]) {
                Ok(0) if held == 0 => return Ok(None),
                Ok(0) => return Err(self.cut_short(WHAT, held, header.len())),
                Ok(count) => held += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.broken(&format!("waiting for {WHAT}"), error)),
            }
            FrameHeader::check_start(&header[..held]).map_err(|source| self.damaged(source))?;
        }
        FrameHeader::decode(&header).map(Some).map_err(|source| self.damaged(source))
    }

    /// Reads the announced bytes. The announcement is not trusted: memory is taken step by step, as the bytes arrive.
    fn take(
        &self,
        count: usize,
        what: &str,
        from: &mut PacedReader,
        charge: &mut dyn FnMut(u64) -> Duration,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(STEP_BYTES));
        let mut step = FIRST_STEP_BYTES;
        while bytes.len() < count {
            let whole = count.min(bytes.len() + step);
            from.wait_longer(charge((whole - bytes.len()) as u64));
            if bytes.capacity() < whole {
                bytes.reserve_exact(count.min(2 * bytes.capacity()) - bytes.len());
            }
            let taken = from.take((whole - bytes.len()) as u64).read_to_end(&mut bytes);
            taken.map_err(|error| self.broken(&format!("waiting for {what}"), error))?;
            if bytes.len() < whole {
                return Err(self.cut_short(what, bytes.len(), count));
            }
            step = STEP_BYTES;
        }
        Ok(bytes)
    }

    /// Returns whether the connection, without TLS, stands and nothing waits to be received. Does not wait.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let peeked = recv(&self.stream, &mut [0u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Sets how long [`Connection::receive`] waits for the next bytes; for ever when none.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.stream.set_read_timeout(timeout).map_err(|error| self.broken("setting up the connection", error))
    }

    /// Ends the connection for both sides and for all threads that use it.
    pub fn shut(&self) {
        // It may be gone already, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Receives no more; what is being sent still goes out.
    pub fn shut_receiving(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends the connection so that the peer gets what was sent last, even while it is still sending: closing with
    /// unread bytes at hand would make its kernel drop ours.
    pub fn close_gently(&self) {
        if let Some(tls) = self.tls.get() {
            tls.close();
            let _ = tls.flush(|bytes| self.put_raw_now(&[IoSlice::new(bytes)]));
        }
        let _ = self.stream.shutdown(Shutdown::Write);
        if self.set_receive_timeout(Some(LINGER)).is_ok() {
            let _ = io::copy(&mut (&self.stream).take(LINGER_BYTES), &mut io::sink());
        }
        self.shut();
    }

    fn broken(&self, doing: &str, error: io::Error) -> Error {
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("the peer did nothing for too long while {doing}"),
            _ => format!("the connection broke while {doing} ({error})"),
        };
        Error::Unavailable { peer: self.peer.clone(), why }
    }

    fn cut_short(&self, what: &str, found: usize, needed: usize) -> Error {
        let why = format!("the connection ended inside {what}, after {found} of {needed} bytes");
        Error::Unavailable { peer: self.peer.clone(), why }
    }

    fn damaged(&self, source: format::Error) -> Error {
        Error::Protocol { peer: self.peer.clone(), source }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns a frame as it is sent, from where its parts lie.
fn pieces<'a>(header: &'a [u8], body: &'a [u8], payload: &[&'a [u8]]) -> Vec<IoSlice<'a>> {
    [header, body].iter().chain(payload).map(|piece| IoSlice::new(piece)).collect()
}

/// Refuses sizes that no frame holds.
pub(crate) fn check_size(peer: &str, body: &[u8], payload: &[&[u8]]) -> Result<()> {
    let payload_bytes: usize = payload.iter().map(|piece| piece.len()).sum();
    if body.len() <= MAX_BODY_BYTES as usize && payload_bytes <= MAX_PAYLOAD_BYTES as usize {
        return Ok(());
    }
    Err(Error::Refused(
        ErrorCode::CallRefused,
        format!(
            "{peer}: a message of {} + {payload_bytes} bytes is above the limit ({MAX_BODY_BYTES} + {MAX_PAYLOAD_BYTES}); \
         ask for less at once",
            body.len()
        ),
    ))
}

/// Has the kernel ask a peer that sends nothing whether it is still there.
pub(crate) fn probe_silent_peer(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?)
}

/// The bytes arriving at a connection, as one frame that must keep its pace once it has begun.
struct PacedReader<'a> {
    connection: &'a Connection,
    pace: FramePace,
}

impl PacedReader<'_> {
    fn wait_longer(&mut self, waited: Duration) {
        if !waited.is_zero() {
            self.pace.wait_longer(waited);
            self.publish_deadline();
        }
    }

    /// Shows the deadline to other threads.
    fn publish_deadline(&self) {
        let Some(deadline) = self.pace.deadline() else { return };
        let deadline_ms = deadline.saturating_duration_since(self.connection.made).as_millis() as u64;
        self.connection.frame_deadline_ms.store(deadline_ms.max(1), Ordering::Relaxed);
    }
}

impl Read for PacedReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (read, given_up) = (self.connection.read(into), &self.connection.given_up);
        if let Some(why) = given_up.get() {
            return Err(io::Error::other(why.clone()));
        }
        let (read, now) = (read?, Instant::now());
        if self.pace.is_late(now) {
            return Err(io::Error::other(FramePace::why(self.connection.frame_timeout)));
        }
        let heard_ms = now.saturating_duration_since(self.connection.made).as_millis() as u64;
        self.connection.heard_ms.store(heard_ms, Ordering::Relaxed);
        self.pace.arrived(read, now);
        self.publish_deadline();
        Ok(read)
    }
}

impl Drop for PacedReader<'_> {
    fn drop(&mut self) {
        self.connection.pause_frame();
    }
}

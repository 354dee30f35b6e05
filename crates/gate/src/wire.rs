//! One end of a connection, with TLS or without, for code that peeks at bytes before it takes them.
//!
//! Bytes are read in place (MSG_PEEK), written to the other end, and only then taken, by as many as were accepted. So
//! nothing is ever held by the gate: a thousand slow clients cost no memory, and other bytes stay where TCP's own
//! back-pressure sees them. The gate has one thread, so one buffer serves all connections.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::{AsyncBufRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::acknowledgements;
use crate::clock::Clock;
use crate::socket::{self, SLICE};

/// Room in a queue to a server is looked for after so long, should news of it have been lost.
const LOOK: Duration = Duration::from_millis(5);

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SLICE].into_boxed_slice());
}

pub(crate) enum Wire {
    Plain {
        stream: TcpStream,
        /// How many bytes must arrive before we are woken.
        least: Cell<usize>,
        /// The kernel reports when written bytes have been acknowledged.
        reports_acknowledged: bool,
    },
    Tls(RefCell<Box<TlsStream<TcpStream>>>),
}

/// The visible part of the bytes to come.
pub(crate) enum Seen<T> {
    /// Nothing yet.
    Nothing,
    /// There will be no more.
    End,
    Some(T),
}

impl Wire {
    pub fn plain(stream: TcpStream) -> Wire {
        Wire::Plain { stream, least: Cell::new(1), reports_acknowledged: false }
    }

    /// Makes a wire that reports what the other end has acknowledged, if the kernel can.
    pub fn with_acknowledgements(stream: TcpStream) -> Wire {
        let reports_acknowledged = acknowledgements::ask_for(&stream, false).is_ok();
        Wire::Plain { stream, least: Cell::new(1), reports_acknowledged }
    }

    pub fn tls(stream: impl Into<TlsStream<TcpStream>>) -> Wire {
        Wire::Tls(RefCell::new(Box::new(stream.into())))
    }

    fn with_stream<T>(&self, ask: impl FnOnce(&TcpStream) -> T) -> T {
        match self {
            Wire::Plain { stream, .. } => ask(stream),
            Wire::Tls(tls) => ask(tls.borrow().get_ref().0),
        }
    }

    /// Returns the number of bytes best written with one grant.
    pub fn whole_slice(&self) -> usize {
        self.with_stream(socket::whole_slice)
    }

    /// Returns when `want` bytes have arrived, or the end. With TLS some are enough.
    pub async fn holds(&self, want: usize) -> io::Result<()> {
        let (stream, least) = match self {
            Wire::Plain { stream, least, .. } => (stream, least),
            Wire::Tls(tls) => return poll_fn(|context| poll_bytes(tls, context)).await,
        };
        if least.replace(want) != want {
            // Only wake-ups and waits are saved by it.
            let _ = socket::wake_at(stream, want);
        }
        let is_there = || match socket::available(stream) >= want {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        loop {
            let ready = stream.ready(Interest::READABLE).await?;
            if ready.is_read_closed() {
                return Ok(());
            }
            match stream.try_io(Interest::READABLE, is_there) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Waits for `want` bytes; after `progress_timeout` fewer will do, or at once when the kernel has no room for more. Whether
    /// there is anything, or the end.
    pub async fn gathers(&self, want: usize, progress_timeout: Duration, clock: &Rc<Clock>) -> io::Result<bool> {
        if let Wire::Plain { stream, .. } = self
            && socket::has_no_room_for(stream, want)
        {
            return Ok(true);
        }
        tokio::select! {
            biased;
            done = self.holds(want) => done.map(|()| true),
            () = clock.sleep_about(progress_timeout) => Ok(self.has(1)),
        }
    }

    /// Shows at most `most` bytes to `look`, which says how many of them are to be taken, beside its result.
    pub async fn look<T>(&self, most: usize, mut look: impl FnMut(&[u8]) -> (usize, T)) -> io::Result<Seen<T>> {
        poll_fn(|context| Poll::Ready(self.look_now(context, most, &mut look))).await
    }

    /// As [`Wire::look`], within a task's poll: the task is woken when there may be more.
    pub fn look_now<T>(
        &self,
        context: &mut Context<'_>,
        most: usize,
        look: impl FnOnce(&[u8]) -> (usize, T),
    ) -> io::Result<Seen<T>> {
        match self {
            Wire::Plain { stream, .. } => BUFFER.with_borrow_mut(|buffer| {
                let most = most.min(buffer.len());
                // Asked of the kernel, not of the runtime, which believes that there is nothing while there is less
                // than `holds` was waiting for.
                let seen = match rustix::net::recv(stream, &mut buffer[..most], RecvFlags::PEEK) {
                    Ok((0, _)) => return Ok(Seen::End),
                    Ok((seen, _)) => seen,
                    Err(Errno::AGAIN | Errno::INTR) => return Ok(Seen::Nothing),
                    Err(error) => return Err(error.into()),
                };
                let (taken, found) = look(&buffer[..seen]);
                take(stream, &mut buffer[..taken])?;
                Ok(Seen::Some(found))
            }),
            Wire::Tls(tls) => {
                let mut tls = tls.borrow_mut();
                let (taken, found) = match Pin::new(&mut **tls).poll_fill_buf(context) {
                    Poll::Pending => return Ok(Seen::Nothing),
                    Poll::Ready(Ok([])) => return Ok(Seen::End),
                    Poll::Ready(Ok(bytes)) => look(&bytes[..bytes.len().min(most)]),
                    // Most HTTP ends do not say that they close; then the body's length shows whether it is whole.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Seen::End),
                    Poll::Ready(Err(error)) => return Err(error),
                };
                Pin::new(&mut **tls).consume(taken);
                Ok(Seen::Some(found))
            }
        }
    }

    /// Writes what is accepted at once, perhaps nothing.
    pub fn write_now(&self, context: &mut Context<'_>, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Wire::Plain { stream, .. } => stream.try_write(bytes),
            Wire::Tls(tls) => match Pin::new(&mut **tls.borrow_mut()).poll_write(context, bytes) {
                Poll::Ready(written) => written,
                Poll::Pending => return Ok(0),
            },
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Returns when more may be accepted, after [`Wire::write_now`] accepted less than all.
    pub async fn accepts(&self) -> io::Result<()> {
        match self {
            // The runtime takes a report on the error queue for a closed connection, which is always writable.
            // Acknowledged bytes make room.
            Wire::Plain { reports_acknowledged: true, .. } => {
                // Checked with or without a report.
                let _ = tokio::time::timeout(LOOK, self.acknowledges()).await;
                Ok(())
            }
            Wire::Plain { stream, .. } => stream.writable().await,
            Wire::Tls(_) => self.flush().await,
        }
    }

    /// Whether [`Wire::acknowledges`] ever returns.
    pub fn reports_acknowledged(&self) -> bool {
        matches!(self, Wire::Plain { reports_acknowledged: true, .. })
    }

    /// Enables or disables reports on later writes: each report costs a wake-up.
    pub fn report_acknowledgements(&self, is_wanted: bool) {
        if let Wire::Plain { stream, reports_acknowledged: true, .. } = self {
            // The first request succeeded; if this one fails, the waiter waits a little longer.
            let _ = acknowledgements::ask_for(stream, is_wanted);
        }
    }

    /// Returns when something more has been acknowledged, or the connection has broken; sometimes for nothing.
    pub async fn acknowledges(&self) {
        let Wire::Plain { stream, reports_acknowledged: true, .. } = self else { return std::future::pending().await };
        let take = || {
            acknowledgements::take(stream);
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        };
        if stream.ready(Interest::ERROR).await.is_ok() {
            let _ = stream.try_io(Interest::ERROR, take);
        }
    }

    /// With TLS, accepted bytes may not have been sent.
    pub async fn flush(&self) -> io::Result<()> {
        match self {
            Wire::Plain { .. } => Ok(()),
            Wire::Tls(tls) => poll_fn(|context| Pin::new(&mut **tls.borrow_mut()).poll_flush(context)).await,
        }
    }

    /// Whether nothing waits for [`Wire::flush`].
    pub fn is_flushed(&self) -> bool {
        match self {
            Wire::Plain { .. } => true,
            Wire::Tls(tls) => !tls_wants_write(&tls.borrow()),
        }
    }

    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| Poll::Ready(self.write_now(context, bytes))).await?;
            bytes = &bytes[written..];
            if written == 0 {
                self.accepts().await?;
            }
        }
        self.flush().await
    }

    /// As [`Wire::write_all`]; more follows at once, and the kernel may send both together.
    pub async fn write_ahead(&self, bytes: &[u8]) -> io::Result<()> {
        let Wire::Plain { stream, .. } = self else { return self.write_all(bytes).await };
        match rustix::net::send(stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(written) => self.write_all(&bytes[written..]).await,
            Err(Errno::AGAIN | Errno::INTR) => self.write_all(bytes).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Whether so many bytes have arrived. Always false for TLS.
    pub fn has(&self, bytes: usize) -> bool {
        matches!(self, Wire::Plain { stream, .. } if socket::available(stream) >= bytes)
    }

    pub fn unacknowledged(&self) -> u64 {
        self.with_stream(socket::unacknowledged)
    }

    /// Returns the bytes that the other end's kernel has ever acknowledged, and those it takes beyond.
    pub fn acknowledged_and_window(&self) -> (u64, u64) {
        self.with_stream(socket::acknowledged_and_window)
    }

    /// Whether the connection exists no longer, in either direction.
    pub fn is_gone(&self) -> bool {
        self.with_stream(socket::is_closed)
    }

    /// Whether the other end has shut down sending, or is gone.
    pub fn has_ended(&self) -> bool {
        self.with_stream(socket::has_ended)
    }

    /// Shuts down sending. A peer that has gone already is ignored.
    pub async fn finish(&self) {
        let _ = match self {
            Wire::Plain { stream, .. } => rustix::net::shutdown(stream, Shutdown::Write).map_err(Into::into),
            Wire::Tls(tls) => poll_fn(|context| Pin::new(&mut **tls.borrow_mut()).poll_shutdown(context)).await,
        };
    }

    /// Ends the connection so that the other side knows that it was not meant to end here.
    pub fn reset(self) {
        self.with_stream(|stream| {
            // It fails on connections that are gone already.
            let _ = stream.set_zero_linger();
        });
    }
}

/// Takes bytes that have been read in place: the kernel drops them without copying.
fn take(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    let mut left = bytes.len();
    while left > 0 {
        let (_, taken) = rustix::net::recv(stream, &mut bytes[..left], RecvFlags::TRUNC)?;
        if taken == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= taken;
    }
    Ok(())
}

fn tls_wants_write(tls: &TlsStream<TcpStream>) -> bool {
    match tls {
        TlsStream::Client(tls) => tls.get_ref().1.wants_write(),
        TlsStream::Server(tls) => tls.get_ref().1.wants_write(),
    }
}

fn poll_bytes(tls: &RefCell<Box<TlsStream<TcpStream>>>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut tls = tls.borrow_mut();
    match Pin::new(&mut **tls).poll_fill_buf(context) {
        Poll::Pending => Poll::Pending,
        // The next read finds the end again.
        Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
    }
}

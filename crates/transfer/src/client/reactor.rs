//! The I/O threads: at most two per process, each drives the streams whose index is its own modulo two.
//!
//! They sleep in `poll`, run on any cpu (not only on the rank's own), and block all signals, which are the
//! program's business.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};

use format::ErrorCode;

use super::reduction::ProcessReduction;
use super::secrets::Secrets;
use super::send_queue::SendQueue;
use super::stream::{Stream, Streams};
use super::stream_connection::StreamConnection;
use super::waker::Waker;
use super::window::Window;
use crate::handshake::ClientIdentity;
use crate::node_connection::STOPPED;
use crate::signals::without_signals;
use crate::{Error, Result};

pub(super) const THREADS: u32 = 2;

/// A frame without additions for this long is sent.
const IDLE: Duration = Duration::from_millis(2);
/// How often back-offs and timeouts are checked while something is wrong.
const TROUBLED_INTERVAL: Duration = Duration::from_millis(10);
/// How often nodes with outstanding requests are checked.
const WATCHED: Duration = Duration::from_millis(250);

/// An I/O thread as its callers see it.
pub(super) struct Thread {
    pub waker: Arc<Waker>,
    inbox: Mutex<Vec<Arc<Stream>>>,
    stop: AtomicBool,
}

impl Thread {
    pub fn new() -> Result<Arc<Self>> {
        let waker = Waker::new().map_err(|error| {
            Error::Refused(ErrorCode::SystemError, format!("no event descriptor for the I/O thread: {error}"))
        })?;
        Ok(Arc::new(Thread { waker: Arc::new(waker), inbox: Mutex::default(), stop: AtomicBool::new(false) }))
    }

    /// Makes the thread drive this stream too.
    pub fn adopt(&self, stream: Arc<Stream>) {
        self.inbox.lock().expect("pushing a stream does not panic").push(stream);
        self.waker.wake();
    }

    pub fn wake(&self) {
        self.waker.wake();
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// The process as its I/O threads see it.
pub(super) struct IoContext {
    pub identity: ClientIdentity,
    pub secrets: Arc<Secrets>,
    pub timeout: Duration,
    pub window: Arc<Window>,
    pub streams: Arc<Streams>,
    pub reduction: Option<Arc<ProcessReduction>>,
}

/// Starts thread `index`; `copy_on`, called at every turn, continues started operations and returns whether some still
/// wait for room.
pub(super) fn start(
    index: u32,
    thread: Arc<Thread>,
    context: Arc<IoContext>,
    copy_on: impl Fn() -> bool + Send + 'static,
) -> Result<()> {
    let run = move || {
        run_anywhere();
        drive(&thread, &context, copy_on);
    };
    let spawned = without_signals(|| std::thread::Builder::new().name(format!("thalweg-io-{index}")).spawn(run));
    spawned.map(drop).map_err(|error| {
        Error::Refused(ErrorCode::SystemError, format!("the I/O thread could not be started: {error}"))
    })
}

fn drive(thread: &Thread, context: &IoContext, copy_on: impl Fn() -> bool) {
    let mut connections: Vec<StreamConnection> = Vec::new();
    let mut is_copying = false;
    while !thread.stop.load(Ordering::SeqCst) {
        thread.waker.falling_asleep();
        let adopted = std::mem::take(&mut *thread.inbox.lock().expect("pushing a stream does not panic"));
        connections.extend(adopted.into_iter().map(StreamConnection::new));
        let now = Instant::now();
        connections.iter_mut().for_each(|connection| connection.step(context, now));
        let planned = timeout(context, &connections, is_copying);
        let wakeup = sleep(thread, &connections, planned);
        thread.waker.awake();
        // A process that was stopped for a while has not waited for its nodes meanwhile.
        let stopped = planned.map_or(Duration::ZERO, |planned| now.elapsed().saturating_sub(planned));
        if stopped > STOPPED {
            connections.iter_mut().for_each(|connection| connection.stopped(stopped));
        }
        match wakeup {
            Wakeup::Of(ready) => {
                let now = Instant::now();
                ready.into_iter().for_each(|index| connections[index].ready(context, now));
            }
            Wakeup::None => connections.iter().for_each(seal_idle_frames),
        }
        is_copying = copy_on();
    }
}

enum Wakeup {
    /// These connections are ready; none when a caller woke the thread.
    Of(Vec<usize>),
    /// The time passed and nothing happened.
    None,
}

/// Sleeps until a socket, a caller or the clock needs attention.
fn sleep(thread: &Thread, connections: &[StreamConnection], planned: Option<Duration>) -> Wakeup {
    let mut polled = vec![PollFd::from_borrowed_fd(thread.waker.fd(), PollFlags::IN)];
    let mut of = Vec::with_capacity(connections.len());
    for (index, connection) in connections.iter().enumerate() {
        if let Some((socket, flags)) = connection.interest() {
            polled.push(PollFd::from_borrowed_fd(socket, flags));
            of.push(index);
        }
    }
    let timeout = planned.map(|time| Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos() as _ });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(0) => return Wakeup::None,
        Ok(_) => {}
        Err(_) => return Wakeup::Of(Vec::new()),
    }
    let has_news = |index: &usize| !polled[index + 1].revents().is_empty();
    Wakeup::Of((0..of.len()).filter(has_news).map(|index| of[index]).collect())
}

fn timeout(context: &IoContext, connections: &[StreamConnection], is_copying: bool) -> Option<Duration> {
    if connections.iter().any(|connection| !connection.stream.unsealed().is_empty()) {
        return Some(IDLE);
    }
    if is_copying || connections.iter().any(StreamConnection::is_troubled) {
        return Some(TROUBLED_INTERVAL);
    }
    connections.iter().any(|connection| connection.is_watched(context)).then_some(WATCHED)
}

fn seal_idle_frames(connection: &StreamConnection) {
    connection.stream.unsealed().iter().for_each(SendQueue::seal_if_idle);
}

/// Lifts the thread's CPU binding: MPI launchers bind ranks to cores, and these threads are better off on any other.
fn run_anywhere() {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    // Refused in some sandboxes; the thread then shares the rank's cores.
    let _ = sched_setaffinity(None, &all);
}

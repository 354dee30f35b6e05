//! A server's progress towards its end, and the wake-up of the thread that accepts.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// How soon a connection's thread notices that a suspended server goes on to its end, and how long it waits for that.
const TICK: Duration = Duration::from_millis(20);
const SUSPENDED_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Closing {
    stopping: AtomicBool,
    suspended: AtomicBool,
    bell: OwnedFd,
}

impl Closing {
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Closing { stopping: AtomicBool::new(false), suspended: AtomicBool::new(false), bell })
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub fn suspend(&self) {
        self.suspended.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::SeqCst)
    }

    /// Returns whether neither connections nor requests are accepted any more.
    pub fn takes_nothing(&self) -> bool {
        self.is_stopping() || self.is_suspended()
    }

    /// Waits for a connection, or for the end of accepting.
    pub fn wait_for(&self, listener: &TcpListener) -> io::Result<()> {
        let mut sockets =
            [PollFd::new(listener, PollFlags::IN), PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)];
        poll(&mut sockets, None)?;
        Ok(())
    }

    /// Waits while the program is about to be replaced, during which sends to clients complete.
    pub fn wait_while_suspended(&self) {
        let deadline = Instant::now() + SUSPENDED_TIMEOUT;
        while self.is_suspended() && !self.is_stopping() && Instant::now() < deadline {
            thread::sleep(TICK);
        }
    }

    fn ring(&self) {
        // The bell stays set: nothing is accepted any more.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

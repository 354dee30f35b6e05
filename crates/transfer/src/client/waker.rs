//! Wakes an I/O thread that sleeps in `poll`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

pub(super) struct Waker {
    event: OwnedFd,
    /// Set before the thread checks for work a last time; only then is a system call worth it.
    asleep: AtomicBool,
}

impl Waker {
    pub fn new() -> rustix::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { event, asleep: AtomicBool::new(false) })
    }

    pub fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // Fails only when the counter is full, and then the thread wakes anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Notes that the thread is about to check for work and then to sleep.
    pub fn falling_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

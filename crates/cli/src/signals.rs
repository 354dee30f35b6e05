//! The signals that ask a process to end, waited for by one thread.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// SIGTERM, SIGINT and SIGHUP, kept back for [`Signals::wait`].
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    set: libc::sigset_t,
}

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub signal: libc::c_int,
    /// A process sent it to this one. Otherwise the terminal did, to all processes of the foreground.
    pub was_sent: bool,
}

impl Signals {
    /// Blocks the signals in this thread and all it starts from now on.
    pub fn block() -> Self {
        // SAFETY: the set is initialised by sigemptyset before it is used; the calls touch nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ENDING {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals { set }
        }
    }

    /// Returns when one of them came.
    pub fn wait(&self) -> Came {
        loop {
            // SAFETY: the set is initialised, and `about` outlives the call.
            let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let signal = unsafe { libc::sigwaitinfo(&self.set, &mut about) };
            // Other signals may interrupt the waiting.
            if signal > 0 {
                return Came { signal, was_sent: about.si_code <= 0 };
            }
        }
    }

    /// Returns when one of them came, and leaves it pending: a process that runs its program again meanwhile finds it there.
    pub fn await_pending(&self) -> std::io::Result<()> {
        // SAFETY: the set is initialised.
        let watching = unsafe { libc::signalfd(-1, &self.set, libc::SFD_CLOEXEC) };
        if watching < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, for nobody else.
        let watching = unsafe { OwnedFd::from_raw_fd(watching) };
        let mut polled = libc::pollfd { fd: watching.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        while !self.is_pending() {
            // SAFETY: one initialised pollfd outlives the call. Other signals may interrupt the waiting.
            unsafe { libc::poll(&mut polled, 1, -1) };
        }
        Ok(())
    }

    /// Whether one of them came and was not waited for.
    pub fn is_pending(&self) -> bool {
        // SAFETY: the set is initialised by sigpending before it is used.
        unsafe {
            let mut pending = std::mem::zeroed();
            libc::sigpending(&mut pending) == 0 && ENDING.iter().any(|signal| libc::sigismember(&pending, *signal) == 1)
        }
    }

    /// The command will not find them blocked.
    pub fn unblock_for(self, command: &mut Command) {
        let unblock = move || {
            // SAFETY: the set is initialised.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.set, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(unblock) };
    }
}

//! The signals that ask a process to end, waited for by one thread; and the one for files that are too long.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// A file would become longer than this process may make one (`ulimit -f`).
const LIMIT: libc::c_int = libc::SIGXFSZ;

/// Has a write beyond the limit of file sizes fail with an error, which can be told, instead of ending the process.
pub(crate) fn fail_beyond_file_limit() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(LIMIT, libc::SIG_IGN) };
}

/// What ends a process in good order, once it is ready for that.
pub(crate) struct Ending {
    came: Receiver<Came>,
    is_ready: Arc<Mutex<bool>>,
}

impl Ending {
    /// From now on the signals are for [`Ending::wait`].
    pub fn ready(&self) {
        *self.is_ready.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Returns when one of them came.
    pub fn wait(&self) {
        // The thread that sends lives as long as the process.
        let _ = self.came.recv();
    }
}

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

    /// Ends the process when one of them comes, until it is ready to end in good order.
    pub fn end_until_ready(self) -> io::Result<Ending> {
        let is_ready = Arc::<Mutex<bool>>::default();
        let (tell, came) = channel();
        let ready = is_ready.clone();
        let watch = move || {
            let mut signal = self.wait();
            while *ready.lock().unwrap_or_else(PoisonError::into_inner) {
                // Nobody listens any more: it is ending.
                if tell.send(signal).is_err() {
                    return;
                }
                signal = self.wait();
            }
            std::process::exit(128 + signal.signal);
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch)?;
        Ok(Ending { came, is_ready })
    }

    /// The command will not find them blocked, nor [`LIMIT`] ignored.
    pub fn unblock_for(self, command: &mut Command) {
        let unblock = move || {
            // SAFETY: the set is initialised.
            unsafe {
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.set, std::ptr::null_mut());
                libc::signal(LIMIT, libc::SIG_DFL);
            }
            Ok(())
        };
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(unblock) };
    }
}

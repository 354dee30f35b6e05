//! The signals that ask a process to end, waited for by one thread; and the one for files that are too long.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output::say;

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// A file would become longer than this process may make one (`ulimit -f`).
const LIMIT: libc::c_int = libc::SIGXFSZ;
/// Work that is finished within this time after a signal needs no word about it.
const SHORT: Duration = Duration::from_secs(1);
const STILL_BUSY: &str = "thalweg: interrupted; what is under way is finished first, interrupt again to end at once";

/// Makes a write beyond the limit of file sizes fail with an error, which can be reported, instead of ending the
/// process.
pub(crate) fn fail_beyond_file_limit() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(LIMIT, libc::SIG_IGN) };
}

/// Ends a process in good order, once it is ready for that.
pub(crate) struct Ending {
    came: Receiver<()>,
    is_ready: Arc<Mutex<bool>>,
}

impl Ending {
    /// Directs the signals to [`Ending::wait`].
    pub fn ready(&self) {
        *self.is_ready.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Returns when one of them came. It stays pending: a process that runs its program again meanwhile finds it there.
    pub fn wait(&self) {
        // The thread that sends lives as long as the process.
        let _ = self.came.recv();
    }
}

/// For a command that has work to finish when it is interrupted: the first signal is noted once that work is under way,
/// and another ends the process at once.
#[derive(Clone, Default)]
pub(crate) struct Interruption {
    noted: Arc<Noted>,
}

#[derive(Default)]
struct Noted {
    is_heeded: Mutex<bool>,
    signal: AtomicI32,
}

impl Interruption {
    /// Watches for the signals that this process does not ignore (`nohup`, a shell's background). Must be called before
    /// there are other threads.
    pub fn watch() -> io::Result<Self> {
        let interruption = Interruption::default();
        let signals = Signals::block_unless_ignored();
        let noted = interruption.noted.clone();
        let watch = move || {
            loop {
                let signal = signals.wait().signal;
                let is_heeded = noted.is_heeded.lock().unwrap_or_else(PoisonError::into_inner);
                if !*is_heeded || noted.signal.swap(signal, Ordering::SeqCst) != 0 {
                    end_at_once(signal);
                }
                drop(is_heeded);
                if let Some(another) = signals.wait_for(SHORT) {
                    end_at_once(another.signal);
                }
                // Whoever reads it may have stopped reading: another signal is waited for meanwhile.
                let _ = std::thread::Builder::new().spawn(|| say(STILL_BUSY));
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch)?;
        Ok(interruption)
    }

    /// Whether signals are noted from now on, instead of ending the process.
    pub fn heed(&self, is_heeded: bool) {
        *self.noted.is_heeded.lock().unwrap_or_else(PoisonError::into_inner) = is_heeded;
    }

    pub fn has_come(&self) -> bool {
        self.signal().is_some()
    }

    pub fn signal(&self) -> Option<libc::c_int> {
        Some(self.noted.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

fn end_at_once(signal: libc::c_int) -> ! {
    recipe::abandon_all();
    std::process::exit(128 + signal);
}

/// SIGTERM, SIGINT and SIGHUP, kept back for [`Signals::wait`].
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    set: libc::sigset_t,
}

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedSignal {
    pub signal: libc::c_int,
    /// A process sent it to this one. Otherwise the terminal did, to all processes of the foreground.
    pub was_sent: bool,
}

impl Signals {
    /// Blocks the signals in this thread and all it starts from now on.
    pub fn block() -> Self {
        Self::block_those(|_| true)
    }

    /// The same without those that this process ignores: a blocked signal is kept although it is ignored.
    fn block_unless_ignored() -> Self {
        Self::block_those(|signal| {
            // SAFETY: only the present action is read, into memory that outlives the call.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut action) != 0 || action.sa_sigaction != libc::SIG_IGN
            }
        })
    }

    fn block_those(is_meant: impl Fn(libc::c_int) -> bool) -> Self {
        // SAFETY: the set is initialised by sigemptyset before it is used; the calls touch nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ENDING.into_iter().filter(|signal| is_meant(*signal)) {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals { set }
        }
    }

    /// Returns when one of them came.
    pub fn wait(&self) -> ReceivedSignal {
        loop {
            // SAFETY: the set is initialised, and `about` outlives the call.
            let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let signal = unsafe { libc::sigwaitinfo(&self.set, &mut about) };
            // Other signals may interrupt the waiting.
            if signal > 0 {
                return ReceivedSignal { signal, was_sent: about.si_code <= 0 };
            }
        }
    }

    /// As [`Signals::wait`], for so long.
    fn wait_for(&self, time: Duration) -> Option<ReceivedSignal> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = libc::timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            // SAFETY: the set and the time are initialised, and `about` outlives the call.
            let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let signal = unsafe { libc::sigtimedwait(&self.set, &mut about, &left) };
            if signal > 0 {
                return Some(ReceivedSignal { signal, was_sent: about.si_code <= 0 });
            }
            if Instant::now() >= until {
                return None;
            }
        }
    }

    /// Ends the process when one of them comes, until it is ready to end in good order.
    pub fn end_until_ready(self) -> io::Result<Ending> {
        let is_ready = Arc::<Mutex<bool>>::default();
        let (sender, came) = channel();
        let ready = is_ready.clone();
        let watching = self.watching()?;
        let watch = move || {
            self.await_pending(&watching);
            if !*ready.lock().unwrap_or_else(PoisonError::into_inner) {
                std::process::exit(128 + self.wait().signal);
            }
            // Without a receiver the process is ending.
            let _ = sender.send(());
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch)?;
        Ok(Ending { came, is_ready })
    }

    /// Makes a descriptor that can be read while one of them is pending.
    fn watching(&self) -> io::Result<OwnedFd> {
        // SAFETY: the set is initialised.
        let watching = unsafe { libc::signalfd(-1, &self.set, libc::SFD_CLOEXEC) };
        if watching < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(watching) })
    }

    /// Returns when one of them came, and does not take it.
    fn await_pending(&self, watching: &OwnedFd) {
        let mut polled = libc::pollfd { fd: watching.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one initialised pollfd outlives the call. Other signals may interrupt the waiting.
        while unsafe { libc::poll(&mut polled, 1, -1) } <= 0 {}
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

//! Waiting to be told to stop.

/// SIGTERM, SIGINT and SIGHUP, kept back for [`Signals::wait`].
pub(crate) struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals in this thread and all it starts from now on.
    pub fn block() -> Self {
        // SAFETY: the set is initialised by sigemptyset before it is used; the calls touch nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals { set }
        }
    }

    /// Returns when one of them came.
    pub fn wait(&self) {
        let mut signal = 0;
        // SAFETY: the set is initialised, and `signal` outlives the call.
        unsafe { libc::sigwait(&self.set, &mut signal) };
    }
}

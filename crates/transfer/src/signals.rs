//! Threads started inside other people's programs leave the signals to them.

/// Calls `start`, which starts a thread, with all signals blocked. Threads inherit the mask of signals of the one that starts them.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets live on this stack and are initialised by the calls they are passed to.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

//! Locking and waiting, in the one way this crate does it.

use std::sync::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};
use std::time::Duration;

/// Locks a mutex. A panic under a lock is a broken invariant: the next thread that locks it panics too.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked while it held this lock")
}

/// Waits for a notification; returns with the lock held again.
pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).expect("no thread panicked while it held this lock")
}

/// As [`wait`], for at most this long.
pub fn wait_timeout<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
    condition.wait_timeout(guard, timeout).expect("no thread panicked while it held this lock")
}

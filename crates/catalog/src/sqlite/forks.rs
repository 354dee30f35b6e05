//! SQLite in forked processes.
//!
//! SQLite keeps a list for each process: the files it has open, and the locks the process holds on them. A forked child
//! inherits the list, but none of the locks. It would wait for a transaction of its parent as if the transaction were
//! its own, until the timeout, and would read and write without locks that it believes it holds. So each generation of
//! processes shows SQLite another device number: what a child opens is not on the inherited list, and the inherited
//! connections are never used. The mutexes that all connections share are held during a fork; otherwise one that
//! another thread holds at that moment would stay locked in the child.

use std::ffi::{CStr, c_char, c_int};
use std::mem::transmute;
use std::ptr::null;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi;

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Device numbers do not use these bits.
const GENERATION_SHIFT: u32 = 48;

/// All static mutexes, in the order in which SQLite takes one while it holds another. APP1 to APP3 are unused here.
const MUTEXES: [c_int; 9] = [
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_VFS2,
    ffi::SQLITE_MUTEX_STATIC_VFS3,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
    ffi::SQLITE_MUTEX_STATIC_MEM,
];

/// Prepares SQLite for forks of this process; called before any file is opened.
pub(super) fn prepare() {
    static PREPARED: Once = Once::new();
    // SAFETY: the replaced calls have the types of SQLite's table of system calls, and the handlers only take and release
    // mutexes that live as long as the process.
    PREPARED.call_once(|| unsafe {
        // The first random number takes two mutexes in the other order.
        let mut random = 0u8;
        ffi::sqlite3_randomness(1, (&raw mut random).cast());
        replace(c"fstat", transmute::<unsafe extern "C" fn(_, _) -> _, unsafe extern "C" fn()>(fstat));
        replace(c"stat", transmute::<unsafe extern "C" fn(_, _) -> _, unsafe extern "C" fn()>(stat));
        let registered = libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child));
        assert_eq!(registered, 0, "pthread_atfork has no memory");
    });
}

unsafe fn replace(name: &CStr, call: unsafe extern "C" fn()) {
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(null());
        let set = (*vfs).xSetSystemCall.expect("SQLite's VFS for Unix has system calls");
        assert_eq!(set(vfs, name.as_ptr(), Some(call)), ffi::SQLITE_OK, "SQLite does not make the call {name:?}");
    }
}

unsafe extern "C" fn fstat(descriptor: c_int, found: *mut libc::stat) -> c_int {
    unsafe { in_this_generation(libc::fstat(descriptor, found), found) }
}

unsafe extern "C" fn stat(path: *const c_char, found: *mut libc::stat) -> c_int {
    unsafe { in_this_generation(libc::stat(path, found), found) }
}

unsafe fn in_this_generation(returned: c_int, found: *mut libc::stat) -> c_int {
    if returned == 0 {
        unsafe { (*found).st_dev ^= GENERATION.load(Ordering::Relaxed) << GENERATION_SHIFT };
    }
    returned
}

unsafe extern "C" fn before_fork() {
    for mutex in MUTEXES {
        unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(mutex)) };
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    for mutex in MUTEXES.into_iter().rev() {
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(mutex)) };
    }
}

unsafe extern "C" fn after_fork_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    unsafe { after_fork_in_parent() };
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rusqlite::Connection;

    /// Forks, and returns what the child's function found, if it did within the timeout.
    fn in_child(timeout: Duration, act: impl FnOnce() -> bool) -> Option<bool> {
        // SAFETY: the child only runs the function and exits, without the destructors of what it inherited.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(false);
                libc::_exit(if found { 0 } else { 1 });
            }
            let (begun, mut status) = (Instant::now(), 0);
            while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                if begun.elapsed() > timeout {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &raw mut status, 0);
                    return None;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Some(status == 0)
        }
    }

    fn scratch() -> (tempfile::TempDir, Connection, impl Fn() -> Connection) {
        super::prepare();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog");
        let open = move || {
            let connection = Connection::open(&path).unwrap();
            connection.busy_timeout(Duration::from_millis(300)).unwrap();
            connection
        };
        let first = open();
        first.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        (folder, first, open)
    }

    #[test]
    fn a_child_waits_for_no_transaction_that_its_parent_had_under_way_at_the_fork() {
        let (_folder, parents, open) = scratch();
        let (sender, committed) = std::sync::mpsc::channel();
        let holder = std::thread::spawn(move || {
            parents.execute_batch("BEGIN IMMEDIATE").unwrap();
            sender.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            parents.execute_batch("COMMIT").unwrap();
        });
        committed.recv().unwrap();
        let written = in_child(Duration::from_secs(20), || {
            std::thread::sleep(Duration::from_secs(1));
            open().execute_batch("INSERT INTO t VALUES (1)").is_ok()
        });
        holder.join().unwrap();
        assert_eq!(written, Some(true));
    }

    #[test]
    fn a_child_and_its_parent_exclude_each_other() {
        let (_folder, parents, open) = scratch();
        parents.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        let refused = in_child(Duration::from_secs(20), || {
            let own = open();
            own.execute_batch("BEGIN IMMEDIATE").unwrap();
            // The parent's connection is not used: another process asks on its behalf.
            in_child(Duration::from_secs(10), || open().execute_batch("BEGIN IMMEDIATE").is_err()) == Some(true)
        });
        assert_eq!(refused, Some(true));
        // A reader of the parent keeps the log from being begun anew under it.
        let reset = in_child(Duration::from_secs(20), || {
            let own = open();
            own.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            let busy = own.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
            busy == 1
        });
        assert_eq!(reset, Some(true));
    }
}

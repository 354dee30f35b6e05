//! How long SQLite's locks are waited for while other processes hold them.
//!
//! Writers take turns, and a writer waits for as long as others write. While the holder stands still, or only reads, the
//! catalog does not change: then the wait ends after seconds with an error that names the holder.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::failure::{Attempt, Failure};
use super::lock_holders::LockHolders;
use super::unlocked::Stamp;
use crate::Error;

/// SQLite itself waits this long, in steps of up to 100 ms; we then check what happens, and try again.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a writer waits for its turn while others write.
const TURN_TIMEOUT: Duration = Duration::from_secs(300);
/// How long without a change of the catalog: the sync of a large transaction takes long on a slow disk.
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);
/// How long without a change where all holders are stopped, or hold their locks for reading.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// An observation this old says nothing about the present holder.
const SEEN_TTL: Duration = Duration::from_secs(5);
/// Between two attempts of which SQLite did not wait in the first.
const PAUSE: Duration = Duration::from_millis(2);

/// The shared observations of all waiting writers: the next of them does not begin to wait anew.
pub(super) struct LockTimeouts {
    path: PathBuf,
    quiet: Mutex<Option<Quiet>>,
}

/// The catalog as it was at each attempt from one moment to another.
struct Quiet {
    stamp: Stamp,
    since: Instant,
    seen: Instant,
}

impl LockTimeouts {
    pub fn on(path: &Path) -> Self {
        LockTimeouts { path: path.to_owned(), quiet: Mutex::default() }
    }

    /// Tries again for as long as other processes are in the way, up to the timeouts.
    pub fn retry<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Attempt<T> {
        let begun = Instant::now();
        loop {
            match attempt() {
                Err(failure) if failure.is_busy() => {
                    let quiet_time = self.note_busy();
                    if begun.elapsed() >= TURN_TIMEOUT || self.is_stuck(quiet_time) {
                        return Err(self.explain(failure, quiet_time));
                    }
                    std::thread::sleep(PAUSE);
                }
                other => {
                    *self.quiet.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return other;
                }
            }
        }
    }

    /// Returns for how long the catalog has not changed while its lock could not be had.
    fn note_busy(&self) -> Duration {
        let now = Instant::now();
        let Ok(stamp) = Stamp::of(&self.path) else { return Duration::ZERO };
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |quiet: &Quiet| quiet.stamp == stamp && now - quiet.seen < SEEN_TTL;
        let since = quiet.as_ref().filter(|quiet| goes_on(quiet)).map_or(now, |quiet| quiet.since);
        *quiet = Some(Quiet { stamp, since, seen: now });
        now - since
    }

    fn is_stuck(&self, quiet_time: Duration) -> bool {
        quiet_time >= QUIET_TIMEOUT || (quiet_time >= IDLE_TIMEOUT && LockHolders::of(&self.path).are_idle())
    }

    fn explain(&self, failure: Failure, quiet_time: Duration) -> Failure {
        // Read without locks: it is not a lock that is waited for.
        if matches!(failure, Failure::ChangedMeanwhile) {
            return failure;
        }
        let holders = LockHolders::of(&self.path);
        let why = match quiet_time >= IDLE_TIMEOUT {
            true => format!(
                "another process{holders} has held its lock for {} s and written nothing; end that, and run this again",
                quiet_time.as_secs()
            ),
            false => format!("other processes{holders} have kept writing to it; run this again when they are done"),
        };
        Error::Unavailable { peer: self.path.display().to_string(), why }.into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::{Names, Purpose, SqliteCatalog};

    /// Another process that locks bytes of the log's index as `how` says, and stays.
    fn holder(index: &Path, how: &str) -> Child {
        let program = format!(
            "import fcntl,sys,time;f=open(sys.argv[1],'rb+');fcntl.lockf(f,fcntl.{how},1,120);print(flush=True);time.sleep(600)"
        );
        let mut child =
            Command::new("python3").args(["-c", &program]).arg(index).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn begins_within(catalog: &SqliteCatalog, seconds: u64) -> String {
        let begun = Instant::now();
        let error = catalog.begin(Purpose::Read, 1000).unwrap_err().to_string();
        assert!(begun.elapsed() < Duration::from_secs(seconds), "{:?}: {error}", begun.elapsed());
        error
    }

    #[test]
    fn a_holder_that_reads_or_is_stopped_is_named_after_seconds_and_the_next_writer_waits_less() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("catalog");
        let index = scratch.path().join("catalog-shm");
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        catalog.begin(Purpose::Read, 1000).unwrap();
        for (how, signal) in [("LOCK_SH", None), ("LOCK_EX", Some(rustix::process::Signal::STOP))] {
            let child = holder(&index, how);
            let process = rustix::process::Pid::from_child(&child);
            signal.into_iter().for_each(|signal| rustix::process::kill_process(process, signal).unwrap());
            let error = begins_within(&catalog, 20);
            assert!(error.contains(&format!("process {} of user", child.id())), "{error}");
            assert!(error.contains("written nothing"), "{error}");
            begins_within(&catalog, 3);
            end(child);
            catalog.begin(Purpose::Read, 1000).unwrap();
        }
    }

    #[test]
    fn a_holder_that_may_be_writing_is_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("catalog");
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        catalog.begin(Purpose::Read, 1000).unwrap();
        let child = holder(&scratch.path().join("catalog-shm"), "LOCK_EX");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| catalog.begin(Purpose::Read, 1000));
            std::thread::sleep(IDLE_TIMEOUT + 3 * BUSY_TIMEOUT);
            assert!(!waiting.is_finished());
            end(child);
            waiting.join().unwrap().unwrap();
        });
    }
}

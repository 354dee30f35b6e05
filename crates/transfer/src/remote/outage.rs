//! How long a node that does not answer is tried again, and when its absence is reported.
//!
//! All requests of a [`super::Remote`] share the time: one that begins while the node is away has no more left than those
//! that noticed it first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::back_off::BackOff;
use crate::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// An absence of this length is reported.
const REPORT_DELAY: Duration = Duration::from_secs(3);
/// A node that was away all the time is not tried again this soon after the last attempt.
const FRESH: Duration = Duration::from_secs(2);

type Observer = Box<dyn Fn(&str) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Registers an observer, which gets a sentence for people when a node has not answered for some seconds. The first
/// observer of a process stays.
pub fn report_absence(observer: impl Fn(&str) + Send + Sync + 'static) {
    let _ = OBSERVER.set(Box::new(observer));
}

/// Since when a node has answered none of its requests.
pub(super) struct Outage {
    timeout_ms: AtomicU64,
    state: Mutex<Option<Away>>,
}

struct Away {
    since: Instant,
    is_reported: bool,
    last_attempt: Instant,
    peer: String,
    why: String,
}

impl Outage {
    pub fn new(timeout: Duration) -> Self {
        let outage = Outage { timeout_ms: AtomicU64::new(0), state: Mutex::new(None) };
        outage.set_timeout(timeout);
        outage
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.timeout_ms.store(timeout.as_millis() as u64, Ordering::Relaxed);
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed))
    }

    /// Notes that the node has answered.
    pub fn end(&self) {
        *self.lock() = None;
    }

    /// Fails when the node was just found still away, after all the time that it may take.
    pub fn check(&self) -> Result<()> {
        match &*self.lock() {
            Some(away) if away.since.elapsed() > self.timeout() && away.last_attempt.elapsed() < FRESH => {
                Err(Error::Unavailable { peer: away.peer.clone(), why: away.why.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Notes a failed attempt of a request that has been under way since `begun`; returns when the last one may begin.
    fn note(&self, peer: &str, why: &str, begun: Instant) -> Instant {
        let now = Instant::now();
        let mut state = self.lock();
        let (since, is_reported) = state.as_ref().map_or((now, false), |away| (away.since, away.is_reported));
        let deadline = since + self.timeout();
        let must_report = !is_reported && begun.elapsed() >= REPORT_DELAY && now < deadline;
        let (peer, why) = (peer.to_owned(), why.to_owned());
        let report = must_report.then(|| {
            let seconds = (deadline - now).as_secs() + 1;
            format!("{peer} does not answer: {why}; it is tried again for {seconds} s")
        });
        *state = Some(Away { since, is_reported: is_reported || must_report, last_attempt: now, peer, why });
        drop(state);
        if let (Some(report), Some(observer)) = (report, OBSERVER.get()) {
            observer(&report);
        }
        deadline
    }

    fn lock(&self) -> MutexGuard<'_, Option<Away>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    outage: &'a Outage,
    begun: Instant,
    /// When the request's first attempt failed: others may be answered meanwhile.
    first_failure: Option<Instant>,
    pauses: BackOff,
}

impl<'a> Attempts<'a> {
    pub fn new(outage: &'a Outage) -> Self {
        Attempts { outage, begun: Instant::now(), first_failure: None, pauses: BackOff::new(FIRST_PAUSE, MAX_PAUSE) }
    }

    /// Waits before the next attempt, each time twice as long; returns the error when the time is over.
    pub fn wait(&mut self, error: Error) -> Result<()> {
        let Error::Unavailable { peer, why } = &error else { return Err(error) };
        let own_deadline = *self.first_failure.get_or_insert_with(Instant::now) + self.outage.timeout();
        let deadline = self.outage.note(peer, why, self.begun).min(own_deadline);
        let pause = self.pauses.next();
        if Instant::now() + pause > deadline {
            return Err(error);
        }
        thread::sleep(pause);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use format::ErrorCode;

    use super::*;

    fn unavailable() -> Error {
        Error::Unavailable { peer: "node".into(), why: "gone".into() }
    }

    fn attempts(outage: &Outage) -> usize {
        let mut attempts = Attempts::new(outage);
        (0..).take_while(|_| attempts.wait(unavailable()).is_ok()).count()
    }

    #[test]
    fn attempts_end_and_are_only_for_the_unavailable() {
        let outage = Outage::new(Duration::from_millis(500));
        assert!(Attempts::new(&outage).wait(Error::Refused(ErrorCode::CallRefused, "never".into())).is_err());
        let count = attempts(&outage);
        assert!((1..=4).contains(&count), "20, 40, 80 and 160 ms fit into 500 ms, 320 more do not: {count}");
    }

    #[test]
    fn requests_of_one_node_share_the_time_until_it_answers() {
        let outage = Outage::new(Duration::from_millis(500));
        attempts(&outage);
        thread::sleep(Duration::from_millis(500));
        assert_eq!(attempts(&outage), 0);
        assert!(outage.check().is_err(), "it need not be asked to know");
        outage.end();
        outage.check().unwrap();
        assert!(attempts(&outage) > 0);
    }
}

//! Whether the server took the gate's last connections: what `/health` knows of it.
//!
//! After a failed attempt the gate tries by itself until one succeeds: a load balancer that sends no clients to a gate that
//! is not well would never learn that the server is there again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::listener::ListenerContext;
use crate::s3;
use crate::upstream_scheduler::UpstreamScheduler;

/// So many attempts in a row must fail: a server that restarts, or is full for a moment, is no reason to avoid the gate.
const MIN_FAILED: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Reachability {
    /// Attempts since the last that succeeded, and why the last of them failed.
    failed: Cell<u32>,
    why: RefCell<String>,
}

impl Reachability {
    /// Returns why the server is taken for unreachable. Before any attempt it is taken for well.
    pub fn unreachable(&self) -> Option<String> {
        let failed = self.failed.get();
        (failed >= MIN_FAILED).then(|| format!("the last {failed} attempts to connect failed: {}", self.why.borrow()))
    }

    /// Returns how many attempts have failed since the last that succeeded.
    fn note<T>(&self, server: &str, dialled: &io::Result<T>) -> u32 {
        let failed = self.failed.get();
        match dialled {
            Ok(_) if failed > 0 => {
                tracing::warn!(peer = %server, "the server is reached again");
                self.failed.set(0);
            }
            Ok(_) => {}
            Err(error) => {
                if failed == 0 {
                    let what = "the server cannot be reached";
                    tracing::warn!(peer = %server, "{what}: {error}; its clients are reset until it is");
                }
                self.failed.set(failed.saturating_add(1));
                *self.why.borrow_mut() = error.to_string();
            }
        }
        self.failed.get()
    }
}

/// Notes how an attempt to connect to the listener's server ended; says once that it is down, and once that it is there
/// again.
pub(crate) fn note_dial<T>(listener: &Rc<ListenerContext>, dialled: &io::Result<T>) {
    let upstream = &listener.upstream;
    if upstream.reachability.note(upstream.server(), dialled) == 1 && dialled.is_err() {
        spawn_local(try_until_reached(Rc::downgrade(listener), Rc::downgrade(upstream)));
    }
}

async fn try_until_reached(listener: Weak<ListenerContext>, upstream: Weak<UpstreamScheduler>) {
    loop {
        sleep(RETRY_INTERVAL).await;
        let Some(upstream) = upstream.upgrade() else { return };
        if upstream.reachability.failed.get() == 0 {
            return;
        }
        let Some(listener) = listener.upgrade() else {
            // The file says something else of the server now: of that nothing is known.
            return upstream.reachability.failed.set(0);
        };
        let dialled = s3::connect(&listener).await;
        upstream.reachability.note(upstream.server(), &dialled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_unreachable_after_several_failures_in_a_row_until_the_next_success() {
        let reachability = Reachability::default();
        let note = |is_there: bool| {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            reachability.note("a:1", &is_there.then_some(()).ok_or_else(refused));
            reachability.unreachable()
        };
        assert_eq!(reachability.unreachable(), None, "nothing is known");
        assert_eq!([false, false, true, false, false].map(note), [const { None }; 5]);
        let why = note(false).expect("three failed");
        assert_eq!(why, "the last 3 attempts to connect failed: connection refused");
        assert_eq!(note(true), None);
    }
}

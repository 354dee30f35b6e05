//! The backstop of the depth: the upstream scheduler itself ends a grant that has been in service for long without any
//! progress, whatever its holder is waiting for. So no hung request, of whatever protocol, keeps others waiting for
//! ever.
//!
//! Sooner than that, all grants end when the server makes no progress with any of them while others wait: then bytes
//! that the server does not read hold the depth, and those that it does read wait for it. Exempt are long objects of
//! which the server has all: it works on what it has buffered of them, which shows no progress before a reply.

use std::rc::Weak;
use std::time::Duration;

use policy::fairness::Time;

use super::{QueueState, UpstreamScheduler};
use crate::applications::add;

const SWEEP_INTERVAL: Duration = Duration::from_millis(20);
/// A grant without progress is ended after this many usual services, within these bounds.
const TIMEOUT_SERVICES: u64 = 4;
const MIN_TIMEOUT: Duration = Duration::from_secs(4);
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// All are ended after this many of the longest usual times between two signs of progress, within these bounds.
const STALL_GAPS: u64 = 4;
const MIN_STALL: Duration = Duration::from_millis(100);
/// Of a server of which nothing is known.
const INITIAL_STALL: Duration = Duration::from_millis(500);
const MAX_STALL: Duration = Duration::from_secs(10);
/// Signs of progress that the longest time between two is remembered for.
const REMEMBERED_SIGNS: u64 = 256;

pub(super) async fn sweep_while_used(upstream: Weak<UpstreamScheduler>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(upstream) = upstream.upgrade() else { return };
        upstream.end_stale_grants();
        upstream.expire_uploads();
    }
}

impl UpstreamScheduler {
    /// Returns how long a grant may go without progress before it no longer counts.
    pub(super) fn lease_timeout(&self) -> Duration {
        let usual_ns = self.service_ns.get().max(self.request_ns.get());
        Duration::from_nanos(usual_ns.saturating_mul(TIMEOUT_SERVICES)).clamp(MIN_TIMEOUT, MAX_TIMEOUT)
    }

    fn stall_timeout(&self) -> Duration {
        if self.gap_ns.get() == 0 {
            return INITIAL_STALL;
        }
        Duration::from_nanos(self.gap_ns.get().saturating_mul(STALL_GAPS)).clamp(MIN_STALL, MAX_STALL)
    }

    /// Notes that the server works on its bytes.
    pub(super) fn note_progress(&self, now: Time) {
        let gap_ns = now.since(self.progress_at.replace(now));
        let longest_ns = self.gap_ns.get();
        self.gap_ns.set(gap_ns.max(longest_ns - longest_ns / REMEMBERED_SIGNS));
    }

    /// Time in which it has nothing to do says nothing of it.
    pub(super) fn note_start(&self, now: Time) {
        self.progress_at.set(self.progress_at.get().max(now));
    }

    fn end_stale_grants(&self) {
        let now = self.clock.now();
        let stood = Duration::from_nanos(now.since(self.progress_at.get()));
        let (queued, started) = self.state.borrow().grants.counts();
        if started == 0 {
            return;
        }
        if self.has_objects.get() && queued > 0 && stood > self.stall_timeout() {
            self.end_grants(now, |_, awaits_reply| !awaits_reply);
            self.progress_at.set(now);
        } else {
            let timeout_ns = self.lease_timeout().as_nanos() as u64;
            self.end_grants(now, |progress_at, _| now.since(progress_at) > timeout_ns);
        }
    }

    /// The bytes stay paid: the server was given them.
    fn end_grants(&self, now: Time, is_too_old: impl Fn(Time, bool) -> bool) {
        let mut state = self.state.borrow_mut();
        let QueueState { scheduler, tree, grants, .. } = &mut *state;
        let expired = grants.expire(is_too_old);
        for (id, queue, cost_bytes) in &expired {
            tree.charge(&queue.place.0, *cost_bytes);
            add(&tree.application(queue).counters.charged_bytes, *cost_bytes);
            let flow = tree.queue_node(scheduler.as_mut(), queue);
            scheduler.complete(flow, *id, *cost_bytes, now);
        }
        drop(state);
        if !expired.is_empty() {
            self.changed.notify_one();
        }
    }
}

//! The bytes written to the server and not yet acknowledged: a slice's grant is complete when the server's kernel has
//! it, not when ours has.
//!
//! The kernel has to be asked how much that is (TIOCOUTQ). We ask right after writing, and then when it reports an
//! acknowledgement; where it cannot report (TLS, old kernels), when the rate seen so far says that the oldest slice
//! should be gone. If a server reads nothing for a while, its grants are given back for others to use; it gets no more
//! until it has taken all it has.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use policy::fairness::Time;
use tokio::sync::Notify;

use crate::s3::server_reads::ServerReads;
use crate::socket::SLICE;
use crate::upstream_scheduler::reserve::Progress;
use crate::upstream_scheduler::{Admission, Grant, UpstreamScheduler};
use crate::wire::Wire;

/// The limit on bytes under way on one connection: at first and after the server took nothing, and at most. It grows as
/// the server takes slices, so that connections that it does not read hold few grants.
const FIRST_BYTES: u64 = SLICE as u64;
const MAX_BYTES: u64 = 8 * SLICE as u64;
const SHORTEST_NS: u64 = 100_000;
const LONGEST_NS: u64 = 4_000_000;
/// The interval at which we ask without a report.
const UNREPORTED_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct SendWindow {
    /// Bytes of this connection ever written and acknowledged. With TLS the kernel's queue holds a little more than
    /// what was written, so a slice is seen as acknowledged a little late, never early.
    written: Cell<u64>,
    acknowledged: Cell<u64>,
    slices: RefCell<VecDeque<Slice>>,
    /// Nanoseconds a byte takes, as last seen.
    pace_ns: Cell<f64>,
    asked_at: Cell<Time>,
    progress_at: Cell<Time>,
    /// Of the request whose reply is waited for.
    progress: Cell<Progress>,
    /// Of the long upload under way.
    reads: RefCell<Option<ServerReads>>,
    is_stalled: Cell<bool>,
    window_bytes: Cell<u64>,
    /// A task waits in `room`.
    is_awaited: Cell<bool>,
    more: Notify,
    less: Notify,
}

struct Slice {
    /// It is gone when so many bytes are acknowledged.
    end: u64,
    bytes: u64,
    /// None where the request's grant stands for it.
    grant: Option<Grant>,
}

impl SendWindow {
    pub fn new() -> Self {
        SendWindow {
            written: Cell::default(),
            acknowledged: Cell::default(),
            slices: RefCell::default(),
            pace_ns: Cell::new(1.0),
            asked_at: Cell::default(),
            progress_at: Cell::default(),
            progress: Cell::default(),
            reads: RefCell::default(),
            is_stalled: Cell::default(),
            window_bytes: Cell::new(FIRST_BYTES),
            is_awaited: Cell::default(),
            more: Notify::new(),
            less: Notify::new(),
        }
    }

    /// Notes that these bytes have been written, with the request's grant or in one that comes with `sent_before`.
    pub fn sent(&self, bytes: u64, server: &Wire, upstream: &UpstreamScheduler) {
        let now = upstream.clock().now();
        if self.slices.borrow().is_empty() {
            self.progress_at.set(now);
            self.asked_at.set(now);
        }
        self.resume(now);
        self.written.set(self.written.get() + bytes);
        self.with_admission(|admission| admission.sent(bytes));
        self.slices.borrow_mut().push_back(Slice { end: self.written.get(), bytes, grant: None });
        self.ask(server, now);
        self.more.notify_one();
    }

    /// Marks the bytes sent so far as this grant's: it is complete when they are acknowledged.
    pub fn sent_before(&self, (grant, bytes): (Grant, u64)) {
        self.slices.borrow_mut().push_back(Slice { end: self.written.get(), bytes, grant: Some(grant) });
        self.complete(self.acknowledged.get());
        self.more.notify_one();
    }

    /// A server that has all it was sent has nothing to do: time until now is not its own.
    fn resume(&self, now: Time) {
        if self.under_way() == 0 {
            self.with_progress(|progress| progress.resume(now));
        }
    }

    pub fn with_progress<T>(&self, act: impl FnOnce(&mut Progress) -> T) -> T {
        let mut progress = self.progress.get();
        let done = act(&mut progress);
        self.progress.set(progress);
        done
    }

    /// Follows the server's reads of the long upload that begins, until the reply.
    pub fn follow(&self, admission: Admission, server: &Wire) {
        self.reads.replace(Some(ServerReads::new(admission, server)));
    }

    /// Notes that the long upload that is followed, if any, is over.
    pub fn unfollow(&self) {
        drop(self.reads.take());
    }

    pub fn with_admission(&self, act: impl Fn(&Admission)) {
        self.reads.borrow().iter().for_each(|reads| act(&reads.admission));
    }

    /// Ends all grants: acknowledgements are no longer read.
    pub fn close(&self) {
        self.give_back();
        self.unfollow();
    }

    /// Notes that these bytes have been written without a grant of their own.
    pub fn sent_freely(&self, bytes: u64) {
        self.written.set(self.written.get() + bytes);
    }

    /// Returns when another slice may be written.
    pub async fn room(&self, server: &Wire, upstream: &UpstreamScheduler) {
        while self.is_full() {
            self.ask(server, upstream.clock().now());
            if self.is_full() {
                self.is_awaited.set(true);
                self.more.notify_one();
                self.less.notified().await;
            }
        }
        self.is_awaited.set(false);
    }

    fn with_reads<T>(&self, ask: impl Fn(&ServerReads) -> T) -> Option<T> {
        self.reads.borrow().as_ref().map(ask)
    }

    /// Returns whether the server has read most of what it was sent, after a while if that is not so.
    pub async fn is_read(&self, upstream: &UpstreamScheduler) -> bool {
        let is_read = || !self.with_reads(ServerReads::has_much_unread).unwrap_or(false);
        if is_read() {
            return true;
        }
        let wait_ns = self.with_reads(ServerReads::next_probe_ns).unwrap_or(0);
        let at = upstream.clock().now().after(wait_ns);
        while !is_read() {
            tokio::select! {
                biased;
                () = self.less.notified() => {}
                () = upstream.an_upload_ends() => {
                    self.with_reads(ServerReads::expect_news);
                    return false;
                }
                () = upstream.clock().sleep_until(at) => return is_read(),
            }
        }
        true
    }

    /// The server reads others first: until it reads this upload, no grant is held for it.
    pub fn is_passed_over(&self) -> bool {
        self.with_reads(ServerReads::is_passed_over).unwrap_or(false)
    }

    fn is_full(&self) -> bool {
        // An upload that the server does not read yet holds no more than one grant.
        let has_begun = self.with_reads(ServerReads::has_begun).unwrap_or(true);
        let most = match self.is_stalled.get() {
            true => 1,
            false if has_begun => self.window_bytes.get(),
            false => FIRST_BYTES,
        };
        self.under_way() >= most
    }

    pub fn under_way(&self) -> u64 {
        self.written.get() - self.acknowledged.get()
    }

    /// Completes grants for as long as the connection lives.
    pub async fn run(&self, server: &Wire, upstream: &UpstreamScheduler) {
        let mut wait_ns = SHORTEST_NS;
        loop {
            if self.slices.borrow().is_empty() && !self.is_awaited.get() {
                self.more.notified().await;
                wait_ns = self.expected_ns();
                continue;
            }
            let now = self.next_look(server, upstream, wait_ns).await;
            if self.ask(server, now) {
                wait_ns = self.expected_ns();
                continue;
            }
            wait_ns = (wait_ns * 2).min(LONGEST_NS);
            let waited = Duration::from_nanos(now.since(self.progress_at.get()));
            if waited > upstream.progress_timeout() && self.slices.borrow().iter().any(|slice| slice.grant.is_some()) {
                self.with_admission(Admission::not_read);
                if self.with_reads(|reads| reads.admission.is_passed_over()).unwrap_or(true) {
                    self.give_back();
                }
            }
        }
    }

    async fn next_look(&self, server: &Wire, upstream: &UpstreamScheduler, wait_ns: u64) -> Time {
        let clock = upstream.clock();
        if server.reports_acknowledged() {
            tokio::select! {
                biased;
                () = server.acknowledges() => {}
                () = clock.sleep_about(UNREPORTED_INTERVAL) => {}
            }
        } else {
            clock.sleep_until(clock.now().after(wait_ns)).await;
        }
        clock.now()
    }

    /// Whether something was acknowledged since it was last asked.
    fn ask(&self, server: &Wire, now: Time) -> bool {
        let acknowledged = self.written.get().saturating_sub(server.unacknowledged());
        let more = acknowledged.saturating_sub(self.acknowledged.get());
        if more == 0 {
            return false;
        }
        self.acknowledged.set(acknowledged);
        self.window_bytes.set((self.window_bytes.get() + more / 2).min(MAX_BYTES));
        let pace_ns = now.since(self.asked_at.get()) as f64 / more as f64;
        self.pace_ns.set((self.pace_ns.get() * 3.0 + pace_ns) / 4.0);
        self.asked_at.set(now);
        self.progress_at.set(now);
        self.with_progress(|progress| progress.note(now));
        self.reads.borrow().iter().for_each(|reads| reads.look(server));
        if self.under_way() == 0 {
            self.is_stalled.set(false);
        }
        self.complete(acknowledged);
        self.less.notify_one();
        true
    }

    fn complete(&self, acknowledged: u64) {
        let mut slices = self.slices.borrow_mut();
        while slices.front().is_some_and(|slice| slice.end <= acknowledged) {
            let slice = slices.pop_front().expect("it was there");
            slice.grant.into_iter().for_each(|grant| grant.complete(slice.bytes));
        }
    }

    /// Gives back the grants; their bytes stay charged, since the server will get them.
    fn give_back(&self) {
        let slices = std::mem::take(&mut *self.slices.borrow_mut());
        for Slice { bytes, grant, .. } in slices {
            grant.into_iter().for_each(|grant| grant.give_back(bytes));
        }
        self.is_stalled.set(true);
        self.window_bytes.set(FIRST_BYTES);
    }

    /// Returns when the oldest slice should be gone.
    fn expected_ns(&self) -> u64 {
        let oldest = self.slices.borrow().front().map_or(self.written.get(), |slice| slice.end);
        let left = oldest.saturating_sub(self.acknowledged.get());
        ((left as f64 * self.pace_ns.get()) as u64).clamp(SHORTEST_NS, LONGEST_NS)
    }
}

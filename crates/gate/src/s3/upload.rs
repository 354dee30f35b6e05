//! The body of a request: its first bytes pass with the request's grant, the others slice by slice, each with its own.
//!
//! The grant counts until the reply. Where a server keeps little back (`upstream_scheduler/reserve.rs`), it is one
//! slice, complete when it has been acknowledged, and the body's last slice is what counts until the reply. Long bodies
//! always pass like that; they begin as many at a time as the server reads (`upstream_scheduler/admission.rs`), and a
//! slice stays with us while much of its body lies unread at the server.

use std::rc::Rc;
use std::time::Duration;

use policy::fairness::{Completion, Time};
use tokio::task::spawn_local;

use crate::applications::add;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::limits::IDLE_TIMEOUT;
use crate::s3::pass::{Broken, Moved, Stopped, pass};
use crate::s3::request_grant::RequestGrant;
use crate::s3::server_reads::PROBE_BYTES;
use crate::socket::SLICE;
use crate::upstream_scheduler::reserve::MIN_BYTES;
use crate::upstream_scheduler::{Admission, Grant, RequestQueue, Waiting};
use crate::wire::Wire;

/// The last slice of a body may be a little longer than the others.
const MAX_SLICE: u64 = SLICE as u64 * 5 / 4;
/// How long the rest of a slice is waited for.
const GATHERING: Duration = Duration::from_millis(10);
/// Granted bytes are paid, so they need not come in whole slices. Waiting for one would cost much: a sender holds back
/// what does not fit a whole segment into our window, which opens when we take what has come.
const GRANTED_PIECE: usize = SLICE / 4;
const GATHERING_GRANTED: Duration = Duration::from_millis(1);
/// The time that each arriving slice gives back to a client (`client_timeout.rs`).
const CREDIT: Duration = Duration::from_millis(20);

/// Longer objects pass in slices that are complete when the server's kernel has them: weights then hold within an
/// object, not only over many of them.
const MAX_SHORT_BYTES: u64 = 1 << 20;

/// How an upload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// So many bytes pass with the grant.
    pub bytes: u64,
    /// Whether that is all of it. Otherwise it ends when it is acknowledged: a request that waits for more depth must
    /// hold none.
    is_whole: bool,
    /// Of all but the last of its slices.
    pub completion: Completion,
}

pub(crate) fn is_long(length: u64) -> bool {
    length > MAX_SHORT_BYTES
}

impl Connection {
    /// `length`: of the body, if it says so.
    pub(super) fn plan_upload(&self, length: Option<u64>) -> Plan {
        let upstream = self.upstream();
        let length = length.unwrap_or(u64::MAX);
        let is_long = is_long(length);
        let is_whole = !is_long && upstream.writes.bytes(length).min(upstream.max_grant()) >= length;
        let completion = if is_long { Completion::Received } else { Completion::Served };
        Plan { bytes: if is_whole { length } else { MIN_BYTES }, is_whole, completion }
    }

    /// Waits until an upload may begin that is long. One that is sent ahead of answers waits for them.
    pub(super) async fn admit(
        &self,
        plan: Plan,
        queue: &Rc<RequestQueue>,
        length: Option<u64>,
        deadline: Option<Time>,
    ) -> Option<Admission> {
        if plan.completion != Completion::Received || !self.pending.is_empty() {
            return None;
        }
        let admission = queue.admission(length, deadline);
        admission.granted().await;
        Some(admission)
    }

    /// `expects_continue`: the client waits for "100 Continue".
    pub(super) async fn upload(
        &self,
        body: &mut Body,
        queue: &Rc<RequestQueue>,
        deadline: Option<Time>,
        (plan, expects_continue): (Plan, bool),
    ) -> Result<(), End> {
        self.server.report_acknowledgements(true);
        self.is_sending.set(true);
        if expects_continue && self.pending.is_single() {
            self.body_begins(queue, deadline, plan).await?;
        }
        let mut passed = self.granted(body, queue).await;
        if passed.is_ok() && !body.is_over() {
            if !plan.is_whole {
                self.let_grant_end_when_acknowledged();
            }
            passed = self.slices(body, queue, deadline, plan.completion).await;
        }
        self.is_sending.set(false);
        self.server.report_acknowledgements(false);
        passed
    }

    /// Waits for the body of a client that waits for "100 Continue". Many servers never say it, and clients then send
    /// after a second or so: meanwhile they would keep the depth from others. A body that the server has called for passes
    /// as it comes, since the server waits for it; another one waits for its grant again.
    async fn body_begins(&self, queue: &Rc<RequestQueue>, deadline: Option<Time>, plan: Plan) -> Result<(), End> {
        let broken = |_| End::Broken(Broken::Reading);
        let clock = self.upstream().clock();
        let client_timeout = queue.application().client_timeout.get(clock.now());
        let mut left = self.upstream().progress_timeout().min(client_timeout);
        while !left.is_zero() {
            let began = clock.now();
            let has_begun = self.client.gathers(1, left.min(GATHERING_GRANTED), clock).await.map_err(broken)?;
            // From now on it is the client that is waited for, as any other is.
            if has_begun || self.has_continued.get() {
                return Ok(());
            }
            left = left.saturating_sub(Duration::from_nanos(clock.now().since(began)));
        }
        self.pending.release();
        sends_within(&self.client, IDLE_TIMEOUT).await?;
        let grant = queue.slice(plan.bytes, deadline, plan.completion);
        self.pending.hold(if self.has_continued.get() {
            spawn_local(async move { grant.await.give_back(plan.bytes) });
            RequestGrant::without_depth(plan.bytes)
        } else {
            RequestGrant::new(grant.await, plan.bytes)
        });
        Ok(())
    }

    async fn granted(&self, body: &mut Body, queue: &RequestQueue) -> Result<(), End> {
        let clock = self.upstream().clock();
        let client_timeout = &queue.application().client_timeout;
        let most = client_timeout.get(clock.now());
        let mut left = most;
        while !body.is_over() {
            let allowance = self.pending.allowance();
            if allowance == 0 {
                return Ok(());
            }
            let slice = self.slice_of(body, allowance);
            let wanted = body.declared().map_or(1, |_| slice.min(GRANTED_PIECE));
            let began = clock.now();
            let arrived = self.client.gathers(wanted, left.min(GATHERING_GRANTED), clock).await;
            left = left.saturating_sub(Duration::from_nanos(clock.now().since(began)));
            if !arrived.map_err(|_| End::Broken(Broken::Reading))? {
                if !left.is_zero() {
                    continue;
                }
                client_timeout.note_late(clock.now());
                self.pending.release();
                self.send_window.with_admission(Admission::step_back);
                return Ok(());
            }
            self.send_window.room(&self.server, self.upstream()).await;
            let moved = pass(&self.client, &self.server, body, slice).await.map_err(End::Broken)?;
            if moved.bytes > 0 {
                self.send_window.sent(moved.bytes, &self.server, self.upstream());
                self.pending.moved(moved.bytes);
                left = (left + CREDIT * moved.bytes as u32 / SLICE as u32).min(most);
                add(&queue.application().counters.up_bytes, moved.bytes);
            }
            self.after(moved.stopped).await?;
        }
        Ok(())
    }

    /// Returns at most a slice, in whole pairs of segments, or with the body's small rest.
    fn slice_of(&self, body: &Body, most: u64) -> usize {
        let rest = body.declared().filter(|left| *left <= MAX_SLICE.min(most));
        rest.unwrap_or((self.server.whole_slice() as u64).min(most)) as usize
    }

    fn let_grant_end_when_acknowledged(&self) {
        if let Some(spent) = self.pending.take_grant().and_then(RequestGrant::into_grant) {
            self.send_window.sent_before(spent);
        }
    }

    pub(super) async fn slices(
        &self,
        body: &mut Body,
        queue: &Rc<RequestQueue>,
        deadline: Option<Time>,
        completion: Completion,
    ) -> Result<(), End> {
        // A client that was late for its grant is not waited for once more.
        let mut keeps_up = false;
        while !body.is_over() {
            self.send_window.room(&self.server, self.upstream()).await;
            if self.send_window.is_passed_over() && !self.send_window.is_read(self.upstream()).await {
                self.probe(body, queue, deadline).await?;
                continue;
            }
            let slice = self.slice_of(body, u64::MAX);
            // Of bodies of unknown length, the bytes at hand are passed on.
            let wanted = body.declared().map_or(1, |_| slice);
            let is_last = body.declared() == Some(slice as u64) && !self.pending.holds_grant();
            let completion = match completion {
                Completion::Received if is_last => Completion::EndServed,
                completion => completion,
            };
            let mut grant = None;
            if keeps_up && body.declared().is_some() {
                grant = self.turn_asked_ahead(slice, queue.slice(slice as u64, deadline, completion), queue).await?;
            }
            let grant = match grant {
                Some(grant) => grant,
                None => {
                    keeps_up = self.keeps_up(wanted, queue).await?;
                    queue.slice(slice as u64, deadline, completion).await
                }
            };
            let (passed, stopped) = self.pass_as_read(body, slice, queue).await?;
            if passed == 0 {
                drop(grant);
            } else if self.send_window.is_passed_over() {
                grant.give_back(passed);
            } else if body.is_over() && !self.pending.holds_grant() {
                self.pending.hold(RequestGrant::spent(grant, passed));
            } else {
                self.send_window.sent_before((grant, passed));
            }
            self.after(stopped).await?;
        }
        Ok(())
    }

    /// Passes a granted slice, in pieces while the server has much unread; returns how much, and why not more.
    async fn pass_as_read(&self, body: &mut Body, slice: usize, queue: &RequestQueue) -> Result<(u64, Stopped), End> {
        let mut left = slice;
        while !self.send_window.is_read(self.upstream()).await {
            if self.send_window.is_passed_over() {
                return Ok(((slice - left) as u64, Stopped::Done));
            }
            let moved = self.pass_piece(body, left / 4, queue).await?;
            left -= moved.bytes as usize;
            self.after(moved.stopped).await?;
        }
        let moved = self.pass_piece(body, left, queue).await?;
        Ok(((slice - left) as u64 + moved.bytes, moved.stopped))
    }

    async fn pass_piece(&self, body: &mut Body, most: usize, queue: &RequestQueue) -> Result<Moved, End> {
        let moved = pass(&self.client, &self.server, body, most).await.map_err(End::Broken)?;
        add(&queue.application().counters.up_bytes, moved.bytes);
        if moved.bytes > 0 {
            self.send_window.sent(moved.bytes, &self.server, self.upstream());
        }
        Ok(moved)
    }

    /// Sends a little, so that the server's kernel shows whether it is read. Its grant is not held until then.
    async fn probe(&self, body: &mut Body, queue: &Rc<RequestQueue>, deadline: Option<Time>) -> Result<(), End> {
        let piece = self.slice_of(body, PROBE_BYTES as u64);
        self.arrived(body.declared().map_or(1, |_| piece)).await?;
        let grant = queue.slice(piece as u64, deadline, Completion::Received).await;
        let moved = self.pass_piece(body, piece, queue).await?;
        grant.give_back(moved.bytes);
        self.after(moved.stopped).await
    }

    /// Takes a slice's grant when the slice has arrived. It is requested before: a connection that has none queued
    /// between two slices leaves its place to others. A client that is late for its grant loses it.
    async fn turn_asked_ahead(
        &self,
        slice: usize,
        mut waiting: Waiting,
        queue: &RequestQueue,
    ) -> Result<Option<Grant>, End> {
        let grant = tokio::select! {
            biased;
            arrived = self.arrived(slice) => {
                arrived?;
                return Ok(Some(waiting.await));
            }
            grant = &mut waiting => grant,
        };
        let clock = self.upstream().clock();
        let client_timeout = &queue.application().client_timeout;
        tokio::select! {
            biased;
            arrived = self.arrived(slice) => arrived.map(|()| Some(grant)),
            () = clock.sleep_about(client_timeout.get(clock.now())) => {
                client_timeout.note_late(clock.now());
                grant.give_back(0);
                self.send_window.with_admission(Admission::step_back);
                Ok(None)
            }
        }
    }

    /// Waits for a slice; returns whether the client would have kept its grant.
    async fn keeps_up(&self, wanted: usize, queue: &RequestQueue) -> Result<bool, End> {
        let clock = self.upstream().clock();
        let timeout = queue.application().client_timeout.get(clock.now());
        tokio::select! {
            biased;
            arrived = self.arrived(wanted) => return arrived.map(|()| true),
            () = clock.sleep_about(timeout) => self.send_window.with_admission(Admission::step_back),
        }
        self.arrived(wanted).await.map(|()| false)
    }

    /// Returns when a slice has arrived, or a part of one some time ago, or the end.
    async fn arrived(&self, wanted: usize) -> Result<(), End> {
        let broken = |_| End::Broken(Broken::Reading);
        while !self.client.gathers(wanted, GATHERING, self.upstream().clock()).await.map_err(broken)? {
            sends_within(&self.client, IDLE_TIMEOUT).await?;
        }
        Ok(())
    }

    pub(super) async fn after(&self, stopped: Stopped) -> Result<(), End> {
        self.server.flush().await.map_err(|_| End::Broken(Broken::Writing))?;
        match stopped {
            Stopped::Done | Stopped::Dry => Ok(()),
            Stopped::Ended => Err(End::Cut),
            Stopped::Blocked => self.server.accepts().await.map_err(|_| End::Broken(Broken::Writing)),
        }
    }
}

/// Waits for the next byte of a body. A client that sends none of it for so long has gone, or holds its connections, and
/// the server's, for nothing.
async fn sends_within(client: &Wire, timeout: Duration) -> Result<(), End> {
    let held = tokio::time::timeout(timeout, client.holds(1)).await.map_err(|_| End::Silent)?;
    held.map_err(|_| End::Broken(Broken::Reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pair() -> (std::net::TcpStream, Wire) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        (client, Wire::plain(accepted))
    }

    #[tokio::test]
    async fn a_client_that_is_silent_within_a_body_is_given_up_and_one_that_drips_is_not() {
        use std::io::Write;
        let (mut client, wire) = pair().await;
        let limit = Duration::from_millis(200);
        assert!(matches!(sends_within(&wire, limit).await, Err(End::Silent)));
        client.write_all(b"x").unwrap();
        assert!(sends_within(&wire, limit).await.is_ok());
    }
}
